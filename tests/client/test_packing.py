from typing import Any

import pytest
from redis.exceptions import DataError

from disque.client import packing


def test_a_request() -> None:
    assert packing.pack([b"QLEN", b"\x00\xff"]) == b"*2\r\n$4\r\nQLEN\r\n$2\r\n\x00\xff\r\n"


def test_words_as_redis_py_takes_them() -> None:
    assert packing.as_words(["CONFIG GET", "a b"]) == [b"CONFIG", b"GET", b"a b"]
    assert packing.as_words([b"X", 1, 1.5, bytearray(b"y"), memoryview(b"z"), "\udcff"]) == [
        *(b"X", b"1", b"1.5", b"y", b"z", b"\xff")
    ]


@pytest.mark.parametrize("word", [None, True, object()])
def test_other_words_are_refused(word: Any) -> None:
    with pytest.raises(DataError, match="str, bytes or a number"):
        packing.as_words(["X", word])


def test_no_words_are_refused() -> None:
    with pytest.raises(DataError, match="a command is needed"):
        packing.as_words([])


def test_large_data_is_sent_in_pieces() -> None:
    data = bytes(packing.PIECE) + b"x"
    assert packing.pieces(b"small") == [b"small"]
    assert list(map(len, packing.pieces(data))) == [packing.PIECE, 1]
    assert b"".join(packing.pieces(data)) == data
