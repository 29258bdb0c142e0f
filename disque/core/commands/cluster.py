"""CLUSTER: the nodes of the cluster, which may be one."""

from typing import TYPE_CHECKING, Final

from disque.core import delivery, errors, resp
from disque.core.host import HostRefusedError
from disque.core.kinds import as_bytes
from disque.core.session import Session
from disque.core.table import ADMIN, READONLY, Command, Handler

if TYPE_CHECKING:
    from disque.core.node import Node

WRONG: Final = b"ERR Wrong CLUSTER subcommand or number of arguments"


def cluster(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLUSTER subcommand [word]."""
    entry = SUBCOMMANDS.get(args[1].upper())
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
    """CLUSTER INFO: numbers."""
    del args, now_ms
    lines = [b"cluster_state:ok\r\n", *[b"%b:%d\r\n" % pair for pair in node.membership.info()]]
    session.out.append(resp.text(b"".join(lines), session.protocol))


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
        delivery.leaving(node)
    save(node, session)


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
}

COMMANDS: Final = (
    Command(
        "cluster",
        -2,
        READONLY | ADMIN,
        cluster,
        "cluster",
        "subcommand [word]",
        "See and manage the nodes of the cluster.",
        (
            ("MYID", "", "The ID of this node."),
            ("NODES", "", "A line for each node."),
            ("INFO", "", "Numbers."),
            ("SAVECONFIG", "", "Write nodes.conf now."),
            ("LEAVING", "[yes|no]", "Whether this node is about to leave."),
        ),
    ),
)
