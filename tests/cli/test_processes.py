"""What processes share and what they do not, and a service played by scripts; tests/end_to_end/test_processes.py has
a real one.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cluster.member import is_zone
from disque.cli import processes
from disque.cli.processes import (
    PAUSE_LEAST_S,
    PAUSE_MOST_S,
    Service,
    fit,
    host_zone,
    number_of,
    objection,
    own_address,
    pause_s,
    seeds,
)
from disque.cli.serve import main
from disque.core.config.settings import Config
from disque.server.log import Log


def settings(*lines: str, count: int = 3) -> Config:
    """A configuration of so many processes."""
    config = Config()
    config.put("processes", (str(count),))
    for line in lines:
        name, *words = line.split()
        config.put(name, tuple(words))
    return config


def one(number: int, *lines: str) -> Config:
    """The configuration of one of three processes."""
    config = settings(*lines)
    assert objection(config) == ""
    fit(config, number)
    return config


class TestWhatIsItsOwn:
    def test_ports_are_in_a_row(self) -> None:
        lines = ("tls-port 8000", "cluster-bus-port 9000", "cluster-announce-port 80", "cluster-announce-bus-port 90")
        config = one(2, *lines)
        names = ("port", "tls-port", "cluster-bus-port", "cluster-announce-port", "cluster-announce-bus-port")
        assert [config.number(name) for name in names] == [7713, 8002, 9002, 82, 92]

    def test_a_port_that_is_not_there_is_at_no_process(self) -> None:
        config = one(1, "port 0", "tls-port 7000")
        assert [config.number(name) for name in ("port", "tls-port", "cluster-bus-port")] == [0, 7001, 0]

    def test_each_has_a_directory_and_files_named_after_its_port(self, tmp_path: Path) -> None:
        config = one(1, f"dir {tmp_path}", "logfile /var/log/disque.log", "unixsocket /run/disque.sock")
        assert config.text("dir") == str(tmp_path / "7712")
        assert config.text("logfile") == "/var/log/disque.log.7712"
        assert config.text("unixsocket") == "/run/disque.sock.7712"
        assert config.text("syslog-ident") == "disque-7712"

    def test_only_the_service_is_a_daemon_with_a_pid_file(self) -> None:
        config = one(0, "daemonize yes", "pidfile /run/mine.pid")
        assert not config.flag("daemonize")
        assert config.is_default("pidfile")


class TestHowTheyFindEachOther:
    def test_all_of_them_are_seeds_and_those_of_the_settings_too(self) -> None:
        config = one(1, "cluster-seeds 127.0.0.1:9001")
        own = tuple(f"127.0.0.1:{port}@{port + 10000}" for port in (7711, 7712, 7713))
        assert config.words("cluster-seeds") == (*own, "127.0.0.1:9001")

    @pytest.mark.parametrize(
        ("line", "host"),
        [
            ("bind 0.0.0.0", "127.0.0.1"),
            ("bind * -::*", "127.0.0.1"),
            ("bind 10.0.0.5 127.0.0.1", "127.0.0.1"),
            ("bind -::1", "::1"),
            ("bind 10.0.0.5", "10.0.0.5"),
            ("bind fd00::5", "fd00::5"),
        ],
    )
    def test_by_an_address_at_which_they_listen(self, line: str, host: str) -> None:
        config = settings(line)
        assert own_address(config) == host
        assert seeds(config)[0] == f"{f'[{host}]' if ':' in host else host}:7711@17711"

    def test_all_of_one_host_are_of_one_zone(self) -> None:
        assert one(0).text("cluster-zone") == one(2).text("cluster-zone") == host_zone()
        assert one(0, "cluster-zone rack-1").text("cluster-zone") == "rack-1"

    def test_the_zone_of_a_host_is_a_label_that_the_kernel_draws(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        labels = []
        for content in ("one\n", "two\n"):
            (tmp_path / "boot_id").write_text(content)
            monkeypatch.setattr(processes, "BOOT_ID", tmp_path / "boot_id")
            labels.append(host_zone())
        assert len(set(labels)) == 2
        assert all(is_zone(label.encode()) for label in labels)

    @pytest.mark.parametrize(("name", "plain"), [("queue-1.example.org", True), ("straße", False), ("x" * 99, True)])
    def test_where_the_kernel_draws_none_it_is_the_name_of_the_host(
        self, name: str, plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(processes, "BOOT_ID", tmp_path / "none")
        monkeypatch.setattr("socket.gethostname", lambda: name)
        assert is_zone(host_zone().encode())
        assert (host_zone() == name[:64]) == plain


class TestObjections:
    @pytest.mark.parametrize(
        ("lines", "words"),
        [
            (("port 0",), "need a port"),
            (("port 55534",), "cluster-bus-port 65534 to 65536"),
            (("cluster-announce-port 65535",), "cluster-announce-port 65535 to 65537"),
            (("tls-port 7713",), "overlap"),
            (("cluster-bus-port 7712",), "overlap"),
            (("cluster-config-file /etc/nodes.conf",), "plain name"),
            (("aof-enqueue-jobs-once yes",), "aof-enqueue-jobs-once"),
            (("bind 10.0.0.5",), "without a cluster-secret"),
            (("cluster-seeds 10.0.0.6:7711",), "cluster-announce-ip"),
            (("cluster-announce-ip 10.0.0.5",), "without a cluster-secret"),
            ((f"cluster-seeds {' '.join(f'127.0.0.1:{port}' for port in range(1, 63))}",), "64 addresses"),
        ],
    )
    def test_what_cannot_be_is_said(self, lines: tuple[str, ...], words: str) -> None:
        assert words in objection(settings(*lines))

    @pytest.mark.parametrize(
        "lines",
        [
            (),
            ("port 7711", "tls-port 7714"),
            ("bind 10.0.0.5", "cluster-secret x"),
            ("cluster-seeds 10.0.0.6:7711", "cluster-announce-ip 10.0.0.5", "cluster-secret x"),
            ("cluster-seeds 10.0.0.6:7711", "bind 10.0.0.5", "cluster-secret x"),
            ("cluster-seeds localhost:9000",),
        ],
    )
    def test_what_can_be(self, lines: tuple[str, ...]) -> None:
        assert objection(settings(*lines)) == ""

    @pytest.mark.parametrize("count", ["0", "65", "-1", "two", ""])
    def test_so_many_processes_cannot_be(self, count: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--processes", count]) == 1
        assert "from 1 to 64" in capsys.readouterr().err

    def test_the_reason_is_shown_and_nothing_started(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--processes", "2", "--port", "0"]) == 1
        assert "disque-server: processes need a port" in capsys.readouterr().err

    def test_each_process_reads_the_file_so_it_must_be_one(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "conf").write_text("processes 2\n")
        with (tmp_path / "conf").open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert main(["-"]) == 1
        assert "standard input" in capsys.readouterr().err


def test_a_process_knows_which_node_it_runs() -> None:
    assert [number_of({"DISQUE_PROCESS": word}) for word in ("0", "12", "", "x")] == [0, 12, -1, -1]
    assert number_of({}) == -1


def test_the_pause_before_a_start_doubles_up_to_a_limit() -> None:
    pauses = [pause_s(failures) for failures in range(40)]
    assert pauses[:3] == [PAUSE_LEAST_S, 2 * PAUSE_LEAST_S, 4 * PAUSE_LEAST_S]
    assert pauses[-1] == PAUSE_MOST_S


#: Processes of some kinds. Each keeps count of its starts in a file of its own.
BEGIN = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
number = os.environ["DISQUE_PROCESS"]
with open(number, "a") as file: file.write("x")
starts = os.path.getsize(number)
"""
OBEDIENT = "print('up', starts, flush=True); signal.sigwait([signal.SIGTERM]); raise SystemExit(0)"
REOPENS = "print('up', starts, flush=True); signal.sigwait([signal.SIGHUP]); print('again', flush=True); " + OBEDIENT
NO_PORT = "print('no port', flush=True); raise SystemExit(1 if number == '1' else signal.sigwait([signal.SIGTERM]) * 0)"
DIES_ONCE = "os.kill(os.getpid(), 9) if starts == 1 and number == '0' else 0; " + OBEDIENT
ENDS_ONCE = "sys.exit(0) if starts == 1 and number == '0' else 0; " + OBEDIENT
WRONG_AT_THE_END = "print('up', starts, flush=True); signal.sigwait([signal.SIGTERM]); raise SystemExit(3)"


class Stage:
    """A service of two scripts, and what it has shown."""

    def __init__(self, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text = ""
        self._news = asyncio.Event()
        monkeypatch.setattr(processes, "relay", self.show)
        monkeypatch.setattr(processes, "PAUSE_LEAST_S", 0.01)
        self.log_path = tmp_path / "log"
        self.service_of: Callable[[], Service] = lambda: Service(
            (1, 2), [sys.executable, "-c", BEGIN + script], Log(str(self.log_path)), str(tmp_path)
        )

    def show(self, text: str) -> None:
        self.text += text
        self._news.set()

    async def until(self, *texts: str) -> None:
        while not all(text in self.text for text in texts):
            self._news.clear()
            await self._news.wait()

    def play(self, act: Callable[[Service], Awaitable[None]] | None = None) -> int:
        """Run the service and do something meanwhile; gives the exit code."""

        async def both() -> int:
            service = self.service_of()
            running = asyncio.create_task(service.run())
            if act is not None:
                await act(service)
            return await running

        return asyncio.run(both())

    @property
    def log(self) -> str:
        return self.log_path.read_text()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Stage]:
    return lambda script: Stage(script, tmp_path, monkeypatch)


class TestService:
    def test_all_stop_when_told(self, stage: Callable[[str], Stage]) -> None:
        played = stage(OBEDIENT)

        async def act(service: Service) -> None:
            await played.until("1 | up 1", "2 | up 1")
            service.stop(signal.SIGTERM)

        assert played.play(act) == 0
        assert "Received SIGTERM" in played.log
        assert "All processes have stopped" in played.log

    @pytest.mark.parametrize(
        ("script", "how"), [(DIES_ONCE, "was killed by SIGKILL"), (ENDS_ONCE, "has stopped cleanly")]
    )
    def test_one_that_ends_is_started_again(self, script: str, how: str, stage: Callable[[str], Stage]) -> None:
        played = stage(script)

        async def act(service: Service) -> None:
            await played.until("1 | up 2", "2 | up 1")
            service.stop(signal.SIGINT)

        assert played.play(act) == 0
        assert f"The process at port 1 {how}" in played.log

    def test_one_that_cannot_start_ends_the_service(self, stage: Callable[[str], Stage]) -> None:
        played = stage(NO_PORT)
        assert played.play() == 1
        assert "The process at port 2 cannot start (exit code 1): all stop" in played.log

    def test_one_that_stops_badly_is_told_of(self, stage: Callable[[str], Stage]) -> None:
        played = stage(WRONG_AT_THE_END)

        async def act(service: Service) -> None:
            await played.until("1 | up 1", "2 | up 1")
            service.stop(signal.SIGTERM)

        assert played.play(act) == 1
        assert "The process at port 2 has ended with exit code 3" in played.log

    def test_a_second_sigint_kills(self, stage: Callable[[str], Stage]) -> None:
        played = stage(
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('up', flush=True); signal.pause()"
        )

        async def act(service: Service) -> None:
            await played.until("1 | up", "2 | up")
            service.stop(signal.SIGINT)
            service.stop(signal.SIGINT)

        assert played.play(act) == 1

    def test_sighup_is_handed_on(self, stage: Callable[[str], Stage]) -> None:
        played = stage(REOPENS)

        async def act(service: Service) -> None:
            await played.until("1 | up 1", "2 | up 1")
            played.log_path.rename(played.log_path.with_name("old"))
            service.hang_up()
            await played.until("1 | again", "2 | again")
            service.stop(signal.SIGTERM)

        assert played.play(act) == 0
        assert "Received SIGTERM" in played.log
