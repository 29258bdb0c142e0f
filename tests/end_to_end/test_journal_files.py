"""Journals as a start may find them: torn, damaged, somebody else's, in places that cannot be used."""

import os
import shutil
from pathlib import Path

import pytest

from disque.cli.check_aof import main as check_aof
from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import Node, ServerError, until


def with_jobs(start_node: StartNode, *options: str, jobs: int = 20) -> tuple[Node, list[bytes]]:
    """A node that was killed after `jobs` were added, each written on its own."""
    node = start_node("--appendonly", "yes", "--appendfsync", "always", *options)
    raw = node.raw()
    ids = [raw.ask("ADDJOB", "q", f"body {number}", 0) for number in range(jobs)]
    node.kill()
    return node, ids


def queued(node: Node) -> list[bytes]:
    return [job_id for _, job_id, _ in node.ask("QPEEK", "q", 10_000)]


def refused(node: Node) -> str:
    """Start a node that must give up, and give what it logged then."""
    before = len(node.log())
    node.launch()
    assert node.ended() == 1
    return node.log()[before:]


@pytest.mark.parametrize("lost_bytes", [1, 10, 60])
def test_a_torn_tail_is_cut_and_reported(start_node: StartNode, lost_bytes: int) -> None:
    node, ids = with_jobs(start_node)
    path = node.segments()[-1]
    os.truncate(path, path.stat().st_size - lost_bytes)
    node.start()
    assert queued(node) == ids[:-1]
    assert "!!! Warning: short read while loading the AOF file !!!" in node.log()
    assert f"{path} at offset" in node.log()
    late = node.ask("ADDJOB", "q", "late", 0)
    node.kill()
    assert queued(node.start()) == [*ids[:-1], late]


def test_a_torn_tail_stops_the_start_when_that_is_wanted(start_node: StartNode) -> None:
    node, ids = with_jobs(start_node)
    path = node.segments()[-1]
    os.truncate(path, path.stat().st_size - 10)
    node.options += ("--aof-load-truncated", "no")
    assert "Unexpected end of the journal" in refused(node)
    node.options += ("--aof-load-truncated", "yes")
    assert queued(node.start()) == ids[:-1]


def test_zeros_behind_the_end_are_a_torn_tail(start_node: StartNode) -> None:
    node, ids = with_jobs(start_node)
    with node.segments()[-1].open("ab") as file:
        file.write(bytes(5000))
    assert queued(node.start()) == ids


def test_damage_in_the_middle_stops_the_start_and_names_the_place(start_node: StartNode) -> None:
    node, _ = with_jobs(start_node)
    path = node.segments()[-1]
    data = bytearray(path.read_bytes())
    data[data.index(b"body 7")] ^= 1
    path.write_bytes(data)
    said = refused(node)
    assert str(path) in said
    assert "offset" in said
    assert "check-aof --fix" in said
    assert path.read_bytes() == data, "nothing may be changed"


def test_a_segment_that_is_missing_stops_the_start(start_node: StartNode) -> None:
    node, _ = with_jobs(start_node, "--aof-segment-size", "64kb")
    node.start()
    raw = node.raw()
    for _ in range(40):
        raw.ask("ADDJOB", "q", b"x" * 8000, 0)
    node.kill()
    assert len(node.segments()) > 3
    node.segments()[2].unlink()
    assert "disque.aof.0000000" in refused(node)


@pytest.mark.parametrize("names", [(1, 2), (2, 3), (1, 3)])
def test_files_that_were_moved_stop_the_start_and_lose_nothing(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], names: tuple[int, int]
) -> None:
    node, ids = with_jobs(start_node)
    if names != (1, 2):
        node.start()
        ids.append(node.ask("ADDJOB", "q", "in the second file", 0))
        node.kill()
    one, other = (node.directory / f"disque.aof.{number:08d}" for number in names)
    exchanged = names == (1, 3)
    if exchanged:
        other = node.directory / "disque.aof.00000002"
        one.rename(node.directory / "between")
        other.rename(one)
        (node.directory / "between").rename(other)
    else:
        one.rename(other)
    before = {path: path.read_bytes() for path in node.segments()}
    said = refused(node)
    assert f"{other} is segment {1 if exchanged else names[0]}: it belongs to {one}" in said
    assert f"`disque check-aof --fix {node.directory}/disque.aof` renames it" in said
    assert {path: path.read_bytes() for path in node.segments()} == before
    assert check_aof([str(node.directory)]) == 1
    assert f"{other} is segment " in capsys.readouterr().out
    assert check_aof([str(node.directory), "--fix", "--yes"]) == 0
    assert queued(node.start()) == ids


def test_a_file_of_another_nodes_journal_stops_the_start(start_node: StartNode) -> None:
    node, ids = with_jobs(start_node)
    other, _ = with_jobs(start_node)
    node.start()
    node.kill()
    path = node.segments()[-1]
    foreign = path.with_name("disque.aof.00000003")
    other.start()
    other.kill()
    other.start()
    other.kill()
    foreign.write_bytes(other.segments()[2].read_bytes())
    assert f"{foreign} does not belong to the other files: it is from a journal of node " in refused(node)
    assert check_aof([str(node.directory), "--fix", "--yes"]) == 0
    assert queued(node.start()) == ids


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_journal_that_vanishes_under_a_node_is_noticed_and_written_anew(
    start_node: StartNode, tmp_path: Path, what: str
) -> None:
    journal_dir = tmp_path / "journal"
    journal_dir.mkdir()
    node = start_node(
        *("--appendonly", "yes", "--appendfsync", "always", "--logfile", str(tmp_path / "log")),
        *("--dir", str(journal_dir)),
    )
    job_id = node.ask("ADDJOB", "q", "body", 0)
    if what == "file":
        (journal_dir / "disque.aof.00000001").unlink()
    else:
        shutil.rmtree(journal_dir)
    log = tmp_path / "log"
    until(lambda: f"{journal_dir}" in log.read_text() and "No such file or directory" in log.read_text(), "the log")
    until(lambda: node.info("aof_vanished_files") == "1", "INFO")
    journal_dir.mkdir(exist_ok=True)
    until(lambda: node.info("aof_last_write_status") == "ok" and node.info("aof_state") == "on", "the new file")
    assert node.ask("QLEN", "q") == 1
    node.kill()
    assert queued(node.start()) == [job_id]


def test_no_repair_begins_while_a_node_runs_there(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node, ids = with_jobs(start_node)
    node.start("--cluster-config-file", str(tmp_path / "elsewhere.conf"))  # whoever looks for that finds nothing
    assert check_aof([str(node.directory), "--fix", "--yes"]) == 1
    assert f"A node is running in {node.directory}: it has locked {node.segments()[-1]}" in capsys.readouterr().out
    node.kill()
    node.start()
    assert check_aof([str(node.directory), "--fix", "--yes"]) == 1
    assert f"A node is running in {node.directory}: it has locked " in capsys.readouterr().out
    assert queued(node) == ids
    node.kill()
    assert check_aof([str(node.directory), "--fix", "--yes"]) == 0


def test_many_segments_are_one_journal(start_node: StartNode) -> None:
    node, ids = with_jobs(start_node, "--aof-segment-size", "64kb")
    node.start()
    raw = node.raw()
    ids += [raw.ask("ADDJOB", "q", b"%d" % number * 4000, 0) for number in range(60)]
    node.kill()
    assert len(node.segments()) > 5
    assert queued(node.start()) == ids


def test_another_file_in_the_place_of_a_segment_is_refused(start_node: StartNode) -> None:
    node, _ = with_jobs(start_node)
    path = node.segments()[-1]
    path.write_bytes(b"*2\r\n$7\r\nLOADJOB\r\n$3\r\nabc\r\n" * 10)
    assert str(path) in refused(node)


def test_a_journal_without_jobs_and_no_journal_at_all_are_fine(start_node: StartNode) -> None:
    node = start_node("--appendonly", "yes")
    for _ in range(3):
        node.kill()
        node.start()
    assert node.ask("QLEN", "q") == 0
    node.kill()
    for path in node.segments():
        path.unlink()
    assert node.start().ask("QLEN", "q") == 0


def test_a_directory_that_does_not_exist(start_node: StartNode, make_node: StartNode) -> None:
    del start_node
    node = make_node("--appendonly", "yes")
    node.options += ("--dir", str(node.directory / "missing"))
    assert "Can't chdir" in refused(node) or "No such file" in node.log()


@pytest.mark.parametrize("option", ["--appendfilename", "--cluster-config-file"])
def test_a_name_that_is_too_long(make_node: StartNode, option: str) -> None:
    said = refused(make_node("--appendonly", "yes", option, "x" * 300))
    assert "xxx: File name too long" in said
    assert "Traceback" not in said


def test_a_port_that_is_taken(node: Node, make_node: StartNode) -> None:
    other = make_node()
    other.port = node.port
    assert f"127.0.0.1:{node.port}: Address already in use" in refused(other)
    assert node.ask("PING") == b"PONG"


def test_a_directory_in_which_another_node_lives(node: Node, make_node: StartNode) -> None:
    other = make_node(directory=node.directory)
    before = node.log()
    other.launch()
    assert other.ended() == 1
    assert "nodes.conf" in node.log()[len(before) :]
    assert node.ask("PING") == b"PONG"


def test_a_file_of_the_journal_that_cannot_be_made_is_an_error_for_config_set(node: Node) -> None:
    away = node.directory.rename(node.directory.with_suffix(".away"))
    reply = node.ask("CONFIG", "SET", "appendonly", "yes")
    away.rename(node.directory)
    assert isinstance(reply, ServerError)
    assert str(reply) == "ERR Unable to turn on AOF. Check server logs."
    assert node.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"no"]
    assert node.ask("ADDJOB", "q", "body", 0)


def test_switching_on_replaces_a_journal_of_an_earlier_time(start_node: StartNode, tmp_path: Path) -> None:
    del tmp_path
    node, _ = with_jobs(start_node)
    node.options = ()
    node.start("--ignore-journal")
    job_id = node.ask("ADDJOB", "q", "now", 0)
    assert node.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
    node.stop()
    node.options = ("--appendonly", "yes")
    assert queued(node.start()) == [job_id]
    assert (node.directory / "disque.aof.00000001.ignored").exists()


def test_a_journal_is_not_forgotten_by_mistake(start_node: StartNode) -> None:
    node, ids = with_jobs(start_node)
    node.options = ()
    before = {path: path.read_bytes() for path in node.segments()}
    said = refused(node)
    assert f"There is a journal, {node.segments()[0]}, and appendonly is no" in said
    assert "--appendonly no --ignore-journal" in said
    node.start("--appendonly", "no", "--ignore-journal")
    assert f"The journal is ignored. Its jobs are not loaded: {node.segments()[0]}" in node.log()
    assert queued(node) == []
    node.stop()
    assert {path: path.read_bytes() for path in node.segments()} == before
    assert queued(node.start("--appendonly", "yes")) == ids


def test_a_journal_that_was_switched_off_is_no_mistake(start_node: StartNode) -> None:
    node, _ = with_jobs(start_node)
    node.start()
    assert node.ask("CONFIG", "SET", "appendonly", "no") == b"OK"
    node.stop()
    node.options = ()
    assert queued(node.start()) == []
    assert "The journal was switched off earlier, and is not read with appendonly no" in node.log()
    job_id = node.ask("ADDJOB", "q", "now", 0)
    assert node.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
    assert "The journal that was not read is set aside: " in node.log()
    until(lambda: node.info("aof_state") == "on", "the copies of what was there")
    node.kill()
    assert queued(node.start("--appendonly", "yes")) == [job_id]
