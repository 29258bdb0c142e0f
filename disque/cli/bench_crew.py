"""The processes that make the load: one station in this process, or one in each of several.

A station has its own connections and queues. So stations need nothing from one another, and their tallies add up.
Processes are started fresh (spawn), so that they have no threads and sockets of the parent.
"""

import multiprocessing
import signal
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, Final, NamedTuple, Protocol

from disque.cli.bench_options import Options
from disque.cli.bench_resp import BenchError
from disque.cli.bench_station import Job, OnTick, Station
from disque.cli.bench_tally import Tally

_POLL_S: Final = 0.1
_EXIT_S: Final = 5.0
_GO_ON: Final = 0
_STOP: Final = 1
_INTERRUPTED: Final = 2
_CLEAN: Final = "clean"


class Crew(Protocol):
    """Does steps, one at a time."""

    def run(self, job: Job, on_tick: OnTick) -> Tally:
        """Do one step; what goes wrong is said in the tally, an interrupt (Ctrl-C) too."""
        ...

    def clean(self) -> None:
        """Remove what is left in the server. Raises BenchError when it does not play along."""
        ...

    def close(self) -> None:
        """Close all connections and end all processes."""
        ...


def new_crew(options: Options, prefix: str) -> Crew:
    """Give the crew that the options ask for; its queues begin with `prefix`."""
    return Station(options, f"{prefix}-0", options.connections) if options.clients == 1 else Processes(options, prefix)


def shares(total: int, parts: int) -> list[int]:
    """Divide a number into equal parts, the remainder among the first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


class _Board(NamedTuple):
    """Memory that parent and processes share: operations of each process, and whether to stop."""

    operations: Any
    stop: Any


class Processes:
    """A crew of several processes. Raises BenchError when one of them dies."""

    def __init__(self, options: Options, prefix: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._board = _Board(RawArray("Q", options.clients), RawValue("b", _GO_ON))
        self._pipes: list[Connection] = []
        self._workers = []
        for number, connections in enumerate(shares(options.connections, options.clients)):
            mine, theirs = context.Pipe()
            args = (theirs, options, f"{prefix}-{number}", connections, self._board, number)
            worker = context.Process(target=_work, args=args, daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(mine)
            self._workers.append(worker)

    def run(self, job: Job, on_tick: OnTick) -> Tally:
        """Do one step with all processes at once."""
        self._board.stop.value = _GO_ON
        parts = self._split(job)
        total, interrupted = Tally(), False
        for tally in self._ask(parts, on_tick):
            assert isinstance(tally, Tally)
            total.merge(tally, parallel=True)
            interrupted = interrupted or tally.interrupted
        total.interrupted = interrupted or self._board.stop.value == _INTERRUPTED
        return total

    def _split(self, job: Job) -> list[Job | str]:
        count = len(self._workers)
        job = job._replace(rate=job.rate and job.rate / count)
        if job.operations is None:
            return [job] * count
        return [job._replace(operations=share) for share in shares(job.operations, count)]

    def clean(self) -> None:
        """Remove what is left in the server."""
        for error in self._ask([_CLEAN] * len(self._workers), lambda _operations: True):
            if error:
                raise BenchError(str(error))

    def _ask(self, requests: list[Job | str], on_tick: OnTick) -> list[Tally | str]:
        for number, (pipe, request) in enumerate(zip(self._pipes, requests, strict=True)):
            self._board.operations[number] = 0
            pipe.send(request)
        answers: list[Tally | str] = []
        waiting = list(self._pipes)
        while waiting:
            for pipe in self._ready(waiting, on_tick):
                waiting.remove(pipe)
                answers.append(_receive(pipe))
        return answers

    def _ready(self, waiting: list[Connection], on_tick: OnTick) -> list[Connection]:
        try:
            ready = wait(waiting, _POLL_S)
            if self._board.stop.value == _GO_ON and not on_tick(sum(self._board.operations)):
                self._board.stop.value = _STOP
        except KeyboardInterrupt:
            if self._board.stop.value == _INTERRUPTED:
                raise  # asked twice: do not even wait for the figures
            self._board.stop.value = _INTERRUPTED
            return []
        return [pipe for pipe in ready if isinstance(pipe, Connection)]

    def close(self) -> None:
        """End all processes."""
        for pipe in self._pipes:
            pipe.close()
        for worker in self._workers:
            worker.join(_EXIT_S)
            if worker.is_alive():
                worker.kill()
                worker.join()


def _receive(pipe: Connection) -> Tally | str:
    try:
        answer: Tally | str = pipe.recv()
    except (EOFError, OSError) as error:
        raise BenchError("a client process has died") from error
    return answer


def _work(pipe: Connection, options: Options, prefix: str, connections: int, board: _Board, number: int) -> None:
    """Serve the parent until it closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked as well and says `stop`
    station = Station(options, prefix, connections)

    def on_tick(operations: int) -> bool:
        board.operations[number] = operations
        return not board.stop.value

    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            break
        pipe.send(_clean(station) if request == _CLEAN else station.run(request, on_tick))
    station.close()


def _clean(station: Station) -> str:
    try:
        station.clean()
    except BenchError as error:
        return str(error)
    return ""
