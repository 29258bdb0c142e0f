"""What the checker of kept ends takes for a loss."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.capabilities import ENDS
from disque.core.model.ends import CANCELLED, DONE, End
from disque.core.model.job import ACKED, QUEUED
from tests.simulation.checks.kept import Kept
from tests.simulation.checks.remembered import SOON_MS, Remembered
from tests.simulation.cluster import Cluster
from tests.simulation.history import Known, Plan
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.world import Violation, World

JOB = b"D-11111111-how-it-has-ended-is-of-use---05a1"
NOW_MS = 100_000
LIFE_MS = 60_000
TIMEOUT_MS = 1000


class Place:
    """Three machines. The first two had a job and keep how it has ended, as was seen a second ago."""

    def __init__(self, *, jumps: bool = False) -> None:
        self.cluster = Cluster(World(Options(1, 3, timeout_ms=TIMEOUT_MS, jumps=jumps)))
        self.world = self.cluster.world
        self.world.now = NOW_MS
        self.known = Known(JOB, Plan(b"b", b"q"), NOW_MS + LIFE_MS)
        self.known.plan.retain = LIFE_MS // 1000
        self.known.answered_ms, self.known.coordinator = NOW_MS - 1, 0
        self.cluster.watch.history.jobs[JOB] = self.known
        self.processes = [self.process(number) for number in range(3)]
        for number in (0, 1):
            self.keep(number)
        self.checker = Remembered(self.cluster, Kept(self.cluster))
        self.checker.look()
        self.world.now += 1000

    def process(self, number: int) -> Any:
        """What runs on a machine."""
        machine = self.cluster.machines[number]
        membership = SimpleNamespace(leaving=False, myself=SimpleNamespace(capabilities=ENDS))
        ends, stats = SimpleNamespace(by_id={}), SimpleNamespace(ends_evicted=0)
        process: Any = Process.__new__(Process)
        process.machine, process.listening, process.reset_ms = machine, True, -1
        process.node = SimpleNamespace(ends=ends, stats=stats, membership=membership, find={}.get)
        process.node.node_id = b"%d" % number
        process.now_ms = lambda: self.world.now
        machine.process = process
        return process

    def keep(self, number: int, *, strange: bool = False, status: int = DONE, life_ms: int = LIFE_MS) -> None:
        """A machine keeps the end."""
        end = End(JOB, b"q", status, b"", self.world.now, NOW_MS + life_ms)
        end.lasts, end.repl, end.is_strange = True, 2, strange
        end.holders = (b"0", b"1")
        self.processes[number].node.ends.by_id[JOB] = end

    def forget(self, number: int) -> None:
        """A node forgets it."""
        del self.processes[number].node.ends.by_id[JOB]

    def die(self, number: int, *, disk: bool) -> None:
        """A process ends, and its disk yields the end, or nothing."""
        machine = self.cluster.machines[number]
        machine.process = None
        self.cluster.watch.ends_left[number] = {JOB} if disk else set()
        self.checker.died(self.processes[number], "crash")

    def depart(self, number: int) -> None:
        """A node leaves, says that it can be stopped, and never comes back."""
        machine = self.cluster.machines[number]
        machine.process = None
        machine.retired = machine.departed = True
        machine.departed_ms = self.world.now

    def look(self, *, lost: bool = False) -> None:
        """Whether the checker misses an end that nobody keeps."""
        if lost:
            with pytest.raises(Violation, match="nobody keeps how"):
                self.checker.look()
        else:
            self.checker.look()

    def rest(self, few: str = "") -> None:
        """Whether it misses copies, when nothing has happened for long."""
        assert self.checker.has_all() == (not few)
        if few:
            with pytest.raises(Violation, match=few):
                self.checker.rested()
        else:
            self.checker.rested()


def test_an_end_that_all_forget_is_missed() -> None:
    place = Place()
    place.forget(0)
    place.look()
    place.forget(1)
    place.look(lost=True)


def test_but_not_when_its_time_is_over() -> None:
    place = Place()
    place.world.now = NOW_MS + LIFE_MS - SOON_MS
    place.forget(0)
    place.forget(1)
    place.look()
    assert not place.checker.seen


def test_a_result_that_no_holder_has_taken_is_none_that_must_be_kept() -> None:
    place = Place()
    place.keep(1, strange=True)
    place.forget(0)
    place.look(lost=True)


def test_the_disk_of_a_node_that_is_down_keeps_it() -> None:
    place = Place()
    place.forget(0)
    place.die(1, disk=True)
    place.look()
    place.cluster.watch.ends_left[1] = set()
    place.look(lost=True)


def test_when_all_disks_that_had_it_are_lost_at_a_time_it_may_be_lost() -> None:
    place = Place()
    place.die(0, disk=False)
    place.die(1, disk=False)
    assert not place.checker.seen


def test_but_not_when_it_was_seen_elsewhere_in_between() -> None:
    place = Place()
    place.die(0, disk=False)
    place.keep(2)
    place.look()
    place.die(1, disk=False)
    place.forget(2)
    place.look(lost=True)


@pytest.mark.parametrize("numbers", [(0,), (0, 1)])
def test_who_is_short_of_memory_may_forget_its_own(numbers: tuple[int, ...]) -> None:
    place = Place()
    place.forget(0)
    place.forget(1)
    for number in numbers:
        place.processes[number].node.stats.ends_evicted += 1
    place.look(lost=len(numbers) == 1)


@pytest.mark.parametrize(("flushed_ms", "lost"), [(NOW_MS - 1, True), (NOW_MS, False)])
def test_what_was_flushed_since_it_was_seen_may_be_gone(flushed_ms: int, lost: bool) -> None:
    place = Place()
    place.cluster.watch.history.flushes[2] = flushed_ms
    place.forget(0)
    place.forget(1)
    place.look(lost=lost)


def test_so_may_what_the_nodes_had_that_were_reset() -> None:
    place = Place()
    for number in (0, 1):
        place.processes[number].reset_ms = NOW_MS
        place.forget(number)
    place.look()


def test_a_machine_that_is_gone_for_good_costs_its_copy() -> None:
    place = Place()
    place.die(0, disk=False)
    place.cluster.machines[1].retired = True
    place.look()
    assert not place.checker.seen


def test_but_not_one_that_left_and_said_that_it_can_be_stopped() -> None:
    place = Place()
    place.die(0, disk=False)
    place.world.now += 2 * TIMEOUT_MS + 1
    place.depart(1)
    place.look(lost=True)


@pytest.mark.parametrize("evicted", [0, 1])
def test_who_is_short_of_memory_may_forget_what_a_node_that_left_had_too(evicted: int) -> None:
    """Seed 1310158."""
    place = Place()
    place.depart(1)
    place.world.now += 1
    place.forget(0)
    place.processes[0].node.stats.ends_evicted += evicted
    place.look(lost=not evicted)


def test_of_what_another_has_just_lost_who_leaves_need_not_have_heard() -> None:
    place = Place()
    place.die(0, disk=False)
    place.world.now += 2 * TIMEOUT_MS
    place.depart(1)
    place.look()


def test_after_a_rest_as_many_keep_it_as_should() -> None:
    place = Place()
    place.rest()
    place.forget(0)
    place.rest("1 nodes keep how .* and 2 should")
    place.keep(2)
    place.rest()


def test_but_no_more_than_can_take_a_copy() -> None:
    place = Place()
    place.forget(0)
    place.processes[0].node.membership.leaving = True
    place.rest("1 nodes keep how")
    place.processes[2].node.membership.leaving = True
    place.rest()


def test_nodes_that_do_not_know_ends_make_none_again() -> None:
    place = Place()
    place.forget(0)
    place.processes[2].node.membership.myself.capabilities = 0
    place.rest()


@pytest.mark.parametrize(("deleted", "few"), [(0, ""), (1, "1 nodes keep how"), (2, "1 nodes keep how")])
def test_who_was_told_to_drop_the_job_has_no_end_of_it(deleted: int, few: str) -> None:
    place = Place()
    place.forget(0)
    place.known.deleted = {deleted: 0}
    place.rest(few)


@pytest.mark.parametrize("is_asynchronous", [True, False])
@pytest.mark.parametrize("is_confirmed", [True, False])
def test_with_async_a_job_may_end_before_a_node_has_it(is_asynchronous: bool, is_confirmed: bool) -> None:
    place = Place()
    place.forget(1)
    place.known.plan.asynchronous = is_asynchronous
    if is_confirmed:
        place.cluster.watch.history.confirmed[JOB] = {1}
    place.rest("" if is_asynchronous and not is_confirmed else "1 nodes keep how")


def test_copies_of_a_job_that_was_not_answered_are_promised_to_nobody() -> None:
    place = Place()
    place.forget(0)
    place.known.answered_ms = -1
    place.rest()


def test_a_job_that_was_cancelled_is_kept_in_mind_for_longer_than_need_be() -> None:
    place = Place()
    for number in (0, 1):
        place.keep(number, status=CANCELLED, life_ms=5 * LIFE_MS)
    place.look()
    place.world.now = NOW_MS + 1000 + LIFE_MS - SOON_MS
    place.look()
    place.look()
    assert not place.checker.seen


def test_what_one_was_allowed_to_drop_need_not_be_there_again() -> None:
    place = Place()
    place.forget(0)
    place.processes[0].node.stats.ends_evicted += 1
    place.look()
    place.rest()


@pytest.mark.parametrize(("state", "few"), [(QUEUED, ""), (ACKED, "1 nodes keep how")])
def test_nor_the_end_of_a_job_that_has_come_back(state: int, few: str) -> None:
    place = Place()
    place.forget(0)
    place.processes[2].node.find = {JOB: SimpleNamespace(state=state)}.get
    place.rest(few)


def test_where_clocks_jump_nobody_knows_when_its_time_is_over() -> None:
    place = Place(jumps=True)
    assert not place.checker.seen
    place.forget(0)
    place.forget(1)
    place.look()
    place.rest()


def test_it_is_looked_for_once_a_second_and_when_a_process_starts_or_the_run_ends() -> None:
    place = Place()
    place.forget(0)
    place.forget(1)
    process = place.processes[2]
    with pytest.raises(Violation, match="nobody keeps how"):
        place.checker.started(process)
    with pytest.raises(Violation, match="nobody keeps how"):
        place.checker.end()
    with pytest.raises(Violation, match="nobody keeps how"):
        place.checker.beat(process)
    place.checker.beat(process)


def test_a_clock_that_drifts_brings_no_end_forward() -> None:
    """A millisecond before its time is over for the checker, it is over by the clock of the only node that keeps it."""
    place = Place()
    place.forget(1)
    place.world.now = NOW_MS + LIFE_MS - SOON_MS - 1
    place.processes[0].now_ms = lambda: place.world.now + 1
    place.checker.look()


def test_a_job_that_ended_twice_is_promised_up_to_the_time_of_its_first_end() -> None:
    place = Place()
    place.processes[1].node.ends.by_id[JOB].until_ms += 2 * LIFE_MS  # it came back there, and ended once more
    place.known.plan.retain *= 3
    place.world.now += LIFE_MS - SOON_MS
    place.checker.look()
    place.forget(0)
    place.look()
    assert not place.checker.lacking()
