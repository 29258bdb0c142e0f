"""Memory: what jobs, queues and keys are estimated to take, the limit, and what may be thrown away.

The estimate is counted as things come and go, so `maxmemory` means the same number of jobs on every machine where the
core is compiled, and on every one where it is not; the resident set that the system reports stands beside it in INFO.

Above 75 % of the limit a node keeps no new job itself (ADDJOB needs other nodes then). Above 95 % it throws away what
is no loss: acknowledged jobs that are still remembered and at-most-once jobs that were delivered. Only when there are
none of these left, ADDJOB, ENQUEUE and NACK are refused. Beyond the limit itself, nobody makes queues any more by
waiting in them or pausing them, other nodes included, and of what other nodes hand over only that is taken which would
be lost and was asked for.
"""

from typing import Final

from disque.core.model.job import COMPILED

#: Bytes of a job without its body, measured as resident set over a million jobs (`make bench` does): compiled, a job
#: has its numbers in it. Bytes of a queue without its name; of a UNIQUE key, and of one with a window about which
#: nothing is asked.
JOB_BYTES: Final = 295 if COMPILED else 500
QUEUE_BYTES: Final = 2400
KEY_BYTES: Final = 420
STORED_BYTES: Final = 110
#: An acknowledgement that other nodes must still hear of, on top of its job; an ID that must not come back.
ACK_BYTES: Final = 600
GONE_BYTES: Final = 120
#: On top of its job: copies that are still wanted of a job that is answered already (ASYNC), and questions about one to
#: its other holders. Copies for which a client waits are bounded by what one connection may have unanswered.
SPREAD_BYTES: Final = 600
VOTE_BYTES: Final = 500
#: A job whose copies are being counted, on top of it; one that is in doubt since its node was away for long.
CHECK_BYTES: Final = 500
RETURNED_BYTES: Final = 200
#: On top of its job, while it is in flight: a lease of its own.
LEASE_BYTES: Final = 150

#: What few jobs have beyond their fields, without its texts; a move that other holders must still hear of.
EXTRA_BYTES: Final = 200
MOVE_BYTES: Final = 300
#: A question to all nodes, without what is asked and answered; one that another node has asked and is not answered yet.
SURVEY_BYTES: Final = 1000
ASKED_BYTES: Final = 400
#: How a job has ended, without its texts and its body; that a node wants to hear of it; a client that waits for some.
END_BYTES: Final = 500
WATCH_BYTES: Final = 400
WAIT_BYTES: Final = 600
#: When a delivery began whose consumer has said WORKING.
BEGAN_BYTES: Final = 250

#: What happened to the jobs of a queue, without its rows.
HISTORY_BYTES: Final = 1500

#: A place in the line of a queue, in which a GETJOB waits.
PLACE_BYTES: Final = 60

#: Replies to walks in steps (QSCAN and JSCAN with BUSYLOOP) that clients have not taken, in bytes: beyond that, all
#: other walks stand still.
UNREAD_MOST = 128 << 20  # not Final: tests want less, compiled too


class Limits:
    """The marks that follow from `maxmemory`: ``most`` is the limit itself. 0 bytes means that there is no limit."""

    __slots__ = ("full", "max_bytes", "most", "warn")

    def __init__(self, max_bytes: int) -> None:
        self.set(max_bytes)

    def set(self, max_bytes: int) -> None:
        """Take another limit."""
        self.max_bytes = max_bytes
        unlimited = 2**62
        self.warn = max_bytes * 75 // 100 if max_bytes else unlimited
        self.full = max_bytes * 95 // 100 if max_bytes else unlimited
        self.most = max_bytes or unlimited

    def level(self, used: int) -> int:
        """0 plenty, 1 scarce (above 75 %), 2 full (above 95 %)."""
        if used > self.full:
            return 2
        return 1 if used > self.warn else 0
