"""`disque check-aof`: check journal files, and rescue what can be rescued from damaged ones.

Every segment is read on its own, frame by frame. Other checks look at the row of files (a missing number, a file that
ends before the next one says). With --fix a torn tail is cut off. Damage before the tail is cut out: every valid frame
goes to a new file, and the damaged one is kept as `<file>.damaged`. A frame is valid if its checksums are right, and if
a start would take the records in it: the same checks are used. Files of a newer program are left to that program.

The part that was cut out may have recorded that an at-most-once job was delivered. So a note at the end of the journal
tells the server not to rely on such jobs being undelivered: they are dropped at the next start.

Files that are not where they belong (`disque.server.misplaced`) are renamed first, or set aside as `<file>.aside`.
Nothing is ever deleted. A repair holds the locks that a node would hold. So it does not begin while a node runs, and no
node starts meanwhile. New files get the mode and the owner of those that they replace.
"""

import os
import re
import stat
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from secrets import randbits
from typing import Final

from cluster.nodesfile import NodesFileError, parse
from disque.cli.aof_cost import cost
from disque.core.journal import codec, replay
from disque.core.journal.checks import NewerError, OlderError, ReplayError
from disque.core.journal.frames import (
    HEAD_SIZE,
    MARK,
    MARK_PAYLOAD,
    RECORDS,
    UNKNOWN_SALT,
    UNLINKED,
    Damage,
    Frame,
    Head,
    HeadError,
    Scanner,
    decode_head,
    encode,
    encode_head,
)
from disque.core.journal.schema import OFF
from disque.server.daemon import LockedError, lock
from disque.server.misplaced import Misplaced
from disque.server.segments import READ_SIZE, JournalError, MisplacedError, Row, describe_foreign, may_be_torn

_SEGMENT = re.compile(r"(.+)\.(\d{8})")
_NODES_BYTES = 1 << 16  # of a nodes.conf, in which the line of the node itself comes first


#: A journal may miss so many files in a row; more are a stray file with a far number.
GAP_MOST: Final = 1000


class CannotCheckError(Exception):
    """The text says why there is nothing to analyse."""


class Segment:
    """What is known about one file: `ok_up_to` is where damage begins, or the size; `good` bytes are right."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number
        self.size = path.stat().st_size
        self.head: Head | None = None
        self.frames = 0
        self.records = 0
        self.good = 0
        self.limit = self.size
        self.ok_up_to = self.size
        self.problems: list[tuple[int, str]] = []
        self.frames_behind = 0
        self.refused = False
        self.cut: list[tuple[int, int]] = []

    def note(self, offset: int, reason: str) -> None:
        """Remember damage at `offset`."""
        self.problems.append((offset, reason))
        self.ok_up_to = min(self.ok_up_to, offset)

    @property
    def damaged(self) -> bool:
        """Whether anything in the file cannot be believed."""
        return bool(self.problems)

    def read_head(self) -> None:
        """Read the first bytes; CannotCheckError if this is no segment at all."""
        with self.path.open("rb") as file:
            start = file.read(HEAD_SIZE)
        try:
            self.head = decode_head(start, self.number)
            self.good = HEAD_SIZE
        except HeadError as error:
            foreign = describe_foreign(start)
            if foreign or error.is_whole or not (may_be_torn(start) or any(self.scan())):
                raise CannotCheckError(
                    f"{self.path} is not a journal: {foreign or error}. To start a node without it, move it away"
                ) from error
            self.note(0, str(error))

    def scan(self) -> Iterator[Frame]:
        """Give every frame that is right and not a repetition, noting what is not; from the file, in bounded memory."""
        salt = UNKNOWN_SALT if self.head is None else self.head.salt
        scanner = Scanner(self.number, salt, self.limit)
        reached = 0
        with self.path.open("rb") as file:
            file.seek(HEAD_SIZE)
            while not scanner.done and (data := file.read(READ_SIZE)):
                scanner.feed(data)
                items: list[Frame | Damage] = list(iter(scanner.next, None))
                for item in items:
                    if isinstance(item, Damage):
                        self.note(item.offset, item.reason)
                    elif item.claimed < reached:
                        self.note(item.offset, "a frame is repeated")
                    else:
                        reached = item.claimed + item.end - item.offset
                        if self._placed(item):
                            yield item

    def _placed(self, frame: Frame) -> bool:
        """Whether a start would take a frame that is here; what is wrong with it is noted."""
        if frame.displaced and not self.problems:
            self.note(frame.offset, "bytes were inserted or removed before this frame")
        wrong = refusal(frame)
        if wrong:
            self.refused = True
            self.note(frame.offset, f"a start refuses what was written here: {wrong}")
        return not wrong

    def analyse(self) -> None:
        """Count what is in the file."""
        self.problems = [problem for problem in self.problems if problem[0] == 0]
        end = HEAD_SIZE
        for frame in self.scan():
            if frame.offset > end:
                self.cut.append((end, frame.offset))
            end = frame.end
            self.frames += 1
            self.frames_behind += bool(self.problems)
            self.good += frame.end - frame.offset
            if frame.kind == RECORDS:
                self.records += 1
        if self.limit > end:
            self.cut.append((end, self.limit))


def refusal(frame: Frame) -> str:
    """Say why a start refuses the records of a frame whose checksums are right; "" if it takes them.

    CannotCheckError if a newer program wrote them.
    """
    if frame.kind == RECORDS:
        try:
            for _ in replay.believed(frame.payload):
                pass
        except NewerError as error:
            raise CannotCheckError(f"{error}: check it with that program") from error
        except OlderError as error:
            raise CannotCheckError(str(error)) from error
        except ReplayError as error:
            return str(error)
    return ""


def find_segments(target: Path) -> list[Segment]:
    """Return what `target` means: a directory, `dir/appendfilename`, or one file. CannotCheckError if nothing."""
    whole = _SEGMENT.fullmatch(target.name)
    try:
        if whole and not target.is_dir():
            found = [target]
        elif target.is_dir():
            found = [path for path in target.iterdir() if _SEGMENT.fullmatch(path.name)]
        else:
            found = [path for path in target.parent.iterdir() if path.stem == target.name]
        numbered = [(int(match[2]), path) for path in found if (match := _SEGMENT.fullmatch(path.name))]
        if len({path.stem for _, path in numbered}) > 1:
            raise CannotCheckError(f"There is more than one journal in {target}: name one, as in {target}/disque.aof")
        if not numbered:
            raise CannotCheckError(_nothing(target))
        return [Segment(path, number) for number, path in sorted(numbered)]
    except OSError as error:
        raise CannotCheckError(f"Cannot open file: {error.filename or target}: {error.strerror}") from error


def _nothing(target: Path) -> str:
    """Say what is there instead of segments."""
    if target.is_dir():
        return f"There is no journal in {target}"
    with target.open("rb") as file:
        start = file.read(HEAD_SIZE)
    if not start:
        return f"Empty file: {target}"
    return f"{target} is not a journal: {describe_foreign(start) or 'its name does not end in a segment number'}"


def analyse(segments: list[Segment]) -> list[str]:
    """Read all segments; returns what is wrong with the row as a whole. Raises CannotCheckError and OSError."""
    if not any(segment.size for segment in segments):
        raise CannotCheckError(f"Empty file: {segments[0].path}")
    for segment in segments:
        segment.read_head()
    row = None
    with suppress(JournalError):
        row = _row(segments[0].path)
    gaps: list[str] = []
    for before, after in pairwise(segments):
        gaps += _check_pair(before, after, row)
    for segment in segments:
        early = [problem for problem in segment.problems if problem[1].startswith("the file ends")]
        segment.analyse()
        for problem in early:
            segment.note(*problem)
    return gaps


def _row(path: Path) -> Row:
    """The row of which `path` is a file, as a start of the node of this directory sees it. Raises JournalError."""
    return Row(str(path.parent), path.stem, own=own_id(path.parent))


def own_id(directory: Path) -> bytes:
    """Say which node lives here; b"" if that is not known."""
    try:
        return parse((directory / "nodes.conf").read_bytes(), 0).myself.id
    except (OSError, NodesFileError):
        return b""


def find_misplaced(path: Path) -> list[Misplaced]:
    """Name the files that are not where they belong, of the row of which `path` is one."""
    try:
        _row(path)
    except MisplacedError as error:
        return error.files
    except JournalError:
        pass  # for another reason, which is found on the way
    return []


def _check_pair(before: Segment, after: Segment, row: Row | None) -> list[str]:
    """Compare where a segment ends with what the next one says about it; returns a gap between them, if any."""
    if after.number != before.number + 1:
        excused = after.head is not None and after.head.rebase
        missing = range(before.number + 1, after.number)
        if len(missing) > GAP_MOST and not excused:
            raise CannotCheckError(
                f"{len(missing)} files are missing between {before.path} and {after.path}: one of them does not belong "
                "to this journal. Put it elsewhere, and check again"
            )
        return [] if excused else [f"{before.path.with_suffix('')}.{number:08d} is missing" for number in missing]
    if row is not None and {before.number, after.number} <= set(row.segments) and row.goes_on_behind(before.number):
        return [f"{after.path} does not follow {before.path}, which has records after the end that it gives"]
    if after.head is not None and after.head.previous_end <= before.size:
        before.limit = after.head.previous_end
    elif after.head is not None:
        before.note(before.size, f"the file ends here, but it was {after.head.previous_end} bytes long")
    return []


def report(segment: Segment, last: bool) -> None:
    """Print what is known about one file."""
    counts = f"{segment.frames} frames, {segment.records} of them records"
    print(f"{segment.path}: {counts}, {segment.good} of {segment.size} bytes")
    for offset, reason in sorted(segment.problems)[:10]:
        print(f"0x{offset:08x}: {reason}")
    if segment.damaged:
        kind = "torn tail" if last and not segment.frames_behind and not segment.refused else "damage"
        print(f"{kind}: {segment.frames_behind} frames behind 0x{segment.ok_up_to:08x} are valid")


def confirmed(yes: bool) -> bool:
    """Ask, unless `yes`."""
    if yes:
        return True
    with suppress(EOFError):
        return input("Continue? [y/N]: ").strip().lower() in {"y", "yes"}
    return False


def repair(segment: Segment) -> None:
    """Cut a torn tail in place; else copy all frames that are right to a new file and keep the old one beside it."""
    if not segment.frames_behind and segment.head is not None and not segment.refused:
        with segment.path.open("r+b") as file:
            file.truncate(segment.ok_up_to)
            os.fsync(file.fileno())
        print(f"{segment.path}: Successfully truncated AOF, {segment.limit - segment.ok_up_to} bytes lost")
        return
    fresh = segment.path.with_name(segment.path.name + ".fixed")
    _rewrite(segment, fresh)
    backup = free_name(segment.path, ".damaged")
    os.link(segment.path, backup)
    fresh.replace(segment.path)
    lost = max(0, segment.limit - segment.good)
    print(f"{segment.path}: {segment.frames} frames rescued, {lost} bytes lost; the old file is {backup}")


def _rewrite(segment: Segment, fresh: Path) -> None:
    """Write a new file of the frames that are right, each vouching for the ones before it; durably."""
    number, salt, old = segment.number, randbits(32), segment.head
    fresh.unlink(missing_ok=True)
    with fresh.open("xb") as file:
        be_like(segment.path, file.fileno())
        file.write(encode_head(Head(number, salt, 0, 0, old is not None and old.rebase)))
        for frame in segment.scan():
            offset = file.tell()
            file.write(encode(frame.kind, frame.payload, number, salt, offset, number, offset))
        offset = file.tell()
        file.write(encode(MARK, MARK_PAYLOAD, number, salt, offset, number, offset))
        file.flush()
        os.fsync(file.fileno())


def be_like(model: Path, fd: int) -> None:
    """Give an open file the mode and the owner of another one. Raises OSError."""
    wanted, is_now = model.stat(), os.fstat(fd)
    if (wanted.st_uid, wanted.st_gid) != (is_now.st_uid, is_now.st_gid):
        os.fchown(fd, wanted.st_uid, wanted.st_gid)
    os.fchmod(fd, stat.S_IMODE(wanted.st_mode))


def free_name(path: Path, suffix: str) -> Path:
    """Return a name beside `path` that no file has."""
    number = 1
    while (name := path.with_name(f"{path.name}{suffix}{number if number > 1 else ''}")).exists():
        number += 1
    return name


def put_in_place(files: list[Misplaced], row: Path) -> None:
    """Rename files to what they are; set aside those that are nothing here. `row` is the path without a number."""

    def at(number: int) -> Path:
        return row.with_name(f"{row.name}.{number:08d}")

    for file in files:
        if not file.belongs:
            rename(at(file.number), free_name(at(file.number), ".aside"))
    ways = {at(file.number): at(file.belongs) for file in files if file.belongs}
    while ways:
        free = [path for path, target in ways.items() if not target.exists()]
        for path in free:
            rename(path, ways.pop(path))
        if not free:  # they are exchanged: one must step aside
            path = next(iter(ways))
            aside = free_name(path, ".moving")
            rename(path, aside)
            ways[aside] = ways.pop(path)
    _sync_directory(row.parent)


def rename(path: Path, target: Path) -> None:
    """Give a file another name, and say so."""
    path.rename(target)
    print(f"{path} is {target} now")


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fill_gaps(segments: list[Segment]) -> None:
    """Put an empty segment where a file is missing, unless a complete copy of the state begins behind the gap."""
    for before, after in pairwise(segments):
        if _check_pair(before, after, None):
            for number in range(before.number + 1, after.number):
                path = before.path.with_suffix(f".{number:08d}")
                with path.open("xb") as file:
                    be_like(before.path, file.fileno())
                    file.write(encode_head(Head(number, randbits(32), 0, 0, rebase=False)))
                print(f"{path}: an empty file takes the place of the missing one")


def doubt(last: Segment) -> None:
    """Note at the end of the journal that records are missing in it."""
    with last.path.open("r+b") as file:
        salt = decode_head(file.read(HEAD_SIZE), last.number).salt
        offset = file.seek(0, os.SEEK_END)
        [payload] = codec.encode([(OFF,)], 0)
        file.write(encode(RECORDS, payload, last.number, salt, offset, last.number, offset))
        file.flush()
        os.fsync(file.fileno())


def has_holes(segments: list[Segment]) -> bool:
    """Whether more than a torn end of the last file has to be cut out."""
    return any(one.damaged and (one.frames_behind or one.head is None or one.refused) for one in segments) or any(
        one.damaged for one in segments[:-1]
    )


def join(segments: list[Segment]) -> None:
    """Make the heads agree with the files as they are now: which is before, where it ends, which is the oldest."""
    previous_end, link = 0, UNLINKED
    for segment in segments:
        with segment.path.open("r+b") as file:
            head = decode_head(file.read(HEAD_SIZE), segment.number)
            head.previous_end, head.follows, link = previous_end, link, head.link
            head.oldest = segments[0].number
            file.seek(0)
            file.write(encode_head(head))
            file.flush()
            os.fsync(file.fileno())
        previous_end = segment.path.stat().st_size
    _sync_directory(segments[0].path.parent)


def verdict(segments: list[Segment]) -> str:
    """Say what the server would say to this journal at its start; "" if it would take all of it."""
    try:
        row = _row(segments[0].path)
        for _ in row.read():
            pass
    except JournalError as error:
        return str(error)
    return f"torn tail: {row.tail}" if row.tail else ""


def alone_in(directory: Path, segments: list[Segment]) -> ExitStack:
    """Hold the locks of a node that would run here. CannotCheckError if one runs; raises OSError."""
    files = [segment.path for segment in segments] + [path for path in directory.iterdir() if _is_nodes_file(path)]
    with ExitStack() as held:
        for path in files:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            held.callback(os.close, fd)
            try:
                lock(fd)
            except LockedError:
                raise CannotCheckError(
                    f"A node is running in {directory}: it has locked {path}. Nothing was changed. Stop it "
                    "before a repair"
                ) from None
        return held.pop_all()


def _is_nodes_file(path: Path) -> bool:
    """Whether this is the file that a node locks, whatever it is called."""
    if _SEGMENT.fullmatch(path.name) or not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return path.name == "nodes.conf" or b"myself" in file.read(_NODES_BYTES)
    return False


def fix(segments: list[Segment], gaps: list[str], yes: bool) -> int:
    """Repair what is damaged, if the user agrees; returns the exit code."""
    holes = bool(gaps) or has_holes(segments)
    print("This will cut out what is damaged; files that are rewritten are kept as <file>.damaged")
    cut = [(segment.path, start, end) for segment in segments for start, end in segment.cut]
    kept = (frame.payload for segment in segments for frame in segment.scan() if frame.kind == RECORDS)
    print(cost(cut, kept))
    if any("is missing" in gap for gap in gaps or [verdict(segments)]):
        print("It is not known how many jobs are lost with the missing files")
    if not confirmed(yes):
        print("Aborting...")
        return 1
    for segment in segments:
        if segment.damaged:
            repair(segment)
        elif segment.limit < segment.size:
            os.truncate(segment.path, segment.limit)  # left over from a failed write
    fill_gaps(segments)
    if holes:
        doubt(segments[-1])
    path = segments[0].path
    join(find_segments(path.with_suffix("")))
    left = verdict(segments)
    print(left or "AOF is valid")
    return 1 if left else 0


def check(target: Path, fixing: bool, yes: bool) -> int:
    """Analyse, report and perhaps repair; returns the exit code."""
    whole = _SEGMENT.fullmatch(target.name)
    if not fixing:
        alone = bool(whole) and not target.is_dir()
        return 0 if look(find_segments(target), alone=alone) is None else 1
    target = target.with_suffix("") if whole else target
    segments = find_segments(target)
    with alone_in(segments[0].path.parent, segments):
        if not sort_out(segments, yes):
            return 1
        segments = find_segments(target)
        gaps = look(segments, alone=False)
        return 0 if gaps is None else fix(segments, gaps, yes)


def sort_out(segments: list[Segment], yes: bool) -> bool:
    """Put files where they belong, if some are not and the user agrees; False if not."""
    path = segments[0].path
    while misplaced := find_misplaced(path):
        for file in misplaced:
            print(f"{file.why}. {'It will be renamed' if file.belongs else 'It will be set aside'}")
        if not confirmed(yes):
            print("Aborting...")
            return False
        put_in_place(misplaced, path.with_suffix(""))
    return True


def look(segments: list[Segment], *, alone: bool) -> list[str] | None:
    """Analyse and report; returns None if the journal is valid, else what is wrong with the row as a whole."""
    misplaced = [] if alone else find_misplaced(segments[0].path)
    for file in misplaced:
        print(file.why)
    if misplaced:
        print("AOF is not valid")
        return []
    segments[:] = [segment for segment in segments if segment.number]  # whatever is called 0, it is no segment
    if not segments:
        raise CannotCheckError("There is no journal: no segment has the number 0")
    gaps = analyse(segments)
    for segment in segments:
        report(segment, last=segment is segments[-1])
    for gap in gaps:
        print(gap)
    size = sum(segment.size for segment in segments)
    good = _ok_up_to(segments)
    print(f"AOF analyzed: size={size}, ok_up_to={good}, diff={size - good}")
    bad = bool(gaps) or any(segment.damaged for segment in segments)
    said = "" if alone or bad else verdict(segments)
    if said:
        print(said)
    if not bad and not said:
        print("AOF is valid")
        return None
    print("AOF is not valid")
    return gaps


def _ok_up_to(segments: list[Segment]) -> int:
    """Return how many bytes there are before the first damage, over all files."""
    total = 0
    for segment in segments:
        total += segment.ok_up_to
        if segment.damaged:
            break
    return total


def main(argv: list[str]) -> int:
    """Run `disque check-aof` with these arguments; returns the exit code: 0 if the journal is, or was made, valid."""
    parser = ArgumentParser("disque check-aof", description="Check the files of a journal, and repair them.")
    parser.add_argument("--fix", action="store_true", help="cut out what is damaged")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("path", help="dir/disque.aof, a directory, or one segment file")
    options = parser.parse_args(argv)
    try:
        return check(Path(options.path).absolute(), options.fix, options.yes)
    except CannotCheckError as error:
        print(error)
    except (JournalError, HeadError) as error:
        print(error)
    except OSError as error:
        print(f"Cannot open file: {Path(error.filename or options.path).absolute()}: {error.strerror}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
