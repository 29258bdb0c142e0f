"""`disque bench` from its arguments to its exit code, against a small server in a thread and against redis-server."""

import asyncio
import contextlib
import fnmatch
import itertools
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import hiredis
import psutil
import pytest

from disque.cli import bench, bench_run
from disque.cli.bench_options import Amount

FAST = ["-c", "4", "-n", "300", "--warmup", "20", "--no-progress", "--json", "--clients", "1"]


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(value), value)


def array(items: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(items) + b"".join(items)


class FakeServer:
    """Queues, lists and keys in dicts behind just enough RESP, on a thread of its own.

    `override` answers a command by name with given bytes; `close_after` cuts every connection after so many commands;
    `spoil` may change what a job's delivery looks like.
    """

    def __init__(self, kind: str, password: bytes = b"") -> None:
        self.kind = kind
        self.password = password
        self.queues: dict[bytes, deque[tuple[bytes, bytes]]] = {}
        self.active: dict[bytes, bytes] = {}
        self.keys: dict[bytes, bytes] = {}
        self.seen: list[list[bytes]] = []
        self.override: dict[bytes, bytes] = {}
        self.close_after: int | None = None
        self.spoil: Callable[[int], int] = lambda _number: 1
        self.waiting: deque[tuple[FakeConnection, list[bytes]]] = deque()
        self.numbers = itertools.count()
        self.port = 0
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_args: object) -> None:
        assert self._loop
        assert self._stop
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: FakeConnection(self), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    def args(self) -> list[str]:
        return ["-p", str(self.port)]

    def requests(self, name: bytes) -> list[list[bytes]]:
        return [request for request in self.seen if request[0] == name]

    def answer(self, client: "FakeConnection", request: list[bytes]) -> bytes:
        name = request[0]
        self.seen.append(request)
        if self.close_after is not None and len(self.seen) > self.close_after:
            client.close()
            return b""
        if self.password and not client.allowed and name != b"AUTH":
            return b"-NOAUTH Authentication required.\r\n"
        return self.override.get(name) or self._do(client, name.decode().lower(), request[1:])

    def _do(self, client: "FakeConnection", name: str, args: list[bytes]) -> bytes:
        act = getattr(self, f"do_{name}", None)
        if act is None:
            return b"-ERR unknown command '%s'\r\n" % name.encode()
        reply: bytes = act(args, client) if name in {"auth", "getjob"} else act(args)
        return reply

    def do_auth(self, args: list[bytes], client: "FakeConnection") -> bytes:
        client.allowed = args[-1] == self.password
        return b"+OK\r\n" if client.allowed else b"-WRONGPASS invalid password\r\n"

    def do_info(self, _args: list[bytes]) -> bytes:
        uptime = int(time.time() - psutil.Process().create_time())
        text = f"# Server\r\n{self.kind}_version:1.2.3\r\nprocess_id:{os.getpid()}\r\nuptime_in_seconds:{uptime}\r\n"
        return bulk(text.encode())

    def do_addjob(self, args: list[bytes]) -> bytes:
        job_id = b"D-%038d" % next(self.numbers)
        number = int(job_id[2:])
        for _ in range(self.spoil(number)):
            self.queues.setdefault(args[0], deque()).append((job_id, args[1]))
        self._serve_waiting()
        return b"+%s\r\n" % job_id

    def do_getjob(self, args: list[bytes], client: "FakeConnection") -> bytes:
        found = self._fetch(args)
        if found or args[0] == b"NOHANG":
            return found or b"*-1\r\n"
        assert self._loop
        entry = (client, args)
        self.waiting.append(entry)
        self._loop.call_later(int(args[1]) / 1000, self._time_out, entry)
        return b""

    def _fetch(self, args: list[bytes]) -> bytes:
        count = int(args[args.index(b"COUNT") + 1]) if b"COUNT" in args else 1
        jobs: list[bytes] = []
        for queue in args[args.index(b"FROM") + 1 :]:
            line = self.queues.get(queue, deque())
            while line and len(jobs) < count:
                job_id, body = line.popleft()
                self.active[job_id] = body
                jobs.append(array([bulk(queue), bulk(job_id), bulk(body)]))
        return array(jobs) if jobs else b""

    def _serve_waiting(self) -> None:
        for _ in range(len(self.waiting)):
            client, args = self.waiting.popleft()
            found = self._fetch(args)
            if found:
                client.write(found)
            else:
                self.waiting.append((client, args))

    def _time_out(self, entry: tuple["FakeConnection", list[bytes]]) -> None:
        if entry in self.waiting:
            self.waiting.remove(entry)
            entry[0].write(b"*-1\r\n")

    def do_ackjob(self, args: list[bytes]) -> bytes:
        return b":%d\r\n" % sum(self.active.pop(job_id, None) is not None for job_id in args)

    def do_jscan(self, args: list[bytes]) -> bytes:
        found = [bulk(job_id) for job_id, _body in self.queues.pop(args[-1], deque())]
        return array([bulk(b"0"), array(found)])

    def do_lpush(self, args: list[bytes]) -> bytes:
        line = self.queues.setdefault(args[0], deque())
        line.appendleft((b"", args[1]))
        return b":%d\r\n" % len(line)

    def do_rpop(self, args: list[bytes]) -> bytes:
        line = self.queues.get(args[0], deque())
        if len(args) == 1:
            return bulk(line.pop()[1]) if line else b"$-1\r\n"
        return array([bulk(line.pop()[1]) for _ in range(min(int(args[1]), len(line)))]) if line else b"*-1\r\n"

    def do_set(self, args: list[bytes]) -> bytes:
        self.keys[args[0]] = args[1]
        return b"+OK\r\n"

    def do_del(self, args: list[bytes]) -> bytes:
        return b":%d\r\n" % sum(self.keys.pop(key, None) is not None for key in args)

    def do_scan(self, args: list[bytes]) -> bytes:
        names = [name for name in [*self.keys, *self.queues] if fnmatch.fnmatchcase(name.decode(), args[-1].decode())]
        return array([bulk(b"0"), array([bulk(name) for name in names])])

    def do_unlink(self, args: list[bytes]) -> bytes:
        for key in args:
            self.keys.pop(key, None)
            self.queues.pop(key, None)
        return b":1\r\n"


class FakeConnection(asyncio.Protocol):
    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.reader = hiredis.Reader()
        self.allowed = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
        while (request := self.reader.gets()) is not False:
            self.write(self.server.answer(self, request))

    def write(self, data: bytes) -> None:
        assert self.transport
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        assert self.transport
        self.transport.abort()


@pytest.fixture
def disque() -> Iterator[FakeServer]:
    with FakeServer("disque") as server:
        yield server


@pytest.fixture
def redis() -> Iterator[FakeServer]:
    with FakeServer("redis") as server:
        yield server


Figures = dict[str, Any]


def measure(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[Figures], str]:
    code = bench.main([*FAST, *argv])
    output = capsys.readouterr()
    return code, json.loads(output.out)["workloads"] if output.out else [], output.err


class TestWorkloads:
    @pytest.mark.parametrize("depth", ["1", "7", "16"])
    @pytest.mark.parametrize("workload", ["add", "get", "ack", "cycle", "mixed"])
    def test_each_does_as_many_operations_as_asked(
        self, workload: str, depth: str, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, [figures], err = measure(capsys, workload, "-P", depth, *disque.args())
        assert (code, err) == (0, "")
        assert figures["operations"] == 300
        assert figures["errors"] == {}
        assert figures["empty_replies"] == 0 or workload == "mixed"
        assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["max"]

    @pytest.mark.parametrize("workload", ["lpush", "rpop", "del"])
    @pytest.mark.parametrize("depth", ["1", "16"])
    def test_yardsticks_speak_to_redis(
        self, workload: str, depth: str, redis: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, [figures], _err = measure(capsys, workload, "-P", depth, *redis.args())
        assert code == 0
        assert figures["operations"] == 300
        assert figures["empty_replies"] == 0

    @pytest.mark.parametrize("workload", ["add", "get", "ack", "cycle", "mixed"])
    def test_nothing_is_left_behind(
        self, workload: str, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        measure(capsys, workload, "--queues", "3", *disque.args())
        assert not any(disque.queues.values())
        assert disque.active == {}

    @pytest.mark.parametrize("workload", ["lpush", "rpop", "del"])
    def test_nothing_is_left_behind_in_redis(
        self, workload: str, redis: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        measure(capsys, workload, "--queues", "3", *redis.args())
        assert not redis.queues
        assert not redis.keys

    def test_keep_leaves_the_jobs(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        measure(capsys, "add", "--keep", *disque.args())
        assert sum(map(len, disque.queues.values())) == 320

    @pytest.mark.parametrize("queues", ["1", "3", "7"])
    def test_getjob_finds_exactly_what_was_prepared_for_it(
        self, queues: str, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        argv = ["get", "--count", "5", "--queues", queues, "-P", "4", *disque.args()]
        _code, [figures], _err = measure(capsys, *argv)
        assert figures["jobs"] == 1500
        assert figures["empty_replies"] == 0

    def test_rpop_takes_count_too(self, redis: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        _code, [figures], _err = measure(capsys, "rpop", "--count", "5", *redis.args())
        assert figures["jobs"] == 1500

    def test_cycle_with_count_acknowledges_what_came_together_at_once(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _code, [figures], _err = measure(capsys, "cycle", "--count", "4", "-P", "4", "--queues", "3", *disque.args())
        assert figures["empty_replies"] == 0
        assert figures["jobs"] == 300
        assert figures["requests"] == 300 + 75 + 75

    def test_options_of_a_job_go_into_each_addjob(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        options = ["--replicate", "2", "--retry", "9", "--ttl", "60", "--delay", "1", "--async", "-d", "7"]
        measure(capsys, "add", *options, *disque.args())
        request = disque.requests(b"ADDJOB")[0]
        assert len(request[2]) == 7
        assert request[4:] == [b"REPLICATE", b"2", b"RETRY", b"9", b"TTL", b"60", b"DELAY", b"1", b"ASYNC"]

    def test_same_seed_same_bodies(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        for seed in ("1", "1", "2"):
            measure(capsys, "add", "--seed", seed, *disque.args())
        bodies = list(dict.fromkeys(request[2] for request in disque.requests(b"ADDJOB")))
        assert len(bodies) == 2

    def test_seconds_end_a_run_that_has_no_number_of_operations(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        argv = ["add", "cycle", "--seconds", "0.05", "-c", "2", "--warmup", "0.01s", "--json", *disque.args()]
        assert bench.main(argv) == 0
        assert all(row["operations"] > 0 for row in json.loads(capsys.readouterr().out)["workloads"])

    def test_several_client_processes_share_the_work(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, rows, err = measure(capsys, "add", "mixed", "--clients", "2", *disque.args())
        assert (code, err) == (0, "")
        assert [row["operations"] for row in rows] == [300, 300]
        assert rows[0]["client_processes"] == 2
        assert len({request[1] for request in disque.requests(b"ADDJOB")}) == 4

    @pytest.mark.parametrize("clients", ["1", "2"])
    def test_a_rate_is_kept(self, clients: str, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        argv = ["--rate", "1500", "-n", "150", "--clients", clients, *disque.args()]
        code, rows, err = measure(capsys, "add", "cycle", "mixed", *argv)
        assert (code, err) == (0, "")
        assert [row["operations"] for row in rows] == [150, 150, 150]
        assert all(0 < row["operations_per_s"] < 1700 for row in rows), "what is not due is not sent"
        assert rows[0]["latency_of"] == "a request, from when it was due"

    def test_bodies_of_megabytes_get_through(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        argv = ["add", "get", "-d", "3000000", "-n", "4", "-c", "2", "-P", "2", "--warmup", "0", "--json"]
        assert bench.main([*argv, *disque.args()]) == 0
        assert [row["operations"] for row in json.loads(capsys.readouterr().out)["workloads"]] == [4, 4]


class TestMixed:
    def test_all_jobs_come_once(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        code, [figures], _err = measure(capsys, "mixed", "-P", "4", "--queues", "3", "--count", "3", *disque.args())
        assert code == 0
        assert (figures["added"], figures["lost"], figures["twice"], figures["foreign"]) == (300, 0, 0, 0)
        assert figures["delivery_ms"]["p50"] > 0

    def test_jobs_that_come_twice_are_counted(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.spoil = lambda number: 2 if number in {100, 200} else 1
        code, [figures], _err = measure(capsys, "mixed", *disque.args())
        assert code == 1
        assert figures["twice"] == 2

    def test_jobs_that_never_come_are_counted(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("disque.cli.bench_station._SETTLE_MS", 200)
        disque.spoil = lambda number: 0 if number in {100, 200, 300} else 1
        code, [figures], _err = measure(capsys, "mixed", *disque.args())
        assert code == 1
        assert figures["lost"] == 3
        assert figures["operations"] == 297


class TestComparison:
    def test_two_servers_take_turns(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        with FakeServer("disque") as other:
            argv = ["add", "--compare", f"127.0.0.1:{other.port}", "--slices", "5", *disque.args(), *FAST]
            assert bench.main(argv) == 0
        document = json.loads(capsys.readouterr().out)
        assert [row["operations"] for row in document["workloads"]] == [300, 300]
        [ratio] = document["ratios"]
        assert len(ratio["slices"]) == 5
        assert ratio["min"] <= ratio["median"] <= ratio["max"]

    def test_a_redis_does_what_comes_nearest(
        self, disque: FakeServer, redis: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        argv = ["add", "get", "ack", "--compare", f"127.0.0.1:{redis.port}", *disque.args(), *FAST]
        assert bench.main(argv) == 0
        ratios = json.loads(capsys.readouterr().out)["ratios"]
        assert [(pair["workload"], pair["against"]) for pair in ratios] == [
            ("add", "lpush"),
            ("get", "rpop"),
            ("ack", "del"),
        ]

    def test_the_other_workload_can_be_named(
        self, disque: FakeServer, redis: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = ["--compare", f"127.0.0.1:{redis.port}", "--compare-workload", "rpop"]
        assert bench.main(["add", *other, *disque.args(), *FAST]) == 0
        assert json.loads(capsys.readouterr().out)["ratios"][0]["against"] == "rpop"

    def test_what_redis_cannot_do_is_said(
        self, disque: FakeServer, redis: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _rows, err = measure(capsys, "cycle", "--compare", f"127.0.0.1:{redis.port}", *disque.args())
        assert code == 1
        assert "Redis has nothing like 'cycle'" in err

    def test_servers_are_loaded_in_turns(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order = []
        original = bench_run.Side.measure

        def spy(self: bench_run.Side, figures: bench_run.Figures, amount: Amount) -> None:
            order.append((figures.address, amount.operations))
            original(self, figures, amount)

        monkeypatch.setattr(bench_run.Side, "measure", spy)
        with FakeServer("disque") as other:
            measure(capsys, "get", "--compare", f"127.0.0.1:{other.port}", "--slices", "3", *disque.args())
            turns = [(f"127.0.0.1:{disque.port}", 100), (f"127.0.0.1:{other.port}", 100)]
        assert order == turns * 3


class TestTrouble:
    def one_line(self, code: int, err: str) -> str:
        assert code == 1
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err

    def test_nobody_listens(self, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            code, rows, err = measure(capsys, "add", "-p", str(free.getsockname()[1]))
        assert rows == []
        assert "Connection refused" in self.one_line(code, err)

    def test_no_unix_socket(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _rows, err = measure(capsys, "add", "-s", str(tmp_path / "nothing"))
        assert "No such file" in self.one_line(code, err)

    def test_password_missing_and_wrong_and_right(self, capsys: pytest.CaptureFixture[str]) -> None:
        with FakeServer("disque", b"secret") as server:
            code, _rows, err = measure(capsys, "add", *server.args())
            assert "NOAUTH" in self.one_line(code, err)
            code, _rows, err = measure(capsys, "add", "-a", "guess", *server.args())
            assert "WRONGPASS" in self.one_line(code, err)
            code, _rows, err = measure(capsys, "add", "-a", "secret", "--user", "default", *server.args())
            assert (code, err) == (0, "")

    @pytest.mark.parametrize("error", [b"-OOM command not allowed.\r\n", b"-MISCONF Errors writing.\r\n"])
    def test_an_error_that_will_not_go_away_ends_the_run(
        self, error: bytes, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        disque.override[b"ADDJOB"] = error
        code, _rows, err = measure(capsys, "add", "--warmup", "0", *disque.args())
        assert error[1:].decode().strip() in self.one_line(code, err)

    def test_errors_are_counted_by_their_text(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.override[b"ADDJOB"] = b"-PAUSED Queue paused in input, try later\r\n"
        argv = ["add", *disque.args(), "-n", "30", "-c", "3", "-P", "5", "--warmup", "0"]
        assert bench.main([*argv, "--json"]) == 1
        [figures] = json.loads(capsys.readouterr().out)["workloads"]
        assert figures["errors"] == {"PAUSED Queue paused in input, try later": 30}
        assert bench.main(argv) == 1
        assert "30 x PAUSED" in capsys.readouterr().out

    def test_errors_before_measuring_end_the_run(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.override[b"ADDJOB"] = b"-NOREPL Not enough reachable nodes\r\n"
        code, rows, err = measure(capsys, "get", *disque.args())
        assert rows == []
        assert "NOREPL" in self.one_line(code, err)

    def test_the_server_goes_away(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.close_after = 150
        code, [figures], err = measure(capsys, "add", *disque.args())
        assert "after 1" in self.one_line(code, err)
        assert 100 < figures["operations"] < 150
        assert not figures["complete"]
        assert figures["server_cpu_s_per_1000"] is None

    def test_the_table_of_a_run_that_ended_early_has_no_server_figures(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        disque.close_after = 150
        assert bench.main(["add", "-c", "4", "--warmup", "0", *disque.args()]) == 1
        assert "->-" in capsys.readouterr().out

    def test_a_comparison_that_fails_leaves_nothing_in_the_other_server(
        self, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with FakeServer("disque") as other:
            other.override[b"ADDJOB"] = b"-OOM no\r\n"
            code, _rows, err = measure(capsys, "add", "--compare", f"127.0.0.1:{other.port}", *disque.args())
        assert "OOM" in self.one_line(code, err)
        assert not any(disque.queues.values())

    def test_a_host_that_is_no_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _rows, err = measure(capsys, "add", "-h", "a..b")
        assert "Could not connect to a..b:7711" in self.one_line(code, err)

    def test_not_resp(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.override[b"ADDJOB"] = b"HTTP/1.1 400 Bad Request\r\n"
        code, _rows, err = measure(capsys, "add", *disque.args())
        assert "does not speak RESP" in self.one_line(code, err)

    def test_more_replies_than_requests(self, disque: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
        disque.override[b"ADDJOB"] = b"+D-1\r\n+D-2\r\n"
        code, _rows, err = measure(capsys, "add", *disque.args())
        assert "more replies" in self.one_line(code, err)

    def test_a_redis_is_told_from_a_disque(
        self, redis: FakeServer, disque: FakeServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _rows, err = measure(capsys, "add", *redis.args())
        assert "its yardstick is 'lpush'" in self.one_line(code, err)
        code, _rows, err = measure(capsys, "lpush", *disque.args())
        assert "cannot do 'lpush'" in self.one_line(code, err)

    def test_arguments(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bench.main(["nonsense"]) == 2
        assert "unknown workload 'nonsense'" in capsys.readouterr().err

    def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bench.main(["--help"]) == 0
        assert "producers" in capsys.readouterr().out

    @pytest.mark.parametrize("clients", ["1", "2"])
    def test_an_interrupt_prints_what_was_measured(
        self, clients: str, disque: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_bar: object, label: str, operations: int, _amount: Amount) -> bool:
            if label.startswith("add 127") and operations > 0:
                raise KeyboardInterrupt
            return True

        monkeypatch.setattr("disque.cli.bench_report.ProgressBar.__call__", interrupt)
        argv = ["add", "--seconds", "60", "-c", "4", "--warmup", "0", "--json", "--clients", clients]
        assert bench.main([*argv, *disque.args()]) == 130
        output = capsys.readouterr()
        [figures] = json.loads(output.out)["workloads"]
        assert figures["operations"] > 0
        assert not figures["complete"]
        assert "interrupted" in output.err


@pytest.fixture
def real_redis(tmp_path: Path, free_port: int) -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is missing: apt-get install redis-server")
    options = ["--port", str(free_port), "--save", "", "--appendonly", "no", "--dir", str(tmp_path)]
    options += ["--unixsocket", str(tmp_path / "redis.sock")]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(free_port)
            yield free_port
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
    raise AssertionError("redis-server does not answer")


class TestRealRedis:
    def test_yardsticks(self, real_redis: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for place in (["-p", str(real_redis)], ["-s", str(tmp_path / "redis.sock")]):
            code, rows, err = measure(capsys, "lpush", "rpop", "del", "-P", "8", *place)
            assert (code, err) == (0, "")
            assert [row["operations"] for row in rows] == [300] * 3
            assert all(row["empty_replies"] == 0 for row in rows)
            assert {row["server_figures_from"] for row in rows} == {"process"}
            assert all(row["rss_after_bytes"] > 0 for row in rows)
