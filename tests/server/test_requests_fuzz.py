"""Both readers against a third one, which has the whole stream before it and is as plain as the rules."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.core.base.words import split_words
from disque.server import requests
from disque.server.requests import ProtocolError, QueryTooLong, RequestReader, StrictReader, _certain_requests
from disque.server.walker import Walker
from tests.conftest import examples
from tests.server.test_requests import pending_bytes

MAX_BULK, MAX_QUERY = 3000, 4000
Outcome = list[list[bytes] | str]


class MoreNeededError(Exception):
    pass


class Plain:
    """The rules, read off one after the other."""

    def __init__(self, stream: bytes, *, trusted: bool) -> None:
        self.stream, self.at, self.trusted = stream, 0, trusted

    def line(self, terminator: bytes, text: str) -> bytes:
        limit = 65_536 if self.trusted else 16_384
        line, end, _ = self.stream[self.at :].partition(terminator)
        if len(line) > limit:
            raise ProtocolError(text)
        if not end:
            raise MoreNeededError
        self.at += len(line) + 1
        return line

    def take(self, size_bytes: int) -> bytes:
        if self.at + size_bytes > len(self.stream):
            raise MoreNeededError
        self.at += size_bytes
        return self.stream[self.at - size_bytes : self.at]

    def header(self, text: str) -> tuple[bytes, int | None]:
        line = self.line(b"\r", text)
        self.take(1)
        digits = line[1:]
        strict = re.fullmatch(rb"0|-?[1-9][0-9]*", digits) and -(2**63) <= int(digits) < 2**63
        return line + b"\r", int(digits) if strict else None

    def request(self) -> list[bytes]:
        start = self.at
        if self.at == len(self.stream):
            raise MoreNeededError
        if self.stream[start : start + 1] == b"\x16":
            raise ProtocolError("this looks like TLS, which is spoken on tls-port only")
        if self.stream[start : start + 1] != b"*":
            words = split_words(self.line(b"\n", "too big inline request").removesuffix(b"\r"))
            if words is None:
                raise ProtocolError("unbalanced quotes in request")
            return words
        _, count = self.header("too big mbulk count string")
        if count is None or count > 1_048_576:
            raise ProtocolError("invalid multibulk length")
        if count > 10 and not self.trusted:
            raise ProtocolError("unauthenticated multibulk length")
        return [self.argument(start) for _ in range(count)]

    def argument(self, start: int) -> bytes:
        line, length = self.header("too big bulk count string")
        if line[:1] != b"$":
            raise ProtocolError(f"expected '$', got '{line[:1].decode('latin-1')}'")
        if length is None or not 0 <= length <= MAX_BULK:
            raise ProtocolError("invalid bulk length")
        if length > 16_384 and not self.trusted:
            raise ProtocolError("unauthenticated bulk length")
        if self.at + length + 2 - start > MAX_QUERY:
            raise QueryTooLong
        return self.take(length + 2)[:-2]


def plain_outcome(stream: bytes, *, trusted: bool) -> Outcome:
    plain, outcome = Plain(stream, trusted=trusted), Outcome()
    try:
        while True:
            if request := plain.request():
                outcome.append(request)
    except MoreNeededError:
        return outcome
    except (ProtocolError, QueryTooLong) as error:
        return [*outcome, repr(error)]


def outcome_in_chunks(kind: type[StrictReader], chunks: list[bytes], *, trusted: bool, pulls: int) -> Outcome:
    """Feed all chunks, asking for at most `pulls` requests after each, and for the rest at the end."""
    reader, outcome, fed_bytes = kind(MAX_BULK, MAX_QUERY), Outcome(), 0
    reader.trusted = trusted
    try:
        for chunk in chunks:
            reader.feed(chunk)
            fed_bytes += len(chunk)
            for _ in range(pulls):
                if (request := reader.next()) is None:
                    break
                outcome.append(request)
            assert 0 <= pending_bytes(reader) <= fed_bytes
        while (request := reader.next()) is not None:
            outcome.append(request)
        assert not reader.ready
    except (ProtocolError, QueryTooLong) as error:
        return [*outcome, repr(error)]
    return outcome


def readable(outcome: Outcome) -> Outcome:
    """An error's odd byte is shown in another way by the server; only that there is one is compared."""
    return [re.sub(r"got .*", "got", item) if isinstance(item, str) else item for item in outcome]


def encode(arguments: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments)


ODD = [
    b"*1\r\n", b"*2\r\n", b"*0\r\n", b"*-1\r\n", b"*01\r\n", b"*+1\r\n", b"*\r\n", b"*1\n", b"*1\r",
    b"*1000000000\r\n", b"*1048577\r\n", b"*99999\r\n", b"*11\r\n", b"$0\r\n\r\n", b"$1\r\na\r\n",
    b"$1\r\n.\r\n", b"$1\r\naxx", b"$0\r\n", b"$-1\r\n", b"$+5\r\n", b"$05\r\n", b"$11\r\n", b"$2999\r\n",
    b"$3001\r\n", b"$99999999999\r\n", b"+PING\r\n", b"+\r\n", b"-ERR x\r\n", b":5\r\n", b":0\r\n", b"_\r\n",
    b"#f\r\n", b",0\r\n", b"(1\r\n", b"=8\r\ntxt:PING\r\n", b"=5\r\ntxt:a\r\n", b"!1\r\na\r\n", b"~1\r\n",
    b"~0\r\n", b">1\r\n", b"%1\r\n", b"%0\r\n", b"|1\r\n", b"|0\r\n", b"~1000000000\r\n", b"*1\r\n$1\r\n.\r\n",
    b"*1\r\n+.\r\n", b"PING\r\n", b"PING\n", b'"a b" c\n', b'"\r\n', b"\r\n", b"\n", b"\r", b"*", b"$", b"+",
    b"=", b"~", b"|", b"(", b".", b"a", b"1", b"\0", b" ",
]  # fmt: skip
VALID = st.lists(st.one_of(st.binary(max_size=20), st.sampled_from(ODD)), min_size=1, max_size=12).map(encode)
STREAMS = st.lists(st.one_of(VALID, st.sampled_from(ODD), st.binary(max_size=4)), max_size=25).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Valid requests with a few bytes replaced, taken out or put in."""
    stream = bytearray(b"".join(draw(st.lists(VALID, min_size=1, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(stream)))
        stream[at : at + draw(st.integers(0, 2))] = draw(st.sampled_from(ODD))
    return bytes(stream)


@st.composite
def cut(draw: st.DrawFn, streams: st.SearchStrategy[bytes]) -> list[bytes]:
    stream = draw(streams)
    marks = sorted(draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    return [stream[a:b] for a, b in zip([0, *marks], [*marks, len(stream)], strict=True)]


@settings(max_examples=examples(400), deadline=None)
@given(
    cut(st.one_of(STREAMS, mutated())), st.booleans(), st.integers(0, 5), st.sampled_from([1, 8, requests.LARGE_BYTES])
)
def test_all_readers_agree_however_a_stream_is_cut(chunks: list[bytes], trusted: bool, pulls: int, large: int) -> None:
    expected = readable(plain_outcome(b"".join(chunks), trusted=trusted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "LARGE_BYTES", large)
        for kind in (StrictReader, RequestReader, Walker):
            assert readable(outcome_in_chunks(kind, chunks, trusted=trusted, pulls=pulls)) == expected


@settings(max_examples=examples(100), deadline=None)
@given(st.one_of(STREAMS, mutated()))
def test_all_readers_agree_on_single_bytes(stream: bytes) -> None:
    expected = readable(plain_outcome(stream, trusted=True))
    chunks = [stream[at : at + 1] for at in range(len(stream))]
    for kind in (StrictReader, RequestReader, Walker):
        assert readable(outcome_in_chunks(kind, chunks, trusted=True, pulls=9)) == expected


@settings(max_examples=examples(100), deadline=None)
@given(mutated())
def test_all_readers_agree_on_every_cut_in_two(stream: bytes) -> None:
    expected = readable(plain_outcome(stream, trusted=True))
    for at in range(0, len(stream), 1 + len(stream) // 100):
        for kind in (RequestReader, Walker):
            assert readable(outcome_in_chunks(kind, [stream[:at], stream[at:]], trusted=True, pulls=9)) == expected


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.one_of(VALID, st.sampled_from(ODD)), max_size=6).map(b"".join))
def test_what_hiredis_may_read_ahead_is_what_the_rules_say_and_ends_at_a_boundary(stream: bytes) -> None:
    requests = _certain_requests(stream)
    if requests is not None:
        plain = Plain(stream, trusted=True)
        assert [plain.request() for _ in requests] == requests
        assert plain.at == len(stream)


@given(st.lists(VALID, min_size=1, max_size=20))
def test_ordinary_requests_are_read_ahead(requests: list[bytes]) -> None:
    stream = b"".join(requests)
    if not re.search(rb"[*~>|%][0-9]{6}", stream):
        assert _certain_requests(stream) is not None


@pytest.mark.parametrize("kind", [RequestReader, Walker])
@pytest.mark.parametrize("size", [500, 70_000, 200_000])
def test_long_streams_that_end_anywhere(size: int, kind: type[StrictReader]) -> None:
    requests = [[b"ADDJOB", b"q%d" % number, b"{'a': 1+%d}" % number, b"0"] for number in range(8000)]
    stream = b"".join(map(encode, requests))
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert outcome_in_chunks(kind, chunks, trusted=True, pulls=10_000) == requests
    assert outcome_in_chunks(kind, chunks, trusted=True, pulls=1) == requests
