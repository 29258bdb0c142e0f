from datetime import timedelta
from typing import Any

import pytest

from disque.client import errors, requests
from disque.client.config import Address
from disque.client.replies import Delivered
from disque.client.requests import WAIT_MOST_MS
from tests.client.fake import (
    ID,
    ID_A,
    ID_B,
    A,
    B,
    MakeHands,
    Words,
    config,
    guarding,
    hello,
    job_id,
    lost,
    refusal,
    row,
)


def replying(reply: object) -> Any:
    return lambda _address, _words: reply


@pytest.mark.parametrize(
    ("method", "words", "options", "sent", "reply", "value"),
    [
        ("add", ["q", "b"], {}, "ADDJOB q b 3000", ID.encode(), ID),
        (
            "add",
            [b"q", b"b"],
            {"timeout_ms": 0, "retry": 0, "replicate": 1},
            "ADDJOB q b 0 REPLICATE 1 RETRY 0",
            ID.encode(),
            ID,
        ),
        (
            "add",
            ["q", "b"],
            {"unique": "k", "window": timedelta(hours=1)},
            "ADDJOB q b 3000 UNIQUE k 3600",
            ID.encode(),
            ID,
        ),
        ("ack", [ID, "x"], {}, f"ACKJOB {ID} x", 2, 2),
        ("fast_ack", [ID], {}, f"FASTACK {ID}", 1, 1),
        ("nack", [ID], {}, f"NACK {ID}", 1, 1),
        ("nack", [ID], {"delay": 1.5}, f"NACK {ID} DELAY 1.5", 1, 1),
        ("nack", [ID], {"delay": 2, "error": "why so"}, f"NACK {ID} DELAY 2 ERROR why so", 1, 1),
        ("nack", [ID, "x"], {"error": OSError("x"), "dead": True}, f"NACK {ID} x ERROR OSError: x DEAD", 2, 2),
        ("nack", [ID], {"count": False, "delay": 0}, f"NACK {ID} DELAY 0 NOCOUNT", 1, 1),
        ("move", ["r", ID, "x"], {}, f"MOVE r {ID} x", 2, 2),
        ("move", ["r", ID], {"delay": 0.25}, f"MOVE r {ID} DELAY 0.25", 1, 1),
        ("revive", [ID, "x"], {}, f"REVIVEJOB {ID} x", 1, 1),
        ("add", ["q", "b"], {"tries": 3, "backoff": "fixed:1"}, "ADDJOB q b 3000 TRIES 3 BACKOFF fixed:1", ID, ID),
        ("add", ["q", "b"], {"headers": {"a": "b"}, "priority": 1}, "ADDJOB q b 3000 PRIORITY 1 HEADER a b", ID, ID),
        ("ack", [ID], {"result": "é"}, f"ACKJOB {ID} RESULT é", 1, 1),
        ("working", [ID], {"progress": "half"}, f"WORKING {ID} PROGRESS half", 300, [300]),
        ("working_one", [ID], {"progress": "x" * 2000}, f"WORKING {ID} PROGRESS {'x' * 1024}", 300, 300),
        ("working", [ID], {}, f"WORKING {ID}", 300, [300]),
        ("working", [ID, "x"], {}, f"WORKING {ID} x", [300, 5], [300, 5]),
        ("working_one", [ID], {}, f"WORKING {ID}", 300, 300),
        ("enqueue", [ID], {}, f"ENQUEUE {ID}", 1, 1),
        ("enqueue_at", [None, [ID]], {}, f"ENQUEUE {ID}", 1, None),
        ("dequeue", [ID], {}, f"DEQUEUE {ID}", 1, 1),
        ("delete", [ID], {}, f"DELJOB {ID}", 0, 0),
        ("show", [ID], {}, f"SHOW {ID}", None, None),
        ("peek", ["q", -2], {}, "QPEEK q -2", [[b"q", b"D-1", b"b"]], [Delivered("D-1", "q", b"b")]),
        ("ack_many", [[ID]], {}, f"ACKJOB {ID}", 1, 1),
    ],
)
def test_commands_about_jobs(
    make: MakeHands, method: str, words: Any, options: Any, sent: str, reply: object, value: object
) -> None:
    hands = make(replying(reply))
    assert getattr(hands, method)(*words, **options) == value
    [(_, request)] = hands.client._pool.nodes.log
    assert b" ".join(request).decode() == sent


@pytest.mark.parametrize(
    ("method", "words", "reply"),
    [
        ("add", ["q", "b"], b"OK"),
        ("add", ["q", "b"], 1),
        ("add", ["q", "b"], None),
        ("add_many", [[("q", "b")]], b"OK"),
        ("add_many", [[("q", "b")]], b"\xff"),
        ("get", ["q"], 7),
        ("get", ["q"], [[b"q", b"\xff", b"b"]]),
        ("ack", [ID], b"OK"),
        ("ack_many", [[ID]], b"OK"),
        ("show", [ID], [b"id"]),
        ("working", [ID, "x"], [5]),
        ("working", [ID], [5, 6]),
        ("nodes", [], [1, b"id", [b"id", b"h", b"port", b"1"]]),
        ("nodes", [], [1, b"id", [b"id"]]),
        ("node_time", [], [b"1"]),
        ("config_get", [], [b"port"]),
        ("scan_queues", [], [b"x", []]),
        ("scan_queues", [], []),
        ("slowlog", [], [[1]]),
        ("latency_latest", [], [[]]),
    ],
)
def test_what_no_node_would_answer_is_an_error_of_this_client(
    make: MakeHands, method: str, words: Any, reply: object
) -> None:
    with pytest.raises(errors.UnexpectedReplyError, match=r"expected, not|no reply to"):
        getattr(make(replying(reply)), method)(*words)


def test_what_no_node_would_answer_stands_among_the_results(make: MakeHands) -> None:
    hands = make(lambda _address, words: b"OK" if words[2] == b"2" else ID.encode())
    first, second, third = hands.add_many([("q", "1"), ("q", "2"), ("q", "3")], errors="return")
    assert first == third == ID
    assert isinstance(second, errors.UnexpectedReplyError)


def test_error_replies_are_raised(make: MakeHands) -> None:
    hands = make(replying(refusal("BADID Invalid Job ID format.")))
    for call in (hands.ack, hands.nack, hands.show, hands.working_one):
        with pytest.raises(errors.BadIdError):
            call("x")


class TestGet:
    def get(self, make: MakeHands, *replies: object, settings: Any = None, **options: Any) -> tuple[Any, list[Words]]:
        left = list(replies)
        hands = make(lambda _address, _words: left.pop(0), settings)
        return hands.get(["q", "r"], **options), hands.client._pool.nodes.sent("GETJOB")

    def test_it_waits_for_ever_in_parts(self, make: MakeHands) -> None:
        jobs, sent = self.get(make, None, None, [row(1)], count=5)
        assert [job.id for job in jobs] == [job_id(1)]
        assert sent == [[b"TIMEOUT", b"%d" % WAIT_MOST_MS, b"COUNT", b"5", b"WITHCOUNTERS", b"FROM", b"q", b"r"]] * 3

    def test_it_does_not_wait(self, make: MakeHands) -> None:
        assert self.get(make, None, nohang=True, counters=False) == (
            [],
            [[b"NOHANG", b"COUNT", b"1", b"FROM", b"q", b"r"]],
        )
        assert self.get(make, None, timeout=0)[1][0][0] == b"NOHANG"

    def test_it_says_how(self, make: MakeHands) -> None:
        _, [words] = self.get(make, None, nohang=True, lease=0.5, strict=True, meta=True)
        assert words[3:-3] == [b"LEASE", b"0.5", b"STRICT", b"WITHCOUNTERS", b"WITHMETA"]
        with pytest.raises(ValueError, match="lease must be above 0"):
            self.get(make, lease=0)

    def test_it_waits_as_long_as_wanted(self, make: MakeHands) -> None:
        jobs, sent = self.get(make, None, None, timeout=timedelta(milliseconds=WAIT_MOST_MS + 500))
        assert jobs == []
        assert [words[1] for words in sent] == [b"%d" % WAIT_MOST_MS, b"500"]

    def test_a_negative_wait_makes_no_sense(self, make: MakeHands) -> None:
        with pytest.raises(ValueError, match="timeout must not be negative"):
            self.get(make, timeout=-1)

    def test_a_node_that_leaves_sends_it_elsewhere(self, make: MakeHands) -> None:
        told = hello(ID_A, (ID_A, *A, 100), (ID_B, *B, 1))
        jobs, _ = self.get(make, refusal("LEAVING x"), told, [row(1)], settings=config(A))
        assert [job.node for job in jobs] == [B]


def test_what_a_job_is_told_goes_to_the_node_that_gave_it(make: MakeHands) -> None:
    hands = make(lambda _address, words: [row(1)] if words[0] == b"GETJOB" else 1, config(A, B))
    hands.client.router.current = B
    [job] = hands.get("q")
    hands.client.router.current = A
    hands.wait(job.working())
    hands.wait(job.nack(delay=3))
    hands.wait(job.ack())
    assert hands.client._pool.nodes.asked() == [B, B, B, B]
    assert hands.client._pool.nodes.sent("NACK") == [[job_id(1).encode(), b"DELAY", b"3"]]


class TestWorking:
    def test_a_single_job_is_looked_for_everywhere(self, make: MakeHands) -> None:
        def answer(address: Address, _words: Words) -> object:
            return refusal("NOJOB x") if address == A else 300

        assert make(answer, config(A, B)).working_one(ID) == 300
        assert make(answer, config(A, B)).working(ID) == [300]

    def test_a_job_that_nobody_knows(self, make: MakeHands) -> None:
        hands = make(replying(refusal("NOJOB x")), config(A, B))
        with pytest.raises(errors.NoJobError):
            hands.working_one(ID)
        [error] = hands.working(ID)
        assert isinstance(error, errors.NoJobError)

    def test_of_several_each_has_its_answer(self, make: MakeHands) -> None:
        answers = make(replying([5, refusal("TOOLATE x"), refusal("CANCELLED x")])).working(ID, "x", "y")
        assert [type(one) for one in answers] == [int, errors.TooLateError, errors.JobCancelledError]


@pytest.mark.parametrize("options", [
    {"count": False, "error": "x"}, {"count": False, "dead": True}, {"dead": True, "delay": 1}
])  # fmt: skip
def test_what_contradicts_itself_is_not_sent(make: MakeHands, options: Any) -> None:
    hands = make(replying(1))
    with pytest.raises(ValueError, match=r"a job that is not tried|what does not count"):
        hands.nack(ID, **options)
    assert hands.client._pool.nodes.log == []


@pytest.mark.parametrize("ids", [[], [ID, ID]])
def test_a_result_is_that_of_one_job(make: MakeHands, ids: list[str]) -> None:
    with pytest.raises(ValueError, match="a result is that of one job"):
        make(replying(1)).ack(*ids, result=b"")


def test_wrong_types_are_named(make: MakeHands) -> None:
    with pytest.raises(TypeError, match="result must be str or bytes, not dict"):
        make(replying(1)).ack(ID, result={})
    with pytest.raises(TypeError, match="progress must be str, not int"):
        make(replying(1)).working_one(ID, progress=50)


def test_a_node_may_ask_the_others_where_jobs_are() -> None:
    assert requests.move(config(), "q", ID).wait_ms == 5000
    assert requests.revive(config(), *[ID] * 1001).wait_ms == 10_000


def test_moves_are_not_sent_twice(make: MakeHands) -> None:
    for name, words in (("move", ["q", ID]), ("revive", [ID])):
        hands = make(replying(lost()), config(A, B))
        with pytest.raises(errors.IncompleteError):
            getattr(hands, name)(*words)
        assert hands.client._pool.nodes.asked() == [A]


def test_a_lost_connection_is_no_loss(make: MakeHands) -> None:
    hands = make(lambda address, _words: lost() if address == A else ID.encode(), config(A, B))
    assert hands.add("q", "b") == ID
    assert hands.client._pool.nodes.asked() == [A, B]
    assert hands.add("q", "b") == ID
    assert hands.client._pool.nodes.asked() == [A, B, B]


def test_affinity_is_followed_where_it_is_wanted(make: MakeHands) -> None:
    hands = make(replying([row(number) for number in range(100)]), config(A, B, affinity=True))
    hands.client.router.learned(B, [1, b"0123abcd" * 5, [b"0123abcd" * 5, b"b", b"2", b"1"]])
    assert hands.get("q", count=100)[0].node == A
    assert hands.get("q", count=100)[0].node == B


class TestOutOfReach:
    """A user without the right to the queue in which the second job is by now."""

    IDS = (job_id(1), job_id(2), job_id(3))

    def test_the_others_are_held(self, make: MakeHands) -> None:
        hands = make(guarding(job_id(2)), config(A, B))
        answers = hands.working_at(B, self.IDS)
        assert [type(one) for one in answers] == [int, errors.NoPermError, int]
        assert hands.client._pool.nodes.asked() == [B] * 4
        assert [type(one) for one in hands.working_at(None, [job_id(2)])] == [errors.NoPermError]

    def test_one_that_nobody_knows_while_a_node_is_away_spoils_nothing(self, make: MakeHands) -> None:
        def answer(_address: Address, words: Words) -> object:
            return refusal("NOJOB nobody can say whether this user may see it") if self.IDS[1].encode() in words else 5

        answers = make(answer).working_at(None, self.IDS)
        assert [type(one) for one in answers] == [int, errors.NoJobError, int]

    def test_the_others_are_kept(self, make: MakeHands) -> None:
        hands = make(guarding(job_id(2)))
        keeping = hands.client.keep_working(self.IDS)
        hands.wait(keeping.beat())
        assert keeping.errors.keys() == {job_id(2)}
        hands.wait(keeping.beat())
        assert hands.client._pool.nodes.sent("WORKING")[-1] == [job_id(1).encode(), job_id(3).encode()]

    def test_the_others_are_acknowledged(self, make: MakeHands) -> None:
        hands = make(guarding(job_id(2)))
        with pytest.raises(errors.NoPermError):
            hands.ack_many(self.IDS)
        assert hands.client._pool.nodes.sent("ACKJOB")[1:] == [[one.encode()] for one in self.IDS]

    def test_the_others_go_back(self, make: MakeHands) -> None:
        hands = make(guarding(job_id(2)))
        hands.give_back_quietly(self.IDS, None, count=False)
        assert hands.client._pool.nodes.sent("NACK")[1:] == [[one.encode(), b"NOCOUNT"] for one in self.IDS]
        with pytest.raises(errors.NoPermError):
            hands.enqueue_at(None, self.IDS)
        assert hands.client._pool.nodes.sent("ENQUEUE")[1:] == [[one.encode()] for one in self.IDS]

    def test_what_was_said_before_all_nodes_went_is_known(self, make: MakeHands) -> None:
        answer, asked = guarding(job_id(2)), []

        def lost_at_last(address: Address, words: Words) -> object:
            asked.append(words)
            return answer(address, words) if len(asked) < 4 else lost()

        hands = make(lost_at_last, config(A, attempts=1))
        groups = [[job_id(0)], self.IDS]
        flow = requests.say(hands.client.router, hands.client.config, groups, lambda ids: requests.ack(config(), *ids))
        with pytest.raises(errors.UnavailableError) as caught:
            hands.wait(hands.client.drive(flow))
        assert caught.value.results == [([job_id(0)], 1), ([job_id(1)], 1), ([job_id(2)], None), ([job_id(3)], None)]

    def test_who_may_not_say_it_at_all_is_told_once(self, make: MakeHands) -> None:
        hands = make(replying(refusal("NOPERM this user has no permissions to run the 'working' command")))
        with pytest.raises(errors.NoPermError):
            hands.working_at(None, self.IDS)
        with pytest.raises(errors.NoPermError):
            hands.ack_many(self.IDS)
        assert len(hands.client._pool.nodes.log) == 2
