"""Log lines about other nodes: which one came, left, failed, is back, is leaving, or runs another version.

The table of nodes is compared with its state at the last look. So each change is logged once. While nothing changes, a
look costs the comparison of one number. Nodes that are still in the handshake are not mentioned.
"""

from typing import Final

from cluster.capabilities import names
from cluster.membership import FAIL, FAILING, HANDSHAKE, LEAVING, MYSELF, STOPPED, Member, Membership
from disque.server.log import Log

WATCHED: Final = FAILING | LEAVING | STOPPED
AWAY: Final = FAILING | STOPPED
#: Characters of an ID that tell nodes apart for people.
ID_SHOWN: Final = 8


class Roster:
    """The other nodes as the log knows them: those that the table has at the beginning are known, and well."""

    __slots__ = ("_known", "_log", "_membership", "_version")

    def __init__(self, membership: Membership, log: Log) -> None:
        self._membership = membership
        self._log = log
        self._version = -1
        #: By node ID: flags, the name for people, and what it does not understand.
        self._known = {node.id: (0, name_of(node), 0) for node in others(membership)}

    def look(self) -> None:
        """Log what has changed since the last look, at level notice."""
        if self._membership.version == self._version:
            return
        self._version = self._membership.version
        before, now = self._known, self._facts()
        self._known = now
        for node_id, (_, name, _) in before.items():
            if node_id not in now:
                self._log.notice(f"{name} was forgotten")
        for node_id, (flags, name, missing) in now.items():
            if node_id not in before:
                self._log.notice(f"{name} has joined")
            flags_before, _, missing_before = before.get(node_id, (0, "", 0))
            for text in changes(flags_before, flags):
                self._log.notice(f"{name} {text}")
            if missing not in {0, missing_before}:
                self._log.notice(f"{name} runs another version: it does not understand {names(missing)}")

    def _facts(self) -> dict[bytes, tuple[int, str, int]]:
        membership = self._membership
        mine, lacking = membership.myself.capabilities, membership.lacking
        nodes = others(membership)
        return {node.id: (node.flags & WATCHED, name_of(node), lacking.get(node.id, 0) & mine) for node in nodes}


def others(membership: Membership) -> list[Member]:
    """Give the nodes that are members, without this one."""
    return [node for node in membership.nodes.values() if not node.flags & (MYSELF | HANDSHAKE)]


def name_of(node: Member) -> str:
    """Give a node as the log names it: the beginning of its ID, and where clients reach it."""
    return f"Node {node.id[:ID_SHOWN].decode()} at {node.ip.decode('latin-1') or '(no address)'}:{node.port}"


def changes(before: int, now: int) -> list[str]:
    """Give what is to be said when the flags of a node were `before` and are `now`."""
    said = []
    if now & STOPPED and not before & STOPPED:
        said.append("has stopped")
    elif before & AWAY and not now & AWAY:
        said.append("is back")
    elif (before | now) & STOPPED:
        pass  # that it does not answer is no news
    elif now & FAIL and not before & FAIL:
        said.append("has failed: the majority of the nodes does not reach it (fail)")
    elif now & FAILING and not before & FAILING:
        said.append("does not answer: suspected to have failed (fail?)")
    if (before ^ now) & LEAVING:
        said.append("is leaving: it takes no new jobs" if now & LEAVING else "is not leaving any more")
    return said
