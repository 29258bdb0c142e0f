"""Log lines about strangers that misbehave and nodes that cannot be reached: at most one a minute for each address.

Anyone who can connect can cause such lines. So their number is bounded, and so is the memory for the addresses. If a
thousand addresses misbehave within a minute, further ones are counted and not named.

The same holds for addresses where a node should be and none was reached. An operator gave them (CLUSTER MEET, a seed),
or another node did. Nothing is logged in the first second, since nodes of one cluster start together.
"""

import socket
import ssl
from typing import Final

QUIET_S: Final = 60.0
MOST: Final = 1024
#: Seconds from the first attempt at a place to the first line, and places whose first attempt is remembered.
PATIENCE_S: Final = 1.0
PLACES_MOST: Final = 256


class Complaints:
    """``count`` is the number of mistakes of others."""

    __slots__ = ("_heard", "count")

    def __init__(self) -> None:
        self.count = 0
        self._heard: dict[str, float] = {}

    def add(self, who: str, now_s: float) -> bool:
        """Count a fault of ``who``; whether it deserves a line. ``now_s`` never goes back."""
        self.count += 1
        heard = self._heard
        last_s = heard.get(who)
        if last_s is not None and now_s - last_s < QUIET_S:
            return False
        heard.pop(who, None)
        while heard:  # in the order of time: those who have become free to speak again are at the front
            oldest = next(iter(heard))
            if now_s - heard[oldest] < QUIET_S:
                break
            del heard[oldest]
        if len(heard) >= MOST:
            return False
        heard[who] = now_s
        return True


class Unreached:
    """Knows since when attempts to connect fail. A place is the host and port as they were given."""

    __slots__ = ("_complaints", "_since_s")

    def __init__(self) -> None:
        self._complaints = Complaints()
        self._since_s: dict[str, float] = {}

    def tried(self, place: str, now_s: float) -> None:
        """An attempt begins. ``now_s`` never goes back."""
        since = self._since_s
        if place not in since:
            if len(since) >= PLACES_MOST:
                del since[next(iter(since))]
            since[place] = now_s

    def failed(self, place: str, now_s: float) -> bool:
        """No node was reached: whether to log it."""
        return now_s - self._since_s.get(place, now_s) >= PATIENCE_S and self._complaints.add(place, now_s)

    def reached(self, place: str) -> None:
        """A node is there."""
        self._since_s.pop(place, None)


def reason_of(wrong: Exception, waited_s: float) -> str:
    """Why an attempt to connect failed, for the log; it could take ``waited_s``."""
    if isinstance(wrong, socket.gaierror):
        return f"the name cannot be resolved ({wrong.strerror or wrong})"
    if isinstance(wrong, ConnectionRefusedError):
        return "connection refused, no process listens there"
    if isinstance(wrong, TimeoutError):
        return f"timed out, no answer within {waited_s:g} s"
    if isinstance(wrong, ssl.SSLError):  # one of its kinds is a ValueError, too
        return f"TLS failed: {tls_reason(wrong)}"
    if isinstance(wrong, ValueError):
        return "this is not a valid name"
    return getattr(wrong, "strerror", None) or str(wrong) or type(wrong).__name__


def tls_reason(wrong: OSError) -> str:
    """Why a TLS handshake has failed, for the log."""
    if isinstance(wrong, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {wrong.verify_message}"
    if isinstance(wrong, ssl.SSLError) and wrong.reason:
        return wrong.reason.lower().replace("_", " ")
    return "the connection has ended"
