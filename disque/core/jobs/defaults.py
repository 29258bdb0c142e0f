"""How ADDJOB takes the options that are set for its queue where it says nothing itself."""

from typing import TYPE_CHECKING

from disque.core.jobs.terms import OF_TRIES
from disque.core.model.defaults import QueueDefaults
from disque.core.model.request import DEFAULT_TTL

if TYPE_CHECKING:
    from disque.core.model.request import Request
    from disque.core.node import Node


def begin(request: "Request") -> None:
    """What nobody writes shall be known afterwards."""
    request.ttl = request.replicate = 0


def fill_in(node: "Node", request: "Request", found: QueueDefaults) -> None:
    """Let what is set for the queue count where nothing was written. What contradicts a written option is left out."""
    if not request.ttl:
        request.ttl = DEFAULT_TTL
        if found.ttl > 0 and request.delay_ms < found.ttl * 1000:
            request.ttl = found.ttl
    is_written = request.rows is not None and not OF_TRIES.isdisjoint(request.rows)
    if request.retry < 0 and (found.retry > 0 or (found.retry == 0 and not is_written and request.replicate < 2)):
        request.retry = found.retry
    if not request.replicate:
        usual = found.replicate if found.replicate > 0 else node.default_replicate
        request.replicate = 1 if request.retry == 0 else usual
    for row, value in found.rows.items():
        is_said = request.rows is not None and row in request.rows
        if not is_said and (request.retry != 0 or row not in OF_TRIES):
            request.say_number(row, value)
    if not request.maxlen and found.maxlen > 0 and not found.drops:
        request.maxlen = found.maxlen
