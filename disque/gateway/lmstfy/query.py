"""Queries as lmstfy reads them: the first of several values counts, and numbers are digits within bounds."""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_plus

U16: Final = 2**16 - 1
U32: Final = 2**32 - 1
I64: Final = 2**63 - 1
#: What Go takes for no pair, and leaves out.
BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
#: Queries that are kept, and bytes of one.
CACHED_MOST: Final = 1000
CACHED_BYTES_MOST: Final = 256


def parse(query: bytes) -> Mapping[str, str]:
    """Names and values. Clients send the same again and again, so what short ones mean is kept."""
    return MappingProxyType(parsed(query)) if len(query) > CACHED_BYTES_MOST else cached(query)


@lru_cache(CACHED_MOST)
def cached(query: bytes) -> Mapping[str, str]:
    """The same, and kept."""
    return MappingProxyType(parsed(query))


def parsed(query: bytes) -> dict[str, str]:
    """Names and values, read anew."""
    found: dict[str, str] = {}
    if query:
        for part in query.decode("latin-1").split("&"):
            if not part or ";" in part or BAD_ESCAPE.search(part):
                continue
            name, _, value = part.partition("=")
            found.setdefault(unquote_plus(name), unquote_plus(value) if "%" in value or "+" in value else value)
    return found


def signed(text: str) -> int | None:
    """A number of decimal digits, behind a sign or not, of 64 bits; None for anything else."""
    value = number(text[1:] if text[:1] in {"+", "-"} else text, I64)
    return -value if value is not None and text.startswith("-") else value


def number(text: str, most: int) -> int | None:
    """A number of decimal digits up to ``most``; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > 40:
        return None
    value = int(text)
    return value if value <= most else None
