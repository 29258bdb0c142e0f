"""Some nodes in one terminal, played by small scripts; the real ones are in tests/end_to_end/test_local.py."""

import asyncio
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from disque.cli.local import (
    FAILED,
    Crew,
    NeedsPasswordError,
    Plan,
    Terminal,
    cluster_info,
    guide,
    have_met,
    is_free,
    main,
    parse,
    shown,
    taken,
    why_no_gateway,
)
from tests.conftest import FORM

#: Nodes of some kinds, as scripts.
OBEDIENT = "import signal; print('up', flush=True); signal.sigwait([signal.SIGTERM]); print('bye', flush=True)"
WRONG_AT_THE_END = f"{OBEDIENT}; raise SystemExit(3)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
SHORT_LIVED = "print('no port'); raise SystemExit(1)"
KILLED = "import os; os.kill(os.getpid(), 9)"
# SIGTERM has to be blocked before anybody is told that the node is up, or it could end it.
READY = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"


class Play(Plan):
    """A plan whose nodes are scripts, the first option for the first port and so on."""

    __slots__ = ()

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", READY + self.options[self.ports.index(port)]]

    def gateway_command(self) -> list[str]:
        return [sys.executable, "-c", READY + self.options[-1]]


class Stage(Terminal):
    """What was shown, and whoever waits until something is."""

    def __init__(self) -> None:
        super().__init__([*range(1, 10), 7780], colours=False, gone=lambda: pytest.fail("nobody looks"))
        self.text = "\n"
        self._news = asyncio.Event()

    def _write(self, text: str) -> None:
        self.text += f"{text}\n"
        self._news.set()

    async def until(self, text: str, times: int = 1) -> None:
        while self.text.count(text) < times:
            self._news.clear()
            await self._news.wait()


class Troupe(Crew):
    """A crew on a stage, whose nodes are scripts."""

    def __init__(self, tmp_path: Path, *scripts: str, gateway: str = "") -> None:
        ports = tuple(range(1, len(scripts) + 1))
        super().__init__(Play(ports, tmp_path, (*scripts, gateway), 7780 if gateway else 0))
        self.terminal = self.stage = Stage()

    def play(self, act: Callable[[], Awaitable[None]]) -> int:
        """Do something as soon as all nodes are up; gives the exit code."""

        async def both() -> int:
            running = asyncio.create_task(self.run())
            await self.stage.until("| up", len(self.plan.ports))
            await act()
            return await running

        return asyncio.run(both())

    async def end(self) -> None:
        self.stop()

    async def end_now(self) -> None:
        self.stop()
        self.stop()

    def last_line(self) -> str:
        return self.stage.text.splitlines()[-1]


class TestCommandLine:
    def test_three_nodes_by_default(self) -> None:
        assert parse([]).ports == (7711, 7712, 7713)
        assert parse([]).options == ()
        assert parse([]).gateway == 7780

    def test_further_options_stand_behind_two_dashes(self) -> None:
        plan = parse(["--nodes", "2", "--port", "9000", "--", "--loglevel", "verbose"])
        assert plan.ports == (9000, 9001)
        assert plan.options == ("--loglevel", "verbose")

    @pytest.mark.parametrize(
        "words",
        [["--nodes", "0"], ["--nodes", "10"], ["--port", "0"], ["--port", "55534"], ["--gateway", "65535"]],
    )
    def test_what_cannot_be_is_refused(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            parse(words)
        assert words[0] in capsys.readouterr().err

    def test_each_node_has_its_directory_its_journal_and_the_same_seeds(self, tmp_path: Path) -> None:
        plan = Plan((7711, 7712), tmp_path, ("--loglevel", "debug"))
        first, second = (" ".join(plan.command(port)) for port in plan.ports)
        assert f"--port 7711 --dir {tmp_path}/7711 --appendonly yes" in first
        assert f"--port 7712 --dir {tmp_path}/7712 --appendonly yes" in second
        for command in (first, second):
            assert "--bind 127.0.0.1" in command
            assert "--default-replicate 2" in command
            assert command.endswith("--cluster-seeds 127.0.0.1:7711 127.0.0.1:7712 --loglevel debug")

    def test_one_node_has_nobody_to_find(self, tmp_path: Path) -> None:
        alone = Plan((7711,), tmp_path).command(7711)
        assert not {"--cluster-seeds", "--default-replicate"} & set(alone)


class TestPorts:
    def test_the_port_of_the_bus_must_be_free_too(self, new_port: Callable[[], int]) -> None:
        ports = [new_port(), new_port()]
        assert taken(ports) == []
        with socket.create_server(("127.0.0.1", ports[1] + 10000)):
            assert taken(ports) == [ports[1] + 10000]
            assert not is_free(ports[1] + 10000)

    def test_nothing_is_started_when_a_port_is_taken(
        self, free_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--nodes", "1", "--port", str(free_port), "--data", str(tmp_path / "data")]
        with socket.create_server(("127.0.0.1", free_port)):
            assert main(words, start=lambda _: pytest.fail("started")) == 1
        error = capsys.readouterr().err
        assert f"port {free_port} in use" in error
        assert f"make run PORT={free_port + 1}" in error
        assert not (tmp_path / "data").exists()


class TestGateway:
    def test_it_knows_all_nodes_and_is_shown(self, tmp_path: Path) -> None:
        plan = Plan((7711, 7712), tmp_path, (), 7780)
        words = " ".join(plan.gateway_command())
        assert "--nodes 127.0.0.1:7711,127.0.0.1:7712 --listen 127.0.0.1:7780 --admin-listen 127.0.0.1:7781" in words
        assert "http://127.0.0.1:7780" in guide(plan, [1, 2])
        assert "http" not in guide(Plan((7711,), tmp_path), [1])

    def test_where_it_cannot_run_it_is_said_why(
        self, free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plan = Plan((7711,), tmp_path, (), free_port)
        monkeypatch.setattr("disque.cli.local.GATEWAY_NEEDS", ("json",))
        assert why_no_gateway(plan) == ""
        assert why_no_gateway(plan._replace(gateway=0)) == ""
        with socket.create_server(("127.0.0.1", free_port)):
            assert f"port {free_port} is in use" in why_no_gateway(plan)
        monkeypatch.setattr("disque.cli.local.GATEWAY_NEEDS", ("there_is_no_such_library",))
        assert "it needs there_is_no_such_library" in why_no_gateway(plan)
        assert why_no_gateway(plan._replace(gateway=0)) == ""

    def test_it_stops_before_the_nodes(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT, gateway=OBEDIENT)

        async def end() -> None:
            await crew.stage.until("\n1 | up")
            await crew.stage.until("7780 | up")
            crew.stop()

        assert crew.play(end) == 0
        assert [line for line in crew.stage.text.splitlines() if "bye" in line] == ["7780 | bye", "1 | bye"]

    def test_nodes_go_on_without_it_and_it_does_not_go_on_without_them(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT, gateway=KILLED)

        async def both() -> None:
            await crew.stage.until("\n1 | up")
            await crew.stage.until("The gateway was killed by SIGKILL. The nodes go on.")
            crew.stop()

        assert crew.play(both) == 0
        assert asyncio.run(Troupe(tmp_path, "pass", gateway=OBEDIENT).run()) == 0


class TestTexts:
    def test_paths_are_shown_from_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert shown(tmp_path / "data") == "./data"
        assert shown(Path("/nowhere/data")) == "/nowhere/data"

    def test_the_guide_names_the_first_node_the_last_one_and_a_process_to_kill(self, tmp_path: Path) -> None:
        text = re.sub(" {2,}", "  ", guide(Plan((7711, 7712, 7713), tmp_path), [100, 101, 102]))
        assert "redis-cli -p 7711 ADDJOB myqueue hello 1000  (answered when 2 nodes have it)" in text
        assert "redis-cli -p 7713 GETJOB FROM myqueue" in text
        assert "kill -9 102" in text
        assert "the node at 7713: nothing is lost" in text

    def test_the_guide_says_which_form_of_the_core_runs(self, tmp_path: Path) -> None:
        first = guide(Plan((7711,), tmp_path), [100]).splitlines()[0]
        assert (first == "The core runs compiled.") == (FORM == "compiled")

    def test_the_guide_promises_no_copies_where_there_is_one_node(self, tmp_path: Path) -> None:
        text = guide(Plan((7711,), tmp_path), [100])
        assert "have it" not in text
        assert "lost" not in text

    def test_lines_of_logs_begin_with_their_port(self, capsys: pytest.CaptureFixture[str]) -> None:
        Terminal([7711], colours=False, gone=lambda: None).relay(7711, "ready")
        Terminal([7711], colours=True, gone=lambda: None).relay(7711, "ready")
        plain, coloured = capsys.readouterr().out.splitlines()
        assert plain == "7711 | ready"
        assert coloured == "\x1b[36m7711 |\x1b[0m ready"

    def test_a_terminal_that_is_gone_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise BrokenPipeError

        monkeypatch.setattr("builtins.print", broken)
        gone: list[bool] = []
        Terminal([7711], colours=False, gone=lambda: gone.append(True)).say("hello")
        assert gone == [True]


class TestMeeting:
    def test_nodes_have_met_when_each_reaches_all_others(self) -> None:
        assert have_met([{"cluster_reachable_nodes": "2"}] * 3)
        assert not have_met([{"cluster_reachable_nodes": "2"}, {"cluster_reachable_nodes": "1"}, {}])
        assert have_met([{"cluster_reachable_nodes": "0"}])

    def test_an_answer_becomes_a_table(self) -> None:
        assert ask(b"$45\r\ncluster_state:ok\r\ncluster_reachable_nodes:2\r\n\r\n") == {
            "cluster_state": "ok",
            "cluster_reachable_nodes": "2",
        }

    def test_a_node_that_loads_is_one_to_wait_for(self) -> None:
        with pytest.raises(OSError, match="LOADING"):
            ask(b"-LOADING wait\r\n")

    def test_a_node_that_hangs_up_is_one_to_wait_for(self) -> None:
        with pytest.raises(ConnectionResetError):
            ask(b"")

    def test_a_node_with_a_password_tells_nothing(self) -> None:
        with pytest.raises(NeedsPasswordError):
            ask(b"-NOAUTH Authentication required.\r\n")


def ask(reply: bytes) -> dict[str, str]:
    """Ask a server for CLUSTER INFO that answers with `reply` and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"CLUSTER INFO\r\n"
        writer.write(reply)
        writer.close()

    async def both() -> dict[str, str]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await cluster_info(server.sockets[0].getsockname()[1])

    return asyncio.run(both())


class TestCrew:
    def test_all_are_stopped_one_after_the_other(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT, OBEDIENT, OBEDIENT)
        assert crew.play(crew.end) == 0
        assert [line for line in crew.stage.text.splitlines() if "bye" in line] == ["1 | bye", "2 | bye", "3 | bye"]
        assert crew.last_line().startswith("*** All nodes have stopped cleanly.")
        assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "3"}

    def test_a_node_that_dies_is_told_of_and_the_others_go_on(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT, OBEDIENT)

        async def kill_one() -> None:
            crew.children[1].signal(signal.SIGKILL)
            await crew.stage.until("The others go on")
            assert crew.children[0].alive
            crew.stop()

        assert crew.play(kill_one) == 0, "those that were to stop did so cleanly"
        assert "*** The node at 2 was killed by SIGKILL." in crew.stage.text
        assert "This program does not start it again. You can do so in another terminal." in crew.stage.text
        assert "1 | bye" in crew.stage.text
        note, last = crew.stage.text.splitlines()[-2:]
        assert note == "*** The node at 2 was killed by SIGKILL, before the others were stopped."
        assert last.startswith("*** All other nodes have stopped cleanly.")

    def test_nodes_that_were_all_stopped_by_others_are_no_failure(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, "pass", "pass")
        assert asyncio.run(crew.run()) == 0

    def test_a_node_that_died_excuses_no_other_one(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, WRONG_AT_THE_END, OBEDIENT)

        async def kill_one() -> None:
            crew.children[1].signal(signal.SIGKILL)
            await crew.stage.until("The others go on")
            crew.stop()

        assert crew.play(kill_one) == FAILED
        assert crew.last_line() == "*** The node at 1 has ended with exit code 3."

    def test_it_ends_when_all_nodes_have_ended(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, SHORT_LIVED, KILLED)
        assert asyncio.run(crew.run()) == FAILED
        assert "1 | no port" in crew.stage.text
        assert "*** The node at 1 has ended with exit code 1." in crew.stage.text
        assert "*** The node at 2 was killed by SIGKILL." in crew.stage.text

    def test_a_node_that_fails_to_stop_cleanly_is_told_of(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT, WRONG_AT_THE_END)
        assert crew.play(crew.end) == FAILED
        assert crew.last_line() == "*** The node at 2 has ended with exit code 3."

    def test_a_second_signal_kills(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, DEAF)
        assert crew.play(crew.end_now) == FAILED
        assert crew.last_line() == "*** The node at 1 was killed by SIGKILL."

    def test_a_halted_node_is_woken_to_stop(self, tmp_path: Path) -> None:
        crew = Troupe(tmp_path, OBEDIENT)

        async def halt() -> None:
            crew.children[0].signal(signal.SIGSTOP)
            crew.stop()

        assert crew.play(halt) == 0
