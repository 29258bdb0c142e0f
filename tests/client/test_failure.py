from typing import Any

import pytest

from disque.client.failure import BYTES_MOST, error_word
from disque.core.model.extra import ERROR_MOST


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("mailbox full", b"mailbox full"),
        (ValueError("no such\naddress"), b"ValueError: no such\naddress"),
        (ValueError(), b"ValueError"),
        (SpeechlessError(), b"SpeechlessError"),
        ("\ud800", b"\\ud800"),
    ],
)
def test_why_in_words(error: Any, word: bytes) -> None:
    assert error_word(error) == word


def test_what_is_too_long_is_cut_between_characters() -> None:
    assert BYTES_MOST == ERROR_MOST
    word = error_word(ValueError("ä" * BYTES_MOST))
    assert BYTES_MOST - 2 < len(word) <= BYTES_MOST
    assert word.decode().endswith("ä")


def test_what_is_no_reason() -> None:
    with pytest.raises(TypeError, match="error must be str or an exception"):
        error_word(b"x")  # type: ignore[arg-type]  # that is the fault
