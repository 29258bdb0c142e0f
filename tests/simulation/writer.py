"""The journal of one node process on the simulated disk: what the node's records become, and when they are safe.

Which record went out with which payload is noted, so that a checker can ask whether a thing that leaves the node had
its record on the disk.
"""

from typing import TYPE_CHECKING, Any

from disque.core import journal
from disque.core.copying import Copying
from disque.core.records import ACK, DELETE, JOB, SPEND

if TYPE_CHECKING:
    from tests.simulation.process import Process

#: Records that one turn of a compaction writes.
COPY_SLICE = 60
#: Kinds whose place in the journal the checkers ask for.
NOTED = frozenset({JOB, ACK, DELETE, SPEND})


class Writer:
    """Appends, fsyncs and compacts.

    ``places`` tells by kind and ID the number of the payload with the first JOB, or the last other record.
    """

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.node = process.node
        self.disk = process.machine.disk
        self.world = process.world
        self.places: dict[tuple[int, bytes], int] = {}
        self.copying: Copying | None = None
        self._syncing = False
        self._last_sync_ms = self.world.now

    def start(self) -> None:
        """Begin a segment of this process, durable before anybody is served."""
        self.new_segment()
        self.disk.sync()
        self.node.journaling = True

    def new_segment(self) -> None:
        """Write the head of the next segment."""
        segment = self.disk.segment + 1 if not self.disk.waiting else self.disk.waiting[-1][0] + 1
        machine = self.process.machine
        payload = journal.head(self.node, machine.boot_id, machine.disk.policy, self.process.now_ms())
        self.disk.append(segment, payload)
        self.node.segment = segment

    def write(self) -> None:
        """The journal's part of a flush."""
        node = self.node
        records, node.journal = node.journal, []
        if not node.journaling:
            return
        payloads = journal.encode(records, self.process.now_ms())
        for payload in payloads:
            self.disk.append(node.segment, payload)
            self.world.note("journal", self.process.name, payload)
        sequence = self.disk.sequence
        for record in records:
            kind, job_id = record[0], record[1] if len(record) > 1 else b""
            if kind == JOB and isinstance(job_id, bytes):
                self.places.setdefault((JOB, job_id), sequence)  # a later one is a copy, or says a little more
            elif kind in NOTED and isinstance(kind, int) and isinstance(job_id, bytes):
                self.places[kind, job_id] = sequence
        self.settle()

    def settle(self) -> None:
        """After a write: under always, an fsync; tell the node whether the disk takes its records."""
        disk = self.disk
        self.node.misconf = b"MISCONF Errors writing to the AOF file: No space left on device" if disk.waiting else b""
        if disk.policy == "always" and disk.durable < disk.written and not self._syncing:
            self.sync()

    def sync(self) -> None:
        """Begin an fsync; it ends at once on a fast disk."""
        disk = self.disk
        mark = disk.mark()
        if not disk.fsync_ms:
            disk.reached(mark)
            return
        self._syncing = True
        self.world.after(disk.fsync_ms, self.process.enter, self._synced, mark)

    def _synced(self, mark: tuple[int, int]) -> None:
        self._syncing = False
        self.disk.reached(mark)
        self.process.release()
        self.settle()

    def beat(self) -> None:
        """Ten times a second: try failed writes again, fsync once a second under everysec, copy some."""
        disk = self.disk
        if disk.waiting:
            disk.write()
            if not disk.waiting:
                self.settle()
                self.process.release()
        if disk.policy != "always" and not self._syncing and disk.synced < len(disk.kept):
            every_ms = 1000 if disk.policy == "everysec" else 10000
            if self.world.now - self._last_sync_ms >= every_ms:
                self._last_sync_ms = self.world.now
                self.sync()
        if self.copying is not None and not disk.failing:
            self._copy()

    def begin_copying(self) -> bool:
        """Begin a pass over all segments; False when one goes on already or there is no journal."""
        if self.copying is not None or not self.node.journaling or self.disk.waiting or self._syncing:
            return False
        self.process.flush()
        upto = self.node.segment
        self.new_segment()
        self.copying = Copying(self.node, upto)
        self.world.note("copying", self.process.name, upto)
        return True

    def _copy(self) -> None:
        copying = self.copying
        assert copying is not None
        if not copying.step(COPY_SLICE, self.process.now_ms()):
            self.process.schedule()
            return
        if self.node.journal:
            self.write()
        if self._syncing or self.disk.waiting:
            return  # the old segments go when the copies are durable; another turn finds nothing left to copy
        self.copying = None
        self.disk.sync()
        self.disk.drop(copying.upto)
        for number in [number for number in self.node.live if number <= copying.upto]:
            del self.node.live[number]
        self.world.note("copied", self.process.name, copying.upto)

    def close(self) -> None:
        """A clean stop: the list of what is not simply queued, everything durable."""
        if self.node.journaling:
            self.node.journal += list(journal.clean_list(self.node))
            self.write()
            self.disk.write()
            self.disk.sync()

    def place(self, kind: int, job_id: bytes) -> int | None:
        """The number of the payload with the last record of this kind about a job."""
        return self.places.get((kind, job_id))

    def segments(self) -> list[Any]:
        """All payloads that a start would read now."""
        return self.disk.kept
