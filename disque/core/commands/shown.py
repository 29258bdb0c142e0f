"""What MONITOR and SLOWLOG may show of a request: no secret, and only so much of it.

Both show a request of any size to people, so it is cut first and then quoted: a body of many
megabytes costs no more than a short one.
"""

from collections.abc import Sequence
from typing import Final

from disque.core.config.settings import SECRETS, SETTINGS
from disque.core.model.command import Command

#: Words of a request, and bytes of a word.
MAX_ARGS: Final = 32
MAX_ARG_BYTES: Final = 128
REDACTED: Final = b"(redacted)"
#: Settings whose values are shown. Others may be secret settings of a newer version or of Redis, or misspelt ones.
PLAIN: Final = frozenset(setting.name for setting in SETTINGS if not setting.secret and setting.name != "user")
#: Commands of which no word is shown.
SECRET_COMMANDS: Final = frozenset({b"auth", b"hello"})

_NAMED: Final = {34: b'\\"', 92: b"\\\\", 10: b"\\n", 13: b"\\r", 9: b"\\t", 7: b"\\a", 8: b"\\b"}
#: Each byte as it stands between double quotes.
_QUOTED: Final = tuple(
    [_NAMED.get(byte) or (b"%c" % byte if 32 <= byte < 127 else b"\\x%02x" % byte) for byte in range(256)]
)


def cut_arg(arg: bytes) -> bytes:
    """Cut a word to 128 bytes and say how many are missing."""
    if len(arg) <= MAX_ARG_BYTES:
        return arg
    return b"%s... (%d more bytes)" % (arg[:MAX_ARG_BYTES], len(arg) - MAX_ARG_BYTES)


def cut_args(args: Sequence[bytes]) -> list[bytes]:
    """Cut a command to 32 words; if it has more, the last one says how many are missing."""
    if len(args) <= MAX_ARGS:
        return [cut_arg(arg) for arg in args]
    kept = [cut_arg(arg) for arg in args[: MAX_ARGS - 1]]
    kept.append(b"... (%d more arguments)" % (len(args) - len(kept)))
    return kept


def visible(row: Command, args: list[bytes]) -> list[bytes]:
    """The words of a request that may be shown, cut to a few short ones."""
    if row.name in SECRET_COMMANDS and len(args) > 1:
        return [args[0], REDACTED]
    if len(args) > 2 and (row.name == b"acl" or (row.name == b"command" and as_name(args[1]).startswith("getkeys"))):
        return [args[0], cut_arg(args[1]), *[REDACTED] * min(len(args) - 2, MAX_ARGS - 2)]
    shown = cut_args(args)
    if row.name == b"config" and len(args) > 1:
        is_set = as_name(args[1]) == "set"
        for at in range(3, len(shown)):
            name = as_name(args[at - 1])
            if name in SECRETS or (is_set and at % 2 and name not in PLAIN):
                shown[at] = REDACTED
    return shown


def as_name(word: bytes) -> str:
    """A word as the name of a setting: long ones are none."""
    return word.lower().decode("latin-1") if len(word) <= 64 else ""


def line(row: Command, args: list[bytes]) -> bytes:
    """A request as MONITOR shows it."""
    return b" ".join([quoted(word) for word in visible(row, args)])


def quoted(word: bytes) -> bytes:
    """A word in double quotes, everything that does not print escaped."""
    if word.isalnum():
        return b'"%b"' % word
    return b'"%b"' % b"".join([_QUOTED[byte] for byte in word])
