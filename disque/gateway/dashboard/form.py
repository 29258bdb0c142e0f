"""How pages write numbers, times, sizes and bodies: the filters of the templates."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from starlette.requests import Request

#: Bytes of a body that a page shows.
BODY_MOST: Final = 64 << 10
#: Bytes in a line of a body in hex.
ROW: Final = 16
#: From the largest unit to the smallest one, in seconds.
UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
SIZES: Final = ("B", "KB", "MB", "GB", "TB", "PB")
#: Signs that turn the order of letters around, also of those behind them (bidirectional overrides and isolates).
TURNING: Final = {sign: f"\\u{sign:04x}" for sign in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
#: What a page says where there is nothing to say.
NOTHING: Final = "\u2013"


def count(value: object) -> str:
    """A whole number, its thousands apart."""
    return f"{value:,}" if isinstance(value, int) else NOTHING


def jobs(value: object) -> str:
    """So many jobs."""
    return f"{count(value)} job{'' if value == 1 else 's'}"


def rate(value: object) -> str:
    """So many in a second."""
    if not isinstance(value, int | float):
        return NOTHING
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def lasting(ms: object) -> str:
    """A time in the two largest of its units, from milliseconds: `1 h 3 min`."""
    if not isinstance(ms, int | float):
        return NOTHING
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    left = int(ms // 1000)
    words: list[str] = []
    for size, unit in UNITS:
        if left >= size:
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join(words[:2])


def seconds(value: object) -> str:
    """A time from seconds."""
    return lasting(value * 1000) if isinstance(value, int | float) else NOTHING


def size(value: object) -> str:
    """So many bytes."""
    if not isinstance(value, int | float):
        return NOTHING
    at = 0
    while value >= 1024 and at < len(SIZES) - 1:
        value, at = value / 1024, at + 1
    return f"{value:.0f} {SIZES[at]}" if at == 0 or value >= 100 else f"{value:.1f} {SIZES[at]}"


def moment(unix_s: object) -> str:
    """A time by the clock, in UTC."""
    if not isinstance(unix_s, int | float):
        return NOTHING
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def share(part: object, whole: object) -> int:
    """A part of something in percent, 0 to 100."""
    if not isinstance(part, int | float) or not isinstance(whole, int | float) or whole <= 0:
        return 0
    return max(0, min(100, round(100 * part / whole)))


def word(text: object) -> str:
    """A name as a part of a path."""
    return quote(str(text), safe="", errors="surrogateescape")


def part(text: object) -> str:
    """A name as the last part of a path; browsers take `.` and `..` for a way, so these become a query."""
    return f"?name={text}" if text in {".", ".."} else word(text)


def query(request: Request) -> dict[str, str]:
    """What is asked for behind the question mark. Names keep their bytes, whatever they are."""
    text = request.scope["query_string"].decode("latin-1")
    return dict(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))


def named(request: Request, name: str) -> str:
    """A name that is the last part of a path, or where that is empty, the query's `name`."""
    return request.path_params[name] or query(request).get("name", "")


def typed(text: object) -> str:
    """A name or a text of somebody else's in a field of a form, whatever bytes it has."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def visible(text: object) -> str:
    """The same where it is only shown: what would turn the order of letters around is written out."""
    return typed(text).translate(TURNING)


def body(value: bytes | None) -> tuple[str, str]:
    """A body as a page shows it, and what it is: `json`, `text`, `binary` or `empty`. Long ones are cut."""
    if not value:
        return "", "empty"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return dump(value[: BODY_MOST // 4]), "binary"
    try:
        if len(value) <= BODY_MOST and text.lstrip()[:1] in {"{", "["}:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False), "json"
    except (ValueError, RecursionError):
        pass
    if any(ord(one) < 32 and one not in "\r\n\t" for one in text[:BODY_MOST]):
        return dump(value[: BODY_MOST // 4]), "binary"
    return text[:BODY_MOST], "text"


def dump(value: bytes) -> str:
    """Bytes in hex, with the letters that they are."""
    lines = []
    for at in range(0, len(value), ROW):
        row = value[at : at + ROW]
        letters = "".join(chr(one) if 32 <= one < 127 else "." for one in row)
        lines.append(f"{at:08x}  {row.hex(' '):<{ROW * 3}} {letters}")
    return "\n".join(lines)


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "count": count,
    "jobs": jobs,
    "rate": rate,
    "lasting": lasting,
    "seconds": seconds,
    "size": size,
    "moment": moment,
    "share": share,
    "word": word,
    "part": part,
    "typed": typed,
    "visible": visible,
}
