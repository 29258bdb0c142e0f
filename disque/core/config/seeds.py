"""Addresses of nodes to join, as `cluster-seeds` lists them: `host:port`, or `host:port@busport`.

The host is a name or an address; an IPv6 address may stand in brackets. The bus port is port + 10000 unless it is
given.
"""

from typing import Final, NamedTuple

from cluster.member import default_bus_port
from disque.core.config.kinds import Kind, Value, whole_number, word_text

PORT_MOST: Final = 65535
HOST_LENGTH_MOST: Final = 255


class Seed(NamedTuple):
    """One address, the ports from 1 to 65535."""

    host: str
    port: int
    bus_port: int


def parse_seed(word: str) -> Seed | None:
    """Read a word, or None if it is none."""
    place, at, bus = word.partition("@")
    host, _, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = _port(port)
    bus_number = _port(bus) if at else default_bus_port(number)
    plain = host.isascii() and host.isprintable() and " " not in host and len(host) <= HOST_LENGTH_MOST
    if not host or not plain or not number or not 0 < bus_number <= PORT_MOST:
        return None
    return Seed(host, number, bus_number)


def _port(word: str) -> int:
    """The port that a word names, 0 if it names none."""
    number = whole_number(word) if word.isdigit() else None
    return number if number is not None and 0 < number <= PORT_MOST else 0


class Seeds(Kind):
    """Some addresses of nodes."""

    __slots__ = ()

    def __init__(self, most: int) -> None:
        super().__init__(f"at most {most} addresses such as host:7711 or host:7711@17711, separated by spaces", 1, most)

    def parse(self, words: tuple[str, ...]) -> Value | None:
        """Read addresses, also several in one word; None if one of them is none."""
        found = tuple(" ".join(words).split())
        return found if len(found) <= self.max_words and all(map(parse_seed, found)) else None

    def show(self, value: Value) -> str:
        """Join the addresses with spaces."""
        assert isinstance(value, tuple)
        return " ".join(value)

    def write(self, value: Value) -> str:
        """Write a word an address, or an empty word for none."""
        assert isinstance(value, tuple)
        return " ".join(map(word_text, value)) or '""'
