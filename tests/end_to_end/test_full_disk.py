"""A disk without room: what must be written is refused, the rest goes on, and nothing that was answered is lost."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import LOOPBACK, Node, Raw, ServerError, request, until

SIZE_BYTES: Final = 2 << 20
BALLAST_BYTES: Final = 1 << 20
BODY: Final = b"x" * 4000
MISCONF: Final = "MISCONF Errors writing to the AOF file: No space left on device"
JOBS: Final = 400  # more than fits beside the ballast, and less than fits without it


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a directory on a file system of 2 MB, half of it taken by the file `ballast`."""
    where = tmp_path / "small"
    where.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(where)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no small disk, which needs root: {made.stderr.strip()}")
    (where / "ballast").write_bytes(bytes(BALLAST_BYTES))
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def full_node(start_node: StartNode, where: Path, fsync: str) -> tuple[Node, Raw]:
    """A node whose disk has become full, and a client that has sent more than fits."""
    node = start_node(
        "--appendonly", "yes", "--appendfsync", fsync, "--logfile", f"{where.parent}/log.txt", directory=where
    )
    writer = Raw((LOOPBACK, node.port))
    for number in range(JOBS):  # each in a write of its own, as far as that goes
        writer.send(request("ADDJOB", "q", b"%d " % number + BODY, 0, "RETRY", 3600))
    until(lambda: refuses(node), "the end of the disk")
    return node, writer


def free(where: Path) -> None:
    (where / "ballast").unlink()


def refuses(node: Node) -> bool:
    return str(node.ask("PING")) == MISCONF


def split(replies: list[Any]) -> tuple[list[bytes], set[str]]:
    ids = [reply for reply in replies if isinstance(reply, bytes)]
    return ids, {str(reply) for reply in replies if not isinstance(reply, bytes)}


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_writes_are_refused_and_reads_go_on(start_node: StartNode, small_disk: Path, fsync: str) -> None:
    node, writer = full_node(start_node, small_disk, fsync)
    with closing(writer), closing(Raw((LOOPBACK, node.port))) as other:
        assert str(other.ask("ADDJOB", "q", "body", 0)) == MISCONF
        assert other.ask("QLEN", "q") > 0
        assert len(other.ask("QPEEK", "q", 3)) == 3
        assert isinstance(other.ask("INFO"), bytes)
        assert node.info("aof_last_write_status") == "err"
        assert other.ask("QLEN", "other") == 0
        assert other.ask("CRON", "LIST") == [b"0", []]
        assert str(other.ask("DEBUG", "FLUSHALL")) == MISCONF


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_what_was_held_is_answered_when_there_is_room_again(
    start_node: StartNode, small_disk: Path, fsync: str
) -> None:
    node, writer = full_node(start_node, small_disk, fsync)
    free(small_disk)
    until(lambda: not refuses(node), "the disk")
    with closing(writer):
        ids, errors = split([writer.reply() for _ in range(JOBS)])
    assert errors <= {MISCONF}
    assert ids
    late = node.ask("ADDJOB", "q", "late", 0)
    node.kill()
    assert [job_id for _, job_id, _ in node.start().ask("QPEEK", "q", 10_000)] == [*ids, late]


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_an_addjob_that_waits_for_the_disk_is_answered_when_its_timeout_is_over(
    start_node: StartNode, small_disk: Path, fsync: str
) -> None:
    log = f"{small_disk.parent}/log.txt"
    node = start_node("--appendonly", "yes", "--appendfsync", fsync, "--logfile", log, directory=small_disk)
    with closing(Raw((LOOPBACK, node.port))) as writer:
        replies = [writer.ask("ADDJOB", "q", BODY, 100, "RETRY", 3600)]
        while isinstance(replies[-1], bytes):
            replies.append(writer.ask("ADDJOB", "q", BODY, 100, "RETRY", 3600))
        late = "NOREPL Timeout reached before the journal could be written (No space left on device)"
        assert str(replies.pop()).startswith(late)
        assert str(writer.ask("ADDJOB", "q", BODY, 100)) == MISCONF, "the connection goes on"
    free(small_disk)
    until(lambda: not refuses(node), "the disk")
    node.kill()
    queued = [job_id for _, job_id, _ in node.start().ask("QPEEK", "q", 10_000)]
    assert queued[:-1] == replies, "the one that got the error is there as well"


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_a_crash_on_a_full_disk_loses_nothing_that_was_answered(
    start_node: StartNode, small_disk: Path, fsync: str
) -> None:
    node, writer = full_node(start_node, small_disk, fsync)
    node.kill()
    with closing(writer):
        replies = []
        while True:
            try:
                replies.append(writer.reply())
            except EOFError:
                break
    ids, errors = split(replies)
    assert errors <= {MISCONF}
    free(small_disk)
    queued = [job_id for _, job_id, _ in node.start().ask("QPEEK", "q", 10_000)]
    assert queued[: len(ids)] == ids


def test_a_stop_on_a_full_disk_is_refused_to_the_client_and_done_for_the_signal(
    start_node: StartNode, small_disk: Path
) -> None:
    node, writer = full_node(start_node, small_disk, "always")
    with closing(writer):
        assert str(node.ask("SHUTDOWN")) == "ERR Errors trying to SHUTDOWN. Check logs."
        assert node.ask("QLEN", "q") > 0
        assert node.stop() == 1


def test_an_at_most_once_job_does_not_leave_a_node_that_cannot_note_it(start_node: StartNode, small_disk: Path) -> None:
    node = start_node(
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--logfile",
        f"{small_disk.parent}/log.txt",
        directory=small_disk,
    )
    once = node.ask("ADDJOB", "once", "body", 0, "RETRY", 0)
    with closing(Raw((LOOPBACK, node.port))) as writer:
        writer.send(b"".join(request("ADDJOB", "q", BODY, 0) for _ in range(JOBS)))
        until(lambda: refuses(node), "the end of the disk")
        assert str(node.ask("GETJOB", "FROM", "once")) == MISCONF
        assert node.ask("QLEN", "once") == 1
        free(small_disk)
        until(lambda: not refuses(node), "the disk")
    assert node.ask("GETJOB", "FROM", "once") == [[b"once", once, b"body"]]
    node.kill()
    assert node.start().ask("QLEN", "once") == 0


def test_a_waiting_consumer_gets_no_at_most_once_job_before_that_is_noted(
    start_node: StartNode, small_disk: Path
) -> None:
    node = start_node(
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--logfile",
        f"{small_disk.parent}/log.txt",
        directory=small_disk,
    )
    with closing(Raw((LOOPBACK, node.port))) as writer, closing(Raw((LOOPBACK, node.port))) as consumer:
        consumer.send(request("GETJOB", "FROM", "once"))
        once = writer.ask("ADDJOB", "once", "body", 0, "RETRY", 0, "DELAY", 1)
        writer.send(b"".join(request("ADDJOB", "q", BODY, 0) for _ in range(JOBS)))
        until(lambda: refuses(node), "the end of the disk")
        until(lambda: b"flags=b " not in node.ask("CLIENT", "LIST"), "the end of the delay")
        consumer.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            consumer.receive()
        consumer.socket.settimeout(30)
        free(small_disk)
        assert consumer.reply() == [[b"once", once, b"body"]]


def test_the_journal_is_not_read_again_while_it_lacks_what_was_answered(
    start_node: StartNode, small_disk: Path
) -> None:
    node, writer = full_node(start_node, small_disk, "everysec")
    with closing(writer):
        jobs = node.ask("QLEN", "q")
        assert str(node.ask("DEBUG", "LOADAOF")) == "ERR"
        assert node.ask("QLEN", "q") == jobs
        free(small_disk)
        until(lambda: not refuses(node), "the disk")
        assert node.ask("DEBUG", "LOADAOF") == b"OK"
        assert node.ask("QLEN", "q") == jobs


def test_the_journal_cannot_be_switched_on_without_room(start_node: StartNode, small_disk: Path) -> None:
    node = start_node("--logfile", f"{small_disk.parent}/log.txt", directory=small_disk)
    job_id = node.ask("ADDJOB", "q", "body", 0)
    rest = small_disk / "rest"
    with rest.open("wb", buffering=0) as file:
        until(lambda: not fits(file), "the end of the disk")
    assert str(node.ask("CONFIG", "SET", "appendonly", "yes")) == "ERR Unable to turn on AOF. Check server logs."
    rest.unlink()
    assert node.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
    until(lambda: node.info("aof_rewrite_in_progress") == "0", "the copy")
    node.kill()
    assert [found for _, found, _ in node.start("--appendonly", "yes").ask("QPEEK", "q", 10)] == [job_id]


def fits(file: FileIO) -> bool:
    try:
        return bool(file.write(bytes(4096)))
    except OSError:
        return False


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_a_rewrite_on_a_full_disk_is_answered_at_once_and_said_to_fail(
    start_node: StartNode, small_disk: Path, fsync: str
) -> None:
    node, writer = full_node(start_node, small_disk, fsync)
    with closing(writer):
        assert str(node.ask("BGREWRITEAOF")) == "ERR The journal cannot be written now: No space left on device"
        until(lambda: node.info("aof_last_bgrewrite_status") == "err", "the end of the rewrite")
        free(small_disk)
        until(lambda: not refuses(node), "the disk")
        assert node.ask("DEBUG", "FLUSHALL") == b"OK"  # there is no room for a second copy of them
        node.ask("BGREWRITEAOF")
        until(lambda: node.info("aof_last_bgrewrite_status") == "ok", "the rewrite")


def test_switching_the_journal_on_without_room_is_answered_at_once(start_node: StartNode, small_disk: Path) -> None:
    node = start_node("--logfile", f"{small_disk.parent}/log.txt", directory=small_disk)
    for number in range(JOBS):
        node.ask("ADDJOB", "q", b"%d " % number + BODY, 0, "RETRY", 3600)
    reply = node.ask("CONFIG", "SET", "appendonly", "yes")  # the first file fits, what is in memory does not
    assert reply == b"OK" or isinstance(reply, ServerError)
    until(lambda: node.info("aof_last_bgrewrite_status") == "err", "the failure")
    assert node.ask("QLEN", "q") == JOBS
    free(small_disk)
    until(lambda: not refuses(node), "the disk")
    until(lambda: node.info("aof_rewrite_in_progress") == "0", "the copy")
    assert node.info("aof_last_bgrewrite_status") == "ok"
    node.kill()
    assert node.start("--appendonly", "yes").ask("QLEN", "q") == JOBS
