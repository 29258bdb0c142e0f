"""Bodies of requests: bounded in size, in time, and all together."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from disque.gateway import asgi
from disque.gateway.asgi import (
    CrowdedError,
    GoneError,
    Reading,
    TooLargeError,
    TooSlowError,
    WholeTooLargeError,
    as_json,
    header,
    headers,
)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def coming(*parts: bytes | None) -> Receive:
    """A client that sends these parts; None: it leaves; and is silent behind the last one that is empty."""
    left = list(parts)

    async def receive() -> MutableMapping[str, Any]:
        if not left:
            await asyncio.Event().wait()
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(left) or part == b"..."}

    return receive


def read(receive: Receive, most: int = 10, reading: Reading | None = None) -> bytes:
    return asyncio.run((reading or Reading()).body(receive, most))


class TestBodies:
    def test_parts_become_one(self) -> None:
        assert read(coming(b"")) == b""
        assert read(coming(b"one")) == b"one"
        assert read(coming(b"one", b"two", b"")) == b"onetwo"

    def test_as_many_bytes_as_allowed_and_no_more(self) -> None:
        assert read(coming(b"12345", b"67890")) == b"1234567890"
        for parts in ([b"12345678901"], [b"123456789", b"012"], [b"123456789", b"01", b"", b""]):
            with pytest.raises(TooLargeError):
                read(coming(*parts))

    def test_one_that_is_too_large_is_read_to_its_end_and_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asgi, "DROPPED_MOST", 20)
        for parts in ([b"x" * 11], [b"x" * 9, b"x" * 9, b"x" * 20], [b"x" * 11, b"x" * 10, b"x" * 10]):
            with pytest.raises(WholeTooLargeError):
                read(coming(*parts))
        with pytest.raises(TooLargeError) as refused:
            read(coming(b"x" * 11, b"x" * 10, b"x" * 11))
        assert refused.value.more == {"Connection": "close"}
        with pytest.raises(GoneError):
            read(coming(b"x" * 11, b"x", None))

    def test_who_leaves_sends_nothing(self) -> None:
        for parts in ([None], [b"one", None]):
            with pytest.raises(GoneError):
                read(coming(*parts))

    def test_a_body_that_does_not_come_is_given_up(self) -> None:
        with pytest.raises(TooSlowError):
            read(coming(b"..."), reading=Reading(patience_s=0))

    def test_bodies_that_are_read_at_one_time_have_a_bound_together(self) -> None:
        reading = Reading(most=15)

        async def both() -> list[bytes | BaseException]:
            slow = [reading.body(coming(b"12345678", b"..."), 20), reading.body(coming(b"12345678", b"9"), 20)]
            tasks = [asyncio.ensure_future(one) for one in slow]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            tasks[0].cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        assert any(isinstance(one, CrowdedError) for one in asyncio.run(both()))
        assert reading.held == 0, "nothing is held any more"


class TestJson:
    def test_keys_are_in_order_and_signs_of_html_are_not_there(self) -> None:
        assert as_json({"b": "<&>", "a": [1, None]}) == b'{"a":[1,null],"b":"\\u003c\\u0026\\u003e"}'
        assert as_json("\u00e9\u2028") == b'"\xc3\xa9\\u2028"'

    def test_what_is_no_text_does_not_end_an_answer(self) -> None:
        assert as_json("\udcff") == b'"?"'


def test_the_first_of_several_headers_counts() -> None:
    scope = {"headers": [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]}
    assert header(scope, b"a") == b"1"
    assert header(scope, b"c") == b""
    assert list(headers(scope, b"a")) == [b"1", b"3"]
