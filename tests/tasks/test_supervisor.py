"""Several processes, started again when they die, and anew when files change."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from disque.tasks import supervisor
from disque.tasks.supervisor import NOT_BEGUN, Supervisor, command, snapshot
from tests.end_to_end.node import until

RUNS = "import pathlib, signal, sys, time, os; p = pathlib.Path({!r}); {} p.open('a').write(f'{{os.getpid()}}\\n'); {}"
WAITS = "time.sleep(1000)"
#: Before it says that it is there: a stop meanwhile would end it.
TAKES_ITS_TIME = "signal.signal(signal.SIGTERM, lambda *_: p.open('a').write('7\\n'));"


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def place(one: Supervisor, path: Path, then: str, first: str = "") -> None:
    for each in one.places:
        each.command = [sys.executable, "-c", RUNS.format(str(path), first, then)]


def in_background(one: Supervisor, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Thread, list[int]]:
    """Run it in a thread, where signals cannot be listened to: the test calls what they call."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(one.run()))
    thread.start()
    return thread, codes


def test_what_dies_is_started_again_and_all_end_with_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AT_ONCE_S", 1000.0)
    one, path = Supervisor(["shop:app"], 2, reload=False, health=None), tmp_path / "pids"
    place(one, path, WAITS)
    thread, codes = in_background(one, monkeypatch)
    until(lambda: len(pids(path)) == 2, "two processes")
    os.kill(pids(path)[0], signal.SIGKILL)
    until(lambda: len(pids(path)) == 3, "a third one")
    one._signalled(signal.SIGINT, None)
    thread.join(30)
    assert codes == [0]


def test_what_is_started_again_is_as_quiet_as_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AT_ONCE_S", 1000.0)
    one, path = Supervisor(["shop:app"], 1, reload=False, health=None), tmp_path / "pids"
    says = "p.with_name('quiet').open('a').write(os.environ['DISQUE_WORKER_QUIET'] + ';');"
    place(one, path, WAITS, says + "signal.signal(signal.SIGTSTP, signal.SIG_IGN);")
    thread, _ = in_background(one, monkeypatch)

    def then(number: int, tells: signal.Signals) -> None:
        until(lambda: len(pids(path)) == number, "a process")
        one._signalled(tells, None)
        os.kill(pids(path)[-1], signal.SIGKILL)

    then(1, signal.SIGTSTP)
    then(2, signal.SIGCONT)
    until(lambda: len(pids(path)) == 3, "a third one")
    one._signalled(signal.SIGTERM, None)
    thread.join(30)
    assert (tmp_path / "quiet").read_text() == ";yes;;"


def test_what_can_never_begin_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AT_ONCE_S", 1000.0)
    one, path = Supervisor(["shop:app"], 1, reload=False, health=None), tmp_path / "pids"
    place(one, path, "sys.exit(3)")
    thread, codes = in_background(one, monkeypatch)
    thread.join(30)
    assert codes == [1]
    assert len(pids(path)) == 1


def test_also_when_it_took_its_time_to_find_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AT_ONCE_S", 0.0)
    one, path = Supervisor(["shop:app"], 1, reload=False, health=None), tmp_path / "pids"
    place(one, path, f"sys.exit({NOT_BEGUN})")
    thread, codes = in_background(one, monkeypatch)
    thread.join(30)
    assert codes == [1]
    assert len(pids(path)) == 1


def test_files_that_change_start_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FILES_S", 0.05)
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "shop.py"
    source.write_text("a = 1")
    one, path = Supervisor(["shop:app"], 1, reload=True, health=None), tmp_path / "pids"
    place(one, path, WAITS)
    thread, _ = in_background(one, monkeypatch)
    until(lambda: len(pids(path)) == 1, "a process")
    os.utime(source, ns=(1, time.time_ns() + 10**9))
    until(lambda: len(pids(path)) == 2, "a second one")
    one._signalled(signal.SIGTERM, None)
    thread.join(30)


def test_a_stop_while_it_starts_anew_is_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, path = Supervisor(["shop:app"], 1, reload=True, health=None), tmp_path / "pids"
    [only] = one.places
    place(one, path, WAITS, TAKES_ITS_TIME)
    only.start()
    until(lambda: len(pids(path)) == 1, "a process")
    changing = threading.Thread(target=one._changed, args=({"gone": 1},))
    changing.start()
    until(lambda: 7 in pids(path), "it hears of it, and takes its time")
    one._is_stopping = True
    os.kill(pids(path)[0], signal.SIGKILL)
    changing.join(30)
    assert only.process is None


def test_commands_and_snapshots(tmp_path: Path) -> None:
    assert command(["a:b"], 9001)[1:] == ["-m", "disque.tasks.command", "a:b", "--health", "9001"]
    for name in ("a.py", "b.txt", ".hidden/c.py", "__pycache__/d.py", "deep/e.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert {Path(name).name for name in snapshot(tmp_path)} == {"a.py", "e.py"}
    ports = [one.command[-1] for one in Supervisor(["a:b"], 2, reload=False, health=9000).places]
    assert ports == ["9000", "9001"]
    assert [one.command[-1] for one in Supervisor(["a:b"], 2, reload=False, health=0).places] == ["0", "0"], "free ones"
