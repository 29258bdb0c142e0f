"""Which node to ask: the given nodes, those that HELLO tells of, and how each has answered lately.

A client stays at one node, the current one, as long as it works. A node that failed is asked again only when its
cooldown is over or there is no other. Nodes known from HELLO come and go with what HELLO says. Given nodes stay.
A given address may be a name for a node, or lead there from outside. The other address that HELLO tells of that node is
then left out, until HELLO tells yet another one: that node has moved, and may not be found where it was given.
Impossible addresses (empty, port 0), which nodes behind NAT may announce, are ignored. With TLS, all addresses of a
node that announces its port for plain text are ignored.

With affinity, the IDs of jobs are counted by the node that made them. When most of a hundred jobs came from one other
node that works, the client moves there, so that jobs need not travel between nodes.

One lock guards all this, and is held only briefly: any number of threads may share a router.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Final

from disque.client.config import Address, Config
from disque.client.values import text_of

#: Priorities in HELLO: below this a node can be used.
USABLE: Final = 10
GOOD: Final = 1
#: A client that is used asks again which nodes there are when none has told it for so long, in seconds.
LOOK_S: Final = 30.0
#: So many jobs are looked at before affinity decides.
AFFINITY_JOBS: Final = 100


class Known:
    """What is known of one node. ``id`` is "" until it or another node tells, ``told`` is where HELLO says it is."""

    __slots__ = ("address", "avoid_until_s", "given", "id", "priority", "told")

    def __init__(self, address: Address, *, given: bool) -> None:
        self.address = address
        self.given = given
        self.id = ""
        self.told: Address | None = None
        self.priority = GOOD
        self.avoid_until_s = 0.0


class Router:
    """Chooses nodes. ``clock`` gives monotonic seconds."""

    def __init__(self, config: Config, clock: Callable[[], float], random: Random) -> None:
        self.config = config
        self.clock = clock
        self.random = random
        self.current: Address | None = None
        self._known = {address: Known(address, given=True) for address in config.nodes}
        self._makers: Counter[str] = Counter()
        self._look_s = clock() + LOOK_S
        self._lock = threading.Lock()

    def renew_lock(self) -> None:
        """In a child process: the lock may have been held by a thread that is not here."""
        self._lock = threading.Lock()

    def addresses(self) -> list[Address]:
        """All nodes that are known."""
        with self._lock:
            return list(self._known)

    def count(self) -> int:
        """How many nodes are known."""
        return len(self._known)

    def choose(self, tried: Collection[Address], prefer: Address | None = None) -> Address | None:
        """The best node that is not among ``tried``; None if there is none.

        It becomes the current one, but for a node that is only preferred for one request.
        """
        with self._lock:
            if prefer in self._known and prefer not in tried and not self._cools(self._known[prefer]):
                return prefer
            if self.current is not None and self.current not in tried:
                return self.current
            rest = [known for known in self._known.values() if known.address not in tried]
            if not rest:
                return None
            self.current = min(rest, key=self._rank).address
            return self.current

    def failed(self, address: Address) -> None:
        """This node could not be used just now."""
        with self._lock:
            known = self._known.get(address)
            if known is not None:
                known.avoid_until_s = self.clock() + self.config.cooldown_ms / 1000
            if self.current == address:
                self.current = None

    def worked(self, address: Address) -> None:
        """This node has answered."""
        known = self._known.get(address)
        if known is not None and known.avoid_until_s:
            known.avoid_until_s = 0.0

    def should_look(self) -> bool:
        """Whether to ask again which nodes there are. Of many who want to know, one is told so."""
        now_s = self.clock()
        if now_s < self._look_s or not self.config.discover:
            return False
        self._look_s = now_s + LOOK_S
        return True

    def learned(self, address: Address, reply: object) -> None:
        """Take what the node at ``address`` answered to HELLO: version, own ID, rows of ID, host, port, priority."""
        if not isinstance(reply, list) or len(reply) < 2 or not isinstance(reply[1], bytes | str):
            return
        with self._lock:
            self._look_s = self.clock() + LOOK_S
            rows = [row for row in map(read_row, reply[2:]) if row is not None]
            if address in self._known:
                self._known[address].id = text_of(reply[1])
                self._known[address].told = None
            self._note_priorities(rows)
            if self.config.discover and not (self.config.tls and tells_other_port(address, text_of(reply[1]), rows)):
                self._take(rows)

    def hear_of(self, addresses: Iterable[Address]) -> None:
        """Nodes that somebody else knows of: they count until a node tells which there are."""
        with self._lock:
            for address in addresses:
                self._known.setdefault(address, Known(address, given=False))

    def saw_jobs(self, ids: Iterable[str]) -> None:
        """Count where jobs were made, and move there if most come from one other node."""
        with self._lock:
            self._makers.update(job_id[2:10] for job_id in ids)
            if self._makers.total() < AFFINITY_JOBS:
                return
            prefix, jobs = self._makers.most_common(1)[0]
            most = jobs * 2 > self._makers.total()
            self._makers.clear()
            homes = [known for known in self._known.values() if known.id.startswith(prefix)]
            if most and homes and homes[0].priority < USABLE and not self._cools(homes[0]):
                self.current = homes[0].address

    def _rank(self, known: Known) -> tuple[bool, bool, bool, int, float]:
        chance = self.random.random() if self.config.order == "random" else 0.0
        return self._cools(known), known.priority >= USABLE, not known.given, known.priority, chance

    def _cools(self, known: Known) -> bool:
        return known.avoid_until_s > self.clock()

    def _note_priorities(self, rows: list[tuple[str, Address, int]]) -> None:
        by_id = {node_id: priority for node_id, _, priority in rows}
        by_address = {address: priority for _, address, priority in rows}
        for known in self._known.values():
            known.priority = by_id.get(known.id) or by_address.get(known.address) or GOOD

    def _take(self, rows: list[tuple[str, Address, int]]) -> None:
        """Know exactly the given nodes and those of ``rows``, each once."""
        kept = {address: known for address, known in self._known.items() if known.given}
        rows = [row for row in rows if row[1][0] and 0 < row[1][1] < 65536]
        for node_id, address, _ in rows:
            if address in kept:
                kept[address].id, kept[address].told = node_id, address
        for node_id, address, priority in rows:
            if address not in kept and self._is_given(node_id, address):
                continue
            known = kept.get(address) or self._known.get(address) or Known(address, given=False)
            known.id, known.priority = node_id, priority
            kept[address] = known
        self._known = kept
        if self.current not in kept:
            self.current = None

    def _is_given(self, node_id: str, address: Address) -> bool:
        """Whether a node is given by another address than this one. One that has moved is so no more."""
        for known in self._known.values():
            if known.given and known.id == node_id:
                if known.told not in {None, address}:
                    known.id, known.told = "", None
                    continue
                known.told = address
                return True
        return False


def tells_other_port(address: Address, node_id: str, rows: list[tuple[str, Address, int]]) -> bool:
    """Whether a node that was asked at ``address`` tells another port of itself: with TLS, the one for plain text.

    Then those that it tells of others are of no use, either.
    """
    return any(told[1] != address[1] for one, told, _ in rows if one == node_id)


def read_row(row: object) -> tuple[str, Address, int] | None:
    """ID, address and priority of one node in the reply of HELLO; None for what is no such row."""
    if not isinstance(row, list) or len(row) < 4 or not all(isinstance(word, bytes | str) for word in row[:4]):
        return None
    node_id, host, port, priority = (text_of(word) for word in row[:4])
    if not (port.isascii() and port.isdigit() and priority.isascii() and priority.isdigit()):
        return None
    return node_id, (host, int(port)), int(priority)
