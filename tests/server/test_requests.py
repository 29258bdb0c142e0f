import tracemalloc
from collections.abc import Iterable
from typing import Final

import pytest

from disque.server import requests as module
from disque.server.requests import WORD_MAX_BYTES, ProtocolError, QueryTooLong, RequestReader, StrictReader
from disque.server.walker import Walker

CLASSES = pytest.mark.parametrize("kind", [StrictReader, RequestReader, Walker])
MEGABYTE = 1 << 20


def encode(*arguments: bytes) -> bytes:
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments)


def reader_with(kind: type[StrictReader], *chunks: bytes, trusted: bool = True) -> StrictReader:
    reader = kind()
    reader.trusted = trusted
    for chunk in chunks:
        reader.feed(chunk)
    return reader


def drain(reader: StrictReader) -> list[list[bytes]]:
    requests = []
    while (request := reader.next()) is not None:
        requests.append(request)
    assert not reader.ready
    return requests


def pending_bytes(reader: StrictReader) -> int:
    """Bytes that arrived and belong to no request that has been given out."""
    return reader.unparsed_bytes + sum(len(encode(*request)) for request in getattr(reader, "_ahead", ()))


def assert_read(kind: type[StrictReader], stream: bytes, requests: list[list[bytes]]) -> None:
    """All at once, and one byte after the other, with and without a name."""
    assert drain(reader_with(kind, stream)) == requests
    reader, got = reader_with(kind), []
    for at in range(len(stream)):
        reader.feed(stream[at : at + 1])
        got += drain(reader)
    assert got == requests
    assert pending_bytes(reader) == 0


def assert_refused(kind: type[StrictReader], stream: bytes, text: str, *, trusted: bool = True) -> None:
    for chunks in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        with pytest.raises(ProtocolError) as refused:
            drain_chunks(reader_with(kind, trusted=trusted), chunks)
        assert str(refused.value) == text


def drain_chunks(reader: StrictReader, chunks: Iterable[bytes]) -> list[list[bytes]]:
    requests = []
    for chunk in chunks:
        reader.feed(chunk)
        requests += drain(reader)
    return requests


@CLASSES
class TestRequests:
    def test_an_array_of_bulk_strings(self, kind: type[StrictReader]) -> None:
        assert_read(kind, encode(b"ADDJOB", b"q", b"bo\r\ndy\0", b""), [[b"ADDJOB", b"q", b"bo\r\ndy\0", b""]])

    def test_many_in_one_chunk_come_in_order(self, kind: type[StrictReader]) -> None:
        requests = [[b"ACKJOB", b"%d" % number, b"+=~|("] for number in range(30)]
        assert_read(kind, b"".join(encode(*r) for r in requests), requests)

    def test_lines_end_with_lf_or_crlf_alike(self, kind: type[StrictReader]) -> None:
        assert_read(
            kind, b"PING\nPING\r\n\r\n\nqlen  q\r\n\nINFO\n", [[b"PING"], [b"PING"], [b"qlen", b"q"], [b"INFO"]]
        )

    def test_quoted_words_on_a_line(self, kind: type[StrictReader]) -> None:
        assert_read(kind, b'ADDJOB q "a b\\x00" \'\' 0\r\n""\r\n', [[b"ADDJOB", b"q", b"a b\0", b"0"]])

    def test_lines_and_arrays_mixed(self, kind: type[StrictReader]) -> None:
        stream = b"PING\r\n\n" + encode(b"QLEN", b"q") * 2 + b"INFO\n" + encode(b"PING") + b"\r\n"
        assert_read(kind, stream, [[b"PING"], [b"QLEN", b"q"], [b"QLEN", b"q"], [b"INFO"], [b"PING"]])

    @pytest.mark.parametrize("blank", [b"*0\r\n", b"*-1\r\n", b"*-9223372036854775808\r\n", b"\r\n", b"\n", b" \t \n"])
    def test_empty_requests_are_skipped(self, kind: type[StrictReader], blank: bytes) -> None:
        assert_read(kind, blank + encode(b"PING") + blank * 2 + encode(b"INFO") + blank, [[b"PING"], [b"INFO"]])
        assert drain(reader_with(kind, blank * 50_000 + encode(b"PING"))) == [[b"PING"]]

    @pytest.mark.parametrize("skipped", [b"\r\n", b"xx", b"$1", b"*1", b"\n\r"])
    def test_the_two_bytes_behind_an_argument_are_not_looked_at(self, kind: type[StrictReader], skipped: bytes) -> None:
        assert_read(kind, (b"*2\r\n$1\r\na" + skipped + b"$0\r\n" + skipped) * 3, [[b"a", b""]] * 3)

    def test_the_byte_behind_the_cr_of_a_header_is_not_looked_at(self, kind: type[StrictReader]) -> None:
        assert_read(kind, b"*1\rx$1\rya\r\n" * 2, [[b"a"]] * 2)

    def test_what_only_a_reply_may_hold_is_a_line(self, kind: type[StrictReader]) -> None:
        assert_read(
            kind, encode(b"a") * 2 + b":0\r\n~1\r\n$1\r\na\r\n", [[b"a"], [b"a"], [b":0"], [b"~1"], [b"$1"], [b"a"]]
        )

    def test_many_arguments(self, kind: type[StrictReader]) -> None:
        arguments = [b"%d" % number for number in range(100_000)]
        stream = encode(*arguments)
        assert drain_chunks(reader_with(kind), chunked(stream, 16_384)) == [arguments]

    def test_one_million_arguments_are_legal(self, kind: type[StrictReader]) -> None:
        stream = b"*1048576\r\n" + b"$1\r\na\r\n" * 1_048_576
        assert [len(request) for request in drain_chunks(reader_with(kind), chunked(stream, 65_536))] == [1_048_576]


def chunked(stream: bytes, size_bytes: int) -> list[bytes]:
    return [stream[at : at + size_bytes] for at in range(0, len(stream), size_bytes)]


@CLASSES
class TestErrors:
    @pytest.mark.parametrize(
        "count", [b"", b"01", b"+1", b" 1", b"1 ", b"abc", b"1048577", b"-0", b"1_0", b"9" * 19, b"9" * 70]
    )
    def test_count(self, kind: type[StrictReader], count: bytes) -> None:
        assert_refused(kind, b"*" + count + b"\r\n", "invalid multibulk length")

    @pytest.mark.parametrize(
        "length", [b"", b"05", b"+5", b"-1", b" 5", b"5a", b"536870913", b"99999999999", b"-0", b"?"]
    )
    def test_length(self, kind: type[StrictReader], length: bytes) -> None:
        assert_refused(kind, b"*1\r\n$" + length + b"\r\n", "invalid bulk length")

    @pytest.mark.parametrize(
        ("head", "shown"),
        [
            (b":5", ":"),
            (b"*1", "*"),
            (b"+PING", "+"),
            (b"_", "_"),
            (b"\n", "\\x0a"),
            (b"", "\\x0d"),
            (b"\0", "\\x00"),
            (b"\xff", "\\xff"),
        ],
    )
    def test_anything_but_a_bulk_string_in_an_array(self, kind: type[StrictReader], head: bytes, shown: str) -> None:
        assert_refused(kind, b"*1\r\n" + head + b"\r\n", f"expected '$', got '{shown}'")
        assert_refused(
            kind, encode(b"PING") * 3 + b"*2\r\n$1\r\na\r\n" + head + b"\r\n", f"expected '$', got '{shown}'"
        )

    def test_good_requests_before_an_error_are_read_and_then_it_stays(self, kind: type[StrictReader]) -> None:
        reader = reader_with(kind, encode(b"PING") * 3 + b"*x\r\n" + encode(b"PING") * 3)
        assert [reader.next() for _ in range(3)] == [[b"PING"]] * 3
        for _ in range(2):
            with pytest.raises(ProtocolError, match=r"^invalid multibulk length$"):
                reader.next()

    def test_quotes(self, kind: type[StrictReader]) -> None:
        assert_refused(kind, b'ADDJOB "q\r\n', "unbalanced quotes in request")

    @pytest.mark.parametrize(
        ("start", "text"),
        [
            (b"A", "too big inline request"),
            (b"*", "too big mbulk count string"),
            (b"$", "too big bulk count string"),
        ],
    )
    def test_a_line_of_more_than_64_kilobytes_without_its_end(
        self, kind: type[StrictReader], start: bytes, text: str
    ) -> None:
        before = b"*1\r\n" if start == b"$" else b""
        line = start + b"1" * 65_535
        assert drain(reader_with(kind, before + line)) == []
        assert_refused(kind, before + line + b"1", text)
        with pytest.raises(ProtocolError, match=text):
            drain(reader_with(kind, before + line + b"1\r\n"))

    def test_a_client_that_speaks_tls_is_refused_at_its_first_byte(self, kind: type[StrictReader]) -> None:
        for data in (b"\x16", b"\x16\x03\x01\x02\x00", b"\x16\n", b"PING\r\n\x16"):
            reader = reader_with(kind, data)
            with pytest.raises(ProtocolError, match=r"^this looks like TLS, which is spoken on tls-port only$"):
                drain(reader)
        assert drain(reader_with(kind, b"x\x16\n")) == [[b"x\x16"]]

    def test_a_line_of_64_kilobytes(self, kind: type[StrictReader]) -> None:
        assert drain(reader_with(kind, b"A" * 65_536 + b"\n")) == [[b"A" * 65_536]]

    def test_an_argument_may_be_as_long_as_configured(self, kind: type[StrictReader]) -> None:
        reader = kind(max_bulk=5)
        reader.trusted = True
        reader.feed(encode(b"12345") * 3 + encode(b"123456"))
        assert [reader.next() for _ in range(3)] == [[b"12345"]] * 3
        with pytest.raises(ProtocolError, match=r"^invalid bulk length$"):
            reader.next()

    def test_a_request_may_be_as_long_as_configured(self, kind: type[StrictReader]) -> None:
        good, long = encode(b"a", b"12345"), encode(b"a", b"123456")
        reader = kind(max_query=len(good))
        reader.trusted = True
        reader.feed(good * 3 + long[:-8])
        assert [reader.next() for _ in range(3)] == [[b"a", b"12345"]] * 3
        for _ in range(2):
            with pytest.raises(QueryTooLong):
                reader.next()


@CLASSES
class TestUntrusted:
    def test_small_requests_are_read(self, kind: type[StrictReader]) -> None:
        requests = [[b"a" * 16_384] * 10, [b"AUTH", b"x"]]
        assert drain(reader_with(kind, b"".join(encode(*r) for r in requests), trusted=False)) == requests

    def test_large_ones_are_not(self, kind: type[StrictReader]) -> None:
        assert_refused(kind, b"*11\r\n", "unauthenticated multibulk length", trusted=False)
        assert_refused(kind, b"*1\r\n$16385\r\n", "unauthenticated bulk length", trusted=False)
        assert_refused(kind, b"A" * 16_385, "too big inline request", trusted=False)

    def test_trust_begins_between_two_requests_of_one_chunk(self, kind: type[StrictReader]) -> None:
        large = [b"a"] * 11
        reader = reader_with(kind, encode(b"AUTH", b"x") + encode(*large) * 2, trusted=False)
        assert reader.next() == [b"AUTH", b"x"]
        reader.trusted = True
        assert drain(reader) == [large, large]

    def test_trust_ends_between_two_requests_of_one_chunk(self, kind: type[StrictReader]) -> None:
        stream = encode(b"RESET") + b"*0\r\n" + encode(b"PING") + encode(*[b"a"] * 11) + encode(b"PING")
        reader = reader_with(kind, stream)
        assert reader.next() == [b"RESET"]
        before = pending_bytes(reader)
        reader.trusted = False
        assert pending_bytes(reader) == before
        assert reader.next() == [b"PING"]
        with pytest.raises(ProtocolError, match=r"^unauthenticated multibulk length$"):
            reader.next()


@CLASSES
class TestWaiting:
    def test_pending_bytes_fall_with_each_request(self, kind: type[StrictReader]) -> None:
        request, part = encode(b"QLEN", b"q"), b"*2\r\n$1\r\na\r\n$4\r\nbo"
        reader = reader_with(kind, request * 5 + part)
        for left in range(4, -1, -1):
            assert reader.ready
            reader.next()
            assert pending_bytes(reader) == left * len(request) + len(part)
        assert reader.next() is None
        assert not reader.ready
        assert pending_bytes(reader) == len(part)

    def test_an_empty_argument_is_there_only_with_the_two_bytes_behind_it(self, kind: type[StrictReader]) -> None:
        reader = reader_with(kind, b"*2\r\n$1\r\na\r\n$0\r\n")
        assert drain(reader) == []
        assert drain_chunks(reader, [b"\r\n"]) == [[b"a", b""]]

    def test_a_chunk_in_the_middle_of_an_array_is_no_request_of_its_own(self, kind: type[StrictReader]) -> None:
        reader = reader_with(kind, b"*2\r\n$1\r\na\r\n")
        assert drain(reader) == []
        with pytest.raises(ProtocolError, match="got '\\*'"):
            drain_chunks(reader, [encode(b"PING")])

    def test_announced_numbers_cost_nothing(self, kind: type[StrictReader]) -> None:
        tracemalloc.start()
        try:
            reader = reader_with(kind, encode(b"PING") * 3 + b"*1048576\r\n$67108864\r\n")
            assert drain(reader) == [[b"PING"]] * 3
            assert tracemalloc.get_traced_memory()[1] < MEGABYTE
        finally:
            tracemalloc.stop()

    def test_a_long_argument_is_joined_once(self, kind: type[StrictReader]) -> None:
        body = b"x" * (64 * MEGABYTE)
        reader = reader_with(kind)
        got = drain_chunks(reader, chunked(encode(b"ADDJOB", b"q", body, b"0"), 65_536))
        assert got == [[b"ADDJOB", b"q", body, b"0"]]
        assert reader._buffer == b""

    def test_what_was_not_asked_for_yet_is_kept(self, kind: type[StrictReader]) -> None:
        reader, got = reader_with(kind), []
        for number in range(1000):
            reader.feed(encode(b"%d" % (2 * number)) + encode(b"%d" % (2 * number + 1)))
            got.append(reader.next())
        got += drain(reader)
        assert got == [[b"%d" % number] for number in range(2000)]


@CLASSES
@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 1000])
def test_large_arguments_are_collected_however_they_come(
    kind: type[StrictReader], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_BYTES", 8)
    requests = [[b"a", b"x" * 300, b"\r\n$1\r\n" * 9, b"b"], [b"PING"], [b"y" * 7, b"z" * 8], [b"*1\r\n$1\r\n" * 5]]
    stream = b"".join(encode(*request) for request in requests)
    reader = reader_with(kind)
    got: list[list[bytes]] = []
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
        before = sum(len(encode(*request)) for request in got)
        assert pending_bytes(reader) == min(at + step, len(stream)) - before
        got += drain(reader)
    assert got == requests
    assert pending_bytes(reader) == 0


@CLASSES
@pytest.mark.parametrize("step", [1, 7, 50, 100, 400])
@pytest.mark.parametrize("pulls", [0, 1, 2])
def test_what_came_before_a_large_argument_is_looked_at_belongs_to_it(
    kind: type[StrictReader], step: int, pulls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline of large bodies came out of step: what lay in between was left out, and bodies ran as commands."""
    monkeypatch.setattr(module, "LARGE_BYTES", 8)
    requests = [[b"PING"], *([b"ACKJOB", b"id", letter * 90, b"PING"] for letter in (b"x", b"y", b"z"))]
    stream = b"".join(encode(*request) for request in requests)
    reader = reader_with(kind)
    got: list[list[bytes]] = []
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
        if at // step % 3 == 0:  # the connection waits, or has had its turn
            got += filter(None, (reader.next() for _ in range(pulls)))
    assert got + drain(reader) == requests
    assert pending_bytes(reader) == 0


@CLASSES
def test_a_large_argument_is_not_copied_when_it_is_there(kind: type[StrictReader]) -> None:
    reader = reader_with(kind)
    piece = bytes(MEGABYTE)
    tracemalloc.start()
    reader.feed(b"*1\r\n$%d\r\n" % (8 * MEGABYTE))
    assert reader.next() is None
    for _ in range(8):
        reader.feed(piece)
        assert not reader.ready
    reader.feed(b"\r\n")
    request = reader.next()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert request == [bytes(8 * MEGABYTE)]
    assert most < 12 * MEGABYTE


class TestLongWords:
    """Only bodies may be long, where the reader was told what a body is."""

    LONG: Final = b"$%d\r\n" % (WORD_MAX_BYTES + 1)

    def reader(self) -> StrictReader:
        reader = StrictReader()
        reader.trusted = True
        reader.allow_bodies({b"addjob": 2})
        return reader

    @pytest.mark.parametrize("before", [[], [b"QLEN"], [b"ADDJOB"], [b"ADDJOB", b"q", b"body"]])
    def test_any_other_word_is_refused_before_it_is_read(self, before: list[bytes]) -> None:
        reader = self.reader()
        reader.feed(b"*4\r\n" + encode(*before)[4:] + self.LONG)
        with pytest.raises(ProtocolError, match="only the body of a job"):
            reader.next()

    def test_a_body_is_not(self) -> None:
        reader = self.reader()
        reader.feed(encode(b"addJOB", b"q", b"x" * (WORD_MAX_BYTES + 1), b"0"))
        request = reader.next()
        assert request is not None
        assert len(request[2]) == WORD_MAX_BYTES + 1
