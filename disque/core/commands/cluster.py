"""CLUSTER: the nodes of the cluster, which may be one."""

from typing import TYPE_CHECKING, Final

from cluster.member import NODE_ID_LENGTH, PORT_MAX, default_bus_port, is_host
from disque.core import links, questions
from disque.core.auth import users
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands.helped import helped
from disque.core.config.kinds import as_bytes
from disque.core.host import HostRefusedError
from disque.core.jobs import deliver, sessions
from disque.core.model.command import ADMIN, HELP, READONLY, Command, Handler
from disque.core.model.jobid import IdMaker
from disque.core.model.session import Session
from disque.core.replication import coordinator, registry
from disque.core.replication.repair_by_hand import Losing

if TYPE_CHECKING:
    from disque.core.node import Node

WRONG: Final = b"ERR Wrong CLUSTER subcommand or number of arguments"
BAD_PORT: Final = b"ERR Invalid TCP port specified: %b"
BAD_ADDRESS: Final = b"ERR Invalid node address specified: %b:%b"
BUSY_MEETING: Final = b"ERR Too many nodes are being met or known already, try again later"
BAD_NODE_ID: Final = b"ERR Invalid node identifier"
UNKNOWN_NODE: Final = b"ERR Unknown node %b"
NOT_GONE: Final = b"ERR Node %b does not fail: it is not gone"
NOT_MYSELF: Final = b"ERR I tried hard but I can't forget myself..."


def cluster(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER subcommand [word ...]."""
    entry = SUBCOMMANDS.get(args[1].upper())
    if helped(node, session, args):
        return
    if entry is None or not entry[0] <= len(args) <= entry[1]:
        session.out.append(resp.error(WRONG))
    else:
        entry[2](node, session, args, now_ms)


def my_id(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER MYID."""
    del args, now_ms
    session.out.append(resp.bulk(node.node_id))


def nodes(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER NODES: a line for each node."""
    del args
    session.out.append(resp.text(node.membership.nodes_lines(now_ms), session.protocol))


def info(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER INFO: the state, numbers, and the nodes of each zone that has a label."""
    del args, now_ms
    membership = node.membership
    lines = [b"cluster_state:%b\r\n" % state(node), *[b"%b:%d\r\n" % pair for pair in membership.info()]]
    lines += [b"%b:%d\r\n" % pair for pair in repair_figures(node)]
    zones = membership.zones()
    if zones:
        lines.append(b"cluster_zone:%b\r\n" % membership.myself.zone)
    lines += [b"cluster_zone_%b:%b\r\n" % (zone, b",".join(zones[zone])) for zone in sorted(zones)]
    session.out.append(resp.text(b"".join(lines), session.protocol))


def repair_figures(node: "Node") -> list[tuple[bytes, int]]:
    """What CLUSTER INFO says of copies that were lost."""
    repairs = node.repairs
    pairs = [
        (b"under_replicated_jobs", repairs.short),
        (b"one_copy_jobs", repairs.alone),
        (b"repaired_jobs", repairs.made),
    ]
    if node.membership.leaving:
        unknown = node.jobs_registered() + len(node.ends.by_id)
        pairs.append((b"leaving_jobs", repairs.left if repairs.left >= 0 else unknown))
    return pairs


def state(node: "Node") -> bytes:
    """Can ADDJOB succeed: with its default REPLICATE (ok), with fewer copies (degraded), not at all (fail)."""
    copies = len(node.membership.reachable()) + (not coordinator.from_outside(node))
    full = node.used > node.limits.full and not (node.evict_acks and (node.evictable.count or node.acks.by_id))
    if not copies or full or node.misconf:
        return b"fail"
    return b"ok" if copies >= node.default_replicate else b"degraded"


def save_config(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER SAVECONFIG: write nodes.conf now."""
    del args, now_ms
    save(node, session)


def leaving(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER LEAVING [yes|no]: ask, or announce that this node is about to go."""
    del now_ms
    if len(args) == 2:
        session.out.append(resp.status(b"yes" if node.membership.leaving else b"no"))
        return
    word = args[2].lower()
    if word not in {b"yes", b"no"}:
        session.out.append(resp.error(b"ERR Wrong argument for CLUSTER LEAVING. Use 'yes' or 'no'"))
        return
    node.membership.leaving = word == b"yes"
    if node.membership.leaving:
        deliver.leaving(node)
    save(node, session)


def meet(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER MEET ip port [bus-port]: join the cluster of the node at this address; a host name will do.

    +OK says that it is being tried; CLUSTER NODES shows what becomes of it.
    """
    ports = [parse_int(word) for word in args[3:]]
    wrong = [word for word, port in zip(args[3:], ports, strict=True) if port is None or not word]
    if wrong:
        session.out.append(resp.error(errors.one_line(BAD_PORT % wrong[0])))
        return
    port = ports[0] or 0
    bus_port = ports[-1] or 0 if len(ports) == 2 else default_bus_port(port)
    if not is_host(args[2]) or not 0 < port <= PORT_MAX or not 0 < bus_port <= PORT_MAX:
        session.out.append(resp.error(errors.one_line(BAD_ADDRESS % (args[2], b":".join(args[3:])))))
    elif node.membership.meet(args[2], port, bus_port, now_ms):
        session.out.append(resp.OK)
    else:
        session.out.append(resp.error(BUSY_MEETING))


def forget(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER FORGET id: no job waits for that node any more; tell it to all others within a minute."""
    node_id = args[2]
    if len(node_id) != NODE_ID_LENGTH:
        session.out.append(resp.error(BAD_NODE_ID))
    elif node_id not in node.membership.nodes:
        session.out.append(resp.error(errors.one_line(UNKNOWN_NODE % node_id)))
    elif node_id == node.node_id:
        session.out.append(resp.error(NOT_MYSELF))
    else:
        node.membership.forget(node_id, now_ms)
        links.review(node, now_ms)
        session.out.append(resp.OK)


def repair(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER REPAIR id: that node is gone for good, so make its copies again at once. How many nodes begin."""
    node_id = args[2]
    if len(node_id) != NODE_ID_LENGTH:
        session.out.append(resp.error(BAD_NODE_ID))
    elif node_id not in node.membership.nodes:
        session.out.append(resp.error(errors.one_line(UNKNOWN_NODE % node_id)))
    elif node_id not in node.repairs.failing:
        session.out.append(resp.error(NOT_GONE % node_id))
    else:
        questions.ask(node, session, Losing(node_id), now_ms)


def reset(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER RESET [SOFT|HARD]: drop all jobs and forget all other nodes; HARD also takes a new ID."""
    how = args[2].upper() if len(args) > 2 else b"SOFT"
    if how not in {b"SOFT", b"HARD"} or node.misconf:  # a restart would bring back what cannot be noted as gone
        session.out.append(resp.error(node.misconf or errors.SYNTAX))
        return
    registry.forget_all(node)
    users.reload(node)
    sessions.flush_all(node, now_ms)
    node.early, node.messages = [], []
    node.batches.clear()
    node.resets += 1  # what still waits for the journal speaks of jobs that are no more: see the pump
    node.start = node.random.getrandbits(62) + 1  # as another process that starts empty: see `links.note_start`
    node.membership.reset(now_ms, b"%040x" % node.random.getrandbits(160) if how == b"HARD" else None)
    take_id(node)
    links.review(node, now_ms)
    save(node, session)


def take_id(node: "Node") -> None:
    """Everything that follows from the ID of this node follows from the one that it has now. There must be no jobs."""
    node.node_id = node.membership.myself.id
    node.selves = (node.node_id,)
    node.sharing = {node.selves: node.selves}
    node.ids = IdMaker(node.node_id, node.host.entropy)


def save(node: "Node", session: Session) -> None:
    """Write nodes.conf and answer how that went."""
    try:
        node.host.save_cluster()
    except HostRefusedError as refusal:
        text = b"ERR error saving the cluster node config: %b" % as_bytes(str(refusal))
        session.out.append(resp.error(errors.one_line(text)))
    else:
        session.out.append(resp.OK)


SUBCOMMANDS: Final[dict[bytes, tuple[int, int, Handler]]] = {
    b"MYID": (2, 2, my_id),
    b"NODES": (2, 2, nodes),
    b"INFO": (2, 2, info),
    b"SAVECONFIG": (2, 2, save_config),
    b"LEAVING": (2, 3, leaving),
    b"MEET": (4, 5, meet),
    b"FORGET": (3, 3, forget),
    b"REPAIR": (3, 3, repair),
    b"RESET": (2, 3, reset),
}

COMMANDS: Final = (
    Command(
        "cluster",
        -2,
        READONLY | ADMIN,
        cluster,
        "cluster",
        "subcommand [word ...]",
        "See and manage the nodes of the cluster.",
        (
            ("MYID", "", "The ID of this node."),
            ("NODES", "", "A line for each node."),
            ("INFO", "", "Numbers."),
            ("SAVECONFIG", "", "Write nodes.conf now."),
            ("LEAVING", "[yes|no]", "Whether this node is about to leave."),
            ("MEET", "ip port [bus-port]", "Join the cluster of the node at this address or host name."),
            ("FORGET", "id", "Remove a node that will not come back. Send it to every other node."),
            ("REPAIR", "id", "Make the copies of a node that will not come back again at once. All nodes are told."),
            ("RESET", "[SOFT|HARD]", "Drop all jobs and forget all other nodes; HARD also takes a new ID."),
            HELP,
        ),
        tame=frozenset({"MYID", "NODES", "INFO", "HELP"}),
    ),
)
