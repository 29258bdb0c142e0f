"""Queries as lmstfy reads them: the first of several values counts, and numbers are digits within bounds."""

from typing import Final
from urllib.parse import unquote_plus

U16: Final = 2**16 - 1
U32: Final = 2**32 - 1
I64: Final = 2**63 - 1


def parse(query: bytes) -> dict[str, str]:
    """Names and values."""
    found: dict[str, str] = {}
    if query:
        for part in query.decode("latin-1").split("&"):
            name, _, value = part.partition("=")
            if name not in found:
                found[unquote_plus(name)] = unquote_plus(value) if "%" in value or "+" in value else value
    return found


def number(text: str, most: int) -> int | None:
    """A number of decimal digits up to ``most``; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > 40:
        return None
    value = int(text)
    return value if value <= most else None
