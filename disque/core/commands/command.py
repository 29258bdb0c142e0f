"""COMMAND: the table of commands, for clients and for people."""

from typing import TYPE_CHECKING, Final

from disque import VERSION
from disque.core.base import resp
from disque.core.commands.helped import helped
from disque.core.model.catalog import CATEGORIES, categories
from disque.core.model.command import FLAG_NAMES, HELP, LOADING, READONLY, Command, Subcommand
from disque.core.model.session import Session

if TYPE_CHECKING:
    from disque.core.node import Node

WRONG: Final = b"ERR Unknown subcommand or wrong number of arguments."


def command(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """COMMAND, COMMAND COUNT | LIST | INFO name ... | DOCS [name ...]."""
    del now_ms
    if helped(node, session, args):
        return
    rows = node.table
    word = args[1].upper() if len(args) > 1 else b""
    if len(args) == 1:
        reply = resp.array([row_reply(row, session.protocol) for row in rows])
    elif word == b"COUNT" and len(args) == 2:
        reply = resp.integer(len(rows))
    elif word == b"LIST" and len(args) == 2:
        reply = resp.bulks([row.name for row in rows])
    elif word == b"INFO":
        reply = resp.array([named_row(node, name, session.protocol) for name in args[2:]] or rows_reply(node, session))
    elif word == b"DOCS":
        names = {name.lower() for name in args[2:]}
        reply = docs([row for row in rows if not names or row.name in names], session.protocol)
    else:
        reply = resp.error(WRONG)
    session.out.append(reply)


def rows_reply(node: "Node", session: Session) -> list[bytes]:
    """All rows."""
    return [row_reply(row, session.protocol) for row in node.table]


def named_row(node: "Node", name: bytes, protocol: int) -> bytes:
    """The row of one command, or nothing."""
    row = node.lookup.get(name.lower())
    return resp.null_bulk(protocol) if row is None else row_reply(row, protocol)


def row_reply(row: Command, protocol: int) -> bytes:
    """One row as Disque shows it: name, arity, flags, and where keys stand: nowhere.

    In RESP3 four columns follow, as in Redis, which clients there count on: ACL categories, and tips, key
    specifications, subcommands, in which nothing stands.
    """
    flags = [resp.status(name) for flag, name in FLAG_NAMES if row.flags & flag]
    columns = [
        resp.bulk(row.name),
        resp.integer(row.arity),
        resp.unordered(flags, protocol),
        resp.ZERO,
        resp.ZERO,
        resp.ZERO,
    ]
    if protocol >= 3:
        groups = [resp.status(b"@" + name) for name in CATEGORIES if name in categories(row)]
        columns += [resp.unordered(groups, protocol), resp.EMPTY_ARRAY, resp.EMPTY_ARRAY, resp.EMPTY_ARRAY]
    return resp.array(columns)


def docs(rows: list[Command], protocol: int) -> bytes:
    """What COMMAND DOCS tells: name by name, a map of facts."""
    return resp.mapping([part for row in rows for part in (resp.bulk(row.name), doc(row, protocol))], protocol)


def doc(row: Command, protocol: int) -> bytes:
    """The facts of one command."""
    facts = [
        (b"summary", row.summary.encode()),
        (b"since", VERSION.encode()),
        (b"group", row.group.encode()),
        (b"syntax", b"%b %b" % (row.name.upper(), row.usage.encode()) if row.usage else row.name.upper()),
    ]
    pairs = [part for name, value in facts for part in (resp.bulk(name), resp.bulk(value))]
    if row.subcommands:
        subs = [part for subcommand in row.subcommands for part in subdoc(row, subcommand, protocol)]
        pairs += [resp.bulk(b"subcommands"), resp.mapping(subs, protocol)]
    return resp.mapping(pairs, protocol)


def subdoc(row: Command, subcommand: Subcommand, protocol: int) -> tuple[bytes, bytes]:
    """Name and facts of one subcommand."""
    name, usage, summary = subcommand
    full = b"%b|%b" % (row.name, name.lower().encode())
    syntax = f"{row.name.decode().upper()} {name} {usage}".strip().encode()
    pairs = [resp.bulk(b"summary"), resp.bulk(summary.encode()), resp.bulk(b"syntax"), resp.bulk(syntax)]
    return resp.bulk(full), resp.mapping(pairs, protocol)


COMMANDS: Final = (
    Command(
        "command",
        0,
        READONLY | LOADING,
        command,
        "server",
        "[COUNT | LIST | INFO name ... | DOCS [name ...]]",
        "The commands of this server.",
        (
            ("COUNT", "", "How many commands there are."),
            ("LIST", "", "Their names."),
            ("INFO", "[name ...]", "Arity and flags."),
            ("DOCS", "[name ...]", "What they do."),
            HELP,
        ),
    ),
)
