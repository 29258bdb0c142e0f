"""The brokers beside this server: what may be asked for, the table, what is not installed, and that nothing stays."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.node import until
from tests.speed import brokers, nats, rabbit
from tests.speed.broker import AT_ONCE, Driver, distinct_ports, lacking, run
from tests.speed.brokers import BROKERS, Figures, main, measured, parser, row


def test_all_of_them_unless_some_are_named() -> None:
    asked = parser().parse_args([])
    assert (asked.only, asked.jobs, asked.compiled) == (list(BROKERS), 50_000, None)
    asked = parser().parse_args(["--only", "rabbit,ours", "--compiled", "/x/python", "2000"])
    assert (asked.only, asked.jobs, asked.compiled) == (["rabbit", "ours"], 2000, "/x/python")


def test_a_broker_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--only", "rabbits"])
    assert "no broker is called rabbits" in capsys.readouterr().err


def test_a_row_of_the_table() -> None:
    cells = "| one | 12,346 | 23.5 | 7 | 100.0 |"
    assert row("one", Figures(12345.6, 23.46), Figures(7, 100)) == cells


def test_jobs_go_a_hundred_at_a_time_and_some_before_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    async def step(count: int) -> None:
        steps.append(count)

    had_s = iter([7.0, 7.5])
    monkeypatch.setattr(brokers, "TAIL_S", 0)
    monkeypatch.setattr(brokers, "cpu_s_of", lambda _process: next(had_s))
    found = asyncio.run(measured([os.getpid()], 250, step))
    assert steps == [AT_ONCE, 100, 100, 50]
    assert found.rate > 0
    assert found.cpu_us == 2000


def test_what_is_not_installed_is_named() -> None:
    assert lacking(["sh"], "asyncio") == []
    assert lacking(["sh", "no-such-broker"], "no_such_module") == ["no-such-broker", "Python's no_such_module"]
    assert lacking(["sh"], "asyncio", "/nowhere") == ["sh"]


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(nats, "absent", lambda: ["nats-server"])
    monkeypatch.setattr(rabbit, "absent", lambda: ["epmd", "Python's aio_pika"])
    assert main(["--only", "nats,rabbit", "5"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("| 5 jobs |")
    assert said.err.splitlines() == [
        "nats is left out, since it is not installed: nats-server",
        "rabbit is left out, since it is not installed: epmd, Python's aio_pika",
    ]


def test_one_that_fails_does_not_stop_the_others_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pids: list[int] = []

    async def nothing(_count: int) -> None: ...

    async def fails(stack: ExitStack, folder: Path) -> AsyncGenerator[Driver, None]:
        pids.append(run(stack, ["sleep", "1000"], folder / "log").pid)
        if len(pids) == 1:
            raise RuntimeError("no such luck")
        yield Driver("it does not work", pids, nothing, nothing)

    async def works(stack: ExitStack, folder: Path) -> AsyncGenerator[Driver, None]:
        pids.append(run(stack, ["sleep", "1000"], folder / "log").pid)
        yield Driver("it works", pids[1:], nothing, nothing)

    monkeypatch.setattr(brokers, "TAIL_S", 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for module, drivers in ((nats, fails), (rabbit, works)):
        monkeypatch.setattr(module, "absent", list)
        monkeypatch.setattr(module, "drivers", drivers)
    assert main(["--only", "nats,rabbit", "100"]) == 1
    said = capsys.readouterr()
    assert "no such luck" in said.err
    assert "| it works |" in said.out
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


def test_what_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    """RabbitMQ's nodes start programs in sessions of their own."""
    log = tmp_path / "log"
    with ExitStack() as stack:
        run(stack, ["sh", "-c", "setsid sleep 1000 & echo $!; wait"], log)
        until(lambda: log.read_text().endswith("\n"), "the child")
        child = psutil.Process(int(log.read_text()))
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the end of the child")


def test_ports_are_distinct() -> None:
    assert len(set(distinct_ports(8))) == 8


def test_what_rabbitmq_needs_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_NODENAME", "the system's")
    environment = rabbit.around(tmp_path, 1111, 2222)
    assert environment["ERL_EPMD_PORT"] == "1111"
    assert environment["HOME"] == str(tmp_path)
    assert "RABBITMQ_NODENAME" not in environment
    conf = (tmp_path / "rabbitmq.conf").read_text()
    assert conf.count("@localhost") == 3
    assert (tmp_path / ".erlang.cookie").stat().st_mode & 0o777 == 0o400
