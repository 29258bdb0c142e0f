import pytest

from cluster.messages import SURVEY
from tests.core.support import NOTHING, Bench, Client


def dead_letter(client: Client) -> bytes:
    job = client.add("q")
    assert client.get("q") == [job]
    assert client("NACK", job, "DEAD") == 1
    return job


def test_jobs_of_a_queue_go_to_another_one(client: Client) -> None:
    queued, out, delayed = client.add("q"), client.add("r"), client.add("q", "body", "DELAY", 9)
    assert client.get("r") == [out]
    assert client("QMOVE", "q", "s") == [b"count", 2, b"unreachable", []]
    assert client.get("s", count=9) == [queued]
    assert client.show(delayed)["queue"] == b"s"
    assert client("QMOVE", "nothing", "s") == [b"count", 0, b"unreachable", []]


def test_dead_letters_go_back(client: Client) -> None:
    jobs = [dead_letter(client) for _ in range(3)]
    client.add("q:dead")
    assert client("REVIVE", "q:dead", "count", 2) == [b"count", 2, b"without-origin", 1, b"unreachable", []]
    assert client.get("q", count=9) == jobs[:2]
    assert client("REVIVE", "q:dead") == [b"count", 1, b"without-origin", 1, b"unreachable", []]
    assert client("REVIVE", "nothing") == [b"count", 0, b"without-origin", 0, b"unreachable", []]


def test_jobs_end(bench: Bench, client: Client) -> None:
    jobs = [client.add("q", "body", "DELAY", 9 - number) for number in range(3)]
    assert client("QFLUSH", "q", "COUNT", 2) == [b"count", 2, b"unreachable", []]
    assert [bool(client.show(job)) for job in jobs] == [False, False, True]
    assert client("QFLUSH", "q", "COUNT", 2) == [b"count", 1, b"unreachable", []]
    assert bench.node.jobs_registered() == 0


def test_in_the_newer_protocol_it_is_a_map(client: Client) -> None:
    client("HELLO", 3)
    assert client.raw("QFLUSH", "q") == b"%2\r\n$5\r\ncount\r\n:0\r\n$11\r\nunreachable\r\n*0\r\n"
    assert client.raw("REVIVE", "q").startswith(b"%3\r\n$5\r\ncount\r\n:0\r\n$14\r\nwithout-origin\r\n:0\r\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("QMOVE", "q"), "ERR wrong number of arguments for 'qmove' command"),
        (("QMOVE", "q", "q"), "ERR QMOVE needs two different queues"),
        (("QMOVE", "q", "r", "COUNT"), "ERR syntax error"),
        (("QMOVE", "q", "r", "ALL", 1), "ERR syntax error"),
        (("QMOVE", "q", "r", "COUNT", 1, 2), "ERR syntax error"),
        *[
            ((*words, "COUNT", count), "ERR COUNT must be a number greater than zero")
            for words in (("QMOVE", "q", "r"), ("REVIVE", "q"), ("QFLUSH", "q"))
            for count in ("0", "-1", "x", "", 2**64)
        ],
        (("REVIVE",), "ERR wrong number of arguments for 'revive' command"),
        (("QFLUSH",), "ERR wrong number of arguments for 'qflush' command"),
    ],
)
def test_wrong_words(client: Client, words: tuple[str | int, ...], text: str) -> None:
    job = client.add("q")
    assert client.error(*words) == text
    assert client.get("q", "r") == [job]


def test_nodes_of_before_are_named() -> None:
    bench = Bench(peers=1)
    bench.membership.set_capabilities(bench.peers[0].id, 0)
    client = bench.client()
    for words in (("QMOVE", "q", "r"), ("REVIVE", "q"), ("QFLUSH", "q", "COUNT", 1)):
        assert client.error(*words).endswith(f"node {bench.peers[0].id.decode()} runs an older version")
    assert bench.sent(SURVEY) == []


def test_a_client_that_wants_no_reply_gets_none(client: Client) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    assert client("QFLUSH", "q") is NOTHING
    assert client("PING") == b"PONG"
