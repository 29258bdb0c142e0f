"""Arguments of `disque bench`: what they mean, and which are refused."""

import pytest

from disque.cli.bench_options import Address, Amount, UsageError, parse_address, parse_options
from disque.cli.client_tls import Trust


def test_without_arguments() -> None:
    options = parse_options([])
    assert options.address == Address("127.0.0.1", 7711)
    assert options.workloads == ("add", "get", "ack")
    assert (options.connections, options.pipeline, options.body_bytes) == (50, 1, 100)
    assert options.amount == Amount(100_000, None)
    assert options.addjob_words() == ()


def test_h_is_the_host_as_in_other_clients() -> None:
    options = parse_options(["-h", "10.0.0.1", "-p", "7712", "-a", "secret", "--user", "me", "add"])
    assert options.address == Address("10.0.0.1", 7712, "", "me", "secret")


def test_a_password_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISQUE_AUTH", "secret")
    assert parse_options([]).address.password == "secret"
    assert parse_options(["-a", "other"]).address.password == "other"


def test_options_may_stand_between_workloads() -> None:
    assert parse_options(["add", "-c", "3", "ack", "-P", "16"]).workloads == ("add", "ack")


@pytest.mark.parametrize(
    ("argv", "amount"),
    [
        (["-n", "5"], Amount(5, None)),
        (["--seconds", "2.5"], Amount(None, 2.5)),
        (["--seconds", "2", "-n", "7"], Amount(7, 2.0)),
    ],
)
def test_amount(argv: list[str], amount: Amount) -> None:
    assert parse_options(argv).amount == amount


@pytest.mark.parametrize(
    ("text", "amount"), [("0", Amount(0, None)), ("70", Amount(70, None)), ("2s", Amount(None, 2))]
)
def test_warmup_is_operations_or_seconds(text: str, amount: Amount) -> None:
    assert parse_options(["--warmup", text]).warmup == amount


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1", Address("h", 1)),
        ("[::1]:7711", Address("::1", 7711)),
        (":pa:ss@h:1", Address("h", 1, password="pa:ss")),
        ("me:p@ss@h:1", Address("h", 1, user="me", password="p@ss")),
        ("unix:/tmp/a.sock", Address(unix_path="/tmp/a.sock")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "h", "h:", "h:0", "h:65536", "h:-1", "h:x", "h:²"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="is not host:port"):
        parse_address(text)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["fly"], "unknown workload 'fly'"),
        (["-c", "0"], "0 must be 1 or more"),
        (["-c", "many"], "invalid integer value: 'many'"),
        (["-P", "0"], "-P"),
        (["-d", "-1"], "-d"),
        (["-n", "0"], "-n"),
        (["-p", "70000"], "at most 65535"),
        (["--seconds", "0"], "above zero"),
        (["--seconds", "nan"], "above zero"),
        (["--rate", "0"], "operations above zero"),
        (["--rate", "many"], "invalid number value: 'many'"),
        (["--warmup", "x"], "--warmup"),
        (["--warmup", "-1s"], "--warmup"),
        (["--bogus"], "--bogus"),
        (["get", "--delay", "1"], "nothing to fetch for get"),
        (["mixed", "-c", "1"], "a producer and a consumer"),
        (["add", "-c", "1", "--clients", "2"], "more client processes"),
        (["--compare-workload", "lpush"], "needs --compare"),
        (["--compare", "nowhere"], "is not host:port"),
        (["--user", "me"], "needs a password"),
        (["mixed", "--queues", "1001"], "at most 1000 queues"),
        (["--insecure"], "--cacert, --cert, --key, --sni and --insecure need --tls"),
        (["--tls", "-s", "/tmp/s"], "no TLS on a unix socket"),
        (["--tls", "--cacert", "/no/such/file"], "Cannot use /no/such/file"),
    ],
)
def test_what_is_refused(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_options(argv)


@pytest.mark.parametrize(
    ("processors", "connections", "clients"), [(1, 50, 1), (2, 50, 1), (3, 50, 2), (64, 50, 4), (64, 3, 1), (64, 1, 1)]
)
def test_the_server_keeps_a_processor(
    processors: int, connections: int, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disque.cli.bench_options.processors", lambda: processors)
    assert parse_options(["-c", str(connections)]).clients == clients
    assert parse_options(["-c", "60", "--processes", "3"]).clients == 3


def test_tls_is_for_the_server_under_load() -> None:
    assert parse_options([]).address.trust is None
    options = parse_options(["--tls", "--insecure", "--sni", "n", "--compare", "h:1"])
    assert options.address.trust == Trust(sni="n", insecure=True)
    assert options.compare == Address("h", 1)


def test_options_of_a_job() -> None:
    words = parse_options(["--retry", "0", "--replicate", "1", "--async"]).addjob_words()
    assert words == (b"REPLICATE", b"1", b"RETRY", b"0", b"ASYNC")
