from typing import Any, cast

import pytest

from disque.core.model.session import WAIT_HOST
from disque.server.host import Rates, ServerHost, core_is_compiled
from tests.conftest import FORM
from tests.server.shell import Shell

NEEDED = ("pid", "run_id", "tcp_port", "executable", "config_file", "rss_bytes", "ops_per_s", "cpu_user_s")


class FakeServer:
    """A server that notes what it is asked for."""

    def __init__(self, shell: Shell) -> None:
        self.pump = shell.pump
        self.persistence = self
        self.mesh = self
        self.port = 7711
        self.config_path = "/etc/disque.conf"
        self.asked: list[tuple[Any, ...]] = []

    def facts(self) -> dict[str, int]:
        return {"loading": 0}

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self.asked.append((name, *args, *options.items()))


def hosted(shell: Shell) -> tuple[ServerHost, FakeServer]:
    host, server = ServerHost(), FakeServer(shell)
    host.server = cast("Any", server)
    return host, server


def test_rates_are_means_of_the_last_samples() -> None:
    rates = Rates()
    assert rates.mean(0) == 0.0
    for second in range(1, 40):
        rates.sample(float(second), second * 10, second * 20, second * 30)
    assert (rates.mean(0), rates.mean(1), rates.mean(2)) == (10.0, 20.0, 30.0)


def test_counters_that_start_again_are_no_negative_rate() -> None:
    rates = Rates()
    rates.sample(1.0, 1000, 0, 0)
    rates.sample(2.0, 0, 0, 0)
    assert rates.mean(0) == 0.0


def test_ids_come_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda size: b"u" * size)
    host, _ = hosted(Shell())
    assert host.entropy(5) == b"uuuuu"


def test_facts_name_everything_that_info_needs() -> None:
    host, _ = hosted(Shell())
    facts = host.facts()
    assert set(NEEDED) <= facts.keys()
    assert facts["tcp_port"] == 7711
    assert facts["persist:loading"] == 0
    assert len(host.run_id) == 40


def test_facts_of_clients() -> None:
    shell = Shell()
    host, _ = hosted(shell)
    client, transport = shell.connect()
    client.data_received(b"GETJOB FROM q\r\nPING\r\n")
    transport.unsent = 77
    facts = host.client_facts(client.session)
    assert (facts["qbuf"], facts["obl"], facts["unix"], facts["fd"]) == (6, 77, 0, -1)
    shell.pump.connections.clear()
    assert host.client_facts(client.session)["fd"] == -1


def test_a_killed_client_is_closed_behind_its_replies() -> None:
    shell = Shell()
    host, _ = hosted(shell)
    client, transport = shell.connect()
    client.data_received(b"PING\r\n")
    host.kill(client.session)
    shell.loop.settle()
    assert transport.take() == b"+PONG\r\n"
    assert transport.closed


def test_a_killed_client_that_does_not_read_is_cut() -> None:
    shell = Shell()
    host, _ = hosted(shell)
    client, transport = shell.connect()
    client.pause_writing()
    host.kill(client.session)
    assert transport.aborted


@pytest.mark.parametrize("rewrite", [True, False])
def test_who_asks_for_a_stop_waits_for_it(*, rewrite: bool) -> None:
    shell = Shell()
    host, server = hosted(shell)
    session = shell.connect()[0].session
    host.shutdown(session, rewrite=rewrite)
    assert session.waiting == WAIT_HOST
    assert server.asked == [("stop_soon", session, ("rewrite", rewrite))]


def test_what_the_core_asks_for_reaches_the_server() -> None:
    shell = Shell()
    host, server = hosted(shell)
    session = shell.connect()[0].session
    host.configure("timeout")
    host.rewrite_config(session)
    host.save_cluster()
    host.reload_journal(session)
    host.restart(session, 5, clean=True)
    assert [call[0] for call in server.asked] == [
        "configure",
        "rewrite_config_soon",
        "save_nodes",
        "id_taken",
        "reload_soon",
        "restart_soon",
    ]
    assert host.wall_us() > 1_600_000_000_000_000


def test_the_server_says_in_which_form_the_core_runs() -> None:
    assert core_is_compiled() == (FORM == "compiled")
    assert hosted(Shell())[0].facts()["core"] == FORM
