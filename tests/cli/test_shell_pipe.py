"""--pipe: raw protocol in, replies counted."""

import io
import socket
from typing import Any

import pytest

from disque.cli.shell_pipe import Pipe, PipeError


def transfer(server: Any, data: bytes, timeout_s: float = 0.0, clock: Any = None) -> tuple[Pipe, list[str]]:
    complaints: list[str] = []
    with socket.create_connection(("127.0.0.1", server.port)) as connected:
        pipe = Pipe(connected, io.BufferedReader(io.BytesIO(data)), complaints.append)
        if clock is None:
            pipe.run(timeout_s)
        else:
            pipe.run(timeout_s, clock)
    return pipe, complaints


def answer(args: list[bytes]) -> bytes:
    if args[0] == b"PING":
        return b"$%d\r\n%s\r\n" % (len(args[-1]), args[-1])
    return b"-ERR no\r\n" if args[0] == b"BAD" else b"*2\r\n:1\r\n$-1\r\n"


GOOD, BAD = b"*1\r\n$2\r\nOK\r\n", b"*1\r\n$3\r\nBAD\r\n"


def test_replies_and_errors_are_counted(serve: Any) -> None:
    pipe, complaints = transfer(serve(answer), GOOD + BAD + GOOD)
    assert (pipe.errors, pipe.replies) == (1, 3)
    assert complaints == ["All data transferred. Waiting for the last reply...", "ERR no"]


def test_nothing_at_all_is_fine(serve: Any) -> None:
    pipe, _ = transfer(serve(answer), b"")
    assert (pipe.errors, pipe.replies) == (0, 0)


def test_much_goes_both_ways_at_once(serve: Any) -> None:
    pipe, _ = transfer(serve(answer), GOOD * 20000)
    assert (pipe.errors, pipe.replies) == (0, 20000)


def test_the_sentinel_is_a_ping_with_a_random_word(serve: Any) -> None:
    server = serve(answer)
    transfer(server, b"")
    transfer(server, b"")
    (first_ping, first), (second_ping, second) = server.requests
    assert first_ping == second_ping == b"PING"
    assert first != second


def test_a_server_that_leaves_is_a_problem(serve: Any) -> None:
    with pytest.raises(PipeError, match=r"closed the connection|reading from the server"):
        transfer(serve(lambda _args: None), GOOD)


def test_a_server_that_speaks_something_else_is_a_problem(serve: Any) -> None:
    with pytest.raises(PipeError, match="Protocol error"):
        transfer(serve(lambda _args: b"HTTP/1.1 400\r\n"), GOOD)


def test_silence_after_the_end_is_not_waited_for_any_longer(serve: Any) -> None:
    class Clock:
        now_s = 0.0

        def __call__(self) -> float:
            self.now_s += 20.0
            return self.now_s

    with pytest.raises(PipeError, match="No replies for 30 seconds"):
        transfer(serve(lambda _args: b""), GOOD, timeout_s=30.0, clock=Clock())
