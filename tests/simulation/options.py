"""What one run is like: everything follows from its seed and the number of nodes.

Runs differ widely on purpose: some have no faults at all, some only one kind, some all of them. A bug that needs one
fault often hides where others happen all the time.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from cluster.messages import KINDS

#: Kinds of faults, with the mean time between two of them in ms where they are switched on.
FAULTS: Final[dict[str, int]] = {
    "crash": 6000,  # the process dies
    "power": 9000,  # the machine dies: what was not fsynced may be gone
    "stop": 7000,  # a clean stop
    "wipe": 20000,  # the machine dies, and its journal is gone
    "massacre": 25000,  # several machines at once
    "freeze": 6000,  # a process stands still
    "cut": 5000,  # two nodes cannot hear each other, in one direction or both
    "split": 9000,  # the network falls apart into two groups
    "reset": 2500,  # a link ends
    "slow": 4000,  # a link becomes slow
    "disk": 9000,  # writes fail for a while
    "fsync": 5000,  # fsyncs take long for a while
    "eio": 8000,  # fsyncs fail
    "compact": 6000,  # the journal is compacted
    "leaving": 12000,  # CLUSTER LEAVING, and back
    "forget": 20000,  # CLUSTER FORGET, and MEET again
    "clear": 20000,  # CLUSTER RESET, and MEET again
    "retire": 25000,  # a machine never comes back
    "half": 3000,  # a client shuts down its sending side
    "memory": 9000,  # maxmemory becomes small for a while
    "newcomer": 20000,  # another node joins
    "away": 6000,  # a machine is off for so long that the others forget it, and comes back
    "depart": 8000,  # a machine leaves for good, as it should be done: CLUSTER LEAVING, SHUTDOWN, CLUSTER FORGET
    "decline": 5000,  # a machine never comes back, once all copies that the one before had were made again
}
#: Faults that make no sense with one node.
ONLY_MANY: Final = frozenset(
    {
        *("cut", "split", "reset", "slow", "leaving", "forget", "newcomer", "massacre", "clear", "retire"),
        *("decline", "depart", "away"),
    }
)
#: Faults that some runs have beside those that are drawn, or alone.
APART: Final = frozenset({"decline", "depart", "away"})
#: Faults under which the nodes themselves and what is between them go on without a break.
HARMLESS: Final = frozenset({"compact"})

#: Faults under which nothing is lost: nodes stop, and say so.
ORDERLY: Final = HARMLESS | {"stop", "half", "fsync"}

#: Whether nodes talk about UNIQUE keys: without that, each node has its own.
KEYS_TRAVEL: Final = any(kind in KINDS for kind in range(21, 30))
POLICIES: Final = ("always", "always", "everysec", "everysec", "no", "off")


@dataclass(slots=True)
class Options:
    """The options of one run; times in ms. ``faults`` are those switched on, with the mean time between two."""

    seed: int
    nodes: int
    policy: str = "everysec"
    timeout_ms: int = 2000
    active_ms: int = 20000
    clients: int = 4
    queues: int = 3
    jumps: bool = False
    faults: dict[str, int] = field(default_factory=dict)
    unique: bool = False
    long_retry: bool = False
    pause: bool = False
    #: Consumers wait for jobs rather than jobs for consumers, so that jobs travel.
    eager: bool = False
    #: So many zones, in which the nodes are at random, some of them in none; 0: nobody has heard of zones.
    zones: int = 0
    #: Bytes of the longest body that some of the nodes take; 0: all take any.
    body_most: int = 0
    #: Nodes are of several versions: some understand less than others, until they start again.
    mixed: bool = False
    #: Jobs have a bound of tries, and go to other queues.
    tries: bool = False
    #: Somebody wants to know how jobs end.
    ends: bool = False
    #: There are schedules.
    cron: bool = False
    #: Somebody sets options of queues: how long they may be, and what becomes of what is too much.
    overflow: bool = False
    #: Clients publish messages.
    talk: bool = False
    #: There are users with rights to some queues.
    users: bool = False
    #: restart-grace in s.
    grace_s: int = 60
    #: cluster-repair-after in s: from REPAIR_NEVER_S on, a run is not that long.
    repair_s: int = 600
    #: cluster-forget-after in s.
    forget_s: int = 86_400

    @property
    def user_names(self) -> tuple[bytes, ...]:
        """Those users."""
        return (b"ann", b"bob") if self.users else ()

    @property
    def calm(self) -> bool:
        """Whether nothing ever goes wrong in this run."""
        return set(self.faults) <= HARMLESS

    @property
    def orderly(self) -> bool:
        """Whether all that ever ends, ends cleanly, and nobody changes what a queue gives."""
        return set(self.faults) <= ORDERLY and not self.jumps and not self.pause

    def __str__(self) -> str:
        faults = " ".join(f"{kind}:{mean}" for kind, mean in self.faults.items()) or "none"
        return (
            f"nodes {self.nodes}, appendfsync {self.policy}, node timeout {self.timeout_ms} ms, "
            f"{self.clients} clients, {self.queues} queues, {self.active_ms} ms, jumps {self.jumps}, "
            f"unique {self.unique}, pause {self.pause}, zones {self.zones}, bodies {self.body_most}, "
            f"mixed {self.mixed}, tries {self.tries}, ends {self.ends}, cron {self.cron}, "
            f"overflow {self.overflow}, talk {self.talk}, users {self.users}, "
            f"grace {self.grace_s} s, repair {self.repair_s} s, forget {self.forget_s} s, "
            f"faults {faults}"
        )


def draw_nodes(seed: int, least: int, most: int) -> int:
    """The number of nodes of the run with this seed."""
    return Random(f"{seed} nodes").randint(least, most)


def draw(seed: int, nodes: int) -> Options:
    """The options of the run with this seed."""
    random = Random(f"{seed} options")
    options = Options(seed, nodes)
    options.policy = random.choice(POLICIES)
    options.timeout_ms = random.choice([1000, 2000, 3000, 5000])
    options.active_ms = random.choice([8000, 15000, 15000, 25000])
    options.clients = random.randint(2, 6)
    options.queues = random.randint(1, 4)
    options.unique = random.random() < 0.3 and (nodes == 1 or KEYS_TRAVEL)
    options.long_retry = random.random() < 0.3
    options.pause = random.random() < 0.25
    options.jumps = random.random() < 0.15
    options.faults = draw_faults(random, nodes)
    options.zones = draw_zones(seed, nodes)
    # I11 knows nothing of sizes; and what only a node takes that leaves is delivered by nobody else.
    options.body_most = 0 if options.zones or "retire" in options.faults else draw_body_most(seed, nodes)
    options.mixed = nodes > 1 and Random(f"{seed} versions").random() < 0.4
    options.tries = Random(f"{seed} tries").random() < 0.4
    options.ends = Random(f"{seed} ends").random() < 0.4
    options.cron = Random(f"{seed} cron").random() < 0.4
    options.overflow = Random(f"{seed} overflow").random() < 0.35
    options.talk = Random(f"{seed} talk").random() < 0.35
    options.users = Random(f"{seed} users").random() < 0.3
    options.grace_s = Random(f"{seed} grace").choice((0, 1, 3, 8, 60, 60))
    options.repair_s = Random(f"{seed} repair").choice((1, 2, 5, 600, 600, 600))
    draw_decline(options)
    return options


def draw_decline(options: Options) -> None:
    """In some runs all machines but two go, one after the other, lost or as it should be done; in some they are away.

    That takes its time.
    """
    random = Random(f"{options.seed} decline")
    chance = random.random()
    if options.nodes > 1 and chance > 0.95:
        options.faults, options.forget_s, options.timeout_ms = {"away": FAULTS["away"]}, random.choice((5, 8)), 1000
        options.active_ms, options.jumps = 40_000, False
    if options.nodes < 3 or chance > 0.15:
        return
    for kind in random.choice((("decline",), ("depart",), ("decline", "depart"))):
        options.faults[kind] = FAULTS[kind]
    options.repair_s, options.timeout_ms = random.choice((1, 2)), 1000
    options.active_ms = 40_000
    options.body_most = 0


def draw_zones(seed: int, nodes: int) -> int:
    """How many zones a run has."""
    random = Random(f"{seed} zones")
    return random.randint(1, max(2, nodes // 2)) if nodes > 1 and random.random() < 0.4 else 0


def draw_body_most(seed: int, nodes: int) -> int:
    """The longest body that some nodes take: some of those that are made are longer."""
    return 1000 if nodes > 1 and Random(f"{seed} bodies").random() < 0.25 else 0


def draw_faults(random: Random, nodes: int) -> dict[str, int]:
    """Which faults a run has: none, one, a few, or all, more or less often."""
    possible = [kind for kind in FAULTS if (nodes > 1 or kind not in ONLY_MANY) and kind not in APART]
    how = random.random()
    if how < 0.15:
        chosen = []
    elif how < 0.4:
        chosen = random.sample(possible, 1)
    elif how < 0.85:
        chosen = random.sample(possible, min(len(possible), random.randint(2, 5)))
    else:
        chosen = possible
    pace = random.choice([0.5, 1.0, 1.0, 2.0])
    return {kind: int(FAULTS[kind] * pace) for kind in FAULTS if kind in chosen}


#: From here on, no run is so long that a node is missed for that time.
REPAIR_NEVER_S: Final = 600
