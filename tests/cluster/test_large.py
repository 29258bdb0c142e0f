import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import frames, large, messages
from cluster.frames import HEAD, FrameReader, Skimmer
from cluster.large import BadFrameError, encode_large, framed
from cluster.messages import DELJOB, Message, decode, encode_message, frame, has_large
from tests.support import formats

JOB = b"D-" + b"j" * 38
NODE = b"a" * 40


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes are large."""
    monkeypatch.setattr(large, "LARGE_BODY", 10)
    monkeypatch.setattr(messages, "LARGE_BODY", 10)
    monkeypatch.setattr(frames, "LARGE_BODY", 10)
    monkeypatch.setattr(frames, "LARGE_FRAME", 20)


def repljob(*bodies: bytes) -> Message:
    count = len(bodies)
    return formats.repljob(*(JOB,) * count, holders=(NODE,), bodies=bodies)


def yourjobs(*bodies: bytes) -> Message:
    return formats.yourjobs(*[formats.yourjobs_row(JOB, body=body, holders=(NODE,)) for body in bodies])


def received(wire: bytes, cuts: list[int]) -> list[Message]:
    reader = FrameReader(1 << 20)
    at = 0
    found: list[Message] = []
    for size in [*cuts, len(wire)]:
        reader.feed(wire[at : at + size])
        at = min(at + size, len(wire))
        while (payload := reader.next()) is not None:
            found += decode(payload, reader.bodies)
    assert len(reader) == 0
    return found


bodies_of = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


@given(bodies_of, st.lists(st.integers(1, 60)), st.booleans())
def test_what_is_sent_in_pieces_is_read_however_it_is_cut(bodies: list[bytes], cuts: list[int], handed: bool) -> None:
    message = yourjobs(*bodies) if handed else repljob(*bodies)
    pieces = encode_large(message)
    assert all(body in pieces for body in bodies if len(body) >= 10), "not one is copied"
    wire = b"".join(framed(pieces))
    assert decode(wire[HEAD:]) == [message], "it is a usual frame"
    small = frame([encode_message((DELJOB, (JOB,)))])
    assert received(small + wire + wire + small, cuts) == [(DELJOB, (JOB,)), message, message, (DELJOB, (JOB,))]


def test_a_body_is_taken_out_of_its_frame() -> None:
    message = repljob(b"little", b"b" * 1000)
    wire = b"".join(framed(encode_large(message)))
    skimmer = Skimmer(len(wire) - HEAD)
    assert skimmer.feed(wire[HEAD:] + b"behind") == b"behind"
    assert skimmer.bodies[-1] == b"b" * 1000
    assert len(skimmer.payload) < 300


@pytest.mark.parametrize(
    "payload",
    [
        b"\x91\x92\x0b\xc0" + encode_message((b"x" * 30,)),  # nil is in no message
        b"\x91\x92\x0b\xa3abc" + b"\x01" * 30,  # nor is text
        b"\x01" * 200_100,  # a million things
        b"\x91\xc6\xff\xff\xff\xff" + b"x" * 30,  # longer than its frame
        b"\xc4\x20" + b"x" * 32 + b"\xc4\x20" + b"x" * 32,  # two things in place of one
    ],
)
def test_what_no_node_sends_is_refused(payload: bytes) -> None:
    with pytest.raises(BadFrameError):
        received(len(payload).to_bytes(4, "big") + payload, [])


def test_the_last_body_tells_whether_a_message_is_large() -> None:
    assert has_large([(DELJOB, (JOB,)), repljob(b"x", b"x" * 10)])
    assert has_large([yourjobs(b"x", b"x" * 10)])
    assert not has_large([repljob(), yourjobs(), repljob(b"x"), yourjobs(b"x")])
