import os
import subprocess
import sys
from pathlib import Path

import pytest

import disque
from disque.server.daemon import (
    SPARE_FDS,
    LockedError,
    PidFile,
    SystemFdLimit,
    daemonize,
    fd_limit_warning,
    fds_for_strangers,
    fit_fd_limit,
    open_locked,
    set_process_name,
)

DAEMON = """
import os, sys
from disque.server.daemon import daemonize
report = int(sys.argv[1])
print("before")
os.write(report, b"%d\\n" % os.getpid())
daemonize()
print("lost")
os.write(report, b"%d %d %d\\n" % (os.getpid(), os.getsid(0), os.getpgid(0)))
os.write(report, os.getcwd().encode() + b"\\n" + os.readlink("/proc/self/fd/1").encode())
"""


class Limit:
    """A system with a limit of open files; `refuses_above` is what it does not grant although nothing forbids it."""

    def __init__(self, soft: int, hard: int, *, root: bool = False, refuses_above: int = 1 << 40) -> None:
        self.soft = soft
        self.hard = hard
        self.root = root
        self.refuses_above = refuses_above

    def get(self) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, soft: int, hard: int) -> None:
        if soft > self.refuses_above:
            raise ValueError(soft)
        if self.hard >= 0 and hard > self.hard and not self.root:
            raise PermissionError(hard)
        self.soft = soft
        self.hard = hard


class TestFdLimit:
    def test_enough_is_left_as_it_is(self) -> None:
        limit = Limit(65536, 65536)
        assert fit_fd_limit(10000, limit) == 10000
        assert limit.get() == (65536, 65536)

    def test_no_limit_is_enough(self) -> None:
        assert fit_fd_limit(10000, Limit(-1, -1)) == 10000

    def test_the_limit_is_raised_to_what_clients_and_nodes_need(self) -> None:
        limit = Limit(1024, 65536)
        assert fit_fd_limit(10000, limit) == 10000
        assert limit.get() == (10608, 65536)

    def test_root_raises_the_highest_too(self) -> None:
        limit = Limit(1024, 4096, root=True)
        assert fit_fd_limit(10000, limit) == 10000
        assert limit.get() == (10608, 10608)

    def test_else_clients_must_fit_into_the_highest(self) -> None:
        limit = Limit(1024, 4096)
        assert fit_fd_limit(10000, limit) == 4096 - SPARE_FDS
        assert limit.get() == (4096, 4096)

    def test_a_system_that_grants_less_than_it_says_is_asked_for_less(self) -> None:
        limit = Limit(256, -1, refuses_above=10240)
        assert 10240 - 16 <= fit_fd_limit(20000, limit) + SPARE_FDS <= 10240
        assert limit.hard == -1

    def test_a_system_that_grants_nothing_keeps_its_limit(self) -> None:
        assert fit_fd_limit(10000, Limit(256, -1, refuses_above=0)) == 256 - SPARE_FDS

    def test_there_may_be_no_room_at_all(self) -> None:
        assert fit_fd_limit(10000, Limit(20, 20)) == 0

    @pytest.mark.parametrize(
        ("soft", "strangers"), [(-1, 256), (65536, 256), (10608, 256), (10196, 50), (10096, 32), (1024, 32)]
    )
    def test_strangers_at_the_bus_leave_files_for_the_journal(self, soft: int, strangers: int) -> None:
        assert fds_for_strangers(10000, Limit(soft, soft)) == strangers

    def test_the_warning_names_both_numbers(self) -> None:
        text = fd_limit_warning(10000, 4000)
        assert "10096" in text
        assert "4096" in text
        assert "maxclients is now 4000" in text

    def test_the_real_limit_can_be_read_and_set_to_what_it_is(self) -> None:
        limit = SystemFdLimit()
        before = limit.get()
        limit.set(*before)
        assert limit.get() == before
        assert fit_fd_limit(1) == 1


class TestPidFile:
    def test_it_holds_the_number_of_the_process(self, tmp_path: Path) -> None:
        path = tmp_path / "disque.pid"
        path.write_text("999999999\n")
        PidFile(str(path)).write()
        assert path.read_text() == f"{os.getpid()}\n"
        assert path.stat().st_mode & 0o777 == 0o644
        assert list(tmp_path.iterdir()) == [path]

    def test_it_is_removed_at_the_end(self, tmp_path: Path) -> None:
        file = PidFile(str(tmp_path / "disque.pid"))
        file.write()
        file.remove()
        file.remove()
        assert list(tmp_path.iterdir()) == []

    def test_that_of_another_process_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "disque.pid"
        file = PidFile(str(path))
        file.write()
        path.write_text("999999999\n")
        file.remove()
        assert path.exists()

    def test_what_cannot_be_written_is_an_error_and_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "disque.pid").mkdir()
        with pytest.raises(OSError, match=r"disque\.pid"):
            PidFile(str(tmp_path / "disque.pid")).write()
        assert [entry.name for entry in tmp_path.iterdir()] == ["disque.pid"]
        with pytest.raises(FileNotFoundError):
            PidFile(str(tmp_path / "nowhere" / "disque.pid")).write()

    def test_a_relative_path_survives_a_change_of_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        file = PidFile("disque.pid")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        file.write()
        assert (tmp_path / "disque.pid").exists()


class TestLock:
    def test_one_holder_at_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / "nodes.conf"
        fd = open_locked(path)
        with pytest.raises(LockedError):
            open_locked(path)
        os.close(fd)
        os.close(open_locked(path))

    def test_a_lock_counts_only_while_the_file_bears_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The holder replaces the file just after another process has opened it, and lets go of the old one."""
        path = tmp_path / "nodes.conf"
        holder = open_locked(path)
        replaced: list[int] = []
        real_open = os.open

        def open_then_replace(name: Path, flags: int, mode: int) -> int:
            fd = real_open(name, flags, mode)
            if not replaced:
                monkeypatch.setattr("disque.server.daemon.os.open", real_open)
                replaced.append(open_locked(tmp_path / "new"))
                (tmp_path / "new").replace(path)
                os.close(holder)
            return fd

        monkeypatch.setattr("disque.server.daemon.os.open", open_then_replace)
        with pytest.raises(LockedError):
            open_locked(path)
        os.close(replaced[0])
        os.close(open_locked(path))

    def test_a_file_that_vanishes_is_made_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "nodes.conf"
        real_open = os.open

        def open_then_remove(name: Path, flags: int, mode: int) -> int:
            fd = real_open(name, flags, mode)
            path.unlink()
            monkeypatch.setattr("disque.server.daemon.os.open", real_open)
            return fd

        monkeypatch.setattr("disque.server.daemon.os.open", open_then_remove)
        os.close(open_locked(path))
        assert path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
class TestProcess:
    def test_daemonize_leaves_its_parent_and_its_terminal(self, tmp_path: Path) -> None:
        read, write = os.pipe()
        with os.fdopen(read) as reports:
            done = subprocess.run(
                [sys.executable, "-c", DAEMON, str(write)],
                check=False,
                pass_fds=[write],
                capture_output=True,
                cwd=tmp_path,
                env={"PYTHONPATH": str(Path(disque.__file__).parents[1])},
            )
            os.close(write)
            first, ids, directory, output = reports.read().split("\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"before\n", b"")
        pid, session, group = map(int, ids.split())
        assert len({int(first), pid, session}) == 3
        assert group == session
        assert (directory, output) == (str(tmp_path), "/dev/null")

    def test_daemonize_is_for_a_process_with_one_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("threading.active_count", lambda: 2)
        with pytest.raises(AssertionError):
            daemonize()

    def test_the_process_gets_a_name(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        comm = Path("/proc/self/comm")
        before = comm.read_text()
        assert set_process_name("disque-server *:7711")
        assert comm.read_text() == "disque-server *\n"
        comm.write_text(before)
        monkeypatch.setattr("disque.server.daemon.COMM", tmp_path / "nowhere" / "comm")
        assert not set_process_name("disque-server")
