"""What those who watch know of late WORKINGs, clocks, jobs that were given or put away, and of who knew of an end."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.messages import GOTJOB, REFUSED, REFUSED_JOURNAL, YOURJOBS, repljob, takejob, yourjobs_row
from disque.core.jobs import orders
from disque.core.model.extra import DIED_RETURNED
from disque.core.model.session import Spread
from disque.core.replication import returned, tries
from tests.core.support import Bench
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.disk import Yield
from tests.simulation.ears import Ears
from tests.simulation.history import Claim, Known, Plan
from tests.simulation.options import Options
from tests.simulation.watch import is_over
from tests.simulation.world import Violation, World

JOB = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-0000"
#: So long the messages of these two machines take, there and back.
TRAVEL_MS = 6


@pytest.mark.parametrize("killed", [False, True])
def test_who_sends_nothing_more_is_answered_before_the_end_but_for_who_is_cut(killed: bool) -> None:
    watch = Cluster(World(Options(1, 2))).watch
    process: Any = SimpleNamespace(name="n0.1")
    connection: Any = SimpleNamespace(ending=True, killed=killed, owed=[Request([b"RESULT", JOB], 0)])
    if killed:
        watch.hangs_up(process, connection)
    else:
        with pytest.raises(Violation, match="owes"):
            watch.hangs_up(process, connection)


@pytest.mark.parametrize(("left_ms", "late"), [(0, True), (TRAVEL_MS, True), (TRAVEL_MS + 1, False)])
def test_a_working_is_late_if_the_job_is_queued_elsewhere_before_that_is_heard(left_ms: int, late: bool) -> None:
    watch = Cluster(World(Options(1, 2))).watch
    bench = Bench()
    client = bench.client()
    job_id = bytes(client.add("q", "b", "RETRY", 1))
    first: Any = SimpleNamespace(machine=SimpleNamespace(number=0))
    now_ms = bench.now_ms + 1000 - left_ms
    other: Any = SimpleNamespace(machine=SimpleNamespace(number=1), node=bench.node, now_ms=lambda: now_ms)
    assert watch.is_late(first, other, job_id), "it is in the queue"
    assert client.get("q") == [job_id]
    assert watch.is_late(first, other, job_id) == late
    client("ACKJOB", job_id)
    assert not watch.is_late(first, other, job_id)


def test_a_clock_that_was_set_before_a_start_that_failed_has_jumped() -> None:
    world = World(Options(1, 1))
    machine = Cluster(world).machines[0]
    watch = machine.cluster.watch
    process: Any = SimpleNamespace(machine=machine, node=Bench().node, now_ms=lambda: 0)
    watch.started(process)
    assert not watch.history.jumps
    machine.offset_ms += 5000
    machine.jumped = False  # that start ended while it read its journal; the next one finds the clock as it is
    watch.started(process)
    watch.started(process)
    assert watch.history.jumps == {0: [world.now]}


def test_a_process_that_dies_had_heard_of_an_end_if_it_or_its_journal_knew() -> None:
    bench = Bench()
    client = bench.client()
    job_id = bytes(client.add("q"))
    process: Any = SimpleNamespace(node=bench.node)
    assert not is_over(process, job_id, None)
    client("ACKJOB", job_id)
    assert is_over(process, job_id, None)
    bench.node.loading = True
    assert not is_over(process, job_id, {job_id: Yield(300, 1000)})
    assert not is_over(process, job_id, None), "it is the first process of its machine"
    assert is_over(process, job_id, {}), "the one before knew, and power failed while this one was reading"


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("ended_ms", [0, 500])
def test_a_job_that_is_refused_after_a_link_has_ended_is_lost_if_its_node_had_forgotten_it(
    ended_ms: int, is_kept: bool, is_given: bool
) -> None:
    cluster = Cluster(World(Options(1, 2)))
    watch, log = cluster.watch, cluster.network.log
    begin_ms = cluster.world.now
    cluster.world.now += 1000
    log.since[0, 1] = begin_ms + ended_ms  # ended, and came again
    bench = Bench()
    job_id = bytes(bench.client().add("q", "b", "RETRY", 0))
    if not is_kept:
        bench.client()("DELJOB", job_id)
    known = watch.history.jobs[job_id] = Known(job_id, Plan(b"b", b"q"), cluster.world.now + 86_400_000)
    known.answered_ms = begin_ms
    known.handing, known.giver = is_given, 0
    giver: Any = SimpleNamespace(machine=SimpleNamespace(number=0), node=bench.node)
    taker: Any = SimpleNamespace(machine=SimpleNamespace(number=1), node=Bench().node)
    watch.message(giver, taker, (REFUSED, REFUSED_JOURNAL, (job_id,)))
    assert known.lost == (is_given and not is_kept and ended_ms > 0)
    assert not known.handing


class Giving:
    """Three machines, and a job with RETRY 0 that the first one has answered for; machines that leave give it away."""

    def __init__(self) -> None:
        self.watch = Cluster(World(Options(1, 3))).watch
        self.processes: list[Any] = [
            SimpleNamespace(machine=SimpleNamespace(number=number), node=Bench().node, gone=False)
            for number in range(3)
        ]
        self.known = self.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), self.watch.world.now + 86_400_000)
        self.known.plan.retry = 0
        self.known.coordinator = 0
        self.known.answered_ms = self.watch.world.now
        self.known.holders = {0}

    def sends(self, source: int, message: Any) -> None:
        """A message leaves."""
        self.watch.leaving(self.processes[source], [(b"", message)])

    def hears(self, source: int, target: int, message: Any) -> None:
        """A message comes."""
        self.watch.message(self.processes[target], self.processes[source], message)

    def gives(self, source: int, target: int) -> None:
        """TAKEJOB leaves, and comes."""
        fields: Any = {"flags": 4, "left_ms": 1, "delay_ms": 0, "holders": (), "ids": (JOB,), "bodies": (b"b",)}
        message = takejob(repljob(b"q", b"", ctimes=(1,), **fields))
        self.sends(source, message)
        self.hears(source, target, message)


def test_a_job_that_was_given_away_and_handed_on_is_where_it_came_to_last() -> None:
    giving = Giving()
    giving.gives(0, 1)
    row = yourjobs_row(JOB, b"b", b"", left_ms=1, ctime=1, nacks=0, deliveries=0, holders=())
    giving.sends(1, (YOURJOBS, b"q", (row,)))
    giving.hears(1, 2, (YOURJOBS, b"q", (row,)))
    assert not giving.known.handing, "no answer that is missing excuses what happens to it from here on"
    giving.hears(1, 0, (GOTJOB, (JOB,)))  # late, since 0 waits for its disk
    assert giving.known.holders == {2}


@pytest.mark.parametrize("is_forgotten", [True, False])
def test_who_has_forgotten_a_node_takes_nothing_of_it(is_forgotten: bool) -> None:
    giving = Giving()
    if is_forgotten:
        giving.processes[1].node.membership.departed[giving.processes[0].node.node_id] = None
    row = yourjobs_row(JOB, b"b", b"", left_ms=1, ctime=1, nacks=0, deliveries=0, holders=())
    giving.sends(0, (YOURJOBS, b"q", (row,)))
    giving.hears(0, 1, (YOURJOBS, b"q", (row,)))
    assert giving.known.lost == is_forgotten


@pytest.mark.parametrize("answers", [(1, 2), (2, 1)])
def test_a_job_that_was_given_away_twice_is_where_it_was_given_last(answers: tuple[int, ...]) -> None:
    giving = Giving()
    giving.gives(0, 1)
    giving.gives(1, 2)
    for number in answers:
        assert giving.known.handing == (2 in answers[answers.index(number) :])
        giving.hears(number, number - 1, (GOTJOB, (JOB,)))
    assert giving.known.holders == {2}
    assert not giving.known.handing


@pytest.mark.parametrize(("verb", "to"), [(orders.MOVE, b"other"), (orders.REVIVEJOB, b"")])
def test_when_a_node_put_away_what_came_back_is_noted_and_when_that_was_put_back(verb: bytes, to: bytes) -> None:
    watch = Cluster(World(Options(1, 1))).watch
    bench = Bench()
    process: Any = SimpleNamespace(node=bench.node)
    ears = Ears(bench.node, bench.now_ms)
    job_id = bytes(bench.client().add("q", "b"))
    known = watch.history.jobs[job_id] = Known(job_id, Plan(b"b", b"q"), 86_400_000)

    def put_back() -> None:
        """Somebody puts it elsewhere."""
        order = orders.Order(verb, b"", to, 0)
        assert orders.do(bench.node, bench.job(job_id), order, bench.now_ms)
        watch.heard(process, [], ears.events())

    def die(queue: bytes) -> None:
        """It is put there, by the node."""
        tries.put_away(bench.node, bench.job(job_id), queue, DIED_RETURNED, bench.now_ms)
        watch.heard(process, [], ears.events())

    die(b"q:dead")
    put_back()
    assert [known.returned_ms, known.put_back_ms] == [[], []], "that is another queue"
    die(returned.QUEUE)
    assert [known.returned_ms, known.put_back_ms] == [[watch.world.now], []]
    put_back()
    assert known.put_back_ms == [watch.world.now]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("is_outside", [True, False])
def test_who_keeps_no_copy_of_an_async_is_a_holder_until_enough_other_nodes_are(
    is_outside: bool, is_async: bool
) -> None:
    giving = Giving()
    known = giving.known
    known.plan.asynchronous, known.plan.retry, known.plan.repl = is_async, 5, 2
    bench = Bench()
    job = bench.job(bench.client().add("q"))
    giving.processes[0].node.copies.wanted[JOB] = Spread(job, None, outside=is_outside)
    giving.hears(1, 0, (GOTJOB, (JOB,)))
    giving.hears(1, 0, (GOTJOB, (JOB,)))
    assert known.holders == {0, 1}, "the same node twice is one"
    giving.processes[1].node.node_id = b"f" * 40  # the same machine, which is another node now
    giving.hears(1, 0, (GOTJOB, (JOB,)))
    lets_go = is_outside and is_async
    assert known.holders == ({1} if lets_go else {0, 1})
    assert (0 in giving.watch.history.forgot_ms.get(JOB, {})) == lets_go


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_key_that_is_found_promises_no_copies_that_were_dropped_before(
    monkeypatch: pytest.MonkeyPatch, is_flushed: bool
) -> None:
    cluster = Cluster(World(Options(1, 2)))
    watch = cluster.watch
    bench = Bench()
    job_id = bytes(bench.client().add("q", "first"))  # whoever asked for it has gone
    process: Any = SimpleNamespace(machine=cluster.machines[1], node=bench.node, reset_ms=-1)
    maker: Any = SimpleNamespace(number=0, process=None, up=False)
    monkeypatch.setattr(cluster, "processes", lambda: [process])
    monkeypatch.setattr(cluster, "maker_of", lambda _: maker)
    watch.history.plans = {body: Plan(body, b"q") for body in (b"first", b"second")}
    watch.history.plans[b"first"].asked_ms = 10
    watch.history.flushes[0] = 10 if is_flushed else 9
    watch.left(process, Request([b"ADDJOB", b"q", b"second", b"0", b"UNIQUE", b"k"], 0), job_id, {})
    known = watch.history.jobs[job_id]
    assert known.answered_ms == watch.world.now
    assert known.ended == ("flushed" if is_flushed else "")


def test_a_nack_at_who_has_handed_the_job_on_since_its_delivery_may_be_anyones() -> None:
    known = Known(JOB, Plan(b"b", b"q"), 86_400_000)
    assert not known.is_here(0), "nobody got it"
    known.claims.append(Claim(1000, 0, 1, (0,), working=False))
    known.handed_on_ms[0] = 999
    assert known.is_here(0)
    assert not known.is_here(1)
    known.handed_on_ms[0] = 2000
    assert not known.is_here(0)
