"""The journal of one node process: the server's own, on a simulated disk, with what it asks of the server around it.

Which record went out with which payload is noted, so that a checker can ask whether a thing that leaves the node had
its record on the disk.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from disque.core.journal import codec
from disque.core.journal.schema import ACK, DELETE, JOBS, JOBS_IDS, JOBS_STATE, SPEND
from disque.core.model.job import ACKED
from disque.server.journal import Journal
from disque.server.persistence import Persistence
from disque.server.segments import JournalError, Row
from tests.simulation.clock import Clock
from tests.simulation.disk import Disk

if TYPE_CHECKING:
    from disque.server.pump import Pump
    from tests.simulation.process import Process

#: Kinds whose place in the journal the checkers ask for.
NOTED = frozenset({ACK, DELETE, SPEND})
#: More than any journal counts.
MANY = 1 << 62
#: How long the loop may be busy with others before a callback has its turn, in ms.
TURNS_MS = (0, 0, 0, 10, 100)

Done = Callable[[OSError | None], None]


class Loop:
    """As much of an event loop as the journal needs; a process that stands still has none."""

    def __init__(self, process: "Process") -> None:
        self.process = process

    def call_soon(self, call: Callable[..., None], *args: Any) -> None:
        """Call it in one of the next turns."""
        process = self.process
        process.world.after(process.random.choice(TURNS_MS), process.enter, call, *args)

    def call_later(self, delay_s: float, call: Callable[..., None], *args: Any) -> None:
        """Call it in so many seconds."""
        self.process.world.after(int(delay_s * 1000), self.process.enter, call, *args)


class Beside:
    """The thread for blocking work: it takes as long as an fsync takes on this disk, and does it sooner or later."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self._number = 0
        self._work: Callable[[], None] | None = None
        self._done: Done | None = None
        self._error: OSError | None = None

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Do it; then, when the process gets to it, it hears how that went."""
        assert self._done is None
        self._number += 1
        self._work, self._done = work, done
        process = self.process
        if process.random.random() < 0.5:
            self._run()
        process.world.after(process.machine.disk.fsync_ms, process.enter, self._finish, self._number)

    def _run(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            self._error = None
            try:
                work()
            except OSError as error:
                self._error = error

    def _finish(self, number: int) -> None:
        if number == self._number:
            self.wait()

    @property
    def untold(self) -> bool:
        """Whether it failed and the process has not heard of that."""
        return self._done is not None and self._work is None and self._error is not None

    def wait(self) -> None:
        """Let it be done now, and what that leads to."""
        while self._done is not None:
            self._run()
            done, self._done = self._done, None
            done(self._error)

    def close(self) -> None:
        """No more work comes."""
        self.wait()


class Kept(Persistence):
    """The server's journal on the simulated disk."""

    disk: Disk

    def files(self) -> Row:
        """The files."""
        return self.disk.row()


class Writer:
    """What the journal takes for the server.

    ``places`` tells by kind and ID the number of the payload with the first JOBS, or the last other record. A job that
    is done before it was ever written is written as one that is done: there is no other ACK of it.
    """

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.node = process.node
        self.world = process.world
        self.log = self
        self.clock: Clock = process.clock
        self.loop = Loop(process)
        self.journal: Journal | None = None
        self.look_at_health: Callable[[], None] = self.schedule
        self.places: dict[tuple[int, bytes], int] = {}
        self._cost_ms = 0
        self._failed_start = False
        self._closed: Journal | None = None
        machine = process.machine
        self.disk = machine.disk
        self.disk.files.sync_cost = self._sync_takes
        self.persistence = Kept(cast("Pump", self), machine.boot_id, self._salt, self.seconds)
        self.persistence.disk = self.disk
        self.beside = self.persistence.background = Beside(process)

    def _salt(self) -> int:
        return self.process.random.getrandbits(32)

    def _sync_takes(self) -> None:
        self._cost_ms += self.disk.fsync_ms

    def seconds(self) -> float:
        """A clock that goes on while the disk is busy, too."""
        return (self.world.now + self._cost_ms) / 1000

    # -- what the journal asks for ---------------------------------------------------------------------------------

    def notice(self, text: str) -> None:
        """A line of the log."""
        self.world.note("log", self.process.name, text)

    def warning(self, text: str) -> None:
        """Another one."""
        self.world.note("log", self.process.name, text)

    def begin_turn(self) -> None:
        """Nothing takes time here."""

    def schedule(self) -> None:
        """Have a flush soon."""
        self.process.schedule()

    def journal_fails(self) -> None:
        """Nothing more is safe for now. What waits for it waits on here, whatever its timeout."""

    def release(self) -> None:
        """More is safe."""
        self.process.release()

    def release_all(self) -> None:
        """Everything is."""
        self.process.release()

    def write_journal(self, now_ms: int) -> None:
        """The journal's part of a flush."""
        node, writer = self.node, self.journal
        records = node.outbox.take()
        if writer is None:
            return
        for payload in codec.encode(records, now_ms):
            writer.append(payload)
            self.world.note("journal", self.process.name, payload)
        self._note(records, writer.sequence)
        writer.flush()
        node.segment = writer.segment
        if writer.failing and not node.misconf:
            self.look_at_health()

    def _note(self, records: list[tuple[object, ...]], sequence: int) -> None:
        for record in records:
            kind, job_id = record[0], record[1] if len(record) > 1 else b""
            if kind == JOBS:
                for one in cast("list[bytes]", record[JOBS_IDS]):
                    self.places.setdefault((JOBS, one), sequence)  # a later one is a copy, or says a little more
                    if record[JOBS_STATE] == ACKED:
                        self.places.setdefault((ACK, one), sequence)
            elif kind in NOTED and isinstance(kind, int) and isinstance(job_id, bytes):
                self.places[kind, job_id] = sequence

    # -- what the process asks for ---------------------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """The number of the last payload handed in."""
        return self.journal.sequence if self.journal is not None else 0

    @property
    def safe(self) -> int:
        """Whatever hangs on payloads up to this number may leave."""
        return self.journal.safe if self.journal is not None else MANY

    @property
    def settled(self) -> bool:
        """Whether the files say all that the node has handed in."""
        writer = self.journal
        return writer is not None and not (writer.backlog or writer.failing or writer.rebuilding)

    @property
    def holds_back(self) -> bool:
        """Whether what hangs on records can not leave the node for now."""
        writer = self.journal
        return writer is not None and bool(writer.failing or writer.rebuilding)

    @property
    def traceless(self) -> bool:
        """Whether an fsync has failed and the files do not show it: the next process cannot know.

        That is also so after a start whose fsync failed and which then had no room for the file that would say so.
        """
        writer = self.journal or self._closed
        if self._failed_start:
            return True
        if writer is None:
            return False
        return self.beside.untold or (writer.rebuilding and not self.disk.row().untrusted)

    def load(self) -> None:
        """Read what is there, and begin to write. Raises JournalError."""
        bad = self.disk.files.bad_syncs
        try:
            for _ in self.persistence.load():
                pass
        except JournalError:
            self._failed_start = self.disk.files.bad_syncs < bad
            raise

    def beat(self) -> None:
        """Ten times a second."""
        self.persistence.cron()

    def begin_copying(self) -> bool:
        """BGREWRITEAOF; False when one goes on already or there is no journal."""
        if self.journal is None or self.persistence.copying is not None:
            return False
        self.world.note("copying", self.process.name)
        return self.persistence.rewrite()

    def secure(self) -> None:
        """Write and fsync what there is, as far as the disk lets."""
        if self.journal is not None:
            self.journal.sync()

    def close(self) -> str:
        """A clean stop: "" or why not everything is on the disk."""
        self._closed = self.journal
        return self.persistence.stop()

    def place(self, kind: int, job_id: bytes) -> int | None:
        """The number of the payload with the last record of this kind about a job."""
        return self.places.get((kind, job_id))
