"""Why a job failed, in words that stay with it."""

from typing import Final

from disque.client.values import text_word

#: Nodes keep so many bytes of it.
BYTES_MOST: Final = 4096


def error_word(error: str | BaseException) -> bytes:
    """A text, or the class and the text of an exception, as a word; what is too long is cut. Raises TypeError."""
    if isinstance(error, BaseException):
        error = described(error)
    elif not isinstance(error, str):
        raise TypeError(f"error must be str or an exception, not {type(error).__name__}")
    return text_word(error, BYTES_MOST)


def described(error: BaseException) -> str:
    """An exception as the last line of its traceback has it."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - whatever is wrong with it, its job has failed
        return name
    return f"{name}: {text}" if text else name
