"""What the checker of ends takes for two answers about one end."""

from types import SimpleNamespace
from typing import Any

import pytest

from disque.core.model.ends import DONE, End
from tests.simulation.checks.ended import Beside, Ended
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.history import Ack, Known, Plan
from tests.simulation.options import Options
from tests.simulation.world import Violation, World

JOB = b"D-11111111-how-it-has-ended-is-of-use---05a1"


@pytest.mark.parametrize("machines", [(), (2,), (2, 1), (2, 2)])
def test_what_is_said_beside_an_end_differs_only_where_one_node_took_it_twice(machines: tuple[int, ...]) -> None:
    """The job came back, moved, and ended there once more: others know one end or the other, which are the same."""
    cluster = Cluster(World(Options(1, 3)))
    checker = Ended(cluster)
    known = cluster.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), 86_400_000)
    known.plan.retain = 60
    known.acks = [Ack(1000 * number, machine) for number, machine in enumerate(machines)]
    request = Request([b"RESULT", JOB], 0)
    process: Any = cluster.machines[0]
    first: Beside = (b"q:dead", None, 0)
    checker.note_beside(process, request, JOB, first)
    checker.note_beside(process, request, JOB, first)
    if machines == (2, 2):
        checker.note_beside(process, request, JOB, (b"q", None, 1))
    else:
        with pytest.raises(Violation, match="beside"):
            checker.note_beside(process, request, JOB, (b"q", None, 1))


@pytest.mark.parametrize("reply", [b":1\r\n", b":0\r\n"])
def test_nor_need_it_be_the_same_where_who_took_it_did_not_know_the_job(reply: bytes) -> None:
    """Each holder takes the end as it knows the job: one may have heard of the last try already."""
    cluster = Cluster(World(Options(1, 3)))
    checker = Ended(cluster)
    known = cluster.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), 86_400_000)
    known.plan.retain = 60
    process: Any = cluster.machines[0]
    taker: Any = SimpleNamespace(machine=cluster.machines[0])
    checker.ran(taker, Request([b"ACKJOB", JOB, b"RESULT", b"x"], 0), reply)
    request = Request([b"RESULT", JOB], 0)
    checker.note_beside(process, request, JOB, (b"q", None, 2))
    if reply == b":0\r\n":
        checker.note_beside(process, request, JOB, (b"q", None, 1))
    else:
        with pytest.raises(Violation, match="beside"):
            checker.note_beside(process, request, JOB, (b"q", None, 1))


class Place:
    """Two machines; the first one took a result for a job a moment ago."""

    def __init__(self) -> None:
        self.cluster = Cluster(World(Options(1, 2)))
        self.cluster.world.now = 100_000
        self.cluster.watch.history.healed_ms = 0
        self.checker = Ended(self.cluster)
        known = self.cluster.watch.history.jobs[JOB] = Known(JOB, Plan(b"b", b"q"), 86_400_000)
        known.plan.retain = 60
        self.process: Any = SimpleNamespace(machine=self.cluster.machines[0], name="n0", reset_ms=-1)
        self.run(b"ACKJOB", JOB, b"RESULT", b"x")
        self.cluster.world.now += 10_000

    def run(self, *words: bytes) -> None:
        self.checker.ran(self.process, Request([*words], self.cluster.world.now), b":1\r\n")

    def says(self, *, wrong: bool) -> None:
        """RESULT says that the job has none; and so do all nodes when the run is over."""
        request = Request([b"RESULT", JOB], self.cluster.world.now)
        request.ran_ms = self.cluster.world.now
        self.checker.note(self.process, request, JOB, (b"done", b"x"))
        end = End(JOB, b"q", DONE, b"a" * 40, self.cluster.world.now, self.cluster.world.now + 60_000)
        node = SimpleNamespace(ends=SimpleNamespace(by_id={JOB: end}))
        cluster: Any = self.cluster
        cluster.processes = lambda: [SimpleNamespace(node=node, reset_ms=-1)]
        if wrong:
            with pytest.raises(Violation, match="no node has the result"):
                self.checker.look_for_results()
            with pytest.raises(Violation, match="has no result, but all gave it one"):
                self.checker.note(self.process, request, JOB, (b"done", None))
        else:
            self.checker.look_for_results()


def test_a_result_that_was_given_is_missed() -> None:
    Place().says(wrong=True)


@pytest.mark.parametrize("words", [(b"ACKJOB", JOB), (b"FASTACK", JOB)])
def test_but_not_when_somebody_gave_none(words: tuple[bytes, ...]) -> None:
    place = Place()
    place.run(*words)
    place.says(wrong=False)


@pytest.mark.parametrize("left", [True, False])
def test_nor_when_the_disk_of_the_node_that_took_it_does_not_yield_it(left: bool) -> None:
    place = Place()
    place.cluster.watch.results_left[0] = {JOB} if left else set()
    place.checker.died(place.process, "crash")
    place.says(wrong=left)


def test_nor_when_the_job_was_cancelled() -> None:
    """Its result gave way to that end, which was forgotten where memory was short, and lost elsewhere."""
    place = Place()
    place.cluster.watch.history.jobs[JOB].acks.append(Ack(90_000, 1, is_cancel=True))
    place.says(wrong=False)


@pytest.mark.parametrize("status", [b"cancelled", b"dead", b"expired"])
def test_nor_when_somebody_heard_of_another_end(status: bytes) -> None:
    place = Place()
    request = Request([b"WAITJOB", b"0", JOB], 0)
    place.checker.calm, request.ran_ms = False, -10_000  # while there were faults
    place.checker.note(place.process, request, JOB, (status, None))
    place.says(wrong=status == b"expired")


def test_nor_after_its_time() -> None:
    place = Place()
    place.cluster.world.now += 60_000
    place.says(wrong=False)


@pytest.mark.parametrize("machine", [0, 1])
def test_nor_when_that_node_was_short_of_memory(machine: int) -> None:
    place = Place()
    place.cluster.watch.history.end_evictions[machine] = [place.cluster.world.now]
    place.says(wrong=machine == 1)
