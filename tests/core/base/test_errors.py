import pytest

from disque.core.base import errors

TEXTS = {name: text for name, text in vars(errors).items() if isinstance(text, bytes)}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_one_line_that_begins_with_a_code(name: str) -> None:
    text = TEXTS[name]
    code, _, rest = text.partition(b" ")
    assert code.isupper()
    assert code.isalpha()
    assert rest.strip()
    assert errors.one_line(text) == text
    assert text.isascii()


def test_no_text_stands_twice() -> None:
    assert len(set(TEXTS.values())) == len(TEXTS)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"FOO", b"FOO"),
        (b"", b""),
        (b"a\r\nb", b"a  b"),
        (b"a\0b", b"a"),
        (b"x" * 200, b"x" * 128),
        (b"\xff'", b"\xff'"),
    ],
)
def test_an_unknown_command_is_shown_harmlessly(name: bytes, shown: bytes) -> None:
    assert errors.unknown_command(name) == b"ERR unknown command '%b'" % shown


def test_wrong_arity() -> None:
    assert errors.wrong_arity(b"qlen") == b"ERR wrong number of arguments for 'qlen' command"


def test_one_line() -> None:
    assert errors.one_line(b"a\r\nb\nc") == b"a  b c"
