"""The commands about the connection itself: AUTH, HELLO, PING, ECHO, SELECT, RESET, QUIT."""

import re
from typing import TYPE_CHECKING, Final

from disque import VERSION
from disque.core import pubsub as channels
from disque.core.auth import login
from disque.core.base import errors, resp
from disque.core.base.numbers import parse_int
from disque.core.model.command import FAST, LISTENING, LOADING, NO_AUTH, READONLY, Command
from disque.core.model.session import REPLY_ON, Session
from disque.core.model.user import DEFAULT

if TYPE_CHECKING:
    from disque.core.node import Node

#: Bytes of what clients call themselves and their libraries, which is kept as long as they are connected.
NAME_MAX: Final = 1024
CLEAN_NAME: Final = re.compile(rb"[!-~]*")


def name_fault(what: bytes, name: bytes) -> bytes:
    """Why ``name`` cannot stand in CLIENT LIST, or nothing: it must be short, of printable ASCII without spaces."""
    if len(name) > NAME_MAX:
        return b"ERR %b cannot be longer than 1024 bytes." % what
    if not CLEAN_NAME.fullmatch(name):
        return b"ERR %b cannot contain spaces, newlines or special characters." % what
    return b""


def auth(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """AUTH password, or AUTH user password: log in. A wrong password logs out.

    While the default user has no password, it takes any, as in Redis; the form without a user keeps Disque's error.
    """
    if len(args) > 3:
        session.out.append(resp.error(errors.SYNTAX))
        return
    name = args[1] if len(args) == 3 else DEFAULT
    if not login.is_known(node, name):
        session.out.append(resp.error(errors.LOADING))
        return
    if len(args) == 2 and node.users.default.is_open():
        session.out.append(resp.error(errors.NO_PASSWORD_SET))
        return
    if login.must_wait(node, session, args, now_ms):
        return
    if login.log_in(node, session, name, args[-1], b"auth", now_ms):
        session.out.append(resp.OK)
    else:
        session.log_in(node.users.default, passed=False)
        session.out.append(resp.error(errors.WRONG_PASSWORD if len(args) == 2 else errors.WRONG_PASS))


def hello(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """HELLO alone lists the nodes, as in Disque; with a protocol version it is the handshake of Redis' clients."""
    if len(args) > 1:
        shake_hands(node, session, args, now_ms)
    elif not session.may():
        session.out.append(resp.error(errors.NO_AUTH))
    elif login.is_unsure(node, session):
        session.out.append(resp.error(errors.LOADING))
    else:
        nodes = [resp.bulks(list(entry)) for entry in hello_nodes(node, now_ms)]
        session.out.append(resp.array([resp.ONE, resp.bulk(node.node_id), *nodes]))


def hello_nodes(node: "Node", now_ms: int) -> list[tuple[bytes, bytes, bytes, bytes]]:
    """ID, address, port and priority of each node, as HELLO shows them."""
    known = node.membership.hello(now_ms)
    return [(node_id, ip, b"%d" % port, b"%d" % priority) for node_id, ip, port, priority in known]


class Handshake:
    """What a HELLO with a version asks for; None where it does not."""

    __slots__ = ("name", "password", "user", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self.user: bytes | None = None
        self.password = b""
        self.name: bytes | None = None


def parse_handshake(args: list[bytes], wanted: Handshake) -> bytes:
    """Read ``HELLO version [AUTH user password] [SETNAME name]``; returns the text of an error, or nothing."""
    version = parse_int(args[1])
    if version is None:
        return b"ERR Protocol version is not an integer or out of range"
    if version not in {2, 3}:
        return errors.NO_PROTOCOL
    wanted.version = version
    at = 2
    while at < len(args):
        word = args[at].upper()
        if word == b"AUTH" and at + 2 < len(args):
            wanted.user, wanted.password = args[at + 1], args[at + 2]
            at += 3
        elif word == b"SETNAME" and at + 1 < len(args):
            wanted.name = args[at + 1]
            at += 2
        else:
            return b"ERR Syntax error in HELLO option '%b'" % errors.one_line(args[at][:128])
    return b"" if wanted.name is None else name_fault(b"Client names", wanted.name)


def shake_hands(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """Choose the protocol, log in and take a name in one step; on any error nothing changes."""
    wanted = Handshake()
    wrong = parse_handshake(args, wanted)
    if not wrong and wanted.user is not None:
        if not login.is_known(node, wanted.user):
            session.out.append(resp.error(errors.LOADING))
            return
        if login.must_wait(node, session, args, now_ms):
            return
        if not login.log_in(node, session, wanted.user, wanted.password, b"hello", now_ms):
            wrong = errors.WRONG_PASS
    if not wrong and not session.may():
        wrong = (
            b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            b"<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            b"same time"
        )
    if wrong:
        session.out.append(resp.error(wrong))
        return
    assert wanted.version is not None
    session.protocol = wanted.version
    if wanted.name is not None:
        session.name = wanted.name
    session.out.append(handshake_reply(session))


def handshake_reply(session: Session) -> bytes:
    """Who is speaking, in the fields that clients of Redis look for."""
    fields = [
        (b"server", resp.bulk(b"disque")),
        (b"version", resp.bulk(VERSION.encode())),
        (b"proto", resp.integer(session.protocol)),
        (b"id", resp.integer(session.id)),
        (b"mode", resp.bulk(b"standalone")),
        (b"role", resp.bulk(b"master")),
        (b"modules", resp.EMPTY_ARRAY),
    ]
    return resp.mapping([part for name, value in fields for part in (resp.bulk(name), value)], session.protocol)


def ping(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """PING [message]."""
    del now_ms
    if len(args) > 2:
        session.out.append(resp.error(errors.wrong_arity(b"ping")))
    elif session.subscriptions is not None and session.protocol == 2:
        session.out.append(resp.bulks([b"pong", args[1] if len(args) == 2 else b""]))  # all that comes is an array
    elif len(args) == 2:
        session.out.append(resp.bulk(args[1]))
    elif node.misconf:
        session.out.append(resp.error(node.misconf))
    else:
        session.out.append(b"+PONG\r\n")


def echo(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """ECHO message."""
    del node, now_ms
    session.out.append(resp.bulk(args[1]))


def select(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """SELECT 0: there is one database, which is not a database; clients of Redis send this by habit."""
    del node, now_ms
    index = parse_int(args[1])
    if index is None:
        session.out.append(resp.error(errors.NOT_AN_INTEGER))
    elif index:
        session.out.append(resp.error(b"ERR DB index is out of range"))
    else:
        session.out.append(resp.OK)


def reset(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """RESET: the connection as one that is opened now: logged out, if there is a password."""
    del args, now_ms
    node.monitors.pop(session.id, None)
    session.monitoring = False
    channels.leave(node, session)
    login.start_over(node, session)
    session.protocol = 2
    session.name = b""
    session.reply_mode = REPLY_ON
    session.out.append(b"+RESET\r\n")


def quit_(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """QUIT: the connection is closed behind this reply."""
    del node, args, now_ms
    session.closing = True
    session.out.append(resp.OK)


#: Flags of what any connection may send at any time.
ALWAYS: Final = READONLY | FAST | LOADING | NO_AUTH | LISTENING

COMMANDS: Final = (
    Command(
        "auth",
        -2,
        READONLY | LOADING | FAST | NO_AUTH,
        auth,
        "connection",
        "[user] password",
        "Log in as a user; without a name as `default`.",
    ),
    Command(
        "hello",
        -1,
        READONLY | FAST | LOADING | NO_AUTH,
        hello,
        "connection",
        "[2|3 [AUTH user password] [SETNAME name]]",
        "List the nodes of the cluster; or choose the protocol as Redis' clients do.",
    ),
    Command("ping", -1, READONLY | FAST | LISTENING, ping, "connection", "[message]", "Answer PONG, or the message."),
    Command("echo", 2, READONLY | FAST | LOADING, echo, "connection", "message", "Answer the message."),
    Command("select", 2, READONLY | FAST | LOADING, select, "connection", "0", "For Redis' clients; there is only 0."),
    Command("reset", 1, ALWAYS, reset, "connection", "", "Start over, logged out."),
    Command("quit", -1, ALWAYS, quit_, "connection", "", "Close the connection."),
)
