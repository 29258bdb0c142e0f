"""`celery -A app disque`: what waits in the queues of an application, in one table.

That Celery finds this command by its entry point is also how the transport is known on the command line: `celery -b
disque://node-1 worker` works though no application has imported `disque.celery`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

HEADS: Final = ("queue", "waiting", "scheduled", "in flight", "dead")
#: Where dead letters go unless said otherwise.
DEAD: Final = "{}:dead"


@click.command("disque")
@click.pass_context
def disque(context: click.Context) -> None:
    """Show the queues of the application: at all nodes of disque://."""
    app = context.obj.app
    with app.connection_for_read() as connection:
        if connection.transport.driver_name != "disque":
            raise click.ClickException("the broker of this application is not disque://")
        connection.connect()
        names = [str(queue.name) for queue in app.amqp.queues.values()]
        rows = [(name, *figures(connection.transport, name)) for name in sorted(set(names))]
    for line in table([HEADS, *rows]):
        click.echo(line)


def figures(transport: Any, queue: str) -> tuple[int, int, int, int]:
    """How many messages of a queue wait, wait for their time, are with consumers, and are dead letters."""
    name = transport.options.prefix + queue
    stat = transport.disque.queue_stat(name, cluster=True) or {}
    dead = transport.disque.queue_length(DEAD.format(name), cluster=True)
    return stat.get("len", 0), stat.get("delayed", 0), stat.get("in_flight", 0), dead


def table(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Lines with the cells of each column below each other: the first one begins at the left, the others end right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        right = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *right])
