"""What goes wrong at the cluster, as HTTP says it: one table of statuses."""

from typing import Final, NamedTuple

from disque.client import DisqueError, UnavailableError

#: Seconds after which a client may try again.
RETRY_AFTER_S: Final = 1


class Fault(NamedTuple):
    """The status of an answer, a title for people, and whether it may be better in a moment."""

    status: int
    title: str
    again: bool = False


#: By the code of an error reply, or of the client.
FAULTS: Final[dict[str, Fault]] = {
    "ERR": Fault(400, "The cluster refused the request"),
    "BADID": Fault(400, "This is not the ID of a job"),
    "NOJOB": Fault(404, "There is no such job"),
    "NOCRON": Fault(404, "There is no such schedule"),
    "TOOLATE": Fault(409, "Half of the job's TTL is over"),
    "CANCELLED": Fault(409, "The job was cancelled"),
    "MAXLEN": Fault(409, "The queue is full", again=True),
    "PAUSED": Fault(409, "The queue is paused", again=True),
    "NOAUTH": Fault(401, "Log in first"),
    "WRONGPASS": Fault(401, "Wrong user or password"),
    "NOPERM": Fault(403, "This user may not do that"),
    "DENIED": Fault(403, "The node refuses connections from other machines"),
    "NOREPL": Fault(503, "There were not enough copies in time", again=True),
    "OOM": Fault(503, "The memory of the cluster is full", again=True),
    "LOADING": Fault(503, "The nodes are starting", again=True),
    "LEAVING": Fault(503, "The node is leaving", again=True),
    "MISCONF": Fault(503, "The journal cannot be written", again=True),
    "UNAVAILABLE": Fault(503, "No node could be reached", again=True),
    "INCOMPLETE": Fault(502, "The connection was lost; whether it was done is not known"),
    "UNEXPECTED": Fault(502, "A node answered what no node answers"),
}
#: When the nodes that were asked did not answer, and others could not be.
MAYBE_DONE: Final = Fault(504, "No node answered in time; it may have been done all the same", again=True)
#: For codes that this version does not know.
OTHER: Final = Fault(502, "The cluster answered an error")


def fault_of(error: DisqueError) -> Fault:
    """How HTTP says this error."""
    if isinstance(error, UnavailableError) and error.maybe_done:
        return MAYBE_DONE
    return FAULTS.get(error.code, OTHER)
