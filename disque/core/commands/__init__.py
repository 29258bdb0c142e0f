"""The one table of commands, a file a family. There are no rules in here: a function takes words and calls a verb."""

from typing import Final

from disque.core.commands import (
    acl,
    client,
    cluster,
    command,
    connection,
    cron,
    ends,
    info,
    jobs,
    metrics,
    observe,
    past,
    pubsub,
    qconfig,
    queues,
    relocate,
    server,
    sweeps,
)
from disque.core.model.command import Command

ROWS: Final[tuple[Command, ...]] = (
    *jobs.COMMANDS,
    *relocate.COMMANDS,
    *ends.COMMANDS,
    *sweeps.COMMANDS,
    *queues.COMMANDS,
    *past.COMMANDS,
    *qconfig.COMMANDS,
    *cron.COMMANDS,
    *pubsub.COMMANDS,
    *connection.COMMANDS,
    *client.COMMANDS,
    *acl.COMMANDS,
    *info.COMMANDS,
    *metrics.COMMANDS,
    *server.COMMANDS,
    *observe.COMMANDS,
    *command.COMMANDS,
    *cluster.COMMANDS,
)

#: Every command by its name in lower case.
COMMANDS: Final[dict[bytes, Command]] = {row.name: row for row in ROWS}

for _index, _row in enumerate(ROWS):
    _row.index = _index
