"""CLIENT: about the connections of this node."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.commands.connection import name_fault
from disque.core.commands.helped import helped
from disque.core.model.command import ADMIN, HELP, READONLY, Command, Handler
from disque.core.model.session import NOT_WAITING, REPLY_OFF, REPLY_ON, REPLY_SKIP, Session

if TYPE_CHECKING:
    from disque.core.node import Node

SYNTAX: Final = b"ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME | SETNAME connection-name)"


def client(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT subcommand [word ...]."""
    entry = SUBCOMMANDS.get(args[1].upper())
    if helped(node, session, args):
        return
    if entry is None or not entry[0] <= len(args) <= entry[1]:
        session.out.append(resp.error(SYNTAX))
    else:
        entry[2](node, session, args, now_ms)


def line(node: "Node", session: Session, now_ms: int) -> bytes:
    """One connection as CLIENT LIST shows it; the fields of Disque first, in its order."""
    facts = node.host.client_facts(session)
    flags = b"O" if session.monitoring else b""
    listens = session.subscriptions
    flags += b"P" if listens is not None else b""
    flags += b"b" if session.waiting != NOT_WAITING else b""
    flags += b"c" if session.closing else b""
    flags += b"U" if facts["unix"] else b""
    numbers = {key: value for key, value in facts.items() if isinstance(value, int)}
    return (
        b"id=%d addr=%b fd=%d name=%b age=%d idle=%d flags=%b qbuf=%d qbuf-free=%d obl=%d oll=%d omem=%d"
        b" events=%b cmd=%b laddr=%b sub=%d psub=%d ssub=0 resp=%d lib-name=%b lib-ver=%b user=%b\n"
        % (
            session.id,
            session.address,
            numbers["fd"],
            session.name,
            max(0, now_ms - session.created_ms) // 1000,
            max(0, now_ms - session.active_ms) // 1000,
            flags or b"N",
            numbers["qbuf"],
            numbers["qbuf_free"],
            numbers["obl"],
            numbers["oll"],
            numbers["omem"],
            str(facts["events"]).encode(),
            session.command,
            session.local_address,
            0 if listens is None else len(listens.channels),
            0 if listens is None else len(listens.patterns),
            session.protocol,
            session.library,
            session.library_version,
            session.user.name,
        )
    )


#: Types of clients, as Redis names them; there are no replicas here.
TYPES: Final = frozenset({b"normal", b"pubsub"})


def is_of(session: Session, kind: bytes) -> bool:
    """Whether a connection is of this type: it has subscribed to something, or not."""
    return kind == (b"normal" if session.subscriptions is None else b"pubsub")


def unknown_type(word: bytes) -> bytes:
    """The error about a type of clients that there is not."""
    return b"ERR Unknown client type '%b'" % errors.one_line(word[:128])


def list_(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT LIST [TYPE type] [ID id ...]."""
    chosen = list(node.sessions.values())
    if len(args) > 2:
        word = args[2].upper()
        ids = {parse_int(arg) for arg in args[3:]}
        if word == b"ID" and len(args) > 3 and None not in ids:
            chosen = [one for one in chosen if one.id in ids]
        elif word != b"TYPE" or len(args) != 4:
            session.out.append(resp.error(errors.SYNTAX))
            return
        elif args[3].lower() not in TYPES:
            session.out.append(resp.error(unknown_type(args[3])))
            return
        else:
            chosen = [one for one in chosen if is_of(one, args[3].lower())]
    session.out.append(resp.text(b"".join([line(node, one, now_ms) for one in chosen]), session.protocol))


def info(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT INFO: this connection's line of CLIENT LIST."""
    del args
    session.out.append(resp.text(line(node, session, now_ms), session.protocol))


def get_name(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT GETNAME."""
    del node, args, now_ms
    session.out.append(resp.bulk(session.name) if session.name else resp.null_bulk(session.protocol))


def set_name(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT SETNAME name; the empty name takes it away."""
    del node, now_ms
    wrong = name_fault(b"Client names", args[2])
    if wrong:
        session.out.append(resp.error(wrong))
        return
    session.name = args[2]
    session.out.append(resp.OK)


def set_info(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT SETINFO LIB-NAME|LIB-VER value."""
    del node, now_ms
    what = args[2].upper()
    wrong = name_fault(errors.one_line(what[:16]), args[3])
    if wrong:
        session.out.append(resp.error(wrong))
        return
    if what == b"LIB-NAME":
        session.library = args[3]
    elif what == b"LIB-VER":
        session.library_version = args[3]
    else:
        session.out.append(resp.error(b"ERR Unrecognized option '%b'" % errors.one_line(args[2][:128])))
        return
    session.out.append(resp.OK)


def get_id(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT ID."""
    del node, args, now_ms
    session.out.append(resp.integer(session.id))


def pause(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT PAUSE ms: nobody's requests are looked at until then. It is extended, never shortened."""
    timeout_ms = parse_int(args[2])
    if timeout_ms is None:
        session.out.append(resp.error(errors.BAD_TIMEOUT))
    elif timeout_ms < 0:
        session.out.append(resp.error(errors.NEGATIVE_TIMEOUT))
    else:
        node.clients_paused_until_ms = max(node.clients_paused_until_ms, now_ms + timeout_ms)
        session.out.append(resp.OK)


def unpause(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT UNPAUSE. It is looked at as late as any other request, when the pause is over."""
    del args, now_ms
    node.clients_paused_until_ms = 0
    session.out.append(resp.OK)


def reply(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT REPLY ON|OFF|SKIP. `step` drops the replies; only ON is answered itself."""
    del node, now_ms
    mode = args[2].upper()
    if mode == b"ON":
        session.reply_mode = REPLY_ON
        session.out.append(resp.OK)
    elif mode == b"OFF":
        session.reply_mode = REPLY_OFF
    elif mode == b"SKIP":
        if session.reply_mode != REPLY_OFF:
            session.reply_mode = REPLY_SKIP
    else:
        session.out.append(resp.error(errors.SYNTAX))


def switch(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT NO-EVICT and NO-TOUCH ON|OFF: accepted, since nothing here evicts clients or counts touches of keys."""
    del node, now_ms
    session.out.append(resp.OK if args[2].upper() in {b"ON", b"OFF"} else resp.error(errors.SYNTAX))


def kill(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """CLIENT KILL ip:port, or with filters: ID, TYPE, ADDR, LADDR, SKIPME."""
    del now_ms
    if len(args) == 3:
        victims = [one for one in node.sessions.values() if one.address == args[2]]
        session.out.append(resp.OK if victims else resp.error(b"ERR No such client"))
    else:
        filters = Filters()
        wrong = filters.parse(args)
        if wrong:
            session.out.append(resp.error(wrong))
            return
        victims = list(filters.choose(node, session))
        session.out.append(resp.integer(len(victims)))
    for victim in victims:
        node.host.kill(victim)


class Filters:
    """What CLIENT KILL asks for: all that is given must fit."""

    __slots__ = ("address", "client_id", "kind", "local_address", "skip_me", "user")

    def __init__(self) -> None:
        self.client_id: int | None = None
        self.kind = b""
        self.address: bytes | None = None
        self.local_address: bytes | None = None
        self.skip_me = True
        self.user: bytes | None = None

    def parse(self, args: list[bytes]) -> bytes:
        """Read pairs of words; returns the text of an error, or nothing."""
        if len(args) % 2:
            return errors.SYNTAX
        for at in range(2, len(args), 2):
            wrong = self.take(args[at].upper(), args[at + 1])
            if wrong:
                return wrong
        return b""

    def take(self, word: bytes, value: bytes) -> bytes:
        """Take one pair; returns the text of an error, or nothing."""
        if word == b"ID":
            self.client_id = parse_int(value)
            good = self.client_id is not None and self.client_id > 0
            return b"" if good else b"ERR client-id should be greater than 0"
        if word == b"TYPE":
            self.kind = value.lower()
            return b"" if self.kind in TYPES else unknown_type(value)
        if word == b"ADDR":
            self.address = value
        elif word == b"LADDR":
            self.local_address = value
        elif word == b"USER":
            self.user = value
        elif word == b"SKIPME" and value.lower() in {b"yes", b"no"}:
            self.skip_me = value.lower() == b"yes"
        else:
            return errors.SYNTAX
        return b""

    def choose(self, node: "Node", session: Session) -> Iterator[Session]:
        """The sessions that fit."""
        for one in list(node.sessions.values()):
            if (
                self.client_id in {None, one.id}
                and self.address in {None, one.address}
                and self.local_address in {None, one.local_address}
                and (not self.kind or is_of(one, self.kind))
                and self.user in {None, one.user.name}
                and not (self.skip_me and one is session)
            ):
                yield one


KILL_WORDS: Final = "ip:port | [ID id] [ADDR ip:port] [LADDR ip:port] [USER name] [TYPE normal|pubsub] [SKIPME yes|no]"

#: Subcommand: the least and the largest number of words, the function.
SUBCOMMANDS: Final[dict[bytes, tuple[int, int, Handler]]] = {
    b"LIST": (2, 2**31, list_),
    b"INFO": (2, 2, info),
    b"KILL": (3, 64, kill),
    b"GETNAME": (2, 2, get_name),
    b"SETNAME": (3, 3, set_name),
    b"SETINFO": (4, 4, set_info),
    b"ID": (2, 2, get_id),
    b"PAUSE": (3, 3, pause),
    b"UNPAUSE": (2, 2, unpause),
    b"REPLY": (3, 3, reply),
    b"NO-EVICT": (3, 3, switch),
    b"NO-TOUCH": (3, 3, switch),
}

COMMANDS: Final = (
    Command(
        "client",
        -2,
        READONLY | ADMIN,
        client,
        "connection",
        "subcommand [word ...]",
        "See and manage the connections of this node.",
        (
            ("LIST", "[TYPE normal|pubsub] [ID id ...]", "A line for each connection."),
            ("INFO", "", "The line of this connection."),
            ("KILL", KILL_WORDS, "Close some."),
            ("GETNAME", "", "The name of this connection."),
            ("SETNAME", "name", "Name this connection."),
            ("SETINFO", "LIB-NAME|LIB-VER value", "Tell which client library this is."),
            ("ID", "", "The number of this connection."),
            ("PAUSE", "ms", "Stop looking at requests for a while."),
            ("UNPAUSE", "", "Look at requests again."),
            ("REPLY", "ON|OFF|SKIP", "Whether this connection is answered."),
            ("NO-EVICT", "ON|OFF", "Accepted for Redis' clients."),
            ("NO-TOUCH", "ON|OFF", "Accepted for Redis' clients."),
            HELP,
        ),
        tame=frozenset({"INFO", "GETNAME", "SETNAME", "SETINFO", "ID", "REPLY", "NO-TOUCH", "HELP"}),
    ),
)
