from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base import resp


def decoded(data: bytes) -> Any:
    reader = hiredis.Reader()
    reader.feed(data)
    value = reader.gets()
    assert not reader.has_data()
    return value


@pytest.mark.parametrize(
    ("encoded", "wire"),
    [
        (resp.status(b"PONG"), b"+PONG\r\n"),
        (resp.error(b"ERR x"), b"-ERR x\r\n"),
        (resp.integer(-5), b":-5\r\n"),
        (resp.bulk(b""), b"$0\r\n\r\n"),
        (resp.bulk(b"\r\n"), b"$2\r\n\r\n\r\n"),
        (resp.array([]), b"*0\r\n"),
        (resp.array([resp.ONE, resp.array([resp.ZERO])]), b"*2\r\n:1\r\n*1\r\n:0\r\n"),
        (resp.bulks([b"a", b""]), b"*2\r\n$1\r\na\r\n$0\r\n\r\n"),
        (resp.null_bulk(2), b"$-1\r\n"),
        (resp.null_array(2), b"*-1\r\n"),
        (resp.null_bulk(3), b"_\r\n"),
        (resp.null_array(3), b"_\r\n"),
        (resp.mapping([resp.ONE, resp.ZERO], 2), b"*2\r\n:1\r\n:0\r\n"),
        (resp.mapping([resp.ONE, resp.ZERO], 3), b"%1\r\n:1\r\n:0\r\n"),
        (resp.mapping([], 3), b"%0\r\n"),
        (resp.unordered([resp.ONE], 2), b"*1\r\n:1\r\n"),
        (resp.unordered([resp.ONE], 3), b"~1\r\n:1\r\n"),
        (resp.text(b"x\r\n", 2), b"$3\r\nx\r\n\r\n"),
        (resp.text(b"x\r\n", 3), b"=7\r\ntxt:x\r\n\r\n"),
    ],
)
def test_values_on_the_wire(encoded: bytes, wire: bytes) -> None:
    assert encoded == wire


@given(st.binary())
def test_any_bytes_come_back(data: bytes) -> None:
    assert decoded(resp.bulk(data)) == data


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_integer_comes_back(value: int) -> None:
    assert decoded(resp.integer(value)) == value


@given(st.lists(st.tuples(st.binary(), st.binary()), unique_by=lambda pair: pair[0]))
def test_a_map_comes_back(pairs: list[tuple[bytes, bytes]]) -> None:
    encoded = [resp.bulk(word) for pair in pairs for word in pair]
    assert decoded(resp.mapping(encoded, 3)) == dict(pairs)
    assert decoded(resp.mapping(encoded, 2)) == [word for pair in pairs for word in pair]
