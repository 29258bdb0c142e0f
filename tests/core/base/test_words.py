import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.base.words import split_words

WHITE = b" \t\n\r\v\f"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t\r\n\v\f ", []),
        (b"PING", [b"PING"]),
        (b"  ADDJOB\tq  body 0 \r\n", [b"ADDJOB", b"q", b"body", b"0"]),
        (b'"a b" c', [b"a b", b"c"]),
        (b"'a b' c", [b"a b", b"c"]),
        (b'say"hello you"', [b"sayhello you"]),
        (b"say'hello you' \"x\"", [b"sayhello you", b"x"]),
        (rb'"\n\r\t\b\a"', [b"\n\r\t\b\a"]),
        (rb'"\x00\xfF\x4a"', [b"\x00\xffJ"]),
        (rb'"\x4" "\xg1" "\x"', [b"x4", b"xg1", b"x"]),
        (rb'"\\x41" "\"" "\q"', [rb"\x41", b'"', b"q"]),
        (rb"'\'' '\n' '\\ '", [b"'", rb"\n", rb"\\ "]),
        (b'"it\'s" \'a "b"\'', [b"it's", b'a "b"']),
        (rb"back\slash \n", [rb"back\slash", rb"\n"]),
        (b'"two\nlines"', [b"two\nlines"]),
        (b"a\vb \v c\f", [b"a\vb", b"c\f"]),
        (b'"a"\v"b"\f', [b"a", b"b"]),
        (b"a b\0c 'd", [b"a", b"b"]),
        (b"\xff \x80\x81", [b"\xff", b"\x80\x81"]),
    ],
)
def test_words_are_cut_as_a_shell_would(line: bytes, words: list[bytes]) -> None:
    assert split_words(line) == words
    assert split_words(line, keep_empty=True) == words


@pytest.mark.parametrize(
    "line",
    [
        b'"',
        b"'",
        b'a "b',
        b"a 'b",
        b'"a"b',
        b"'a'b",
        b'"a""b"',
        rb'"a\"',
        rb"'a\'",
        b'"a\\',
        b'"a\0"',
        b"'a'\"b\"",
        b'a" b"c',
    ],
)
def test_unbalanced_quotes_are_no_words(line: bytes) -> None:
    assert split_words(line) is None


def test_empty_words_are_kept_only_on_demand() -> None:
    assert split_words(b"requirepass \"\" ''") == [b"requirepass"]
    assert split_words(b"requirepass \"\" ''", keep_empty=True) == [b"requirepass", b"", b""]


def test_a_long_line_takes_linear_time() -> None:
    assert split_words(b'"' + b"\\" * 65_535) is None
    assert split_words(b"'" + b"\\'" * 32_767 + b"'") == [b"'" * 32_767]
    assert split_words(b'"' + b"\\x41" * 16_000 + b'"') == [b"A" * 16_000]


@given(st.lists(st.binary(min_size=1)))
def test_whatever_is_quoted_byte_by_byte_comes_back(words: list[bytes]) -> None:
    line = b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"' for word in words)
    assert split_words(line) == words


def words_one_byte_at_a_time(line: bytes) -> list[bytes] | None:  # noqa: C901, PLR0912 - one branch a rule
    """Read a line as the C server does: one byte after the other, up to a NUL."""
    text, at = line + b"\0\0\0\0", 0
    words: list[bytes] = []
    while True:
        while text[at] in WHITE:
            at += 1
        if not text[at]:
            return words
        word, quote = bytearray(), 0
        while True:
            byte, following = text[at], text[at + 1]
            if quote and not byte:
                return None
            if quote and byte == quote:
                if following and following not in WHITE:
                    return None
                at += 1
                break
            if not quote and byte in b" \n\r\t\0":
                break
            if not quote and byte in b"\"'":
                quote = byte
            elif quote == ord('"') and byte == ord("\\") and following:
                hexadecimal = text[at + 2 : at + 4]
                if following == ord("x") and all(digit in b"0123456789abcdefABCDEF" for digit in hexadecimal):
                    word.append(int(hexadecimal, 16))
                    at += 3
                else:
                    word += {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}.get(
                        following, bytes([following])
                    )
                    at += 1
            elif quote == ord("'") and byte == ord("\\") and following == quote:
                word.append(quote)
                at += 1
            else:
                word.append(byte)
            at += 1
        words.append(bytes(word))


PIECES = st.sampled_from(
    [b'"', b"'", b"\\", b" ", b"a", b"x", b"4", b"1", b"n", b"\t", b"\v", b"\f", b"\r", b"\n", b"\0", b"\xff"]
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_words_are_those_that_a_reading_byte_by_byte_gives(line: bytes) -> None:
    words = words_one_byte_at_a_time(line)
    assert split_words(line, keep_empty=True) == words
    assert split_words(line) == (None if words is None else [word for word in words if word])
