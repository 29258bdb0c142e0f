"""One node against a model of it that is slow, small and plainly right, for any commands in any order at any times.

The machine keeps the payloads of the node's journal, and kills or stops the node and starts a fresh one from them. With
each payload goes a copy of the model as it was then: whatever prefix of the payloads is replayed, it must bring back
that.

MODEL_EXAMPLES=5000 in the environment makes it look longer, at other cases each time.
"""

import os
from copy import deepcopy

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from disque.core import step
from disque.core.journal import codec, kinds
from disque.core.journal import replay as journal
from disque.core.journal.compaction import Copying
from disque.core.journal.schema import OFF
from disque.core.model.job import DELIVERED, SPENT
from disque.core.node import Node
from tests.conftest import examples
from tests.support.mirror import QUEUES, Mirror
from tests.support.model import Model, ModelJob, Payload
from tests.support.nodes import make_node


class NodeMachine(Mirror):
    def __init__(self) -> None:
        super().__init__()
        self.payloads: list[Payload] = []
        #: The shortest prefix that can be on a disk: files before it are gone.
        self.floor = 0
        self.copying: Copying | None = None
        self.boots = 1
        self.journaling = False

    @initialize(journaling=st.sampled_from([True, True, True, False]))
    def begin(self, journaling: bool) -> None:
        self.connect_all()
        if journaling:
            self.switch_on()

    # -- the journal ---------------------------------------------------------------------------------------------------

    @property
    def boot(self) -> str:
        return f"boot {self.boots}"

    def write(self) -> None:
        """The journal's part of a flush."""
        node = self.node
        assert self.journaling or not node.outbox.records
        records = node.outbox.take()
        if records:
            off = records[-1] == (OFF,)
            for data in codec.encode(records, self.now_ms):
                self.keep(data, off=off)
        if self.journaling and self.payloads:
            # Whatever was not written need not be: what the journal says must be true all the same.
            self.payloads[-1].now_ms, self.payloads[-1].model = self.now_ms, deepcopy(self.model)
            self.check_prefix(len(self.payloads))

    def keep(self, data: bytes, *, off: bool = False) -> None:
        model = deepcopy(self.model)
        self.payloads.append(Payload(data, self.node.segment, self.now_ms, self.now_ms, model, self.boot, off))

    def write_head(self) -> None:
        """A new segment. It says nothing of jobs, so what is true is what the payload before it says."""
        node = self.node
        node.segment = max((payload.segment for payload in self.payloads), default=0) + 1
        self.keep(codec.head(node, self.boot, "everysec", self.now_ms))

    def replay(self, count: int, boot: str, now_ms: int) -> tuple[Node, journal.Replay]:
        """A fresh node that has read the first ``count`` payloads."""
        node = make_node(now_ms, seed=self.numbers + 1)
        replay = journal.Replay(node, boot)
        for payload in self.payloads[:count]:
            replay.apply(payload.data, payload.segment)
        assert replay.time_ms == max(payload.written_ms for payload in self.payloads[:count])
        for _ in replay.finish(now_ms):
            pass
        step.tick(node, now_ms)
        return node, replay

    def check_prefix(self, count: int) -> None:
        last = self.payloads[count - 1]
        node, _ = self.replay(count, last.boot, last.now_ms)
        self.compare(node, last.model.after_crash(last.now_ms, sure=not last.off), crashed=True, now_ms=last.now_ms)

    @precondition(lambda self: self.payloads)
    @rule(at=st.integers(0, 1000), later_ms=st.sampled_from([0, 1, 1500, 12_000, 10**6]), same_boot=st.booleans())
    def look_at_prefix(self, at: int, later_ms: int, same_boot: bool) -> None:
        """Whatever prefix is on the disk, replaying it at any later time gives what was true when it ended."""
        count = self.floor + at % (len(self.payloads) + 1 - self.floor)
        assume(count)
        last = self.payloads[count - 1]
        boot = last.boot if same_boot else "another boot"
        now_ms = last.now_ms + later_ms
        node, _ = self.replay(count, boot, now_ms)
        expected = last.model.after_crash(now_ms, sure=same_boot and not last.off)
        self.compare(node, expected, crashed=True, now_ms=now_ms)

    def switch_on(self) -> None:
        """The journal begins, with a copy of what there is; files of an earlier time are replaced."""
        self.flush()
        self.journaling = self.node.journaling = True
        self.payloads = []
        self.write_head()
        copying = kinds.begin_copy(self.node, 0)
        while not copying.step(3, self.now_ms):
            pass
        self.floor = 0
        self.write()
        self.floor = len(self.payloads)

    @precondition(lambda self: not self.journaling and not self.copying)
    @rule()
    def turn_on(self) -> None:
        self.switch_on()

    @precondition(lambda self: self.journaling)
    @rule(sure=st.integers(0, 3))
    def turn_off(self, sure: int) -> None:
        assume(sure == 0)
        self.flush()
        self.node.outbox.add((OFF,))
        self.write()
        self.journaling = self.node.journaling = False
        self.copying = None
        self.node.segment = 0
        for _ in kinds.forget_segments(self.node):
            pass

    @precondition(lambda self: self.journaling)
    @rule()
    def rotate(self) -> None:
        self.flush()
        self.write_head()

    @precondition(lambda self: self.journaling and self.copying is None)
    @rule()
    def begin_copying(self) -> None:
        self.flush()
        upto = self.node.segment
        self.write_head()
        self.copying = kinds.begin_copy(self.node, upto)

    @precondition(lambda self: self.copying is not None)
    @rule(most=st.sampled_from([1, 2, 5, 100, 5000]))
    def copy_some(self, most: int) -> None:
        copying = self.copying
        assert copying is not None
        done = copying.step(most, self.now_ms)
        self.flush()
        if done:
            self.copying = None
            self.drop_segments(copying.upto)

    @precondition(lambda self: self.journaling and self.copying is None)
    @rule()
    def drop_dead(self) -> None:
        """The oldest segments go when nothing in them is alive."""
        self.flush()
        for number in range(self.payloads[0].segment, self.node.segment):
            if self.node.live.get(number):
                break
            self.drop_segments(number)

    def drop_segments(self, upto: int) -> None:
        assert not any(count for number, count in self.node.live.items() if number <= upto)
        self.payloads = [payload for payload in self.payloads if payload.segment > upto]
        self.floor = len(self.payloads)
        self.check_prefix(len(self.payloads))

    # -- restarts ------------------------------------------------------------------------------------------------------

    def start(self, node: Node, model: Model) -> None:
        """``node`` has read the journal and goes on."""
        self.compare(node, model, crashed=False)
        self.node = node
        self.model = model
        self.stats = {name: [len(model.line_up(name)), 0] for name in QUEUES}
        self.model.evictable = list(node.evictable)
        self.copying = None
        self.max_bytes = 0
        self.connect_all()
        node.journaling = self.journaling = True
        self.write_head()
        self.floor = len(self.payloads)

    def adopt(self, node: Node, model: Model) -> None:
        """Take from a node that crashed what a crash may change: counters, evicted jobs that are back."""
        for shard in node.shards:
            for job in shard.values():
                if job.id not in model.jobs:
                    assert job.id in model.evicted
                    created_ms = job.expires_ms - job.ttl * 1000
                    found = ModelJob(0, job.id, job.queue, job.body, 0, created_ms, job.expires_ms, spent=True)
                    found.number, found.delivered = self.seen.index(job.id) + 1, True
                    model.jobs[job.id] = found
                known = model.jobs[job.id]
                known.deliveries, known.delivered = job.deliveries, bool(job.flags & DELIVERED)

    @precondition(lambda self: self.payloads)
    @rule(later_ms=st.sampled_from([0, 100, 4000, 200_000]))
    def kill(self, later_ms: int) -> None:
        """The process dies: what was flushed is there, what was not never happened to anybody."""
        self.restart(len(self.payloads), later_ms, power=False)

    @precondition(lambda self: self.payloads)
    @rule(lost=st.integers(0, 5), later_ms=st.sampled_from([0, 100, 4000, 200_000]))
    def lose_power(self, lost: int, later_ms: int) -> None:
        """The machine dies: some of what was flushed last is gone too."""
        self.restart(max(self.floor, len(self.payloads) - lost, 1), later_ms, power=True)

    def restart(self, count: int, later_ms: int, *, power: bool) -> None:
        del self.payloads[count:]
        last = self.payloads[-1]
        self.boots += power
        self.now_ms += later_ms
        node, replay = self.replay(count, self.boot, self.now_ms)
        model = last.model.after_crash(self.now_ms, sure=not power and not last.off)
        self.compare(node, model, crashed=True)
        unsure = [job for job in last.model.jobs.values() if not job.retry and not job.spent]
        if not power and not last.off:
            unsure = []
        assert replay.dropped >= len([job for job in unsure if job.expires_ms > self.now_ms])
        self.adopt(node, model)
        self.start(node, model)

    @precondition(lambda self: self.journaling)
    @rule(later_ms=st.sampled_from([0, 100, 4000, 200_000]), power=st.booleans())
    def stop(self, later_ms: int, power: bool) -> None:
        """A clean stop: everything is as it was, whatever happens to the machine meanwhile."""
        self.flush()
        for record in journal.clean_list(self.node):
            self.node.outbox.add(record)
        for data in codec.encode(self.node.outbox.records, self.now_ms):
            self.keep(data)
        self.boots += power
        self.now_ms += later_ms
        node, replay = self.replay(len(self.payloads), self.boot, self.now_ms)
        assert not replay.dropped
        model = self.model.after_stop(self.now_ms)
        for job in [job for shard in node.shards for job in shard.values() if job.id not in model.jobs]:
            assert job.id in model.evicted
            assert job.flags & SPENT
            node.remove(job)
        self.start(node, model)
        # The list is not the last record any more, so what a crash right now leaves is what a crash leaves.
        self.payloads[-1].model = deepcopy(self.model)


@given(later_ms=st.just(100))
def test_a_window_ends_in_the_model_too_when_nothing_else_happens(later_ms: int) -> None:
    machine = NodeMachine()
    machine.begin(journaling=True)
    machine.advance(ms=1)
    machine.addjob(number=0, queue=b"a", body=b"", retry=0, ttl=1, delay=0, maxlen=None, unique=(b"k", 3), priority=0)
    machine.advance(ms=2500)
    machine.lose_power(lost=0, later_ms=later_ms)
    for _ in range(3):
        machine.advance(ms=500)
        machine.both_agree()


@given(later_ms=st.just(7000))
def test_a_key_of_an_earlier_time_is_compared_at_that_time(later_ms: int) -> None:
    machine = NodeMachine()
    machine.begin(journaling=True)
    machine.addjob(
        number=0, queue=b"a", body=b"", retry=None, ttl=None, delay=0, maxlen=None, unique=(b"k", 3), priority=0
    )
    machine.flush()
    machine.rotate()
    machine.advance(ms=later_ms)
    machine.look_at_prefix(at=1, later_ms=0, same_boot=False)


NodeMachine.TestCase.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", str(examples(200)))),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],  # few of few examples fit
    derandomize="MODEL_EXAMPLES" not in os.environ,
    report_multiple_bugs=False,
)
TestOneNode = NodeMachine.TestCase
