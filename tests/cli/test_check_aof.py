import fcntl
import os
import stat
from pathlib import Path

import msgpack
import pytest

from disque.cli.check_aof import main
from disque.core.journal.frames import HEAD_SIZE, MARK, MARK_PAYLOAD, RECORDS, Head, encode, encode_head
from disque.core.journal.schema import FORMAT, HEAD, OFF, PAUSE
from disque.server.segments import JournalError, Row

NAME = "disque.aof"


def record(text: str) -> bytes:
    """A record that a start takes, with some text in it."""
    packed: bytes = msgpack.packb([1, [PAUSE, text.encode(), 0]])
    return packed


def text_of(payload: bytes) -> object:
    """That text; any other record as it is."""
    found = msgpack.unpackb(payload)[1]
    return found[1].decode() if found[0] == PAUSE else found


def write_row(folder: Path, *segments: list[str]) -> list[Path]:
    """Write a segment for each list of records, all vouched for by the next frame."""
    paths, end, mark = [], 0, (0, 0)
    for number, records in enumerate(segments, 1):
        data = encode_head(Head(number, 9, end, 1, rebase=False))
        frames = [(RECORDS, record(text)) for text in records] + [(MARK, MARK_PAYLOAD)]
        for kind, payload in frames:
            data += encode(kind, payload, number, 9, len(data), *mark)
            mark = (number, len(data))
        end = len(data)
        paths.append(folder / f"{NAME}.{number:08d}")
        paths[-1].write_bytes(data)
    return paths


def damage(path: Path, text: str) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(text.encode())] ^= 0xFF
    path.write_bytes(data)


def everything(folder: Path) -> list[object]:
    row = Row(str(folder), NAME)
    found = [text_of(payload) for part in row.read() for payload in part.payloads]
    assert row.tail is None
    return found


def records(folder: Path) -> list[object]:
    """What was written, without what a repair has noted."""
    return [found for found in everything(folder) if found != [OFF]]


@pytest.mark.parametrize("which", ["", NAME, f"{NAME}.00000001"])
def test_a_good_journal_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
    path = write_row(tmp_path, ["a", "b"])[0]
    assert main([str(tmp_path / which)]) == 0
    said = capsys.readouterr().out
    size = path.stat().st_size
    assert f"AOF analyzed: size={size}, ok_up_to={size}, diff=0\nAOF is valid\n" in said
    assert f"{path}: 3 frames, 2 of them records" in said


def test_what_cannot_be_checked_is_named_by_its_whole_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-journal"]) == 1
    assert str(Path.cwd() / "no-such-journal") in capsys.readouterr().out


def test_a_torn_tail_is_reported_and_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_row(tmp_path, ["a", "b"])[0]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert f"AOF analyzed: size={size + 4}, ok_up_to={size}, diff=4\nAOF is not valid" in said
    assert f"0x{size:08x}: torn header" in said
    assert main(["--fix", "--yes", str(tmp_path)]) == 0
    assert "Successfully truncated AOF, 4 bytes lost" in capsys.readouterr().out
    assert path.stat().st_size == size
    assert records(tmp_path) == ["a", "b"]
    assert main([str(tmp_path)]) == 0


def test_damage_in_the_middle_is_cut_out_and_the_original_stays_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_row(tmp_path, ["a", "bbbb", "c"], ["d"])
    damage(paths[0], "bbbb")
    damaged = paths[0].read_bytes()
    assert main([str(tmp_path / NAME)]) == 1
    assert "2 frames behind" in capsys.readouterr().out
    assert main([str(tmp_path / NAME), "--fix", "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"3 frames rescued, {41 + len(record('bbbb'))} bytes lost" in said
    assert (tmp_path / f"{NAME}.00000001.damaged").read_bytes() == damaged
    assert records(tmp_path) == ["a", "c", "d"]


@pytest.mark.parametrize("segment", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 3, 12, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 30])
def test_after_a_repair_the_server_takes_all_that_was_right(tmp_path: Path, segment: int, at: int) -> None:
    paths = write_row(tmp_path, ["a", "b"], ["c", "d"], ["e", "f"])
    data = bytearray(paths[segment].read_bytes())
    data[at] ^= 0x55
    paths[segment].write_bytes(data)
    assert main([str(tmp_path)]) == 1
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    lost = {"ace"[segment]} if at >= HEAD_SIZE else set()
    assert records(tmp_path) == sorted(set("abcdef") - lost)


@pytest.mark.parametrize("segment", [0, 1])
def test_frames_behind_bytes_that_were_inserted_or_removed_are_rescued(tmp_path: Path, segment: int) -> None:
    paths = write_row(tmp_path, ["a", "b"], ["c", "d"], ["e"])
    data = paths[segment].read_bytes()
    paths[segment].write_bytes(data[:HEAD_SIZE] + b"inserted" + data[HEAD_SIZE:])
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert records(tmp_path) == ["a", "b", "c", "d", "e"]


def test_a_missing_segment_is_reported_and_replaced_by_an_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_row(tmp_path, ["a"], ["b"], ["c"])[1].unlink()
    assert main([str(tmp_path)]) == 1
    assert f"{NAME}.00000002 is missing" in capsys.readouterr().out
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert records(tmp_path) == ["a", "c"]


def test_a_missing_first_segment_is_noticed_and_accepted_by_a_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_row(tmp_path, ["a"], ["b"])[0].unlink()
    assert main([str(tmp_path)]) == 1
    assert f"{NAME}.00000001 is missing" in capsys.readouterr().out
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert "It is not known how many jobs are lost with the missing files" in capsys.readouterr().out
    assert records(tmp_path) == ["b"]


def test_a_stray_file_with_a_far_number_is_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_row(tmp_path, ["a"], ["b"])
    (tmp_path / f"{NAME}.99999999").touch()
    assert main([str(tmp_path), "--fix", "--yes"]) != 0
    said = capsys.readouterr()
    assert f"99999996 files are missing between {paths[1]} and {tmp_path}/{NAME}.99999999" in said.out + said.err


def test_a_segment_that_ends_too_early_is_reported_and_accepted_by_a_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_row(tmp_path, ["a", "b"], ["c"])
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[: -41 - len(MARK_PAYLOAD)])
    assert main([str(tmp_path)]) == 1
    assert f"the file ends here, but it was {len(data)} bytes long" in capsys.readouterr().out
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert records(tmp_path) == ["a", "b", "c"]


def test_a_repair_that_may_have_lost_a_delivery_says_so_to_the_server(tmp_path: Path) -> None:
    damage(write_row(tmp_path, ["a", "b"], ["c"])[0], "a")
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert everything(tmp_path) == ["b", "c", [OFF]]


def test_a_torn_end_alone_casts_no_doubt_on_what_stands_before_it(tmp_path: Path) -> None:
    path = write_row(tmp_path, ["a", "b"])[0]
    path.write_bytes(path.read_bytes() + b"torn")
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert everything(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("Yes", 0), ("n", 1), ("", 1)])
def test_a_repair_asks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    path = write_row(tmp_path, ["a"])[0]
    path.write_bytes(path.read_bytes() + b"torn")
    before = path.read_bytes()
    asked: list[str] = []

    def reply(prompt: str) -> str:
        asked.append(prompt)
        return answer

    monkeypatch.setattr("builtins.input", reply)
    assert main([str(tmp_path), "--fix"]) == code
    assert asked == ["Continue? [y/N]: "]
    assert (path.read_bytes() == before) == bool(code)


def write_refused(path: Path, payload: bytes, *, behind: bool) -> int:
    """Write a segment in which a record is not what a start takes, though its checksum is right; returns its place."""
    data = encode_head(Head(1, 9, 0, 1, rebase=False))
    place = 0
    for one in (record("before"), payload, *([record("behind")] if behind else [])):
        place = len(data) if one is payload else place
        data += encode(RECORDS, one, 1, 9, len(data), 0, 0)
    path.write_bytes(data)
    return place


@pytest.mark.parametrize("behind", [True, False])
@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\xc1 never used", "not a list of records"),
        (msgpack.packb([1, [PAUSE, b"q", 4]]), f"a record of kind {PAUSE} is not valid"),
    ],
)
def test_what_a_start_refuses_is_named_with_its_place_and_cut_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], payload: bytes, why: str, behind: bool
) -> None:
    path = tmp_path / f"{NAME}.00000001"
    place = write_refused(path, payload, behind=behind)
    before = path.read_bytes()
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert f"0x{place:08x}: a start refuses what was written here: {why}" in said
    assert "AOF is not valid" in said
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert records(tmp_path) == ["before", "behind"][: 1 + behind]
    assert everything(tmp_path)[-1] == [OFF]
    assert path.with_name(path.name + ".damaged").read_bytes() == before


def test_what_a_newer_program_wrote_is_left_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = msgpack.packb([1, [HEAD, FORMAT + 1, b"a" * 40, b"boot", b"always", b"more"]])
    path = tmp_path / f"{NAME}.00000001"
    write_refused(path, newer, behind=True)
    before = path.read_bytes()
    for options in ([], ["--fix", "--yes"]):
        assert main([str(tmp_path), *options]) == 1
        assert "written by a newer program" in capsys.readouterr().out
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("disque.aof", b"*2\r\n$7\r\nLOADJOB\r\n", "append only file of a C Disque server"),
        ("disque.aof.00000001", b"*2\r\n$7\r\nLOADJOB\r\n$3\r\nxyz\r\n", "append only file of a C Disque server"),
        ("disque.aof", b"", "Empty file"),
        ("disque.aof.00000001", b"", "Empty file"),
        ("disque.aof", b"some text", "is not a journal"),
        ("disque.aof.00000001", b"some text that is longer than the head of a segment", "is not a journal"),
    ],
)
def test_what_cannot_be_checked_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    for options in ([], ["--fix", "--yes"]):
        assert main([str(tmp_path / name), *options]) == 1
        assert says in capsys.readouterr().out
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("name", ["disque.aof", "disque.aof.00000001", "gone/disque.aof"])
def test_a_file_that_is_not_there_cannot_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main([str(tmp_path / name)]) == 1
    assert "Cannot open file: " in capsys.readouterr().out


def test_a_directory_without_a_journal_and_one_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "There is no journal in" in capsys.readouterr().out
    write_row(tmp_path, ["a"])
    (tmp_path / "other.00000001").write_bytes(b"")
    assert main([str(tmp_path)]) == 1
    assert "more than one journal" in capsys.readouterr().out


def head(node: str) -> bytes:
    """The first record of a segment."""
    packed: bytes = msgpack.packb([1, [HEAD, FORMAT, node.encode(), b"boot", b"always"]])
    return packed


def write_headed(path: Path, number: int, node: str, previous_end: int = 0) -> int:
    """Write a segment as a node does that has this ID; returns its length."""
    salt = 9 + ord(node[0])
    data = encode_head(Head(number, salt, previous_end, 1, rebase=False, follows=salt))
    for payload in (head(node), record(f"{number} of {node[0]}")):
        data += encode(RECORDS, payload, number, salt, len(data), 0, 0)
    path.write_bytes(data)
    return len(data)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([(1, 4)], ["00000004 is segment 1: it belongs to "]),
        ([(3, 0)], ["00000000 is segment 3: it belongs to "]),
        ([(1, 9), (2, 1), (9, 2)], ["00000001 is segment 2: it belongs to ", "00000002 is segment 1: it belongs to "]),
        ([(1, 9), (2, 1), (3, 2), (9, 3)], ["00000003 is segment 1: it belongs to "]),
    ],
)
def test_files_under_wrong_numbers_are_found_as_at_a_start_and_renamed_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], moves: list[tuple[int, int]], said: list[str]
) -> None:
    write_row(tmp_path, ["a"], ["b"], ["c"])
    as_it_was = snapshot(tmp_path)
    for number, target in moves:
        (tmp_path / f"{NAME}.{number:08d}").rename(tmp_path / f"{NAME}.{target:08d}")
    moved = snapshot(tmp_path)
    with pytest.raises(JournalError, match=r"check-aof --fix .* renames it") as refused:
        Row(str(tmp_path), NAME)
    assert main([str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert all(text in told and text in str(refused.value) for text in said)
    assert snapshot(tmp_path) == moved
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert snapshot(tmp_path) == as_it_was
    assert everything(tmp_path) == ["a", "b", "c"]


def test_a_second_copy_of_a_segment_is_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_row(tmp_path, ["a"], ["b"])
    copy = tmp_path / f"{NAME}.00000003"
    copy.write_bytes(paths[0].read_bytes())
    with pytest.raises(JournalError, match="sets aside what does not belong here"):
        Row(str(tmp_path), NAME)
    assert main([str(tmp_path)]) == 1
    assert f"{copy} is segment 1, and so is {paths[0]}" in capsys.readouterr().out
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert not copy.exists()
    assert (tmp_path / f"{copy.name}.aside").read_bytes() == paths[0].read_bytes()
    assert everything(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("number", [2, 3])
def test_a_segment_of_another_node_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    mine, other = "a" * 40, "b" * 40
    (tmp_path / "nodes.conf").write_text(f"{mine} 127.0.0.1:7711 myself 0 0 connected\n")
    end = 0
    for one in (1, 2, 3):
        writer = other if one == number else mine
        end = write_headed(tmp_path / f"{NAME}.{one:08d}", one, writer, end)
    assert main([str(tmp_path)]) == 1
    path = tmp_path / f"{NAME}.{number:08d}"
    assert f"{path} does not belong to the other files: it is from a journal of node {other}" in capsys.readouterr().out
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert (tmp_path / f"{path.name}.aside").exists()
    row = Row(str(tmp_path), NAME, own=mine.encode())
    found = [text_of(payload) for part in row.read() for payload in part.payloads]
    assert [text for text in found if isinstance(text, str)] == [f"{one} of a" for one in (1, 2, 3) if one != number]


def test_a_segment_that_does_not_follow_the_one_before_is_noticed_and_nothing_readable_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer, shorter = tmp_path / "longer", tmp_path / "shorter"
    longer.mkdir()
    shorter.mkdir()
    first = write_row(longer, ["a", "b", "c"], ["d"])[1]
    first.write_bytes(write_row(shorter, ["a"], ["x"])[1].read_bytes())
    with pytest.raises(JournalError, match=r"00000002 does not follow .*00000001"):
        list(Row(str(longer), NAME).read())
    assert main([str(longer)]) == 1
    assert f"{first} does not follow " in capsys.readouterr().out
    assert main([str(longer), "--fix", "--yes"]) == 0
    assert records(longer) == ["a", "b", "c", "x"]


def test_a_repair_says_first_how_many_jobs_it_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"D-0123abcd-{number:024d}-05a1" for number in range(3)]
    paths = write_row(tmp_path, [f"a {ids[0]}", f"bbbb {ids[1]} {ids[0]}", f"c {ids[2]}"], ["d"], ["e"])
    damage(paths[0], "bbbb")
    paths[1].unlink()
    said: list[str] = []

    def reply(_prompt: str) -> str:
        said.append(capsys.readouterr().out)
        return "n"

    monkeypatch.setattr("builtins.input", reply)
    assert main([str(tmp_path), "--fix"]) == 1
    assert "The cut costs 1 job of which there is no other record. It also takes the last record of 1 " in said[0]
    assert "It is not known how many jobs are lost with the missing files" in said[0]
    assert said[0].count("is missing") == 1


@pytest.mark.parametrize("what", [f"{NAME}.00000001", "nodes.conf", "other.conf"])
def test_a_repair_does_not_begin_while_a_node_holds_what_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path = write_row(tmp_path, ["a"])[0]
    path.write_bytes(path.read_bytes() + b"torn")
    (tmp_path / "other.conf").write_text(f"{'a' * 40} 127.0.0.1:7711 myself 0 0 connected\n")
    (tmp_path / "nodes.conf").write_text("")
    (tmp_path / "log").write_text("not looked at")
    before = snapshot(tmp_path)
    fd = os.open(tmp_path / what, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    log = os.open(tmp_path / "log", os.O_RDWR)
    fcntl.flock(log, fcntl.LOCK_EX)
    assert main([str(tmp_path), "--fix", "--yes"]) == 1
    said = capsys.readouterr().out
    assert f"A node is running in {tmp_path}: it has locked {tmp_path / what}. Nothing was changed" in said
    assert snapshot(tmp_path) == before
    os.close(fd)
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    os.close(log)


def test_files_that_are_made_anew_are_like_those_in_whose_place_they_are(tmp_path: Path) -> None:
    paths = write_row(tmp_path, ["a", "bbbb", "c"], ["d"], ["e"])
    damage(paths[0], "bbbb")
    paths[1].unlink()
    paths[0].chmod(0o640)
    wanted = (12345, 23456) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(paths[0], *wanted)
    assert main([str(tmp_path), "--fix", "--yes"]) == 0
    for path in paths[:2]:
        status = path.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o640, *wanted)


def test_an_earlier_damaged_file_stays_when_another_one_comes(tmp_path: Path) -> None:
    for text in ("bbbb", "cccc"):
        paths = write_row(tmp_path, ["a", text, "c"])
        damage(paths[0], text)
        assert main([str(tmp_path), "--fix", "--yes"]) == 0
    assert b"ccc" in (tmp_path / f"{NAME}.00000001.damaged2").read_bytes()
    assert b"bbb" in (tmp_path / f"{NAME}.00000001.damaged").read_bytes()


def test_paths_are_absolute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_row(tmp_path, ["a"])[0]
    monkeypatch.chdir(tmp_path)
    main(["."])
    main(["gone/disque.aof"])
    said = capsys.readouterr().out
    assert f"{path}: 2 frames" in said
    assert f"Cannot open file: {tmp_path}/gone" in said
