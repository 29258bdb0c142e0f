from random import Random
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, BusyLoadingError
from redis.exceptions import TimeoutError as RedisTimeoutError

from disque.client import errors
from disque.client.config import Address
from disque.client.delivery import HELLO, Exchange, Kind, Outcome, Parcel, Pause, deliver
from disque.client.limits import LONG_BYTES, QUESTION, QUESTIONS
from disque.client.packing import pack
from disque.client.router import LOOK_S, Router
from tests.client.fake import ID_A, ID_B, A, B, C, config, hello, lost, refusal


class Way:
    """A parcel on its way: each step is shown, and what is answered is told.

    ``since_s``: for how long nobody has told which nodes there are.
    """

    def __init__(self, parcel: Parcel, *nodes: Address, since_s: float = 0, **options: Any) -> None:
        self.config = config(*nodes, **options)
        self.now_s = 1000.0
        self.router = Router(self.config, lambda: self.now_s, Random(1))
        self.now_s += since_s
        self.flow = deliver(self.router, self.config, parcel)
        self.step: Any
        self.step = next(self.flow)
        self.result: Any = None

    def answer(self, *replies: object, failure: Exception | None = None, sent: bool = True) -> "Way":
        outcome = Outcome()
        outcome.replies, outcome.failure, outcome.sent = list(replies), failure, sent
        try:
            self.step = self.flow.send(outcome)
        except StopIteration as stop:
            self.step, self.result = None, stop.value
        return self

    def fail(self, times: int = 1) -> "Way":
        for _ in range(times):
            self.answer(failure=lost())
        return self


ONE = [b"one"]
THREE = [b"one", b"two", b"three"]


def test_what_is_answered_is_given() -> None:
    way = Way(Parcel(THREE), A)
    assert way.step == Exchange(A, b"onetwothree", 3, 3.0)
    assert way.answer(1, None, b"x").result == [1, None, b"x"]


def test_the_server_may_wait_longer() -> None:
    assert Way(Parcel(ONE, 1500), A).step.timeout_s == 4.5
    assert Way(Parcel(ONE, None), A).step.timeout_s is None


@pytest.mark.parametrize(
    ("words", "wait_ms", "kind"),
    [
        ([b"ADDJOB", b"q", b"GETJOB", b"3000"], 3000, Kind.COPIES),
        ([b"addjob", b"q", b"x", b"5000"], 5000, Kind.COPIES),
        ([b"ADDJOB", b"q", b"x", b"60000"], 60_000, Kind.CLIENTS),
        ([b"ADDJOB", b"q", b"x", b"0"], None, Kind.CLIENTS),
        ([b"GETJOB", b"NOHANG", b"FROM", b"q"], 0, Kind.NOTHING),
        ([b"GETJOB", b"TIMEOUT", b"1", b"FROM", b"q"], 1, Kind.CLIENTS),
        ([b"waitjob", b"1", b"D-1"], 1, Kind.CLIENTS),
        ([b"RESULT", b"D-1"], 5000, Kind.OTHERS),
        ([b"RESULT", b"ADDJOB"], 5000, Kind.OTHERS),
        ([b"WORKING", b"D-1"], 0, Kind.NOTHING),
    ],
)
def test_it_is_known_what_a_node_may_wait_for(words: list[bytes], wait_ms: int | None, kind: Kind) -> None:
    assert Way(Parcel([pack([b"ACKJOB", b"D-1"]), pack(words)], wait_ms), A).step.kind is kind


@pytest.mark.parametrize("sent", [True, False])
def test_at_the_end_it_is_told_whether_it_may_have_been_done(sent: bool) -> None:
    way = Way(Parcel(ONE), A, B, attempts=1)
    way.answer(failure=lost(), sent=sent)
    with pytest.raises(errors.UnavailableError) as failed:
        way.answer(failure=lost(), sent=False)
    assert failed.value.maybe_done is sent


def test_after_a_failure_the_rest_goes_to_the_next_node() -> None:
    way = Way(Parcel(THREE), A, B)
    way.answer(1, failure=lost())
    assert way.step == Exchange(B, b"twothree", 2, 3.0)
    assert way.answer(2, 3).result == [1, 2, 3]
    assert way.router.choose(()) == B


@pytest.mark.parametrize("code", ["LOADING", "MISCONF", "DENIED"])
def test_a_node_that_cannot_serve_is_left(code: str) -> None:
    way = Way(Parcel(THREE), A, B)
    way.answer(1, refusal(f"{code} x"), 3)
    assert way.step == Exchange(B, b"two", 1, 3.0)
    assert way.answer(2).result == [1, 2, 3]
    assert way.router.choose(()) == B


def test_a_node_that_leaves_is_asked_which_others_there_are() -> None:
    way = Way(Parcel(THREE), A)
    way.answer(1, refusal("LEAVING x"), 3)
    assert way.step == Exchange(A, HELLO, 1, 3.0)
    way.answer(hello(ID_A, (ID_A, *A, 100), (ID_B, *B, 1)))
    assert way.step == Exchange(B, b"two", 1, 3.0)
    assert way.answer(2).result == [1, 2, 3]
    assert way.router.choose(()) == B


@pytest.mark.parametrize("answer", [{"failure": lost()}, {}])
def test_one_that_leaves_without_a_word_is_left(answer: dict[str, Any]) -> None:
    way = Way(Parcel(ONE), A, B).answer(refusal("LEAVING x")).answer(**answer)
    assert way.step == Exchange(B, b"one", 1, 3.0)


def test_a_client_of_one_node_does_not_ask_for_others() -> None:
    assert type(Way(Parcel(ONE), A, discover=False).answer(refusal("LEAVING x")).step) is Pause


class TestAfterLong:
    def test_a_client_asks_which_nodes_there_are(self) -> None:
        way = Way(Parcel(ONE), A, since_s=LOOK_S)
        assert way.step == Exchange(A, HELLO, 1, 3.0)
        way.answer(hello(ID_A, (ID_A, *A, 1), (ID_B, *B, 1)))
        assert way.step == Exchange(A, b"one", 1, 3.0)
        assert way.answer(1).result == [1]
        assert way.router.addresses() == [A, B]

    @pytest.mark.parametrize("options", [{"since_s": LOOK_S - 1}, {"since_s": LOOK_S, "discover": False}])
    def test_not_sooner_and_not_if_it_wants_to_know_no_others(self, options: dict[str, Any]) -> None:
        assert Way(Parcel(ONE), A, **options).step.data == b"one"

    def test_one_of_many_asks(self) -> None:
        way = Way(Parcel(ONE), A, since_s=LOOK_S)
        assert next(deliver(way.router, way.config, Parcel(ONE))) == Exchange(A, b"one", 1, 3.0)

    @pytest.mark.parametrize("reply", [refusal("ERR x"), refusal("LOADING x"), b"OK"])
    def test_the_request_is_sent_whatever_the_node_says(self, reply: object) -> None:
        assert Way(Parcel(ONE), A, since_s=LOOK_S).answer(reply).step == Exchange(A, b"one", 1, 3.0)

    def test_a_node_that_fails_at_that_is_left_and_the_request_was_not_sent(self) -> None:
        way = Way(Parcel(ONE, again=False), A, B, since_s=LOOK_S).fail()
        assert way.step == Exchange(B, b"one", 1, 3.0)
        assert way.router.choose(()) == B


def test_loading_as_redis_py_raises_it() -> None:
    assert Way(Parcel(ONE, again=False), A, B).answer(failure=BusyLoadingError("x", status_code="LOADING")).step


def test_other_errors_are_answers() -> None:
    way = Way(Parcel(ONE), A, B).answer(refusal("NOREPL too few"))
    assert isinstance(way.result[0], errors.NoReplError)


def test_other_errors_lead_on_if_that_is_wanted() -> None:
    way = Way(Parcel(THREE), A, B, also_retry=("NOREPL",), attempts=3)
    way.answer(refusal("NOREPL x"), 2, refusal("NOREPL x"))
    assert way.step == Exchange(B, b"onethree", 2, 3.0)
    way.answer(refusal("NOREPL y"), 3)
    assert type(way.step) is Pause
    assert way.answer().step == Exchange(B, b"one", 1, 3.0)
    way.answer(refusal("NOREPL z"))
    assert [str(way.result[0]), *way.result[1:]] == ["NOREPL z", 2, 3]


def test_what_only_some_nodes_know_is_asked_of_each_once() -> None:
    way = Way(Parcel(ONE, elsewhere=frozenset({"NOJOB"})), A, B)
    way.answer(refusal("NOJOB x"))
    assert way.step.address == B
    assert isinstance(way.answer(refusal("NOJOB x")).result[0], errors.NoJobError)


def test_a_preferred_node_comes_first() -> None:
    assert Way(Parcel(ONE, prefer=C), A, B, C).step.address == C


def test_attempts_are_bounded_and_the_end_lists_each_node() -> None:
    way = Way(Parcel(ONE), A, B, attempts=4)
    way.fail(2)
    assert isinstance(way.step, Pause)
    way.answer().fail()
    with pytest.raises(errors.UnavailableError) as caught:
        way.answer(failure=lost("no route"))
    assert str(caught.value) == "no node could be used: a:1: gone; b:2: no route"
    assert str(caught.value.__cause__) == "no route"
    assert caught.value.results == [None]


def test_every_node_is_tried_however_few_attempts_there_are() -> None:
    way = Way(Parcel(ONE), A, B, C, attempts=1)
    way.fail(2)
    assert way.step.address == C
    with pytest.raises(errors.UnavailableError):
        way.fail()


def test_pauses_grow_up_to_a_bound_and_differ() -> None:
    way = Way(Parcel(ONE), A, attempts=9, backoff_ms=100, backoff_max_ms=1000)
    pauses = []
    for _ in range(8):
        way.fail()
        pauses.append(way.step.seconds)
        way.answer()
    for pause_s, most_s in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True):
        assert most_s / 2 <= pause_s <= most_s
    assert len(set(pauses)) == 8


def test_a_wrong_password_is_wrong_everywhere() -> None:
    way = Way(Parcel(ONE), A, B)
    with pytest.raises(errors.WrongPassError):
        way.answer(failure=AuthenticationError("invalid", status_code="WRONGPASS"), sent=False)
    with pytest.raises(errors.NoAuthError):
        Way(Parcel(ONE), A, B).answer(failure=AuthenticationError("odd"), sent=False)


@pytest.mark.parametrize("failure", [TimeoutError(), RedisTimeoutError()])
def test_a_node_that_hangs_is_not_asked_whether_a_request_was_too_long(failure: Exception) -> None:
    long = pack([b"ADDJOB", b"q", b"x" * LONG_BYTES, b"0"])
    way = Way(Parcel([long]), A, B).answer(failure=failure)
    assert way.step == Exchange(B, long, 1, 3.0)
    assert way.answer(failure=lost()).step == Exchange(B, QUESTION, QUESTIONS, 3.0)


class TestNotTwice:
    def test_what_was_too_long_is_known_not_to_be_done(self) -> None:
        way = Way(Parcel([pack([b"X", b"x" * LONG_BYTES])], again=False), A).answer(failure=lost())
        way.answer([b"proto-max-bulk-len", b"1024"])
        assert isinstance(way.result[0], errors.CommandError)

    def test_what_was_sent_is_not_sent_again(self) -> None:
        way = Way(Parcel(ONE, again=False), A, B)
        with pytest.raises(errors.IncompleteError, match="a:1 was lost before it answered: gone"):
            way.fail()

    def test_what_was_not_sent_may_be(self) -> None:
        way = Way(Parcel(ONE, again=False), A, B)
        assert way.answer(failure=lost(), sent=False).step.address == B

    def test_what_was_refused_may_be(self) -> None:
        assert Way(Parcel(ONE, again=False), A, B).answer(refusal("LOADING x")).step.address == B


def test_an_error_tells_what_was_answered_before() -> None:
    way = Way(Parcel(THREE, again=False), A)
    with pytest.raises(errors.IncompleteError) as caught:
        way.answer(b"first", failure=lost())
    assert caught.value.results == [b"first", None, None]
