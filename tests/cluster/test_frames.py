"""Bytes into frames, however they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import packb

from cluster import frames
from cluster.frames import FrameReader, FrameTooLongError, enclosed
from cluster.large import BadFrameError


def all_of(reader: FrameReader) -> list[bytes]:
    found = []
    while (payload := reader.next()) is not None:
        found.append(payload)
    return found


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(1, 400)))
def test_payloads_come_out_however_the_stream_was_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(enclosed, payloads))
    reader = FrameReader(1000)
    found, at = [], 0
    for size in [*cuts, len(stream)]:
        reader.feed(stream[at : at + size])
        found += all_of(reader)
        at = min(at + size, len(stream))
    assert found == payloads
    assert len(reader) == 0


def test_a_frame_that_is_too_long_is_refused_by_its_length_alone() -> None:
    reader = FrameReader(10)
    reader.feed(enclosed(b"x" * 10) + (11).to_bytes(4, "big"))
    assert reader.next() == b"x" * 10
    with pytest.raises(FrameTooLongError, match="11 bytes, at most 10 are accepted"):
        reader.next()


def test_the_limit_can_be_raised_between_two_frames() -> None:
    reader = FrameReader(1)
    reader.feed(enclosed(b"x") + enclosed(b"xx"))
    assert reader.next() == b"x"
    reader.most = 2
    assert reader.next() == b"xx"


def test_a_partial_frame_takes_no_more_memory_than_what_has_come() -> None:
    reader = FrameReader(1 << 30)
    reader.feed((1 << 30).to_bytes(4, "big") + b"\xdc\xff\xff")
    for _ in range(10):
        reader.feed(b"x" * 100)
        assert reader.next() is None
    assert len(reader) == 1007


def test_what_was_taken_out_is_not_kept() -> None:
    reader = FrameReader(1 << 20)
    for _ in range(100):
        reader.feed(enclosed(b"x" * 1000) + b"\0")
        assert reader.next() == b"x" * 1000
        reader.feed(enclosed(b"")[1:])
        assert reader.next() == b""
    assert len(reader._data) < 5000


@pytest.mark.parametrize("nested", [False, True])
def test_a_large_frame_that_is_over_before_its_length_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    monkeypatch.setattr(frames, "LARGE_FRAME", 100)
    payload = packb((1, (2, (3,) * 20), b"x" * 20, ()) if nested else (b"x" * 20,) * 3)
    for size in range(len(payload), 200):
        reader = FrameReader(1000)
        reader.feed((200).to_bytes(4, "big") + payload + b"\x01" * (size - len(payload)))
        if size == len(payload):
            assert reader.next() is None
        else:
            with pytest.raises(BadFrameError, match="does not match"):
                reader.next()


def test_a_frame_that_is_under_way_is_refused_only_if_its_array_is_over() -> None:
    payload = packb((1, (2, (3,) * 20), b"x" * 20))
    for size in range(len(payload) + 1):
        reader = FrameReader(1000)
        reader.feed(enclosed(b"before") + (200).to_bytes(4, "big") + payload[:size])
        assert reader.next() == b"before"
        assert reader.next() is None
        if size < len(payload):
            reader.check()
        else:
            with pytest.raises(BadFrameError):
                reader.check()
    FrameReader(1000).check()
