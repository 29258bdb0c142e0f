"""FIND: which job has a UNIQUE key, by what this node and others know."""

import pytest

from cluster.messages import GOES_WITH_JOB, IS_SETTLED, KEEPKEY, SURVEY, SURVEYED
from disque.core.dedup import finding
from disque.core.dedup.keys import digest_of
from disque.core.model.key import COMMITTED, SETTLED
from tests.core.support import MYSELF, NOTHING, Bench, Client, foreign_id

ONE, OTHER = foreign_id(1), foreign_id(2)


def test_at_one_node(bench: Bench, client: Client) -> None:
    assert client("FIND", "q", "k") is None
    job_id = client.add("q", "body", "UNIQUE", "k", 0)
    other_id = client.add("q", "body", "UNIQUE", "l", 5)
    assert client.raw("FIND", "q", "k") == b"$40\r\n%b\r\n" % job_id
    assert client("FIND", "q", "l") == other_id
    assert client("FIND", "r", "k") is None
    client("ACKJOB", job_id, other_id)
    assert client("FIND", "q", "k") is None
    assert client("FIND", "q", "l") == other_id, "within its window"
    bench.now_ms += 5000
    assert client("FIND", "q", "l") is None


def test_nil_is_that_of_the_protocol(client: Client) -> None:
    client("HELLO", 3)
    assert client.raw("FIND", "q", "k") == b"_\r\n"


@pytest.mark.parametrize("key", [b"", b"k" * 513])
def test_what_can_be_no_key(client: Client, key: bytes) -> None:
    assert client.raw("FIND", "q", key) == b"-ERR a UNIQUE key has 1 to 512 bytes\r\n"


def test_a_key_that_may_still_come_to_nothing_is_none() -> None:
    bench = Bench(peers=1)
    bench.agreeable = False
    bench.client().send("ADDJOB", "q", "body", 0, "REPLICATE", 2, "UNIQUE", "k", 10)
    bench.settle()
    assert finding.look(bench.node, digest_of(b"q", b"k"), bench.now_ms) is None


class TestAmongNodes:
    @pytest.fixture
    def bench(self) -> Bench:
        return Bench(peers=2, journaling=True)

    def name(self, bench: Bench, *, mine: bool) -> bytes:
        """A key that this node keeps as the first of its keepers, or not."""
        names = (b"key%d" % number for number in range(1000))
        ring = bench.node.unique.ring
        bench.advance(60_000)  # all keys are where they belong
        return next(name for name in names if (ring.keepers(digest_of(b"q", name), 1) == (MYSELF,)) == mine)

    def ask(self, bench: Bench, client: Client, name: bytes) -> int:
        bench.sent()
        assert client("FIND", "q", name) is NOTHING
        asked = bench.sent(SURVEY)
        assert [message[2:] for _, message in asked] == [(finding.KEY, (digest_of(b"q", name),))] * 2
        return int(asked[0][1][1])

    def keep(self, bench: Bench, name: bytes, flags: int) -> None:
        """Another node has this node keep a key for the job ONE."""
        bench.hear(bench.peers[0], (KEEPKEY, flags, 2, 60_000, (ONE,), (digest_of(b"q", name),)))

    def test_the_first_keeper_knows(self, bench: Bench, client: Client) -> None:
        name = self.name(bench, mine=True)
        assert client("FIND", "q", name) is None
        self.keep(bench, name, IS_SETTLED)
        assert client("FIND", "q", name) == ONE

    def test_others_ask_all_and_the_first_that_knows_is_believed(self, bench: Bench, client: Client) -> None:
        number = self.ask(bench, client, self.name(bench, mine=False))
        bench.hear(bench.peers[1], (SURVEYED, number, (b"2", OTHER)))
        assert client.read() == OTHER
        bench.hear(bench.peers[0], (SURVEYED, number, (b"0",)))
        assert client.read() is NOTHING

    def test_if_none_knows_the_answer_is_nil(self, bench: Bench, client: Client) -> None:
        number = self.ask(bench, client, self.name(bench, mine=False))
        bench.hear(bench.peers[1], (SURVEYED, number, (b"0",)))
        bench.hear(bench.peers[0], (SURVEYED, number, ()))
        assert client.read() is None

    @pytest.mark.parametrize("flags", [0, GOES_WITH_JOB])
    def test_an_id_that_is_only_committed_counts_where_nobody_knows_better(
        self, bench: Bench, client: Client, flags: int
    ) -> None:
        name = self.name(bench, mine=True)
        self.keep(bench, name, flags)
        number = self.ask(bench, client, name)
        bench.hear(bench.peers[0], (SURVEYED, number, (b"0",)))
        bench.hear(bench.peers[1], (SURVEYED, number, (b"0",)))
        assert client.read() == ONE
        number = self.ask(bench, client, name)
        bench.hear(bench.peers[0], (SURVEYED, number, (b"2", OTHER)))
        assert client.read() == OTHER

    def test_what_this_node_answers(self, bench: Bench) -> None:
        digest = digest_of(b"q", b"k")
        self.keep(bench, b"k", IS_SETTLED)
        bench.sent()
        for number, words in enumerate([(digest,), (digest_of(b"q", b"l"),), (b"k",), (), (digest, digest)]):
            bench.hear(bench.peers[0], (SURVEY, number, finding.KEY, words))
        said = [message[2] for _, message in bench.sent(SURVEYED)]
        assert said == [(b"2", ONE), (b"0",), (), (), ()]


@pytest.mark.parametrize("words", [(b"2",), (b"2", b"x" * 40), (b"3", ONE), (b"1", b""), (b"x",), (b"",)])
def test_lies(words: tuple[bytes, ...]) -> None:
    answers = finding.Finding(digest_of(b"q", b"k"), 2)
    assert not answers.take(b"a", words)
    assert answers.reply() == b"$-1\r\n"


def test_of_several_committed_the_smallest_id_is_given() -> None:
    answers = finding.Finding(digest_of(b"q", b"k"), 2)
    for job_id in (OTHER, ONE, OTHER):
        assert answers.take(b"a", (finding.SAID[COMMITTED], job_id))
        assert not answers.is_settled()
    assert answers.reply() == b"$40\r\n%b\r\n" % ONE
    assert answers.take(b"a", (finding.SAID[SETTLED], OTHER))
    assert answers.is_settled()
