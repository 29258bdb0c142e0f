"""The life of the journal: read at the start, written, compacted, switched on and off, closed cleanly.

Compaction: the journal is a row of segments. A pass (`BGREWRITEAOF`, or growth beyond `auto-aof-rewrite-percentage`)
begins a new segment and writes again what is alive in the older ones, some records in each event loop iteration. Then
the older files are removed. The oldest segments are removed at once, without a pass, when nothing in them is alive.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from disque.core.host import HostRefusedError
from disque.core.journal import codec, kinds
from disque.core.journal import replay as records
from disque.core.journal.checks import ReplayError
from disque.core.journal.compaction import Copying
from disque.core.journal.schema import OFF, PARTIAL, WHOLE
from disque.server.background import Background, Worker
from disque.server.disk import Disk
from disque.server.journal import Journal
from disque.server.loading import Loading
from disque.server.segments import JournalError, Row, numbers_in, set_aside_all
from disque.server.start_time import StartTime

if TYPE_CHECKING:
    from disque.server.pump import Pump

#: Records that one turn of a compaction writes; in a synchronous one, all.
COPY_SLICE: Final = 400
#: Seconds of one turn while the journal is loaded, so that clients are told LOADING meanwhile.
LOAD_SLICE_S: Final = 0.02
#: Bytes that no segment reaches.
SEGMENT_ENDLESS: Final = 1 << 62
#: After so long without a record, in ms, the journal gets the time alone: the next start sees how long it was off.
TIME_EVERY_MS: Final = 600_000
#: Log a line about the progress of a long load every so many seconds.
PROGRESS_S: Final = 2.0


class Persistence:
    """Owner of the journal.

    ``loading`` is None but while a journal is read; ``row`` are the files, once it is written.
    """

    row: Row

    def __init__(
        self, pump: "Pump", boot_id: str, salt: Callable[[], int], seconds: Callable[[], float] = monotonic
    ) -> None:
        self.pump = pump
        self.node = pump.node
        self.log = pump.log
        #: Where the system tells none, every process counts as another boot.
        self.boot_id = boot_id or f"process {salt():08x}{salt():08x}"
        self.salt = salt
        self.seconds = seconds
        self.loading: Loading | None = None
        self.copying: Copying | None = None
        self.base_bytes = 0
        self.pass_started = 0.0
        self.last_pass_s = -1
        self.last_pass_ok = True
        self.background: Background | None = None
        #: What is left of the journal that was switched off, in the jobs: to be exhausted before the next one.
        self._forgetting: Iterator[None] = iter(())
        #: Directory and name of the journal that this process has read or written.
        self._ours = ("", "")
        self._distrusted = False
        self._unrotated = ""
        self._scheduled = False
        #: The last record of the last pass, as the journal counts them.
        self._pass_end = 0
        self._retired_upto = 0
        #: The ID of this node that the segment names.
        self._named = b""
        #: How many records the journal had when that was looked at last, and since when.
        self._quiet = (-1, 0)
        self.pump.look_at_health = self.look_at_health

    @property
    def journal(self) -> Journal | None:
        """The writer, while the journal is on."""
        return self.pump.journal

    # -- start -----------------------------------------------------------------------------------------------------

    def files(self) -> Row:
        """The files of the journal as the settings name them. Raises JournalError."""
        return Row(*self._where(), own=self.node.node_id)

    def _where(self) -> tuple[str, str]:
        """The directory of the journal, and what its files are called."""
        return self.node.config.text("dir") or ".", self.node.config.text("appendfilename")

    def load(self, *, at_start: bool = False) -> Iterator[float]:
        """Read the journal into the node, a slice at each step. Raises JournalError when it must not be used.

        Yields seconds that the caller may do something else. ``at_start``: the clock of the process may be wrong, and
        is waited for when it seems so (see `start_time`).
        """
        row = self.files()
        self._refuse_old_file(row)
        self.loading = Loading(row.size)
        self.node.loading = True
        replay = records.Replay(self.node, self.boot_id)
        started = self.seconds()
        try:
            yield from self._read(row, replay)
            if row.tail is not None:
                self._cut(row)
            took_s = self.seconds() - started
            if at_start:
                time = StartTime(self.node, self.pump.clock, self.log, self.seconds, replay.time_ms)
                yield from time.settle(self.node.config.number("cluster-node-timeout"))
            self.pump.clock.advance(replay.time_ms)
            started = self.seconds()
            for _ in replay.finish(self.pump.clock.now_ms()):
                yield 0.0
        except ReplayError as wrong:
            raise JournalError(f"The journal cannot be used: {wrong}") from wrong
        self._loaded(row, replay, took_s + self.seconds() - started)

    def pass_by(self) -> Iterator[float]:
        """Start without the journal, a slice at each step. Raises JournalError if there is one and that is not meant.

        It is meant with ignore-journal, and where the journal was switched off while a node ran. One in which there
        never was anything is nothing to miss.
        """
        directory, name = self._where()
        try:
            numbers = numbers_in(Disk().listdir(directory), name)
        except OSError as error:
            raise JournalError(f"Can't read the journal's directory {directory}: {error.strerror}") from error
        if not numbers:
            return
        files = f"{directory}/{name}.{numbers[0]:08d}"
        files += f" to {name}.{numbers[-1]:08d}" if len(numbers) > 1 else ""
        if self.node.config.flag("ignore-journal"):
            self.log.warning(f"The journal is ignored. Its jobs are not loaded: {files}")
        elif self._was_switched_off():
            self.log.warning(f"The journal was switched off earlier, and is not read with appendonly no: {files}")
        elif not (yield from self._is_idle()):
            raise JournalError(
                f"There is a journal, {files}, and appendonly is no: the node would start without its jobs. Nothing "
                "was changed. To load the jobs, start with appendonly yes. To start without them, use --appendonly no "
                "--ignore-journal, or move the files away"
            )

    def _was_switched_off(self) -> bool:
        try:
            return codec.was_switched_off(self.files().last_payload())
        except JournalError:
            return False

    def _is_idle(self) -> Generator[float, None, bool]:
        """Whether the journal says nothing of any job. What cannot be read may say anything."""
        try:
            for piece in self.files().read():
                if not all(map(records.is_idle, piece.payloads)):
                    return False
                yield 0.0
        except JournalError:
            return False
        return True

    def _refuse_old_file(self, row: Row) -> None:
        """Do not start empty beside the append-only file of an old server: that would look like lost jobs."""
        old = Path(row.path(1)).with_suffix("")
        try:
            is_there = not row.segments and old.is_file() and old.stat().st_size > 0
        except OSError as error:
            raise JournalError(f"Can't use the journal {old}: {error.strerror}") from error
        if is_there:
            raise JournalError(
                f"{old} is not a journal of this server (its files are {old.name}.00000001 and so on). A file of "
                "Disque 1.0 cannot be read here: drain the old server first. To start empty, move the file away"
            )

    def _read(self, row: Row, replay: records.Replay) -> Iterator[float]:
        loading = self.loading
        assert loading is not None
        turn = said = self.seconds()
        for piece in row.read():
            for payload in piece.payloads:
                replay.apply(payload, piece.segment)
            loading.done_bytes = piece.done
            loading.total_bytes = piece.total
            now = self.seconds()
            if now - said > PROGRESS_S:
                said = now
                self.log.notice(
                    f"Loading the journal: {loading.percent:.1f} % of {loading.total_bytes} bytes, "
                    f"{replay.records} records, about {loading.eta_s} s to go"
                )
            if now - turn > LOAD_SLICE_S:
                yield 0.0
                turn = self.seconds()

    def _cut(self, row: Row) -> None:
        """The end of the journal is torn: cut it off, or stop. An end that holds no record is nothing to speak of."""
        assert row.tail is not None
        if row.tail.lost and not self.node.config.flag("aof-load-truncated"):
            raise JournalError(
                f"Unexpected end of the journal: {row.tail}. "
                "Set aof-load-truncated yes to cut it off, or use: disque check-aof --fix"
            )
        if row.tail.lost:
            self.log.warning("!!! Warning: short read while loading the AOF file !!!")
            self.log.warning(f"!!! {row.tail} !!!")
            self.log.warning("AOF loaded anyway because aof-load-truncated is enabled")
        path = row.tail.path
        try:
            for kept in row.cut():
                self.log.warning(f"!!! What was cut off is kept as {kept} !!!")
        except OSError as error:
            raise JournalError(f"Can't cut off the torn end of the journal {path}: {error.strerror}") from error

    def _loaded(self, row: Row, replay: records.Replay, took_s: float) -> None:
        self.loading = None
        self.node.loading = False
        if row.segments:
            jobs = self.node.jobs_registered()
            self.log.notice(f"DB loaded from append only file: {took_s:.3f} seconds ({jobs} jobs)")
        if row.previous_writer not in {b"", self.node.node_id}:
            writer = row.previous_writer.decode("ascii", "replace")
            self.log.warning(f"The journal was written by another node: {writer}")
        if replay.incomplete:
            self.log.warning(
                "The journal was switched on while there were jobs, and the process died before all of them were "
                "written to it. The others are lost"
            )
        if replay.dropped:
            self.log.warning(
                f"{replay.dropped} at-most-once jobs were dropped: after this kind of stop it is not known whether "
                "they were delivered already"
            )
        if self.node.config.flag("appendonly"):
            self.open(row, rebuild=False)
            self._write_ends(replay)
        elif row.segments:
            # What happens from here on is not written. The next start must know, for jobs delivered at most once.
            self.open(row, rebuild=False)
            self._write_ends(replay)
            self.switch_off()

    def _write_ends(self, replay: records.Replay) -> None:
        """Write what later readers may not find out for themselves."""
        if replay.freed:
            for record in replay.ends():
                self.node.outbox.add(record)
            self.pump.write_journal(self.pump.clock.now_ms())

    # -- on and off ------------------------------------------------------------------------------------------------

    def open(self, row: Row, *, rebuild: bool) -> None:
        """Begin to write. With ``rebuild``, files of an earlier time are replaced. Raises JournalError."""
        config = self.node.config
        for _ in self._forgetting:  # mostly none is left, since it was begun long ago
            pass
        self.row = row
        self._ours = (row.directory, row.name)
        if self.background is None:
            self.background = Worker(self.pump.loop)
        writer = Journal(
            row,
            self,
            self.background,
            policy=config.text("appendfsync"),
            segment_size=config.number("aof-segment-size"),
            clock=self.seconds,
            salt=self.salt,
        )
        last = writer.segment
        writer.start(rebuild)
        is_first = not last and bool(self.node.used or self.node.registry.count)
        if is_first:  # here and not among the records of a command, whose reply would wait for the copies behind it
            writer.append(codec.encode([(PARTIAL,)], self.pump.clock.now_ms())[0])
        if not writer.sync() and not writer.rebuilding:
            failing = writer.failing
            writer.abandon()
            raise JournalError(f"Can't write the journal in {row.directory}: {failing}")
        self.pump.journal = writer
        self.node.journaling = True
        self.node.segment = writer.segment
        self.base_bytes = writer.size
        if is_first:
            self._begin_copy(0)

    def switch_on(self) -> None:
        """CONFIG SET appendonly yes: journal from now on, and copy what there is. Raises JournalError."""
        if self.journal is None:
            if self._ours != self._where():
                self._set_aside()
            row = self.files()
            self.last_pass_ok = False  # until the files can be written
            self.open(row, rebuild=bool(row.segments or row.untrusted))
            self.last_pass_ok = True

    def _set_aside(self) -> None:
        """Files that this process has neither read nor written are not its to replace. Raises JournalError."""
        try:
            kept = set_aside_all(*self._where(), ".ignored")
        except OSError as error:
            path = error.filename or self._where()[0]
            raise JournalError(f"Can't set aside the journal that was not read: {path}: {error.strerror}") from error
        if kept:
            files = f"{len(kept)} files, such as {kept[-1]}" if len(kept) > 1 else kept[0]
            self.log.warning(f"The journal that was not read is set aside: {files}. Remove it when you do not need it")

    def switch_off(self) -> None:
        """CONFIG SET appendonly no: write what there is, say that it ends here, close."""
        writer = self.journal
        if writer is None:
            return
        self.node.outbox.add((OFF,))
        self.pump.write_journal(self.pump.clock.now_ms())
        unsafe = writer.close()
        if unsafe:
            self.log.warning(f"The journal was switched off before everything was written: {unsafe}")
        self._forget_journal()

    def close_for_reload(self) -> None:
        """Write what there is and close, as a crash right after it would find it."""
        writer = self.journal
        if writer is not None:
            self.pump.write_journal(self.pump.clock.now_ms())
            writer.close()
            self._forget_journal()
            for _ in self._forgetting:  # what is read next has records
                pass

    def _forget_journal(self) -> None:
        node = self.node
        self.pump.journal = None
        self.copying = None
        self._retired_upto = self._pass_end = 0
        node.journaling = False
        node.misconf = b""
        node.segment = 0
        self._forgetting = kinds.forget_segments(node)
        node.begin_chore(self._forgetting)
        self.pump.release_all()

    def policy_changed(self) -> None:
        """CONFIG SET appendfsync: a new segment says so, since what a crash may have lost depends on it.

        Nothing is done under a weaker policy before that is safe. Raises HostRefusedError if the disk takes no segment.
        """
        writer = self.journal
        if writer is None:
            return
        policy = self.node.config.text("appendfsync")
        begun = self._begin_segment(writer)
        if not begun or (not writer.sync() and policy != "always"):
            raise HostRefusedError("ERR The journal cannot be written now, so appendfsync stays as it is")
        writer.policy = policy
        self.pump.release()

    def id_taken(self) -> None:
        """CLUSTER RESET: a new segment says who this node is now, or the next start takes the files for another's.

        If the disk refuses, nothing is lost: the next start only warns.
        """
        writer = self.journal
        if writer is not None and self._named != self.node.node_id:
            self._begin_segment(writer)

    def _begin_segment(self, writer: Journal) -> bool:
        """End this segment with what there is; whether there is a new one."""
        self.pump.write_journal(self.pump.clock.now_ms())
        before = writer.segment
        self.node.segment = writer.switch()
        return self.node.segment != before

    # -- what the journal asks of its owner ------------------------------------------------------------------------

    def journal_head(self) -> bytes:
        """Give the first payload of a segment."""
        self._named = self.node.node_id
        policy = self.node.config.text("appendfsync")
        return codec.head(self.node, self.boot_id, policy, self.pump.clock.now_ms())

    def journal_progress(self) -> None:
        """`safe` or `failing` have changed: let replies go, let writes be refused or taken."""
        self.pump.begin_turn()
        self.look_at_health()
        self.pump.release()
        self.pump.schedule()

    def journal_distrust(self, last_bad: int) -> None:
        """Everything must be written again into the newest segment."""
        self._distrusted = True
        self.node.segment = max(self.node.segment, self.journal.segment if self.journal else 0)
        self._begin_copy(last_bad)  # what is copied before the next flush belongs to the newest segment, too
        self.pump.schedule()

    def journal_unfinished(self) -> None:
        """The journal writes something large."""
        self.pump.loop.call_soon(self._write_on)

    def _write_on(self) -> None:
        writer = self.journal
        if writer is not None:
            self.pump.begin_turn()
            writer.go_on()
            self.node.segment = writer.segment
            self.pump.schedule()

    def journal_retired(self, segment: int) -> None:
        """No file up to ``segment`` is left."""
        for number in [number for number in self.node.live if number <= segment]:
            del self.node.live[number]

    def look_at_health(self) -> None:
        """Refuse writes while the disk does, and say when that begins and ends."""
        writer = self.journal
        failing = writer.failing if writer is not None else ""
        misconf = b"MISCONF Errors writing to the AOF file: %b" % failing.encode("utf-8", "replace") if failing else b""
        if misconf != self.node.misconf:
            if failing:
                self.log.warning(f"Error writing to the AOF file: {failing}. Writes are refused until it works")
            else:
                self.log.warning("AOF write error looks solved, writes are taken again")
            self.node.misconf = misconf
            if failing:
                self.pump.journal_fails()

    # -- compaction ------------------------------------------------------------------------------------------------

    def rewrite_soon(self) -> bool:
        """Begin a pass behind this turn of the loop; False when one is going on.

        Who asks for it is answered at once, and does not wait for a disk that takes nothing. Raises HostRefusedError
        while it is known that it takes nothing.
        """
        if self.copying is not None or self._scheduled:
            return False
        if self.journal is not None and self.journal.failing:
            self.last_pass_ok = False
            raise HostRefusedError(f"ERR The journal cannot be written now: {self.journal.failing}")
        self._scheduled = True
        self.pump.loop.call_soon(self._rewrite_scheduled)
        return True

    def _rewrite_scheduled(self) -> None:
        self._scheduled = False
        if self.journal is not None and self.copying is None:
            self.rewrite()
            self.pump.schedule()

    def rewrite(self) -> bool:
        """Begin a pass over all segments; False when one is going on."""
        writer = self.journal
        if self.copying is not None or writer is None:
            return writer is None
        self.pump.write_journal(self.pump.clock.now_ms())
        before = writer.segment
        self.node.segment = writer.switch()
        if self.node.segment == before:
            self.last_pass_ok = False
            return True
        self._begin_copy(before)
        return True

    def _begin_copy(self, upto: int) -> None:
        self.copying = kinds.begin_copy(self.node, upto)
        self.pass_started = self.seconds()
        self.pump.loop.call_soon(self._copy_some)

    def _copy_some(self) -> None:
        """One turn of a pass."""
        copying, writer = self.copying, self.journal
        if copying is None or writer is None:
            return
        if writer.backlog > COPY_SLICE * 65536:
            self.pump.loop.call_later(0.1, self._copy_some)  # the disk does not take it: keep memory bounded
            return
        self.pump.begin_turn()
        done = copying.step(COPY_SLICE, self.pump.clock.now_ms())
        self.pump.schedule()
        if done:
            self._end_copy(copying)
        else:
            self.pump.loop.call_soon(self._copy_some)

    def _end_copy(self, copying: Copying) -> None:
        writer = self.journal
        assert writer is not None
        self.copying = None
        self._distrusted = False
        if not copying.upto:
            self.node.outbox.add((WHOLE,))
        self.pump.write_journal(self.pump.clock.now_ms())
        if copying.upto:
            writer.retire(copying.upto)
            self._retired_upto = copying.upto
            writer.flush()
        self.last_pass_s = int(self.seconds() - self.pass_started)
        self.last_pass_ok = True
        self._pass_end = writer.sequence
        self.base_bytes = sum(size for number, size in self.row.sizes.items() if number > copying.upto)
        done = f"compacted up to segment {copying.upto}" if copying.upto else "complete: it has all that is in memory"
        self.log.notice(f"The journal is {done}")

    def rewrite_now(self) -> str:
        """Compact everything here and now, for SHUTDOWN REWRITE-AOF; "" or why that failed.

        Works with the journal off too: then the files are written and closed.
        """
        try:
            if self.journal is None:
                self.switch_on()
            elif self.copying is None:
                self.rewrite()
        except JournalError as wrong:
            return str(wrong)
        copying, writer = self.copying, self.journal
        if writer is None:
            return "there is no journal"
        if copying is not None:
            while not copying.step(1 << 20, self.pump.clock.now_ms()):
                self.pump.write_journal(self.pump.clock.now_ms())
                if writer.backlog > COPY_SLICE * 65536 and not writer.failing:
                    writer.sync()
            self._end_copy(copying)
        return "" if writer.sync() else writer.failing

    def cron(self) -> None:
        """Ten times a second: what the journal does by itself, and passes that have become due."""
        writer = self.journal
        if writer is None:
            return
        writer.cron(self.seconds())
        self._tell_time(writer, self.pump.clock.now_ms())
        self.node.segment = writer.segment
        self.look_at_health()
        if self.copying is None and not writer.rebuilding and not writer.failing:
            self._drop_dead(writer)
            self._rewrite_if_grown(writer)
        if writer.unrotated != self._unrotated:
            self._unrotated = writer.unrotated
            if writer.unrotated:
                self.log.warning(
                    f"Can't begin a new segment of the journal: {writer.unrotated}. The old one is still written to"
                )

    def _tell_time(self, writer: Journal, now_ms: int) -> None:
        """Write the time into a journal that has been quiet for long."""
        sequence, since_ms = self._quiet
        if writer.sequence != sequence:
            self._quiet = (writer.sequence, now_ms)
        elif now_ms - since_ms >= TIME_EVERY_MS and not writer.failing and not writer.rebuilding:
            writer.append(codec.time_alone(now_ms))
            writer.flush()

    def _drop_dead(self, writer: Journal) -> None:
        """Retire the oldest segments if nothing in them is alive."""
        live = self.node.live
        upto = 0
        for number in range(writer.oldest, writer.segment):
            if live.get(number):
                break
            upto = number
        if upto > self._retired_upto:
            self._retired_upto = upto
            writer.retire(upto)
            writer.flush()

    def _rewrite_if_grown(self, writer: Journal) -> None:
        config = self.node.config
        percentage = config.number("auto-aof-rewrite-percentage")
        if not percentage or writer.size < config.number("auto-aof-rewrite-min-size"):
            return
        if self._retired_upto >= writer.oldest or writer.rotation_failed:
            return  # files that are on their way out still count; a disk that takes no file is asked once a second
        size = writer.size
        if size - self.base_bytes > self.base_bytes * percentage // 100:
            self.rewrite()
            if self.copying is not None:
                self.log.notice(f"Starting automatic compaction of the journal at {size} bytes")

    # -- stop ------------------------------------------------------------------------------------------------------

    def stop(self) -> str:
        """End cleanly: with the list of what is not simply queued. "" or why not everything is safe."""
        writer = self.journal
        if writer is None:
            return ""
        if self.copying is not None and (writer.rebuilding or not self.copying.upto):
            self.rewrite_now()  # without the rest of the copy, the list would speak of jobs that no file has
        now_ms = self.pump.clock.now_ms()
        writer.segment_size = SEGMENT_ENDLESS  # a head in or behind the list would say that a process began there
        for record in records.clean_list(self.node):
            self.node.outbox.add(record)
            self.pump.write_journal(now_ms)
        unsafe = writer.close()
        self.pump.journal = None
        if self.background is not None:
            self.background.close()
        return unsafe

    def _pass_is_stuck(self) -> bool:
        """Whether the disk does not take what a pass writes."""
        writer = self.journal
        if writer is None or not writer.failing:
            return False
        return self.copying is not None or self._pass_end > writer.durable

    def facts(self) -> dict[str, int | float | str]:
        """What INFO persistence shows, in its order."""
        writer = self.journal
        first_copy = self.copying is not None and not self.copying.upto
        state = "off" if writer is None else "wait-rewrite" if writer.rebuilding or first_copy else "on"
        facts: dict[str, int | float | str] = {
            "loading": int(self.node.loading),
            "aof_enabled": int(writer is not None),
            "aof_state": state,
            # Until older files are out of the way, a start would go by them: the rewrite is not over.
            "aof_rewrite_in_progress": int(self.copying is not None or (writer is not None and writer.rebuilding)),
            "aof_rewrite_scheduled": int(self._scheduled),
            "aof_last_rewrite_time_sec": self.last_pass_s,
            "aof_current_rewrite_time_sec": int(self.seconds() - self.pass_started) if self.copying is not None else -1,
            "aof_last_bgrewrite_status": "ok" if self.last_pass_ok and not self._pass_is_stuck() else "err",
            "aof_last_write_status": "err" if writer is not None and writer.failing else "ok",
        }
        if writer is not None:
            facts |= {
                "aof_current_size": writer.size,
                "aof_base_size": self.base_bytes,
                "aof_pending_rewrite": 0,
                "aof_buffer_length": writer.backlog,
                "aof_rewrite_buffer_length": 0,
                "aof_pending_bio_fsync": int(writer.durable < writer.sequence),
                "aof_delayed_fsync": 0,
                "aof_segments": len(self.row.sizes),
                "aof_oldest_segment": writer.oldest,
                "aof_current_segment": writer.segment,
                "aof_vanished_files": writer.vanished,
            }
        if self.loading is not None:
            facts |= {
                "loading_start_time": int(self.loading.started),
                "loading_total_bytes": self.loading.total_bytes,
                "loading_loaded_bytes": self.loading.done_bytes,
                "loading_loaded_perc": f"{self.loading.percent:.2f}",
                "loading_eta_seconds": self.loading.eta_s,
            }
        return facts
