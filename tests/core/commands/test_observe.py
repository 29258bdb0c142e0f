import pytest

from tests.core.support import NOTHING, START_MS, Bench, Client

NOW_S = START_MS // 1000


# -- TIME, MONITOR ----------------------------------------------------------------------------------------------------


def test_time_is_that_of_the_host(bench: Bench, client: Client) -> None:
    bench.host.now_us = 1_234_567_890_000_042
    assert client.raw("TIME") == b"*2\r\n$10\r\n1234567890\r\n$2\r\n42\r\n"


def test_monitor_shows_every_command_before_its_reply(bench: Bench, client: Client) -> None:
    bench.host.now_us = 1_234_567_890_000_042
    watcher = bench.client()
    assert watcher.raw("MONITOR") == b"+OK\r\n"
    client("ping", b'a"b\x01')
    assert watcher.read_raw() == b'+1234567890.000042 [127.0.0.1:50001] "ping" "a\\"b\\x01"\r\n'
    assert watcher.raw("PING") == b'+1234567890.000042 [127.0.0.1:50002] "PING"\r\n+PONG\r\n'


def test_monitor_cuts_what_is_long(bench: Bench, client: Client) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    client("ADDJOB", "q", bytes(100_000), 0)
    assert watcher.read_raw().endswith(b'"q" "%b... (99872 more bytes)" "0"\r\n' % (b"\\x00" * 128))


def test_a_second_monitor_says_nothing_itself(bench: Bench) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    assert watcher.raw("MONITOR").count(b"\r\n") == 1
    assert len(bench.node.monitors) == 1


def test_what_is_refused_is_not_shown(bench: Bench, client: Client) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    client("NONSENSE")
    client("QLEN")
    assert watcher.read() is NOTHING


@pytest.mark.parametrize(
    ("request_words", "shown"),
    [
        (("AUTH", "secret"), b'"AUTH" "(redacted)"'),
        (("HELLO", "3", "AUTH", "default", "secret"), b'"HELLO" "(redacted)"'),
        (("HELLO",), b'"HELLO"'),
        (("CONFIG", "SET", "requirepass", "secret"), b'"CONFIG" "SET" "requirepass" "(redacted)"'),
        (
            ("CONFIG", "SET", "hz", "9", "Cluster-Secret", "secret"),
            b'"CONFIG" "SET" "hz" "9" "Cluster-Secret" "(redacted)"',
        ),
        (("CONFIG", "GET", "requirepass"), b'"CONFIG" "GET" "requirepass"'),
    ],
)
def test_passwords_are_not_shown(bench: Bench, client: Client, request_words: tuple[str, ...], shown: bytes) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    client(*request_words)
    assert watcher.read_raw().split(b"] ")[1] == shown + b"\r\n"


def test_a_watcher_that_is_gone_is_told_nothing(bench: Bench, client: Client) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    watcher.disconnect()
    client("PING")
    assert bench.node.monitors == {}
    assert watcher.session.out == []


# -- SLOWLOG ----------------------------------------------------------------------------------------------------------


def test_slowlog(bench: Bench, client: Client) -> None:
    assert client.raw("SLOWLOG", "GET") == b"*0\r\n"
    assert client.raw("SLOWLOG", "LEN") == b":0\r\n"
    bench.node.slowlog.add(77, 12345, [b"QLEN", b"q"])
    bench.node.slowlog.add(78, 5, [b"PING"])
    assert client.raw("slowlog", "get") == (
        b"*2\r\n*4\r\n:1\r\n:78\r\n:5\r\n*1\r\n$4\r\nPING\r\n*4\r\n:0\r\n:77\r\n:12345\r\n*2\r\n$4\r\nQLEN\r\n$1\r\nq\r\n"
    )
    assert client.raw("SLOWLOG", "LEN") == b":2\r\n"
    assert client.raw("SLOWLOG", "RESET") == b"+OK\r\n"
    assert client.raw("SLOWLOG", "LEN") == b":0\r\n"


def test_slowlog_get_counts(bench: Bench, client: Client) -> None:
    for number in range(15):
        bench.node.slowlog.add(number, 1, [b"x"])
    assert [len(client("SLOWLOG", "GET", *count)) for count in ((), (3,), (0,), (-1,), (99,))] == [10, 3, 0, 15, 15]
    assert client.raw("SLOWLOG", "GET", "x") == b"-ERR value is not an integer or out of range\r\n"


@pytest.mark.parametrize("words", [("x",), ("LEN", "x"), ("RESET", "x"), ("GET", "1", "2")])
def test_wrong_words_of_slowlog(client: Client, words: tuple[str, ...]) -> None:
    text = b"-ERR Unknown SLOWLOG subcommand or wrong # of args. Try GET, RESET, LEN.\r\n"
    assert client.raw("SLOWLOG", *words) == text


# -- LATENCY ----------------------------------------------------------------------------------------------------------


def test_latency(bench: Bench, client: Client) -> None:
    assert client.raw("LATENCY", "LATEST") == b"*0\r\n"
    bench.node.latency.add(b"command", NOW_S - 5, 10)
    bench.node.latency.add(b"command", NOW_S - 1, 7)
    assert client.raw("latency", "latest") == b"*1\r\n*4\r\n$7\r\ncommand\r\n:%d\r\n:7\r\n:10\r\n" % (NOW_S - 1)
    assert client.raw("LATENCY", "HISTORY", "command") == (
        b"*2\r\n*2\r\n:%d\r\n:10\r\n*2\r\n:%d\r\n:7\r\n" % (NOW_S - 5, NOW_S - 1)
    )
    assert client.raw("LATENCY", "HISTORY", "fork") == b"*0\r\n"
    assert client("LATENCY", "GRAPH", "command").startswith(b"command - high 10 ms, low 7 ms")
    assert client.raw("LATENCY", "RESET", "fork") == b":0\r\n"
    assert client.raw("LATENCY", "RESET") == b":1\r\n"
    assert client.raw("LATENCY", "GRAPH", "comm\nand") == b"-ERR No samples available for event 'comm and'\r\n"


def test_in_resp3_prose_is_verbatim(bench: Bench, client: Client) -> None:
    bench.node.latency.add(b"command", NOW_S, 10)
    assert client.raw("LATENCY", "DOCTOR")[:1] == b"$"
    client("HELLO", 3)
    for words in (("DOCTOR",), ("GRAPH", "command")):
        raw = client.raw("LATENCY", *words)
        assert raw[:1] == b"="
        assert raw.split(b"\r\n", 1)[1].startswith(b"txt:")


@pytest.mark.parametrize("words", [("x",), ("LATEST", "x"), ("HISTORY",), ("GRAPH",), ("DOCTOR", "x")])
def test_wrong_words_of_latency(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("LATENCY", *words) == b"-ERR syntax error\r\n"
