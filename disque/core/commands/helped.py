"""HELP of commands with subcommands, from the rows of the table."""

from typing import TYPE_CHECKING

from disque.core.base import resp

if TYPE_CHECKING:
    from disque.core.model.session import Session
    from disque.core.node import Node


def helped(node: "Node", session: "Session", args: list[bytes]) -> bool:
    """Answer HELP of a command with subcommands, in lines as Redis does; whether it was that."""
    if len(args) != 2 or args[1].upper() != b"HELP":
        return False
    name = session.command.decode().upper()
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for row in node.table:
        if row.name == session.command:
            for subcommand, words, summary in row.subcommands:
                lines += [f"{subcommand} {words}".rstrip(), f"    {summary}"]
    session.out.append(resp.array([resp.status(line.encode()) for line in lines]))
    return True
