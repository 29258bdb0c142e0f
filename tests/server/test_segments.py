from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disque.core.journal import codec
from disque.core.journal.frames import (
    HEAD_SIZE,
    MARK,
    MARK_PAYLOAD,
    RECORDS,
    RETIRED,
    SEED,
    UNLINKED,
    VERSION,
    Head,
    encode,
    encode_head,
)
from disque.core.journal.schema import FORMAT, HEAD
from disque.server.segments import READ_SIZE, JournalError, MisplacedError, Row
from tests.conftest import examples
from tests.support.nodes import make_node

NAME = "disque.aof"


class Writer:
    """Puts a segment together; `mark` is what its frames say is synced."""

    def __init__(
        self,
        folder: Path,
        number: int,
        previous_end: int = 0,
        oldest: int = 1,
        rebase: bool = False,
        follows: int = UNLINKED,
    ) -> None:
        self.path = folder / f"{NAME}.{number:08d}"
        self.number = number
        self.mark = (0, 0)
        self.data = encode_head(Head(number, 9, previous_end, oldest, rebase, follows))
        self.path.write_bytes(self.data)

    @property
    def end(self) -> int:
        return len(self.data)

    def add(self, *payloads: bytes, kind: int = RECORDS) -> "Writer":
        for payload in payloads:
            self.data += encode(kind, payload, self.number, 9, self.end, *self.mark)
        self.path.write_bytes(self.data)
        return self

    def synced(self) -> "Writer":
        self.mark = (self.number, self.end)
        return self.add(MARK_PAYLOAD, kind=MARK)

    def after(self, oldest: int = 1, rebase: bool = False) -> "Writer":
        following = Writer(self.path.parent, self.number + 1, self.end, oldest, rebase)
        following.mark = self.mark
        return following

    def damage(self, what: bytes) -> int:
        data = bytearray(self.path.read_bytes())
        at = data.index(what)
        data[at] ^= 0xFF
        self.path.write_bytes(data)
        return at


def made_by(version: int, path: Path) -> None:
    """Let the head of this file name another version of the format."""
    raw = bytearray(path.read_bytes())
    raw[7] = version
    raw[HEAD_SIZE - 4 : HEAD_SIZE] = crc32(raw[: HEAD_SIZE - 4], SEED).to_bytes(4, "little")
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("version", "said"),
    [(VERSION - 1, "an older version .*: start that one, let consumers empty its queues"), (VERSION + 1, "a newer")],
)
def test_a_file_of_another_version_is_named_and_no_repair_is_advised(tmp_path: Path, version: int, said: str) -> None:
    first = Writer(tmp_path, 1).add(b"a")
    made_by(version, first.path)
    with pytest.raises(JournalError, match=f"{first.path}: written by {said}") as caught:
        read(Row(str(tmp_path), NAME))
    assert "--fix" not in str(caught.value)


def read(row: Row) -> list[bytes]:
    return [payload for part in row.read() for payload in part.payloads]


def read_and_cut(folder: Path) -> list[bytes]:
    """Read, cut the tail, and hold that what is left reads the same without a tail."""
    row = Row(str(folder), NAME)
    found = read(row)
    assert row.tail
    row.cut()
    again = Row(str(folder), NAME)
    assert read(again) == found
    assert again.tail is None
    return found


def test_an_empty_directory_is_an_empty_journal(tmp_path: Path) -> None:
    row = Row(str(tmp_path), NAME)
    assert (read(row), row.tail, row.size, row.segments) == ([], None, 0, [])


def test_all_segments_are_read_in_order_and_other_files_are_left_alone(tmp_path: Path) -> None:
    Writer(tmp_path, 1).add(b"a", b"b").after().add(b"c").after()
    for other in (NAME, f"{NAME}.1", f"{NAME}.00000002.damaged", "nodes.conf", "x.00000001"):
        (tmp_path / other).write_bytes(b"other")
    row = Row(str(tmp_path), NAME)
    assert read(row) == [b"a", b"b", b"c"]
    assert row.segments == [1, 2, 3]
    assert row.tail is None


def test_reading_is_sliced_and_says_how_far_it_is(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1).add(*[b"x" * 1000] * 500)
    slices = list(Row(str(tmp_path), NAME).read())
    assert len(slices) == -(-(writer.end - HEAD_SIZE) // READ_SIZE)
    assert [part.done for part in slices] == sorted(part.done for part in slices)
    assert slices[-1].done == slices[-1].total == writer.end
    assert all(sum(map(len, part.payloads)) <= 2 * READ_SIZE for part in slices)


@pytest.mark.parametrize("ending", [b"", b"\0" * 300, b"garbage", b"\xf5jFr" * 40])
def test_a_torn_end_is_a_tail_that_is_cut(tmp_path: Path, ending: bytes) -> None:
    writer = Writer(tmp_path, 1).add(b"a").synced().add(b"b", b"torn")
    writer.path.write_bytes(writer.data[:-2] + ending)
    assert read_and_cut(tmp_path) == [b"a", b"b"]


def test_damage_behind_the_last_mark_is_a_tail_though_good_frames_follow_even_in_later_segments(tmp_path: Path) -> None:
    first = Writer(tmp_path, 1).add(b"a").synced().add(b"b", b"c")
    later = first.after().add(b"d").after().add(b"e")
    first.damage(b"b")
    behind = first.path.read_bytes()[first.mark[1] :]
    whole = later.data
    assert read_and_cut(tmp_path) == [b"a"]
    assert not later.path.exists()
    assert (tmp_path / f"{later.path.name}.cut").read_bytes() == whole
    assert (tmp_path / f"{first.path.name}.cut").read_bytes().endswith(behind[-20:])


def test_what_was_cut_earlier_stays_when_more_is_cut(tmp_path: Path) -> None:
    for text in (b"first", b"second"):
        first = Writer(tmp_path, 1).add(b"a").synced().add(b"b", text)
        first.damage(b"b")
        assert read_and_cut(tmp_path) == [b"a"]
    assert b"first" in (tmp_path / f"{NAME}.00000001.cut").read_bytes()
    assert b"second" in (tmp_path / f"{NAME}.00000001.cut2").read_bytes()


@pytest.mark.parametrize(("number", "name"), [(1, 2), (2, 1), (3, 7), (1, 0)])
def test_a_file_under_a_wrong_number_stops_and_nothing_is_touched(tmp_path: Path, number: int, name: int) -> None:
    first = Writer(tmp_path, 1).add(b"a").synced()
    first.after().add(b"b").synced().after().add(b"c")
    (tmp_path / f"{NAME}.{number:08d}").replace(tmp_path / f"{NAME}.{name:08d}")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    said = rf"{NAME}.{name:08d} is segment {number}.* Nothing was changed. `disque check-aof --fix {tmp_path}/{NAME}`"
    with pytest.raises(JournalError, match=said):
        Row(str(tmp_path), NAME)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_that_is_called_0_and_is_none_is_left_alone(tmp_path: Path) -> None:
    Writer(tmp_path, 1).add(b"a")
    (tmp_path / f"{NAME}.00000000").write_bytes(b"other")
    assert read(Row(str(tmp_path), NAME)) == [b"a"]


def test_frames_behind_the_end_that_the_next_file_tells_of_stop(tmp_path: Path) -> None:
    first = Writer(tmp_path, 1).add(b"a")
    second = Writer(tmp_path, 2, first.end).add(b"x")
    first.add(b"b")
    with pytest.raises(JournalError, match=rf"{second.path} does not follow {first.path}"):
        read(Row(str(tmp_path), NAME))


def test_who_wrote_a_file_stands_in_its_first_record(tmp_path: Path) -> None:
    node_id = b"0" * 40
    assert Row(str(tmp_path), NAME).previous_writer == b""
    node = make_node(0)
    first = Writer(tmp_path, 1).add(codec.head(node, "boot", "always", 1), b"a")
    first.after().add(b"b")
    assert Row(str(tmp_path), NAME).previous_writer == node.node_id
    later = Writer(tmp_path, 2, follows=10)
    later.add(msgpack.packb([1, (HEAD, FORMAT, node_id, b"boot", b"always")]))
    with pytest.raises(MisplacedError, match=f"{later.path} .* from a journal of node {node_id.decode()}.* sets aside"):
        Row(str(tmp_path), NAME, own=node.node_id)
    with pytest.raises(MisplacedError, match=f"{NAME}.00000001 does not belong"):
        Row(str(tmp_path), NAME, own=node_id)
    Writer(tmp_path, 2, first.end, follows=9).add(b"c")
    assert read(Row(str(tmp_path), NAME, own=node_id))[1:] == [b"a", b"c"]


@pytest.mark.parametrize("distance", [0, 1, 2])
def test_damage_that_any_later_frame_calls_synced_stops_with_file_and_offset(tmp_path: Path, distance: int) -> None:
    first = last = Writer(tmp_path, 1).add(b"a", b"b")
    for _ in range(distance):
        last = last.after().add(b"x")
    last.synced()
    first.damage(b"b")
    with pytest.raises(JournalError, match=r"disque\.aof\.00000001 at offset \d+: .*payload.*check-aof --fix"):
        read(Row(str(tmp_path), NAME))


def test_the_mark_of_a_frame_whose_payload_is_damaged_still_counts(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1).add(b"a", b"b")
    writer.mark = (1, writer.end)
    writer.add(b"later")
    writer.damage(b"b")
    writer.damage(b"later")
    with pytest.raises(JournalError):
        read(Row(str(tmp_path), NAME))


def test_a_missing_segment_stops_if_it_was_synced_and_is_a_tail_if_not(tmp_path: Path) -> None:
    middle = Writer(tmp_path, 1).add(b"a").after().add(b"b")
    last = middle.after().add(b"c")
    middle.path.unlink()
    assert read(row := Row(str(tmp_path), NAME)) == [b"a"]
    assert row.tail
    last.synced()
    with pytest.raises(JournalError, match=r"disque\.aof\.00000002 is missing: put it back"):
        read(Row(str(tmp_path), NAME))


def test_a_missing_first_segment_stops_unless_it_was_retired(tmp_path: Path) -> None:
    first = Writer(tmp_path, 1).add(b"a").synced()
    second = first.after().add(b"b")
    first.path.unlink()
    with pytest.raises(JournalError, match=r"disque\.aof\.00000001 is missing"):
        read(Row(str(tmp_path), NAME))
    second.add((1).to_bytes(4, "little"), kind=RETIRED)
    assert read(Row(str(tmp_path), NAME)) == [b"b"]


def test_a_segment_that_was_cut_between_two_frames_is_noticed(tmp_path: Path) -> None:
    first = Writer(tmp_path, 1).add(b"a")
    end = first.end
    first.add(b"b").after().add(b"c").synced()
    first.path.write_bytes(first.data[:end])
    with pytest.raises(JournalError, match="the file ends here, but it was"):
        read(Row(str(tmp_path), NAME))


def test_what_a_failed_write_left_behind_the_end_is_ignored(tmp_path: Path) -> None:
    first = Writer(tmp_path, 1).add(b"a")
    first.after().add(b"b").synced()
    first.path.write_bytes(first.data + b"left over")
    row = Row(str(tmp_path), NAME)
    assert read(row) == [b"a", b"b"]
    assert row.tail is None


@pytest.mark.parametrize("size", [0, 5, HEAD_SIZE - 1])
def test_a_newest_segment_with_a_torn_head_is_a_tail(tmp_path: Path, size: int) -> None:
    first = Writer(tmp_path, 1).add(b"a").synced()
    second = first.after()
    second.path.write_bytes(second.data[:size])
    assert read_and_cut(tmp_path) == [b"a"]
    assert not second.path.exists()


def test_a_damaged_head_before_frames_that_are_synced_stops(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1).add(b"a").synced()
    data = bytearray(writer.data)
    data[10] ^= 1
    writer.path.write_bytes(data)
    with pytest.raises(JournalError, match="head of the file is torn, before records that were safe"):
        read(Row(str(tmp_path), NAME))


def test_inserted_and_repeated_frames_are_not_believed(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1).add(b"a", b"b").synced()
    frame = writer.data[HEAD_SIZE : HEAD_SIZE + (writer.end - HEAD_SIZE) // 3]
    writer.path.write_bytes(writer.data[:HEAD_SIZE] + frame + writer.data[HEAD_SIZE:])
    with pytest.raises(JournalError, match="inserted or removed"):
        read(Row(str(tmp_path), NAME))


def test_a_complete_rebuild_hides_older_files_once_the_one_before_it_is_gone(tmp_path: Path) -> None:
    old = Writer(tmp_path, 1).add(b"old")
    bad = old.after().add(b"lost")
    new = bad.after(rebase=True).add(b"copy")
    row = Row(str(tmp_path), NAME)
    assert (row.untrusted, row.leftovers) == (2, [])
    assert read(row) == [b"old", b"lost", b"copy"]
    bad.path.unlink()
    new.add((2).to_bytes(4, "little"), kind=RETIRED).synced()
    row = Row(str(tmp_path), NAME)
    assert (row.untrusted, row.leftovers) == (0, [1])
    assert read(row) == [b"copy"]


def test_an_incomplete_rebuild_hides_nothing(tmp_path: Path) -> None:
    old = Writer(tmp_path, 1).add(b"old").synced()
    bad = old.after()
    bad.after(rebase=True).add(b"half a copy")
    bad.path.unlink()
    assert read_and_cut(tmp_path) == [b"old"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.mkdir(), "Not a regular file"),
        (lambda path: path.write_bytes(b"*2\r\n$7\r\nLOADJOB\r\n"), "append only file of a C Disque server"),
        (lambda path: path.write_bytes(b"hello, this is a text of some length\n"), "does not begin as"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
    ],
)
def test_what_is_no_segment_is_refused_and_named(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    make(tmp_path / f"{NAME}.00000001")
    with pytest.raises(JournalError, match=f"00000001: .*{says}"):
        Row(str(tmp_path), NAME)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nowhere: No such file or directory"):
        Row(str(tmp_path / "nowhere"), NAME)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_cut_or_refused_and_never_believed(tmp_path: Path, data: st.DataObject) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    writer = Writer(tmp_path, 1)
    files, wrote, number = [writer], [], 0
    for step in data.draw(st.lists(st.sampled_from("aaams"), min_size=1, max_size=15)):
        if step == "a":
            number += 1
            wrote.append(b"record %d" % number)
            writer.add(wrote[-1])
        elif step == "m":
            writer.synced()
        else:
            writer = writer.after()
            files.append(writer)
    victim = data.draw(st.sampled_from(files)).path
    raw = victim.read_bytes()
    at = data.draw(st.integers(0, len(raw)))
    gone = data.draw(st.integers(0, 50))
    victim.write_bytes(raw[:at] + data.draw(st.binary(max_size=50) | st.just(raw[:at])) + raw[at + gone :])
    try:
        row = Row(str(tmp_path), NAME)
        found = read(row)
    except JournalError:
        return
    assert found == wrote[: len(found)]
    if len(found) < len(wrote) and row.tail is None:
        assert raw.startswith(victim.read_bytes()), "only an end that was cut between frames cannot be seen"
        assert victim == files[-1].path
