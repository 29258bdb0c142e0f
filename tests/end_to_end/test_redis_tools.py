"""The command line tools of Redis."""

import subprocess

from tests.end_to_end.node import LOOPBACK, Node


def run(tool: str, node: Node, *words: str, text: str = "") -> str:
    done = subprocess.run(
        [tool, "-h", LOOPBACK, "-p", str(node.port), *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_redis_cli_runs_a_command(shared: Node, redis_cli: str) -> None:
    job_id = run(redis_cli, shared, "ADDJOB", "q", "body", "0").strip()
    assert run(redis_cli, shared, "GETJOB", "FROM", "q") == f"q\n{job_id}\nbody\n"
    assert run(redis_cli, shared, "ACKJOB", job_id) == "1\n"


def test_redis_cli_in_both_protocols_and_forms(shared: Node, redis_cli: str) -> None:
    run(redis_cli, shared, "ADDJOB", "q", "body", "0")
    for protocol in ("-2", "-3"):
        assert run(redis_cli, shared, protocol, "--csv", "QLEN", "q") == "1\n"
        assert run(redis_cli, shared, protocol, "--raw", "QSTAT", "q").splitlines()[:4] == ["name", "q", "len", "1"]
        assert "tcp_port:" in run(redis_cli, shared, protocol, "INFO", "server")
    assert run(redis_cli, shared, "--csv", "QPEEK", "q", "1").startswith('"q","D-')


def test_redis_cli_shows_errors(shared: Node, redis_cli: str) -> None:
    assert run(redis_cli, shared, "QLEN").strip() == "ERR wrong number of arguments for 'qlen' command"


def test_redis_cli_reads_commands_from_standard_input(shared: Node, redis_cli: str) -> None:
    lines = "".join(f'ADDJOB q "body {number}" 0\n' for number in range(50)) + "QLEN q\nINFO server\n"
    shown = run(redis_cli, shared, text=lines).splitlines()
    assert "50" in shown
    assert sum(line.startswith("D-") for line in shown) == 50


def test_redis_cli_takes_the_last_argument_from_standard_input(shared: Node, redis_cli: str) -> None:
    assert run(redis_cli, shared, "-x", "ECHO", text="from outside") == "from outside\n"


def test_redis_cli_pipes_raw_requests(shared: Node, redis_cli: str) -> None:
    shown = run(redis_cli, shared, "--pipe", text="ADDJOB q body 0\r\n" * 1000)
    assert "errors: 0, replies: 1000" in shown
    assert shared.ask("QLEN", "q") == 1000


def test_redis_benchmark_adds_and_gets(shared: Node, redis_benchmark: str) -> None:
    body = "x" * 100
    added = run(redis_benchmark, shared, "-n", "4000", "-c", "20", "-P", "8", "--csv", "ADDJOB", "q", body, "0")
    assert "ADDJOB q" in added
    assert shared.ask("QLEN", "q") == 4000
    run(redis_benchmark, shared, "-n", "4000", "-c", "20", "--csv", "GETJOB", "NOHANG", "FROM", "q")
    assert shared.ask("QLEN", "q") == 0


def test_redis_benchmark_without_pipelining(shared: Node, redis_benchmark: str) -> None:
    run(redis_benchmark, shared, "-n", "2000", "-c", "50", "--csv", "ADDJOB", "q", "body", "0")
    assert shared.ask("QLEN", "q") == 2000
