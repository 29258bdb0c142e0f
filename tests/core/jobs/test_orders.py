"""What a node does that is told to do something with jobs: all that another node can ask, and all its nonsense."""

from collections import Counter

import pytest

from cluster.membership import Member
from cluster.messages import MOVED, SETACK, SURVEY, SURVEYED
from disque.core.jobs import orders
from disque.core.model.job import IN_LINE, LEASE_OWNER, LEASE_RELAYED
from disque.core.model.jobid import SHARDS
from tests.core.support import MYSELF, UNKNOWN_ID, Bench, Client, all_jobs, foreign_id, repljob

END = b"0 %d 0" % SHARDS
MIXED_END = b"0 %d 1" % SHARDS


@pytest.fixture
def bench() -> Bench:
    return Bench(peers=2)


@pytest.fixture
def peer(bench: Bench) -> Member:
    return bench.peers[0]


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


class Asker:
    """Another node, whose questions have numbers."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.number = 0

    def __call__(self, what: int, *words: bytes) -> tuple[bytes, ...] | None:
        """The answer to a question; None if it does not come yet."""
        self.number += 1
        self.bench.hear(self.bench.peers[0], (SURVEY, self.number, what, words))
        return self.answer()

    def answer(self) -> tuple[bytes, ...] | None:
        answers = self.bench.sent(SURVEYED)
        assert len(answers) <= 1
        if not answers:
            return None
        ((peer, message),) = answers
        assert (peer, message[1]) == (self.bench.peers[0].id, self.number)
        words: tuple[bytes, ...] = message[2]
        return words


@pytest.fixture
def ask(bench: Bench) -> Asker:
    return Asker(bench)


def add(client: Client, queue: str = "q", *options: str | int) -> bytes:
    return client.add(queue, "body", "REPLICATE", 1, *options)


def dead_letter(client: Client, queue: str = "q") -> bytes:
    job = add(client, queue)
    assert client.get(queue) == [job]
    assert client("NACK", job, "DEAD") == 1
    return job


class TestById:
    def test_where_jobs_are(self, bench: Bench, client: Client, ask: Asker, peer: Member) -> None:
        queued, out, delayed = add(client), add(client, "r"), add(client, "q", "DELAY", 9)
        assert client.get("r") == [out]
        bench.hear(peer, repljob(peer.id))
        assert ask(orders.WHERE, queued, out, delayed, foreign_id(), UNKNOWN_ID) == (b"32210",)
        job = bench.job(delayed)
        job.flags = job.flags & ~LEASE_OWNER | LEASE_RELAYED  # as after a start
        assert ask(orders.WHERE, delayed) == (b"2",)

    def test_one_that_waits_for_its_copies_or_is_done_is_not_known(self, client: Client, ask: Asker) -> None:
        done = client.add("q", "body", "REPLICATE", 1)
        assert client("ACKJOB", done) == 1
        assert ask(orders.WHERE, done) == (b"0",)

    def test_it_does_it_with_those_that_it_has(self, bench: Bench, client: Client, ask: Asker) -> None:
        job, other = add(client), add(client)
        assert ask(orders.THESE, b"MOVE", b"", b"r", b"0", job, UNKNOWN_ID) == (b"1",)
        assert client.get("r", count=9) == [job]
        assert ask(orders.THESE, b"MOVE", b"", b"r", b"500", other) == (b"1",)
        assert client.get("r") == []
        bench.advance(500)
        assert client.get("r") == [other]

    def test_of_a_queue_only_what_is_there_still(self, client: Client, ask: Asker) -> None:
        jobs = [add(client) for _ in range(4)]
        assert client.get("q") == [jobs[0]]
        assert client("MOVE", "r", jobs[1]) == 1
        assert ask(orders.THESE, b"QFLUSH", b"q", b"", b"0", *jobs) == (b"2",)
        assert client("ACKJOB", *jobs) == 2

    def test_dead_letters_go_back(self, client: Client, ask: Asker) -> None:
        job, other = dead_letter(client), add(client, "q:dead")
        assert ask(orders.THESE, b"REVIVEJOB", b"", b"", b"0", job, other) == (b"1",)
        assert client.get("q", count=9) == [job]

    def test_many_are_done_in_slices(
        self, bench: Bench, client: Client, ask: Asker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(orders, "SLICE", 2)
        jobs = [add(client) for _ in range(5)]
        assert ask(orders.THESE, b"MOVE", b"", b"r", b"0", *jobs) is None
        assert client("QLEN", "r") == 2
        bench.advance(0)
        assert ask.answer() == (b"5",)


class TestOldest:
    def test_queued_and_delayed_ones_by_age(self, bench: Bench, client: Client, ask: Asker) -> None:
        delayed = add(client, "q", "DELAY", 9)
        bench.advance(1)
        out = add(client)
        assert client.get("q") == [out]
        queued = [add(client, "q", "PRIORITY", number) for number in range(3)]
        said = ask(orders.OLDEST, b"QFLUSH", b"q", b"", b"0", b"3")
        assert said is not None
        assert (said[0], said[2::2]) == (b"0", (delayed, *queued[:2]))
        assert [int(word) for word in said[1::2]] == sorted(int(word) for word in said[1::2])

    def test_jobs_without_an_origin_are_counted(self, client: Client, ask: Asker) -> None:
        other, job = add(client, "q:dead"), dead_letter(client)
        said = ask(orders.OLDEST, b"REVIVE", b"q:dead", b"", b"0", b"3")
        assert said is not None
        assert (said[0], said[2::2]) == (b"1", (job,))
        assert client.get("q:dead", count=9) == [other, job]

    def test_a_long_walk_is_done_in_slices(
        self, bench: Bench, client: Client, ask: Asker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(orders, "STEP", 3)
        jobs = [add(client) for _ in range(20)]
        assert ask(orders.OLDEST, b"QFLUSH", b"q", b"", b"0", b"2") is None
        bench.advance(0)
        said = ask.answer()
        assert said is not None
        assert said[2::2] == tuple(jobs[:2])


class TestAll:
    def test_queued_and_delayed_ones_go(self, client: Client, ask: Asker) -> None:
        queued, out, delayed = add(client), add(client, "r"), add(client, "q", "DELAY", 9)
        assert client.get("r") == [out]
        assert client("MOVE", "q", queued) == 1
        assert ask(orders.ALL, b"QFLUSH", b"r", b"", b"0", b"") == (b"0 0", END)
        assert ask(orders.ALL, b"QFLUSH", b"q", b"", b"0", b"") == (b"2 0", END)
        assert client("ACKJOB", queued, delayed) == 0
        assert client("ACKJOB", out) == 1

    def test_what_is_delayed_stays_so_where_it_goes(self, bench: Bench, client: Client, ask: Asker) -> None:
        delayed = add(client, "q", "DELAY", 9)
        assert ask(orders.ALL, b"QMOVE", b"q", b"r", b"0", b"") == (b"1 0", END)
        bench.advance(8999)
        assert client.get("q", "r") == []
        bench.advance(1)
        assert client.get("r") == [delayed]

    def test_flushed_jobs_end_at_all_holders_and_count_as_cancelled(
        self, bench: Bench, client: Client, peer: Member
    ) -> None:
        bench.hear(peer, repljob(peer.id))
        job_id = foreign_id()
        assert client("ENQUEUE", job_id) == 1
        bench.sent()
        bench.hear(peer, (SURVEY, 1, orders.ALL, (b"QFLUSH", b"q", b"", b"0", b"")))
        sent = bench.told(peer)
        assert (SURVEYED, 1, (b"1 0", END)) in sent
        assert (SETACK, tuple(sorted((MYSELF, peer.id))), (job_id,)) in sent
        specs = bench.node.queues[b"q"].specs
        assert specs is not None
        assert (specs.last.figures.acked, specs.last.figures.cancelled) == (0, 1)

    def test_the_head_is_popped(self, bench: Bench, client: Client, ask: Asker) -> None:
        for _ in range(150):
            add(client)
        middle = Counter(job.place for job in all_jobs(bench.node))
        assert middle == {IN_LINE: 150}
        assert ask(orders.ALL, b"QMOVE", b"q", b"r", b"0", b"") is None
        assert (client("QLEN", "q"), client("QLEN", "r")) == (50, 100)
        bench.advance(0)
        assert ask.answer() == (b"150 0", END)
        assert [len(line) for line in bench.node.queues[b"q"].own_lines()] == [0, 0]

    def test_with_jobs_that_stay_the_table_is_looked_through(self, client: Client, ask: Asker) -> None:
        first, dead, last = add(client, "q:dead"), dead_letter(client), add(client, "q:dead")
        assert ask(orders.ALL, b"REVIVE", b"q:dead", b"", b"0", b"") == (b"1 2", MIXED_END)
        assert client.get("q:dead", count=9) == [first, last]
        assert client.get("q") == [dead]

    def test_after_so_many_it_says_how_far_it_is(
        self, client: Client, ask: Asker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(orders, "ROUND", 3)
        for _ in range(4):
            add(client)
        add(client, "q", "DELAY", 9)
        assert ask(orders.ALL, b"QFLUSH", b"q", b"", b"0", b"") == (b"3 0", b"1 0 0")
        add(client)  # it was not there when the order came
        assert ask(orders.ALL, b"QFLUSH", b"q", b"", b"0", b"1 0 0") == (b"2 0", END)
        assert client("QLEN", "q") == 1

    def test_what_moves_back_into_its_own_queue_does_no_harm(self, client: Client, ask: Asker) -> None:
        job = client.add("q", "body", "REPLICATE", 1, "DEADLETTER", "q")
        assert client.get("q") == [job]
        assert client("NACK", job, "DEAD") == 1
        said = ask(orders.ALL, b"REVIVE", b"q", b"", b"0", b"")
        assert said is not None
        assert said[0].startswith(b"1 ")
        assert client.get("q", count=9) == [job]

    def test_where_memory_is_full_nothing_moves(self, bench: Bench, client: Client, ask: Asker) -> None:
        add(client)
        bench.node.limits.full = 0
        assert ask(orders.ALL, b"QMOVE", b"q", b"r", b"0", b"") == (b"0 0", END)
        assert ask(orders.ALL, b"QFLUSH", b"q", b"", b"0", b"") == (b"1 0", END)


MOVE = (b"MOVE", b"", b"r", b"0")
FLUSH = (b"QFLUSH", b"q", b"", b"0")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        *[(what, words) for what in (10, 11, 12, 13) for words in ((), (b"x",), FLUSH, (b"GETJOB", *FLUSH[1:], b""))],
        *[(11, (*MOVE, *ids)) for ids in ((b"",), (b"x" * 40,), (UNKNOWN_ID, b"x"))],
        *[(11, (*MOVE[:3], delay, UNKNOWN_ID)) for delay in (b"", b"-1", b"x", b"9" * 18)],
        *[(12, (*FLUSH, count)) for count in (b"", b"0", b"-1", b"x", b"5001")],
        *[(13, (*FLUSH, place)) for place in (b"1", b"1 2", b"1 1025 0", b"0 0 2", b"-1 0 0", b"x", b"1 2 3 4")],
        (13, (*FLUSH, b"", b"")),
        (13, (*MOVE, b"")),
    ],
)
def test_nonsense_cannot_be_answered(client: Client, ask: Asker, what: int, words: tuple[bytes, ...]) -> None:
    add(client)
    assert ask(what, *words) == ()
    assert client("QLEN", "q") == 1


def test_moves_are_told_to_the_holders(bench: Bench, peer: Member) -> None:
    bench.hear(peer, repljob(peer.id))
    bench.sent()
    bench.hear(peer, (SURVEY, 1, orders.THESE, (b"MOVE", b"", b"r", b"0", foreign_id())))
    told = bench.told(peer)
    assert [message[0] for message in told] == [SURVEYED, MOVED]
    assert told[0][2] == (b"1",)


def test_a_node_that_cannot_write_does_nothing(bench: Bench, client: Client, ask: Asker) -> None:
    job = add(client)
    bench.node.misconf = b"MISCONF the disk is full"
    assert ask(orders.THESE, *MOVE, job) == ()
    assert ask(orders.ALL, *FLUSH, b"") == ()
    bench.node.misconf = b""
    assert client.get("q") == [job]
