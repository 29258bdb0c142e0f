"""Log lines about clients that behave like attackers. They are bounded, so that nobody can fill a disk with them.

The first event from an address is logged at once. Those that follow within a minute are counted, and logged in one line
at its end. The memory for this is bounded, too: beyond a number of addresses, all further ones count as one.
"""

from typing import Final

from disque.core.host import CROSS_PROTOCOL, FAILED_AUTH, GUESSING
from disque.server.log import Log, printable

QUIET_S: Final = 60.0
#: Addresses that have a line of their own, for each thing that they do.
MOST: Final = 128
OTHERS: Final = "other addresses"

#: The line for the first time, with the address, and that for those behind it, with their number and the host.
LINES: Final = {
    CROSS_PROTOCOL: (
        (
            "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Disque. "
            "This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Disque "
            "instance. Connection from %s aborted."
        ),
        "%d more connections from %s that sent POST or Host: commands were aborted in the last minute.",
    ),
    FAILED_AUTH: (
        "Failed AUTH of a client at %s: wrong user or password.",
        "%d more failed AUTHs of clients at %s in the last minute.",
    ),
    GUESSING: (
        "Ten wrong passwords within a minute from %s: for a minute, logins from there are answered a second late.",
        "%d more times ten wrong passwords from %s in the last minute.",
    ),
}


class Suspects:
    """Knows who was named within the last minute. Times are those of one clock, in seconds."""

    __slots__ = ("_log", "_named")

    def __init__(self, log: Log) -> None:
        self._log = log
        #: What and where: since when, and how often again.
        self._named: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, what: str, address: bytes, now_s: float) -> None:
        """A client at ``address`` (as CLIENT LIST shows it) has done what attackers do."""
        shown = printable(address)
        named = self._named
        key = (what, shown.rpartition(":")[0])
        if key not in named and sum(known == what for known, _ in named) >= MOST:
            key, shown = (what, OTHERS), OTHERS
        since_s, again = named.get(key, (now_s, -1))
        named[key] = since_s, again + 1
        if again < 0:
            self._log.warning(LINES[what][0] % shown)

    def cron(self, now_s: float) -> None:
        """Once a second or so: say what was counted for a minute, and forget who has been quiet for one."""
        for key in [key for key, (since_s, _) in self._named.items() if now_s - since_s >= QUIET_S]:
            what, host = key
            _, again = self._named.pop(key)
            if again:
                self._log.warning(LINES[what][1] % (again, host))
                self._named[key] = now_s, 0
