from collections.abc import Sequence
from typing import Final

import pytest

from disque.client import Disque, DisqueError, MaxlenError, NoReplError, PausedError, UnavailableError
from disque.spark.adding import Adder, BodyLimit, WriteError, add_rows, limit_of, queues_of
from disque.spark.keys import Keys
from tests.end_to_end.node import Node
from tests.spark.support import batch, bodies, client_of, options

Words = tuple[bytes, ...]
JOBS: Final[list[Words]] = [(b"ADDJOB", b"mails", b"%d" % number, b"5000") for number in range(4)]


class Refusing:
    """A node that answers what it was told to, then IDs. ``sent`` has each pipeline."""

    def __init__(self, *replies: list[DisqueError | str] | DisqueError) -> None:
        self.replies = list(replies)
        self.sent: list[list[Words]] = []

    def put(self, jobs: list[Words]) -> Sequence[DisqueError | str]:
        self.sent.append(jobs)
        reply = self.replies.pop(0) if self.replies else ["D-" for _ in jobs]
        if isinstance(reply, DisqueError):
            raise reply
        return reply


class Clock:
    """Time that only goes on when somebody pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


def adder(client: Refusing, clock: Clock, backoff_ms: int = 10_000) -> Adder:
    return Adder(client.put, backoff_ms, clock, clock.pause)


def test_only_what_was_refused_is_sent_again() -> None:
    paused = PausedError("PAUSED")
    client = Refusing(["D-", paused, "D-", paused])
    adder(client, Clock()).add(JOBS)
    assert client.sent == [JOBS, [JOBS[1], JOBS[3]]]


def test_pauses_grow_until_the_patience_is_over_and_the_error_names_the_queue() -> None:
    clock = Clock()
    full: list[DisqueError | str] = [MaxlenError("MAXLEN Queue is already too long")] * 4
    with pytest.raises(WriteError) as caught:
        adder(Refusing(*[full] * 100), clock, 3000).add(JOBS)
    assert str(caught.value) == (
        "queue 'mails': MAXLEN Queue is already too long; 4 of 4 jobs were still refused after 3 s (backoffMs)"
    )
    assert clock.pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert max(clock.pauses) == 1.0
    assert 3 <= clock.now_s < 4.1


def test_progress_is_waited_for_anew() -> None:
    clock = Clock()
    refusal: DisqueError | str = NoReplError("NOREPL")
    slow = [[refusal] * left for left in range(4, 0, -1) for _ in range(3)]
    adder(Refusing(*[["D-", *one[1:]] if at % 3 == 2 else one for at, one in enumerate(slow)]), clock, 200).add(JOBS)


def test_an_error_that_stays_is_not_waited_for() -> None:
    clock = Clock()
    with pytest.raises(WriteError, match="queue 'mails': bad"):
        adder(Refusing(["D-", DisqueError("bad"), PausedError("PAUSED"), "D-"]), clock).add(JOBS)
    assert clock.pauses == []


def test_without_any_node_the_task_fails_with_the_queue() -> None:
    with pytest.raises(WriteError, match="queue 'mails': no node"):
        adder(Refusing(DisqueError("no node could be used")), Clock()).add(JOBS)


def test_a_time_without_any_node_is_waited_for() -> None:
    away = UnavailableError("no node could be used")
    client, clock = Refusing(away, away), Clock()
    adder(client, clock).add(JOBS)
    assert client.sent == [JOBS, JOBS, JOBS]
    with pytest.raises(WriteError, match=r"no node could be used; 4 of 4 jobs .* after 10 s \(backoffMs\)"):
        adder(Refusing(*[away] * 99), clock).add(JOBS)


def test_many_queues_are_shown_in_short() -> None:
    assert queues_of([(b"ADDJOB", b"b"), (b"ADDJOB", b"a")]) == "queues 'a', 'b'"
    assert queues_of([(b"ADDJOB", b"q%d" % number) for number in range(9)]).endswith("'q4', ...")


class TestBodyLimit:
    def test_small_bodies_ask_nobody(self) -> None:
        client: Disque = None  # type: ignore[assignment]  # nobody asks it
        assert BodyLimit(client)(1024) == 1024

    def test_the_node_says(self, node: Node) -> None:
        with client_of(node) as client:
            limit = BodyLimit(client)
            assert limit(2000) == 64 << 20
            node.ask("CONFIG", "SET", "proto-max-bulk-len", "2mb")
            assert limit(2000) == 64 << 20, "once for a partition"
            assert BodyLimit(client)(2000) == 2 << 20
        node.ask("CONFIG", "SET", "proto-max-bulk-len", "64mb")

    def test_replies_of_both_protocols(self) -> None:
        assert limit_of({"proto-max-bulk-len": "7"}) == limit_of([b"proto-max-bulk-len", b"7"]) == 7
        assert limit_of({}) == 64 << 20


class TestNode:
    def test_rows_become_jobs(self, node: Node) -> None:
        with client_of(node) as client:
            done = add_rows(
                client,
                [batch(body=["a", "b", "c"]), batch(body=["d"])],
                options(pipelineSize=2),
                {"body": 0},
                Keys("s", 0),
            )
        assert done == (4, 0)
        assert bodies(node) == [b"a", b"b", b"c", b"d"]

    def test_a_queue_that_is_paused_fails_the_task(self, node: Node) -> None:
        node.ask("PAUSE", "mails", "in")
        with client_of(node) as client, pytest.raises(WriteError, match=r"queue 'mails': PAUSED .* after 0.2 s"):
            add_rows(client, [batch(body=["a"])], options(backoffMs=200), {"body": 0}, None)
