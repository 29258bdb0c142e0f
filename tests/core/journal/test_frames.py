from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.journal.frames import (
    HEAD_SIZE,
    HEADER_SIZE,
    MAGIC,
    MARK,
    RECORDS,
    SEED,
    UNKNOWN_SALT,
    UNLINKED,
    VERSION,
    Damage,
    Frame,
    Head,
    HeadError,
    Scanner,
    decode_head,
    encode,
    encode_head,
    head_number,
)

SEGMENT, SALT = 3, 77


def segment_of(payloads: list[bytes], salt: int = SALT, segment: int = SEGMENT) -> bytes:
    data = b""
    for payload in payloads:
        data += encode(RECORDS, payload, segment, salt, HEAD_SIZE + len(data), segment, 0)
    return data


def scan(data: bytes, chunk: int = 1 << 16, salt: int = SALT, search: bool = False) -> list[Frame | Damage]:
    scanner = Scanner(SEGMENT, salt, HEAD_SIZE + len(data))
    if search:
        scanner.search()
    found: list[Frame | Damage] = []
    while not scanner.done:
        start = scanner.wanted - HEAD_SIZE
        assert start < len(data), "wants bytes that do not exist"
        scanner.feed(data[start : start + chunk])
        found += iter(scanner.next, None)
    return found


def payloads_of(found: list[Frame | Damage]) -> list[bytes]:
    return [item.payload for item in found if isinstance(item, Frame)]


def reason_of(found: list[Frame | Damage]) -> str:
    return next(item.reason for item in found if isinstance(item, Damage))


bodies = st.lists(st.binary(min_size=1, max_size=80) | st.just(MAGIC * 3), max_size=8)


@given(bodies, st.integers(1, 200))
def test_what_was_encoded_is_found_again_however_it_is_cut_into_pieces(payloads: list[bytes], chunk: int) -> None:
    found = scan(segment_of(payloads), chunk)
    assert payloads_of(found) == payloads
    assert len(found) == len(payloads)


def test_a_frame_carries_its_kind_its_place_and_what_was_synced() -> None:
    data = encode(MARK, b"\xc0", SEGMENT, SALT, HEAD_SIZE, 2, 500)
    (frame,) = scan(data)
    assert isinstance(frame, Frame)
    assert (frame.kind, frame.offset, frame.end) == (MARK, HEAD_SIZE, HEAD_SIZE + HEADER_SIZE + 1)
    assert (frame.synced_segment, frame.synced_offset) == (2, 500)
    assert not frame.displaced


@given(bodies.filter(bool), st.data())
def test_any_changed_inserted_or_removed_bytes_are_noticed(payloads: list[bytes], data: st.DataObject) -> None:
    whole = segment_of(payloads)
    at = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["flip", "insert", "remove", "cut", "repeat"]))
    if kind == "flip":
        changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    elif kind == "insert":
        changed = whole[:at] + data.draw(st.binary(min_size=1, max_size=60)) + whole[at:]
    elif kind == "remove":
        changed = whole[:at] + whole[at + data.draw(st.integers(1, 60)) :]
    else:
        changed = whole[:at] if kind == "cut" else whole[:at] + whole[: max(1, at)] + whole[at:]
    found = scan(changed, data.draw(st.integers(1, 300)))
    believed: list[bytes] = []
    for item in found:
        if isinstance(item, Damage) or item.displaced:
            break
        believed.append(item.payload)
    assert believed == payloads[: len(believed)]
    if len(believed) == len(found) and changed != whole:
        assert whole.startswith(changed), "only an end that is cut between two frames looks whole"


@given(st.binary(max_size=400), st.integers(1, 100), st.sampled_from([SALT, UNKNOWN_SALT]), st.booleans())
def test_bytes_that_are_no_frames_give_no_frames_and_no_exception(
    data: bytes, chunk: int, salt: int, search: bool
) -> None:
    assert payloads_of(scan(MAGIC + data, chunk, salt, search)) == []


def test_zeros_at_the_end_are_damage_and_no_frame() -> None:
    found = scan(segment_of([b"one"]) + bytes(500))
    assert payloads_of(found) == [b"one"]
    assert reason_of(found) == "no frame begins here"


def test_the_search_goes_on_behind_damage() -> None:
    data = bytearray(segment_of([b"one", b"two", b"three"]))
    data[data.index(b"two")] ^= 1
    found = scan(bytes(data), 7)
    assert payloads_of(found) == [b"one", b"three"]
    damage = found[1]
    assert isinstance(damage, Damage)
    assert damage.reason == "the checksum of the payload is wrong"
    assert (damage.synced_segment, damage.synced_offset) == (SEGMENT, 0)


def test_a_frame_of_another_segment_or_another_file_is_not_believed() -> None:
    assert reason_of(scan(segment_of([b"one"], segment=4))) == "the checksum of the header is wrong"
    assert reason_of(scan(segment_of([b"one"], salt=78))) == "a frame of another file"


def test_a_job_body_that_is_a_frame_is_not_taken_for_one_when_the_search_passes_it() -> None:
    forged = segment_of([b"forged"], salt=1)
    data = bytearray(segment_of([b"x" + forged, b"true"]))
    data[HEADER_SIZE] ^= 1
    assert payloads_of(scan(bytes(data))) == [b"true"]


def test_an_unknown_salt_is_learnt_from_the_first_frame() -> None:
    assert payloads_of(scan(segment_of([b"one", b"two"]), salt=UNKNOWN_SALT)) == [b"one", b"two"]


def test_a_length_beyond_the_end_of_the_file_waits_for_nothing() -> None:
    found = scan(segment_of([b"one", b"x" * 1000])[:-1], chunk=50)
    assert payloads_of(found) == [b"one"]
    assert reason_of(found) == "torn frame"


def test_a_frame_that_vouches_for_what_came_after_it_is_refused() -> None:
    data = encode(RECORDS, b"one", SEGMENT, SALT, HEAD_SIZE, SEGMENT, HEAD_SIZE + 1)
    assert reason_of(scan(data)) == "the frame says that later bytes are on the disk"


def test_a_scanner_keeps_no_more_than_it_needs() -> None:
    data = Random(1).randbytes(1 << 20)
    scanner = Scanner(SEGMENT, SALT, HEAD_SIZE + len(data))
    for start in range(0, len(data), 4096):
        scanner.feed(data[start : start + 4096])
        list(iter(scanner.next, None))
        assert len(scanner._data) <= 2 * 4096


def test_a_head_tells_which_segment_it_follows() -> None:
    before = Head(4, 0xABCD1234, 0, 1, rebase=False)
    assert before.follows == UNLINKED
    head = decode_head(encode_head(Head(5, 9, 2**47, 1, rebase=True, follows=before.link)), 5)
    assert (head.previous_end, head.rebase, head.follows) == (2**47, True, 0x1234)
    assert decode_head(encode_head(before), 4).follows == UNLINKED


def test_the_number_of_a_head_is_known_whatever_the_file_is_called() -> None:
    data = encode_head(Head(5, 9, 0, 1, rebase=False))
    assert head_number(data + b"more") == 5
    assert head_number(data[:-1]) == head_number(b"") == head_number(b"x" * 99) == 0


def test_the_head_of_a_segment_is_read_back() -> None:
    head = decode_head(encode_head(Head(5, 99, 1234, 2, rebase=True)), 5)
    assert (head.segment, head.salt, head.previous_end, head.oldest, head.rebase) == (5, 99, 1234, 2, True)


@given(st.integers(0, HEAD_SIZE - 1), st.integers(1, 255))
def test_a_head_with_any_byte_changed_is_refused(at: int, change: int) -> None:
    data = bytearray(encode_head(Head(5, 99, 1234, 2, rebase=False)))
    data[at] ^= change
    with pytest.raises(HeadError):
        decode_head(bytes(data), 5)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "shorter"),
        (b"*2\r\n$7\r\nLOADJOB\r\n" + bytes(40), "does not begin"),
        (encode_head(Head(6, 0, 0, 1, rebase=False)), "says that this is segment 6"),
    ],
)
def test_a_head_that_is_refused_says_why(data: bytes, says: str) -> None:
    with pytest.raises(HeadError, match=says) as caught:
        decode_head(data, 5)
    assert not caught.value.is_whole


@pytest.mark.parametrize(
    ("version", "says"), [(VERSION + 1, "a newer version"), (VERSION - 1, "an older version .*: start that one, let")]
)
def test_another_format_is_told_from_damage(version: int, says: str) -> None:
    head = bytearray(encode_head(Head(5, 0, 0, 1, rebase=False))[:-4])
    head[7] = version
    data = bytes(head) + crc32(head, SEED).to_bytes(4, "little")
    assert head_number(data) == 0
    with pytest.raises(HeadError, match=says) as caught:
        decode_head(data, 5)
    assert caught.value.is_whole
