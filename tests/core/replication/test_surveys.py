"""Questions to all nodes: who is asked, who is waited for, and what becomes of answers. QLEN CLUSTER asks."""

from typing import Any, Final

import pytest

from cluster.capabilities import SIZES
from cluster.membership import FAIL, PFAIL, Member
from cluster.messages import SURVEY, SURVEYED
from disque.core import links, questions
from disque.core.jobs import figures
from disque.core.model.survey import ANSWER_MOST, Asked
from disque.core.replication import surveys
from tests.core.support import NOTHING, PROCESS, Bench, Client, assert_still_waiting

ASK: Final = ("QLEN", "q", "CLUSTER")


@pytest.fixture
def bench() -> Bench:
    """Three nodes; this one has a job in the queue."""
    bench = Bench(peers=2)
    bench.client().add("q", "body", "REPLICATE", 1)
    bench.sent()
    return bench


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def ask(bench: Bench, client: Client) -> int:
    """Ask; the number of the question."""
    assert client(*ASK) is NOTHING
    asked = bench.sent(SURVEY)
    assert [message[2:] for _, message in asked] == [(figures.LENGTH, (b"q",))] * len(asked)
    numbers = {message[1] for _, message in asked}
    assert len(numbers) == 1
    (number,) = numbers
    return int(number)


def answer(bench: Bench, peer: Member, number: int, *words: bytes) -> None:
    bench.hear(peer, (SURVEYED, number, words))


def understand(bench: Bench, peer: Member, capabilities: int) -> None:
    bench.membership.set_capabilities(peer.id, capabilities)
    links.review(bench.node, bench.now_ms)


class TestAsking:
    def test_all_others_are_asked_once_and_their_answers_make_one_reply(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        answer(bench, bench.peers[0], number, b"20")
        assert_still_waiting(client)
        answer(bench, bench.peers[1], number, b"300")
        assert client.read() == 321
        assert not client.waiting
        assert bench.sent() == []
        bench.advance(10_000)
        assert client.read() is NOTHING

    def test_a_node_alone_answers_at_once(self) -> None:
        client = Bench().client()
        client.add("q")
        assert client(*ASK) == 1
        assert client("QLEN", "nothing", "cluster") == 0

    def test_who_does_not_answer_in_five_seconds_is_unreachable(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        answer(bench, bench.peers[0], number, b"20")
        bench.advance(4999)
        assert_still_waiting(client)
        bench.advance(1)
        assert client.read() == 21
        answer(bench, bench.peers[1], number, b"300")
        assert client.read() is NOTHING
        assert bench.node.messages_skipped == 0

    @pytest.mark.parametrize("why", ["link", "fails", "old", "all"])
    def test_who_cannot_answer_is_not_asked(self, bench: Bench, client: Client, why: str) -> None:
        peer = bench.peers[1]
        if why == "link":
            bench.link_down(peer)
        if why == "fails":
            bench.fail(peer, PFAIL)
        if why == "old":
            understand(bench, peer, SIZES)
        if why == "all":
            bench.link_down(peer)
            bench.link_down(bench.peers[0])
            assert client(*ASK) == 1
            return
        bench.sent()
        number = ask(bench, client)
        answer(bench, peer, number, b"300")
        answer(bench, bench.peers[0], number, b"20")
        assert client.read() == 21

    @pytest.mark.parametrize("how", ["link", "fails", "forgotten", "old"])
    def test_who_is_lost_meanwhile_is_not_waited_for(self, bench: Bench, client: Client, how: str) -> None:
        number = ask(bench, client)
        answer(bench, bench.peers[0], number, b"20")
        if how == "link":
            bench.link_down(bench.peers[1])
        if how == "fails":
            bench.fail(bench.peers[1], FAIL)
        if how == "forgotten":
            bench.membership.forget(bench.peers[1].id, bench.now_ms)
            links.review(bench.node, bench.now_ms)
        if how == "old":
            understand(bench, bench.peers[1], SIZES)
        assert client.read() == 21

    def test_nothing_is_said_again_over_a_new_link(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        bench.link_down(bench.peers[1])
        bench.link_up(bench.peers[1])
        bench.called(bench.peers[1])
        assert bench.sent(SURVEY) == []
        answer(bench, bench.peers[1], number, b"300")
        answer(bench, bench.peers[0], number, b"20")
        assert client.read() == 21

    def test_questions_of_several_clients_are_several(self, bench: Bench, client: Client) -> None:
        other = bench.client()
        first, second = ask(bench, client), ask(bench, other)
        assert second > first
        for peer in bench.peers:
            answer(bench, peer, second, b"5")
        assert other.read() == 11
        assert_still_waiting(client)

    def test_a_client_that_goes_wants_no_answers(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        client.disconnect()
        answer(bench, bench.peers[0], number, b"20")
        bench.advance(10_000)
        assert bench.node.surveys.cost() == 0

    def test_one_that_wants_no_reply_gets_none(self, bench: Bench, client: Client) -> None:
        client.send("CLIENT", "REPLY", "SKIP")
        number = ask(bench, client)
        for peer in bench.peers:
            answer(bench, peer, number, b"20")
        assert client.read() is NOTHING
        assert client("PING") == b"PONG"

    def test_when_everything_is_forgotten_what_came_is_the_reply(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        answer(bench, bench.peers[0], number, b"20")
        assert bench.client()("DEBUG", "FLUSHALL") == b"OK"
        assert client.read() == 21


class TestLies:
    @pytest.mark.parametrize("words", [(), (b"",), (b"x",), (b"-1",), (b"1" * 19,), (b"1", b"x" * ANSWER_MOST)])
    def test_an_answer_without_sense_is_none(self, bench: Bench, client: Client, words: tuple[bytes, ...]) -> None:
        number = ask(bench, client)
        answer(bench, bench.peers[0], number, *words)
        answer(bench, bench.peers[0], number, b"20")
        assert_still_waiting(client)
        answer(bench, bench.peers[1], number, b"300")
        assert client.read() == 301

    def test_one_node_answers_once(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        for _ in range(3):
            answer(bench, bench.peers[0], number, b"20")
        assert_still_waiting(client)

    def test_answers_to_what_nobody_asked_are_skipped(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        for wrong in (0, number - 1, number + 1, 2**62 - 1):
            answer(bench, bench.peers[0], wrong, b"20")
        assert_still_waiting(client)


class TestAnswering:
    def test_a_question_is_answered(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 7, (b"1",)))]

    @pytest.mark.parametrize("what", [0, 999, 2**43 - 1])
    def test_one_of_another_kind_is_answered_too(self, bench: Bench, what: int) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, what, (b"q",)))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 7, ()))]

    @pytest.mark.parametrize("words", [(), (b"q", b"q")])
    def test_and_one_that_makes_no_sense(self, bench: Bench, words: tuple[bytes, ...]) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, words))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 7, ()))]

    def test_none_is_answered_twice(self, bench: Bench) -> None:
        for number in (7, 7, 6, 8):
            bench.hear(bench.peers[0], (SURVEY, number, figures.LENGTH, (b"q",)))
        assert [message[1] for _, message in bench.sent(SURVEYED)] == [7, 8]
        assert bench.node.messages_skipped == 2

    def test_another_process_has_other_numbers(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        bench.called(bench.peers[0], PROCESS + 1)
        bench.hear(bench.peers[0], (SURVEY, 3, figures.LENGTH, (b"q",)))
        assert [message[1] for _, message in bench.sent(SURVEYED)] == [7, 3]

    def test_what_was_heard_is_forgotten_with_its_node(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        bench.membership.forget(bench.peers[0].id, bench.now_ms)
        links.review(bench.node, bench.now_ms)
        assert bench.node.surveys.heard == {}

    def test_an_answer_waits_for_its_records(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        assert bench.node.early == []


class TestLater:
    """A question whose answer takes a while."""

    asked: list[Asked]

    @pytest.fixture(autouse=True)
    def slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = []

        def say_later(node: Any, asked: Asked, now_ms: int) -> None:
            del node, now_ms
            self.asked.append(asked)

        monkeypatch.setitem(questions.TABLE, figures.LENGTH, say_later)

    def test_it_is_answered_later(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        assert bench.sent() == []
        for _ in range(2):
            surveys.say(bench.node, self.asked[0], (b"5",))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 7, (b"5",)))]

    def test_to_a_node_that_is_gone_it_is_said_when_it_is_back(self, bench: Bench) -> None:
        """One of the two has just started: the link of the asker may stand before that to the asker does."""
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        bench.link_down(bench.peers[0])
        bench.sent()
        surveys.say(bench.node, self.asked[0], (b"5",))
        assert bench.sent() == []
        for told in ([(bench.peers[0].id, (SURVEYED, 7, (b"5",)))], []):
            bench.link_up(bench.peers[0])
            assert bench.sent(SURVEYED) == told

    def test_a_few_small_ones_are_kept_and_the_last(self, bench: Bench) -> None:
        most = surveys.KEPT_MOST
        for number in range(most + 3):
            bench.hear(bench.peers[0], (SURVEY, number, figures.LENGTH, (b"q",)))
        bench.link_down(bench.peers[0])
        bench.sent()
        surveys.say(bench.node, self.asked[0], (b"5",))
        for asked in self.asked[1:-1]:
            surveys.say(bench.node, asked, (b"6",))
        surveys.say(bench.node, self.asked[-1], (b"7" * surveys.KEPT_BYTES,))
        bench.link_up(bench.peers[0])
        assert [message[1] for _, message in bench.sent(SURVEYED)] == [*range(2, most + 2)]

    def test_none_is_kept_for_a_node_that_was_forgotten(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        bench.link_down(bench.peers[0])
        surveys.say(bench.node, self.asked[0], (b"5",))
        assert bench.node.surveys.kept
        bench.membership.forget(bench.peers[0].id, bench.now_ms)
        links.review(bench.node, bench.now_ms)
        assert bench.node.surveys.kept == {}

    def test_the_asker_itself_is_waited_for(self, bench: Bench, client: Client) -> None:
        number = ask(bench, client)
        for peer in bench.peers:
            answer(bench, peer, number, b"20")
        bench.advance(10_000)
        assert_still_waiting(client)
        surveys.say(bench.node, self.asked[0], (b"5",))
        assert client.read() == 45

    def test_or_alone(self, bench: Bench, client: Client) -> None:
        for peer in bench.peers:
            bench.link_down(peer)
        assert client(*ASK) is NOTHING
        bench.advance(10_000)
        assert_still_waiting(client)
        surveys.say(bench.node, self.asked[0], (b"5",))
        assert client.read() == 5

    def test_when_everything_is_forgotten_it_cannot_be_answered(self, bench: Bench, client: Client) -> None:
        ask(bench, client)
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"q",)))
        assert bench.client()("DEBUG", "FLUSHALL") == b"OK"
        assert (bench.peers[0].id, (SURVEYED, 7, ())) in bench.sent()
        assert client.read() == 0

    def test_of_one_node_only_so_many_wait(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(surveys, "ASKED_MOST", 3)
        for number in range(1, 5):
            bench.hear(bench.peers[0], (SURVEY, number, figures.LENGTH, (b"q",)))
        bench.hear(bench.peers[1], (SURVEY, 1, figures.LENGTH, (b"q",)))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 4, ()))]
        assert len(self.asked) == 4
        assert all(surveys.is_wanted(bench.node, asked) for asked in self.asked)

    def test_nor_one_that_is_too_long(self, bench: Bench) -> None:
        bench.hear(bench.peers[0], (SURVEY, 7, figures.LENGTH, (b"x" * surveys.QUESTION_MOST,)))
        assert bench.sent() == [(bench.peers[0].id, (SURVEYED, 7, ()))]
