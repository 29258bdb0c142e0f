"""The files of the journal: listing them, reading them back, cutting off a torn tail.

The files are `<appendfilename>.<number of 8 digits>` in one directory. Three rules decide which state they stand for:

- The row begins at the *base*: the youngest segment that opens a full copy of the live state (`rebase` in its head) and
  whose predecessor is gone. Without one, it begins at the oldest file. Files before the base are ignored.
- From there on no number may be missing, and each segment ends where the head of the next one says that it did.
- Damage, a missing file or a file that is too short, at position P, is a torn tail when no frame after P, in that
  segment or a later one, says that anything after P was synced. Then P and all after it may be cut off. Otherwise
  reading stops.

A process never appends to a file of an earlier process: every start opens a new segment.

Files that are not where they belong stop the start before anything is read (`misplaced`). Nothing that can be read is
deleted here: whole files, and ends with frames in them, are kept as `<file>.cut`.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import chain

from disque.core.journal import replay
from disque.core.journal.frames import (
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
    head_number,
)
from disque.server.disk import Disk
from disque.server.misplaced import Found, Misplaced, find_misplaced

READ_SIZE = 1 << 17
START_SIZE = 4096  # the head of a segment, and the record that says who wrote it
CUT_SUFFIX = ".cut"


class JournalError(Exception):
    """The journal cannot be used; the text is for the log and names the file (and offset)."""


class MisplacedError(JournalError):
    """Some `files` of the journal are not where they belong; nothing was read or changed."""

    def __init__(self, files: list[Misplaced], target: str) -> None:
        some_move = any(file.belongs for file in files)
        some_go = not all(file.belongs for file in files)
        does = " and ".join(["renames it"] * some_move + ["sets aside what does not belong here"] * some_go)
        said = "; ".join(file.why for file in files[:10])
        more = f", and {len(files) - 10} more" if len(files) > 10 else ""
        super().__init__(
            f"The journal's files are not where they belong: {said}{more}. Nothing was changed. "
            f"`disque check-aof --fix {target}` {does}"
        )
        self.files = files


def set_aside_all(directory: str, name: str, suffix: str, disk: Disk | None = None) -> list[str]:
    """Give all files that are called like segments of a journal names that no journal reads; returns these.

    The newest go first, so that a crash in the middle leaves what can still be read. Raises OSError.
    """
    disk = Disk() if disk is None else disk
    names = disk.listdir(directory)
    kept = []
    for segment in reversed(numbers_in(names, name)):
        stem = f"{name}.{segment:08d}"
        kept.append(f"{directory}/{free_name(names, stem + suffix)}")
        disk.rename(f"{directory}/{stem}", kept[-1])
    disk.fsync_dir(directory)
    return kept


def numbers_in(names: list[str], name: str) -> list[int]:
    """Return the numbers of the segments of a journal among the names of files."""
    pattern = re.compile(re.escape(name) + r"\.(\d{8})")
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def free_name(names: list[str], wanted: str) -> str:
    """Return a name like `wanted` that is not among `names`."""
    number = 1
    while (name := f"{wanted}{number if number > 1 else ''}") in names:
        number += 1
    return name


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

    `lost` counts the bytes of all of it; `offset` 0 takes the whole file away. `readable`: there are frames in it.
    """

    __slots__ = ("lost", "offset", "path", "readable", "reason", "segment")

    def __init__(self, segment: int, path: str, offset: int, lost: int, reason: str) -> None:
        self.segment = segment
        self.path = path
        self.offset = offset
        self.lost = lost
        self.reason = reason
        self.readable = False

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason} ({self.lost} bytes to the end of the journal)"


class Row:
    """The journal files of one directory, listed, with their heads read.

    Raises JournalError: the directory cannot be read, something in it is not a segment although it is called one, a
    newer version wrote it, or (MisplacedError) it belongs elsewhere. `own` is the ID of the node that it should be of,
    b"" if that does not matter. `untrusted` is the last segment of a row whose rebuild (after a failed fsync) was
    interrupted, else 0; Journal.start takes the rebuild up again. `tail` is set by read().
    """

    def __init__(self, directory: str, name: str, disk: Disk | None = None, own: bytes = b"") -> None:
        self.directory = directory
        self.name = name
        self.disk = Disk() if disk is None else disk
        self.sizes: dict[int, int] = {}
        self.tail: Tail | None = None
        self.leftovers: list[int] = []
        self.untrusted = 0
        self._done = 0
        self._oldest_known = 0
        self._base = 0
        self._found = Found()
        self.heads = self._found.heads
        for number in self._listed():
            self._look(number)
        misplaced = find_misplaced(self._found, own, self.path)
        if misplaced:
            raise MisplacedError(misplaced, f"{directory}/{name}")
        self._find_base()

    @property
    def segments(self) -> list[int]:
        """The numbers of the files that count, oldest first."""
        return list(self.sizes)

    @property
    def previous_writer(self) -> bytes:
        """The ID of the node that wrote the newest file that says it, else b""."""
        return next((writer for _, writer in sorted(self._found.writers.items(), reverse=True) if writer), b"")

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

    def cut(self) -> list[str]:
        """Remove the tail that read() found, so that a crash in the middle leaves a shorter tail. Raises OSError.

        Returns the files in which stays what is worth a look.
        """
        tail = self.tail
        kept: list[str] = []
        if tail is None:
            return kept
        for segment in reversed(self.segments):
            if (segment, 0) < (tail.segment, tail.offset):
                continue
            if self.sizes[segment] > HEAD_SIZE:
                kept.append(self._set_aside(segment))
            self.remove(segment)
        if tail.segment in self.sizes:
            if tail.readable:
                kept.append(self._copy_end(tail.segment, tail.offset))
            self._truncate(tail.segment, tail.offset)
        self.tail = None
        return kept

    def _set_aside(self, segment: int) -> str:
        """Give a file a name that no journal reads; returns it."""
        path = self._name_beside(segment)
        self.disk.rename(self.path(segment), path)
        return path

    def _copy_end(self, segment: int, offset: int) -> str:
        """Keep the bytes from `offset` on in a file beside; returns its name."""
        path = self._name_beside(segment)
        source = self.disk.open(self.path(segment))
        try:
            target = self.disk.create(path)
            try:
                self._copy(source, target, offset)
                self.disk.fdatasync(target)
            finally:
                self.disk.close(target)
        finally:
            self.disk.close(source)
        self.disk.fsync_dir(self.directory)
        return path

    def _copy(self, source: int, target: int, offset: int) -> None:
        written = 0
        while data := self.disk.read(source, READ_SIZE, offset + written):
            rest = memoryview(data)
            while rest:
                count = self.disk.write(target, [rest], written)
                written += count
                rest = rest[count:]

    def _name_beside(self, segment: int) -> str:
        names = self.disk.listdir(self.directory)
        return f"{self.directory}/{free_name(names, f'{self.name}.{segment:08d}{CUT_SUFFIX}')}"

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

    def last_payload(self) -> bytes:
        """Return the last records of the newest file, b"" if there are none. Raises JournalError."""
        payloads = [b""]
        if self.sizes:
            reading = self._read_segment(max(self.sizes))
            with suppress(StopIteration):
                while True:
                    payloads = next(reading).payloads[-1:] or payloads
        return payloads[-1]

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
        return numbers_in(names, self.name)

    def _look(self, segment: int) -> None:
        """Note the length and the head of one file; the head is None if it is torn."""
        path = self.path(segment)
        try:
            fd = self.disk.open(path)
            try:
                size = self.disk.size(fd)
                start = self.disk.read(fd, START_SIZE, 0)
            finally:
                self.disk.close(fd)
        except OSError as error:
            raise JournalError(f"Can't open the journal file {path}: {error.strerror}") from error
        self._found.claims[segment] = head_number(start)
        if not segment:
            return  # no segment has this number: a file that is one is somewhere else at home
        self.sizes[segment] = size
        try:
            head = self.heads[segment] = decode_head(start, segment)
            self._found.writers[segment] = _writer_of(start, head, min(size, START_SIZE))
        except HeadError as error:
            if error.is_whole:
                raise JournalError(f"{path}: {error}") from error
            if not may_be_torn(start):
                raise JournalError(f"{path}: {describe_foreign(start) or error}; {self._hint}") from error
            self.heads[segment] = None

    @property
    def _hint(self) -> str:
        return f"make a copy of the files, then use `disque check-aof --fix {self.directory}/{self.name}`"

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
        if self.goes_on_behind(segment):
            raise JournalError(
                f"The journal is damaged: {self.path(segment + 1)} does not follow {self.path(segment)}, which has "
                f"records after the end that the other file gives for it; {self._hint}"
            )
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

    def goes_on_behind(self, segment: int) -> bool:
        """Whether there are frames behind the end of a segment that the next one speaks of: it is not the next one.

        What a failed write left there has none.
        """
        head, limit, size = self.heads[segment], self.limit(segment), self.sizes[segment]
        if head is None or limit >= size:
            return False
        items = chain.from_iterable(self._items(segment, Scanner(segment, head.salt, size)))
        return any(isinstance(item, Frame) and not item.displaced and item.end > limit for item in items)

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
        tail = Tail(segment, self.path(segment), damage.offset, 0, damage.reason)
        for later in self.segments:
            if later < segment:
                continue
            start = damage.offset if later == segment else 0
            tail.lost += self.sizes[later] - start
            for newest_mark, readable in self._marks(later, max(start, HEAD_SIZE)):
                if newest_mark > (segment, damage.offset):
                    self._refuse(segment, damage)
                tail.readable |= readable and later == segment
                yield Slice([], later, self._done, self.size)
        self.tail = tail

    def _marks(self, segment: int, start: int) -> Iterator[tuple[tuple[int, int], bool]]:
        """Search a segment from `start` on for headers.

        Gives for each piece the greatest synced position, and whether there are whole frames in it.
        """
        head = self.heads[segment]
        scanner = Scanner(segment, UNKNOWN_SALT if head is None else head.salt, self.limit(segment), start)
        scanner.search()
        for items in self._items(segment, scanner):
            newest = max(((item.synced_segment, item.synced_offset) for item in items), default=(0, 0))
            yield newest, any(isinstance(item, Frame) for item in items)

    def _refuse(self, segment: int, damage: Damage) -> None:
        where = f"{self.path(segment)} at offset {damage.offset}: {damage.reason}"
        if segment not in self.sizes:
            where = f"{self.path(segment)} is missing: put it back, or go on without what was in it"
            raise JournalError(f"The journal is damaged: {where} ({self._hint})")
        raise JournalError(f"The journal is damaged: {where}, before records that were safe on the disk; {self._hint}")

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
            for mark, _ in self._marks(segment, HEAD_SIZE):
                if mark > (self._oldest_known, 0):
                    return
                yield Slice([], segment, 0, self.size)
        yield from self._judge(self._oldest_known, Damage(0, "the file is missing"))

    def _check_retired(self) -> None:
        """Stop if files are missing before the first one, which neither a retirement nor a rebuild explains."""
        if self.tail is None and min(self.sizes, default=0) > self._oldest_known:
            self._refuse(self._oldest_known, Damage(0, "the file is missing"))

    def _truncate(self, segment: int, size: int) -> None:
        fd = self.disk.open(self.path(segment), write=True)
        try:
            self.disk.truncate(fd, size)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        self.sizes[segment] = size


def _writer_of(start: bytes, head: Head, limit: int) -> bytes:
    """Say which node wrote the segment that begins with `start`; b"" if that is not in these bytes."""
    scanner = Scanner(head.segment, head.salt, limit)
    scanner.feed(start[HEAD_SIZE:])
    frame = scanner.next()
    is_first = isinstance(frame, Frame) and not frame.displaced and frame.kind == RECORDS
    return replay.writer_of(frame.payload) if isinstance(frame, Frame) and is_first else b""


def may_be_torn(start: bytes) -> bool:
    """Whether the first bytes of a file can be what a crash left of a segment's head, rather than another file's."""
    return FILE_MAGIC.startswith(start[: len(FILE_MAGIC)].rstrip(b"\0"))


def describe_foreign(start: bytes) -> str:
    """Name what a file is that begins with these bytes, if it is a known thing that is no journal; else ""."""
    if start[:1] == b"*" and start[1:2].isdigit():
        return "this is the append only file of a C Disque server (RESP text), which this server does not read"
    return ""
