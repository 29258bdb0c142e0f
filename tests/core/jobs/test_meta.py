from typing import Any

import pytest

from disque.core.jobs import deliver
from tests.core.support import NOTHING, Bench, Client


def meta(entry: list[Any]) -> dict[str, Any]:
    flat = entry[-1]
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def test_all_that_is_known_of_a_delivery(bench: Bench, client: Client) -> None:
    client.add("q", "body", "TRIES", 3, "RETRY", 60, "TTL", 100, "DELAY", 2, "PRIORITY", 7, "HEADER", "a", "1")
    bench.advance(5000)
    ((queue, _, body, _),) = entries = client("GETJOB", "WITHMETA", "FROM", "q")
    assert (queue, body) == (b"q", b"body")
    assert meta(entries[0]) == {
        "tries": 0,
        "tries-left": 3,
        "nacks": 0,
        "additional-deliveries": 0,
        "priority": 7,
        "created-ms-ago": 5000,
        "due-ms-ago": 3000,
        "ttl-ms": 95_000,
        "lease-ms": 60_000,
        "error": None,
        "origin": None,
        "headers": [b"a", b"1"],
    }


def test_of_a_plain_job_that_has_failed(client: Client) -> None:
    job = client.add("q")
    client.get("q")
    client("NACK", job, "ERROR", "no luck")
    (entry,) = client("GETJOB", "NOBODY", "WITHCOUNTERS", "WITHMETA", "FROM", "q")
    assert entry[2:7] == [4, b"nacks", 1, b"additional-deliveries", 0]
    said = meta(entry)
    assert (said["tries"], said["tries-left"], said["error"], said["headers"]) == (1, None, b"no luck", [])


def test_a_backoff_is_told_where_there_is_one(bench: Bench, client: Client) -> None:
    client.add("q", "body", "BACKOFF", "Exponential:2:60.0")
    client.add("q", "body", "TRIES", 2)
    with_backoff, without = client("GETJOB", "COUNT", 2, "WITHMETA", "FROM", "q")
    assert list(meta(with_backoff).items())[-2:] == [("headers", []), ("backoff", b"exponential:2:60")]
    assert "backoff" not in meta(without)
    other = bench.client()
    other("HELLO", 3)
    other.add("q", "body", "BACKOFF", "fixed:5")
    assert other.raw("GETJOB", "WITHMETA", "FROM", "q").endswith(b"$7\r\nbackoff\r\n$7\r\nfixed:5\r\n")


@pytest.mark.parametrize("words", [("WITHMETA",), ("WITHCOUNTERS", "WITHMETA"), ("NOBODY", "WITHMETA")])
@pytest.mark.parametrize("bodies", [("x" * 2000,), ("x" * 2000, "y", "z" * 600), ("a", "b" * 900, "c" * 900)])
@pytest.mark.parametrize("protocol", [2, 3])
def test_large_bodies_go_as_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], bodies: tuple[str, ...], protocol: int
) -> None:
    replies = []
    for large in (1 << 20, 1000):
        monkeypatch.setattr(deliver, "LARGE_REPLY", large)
        monkeypatch.setattr(deliver, "LARGE_PIECE", large // 2)
        client = bench.client()
        client("HELLO", protocol)
        jobs = [client.add("q", body) for body in bodies]
        entries = client("GETJOB", "COUNT", 3, *words, "FROM", "q")
        assert [entry[1] for entry in entries] == jobs
        replies.append([[entry[0], *entry[2:]] for entry in entries])
        assert client("ACKJOB", *jobs) == len(bodies)
    assert replies[0] == replies[1]


def test_it_is_a_map_in_resp3(bench: Bench, client: Client) -> None:
    client("HELLO", 3)
    client.add("q")
    assert b"\r\n%12\r\n$5\r\ntries\r\n" in client.raw("GETJOB", "WITHMETA", "FROM", "q")
    assert client("GETJOB", "WITHMETA", "FROM", "q") is NOTHING
    other = bench.client()
    other.add("q", "later", "HEADER", "a", "b")
    assert client.read_raw().endswith(b"%1\r\n$1\r\na\r\n$1\r\nb\r\n")


def test_show_says_nothing_more_of_plain_jobs(client: Client) -> None:
    assert list(client.show(client.add("q")))[-1] == "body"
    assert list(client.show(client.add("q", "body", "TRIES", 1)))[-1] == "progress"
