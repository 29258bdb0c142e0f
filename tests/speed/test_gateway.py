"""The load that measures a gateway: it asks again when it is answered, however the answer is cut."""

import asyncio
from typing import Any

import pytest

from tests.speed.gateway import CONSUME, PUBLISH, Talk


class Wire(asyncio.Transport):
    """What was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_job_is_published_again_and_again(size: int) -> None:
    talk, wire = Talk(acknowledge=False), Wire()
    talk.connection_made(wire)
    answer = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nx: y\r\n\r\n{}"
    for at in range(0, len(answer), size):
        talk.data_received(answer[at : at + size])
    assert (wire.sent, talk.done) == ([PUBLISH, PUBLISH], 1)


def test_a_job_is_consumed_and_acknowledged() -> None:
    talk, wire = Talk(acknowledge=True), Wire()
    talk.connection_made(wire)
    talk.data_received(b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"job_id":"abc"}'[:-1] + b"}")
    assert wire.sent[1].startswith(b"DELETE /api/ns/q/job/abc HTTP/1.1\r\n")
    talk.data_received(b"HTTP/1.1 204 No Content\r\n\r\n")
    talk.data_received(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    assert (wire.sent[2:], talk.done) == ([CONSUME, CONSUME], 1)
