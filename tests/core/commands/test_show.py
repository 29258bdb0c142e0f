import pytest

from disque.core.commands import scan, show
from disque.core.jobs import deliver
from tests.core.support import MYSELF, Bench, Client

FIELDS = [
    *("id", "queue", "state", "repl", "ttl", "ctime", "delay", "retry", "nacks", "additional-deliveries"),
    *("nodes-delivered", "nodes-confirmed", "next-requeue-within", "next-awake-within", "body"),
]


def test_fields_come_in_the_order_of_disque(client: Client) -> None:
    assert list(client.show(client.add("q"))) == FIELDS


def test_a_delayed_job(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "DELAY", 50, "RETRY", 7, "TTL", 100)
    bench.advance(1)
    shown = client.show(job)
    assert shown == {
        **shown,
        "state": b"active",
        "delay": 50,
        "retry": 7,
        "ttl": 100,
        "next-requeue-within": 49_999,
        "next-awake-within": 49_999,
    }


def test_a_job_that_is_out(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "RETRY", 7)
    client.get("q")
    bench.advance(3000)
    shown = client.show(job)
    assert (shown["state"], shown["next-requeue-within"], shown["nodes-delivered"]) == (b"active", 4000, [MYSELF])


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_a_job_that_never_comes_back_has_no_next_requeue(client: Client, protocol: int, nothing: bytes) -> None:
    client("HELLO", protocol)
    job = client.add("q", "b", "RETRY", 0)
    assert b"$19\r\nnext-requeue-within\r\n" + nothing in client.raw("SHOW", job)
    client.get("q")
    assert b"$19\r\nnext-requeue-within\r\n" + nothing in client.raw("SHOW", job)


def test_the_ttl_counts_down_to_the_end(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "TTL", 10)
    seen = []
    for _ in range(10):
        seen.append(client.show(job)["ttl"])
        bench.advance(999)
    assert seen == [10, 10, 9, 8, 7, 6, 5, 4, 3, 2]


def test_a_time_that_has_come_is_0_not_less(bench: Bench, client: Client) -> None:
    job = client.add("q", "b", "DELAY", 1)
    bench.now_ms += 5000  # the timer is late
    shown = client.show(job)
    assert shown["next-requeue-within"] == shown["next-awake-within"] == 0


@pytest.mark.parametrize("options", [(), ("HEADER", "a", "b")])
@pytest.mark.parametrize("words", ["SHOW -", "QPEEK q 2", "JSCAN 0 BUSYLOOP REPLY ALL"])
def test_a_large_body_is_a_piece_of_its_own(
    bench: Bench, client: Client, words: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = client.add("q", "x" * 20_000, *options)
    request = [job_id if word == "-" else word for word in words.split()]
    expected = client.raw(*request)
    for module in (deliver, scan, show):
        monkeypatch.setattr(module, "LARGE_REPLY", 1000)
    client.send(*request)
    assert client.session.large
    assert any(piece is bench.job(job_id).body for piece in client.session.out)
    assert b"".join(client.session.out) == expected
