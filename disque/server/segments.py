"""The row of files that the journal is kept in: listing, reading back, cutting a torn tail.

A row is `<appendfilename>.<number of 8 digits>` in one directory. Three rules decide what state it stands for:

- It begins at the *base*: the youngest segment that opens a full copy of the live state (`rebase` in its head) and
  whose predecessor is gone; else at the oldest file. Files before the base are left over and are ignored.
- From there on no number may be missing, and each segment ends where the head of the next one says that it did.
- Damage, a missing file or a file that is too short, at position P, is a torn tail when no frame behind P, in that
  segment or a later one, calls anything behind P synced; then P and all behind it may be cut.
  Otherwise reading stops.

A process never appends to a file of an earlier one: every start opens a new segment.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import chain

from disque.core.frames import (
    FILE_MAGIC,
    HEAD_SIZE,
    RECORDS,
    RETIRED,
    UNKNOWN_SALT,
    Damage,
    Frame,
    Head,
    HeadError,
    Scanner,
    decode_head,
)
from disque.server.disk import Disk

READ_SIZE = 1 << 17
_HINT = "make a copy of the files, then use `disque check-aof --fix`"


class JournalError(Exception):
    """The journal cannot be used; the text is for the log and names the file (and offset)."""


class Slice:
    """A part of what was read: payloads of RECORDS frames, in order, and how far the reading is, in bytes.

    `payloads` may be empty: a slice is given for every READ_SIZE bytes, so that the caller can let others run.
    """

    __slots__ = ("done", "payloads", "segment", "total")

    def __init__(self, payloads: list[bytes], segment: int, done: int, total: int) -> None:
        self.payloads = payloads
        self.segment = segment
        self.done = done
        self.total = total


class Tail:
    """A torn end of the journal that nobody was promised: from `offset` of `path` on, and all later files.

    `lost` counts the bytes of all of it; `offset` 0 takes the whole file away.
    """

    __slots__ = ("lost", "offset", "path", "reason", "segment")

    def __init__(self, segment: int, path: str, offset: int, lost: int, reason: str) -> None:
        self.segment = segment
        self.path = path
        self.offset = offset
        self.lost = lost
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason} ({self.lost} bytes to the end of the journal)"


class Row:
    """The journal files of one directory, listed, with their heads read.

    Raises JournalError: the directory cannot be read, something in it is not a segment although it is called one, or a
    newer version wrote it. `untrusted` is the last segment of a row whose rebuild (after a failed fsync) was
    interrupted, else 0; Journal.start takes the rebuild up again. `tail` is set by read().
    """

    def __init__(self, directory: str, name: str, disk: Disk | None = None) -> None:
        self.directory = directory
        self.name = name
        self.disk = Disk() if disk is None else disk
        self.sizes: dict[int, int] = {}
        self.heads: dict[int, Head | None] = {}
        self.tail: Tail | None = None
        self.leftovers: list[int] = []
        self.untrusted = 0
        self._done = 0
        self._oldest_known = 0
        self._base = 0
        for number in self._listed():
            self._look(number)
        self._find_base()

    @property
    def segments(self) -> list[int]:
        """The numbers of the files that count, oldest first."""
        return list(self.sizes)

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(self.sizes.values())

    def path(self, segment: int) -> str:
        """Return where the file of that number is."""
        return f"{self.directory}/{self.name}.{segment:08d}"

    def read(self) -> Iterator[Slice]:
        """Give all records, oldest first; bounded memory (a slice, or one frame if that is larger).

        Afterwards `tail` is None, or what has to be cut before the journal is written again. Raises JournalError for
        damage that is no tail, with file and offset.
        """
        self._done = 0
        self.tail = None
        yield from self._check_beginning()
        first = max(self.sizes, default=0) + 1 if self.tail else min(self.sizes, default=1)
        for segment in range(first, max(self.sizes, default=0) + 1):
            damage = yield from self._read_segment(segment)
            if damage is not None:
                yield from self._judge(segment, damage)
                break
        self._check_retired()

    def cut(self) -> None:
        """Remove the tail that read() found, so that a crash in the middle leaves a shorter tail. Raises OSError."""
        tail = self.tail
        if tail is None:
            return
        for segment in reversed(self.segments):
            if (segment, 0) >= (tail.segment, tail.offset):
                self.remove(segment)
        if tail.segment in self.sizes:
            self._truncate(tail.segment, tail.offset)
        self.tail = None

    def secure(self) -> bool:
        """Fsync all files that count, remove those that do not, and make the directory durable. Raises OSError.

        False when the disk may have lost something of the files: no later fsync will say so again.
        """
        secured = True
        while self.leftovers:
            self.unlink(self.leftovers[-1])
            self.leftovers.pop()
        for segment in self.segments:
            fd = self.disk.open(self.path(segment))
            try:
                self.disk.fdatasync(fd)
            except OSError:
                secured = False
            finally:
                self.disk.close(fd)
        self.disk.fsync_dir(self.directory)
        return secured

    def remove(self, segment: int) -> None:
        """Unlink one file, durably, and forget it. Raises OSError."""
        self.unlink(segment)
        self.sizes.pop(segment, None)

    def unlink(self, segment: int) -> None:
        """Unlink one file, durably; may run in any thread. A file that is gone already is as good. Raises OSError."""
        with suppress(FileNotFoundError):
            self.disk.unlink(self.path(segment))
        self.disk.fsync_dir(self.directory)

    def limit(self, segment: int) -> int:
        """Return where the segment ends: its length, or less if the next one knows that the rest is left over."""
        following = self.heads.get(segment + 1)
        size = self.sizes[segment]
        return size if following is None else min(size, following.previous_end)

    # -- listing ---------------------------------------------------------------------------------------------------

    def _listed(self) -> list[int]:
        try:
            names = self.disk.listdir(self.directory)
        except OSError as error:
            raise JournalError(f"Can't read the journal's directory {self.directory}: {error.strerror}") from error
        pattern = re.compile(re.escape(self.name) + r"\.(\d{8})")
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match and int(match[1]))

    def _look(self, segment: int) -> None:
        """Note the length and the head of one file; the head is None if it is torn."""
        path = self.path(segment)
        try:
            fd = self.disk.open(path)
            try:
                self.sizes[segment] = self.disk.size(fd)
                start = self.disk.read(fd, HEAD_SIZE, 0)
            finally:
                self.disk.close(fd)
        except OSError as error:
            raise JournalError(f"Can't open the journal file {path}: {error.strerror}") from error
        try:
            self.heads[segment] = decode_head(start, segment)
        except HeadError as error:
            if error.newer or not may_be_torn(start):
                raise JournalError(f"{path}: {describe_foreign(start) or error}; {_HINT}") from error
            self.heads[segment] = None

    def _find_base(self) -> None:
        rebased = [segment for segment, head in self.heads.items() if head is not None and head.rebase]
        candidates = [segment for segment in rebased if segment - 1 not in self.sizes and self._rebuilt(segment)]
        self._base = max(candidates, default=0)
        self.leftovers = [segment for segment in self.sizes if segment < self._base]
        for segment in self.leftovers:
            del self.sizes[segment]
        self.untrusted = max((segment - 1 for segment in rebased if segment - 1 in self.sizes), default=0)

    def _rebuilt(self, first: int) -> bool:
        """Whether the copy that `first` opens is complete: a frame behind it says that the files before may go.

        (The file before may also be missing because a power loss took its name, which was never fsynced.)
        """
        for segment in range(first, max(self.sizes) + 1):
            head = self.heads.get(segment)
            if head is None:
                return False
            scanner = Scanner(segment, head.salt, self.limit(segment))
            for item in chain.from_iterable(self._items(segment, scanner)):
                if isinstance(item, Damage) or item.displaced:
                    return False
                if item.kind == RETIRED and int.from_bytes(item.payload, "little") >= first - 1:
                    return True
        return False

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_segment(self, segment: int) -> Generator[Slice, None, Damage | None]:
        """Give the records of one segment; returns the first damage in it."""
        if segment not in self.sizes:
            return Damage(0, "the file is missing")
        head = self.heads[segment]
        if head is None:
            return Damage(0, "the head of the file is torn")
        before = self._done
        scanner = Scanner(segment, head.salt, self.limit(segment))
        for items in self._items(segment, scanner):
            payloads, damage = self._believe(items)
            self._done = before + scanner.offset
            yield Slice(payloads, segment, self._done, self.size)
            if damage is not None:
                return damage
        self._done = before + self.sizes[segment]
        return self._early_end(segment)

    def _items(self, segment: int, scanner: Scanner) -> Iterator[list[Frame | Damage]]:
        """Feed the scanner from the file; gives what it found in each piece."""
        path = self.path(segment)
        try:
            fd = self.disk.open(path)
            try:
                while not scanner.done:
                    data = self.disk.read(fd, READ_SIZE, scanner.wanted)
                    if not data:
                        raise JournalError(f"{path} became shorter while it was read")
                    scanner.feed(data)
                    yield list(iter(scanner.next, None))
            finally:
                self.disk.close(fd)
        except OSError as error:
            raise JournalError(f"Can't read {path} at offset {scanner.wanted}: {error.strerror}") from error

    def _believe(self, items: list[Frame | Damage]) -> tuple[list[bytes], Damage | None]:
        """Return the payloads of records before the first damage, and that damage."""
        payloads: list[bytes] = []
        for item in items:
            if isinstance(item, Damage):
                return payloads, item
            if item.displaced:
                return payloads, Damage(item.offset, "bytes were inserted or removed before this frame")
            if item.kind == RECORDS:
                payloads.append(item.payload)
            elif item.kind == RETIRED:
                self._oldest_known = max(self._oldest_known, int.from_bytes(item.payload, "little") + 1)
        return payloads, None

    def _early_end(self, segment: int) -> Damage | None:
        following = self.heads.get(segment + 1)
        size = self.sizes[segment]
        if following is None or following.previous_end <= size:
            return None
        return Damage(size, f"the file ends here, but it was {following.previous_end} bytes long")

    def _judge(self, segment: int, damage: Damage) -> Iterator[Slice]:
        """Decide whether the damage is a tail: set `tail`, or raise JournalError if something behind it was synced."""
        lost = 0
        for later in self.segments:
            if later < segment:
                continue
            start = damage.offset if later == segment else 0
            lost += self.sizes[later] - start
            for newest_mark in self._marks(later, max(start, HEAD_SIZE)):
                if newest_mark > (segment, damage.offset):
                    self._refuse(segment, damage)
                yield Slice([], later, self._done, self.size)
        self.tail = Tail(segment, self.path(segment), damage.offset, lost, damage.reason)

    def _marks(self, segment: int, start: int) -> Iterator[tuple[int, int]]:
        """Search a segment from `start` on for headers; gives the greatest synced position of each piece."""
        head = self.heads[segment]
        scanner = Scanner(segment, UNKNOWN_SALT if head is None else head.salt, self.limit(segment), start)
        scanner.search()
        for items in self._items(segment, scanner):
            yield max(((item.synced_segment, item.synced_offset) for item in items), default=(0, 0))

    def _refuse(self, segment: int, damage: Damage) -> None:
        where = f"{self.path(segment)} at offset {damage.offset}"
        raise JournalError(f"The journal is damaged: {where}: {damage.reason}, before records that were safe; {_HINT}")

    def _check_beginning(self) -> Iterator[Slice]:
        """See whether the first file may be the first: nothing at all may be safe if one before it is missing.

        Normally a later RETIRED frame explains that it is gone (`_check_retired`). If no frame vouches for anything,
        files of a journal that was never fsynced were lost with their names, and the rest is a tail.
        """
        heads = [head for segment, head in self.heads.items() if segment in self.sizes and head is not None]
        self._oldest_known = max([self._base, *(head.oldest for head in heads)])
        if not heads or min(self.sizes) <= self._oldest_known:
            return
        for segment in self.segments:
            for mark in self._marks(segment, HEAD_SIZE):
                if mark > (self._oldest_known, 0):
                    return
                yield Slice([], segment, 0, self.size)
        yield from self._judge(self._oldest_known, Damage(0, "the file is missing"))

    def _check_retired(self) -> None:
        """Stop if files are missing before the first one, which neither a retirement nor a rebuild explains."""
        if self.tail is None and min(self.sizes, default=0) > self._oldest_known:
            raise JournalError(f"The journal is damaged: {self.path(self._oldest_known)} is missing; {_HINT}")

    def _truncate(self, segment: int, size: int) -> None:
        fd = self.disk.open(self.path(segment), write=True)
        try:
            self.disk.truncate(fd, size)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        self.sizes[segment] = size


def may_be_torn(start: bytes) -> bool:
    """Whether the first bytes of a file can be what a crash left of a segment's head, rather than another file's."""
    return FILE_MAGIC.startswith(start[: len(FILE_MAGIC)].rstrip(b"\0"))


def describe_foreign(start: bytes) -> str:
    """Name what a file is that begins with these bytes, if it is a known thing that is no journal; else ""."""
    if start[:1] == b"*" and start[1:2].isdigit():
        return "this is the append only file of a C Disque server (RESP text), which this server does not read"
    return ""
