"""The kinds of value that an option can have: how words become a value, and how a value becomes text again.

Theory. The words of an option come from three places: a line of the configuration file, the command line, and
CONFIG SET. All end in `Kind.parse`, so a value that one of them accepts is accepted by the others. A value goes out in
two ways: `show` is what CONFIG GET answers (sizes as plain numbers of bytes), `write` is what stands behind the name
in a configuration file (sizes with their unit, text in double quotes); parsing either gives the value back.

Text is kept as `str` in which bytes that are no UTF-8 live on as lone surrogates ("surrogateescape"), so that nothing
from the network or from a file can fail to be read, and everything goes out as the bytes that came in.
"""

import re
from abc import ABC, abstractmethod
from typing import Final, TypeAlias

from cluster.member import is_zone

Value: TypeAlias = int | str | tuple[str, ...]

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_SIZE: Final = 2**62
KB: Final = 1024
MB: Final = 1024 * KB
GB: Final = 1024 * MB
UNITS: Final = {"": 1, "b": 1, "k": 1000, "kb": KB, "m": 1000**2, "mb": MB, "g": 1000**3, "gb": GB}

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,19})([kmg]?b?)", re.ASCII)
_OCTAL: Final = re.compile(r"[0-7]{1,5}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9._:%-]*", re.ASCII)
_BARE: Final = re.compile(r"[A-Za-z0-9_.:,*/%@+-]+", re.ASCII)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b"}


def as_text(raw: bytes) -> str:
    """Make text of bytes from outside; never fails, and `as_bytes` gives the same bytes back."""
    return raw.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """Give back the bytes that `as_text` was given."""
    return text.encode("utf-8", "surrogateescape")


def whole_number(word: str) -> int | None:
    """Read a decimal number of at most 19 digits with an optional sign, or None."""
    return int(word) if _NUMBER.fullmatch(word) else None


def size_bytes(word: str) -> int | None:
    """Read a size such as `100`, `64kb` or `1G` (k, m, g are powers of 1000; kb, mb, gb of 1024), or None."""
    match = _SIZE.fullmatch(word.lower())
    return int(match[1]) * UNITS[match[2]] if match else None


def size_text(size: int) -> str:
    """Write a size in the shortest exact way for `size_bytes`: in gb, mb, kb, or in plain bytes."""
    for unit in ("gb", "mb", "kb"):
        if size and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return str(size)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in as_bytes(char))


def quoted(text: str) -> str:
    """Put a text into double quotes on one line, with escapes, as the splitter of words reads it back."""
    return '"' + "".join(map(_escaped, text)) + '"'


def word_text(word: str) -> str:
    """Write a word for a line of the file: bare where that is safe, in quotes otherwise."""
    return word if _BARE.fullmatch(word) else quoted(word)


class Kind(ABC):
    """How one sort of value is read and written; `expected` completes the sentence "expected ..."."""

    __slots__ = ("expected", "max_words", "min_words")

    def __init__(self, expected: str, min_words: int = 1, max_words: int = 1) -> None:
        self.expected: Final = expected
        self.min_words: Final = min_words
        self.max_words: Final = max_words

    @abstractmethod
    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Give the value of `min_words` to `max_words` words, or None if they are none of this kind."""

    @abstractmethod
    def show(self, value: Value) -> str:
        """Give the text of a value as CONFIG GET answers it."""

    def write(self, value: Value) -> str:
        """Give the text of a value behind its name in a configuration file."""
        return self.show(value)

    def merge(self, _old: Value, new: Value) -> Value:
        """Give the value after `new` was given where `_old` stood before."""
        return new

    def complaint(self, name: str, words: tuple[str, ...]) -> str:
        """Say what is wrong with words that `parse` refused."""
        return f"Invalid argument '{' '.join(words)}' for '{name}'"


class Label(Kind):
    """A label of nodes, as they tell it to each other, or nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("a label of at most 64 letters, digits and . _ / @ -")

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read the label; None where it is too long or has other characters."""
        return words[0] if is_zone(as_bytes(words[0])) else None

    def show(self, value: Value) -> str:
        """Give the label."""
        return str(value)

    def write(self, value: Value) -> str:
        """Give the label, or an empty word."""
        return word_text(str(value)) if value else '""'


class Whole(Kind):
    """A whole number between two bounds, both allowed."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int, unit: str = "", also: str = "") -> None:
        of = f" of {unit}" if unit else ""
        super().__init__(f"a whole number{of} from {low} to {high}{also}")
        self.low: Final = low
        self.high: Final = high

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read digits with an optional sign; None beyond the bounds."""
        number = whole_number(words[0])
        return number if number is not None and self.low <= number <= self.high else None

    def show(self, value: Value) -> str:
        """Write the number in decimal."""
        return str(value)


class Clamped(Whole):
    """A whole number, not negative, that is moved to the nearest bound when it is beyond one."""

    __slots__ = ()

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read any number from 0 on; the value is within the bounds."""
        number = whole_number(words[0])
        return None if number is None or number < 0 else min(max(number, self.low), self.high)


class KeepAlive(Whole):
    """Seconds between probes; `yes` and `no` are other words for 300 and 0."""

    __slots__ = ()

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read yes, no, or a number of seconds."""
        return super().parse(({"yes": "300", "no": "0"}.get(words[0].lower(), words[0]),))


class Size(Kind):
    """A number of bytes between two bounds, with an optional unit."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        super().__init__(f"a size from {size_text(low)} to {size_text(high)}, such as 100mb (units: b k kb m mb g gb)")
        self.low: Final = low
        self.high: Final = high

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read a size; None beyond the bounds."""
        size = size_bytes(words[0])
        return size if size is not None and self.low <= size <= self.high else None

    def show(self, value: Value) -> str:
        """Write plain bytes."""
        return str(value)

    def write(self, value: Value) -> str:
        """Write the size with its unit."""
        assert isinstance(value, int)
        return size_text(value)


class YesNo(Kind):
    """A switch."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("yes or no")

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read yes or no in any case."""
        return {"yes": True, "no": False}.get(words[0].lower())

    def show(self, value: Value) -> str:
        """Write yes or no."""
        return "yes" if value else "no"


class Switch(YesNo):
    """A switch whose name alone, without a word, says yes."""

    __slots__ = ()

    def __init__(self) -> None:
        Kind.__init__(self, "yes or no; the name alone says yes", 0)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read yes, no, or nothing."""
        return super().parse(words) if words else True


class OneOf(Kind):
    """One of a few words."""

    __slots__ = ("choices",)

    def __init__(self, *choices: str) -> None:
        super().__init__(f"one of {', '.join(choices)}")
        self.choices: Final = choices

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read one of the words in any case."""
        word = words[0].lower()
        return next((choice for choice in self.choices if choice.lower() == word), None)

    def show(self, value: Value) -> str:
        """Write the word as the table has it."""
        return str(value)


class Text(Kind):
    """Any bytes, up to a length in bytes."""

    __slots__ = ("max_bytes",)

    def __init__(self, max_bytes: int, expected: str = "text") -> None:
        super().__init__(f"{expected} of at most {max_bytes} bytes")
        self.max_bytes: Final = max_bytes

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the word as it is; None if it is too long."""
        return words[0] if len(as_bytes(words[0])) <= self.max_bytes else None

    def show(self, value: Value) -> str:
        """Give the text as it is."""
        return str(value)

    def write(self, value: Value) -> str:
        """Write the text in double quotes."""
        return quoted(str(value))


class HostName(Text):
    """An address or the name of a host, or nothing. It stands in nodes.conf, where other characters mean something."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(255, "an address or a host name")

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the word; None if it is too long or has characters that no address has."""
        return super().parse(words) if _HOST.fullmatch(words[0]) else None


class Path(Text):
    """The path of a file: no NUL, and not longer than a system takes."""

    __slots__ = ()

    def __init__(self, expected: str = "a path without NUL") -> None:
        super().__init__(4095, expected)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the word as it is; None if no system could open it."""
        return None if "\0" in words[0] else super().parse(words)


class NeededPath(Path):
    """A path that cannot be left empty."""

    __slots__ = ()

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the word as it is; None if it is empty or no system could open it."""
        return super().parse(words) if words[0] else None


class FileName(NeededPath):
    """The name of a file inside `dir`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("the name of a file, without a slash or NUL,")

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the word as it is; None if it is empty or leads elsewhere."""
        return None if "/" in words[0] or words[0] in {".", ".."} else super().parse(words)

    def complaint(self, name: str, words: tuple[str, ...]) -> str:
        """Say that a path is none."""
        return f"{name} can't be a path, just a filename" if "/" in words[0] else super().complaint(name, words)


class Directory(NeededPath):
    """A directory to change into: a relative one counts from the one before, as `cd` does."""

    __slots__ = ()

    def merge(self, old: Value, new: Value) -> Value:
        """Give the directory that is reached from `old` by `new`."""
        return path_from(str(old), str(new))


def path_from(directory: str, path: str) -> str:
    """Say where a path leads, seen from a directory (`.` adds nothing)."""
    if path.startswith("/") or directory == ".":
        return path
    return directory if path == "." else f"{directory.rstrip('/')}/{path}"


class Permissions(Kind):
    """The permission bits of a file, in octal."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("octal permissions from 0 to 777")

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read octal digits; None beyond 777."""
        bits = int(words[0], 8) if _OCTAL.fullmatch(words[0]) else -1
        return bits if 0 <= bits <= 0o777 else None

    def show(self, value: Value) -> str:
        """Write octal digits."""
        assert isinstance(value, int)
        return f"{value:o}"


class Addresses(Kind):
    """Some addresses; those that begin with `-` may be missing on this machine. No address at all means every one."""

    __slots__ = ()

    def __init__(self, most: int) -> None:
        super().__init__(f"at most {most} addresses separated by spaces", 1, most)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read addresses, also several in one word; None if there are too many or one is no printable ASCII."""
        found = tuple(" ".join(words).split())
        plain = all(word.isascii() and word.isprintable() and word != "-" and len(word) <= 255 for word in found)
        return found if plain and len(found) <= self.max_words else None

    def show(self, value: Value) -> str:
        """Join the addresses with spaces."""
        assert isinstance(value, tuple)
        return " ".join(value)

    def write(self, value: Value) -> str:
        """Write a word an address, or an empty word for none."""
        assert isinstance(value, tuple)
        return " ".join(map(word_text, value)) or '""'


class OutputLimits(Kind):
    """By class of clients a hard limit, a soft limit, and the seconds that the soft one may be exceeded; 0: none."""

    __slots__ = ()

    CLASSES: Final = ("normal", "pubsub")

    def __init__(self) -> None:
        usage = "normal|pubsub <hard limit> <soft limit> <soft seconds>, such as normal 1gb 32mb 60"
        super().__init__(usage, 1, 4 * len(self.CLASSES))

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read four words for each class, also if all came in one; sizes may have units."""
        parts = " ".join(words).lower().split()
        if not parts or len(parts) % 4:
            return None
        found: list[str] = []
        for at in range(0, len(parts), 4):
            kind, hard, soft, seconds = parts[at], *map(size_bytes, parts[at + 1 : at + 3]), whole_number(parts[at + 3])
            if kind not in self.CLASSES or kind in found or hard is None or soft is None or seconds is None:
                return None
            if hard > MAX_SIZE or soft > MAX_SIZE or not 0 <= seconds <= MAX_INT32:
                return None
            found += (kind, str(hard), str(soft), str(seconds))
        return tuple(found)

    def merge(self, old: Value, new: Value) -> Value:
        """Keep the classes that are not named."""
        assert isinstance(old, tuple)
        assert isinstance(new, tuple)
        rows = {words[at]: words[at : at + 4] for words in (old, new) for at in range(0, len(words), 4)}
        return tuple(word for kind in self.CLASSES for word in rows[kind])

    def show(self, value: Value) -> str:
        """Join the words, sizes in plain bytes."""
        assert isinstance(value, tuple)
        return " ".join(value)

    def write(self, value: Value) -> str:
        """Join the words, sizes with units."""
        assert isinstance(value, tuple)
        rows = [value[at : at + 4] for at in range(0, len(value), 4)]
        return " ".join(
            f"{kind} {size_text(int(hard))} {size_text(int(soft))} {seconds}" for kind, hard, soft, seconds in rows
        )


class UserLines(Kind):
    """Users, a line each: the name and its rules. In one row as they were given, the words of each joined by a NUL."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("<name> [<rule> ...], such as alice on >password ~mails* +@consume", 1, 1024)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the words; None without a name. Whoever knows the commands looks at the rules."""
        return None if not words[0] or any("\0" in word for word in words) else ("\0".join(words),)

    def show(self, value: Value) -> str:
        """Give the names: the rules may have passwords."""
        assert isinstance(value, tuple)
        return " ".join(word_text(line.split("\0")[0]) for line in value)

    def merge(self, old: Value, new: Value) -> Value:
        """Put the user behind the others."""
        assert isinstance(old, tuple)
        assert isinstance(new, tuple)
        return old + new


class Renames(Kind):
    """Pairs of an old and a new name, all in one row in the order they were given; an empty new name removes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__('<command> <new name>, or <command> "" to remove it', 2, 2)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Take the pair; None without an old name."""
        return words if words[0] else None

    def show(self, value: Value) -> str:
        """Join the pairs."""
        assert isinstance(value, tuple)
        return " ".join(map(word_text, value))

    def merge(self, old: Value, new: Value) -> Value:
        """Put the pair behind the others."""
        assert isinstance(old, tuple)
        assert isinstance(new, tuple)
        return old + new
