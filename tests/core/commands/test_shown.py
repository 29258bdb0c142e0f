import pytest

from disque.core.commands import ROWS, shown
from disque.core.commands.shown import cut_args, line, quoted, visible
from disque.core.config.settings import BY_NAME, SECRETS
from tests.core.support import words

COMMANDS = {row.name: row for row in ROWS}
SECRET = b"pa55word"


def test_a_word_is_cut_at_128_bytes_and_tells_how_many_are_missing() -> None:
    assert cut_args([b"x" * 128, b"y" * 200]) == [b"x" * 128, b"y" * 128 + b"... (72 more bytes)"]


def test_a_command_is_cut_at_32_words_and_the_last_tells_how_many_are_missing() -> None:
    whole = [b"%d" % number for number in range(32)]
    assert cut_args(whole) == whole
    assert cut_args([b"%d" % number for number in range(41)]) == [*whole[:31], b"... (10 more arguments)"]


@pytest.mark.parametrize(
    ("word", "as_shown"),
    [
        (b"plain", b'"plain"'),
        (b"", b'""'),
        (b'a"b\\c', b'"a\\"b\\\\c"'),
        (b"\n\r\t\a\b", b'"\\n\\r\\t\\a\\b"'),
        (b"\x00\x01\x7f\xff ~", b'"\\x00\\x01\\x7f\\xff ~"'),
        ("ä1".encode(), b'"\\xc3\\xa41"'),
    ],
)
def test_words_are_shown_in_quotes(word: bytes, as_shown: bytes) -> None:
    assert quoted(word) == as_shown


def test_a_line_of_a_huge_request_is_short() -> None:
    bodies = [bytes(1 << 20)] * 100
    shown_line = line(COMMANDS[b"addjob"], [b"ADDJOB", b"q", *bodies])
    assert len(shown_line) < shown.MAX_ARGS * shown.MAX_ARG_BYTES * 5
    assert shown_line.startswith(b'"ADDJOB" "q" "\\x00\\x00')
    assert b"... (1048448 more bytes)" in shown_line
    assert shown_line.endswith(b'"... (71 more arguments)"')


def test_password_and_secret_are_the_settings_that_are_hidden() -> None:
    assert {"requirepass", "cluster-secret"} == SECRETS == {name for name, row in BY_NAME.items() if row.secret}


@pytest.mark.parametrize(
    "request_words",
    [
        ("AUTH", SECRET),
        ("AUTH", "default", SECRET),
        ("AUTH", "a", "b", SECRET),
        ("HELLO", 3, "AUTH", "default", SECRET),
        ("hello", 3, "SETNAME", "x", "auth", "default", SECRET),
        ("COMMAND", "GETKEYS", "AUTH", SECRET),
        ("command", "getkeysandflags", "hello", 3, "auth", "default", SECRET),
        ("CONFIG", "SET", "requirepass", SECRET),
        ("config", "set", "ReQuirePass", SECRET),
        ("CONFIG", "SET", "CLUSTER-SECRET", SECRET, "timeout", 1),
        ("CONFIG", "SET", "timeout", 1, "requirepass", SECRET, "cluster-secret", SECRET),
        ("CONFIG", "SET", "timeout", "requirepass", SECRET),
        ("CONFIG", "SET", "a", "requirepass", SECRET * 100),
        ("CONFIG", "SET", "user", b"x on >" + SECRET),
        ("CONFIG", "SET", "timeout", 7, "tls-key-file-pass", SECRET),
    ],
)
def test_no_secret_is_shown_wherever_it_stands(request_words: tuple[bytes | str | int, ...]) -> None:
    args = words(*request_words)
    row = COMMANDS[args[0].lower()]
    assert SECRET not in line(row, args)
    assert shown.REDACTED in visible(row, args)
    assert args == words(*request_words)


def test_what_is_no_secret_is_shown() -> None:
    request = words("CONFIG", "SET", "timeout", 7, "requirepass", "x", "hz", 10)
    assert visible(COMMANDS[b"config"], request) == [*request[:5], b"(redacted)", *request[6:]]
    assert visible(COMMANDS[b"addjob"], words("ADDJOB", "requirepass", "x", 0)) == words(
        "ADDJOB", "requirepass", "x", 0
    )
