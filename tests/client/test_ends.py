import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from disque.client import AsyncDisque, CommandError, Config, Disque, Ended, Result, UnavailableError, errors
from disque.client.config import Address
from disque.client.ends import WAIT_MOST_MS, cancel, result
from tests.client.fake import ID, A, B, MakeHands, Words, config, job_id, lost, refusal
from tests.client.served import SILENCE, Served

ONE, TWO, THREE = (job_id(number) for number in (1, 2, 3))
DONE = [b"done", b'{"n": 1}']

RESULT: dict[bytes, object] = {
    b"id": ID.encode(),
    b"queue": b"q\xff",
    b"status": b"done",
    b"result": b'{"n": 1}',
    b"error": None,
    b"tries": 2,
    b"ended-ms-ago": 30,
    b"progress": b"all \xc3",
    b"of-a-newer-node": b"x",
}


class TestResult:
    def ask(self, make: MakeHands, reply: object) -> Any:
        hands = make(lambda _address, _words: reply)
        found = hands.result(ID)
        assert hands.client._pool.nodes.sent("RESULT") == [[ID.encode()]]
        return found

    def test_of_a_job_that_is_done_in_both_protocols(self, make: MakeHands) -> None:
        for reply in (RESULT, [word for pair in RESULT.items() for word in pair]):
            found = self.ask(make, reply)
            assert found == Result(ID, "done", b'{"n": 1}', None, "q\udcff", 2, 30, "all \ufffd")
            assert found.done
            assert found.has_ended
            assert (found.json(), found.text()) == ({"n": 1}, '{"n": 1}')

    def test_of_a_job_that_goes_on(self, make: MakeHands) -> None:
        reply = {**RESULT, b"status": b"queued", b"result": None, b"error": b"no luck", b"ended-ms-ago": None}
        del reply[b"progress"]
        found = self.ask(make, reply)
        assert found == Result(ID, "queued", None, "no luck", "q\udcff", 2, None)
        assert not found.done
        assert not found.has_ended
        with pytest.raises(ValueError, match=f"job {ID} has no result, it is queued: no luck"):
            found.json()
        with pytest.raises(ValueError, match="has no result"):
            found.text()

    def test_of_a_job_that_nobody_knows(self, make: MakeHands) -> None:
        assert self.ask(make, None) is None

    @pytest.mark.parametrize(
        "reply", [1, {b"id": b"x"}, {**RESULT, b"result": 7}, {**RESULT, b"error": 7}, {**RESULT, b"tries": b"x"}]
    )
    def test_what_no_node_would_answer(self, make: MakeHands, reply: object) -> None:
        with pytest.raises(errors.UnexpectedReplyError):
            self.ask(make, reply)

    def test_nodes_ask_each_other(self) -> None:
        assert result(config(), ID).wait_ms == 5000
        assert cancel(config(), *[ID] * 2000).wait_ms == 10_000


@pytest.mark.parametrize(("options", "sent"), [({}, f"{ID} x"), ({"waiting": True}, f"{ID} x WAITING")])
def test_jobs_are_cancelled_at_another_node_if_one_is_lost(make: MakeHands, options: Any, sent: str) -> None:
    hands = make(lambda address, _words: lost() if address == A else 2, config(A, B))
    assert hands.cancel(ID, "x", **options) == 2
    assert [b" ".join(words).decode() for words in hands.client._pool.nodes.sent("CANCEL")] == [sent] * 2


class Waiting:
    """Answers WAITJOB with what is said of each ID, one reply after the other; an exception is one reply."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    def __call__(self, address: Address, words: Words) -> object:
        self.asked.append(f"{address[0]} {b' '.join(words[1:]).decode()}")
        reply = self.replies.pop(0)
        return (
            reply
            if isinstance(reply, Exception)
            else [reply.get(word.decode()) for word in words[2:] if word != b"ANY"]
        )


def wait_for(hands: Any, *ids: Any, **options: Any) -> Any:
    """What `wait` gives."""
    return hands.wait(hands.client.wait(*ids, **options))


class TestWait:
    def test_what_has_come_of_jobs(self, make: MakeHands) -> None:
        waiting = Waiting({ONE: DONE, TWO: [b"dead-letter", b"no luck"], THREE: [b"expired", None]})
        done, dead, expired = wait_for(make(waiting), ONE, TWO, THREE)
        assert done == Ended(ONE, "done", b'{"n": 1}', None)
        assert dead == Ended(TWO, "dead-letter", None, "no luck")
        assert expired == Ended(THREE, "expired", None, None)
        assert (done.done, dead.done, done.json()) == (True, False, {"n": 1})
        with pytest.raises(ValueError, match="has no result, it is dead-letter: no luck"):
            dead.text()
        assert waiting.asked == [f"a {WAIT_MOST_MS} {ONE} {TWO} {THREE}"]

    def test_what_is_known_is_not_asked_for_again(self, make: MakeHands) -> None:
        waiting = Waiting({TWO: DONE}, {}, {ONE: DONE})
        one, two = wait_for(make(waiting), ONE, TWO)
        assert one.done
        assert two.done
        assert waiting.asked == [f"a {WAIT_MOST_MS} {ids}" for ids in (f"{ONE} {TWO}", ONE, ONE)]

    def test_a_lost_node_is_replaced_by_another_one(self, make: MakeHands) -> None:
        waiting = Waiting({TWO: DONE}, lost(), {ONE: DONE})
        assert all(wait_for(make(waiting, config(A, B)), ONE, TWO))
        assert waiting.asked == [f"{where} {WAIT_MOST_MS} {ids}" for where, ids in (
            ("a", f"{ONE} {TWO}"), ("a", ONE), ("b", ONE)
        )]  # fmt: skip

    def test_when_all_are_lost_what_is_known_is_told(self, make: MakeHands) -> None:
        hands = make(Waiting({TWO: DONE}, *[lost()] * 6), config(A, B))
        with pytest.raises(UnavailableError) as caught:
            wait_for(hands, ONE, TWO)
        assert caught.value.results == [None, Ended(TWO, "done", b'{"n": 1}', None)]

    def test_it_waits_as_long_as_wanted(self, make: MakeHands) -> None:
        waiting = Waiting({}, {})
        assert wait_for(make(waiting), ONE, timeout=timedelta(milliseconds=WAIT_MOST_MS + 500)) == [None]
        assert waiting.asked == [f"a {wait_ms} {ONE}" for wait_ms in (WAIT_MOST_MS, 500)]
        waiting = Waiting({})
        assert wait_for(make(waiting), ONE, timeout=0) == [None]
        assert waiting.asked == [f"a 1 {ONE}"]

    def test_one_may_be_enough(self, make: MakeHands) -> None:
        waiting = Waiting({}, {TWO: DONE})
        none, two = wait_for(make(waiting), ONE, TWO, any=True)
        assert none is None
        assert two.done
        assert waiting.asked == [f"a {WAIT_MOST_MS} {ONE} {TWO} ANY"] * 2

    def test_one_that_is_there_twice(self, make: MakeHands) -> None:
        waiting = Waiting({ONE: DONE, TWO: DONE})
        one, two, again = wait_for(make(waiting), ONE, TWO, ONE)
        assert one == again != two
        assert waiting.asked == [f"a {WAIT_MOST_MS} {ONE} {TWO}"]

    def test_nobody_is_asked_about_nothing(self, make: MakeHands) -> None:
        assert wait_for(make(Waiting())) == []

    def test_what_makes_no_sense(self, make: MakeHands) -> None:
        with pytest.raises(ValueError, match="timeout must not be negative"):
            wait_for(make(Waiting()), ONE, timeout=-1)
        with pytest.raises(CommandError, match="at most 1000"):
            wait_for(make(Waiting(refusal("ERR WAITJOB takes at most 1000 IDs"))), ONE)

    @pytest.mark.parametrize("reply", [1, [], [[b"done"]], [1], [[b"done", 7]], [[b"dead", 7]]])
    def test_what_no_node_would_answer(self, make: MakeHands, reply: object) -> None:
        with pytest.raises(errors.UnexpectedReplyError):
            wait_for(make(lambda _address, _words: reply), ONE)


def silent_to_waits(words: list[bytes]) -> bytes:
    return SILENCE if words[0] == b"WAITJOB" else b"$-1\r\n"


def test_a_wait_is_longer_than_an_answer_may_take() -> None:
    late = threading.Event()

    def answer(words: list[bytes]) -> bytes:
        late.wait(0.3)
        return b"*1\r\n*2\r\n$4\r\ndone\r\n$1\r\nr\r\n" if words[0] == b"WAITJOB" else b"$-1\r\n"

    with Served(answer) as served, Disque(Config(nodes=(served.address,), timeout_ms=100, attempts=1)) as disque:
        assert disque.wait(ONE, timeout=20) == [Ended(ONE, "done", b"r", None)]
        with pytest.raises(UnavailableError):
            disque.result(ONE) if late.wait(0) else disque.ping()


def test_a_wait_that_is_cancelled_closes_its_connection_and_the_client_goes_on() -> None:
    async def scene(served: Served) -> None:
        async with AsyncDisque(Config(nodes=(served.address,))) as disque:
            task = asyncio.create_task(disque.wait(ONE))
            while not served.named(b"WAITJOB"):  # noqa: ASYNC110 - it is asked in another thread
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await disque.result(ONE) is None
            assert served.connections == 2

    with Served(silent_to_waits) as served, asyncio.Runner() as runner:
        runner.run(scene(served))
