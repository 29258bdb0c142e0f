"""The process: configuration, command line, signals, log, background."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.conftest import StartNode
from tests.end_to_end.node import ROOT, Node, ServerError, request, until

ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a server that ends by itself."""
    command = [sys.executable, "-m", "disque.cli.serve", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)


def configured(make_node: StartNode, *lines: str) -> tuple[Node, Path]:
    """A node whose options stand in a file, not started yet."""
    node = make_node()
    path = node.directory / "disque.conf"
    own = [f"port {node.port}", f'dir "{node.directory}"', "bind 127.0.0.1"]
    path.write_text("\n".join([*own, *lines, ""]))
    return node, path


def launch(node: Node, path: Path, *words: str) -> Node:
    return node.launch(command=[sys.executable, "-m", "disque.cli.serve", str(path), *words])


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version(flag: str) -> None:
    done = run(flag)
    assert done.returncode == 0
    assert done.stdout.startswith("Disque server v=")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_usage(flag: str) -> None:
    done = run(flag)
    assert done.returncode == 1
    assert "Usage: disque-server" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("prot 7711", "Bad directive or wrong number of arguments"),
        ("port seventy", "Expected: port <"),
        ("port 70000", "Expected: port <"),
        ("port", "Bad directive or wrong number of arguments"),
        ("appendonly maybe", "Expected: appendonly <yes or no>"),
        ("appendfsync often", "Expected: appendfsync <"),
        ("maxmemory lots", "Expected: maxmemory <"),
        ("client-output-buffer-limit slave 1 1 1", "Expected: client-output-buffer-limit <"),
        ('logfile "unbalanced', ""),
        ("appendfilename a/b", "appendfilename can't be a path, just a filename"),
        ("rename-command nosuch x", "No such command in rename-command"),
    ],
)
def test_a_wrong_line_stops_the_start_with_its_number_and_what_was_expected(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "disque.conf"
    path.write_text(f"# a comment\n\nloglevel notice\n{line}\n")
    done = run(str(path))
    assert done.returncode == 1
    assert "*** FATAL CONFIG FILE ERROR ***" in done.stderr
    assert "at line 4" in done.stderr
    assert f">>> '{line}'" in done.stderr
    assert said in done.stderr


def test_a_wrong_option_of_the_command_line() -> None:
    done = run("--no-such-option", "1")
    assert done.returncode == 1
    assert "no-such-option" in done.stderr


def test_a_configuration_file_that_is_missing(tmp_path: Path) -> None:
    done = run(str(tmp_path / "missing.conf"))
    assert done.returncode == 1
    assert "Fatal error, can't open config file" in done.stderr


def test_the_file_counts_and_the_command_line_after_it(make_node: StartNode) -> None:
    node, path = configured(make_node, "maxclients 100", "maxmemory 50mb")
    launch(node, path, "--maxclients", "200").await_ready()
    assert node.ask("CONFIG", "GET", "maxclients") == [b"maxclients", b"200"]
    assert node.ask("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"52428800"]
    assert f"config_file:{path}" in node.ask("INFO", "server").decode()


def test_config_rewrite_writes_what_the_next_start_reads(make_node: StartNode) -> None:
    node, path = configured(make_node, "# my notes", "maxclients 100", 'rename-command DEBUG ""')
    launch(node, path).await_ready()
    for name, value in (("maxclients", "150"), ("appendonly", "yes"), ("requirepass", 'a "b" c'), ("timeout", "77")):
        raw = node.raw()
        raw.ask("AUTH", 'a "b" c')
        assert raw.ask("CONFIG", "SET", name, value) == b"OK"
    raw = node.raw()
    raw.ask("AUTH", 'a "b" c')
    before = raw.ask("CONFIG", "GET", "*")
    assert raw.ask("CONFIG", "REWRITE") == b"OK"
    text = path.read_text()
    assert "# my notes" in text
    assert "maxclients 150" in text
    assert node.stop() == 0
    launch(node, path).await_ready()
    raw = node.raw()
    assert str(raw.ask("DEBUG", "SLEEP", "0")).startswith("ERR unknown command")
    raw.ask("AUTH", 'a "b" c')
    assert raw.ask("CONFIG", "GET", "*") == before


def test_config_rewrite_without_a_file_is_refused(node: Node) -> None:
    assert str(node.ask("CONFIG", "REWRITE")) == "ERR The server is running without a config file"


def test_a_renamed_command_answers_to_its_new_name_only(start_node: StartNode) -> None:
    node = start_node("--rename-command", "SHUTDOWN", "secret-stop", "--rename-command", "DEBUG", "")
    assert str(node.ask("SHUTDOWN")).startswith("ERR unknown command")
    assert str(node.ask("DEBUG", "SLEEP", 0)).startswith("ERR unknown command")
    node.raw().send(request("SECRET-STOP"))
    assert node.ended() == 0


def test_a_hangup_opens_the_log_anew(start_node: StartNode) -> None:
    node = start_node("--logfile", "server.log", "--loglevel", "verbose")
    log, moved = node.directory / "server.log", node.directory / "server.log.1"
    assert "ready to accept" in log.read_text()
    log.rename(moved)
    node.signal(signal.SIGHUP)
    until(log.exists, "the new log")
    assert node.ask("PING") == b"PONG"
    node.stop()
    assert "bye bye" in log.read_text()
    assert "bye bye" not in moved.read_text()


def test_in_the_background_it_writes_a_pid_file_and_removes_it(make_node: StartNode) -> None:
    node = make_node("--daemonize", "yes", "--pidfile", "server.pid", "--logfile", "server.log")
    node.launch()
    assert node.ended() == 0
    pid_file = node.directory / "server.pid"
    until(lambda: pid_file.exists() and pid_file.read_text(), "the pid file")
    process = psutil.Process(int(pid_file.read_text()))
    try:
        until(lambda: "ready to accept" in (node.directory / "server.log").read_text(), "the server")
        assert node.ask("PING") == b"PONG"
        assert process.parent() != psutil.Process()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        if process.is_running():
            process.kill()
    assert not pid_file.exists()


def test_a_pid_file_is_written_in_the_foreground_if_asked_for(start_node: StartNode) -> None:
    node = start_node("--pidfile", "server.pid")
    assert (node.directory / "server.pid").read_text() == f"{node.pid}\n"
    node.stop()
    assert not (node.directory / "server.pid").exists()


def test_debug_restart_comes_back_with_everything(make_node: StartNode) -> None:
    node, path = configured(make_node, "appendonly yes")
    launch(node, path).await_ready()
    pid = node.pid
    job_id = node.ask("ADDJOB", "q", "body", 0, "RETRY", 0)
    for words in (("DEBUG", "RESTART"), ("DEBUG", "CRASH-AND-RECOVER")):
        run_id = node.info("run_id")
        raw = node.raw()
        raw.send(request(*words))
        assert raw.all() == b""
        node.await_ready()
        assert node.info("run_id") != run_id
        assert node.pid == pid
        assert node.ask("QPEEK", "q", 1) == [[b"q", job_id, b"body"]]


def test_the_directory_can_be_changed_while_it_runs(node: Node, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    assert isinstance(node.ask("CONFIG", "SET", "dir", str(there)), ServerError)
    there.mkdir()
    assert node.ask("CONFIG", "SET", "dir", str(there)) == b"OK"
    node.ask("ADDJOB", "q", "body", 0)
    assert node.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
    assert [path.name for path in there.iterdir()] == ["disque.aof.00000001"]


def test_the_directory_stays_while_the_journal_is_on(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node("--appendonly", "yes")
    refused = node.ask("CONFIG", "SET", "dir", str(tmp_path))
    assert isinstance(refused, ServerError)
    assert "while appendonly is yes" in str(refused)
    assert node.ask("CONFIG", "GET", "dir") == [b"dir", str(node.directory).encode()]
    assert node.ask("CONFIG", "SET", "dir", str(node.directory)) == b"OK"
    assert isinstance(node.ask("CONFIG", "SET", "appendonly", "no", "dir", str(tmp_path)), ServerError)
    assert node.ask("CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]


def test_the_journal_begins_in_the_directory_that_is_set_with_it(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node()
    there, first = tmp_path / "elsewhere", str(node.directory).encode()
    there.mkdir()
    refused = node.ask("CONFIG", "SET", "appendonly", "yes", "dir", str(there), "maxclients", 4_000_000)
    assert isinstance(refused, ServerError)
    assert node.ask("CONFIG", "GET", "dir") == [b"dir", first]
    assert node.ask("CONFIG", "SET", "appendonly", "yes", "dir", str(there)) == b"OK"
    assert any(path.name.startswith("disque.aof.") for path in there.iterdir())
    assert node.ask("ADDJOB", "q", "body", 0)
    node.stop()
    assert node.start("--appendonly", "yes", "--dir", str(there)).ask("QLEN", "q") == 1


def test_the_id_of_a_node_stays(node: Node) -> None:
    name = node.ask("CLUSTER", "MYID")
    node.stop()
    assert node.start().ask("CLUSTER", "MYID") == name


def test_a_second_start_in_the_same_directory_leaves_the_pid_file_alone(
    start_node: StartNode, make_node: StartNode
) -> None:
    node = start_node("--pidfile", "server.pid")
    other = make_node("--pidfile", "server.pid", directory=node.directory)
    other.launch()
    assert other.ended() == 1
    assert (node.directory / "server.pid").read_text() == f"{node.pid}\n"


def test_a_server_that_cannot_open_its_log_says_so_before_it_goes_to_the_background(tmp_path: Path) -> None:
    done = run("--daemonize", "yes", "--dir", str(tmp_path), "--logfile", str(tmp_path / "missing" / "log"))
    assert done.returncode == 1
    assert "Can't open the log file: No such file or directory" in done.stderr


def test_metrics_of_a_running_node(node: Node) -> None:
    node.ask("ADDJOB", "q", "body", 0)
    text = node.ask("METRICS").decode()
    values = {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
    assert values["disque_queue_length"] == values["disque_node_jobs"] == 1
    assert values["disque_memory_resident_bytes"] > 1_000_000
    assert values["disque_bus_sent_bytes_total"] >= 0
