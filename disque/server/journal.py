"""The writer of the journal: it makes records durable, in order, as `appendfsync` promises.

All methods are called in the thread of the event loop. Only fsync and unlink run in another thread, one at a time
(`Background`).

The way of a payload:

    append -> pending -> flush -> written -> fsync -> synced -> durable
                                                              (not while rebuilding)

`safe` is `written` or, with appendfsync always, `durable`. It never goes back. All records that were appended during an
fsync share the next one. With always, the fsync is made in place if the disk was fast recently (a thread costs more
than a fast disk), and in the background if it was slow.

Long writes are spread over several event loop iterations: a large frame in slices, and then what was appended
meanwhile. The owner calls go_on() in each iteration until all is written. flush() does nothing in that time.

When a write fails, the frames that did not fit stay pending, in order. cron() tries again once a second, and nothing is
written until then. Frames are written at an explicit offset. So the next write overwrites what a failed write left, and
the head of the next segment has the end of this one.

When an fsync fails, it is unknown which bytes reached the disk, and a second fsync would succeed without cause. Then
the files that were not synced are not written any more, and the journal is rebuilt:

    probe    a new segment with `rebase` in its head is made and fsynced; if that fails it is tried again later
    copy     the owner appends its whole live state and calls retire(last_bad)
    commit   once the copies are fsynced, the segment before the new one is unlinked: this one atomic step makes a
             reader begin at the new segment. Before it, a reader uses the old files up to what was durable.

The same is done when a file is missing that only this process may remove, because somebody deleted it or its directory.
The state in memory then goes to a new file.

Until the commit, `durable` does not move, and so the synced position in frames does not move either. Otherwise a reader
would take the lost end of a bad file for damage to something that was promised.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from disque.core.journal.frames import HEAD_SIZE, MARK, MARK_PAYLOAD, MAX_PAYLOAD, RECORDS, RETIRED, UNLINKED, Head
from disque.server.background import Background
from disque.server.journal_owner import Owner
from disque.server.pending import Payload, Pending, size_of
from disque.server.segment_file import SegmentFile, SyncJob
from disque.server.segments import JournalError, Row

INLINE_S: Final = 0.002
#: More bytes are fsynced in the background, however fast the disk was lately.
INLINE_BYTES = 1 << 20  # not Final: tests want less, compiled too
#: Writes in one turn of the loop: each of one slice of a large frame, or of some MB of other frames.
TURN_WRITES: Final = 4
#: Seconds behind the first of them after which a turn has had enough, on a machine that is slow.
TURN_S: Final = 0.005
RETRY_S: Final = 1.0
#: Whether all files are still there is looked at so often.
LOOK_S: Final = 1.0
MAX_PROBE_S: Final = 60.0
#: Errors that say nothing of a folder: the process has no open file left, or the system.
SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: What is wrong with a path and not with the disk: the log names it, and somebody may mend it at any moment.
OF_PATHS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES})

_TRUSTED, _TO_PROBE, _PROBING, _COPYING = range(4)


class Journal:
    """Writes a row of segments. `start()` first, `close()` or `abandon()` last; nothing happens after those.

    - `sequence`: number of the last frame handed in; `safe`: what depends on numbers up to it may leave the node;
      `durable`: what survives a power loss.
    - `failing`: "" or what the disk said, while writes or fsyncs fail: refuse what must be journalled. It clears
      itself.
    - `backlog`: bytes that wait to be written, kept whatever happens: while it is large, append only what must be.
    - `stuck`: "" or why a retired file could not be unlinked (it is tried again each second).
    - `vanished`: how often a file was found to be gone.
    - `unrotated`: "" or why no new segment could be begun the last time; `rotation_failed` until it may be tried again.
    - `segment_size` may be changed at any time, `policy` (always, everysec, no) too.
    """

    def __init__(
        self,
        row: Row,
        owner: Owner,
        background: Background,
        *,
        policy: str,
        segment_size: int,
        clock: Callable[[], float],
        salt: Callable[[], int],
    ) -> None:
        self.segment_size = segment_size
        self.safe = 0
        self.durable = 0
        self.stuck = ""
        self.unrotated = ""
        self.rotation_failed = False
        self.vanished = 0
        self._look_at = 0.0
        self._row = row
        self._disk = row.disk
        self._owner = owner
        self._background = background
        self._clock = clock
        self._salt = salt
        self._policy = policy
        self._pending = Pending()
        self._files: list[SegmentFile] = []
        self._synced = 0
        self._synced_at = (0, 0)  # where the last good fsync reached
        self._mark = (0, 0)  # what frames say about it
        self._marked = (0, 0)  # the greatest position that a frame has vouched for
        self._records_end = (0, 0)
        self._busy = False
        self._open = False
        self._unfinished = False  # the owner will call go_on()
        self._fsync_s = 0.0
        self._now = 0.0
        self._last_sync = 0.0
        self._retry_at = 0.0
        self._probe_wait_s = RETRY_S
        self._write_error = ""
        self._sync_error = ""
        self._state = _TRUSTED
        self._last_bad = 0
        self._probed_in_vain = 0  # number of a segment that holds nothing and could not be fsynced
        self._begun = 0  # a file of ours whose head could not be written
        self._retiring: deque[tuple[int, int]] = deque()

    @property
    def sequence(self) -> int:
        """Number of the last frame handed in."""
        return self._pending.last

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        return self._pending.size

    @property
    def failing(self) -> str:
        """Return "" or what the disk said last."""
        return self._sync_error or self._write_error

    @property
    def rebuilding(self) -> bool:
        """Whether older files do not count any more, and the copy of the live state that replaces them is not safe."""
        return self._state != _TRUSTED

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self._row.size

    @property
    def segment(self) -> int:
        """Number of the segment that is written."""
        return max(self._row.sizes, default=0)

    @property
    def oldest(self) -> int:
        """Number of the oldest segment."""
        return min(self._row.sizes, default=0)

    @property
    def policy(self) -> str:
        """When fsync is called: always, everysec or no."""
        return self._policy

    @policy.setter
    def policy(self, policy: str) -> None:
        self._policy = policy
        self._advance_and_tell()
        self._go_on()

    def start(self, rebuild: bool = False) -> None:
        """Make what was read durable and begin a new segment; JournalError if the disk refuses.

        With `rebuild` (the journal is switched on over files of an earlier time), when an earlier rebuild was
        interrupted, or when what was read cannot be made durable (the disk says so once: the next process would not
        know), nothing older counts once the state is copied: journal_distrust() is called at the end.
        """
        last = self.segment
        self._synced_at = self._mark = (last, self._row.sizes.get(last, 0))
        rebase = bool(last) and (rebuild or bool(self._row.untrusted))
        try:
            rebase |= not self._row.secure() and bool(last)
            self._begin(last + 1, rebase)
        except OSError as error:
            where = error.filename or self._row.directory
            raise JournalError(f"Can't write the journal: {where}: {error.strerror}") from error
        self._open = True
        if rebase:
            self._mark = (0, 0)  # nothing is vouched for in files that are not trusted
            self._state = _COPYING
            self._last_bad = last
        self._write()
        if rebase:
            self._owner.journal_distrust(last)

    def close(self) -> str:
        """Write and fsync all that was appended, and close. Returns "" or why not all of it is safe."""
        self._background.wait()
        self._write_error = ""
        if self._open:
            self.sync()
            if not self.failing and self._mark > self._marked:
                self._pending.put_first(MARK, MARK_PAYLOAD)
                self.sync()
        unsafe = self.failing or ("the rebuild was not finished" if self.rebuilding else "")
        self.abandon()
        return unsafe

    def abandon(self) -> None:
        """Close the files as they are and forget what was not written."""
        self._open = False
        self._background.wait()
        self._pending.clear()
        self._retiring.clear()
        self._drop(self._files)
        if self._begun:
            with suppress(OSError):
                self._row.unlink(self._begun)

    def append(self, payload: Payload) -> int:
        """Take the payload of a RECORDS frame (not empty); it stays in memory until flush(). Returns its sequence."""
        assert 0 < size_of(payload) <= MAX_PAYLOAD
        return self._pending.append(RECORDS, payload)

    def flush(self) -> None:
        """Write what was appended; under always also fsync it, here or in the background. Once a loop iteration."""
        if not self._pending or self._unfinished or not self._may_write():
            return
        self._write()
        if self._files[-1].end >= self.segment_size and not self.rotation_failed:
            self._rotate()
        self._advance()
        if self._policy == "always" and self._synced < self._pending.written:
            self._sync_always()
        elif self._retiring or len(self._files) > 1:
            self._go_on()

    def go_on(self) -> None:
        """Write more of what one turn of the loop was too short for."""
        if not self._unfinished:
            return
        self._unfinished = False
        before = (self.safe, self.failing)
        self.flush()
        if self._open and before != (self.safe, self.failing):
            self._owner.journal_progress()

    def _may_write(self) -> bool:
        return self._open and not self._write_error and self._state not in {_TO_PROBE, _PROBING}

    def sync(self) -> bool:
        """Write and fsync everything here and now, under every policy. False: `failing` says why."""
        self._background.wait()
        if self._pending and self._may_write():
            self._write_all()
        if self._files and self._may_write():
            self._sync_here()
        self._advance()
        return self._synced == self._pending.last and not self.failing

    def _write(self) -> None:
        """Write pending frames until none is left, the disk refuses, or it is enough for this turn of the loop."""
        until_s = 0.0
        for _ in range(TURN_WRITES):
            self._write_once()
            if not self._pending or self._write_error:
                return
            now_s = self._clock()
            until_s = until_s or now_s + TURN_S
            if now_s > until_s:
                break
        if not self._unfinished:
            self._unfinished = True
            self._owner.journal_unfinished()

    def _write_all(self) -> None:
        """Write pending frames until none is left or the disk refuses."""
        while self._pending and not self._write_error:
            self._write_once()

    def _write_once(self) -> None:
        if not self._pending:
            return
        file = self._files[-1]
        count, self._write_error = file.write(self._pending, self._mark)
        for _ in range(count):
            self._note_written(file)
        if self._write_error:
            self._retry_at = self._now + RETRY_S

    def _note_written(self, file: SegmentFile) -> None:
        kind = self._pending.pop()
        self._row.sizes[file.number] = file.end
        self._marked = max(self._marked, self._mark)
        if kind != MARK:
            self._records_end = (file.number, file.end)

    def switch(self) -> int:
        """Begin a new segment now; returns its number, or that of the old one if the disk refuses."""
        self.flush()
        if self._may_write():
            self._rotate()
            self._go_on()
        return self.segment

    def _rotate(self) -> None:
        try:
            self._begin(self.segment + 1, rebase=False)
        except OSError as error:
            self.rotation_failed = True  # the old one goes on; cron() lets it be tried again
            self.unrotated = _said(error)
            return
        self.unrotated = ""
        self._write()

    def _begin(self, number: int, rebase: bool) -> None:
        """Make the file of a new segment with its head, and put the owner's head payload first in line.

        Once the head is written there is no way back: it says that the segment before ends where it ends now.
        """
        if self._begun == number:
            self._row.unlink(number)
        old = self._files[-1] if self._files else None
        salt = self._salt() & 0xFFFFFFFF
        before = self._row.heads.get(number - 1)
        follows = UNLINKED if before is None else before.link
        head = Head(number, salt, self._row.sizes.get(number - 1, 0), self.oldest or number, rebase, follows)
        self._begun = number
        try:
            self._files.append(SegmentFile(self._disk, self._row.path(number), head))
            self._begun = 0
        except FileExistsError:
            self._begun = 0  # somebody else's
            raise
        if old is not None:
            old.leave()  # not before: while no new file can be made, what was begun in the old one is ended there
        self._row.sizes[number] = HEAD_SIZE
        self._row.heads[number] = head
        payload = self._owner.journal_head()
        if payload:
            self._pending.put_first(RECORDS, payload)

    def _drop(self, files: Iterable[SegmentFile]) -> None:
        """Close files that are not written any more."""
        for file in list(files):
            self._files.remove(file)
            file.close()

    def _sync_always(self) -> None:
        if self._busy:
            return  # what was written meanwhile shares the next one
        file = self._files[-1]
        if self._fsync_s <= INLINE_S and file.end - file.synced <= INLINE_BYTES and not self._unfinished:
            self._sync_here()
            self._advance()
        self._go_on()

    def _new_sync(self) -> SyncJob:
        return SyncJob(self._disk, self._row.directory, list(self._files), self._pending.written, self._clock)

    def _sync_here(self) -> None:
        job = self._new_sync()
        try:
            job.run()
        except OSError as error:
            self._distrust(error)
        else:
            self._note_synced(job)

    def _sync_beside(self) -> None:
        job = self._new_sync()

        def done(error: OSError | None) -> None:
            self._busy = False
            if not self._open:
                return
            if error is None:
                self._note_synced(job)
            else:
                self._distrust(error)
            self._advance_and_tell()
            self._go_on()

        self._busy = True
        self._background.submit(job.run, done)

    def _note_synced(self, job: SyncJob) -> None:
        self._synced = job.through
        job.note()
        self._synced_at = job.position
        self._drop([file for file in self._files[:-1] if file.synced == file.end])
        self._fsync_s = max(job.took_s, self._fsync_s * 0.9 + job.took_s * 0.1)
        self._last_sync = self._now
        if self._state == _PROBING:
            self._probed()

    def _advance(self) -> None:
        """Move `durable` and `safe` to where the last fsync, or write, brought them."""
        if not self.rebuilding:
            self.durable = self._synced
            self._mark = self._synced_at
        self.safe = max(self.safe, self.durable if self._policy == "always" else self._pending.written)

    def _advance_and_tell(self) -> None:
        before = (self.safe, self.failing)
        self._advance()
        if before != (self.safe, self.failing):
            self._owner.journal_progress()

    def _go_on(self) -> None:
        """Start the next piece of work beside the loop, if there is any and none is running."""
        if self._busy or not self._open or not self._files:
            return
        if self._retiring and self._retiring[0][1] <= self._synced and not self.stuck:
            self._unlink_beside()
        elif self._sync_is_due():
            self._sync_beside()

    def _sync_is_due(self) -> bool:
        if self._state in {_TO_PROBE, _PROBING}:
            return self._state == _PROBING
        if self._synced < self._pending.written and (self._policy == "always" or self._retiring):
            return True
        return len(self._files) > 1  # a segment that is full: do not keep it open for long

    def cron(self, now: float) -> None:
        """Do what is due at `now` (monotonic seconds): the fsync of everysec, a MARK, another try of what failed."""
        self._now = now
        if not self._open:
            return
        if now >= self._retry_at:
            self._retry_at = now + RETRY_S
            self._retry()
        if now >= self._look_at and not self._busy:
            self._look_at = now + LOOK_S
            self._look_for_files()
        if self._state in {_TO_PROBE, _PROBING} or self._busy:
            return
        self._mark_if_idle()
        if self._policy != "no" and now - self._last_sync >= 1.0 and self._unsynced():
            self._sync_beside()
        self._go_on()

    def _look_for_files(self) -> None:
        """Begin anew when a file is gone. Not while this process itself removes some, or cannot do better yet."""
        if self._retiring or self._state != _TRUSTED:
            return
        missing = self._missing()
        if missing:
            self.vanished += 1
            self._distrust(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing))
            self._owner.journal_progress()

    def _missing(self) -> str:
        """Give the path of a file that is gone, or that has been replaced; "" if all are there."""
        paths = {number: self._row.path(number) for number in self._row.sizes}
        try:
            names = set(self._disk.listdir(self._row.directory))
        except OSError as wrong:
            if wrong.errno not in SHORT_OF:
                return self._row.directory
            names = {path.rpartition("/")[2] for path in paths.values()}
        gone = [path for path in paths.values() if path.rpartition("/")[2] not in names]
        gone += [paths[file.number] for file in self._files if not self._disk.links(file.fd)]
        return gone[-1] if gone else ""

    def _unsynced(self) -> bool:
        file = self._files[-1]
        return self._synced_at != (file.number, file.end)

    def _mark_if_idle(self) -> None:
        """Vouch for the last records, if they are synced and no frame behind them says so."""
        if not self._write_error and not self._pending and self._mark >= self._records_end > self._marked:
            self._pending.put_first(MARK, MARK_PAYLOAD)
            self._write()

    def _retry(self) -> None:
        self.rotation_failed = False
        if self._state == _TO_PROBE:
            self._probe()
        elif self._write_error:
            self._write_error = ""
            self._write()
            if not self._write_error:
                self._advance()
                self._owner.journal_progress()
            self._go_on()
        if self.stuck:
            self.stuck = ""
            self._go_on()

    def retire(self, segment: int) -> None:
        """Unlink all files up to `segment`, whose live contents the caller has appended again, when those are synced.

        Oldest first, each followed by an fsync of the directory; journal_retired(segment) follows. A
        RETIRED frame tells a reader that the files are not missed. In a rebuild, `segment` must be what
        journal_distrust() said.
        """
        if self.rebuilding and segment < self._last_bad:
            return  # an answer to an earlier call
        assert segment < self.segment
        sequence = self._pending.append(RETIRED, segment.to_bytes(4, "little"))
        self._retiring.append((segment, sequence))

    def _unlink_beside(self) -> None:
        segment = self._retiring[0][0]
        files = [number for number in self._row.segments if number <= segment]
        if self.rebuilding:
            files.reverse()  # the one before the new segment first: that is the commit
        gone: list[int] = []

        def work() -> None:
            for number in files:
                self._row.unlink(number)
                gone.append(number)

        def done(error: OSError | None) -> None:
            self._busy = False
            if not self._open:
                return
            self._note_unlinked(gone, segment, error)
            self._go_on()

        self._busy = True
        self._background.submit(work, done)

    def _note_unlinked(self, gone: list[int], segment: int, error: OSError | None) -> None:
        for number in gone:
            self._row.sizes.pop(number, None)
        if self.rebuilding and self._last_bad not in self._row.sizes:
            self._state = _TRUSTED
            self._sync_error = ""
            self._probe_wait_s = RETRY_S
        if error is None:
            self._retiring.popleft()
            self._owner.journal_retired(segment)
        else:
            self.stuck = error.strerror or str(error)
        self._advance_and_tell()

    def _distrust(self, error: OSError) -> None:
        """Give up all files that are not synced and begin the rebuild.

        The first probe is made at once: its file also tells the next process not to trust the old ones, should this
        one die now. One that failed stays for the same reason, until cron() tries the next.
        """
        self._sync_error = _said(error)
        failed = self._state == _PROBING
        self._probed_in_vain = self._files[-1].number if failed else 0
        self._state = _TO_PROBE
        self._retiring.clear()
        self._drop(self._files)
        if not failed:
            self._probe()

    def _probe(self) -> None:
        """See whether the disk takes a new segment before the whole state is copied into one."""
        self._retry_at = self._now + self._probe_wait_s
        self._probe_wait_s = min(2 * self._probe_wait_s, MAX_PROBE_S)
        with suppress(OSError):
            if self._probed_in_vain:
                self._disk.unlink(self._row.path(self._probed_in_vain))
                del self._row.sizes[self._probed_in_vain]
        self._probed_in_vain = 0
        self._last_bad = self.segment
        try:
            self._begin(self.segment + 1, rebase=True)
        except OSError as error:
            self._sync_error = _said(error)
            if error.errno in OF_PATHS:  # no probe of the disk: look again soon
                self._probe_wait_s = RETRY_S
                self._retry_at = self._now + RETRY_S
            return
        self._write_error = ""
        self._state = _PROBING
        self._sync_beside()

    def _probed(self) -> None:
        self._state = _COPYING
        self._write()
        self._owner.journal_distrust(self._last_bad)


def _said(error: OSError) -> str:
    """What the disk said; if that is about a path, also which one."""
    said = error.strerror or str(error)
    return f"{error.filename}: {said}" if error.errno in OF_PATHS and error.filename else said
