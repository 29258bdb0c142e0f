import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cluster.membership import Member, Membership
from disque.server.log import Log
from disque.server.nodes_conf import NodesConf, NodesConfError, open_nodes_conf

NOW_MS = 1_000_000
B = b"b" * 40
SAVED = b"vars saved %d\n" % NOW_MS

LOCK_FROM_OUTSIDE = """
import fcntl, sys
with open(sys.argv[1]) as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nodes.conf"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"))


def start(path: Path, log: Log, ip: bytes = b"", port: int = 7711, seed: int = 1) -> tuple[NodesConf, Membership]:
    return open_nodes_conf(
        str(path), ip=ip, port=port, bus_port=port + 10000, now_ms=NOW_MS, random=Random(seed), log=log
    )


def logged(log: Log) -> str:
    assert log.path is not None
    return log.path.read_text()


def is_locked(path: Path) -> bool:
    """Ask from another process, which locks the file as one that knows nothing of this module would."""
    done = subprocess.run(
        [sys.executable, "-c", LOCK_FROM_OUTSIDE, str(path)], check=False, capture_output=True, env={}
    )
    return done.returncode != 0


class TestStart:
    def test_a_missing_file_is_made_with_a_new_id(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        node_id = membership.myself.id.decode()
        assert f"No cluster configuration found, I'm {node_id}" in logged(log)
        assert path.read_text() == f"{node_id} :7711 myself 0 0 connected\n" + SAVED.decode()
        assert not membership.dirty
        file.close()

    def test_an_empty_file_is_like_a_missing_one(self, path: Path, log: Log) -> None:
        path.write_text("\n\n")
        file, membership = start(path, log)
        assert path.read_bytes().startswith(membership.myself.id)
        file.close()

    def test_the_id_comes_from_the_random_source(self, path: Path, log: Log) -> None:
        file, membership = start(path, log, seed=5)
        assert membership.myself.id == b"%040x" % Random(5).getrandbits(160)
        file.close()

    def test_the_id_survives_a_restart(self, path: Path, log: Log) -> None:
        file, first = start(path, log, seed=1)
        file.close()
        file, second = start(path, log, seed=2)
        file.close()
        assert first.myself.id == second.myself.id
        assert f"Node configuration loaded, I'm {first.myself.id.decode()}" in logged(log)

    def test_a_start_that_changes_nothing_writes_nothing(self, path: Path, log: Log) -> None:
        start(path, log)[0].close()
        inode = path.stat().st_ino
        start(path, log)[0].close()
        assert path.stat().st_ino == inode

    def test_the_address_is_the_one_of_this_start(self, path: Path, log: Log) -> None:
        start(path, log, ip=b"10.0.0.1")[0].close()
        file, membership = start(path, log, port=7799)
        file.close()
        assert (membership.myself.ip, membership.myself.port) == (b"10.0.0.1", 7799)
        assert b"10.0.0.1:7799" in path.read_bytes()


class TestRefusal:
    def test_a_file_that_another_node_holds(self, path: Path, log: Log) -> None:
        file, _ = start(path, log)
        with pytest.raises(NodesConfError, match="already used by a different Disque node"):
            start(path, log)
        file.close()
        start(path, log)[0].close()

    def test_a_damaged_file_is_told_with_its_line_and_stays(self, path: Path, log: Log) -> None:
        path.write_text("vars x\nsome words\n")
        with pytest.raises(
            NodesConfError, match=r"corrupted cluster config file .*nodes.conf, line 2: expected 6 words"
        ):
            start(path, log)
        assert path.read_text() == "vars x\nsome words\n"
        assert not is_locked(path)

    def test_a_file_that_cannot_be_opened(self, tmp_path: Path, log: Log) -> None:
        with pytest.raises(NodesConfError, match=r"Can't open .*: Is a directory"):
            start(tmp_path, log)
        with pytest.raises(NodesConfError, match=r"Can't open .*: No such file or directory"):
            start(tmp_path / "nowhere" / "nodes.conf", log)

    def test_a_name_that_is_too_long(self, tmp_path: Path, log: Log) -> None:
        with pytest.raises(NodesConfError, match=r"Can't open .*xxx: File name too long"):
            start(tmp_path / ("x" * 300), log)

    def test_a_file_that_cannot_be_written(self, path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("disque.server.nodes_conf.os.fsync", full_disk)
        with pytest.raises(NodesConfError, match=r"Can't use .*: No space left on device"):
            start(path, log)
        assert not is_locked(path)


def full_disk(_fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestSave:
    def test_the_table_is_written_and_no_longer_dirty(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        membership.add(Member(B, b"10.0.0.2", 7712))
        membership.leaving = True
        file.save(membership, NOW_MS)
        assert not membership.dirty
        assert path.read_bytes() == membership.nodes_lines(NOW_MS) + SAVED
        file.close()
        file, again = start(path, log)
        file.close()
        assert again.leaving
        assert list(again.nodes) == [membership.myself.id, B]

    def test_the_lock_goes_with_the_new_file(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        for _ in range(3):
            file.save(membership, NOW_MS)
            assert is_locked(path)
        file.close()
        assert not is_locked(path)

    def test_a_full_disk_leaves_everything_as_it_was(
        self, path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file, membership = start(path, log)
        before = path.read_bytes()
        membership.leaving = True
        with monkeypatch.context() as full:
            full.setattr("disque.server.nodes_conf.os.fsync", full_disk)
            with pytest.raises(OSError, match="No space left"):
                file.save(membership, NOW_MS)
        assert membership.dirty
        assert path.read_bytes() == before
        assert sorted(entry.name for entry in path.parent.iterdir()) == ["log", "nodes.conf"]
        assert is_locked(path)
        file.save(membership, NOW_MS)
        assert b"myself,leaving" in path.read_bytes()
        file.close()

    def test_the_content_is_on_the_disk_before_it_takes_the_name(
        self, path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file, membership = start(path, log)
        old = path.stat().st_ino
        synced: list[tuple[bool, bool]] = []
        monkeypatch.setattr(
            "disque.server.nodes_conf.os.fsync",
            lambda fd: synced.append((os.fstat(fd).st_ino == path.parent.stat().st_ino, path.stat().st_ino == old)),
        )
        file.save(membership, NOW_MS)
        file.close()
        assert synced == [(False, True), (True, False)]

    def test_a_file_behind_a_symbolic_link_is_replaced_where_it_is(self, tmp_path: Path, path: Path, log: Log) -> None:
        (tmp_path / "disk").mkdir()
        path.symlink_to(tmp_path / "disk" / "nodes.conf")
        file, _ = start(path, log)
        file.close()
        assert path.is_symlink()
        assert (tmp_path / "disk" / "nodes.conf").read_bytes().endswith(b"connected\n" + SAVED)

    def test_what_a_crash_left_behind_is_no_obstacle(self, path: Path, log: Log) -> None:
        path.with_name("nodes.conf.new").write_text("half a ta")
        start(path, log)[0].close()
        assert path.read_bytes().endswith(b"connected\n" + SAVED)


def content(path: Path) -> bytes:
    return path.read_bytes()


class TestSaveSoon:
    """Written in a thread, so that a slow disk stops nobody."""

    def in_loop(self, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner() as runner:
            runner.run(scene())

    def test_the_table_is_written_as_it_was_when_that_was_asked_for(self, path: Path, log: Log) -> None:
        async def scene() -> None:
            file, membership = start(path, log)
            membership.add(Member(B, b"10.0.0.2", 7712))
            file.save_soon(asyncio.get_running_loop(), membership, NOW_MS)
            assert not membership.dirty
            await asyncio.get_running_loop().shutdown_default_executor()
            assert B in content(path)
            assert is_locked(path)
            file.close()

        self.in_loop(scene)

    def test_what_fails_is_to_be_done_again(self, path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scene() -> None:
            file, membership = start(path, log)
            before = content(path)
            membership.add(Member(B, b"10.0.0.2", 7712))
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
                file.save_soon(asyncio.get_running_loop(), membership, NOW_MS)
                await asyncio.get_running_loop().shutdown_default_executor()
                await asyncio.sleep(0)
            assert membership.dirty
            assert content(path) == before
            file.save(membership, NOW_MS)
            assert B in content(path)
            file.close()

        self.in_loop(scene)

    def test_an_earlier_table_never_replaces_a_later_one(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        early = file.draw(membership, NOW_MS)
        membership.add(Member(B, b"10.0.0.2", 7712))
        file.save(membership, NOW_MS)
        file.write(*early)
        assert B in path.read_bytes()
        file.close()
        file.write(*early)
        assert B in path.read_bytes(), "nothing is written by somebody who has let go"


class TestDiscard:
    def test_a_file_that_was_made_for_this_start_is_removed(self, path: Path, log: Log) -> None:
        file, _ = start(path, log)
        file.discard()
        file.close()
        assert not path.exists()

    def test_a_file_that_was_there_stays_whatever_was_in_it(self, path: Path, log: Log) -> None:
        path.touch()
        file, _ = start(path, log)
        file.discard()
        file.close()
        content = path.read_bytes()
        file, _ = start(path, log)
        file.discard()
        file.close()
        assert path.read_bytes() == content


class TestGone:
    def test_a_file_that_was_removed_is_gone_until_it_is_written_again(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        assert not file.is_gone()
        path.unlink()
        assert file.is_gone()
        file.save(membership, NOW_MS)
        assert not file.is_gone()
        assert is_locked(path)
        file.close()

    def test_one_that_was_moved_away_is_gone_too(self, path: Path, log: Log) -> None:
        file, membership = start(path, log)
        path.rename(path.with_name("elsewhere"))
        assert file.is_gone()
        file.save(membership, NOW_MS)
        assert not file.is_gone()
        assert is_locked(path)
        file.close()
        assert not file.is_gone()

    def test_one_that_somebody_else_has_put_there_is_not_replaced(self, path: Path, log: Log) -> None:
        file, _ = start(path, log)
        path.unlink()
        path.touch()
        assert not file.is_gone()
        file.close()
        assert not file.is_gone()
