"""Gateways and nodes that die, hang and come back, as clients see it: real processes."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT, path_of
from tests.end_to_end.node import LOOPBACK, Node, free_port, until

TOKEN: Final = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#: So many of very many polls get a job.
SERVED: Final = 20


class Process:
    """A gateway of its own."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.port = free_port()
        self.node = node
        (folder / "tokens").write_text(json.dumps({"ns": {TOKEN: {"description": "x"}}}))
        words = ["--nodes", f"{LOOPBACK}:{node.port}", "--listen", f"{LOOPBACK}:{self.port}", "--grace", "5"]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "disque.gateway.main", *words, "--tokens-file", str(folder / "tokens")],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        until(lambda: "listening" in (folder / "log").read_text(), "the gateway")

    def send(self, method: str, path: str, body: bytes = b"") -> socket.socket:
        """Begin a request."""
        raw = socket.create_connection((LOOPBACK, self.port), 60)
        head = f"{method} /api/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Token: {TOKEN}\r\n"
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return raw

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
        with closing(self.send(method, path, body)) as raw:
            return answer(raw)

    def get(self, path: str) -> tuple[int, str]:
        """A page, as somebody without a login gets it."""
        with closing(socket.create_connection((LOOPBACK, self.port), 60)) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            return answer(raw)

    def until_it_waits(self) -> None:
        """Wait until a long poll of the gateway waits at the node."""
        until(lambda: int(self.node.info("blocked_clients")), "the poll")

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def answer(raw: socket.socket) -> tuple[int, str]:
    """Status and all the rest."""
    data = b"".join(iter(lambda: raw.recv(65536), b"")).decode()
    return (int(data[9:12]) if data else 0), data


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node of its own, with a journal."""
    one = Node(tmp_path, "--appendonly", "yes").start()
    yield one
    one.discard()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[Node]]:
    """Three nodes that know each other; what hangs at the end goes on."""
    nodes = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        nodes.append(Node(tmp_path / name, "--default-replicate", "2").start())
    for other in nodes[1:]:
        assert nodes[0].ask("CLUSTER", "MEET", LOOPBACK, other.port) == b"OK"
    until(lambda: all(one.ask("HELLO")[3:] for one in nodes), "the nodes to know each other")
    yield nodes
    for each in nodes:
        each.signal(signal.SIGCONT)
        each.discard()


@pytest.fixture
def process(tmp_path: Path, node: Node) -> Iterator[Process]:
    one = Process(tmp_path, node)
    yield one
    if one.process.poll() is None:
        one.end()


def test_a_gateway_that_is_killed_in_a_long_poll_loses_no_job(process: Process, node: Node) -> None:
    poll = process.send("GET", "ns/q?timeout=60&ttr=1")
    process.until_it_waits()
    process.process.send_signal(signal.SIGSTOP)
    job_id = node.ask("ADDJOB", "ns/q", "precious", 1000)
    until(lambda: not int(node.info("blocked_clients")), "the node to give the job away")
    process.end()
    assert answer(poll)[0] == 0, "its client got nothing"
    poll.close()
    [[_, again, body]] = node.ask("GETJOB", "TIMEOUT", 60_000, "FROM", "ns/q")
    assert (again, body) == (job_id, b"precious")


def test_a_gateway_that_stops_answers_its_polls_and_takes_nothing_along(process: Process, node: Node) -> None:
    poll = process.send("GET", "ns/q?timeout=60")
    process.until_it_waits()
    assert process.end(signal.SIGTERM) == 0
    status, text = answer(poll)
    poll.close()
    assert (status, text.endswith('{"msg":"no job available"}')) == (404, True)
    assert int(node.info("blocked_clients")) == 0


def test_without_nodes_it_says_so_and_goes_on_when_they_are_back(process: Process, node: Node) -> None:
    assert process.ask("PUT", "ns/q", b"one")[0] == 201
    node.kill()
    status, text = process.ask("PUT", "ns/q", b"two")
    assert status == 503
    assert "retry-after: 1" in text.lower()
    node.start()
    until(lambda: process.ask("PUT", "ns/q", b"three")[0] == 201, "the node to be used again")
    assert process.ask("GET", "ns/q")[0] == 200


@pytest.mark.slow
def test_a_node_that_hangs_is_told_as_one_that_is_away(process: Process, node: Node) -> None:
    assert process.ask("PUT", "ns/q", b"one")[0] == 201
    node.signal(signal.SIGSTOP)
    assert process.ask("PUT", "ns/q", b"two")[0] == 503
    node.signal(signal.SIGCONT)
    until(lambda: process.ask("PUT", "ns/q", b"three")[0] == 201, "the node to be used again")


def post(process: Process, path: str, body: str) -> tuple[int, str]:
    """A request to REST."""
    head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with closing(socket.create_connection((LOOPBACK, process.port), 60)) as raw:
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        return answer(raw)


@pytest.mark.slow
def test_what_was_sent_to_a_node_that_hangs_goes_to_another_one(cluster: list[Node], tmp_path: Path) -> None:
    """Seconds are not looked at: who waited for the node would have no answer before the test ends."""
    one = Process(tmp_path, cluster[0])
    try:
        assert one.ask("PUT", "ns/q", b"one")[0] == 201
        poll = one.send("GET", "ns/later?timeout=600")
        until(lambda: any(int(node.info("blocked_clients")) for node in cluster), "the poll")
        cluster[0].signal(signal.SIGSTOP)
        assert one.ask("PUT", "ns/q", b"two")[0] == 201
        assert post(one, "queues/q/jobs", '{"body": "x"}')[0] == 201
        assert one.ask("PUT", "ns/later", b"three")[0] == 201
        assert answer(poll)[0] == 200
        poll.close()
        for hangs in cluster:
            hangs.signal(signal.SIGSTOP)
        status, text = post(one, "queues/q/jobs", '{"body": "x"}')
        assert (status, "retry-after: 1" in text.lower()) == (504, True)
    finally:
        one.end()


def test_what_hangs_in_the_middle_of_a_request_hinders_nobody(process: Process, node: Node) -> None:
    slow = [socket.create_connection((LOOPBACK, process.port)) for _ in range(50)]
    for raw in slow[:25]:
        raw.sendall(b"PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nX-To")
    for raw in slow[25:]:
        raw.sendall(f"PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nX-Token: {TOKEN}\r\nContent-Length: 1000\r\n\r\nx".encode())
    assert process.ask("PUT", "ns/q", b"one")[0] == 201
    for raw in slow:
        raw.close()
    assert node.ask("QLEN", "ns/q") == 1


@pytest.mark.slow
def test_pages_wait_for_a_node_that_hangs_once_at_most(cluster: list[Node], tmp_path: Path) -> None:
    """Seconds are not looked at: a page that waited for the node would not come before that goes on."""
    nodes = cluster
    one = Process(tmp_path, nodes[0])
    try:
        assert one.get("/")[0] == 200
        for hangs in nodes:
            hangs.signal(signal.SIGSTOP)
            for path in ("/", "/queues", "/queues/mails", "/jobs?queue=mails", "/nodes", "/workers", "/api/v1/nodes"):
                status, text = one.get(path)
                assert status == 200, path
                assert "does not answer" in text or path not in {"/nodes", "/workers", "/api/v1/nodes"}, path
            hangs.signal(signal.SIGCONT)
            until(lambda: "does not answer" not in one.get("/nodes")[1], "the node to be asked again")
        for hangs in nodes:
            hangs.signal(signal.SIGSTOP)
        status, text = one.get("/schedules")
        assert (status, "retry-after: 1" in text.lower()) == (503, True)
        for hangs in nodes:
            hangs.signal(signal.SIGCONT)
        until(lambda: one.get("/schedules")[0] == 200, "the nodes to be asked again")
    finally:
        one.end()


@pytest.mark.slow
def test_prometheus_finds_nothing_wrong_with_the_metrics_of_a_cluster(cluster: list[Node], tmp_path: Path) -> None:
    one = Process(tmp_path, cluster[0])
    try:
        until(lambda: one.get("/metrics")[1].count("disque_cluster_link_up{") == len(cluster) * 2, "all links")
        text = one.get("/metrics")[1].partition("\r\n\r\n")[2]
    finally:
        one.end()
    said = subprocess.run(
        [path_of("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


def await_polls(process: Process, count: int) -> None:
    """Wait until the gateway has so many long polls."""
    until(lambda: f"disque_gateway_polls {count}.0" in process.get("/metrics/gateway")[1], f"{count} polls")


@pytest.mark.slow
def test_ten_thousand_long_polls_are_served_in_their_order_and_end_with_the_gateway(
    process: Process, node: Node
) -> None:
    polls = 10_000
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < polls + 1000:
        pytest.skip("a process may not have so many open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asked = []
    for number in range(1, SERVED + 1):  # one by one, so that their order is known
        asked.append(process.send("GET", "ns/q?timeout=600"))
        await_polls(process, number)
    asked += [process.send("GET", "ns/q?timeout=600") for _ in range(polls - SERVED)]
    await_polls(process, polls)
    assert int(node.info("blocked_clients")) == 1
    job_ids = [process.ask("PUT", "ns/q", b"x")[1].partition('"job_id":"')[2][:40] for _ in range(SERVED)]
    for poll, job_id in zip(asked, job_ids, strict=False):
        status, text = answer(poll)
        assert (status, job_id in text) == (200, True)
    assert process.end(signal.SIGTERM) == 0
    statuses = Counter(answer(poll)[0] for poll in asked[len(job_ids) :])
    assert statuses == {404: polls - len(job_ids)}
    for poll in asked:
        poll.close()
