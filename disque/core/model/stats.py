"""Counters of what a node has done."""


class Stats:
    """Counters for INFO, from the start or the last CONFIG RESETSTAT."""

    __slots__ = (
        "acl_denied",
        "auths_denied",
        "certificates_denied",
        "commands",
        "connections",
        "cron_failed",
        "cron_fired",
        "ends_evicted",
        "jobs_acknowledged",
        "jobs_added",
        "jobs_delivered",
        "jobs_died",
        "jobs_dropped",
        "jobs_expired",
        "jobs_nacked",
        "jobs_requeued",
        "longest_turn_s",
        "net_in",
        "net_out",
        "rejected",
        "started_ms",
    )

    def __init__(self, now_ms: int) -> None:
        self.started_ms = now_ms
        self.reset()

    def reset(self) -> None:
        """All counters to zero."""
        self.commands = 0
        self.connections = 0
        self.rejected = 0
        #: Jobs that clients of this node added (those that did not get their copies, too), got, acknowledged, gave
        #: back; jobs that were queued here again after their RETRY, or whose TTL ended here.
        self.jobs_added = 0
        self.jobs_delivered = 0
        self.jobs_acknowledged = 0
        self.jobs_nacked = 0
        self.jobs_requeued = 0
        self.jobs_expired = 0
        #: Jobs that became dead letters here, or ended since there is no queue for these.
        self.jobs_died = 0
        #: Ticks of schedules that this node has fired, and that it has given up.
        self.cron_fired = 0
        self.cron_failed = 0
        #: Jobs that were dropped here since their queue was too long.
        self.jobs_dropped = 0
        #: Kept ends of jobs that were forgotten before their RETAIN was over, since memory was short.
        self.ends_evicted = 0
        self.acl_denied = 0
        self.auths_denied = 0
        self.certificates_denied = 0
        self.net_in = 0
        self.net_out = 0
        #: The longest that one turn of the loop took, in seconds.
        self.longest_turn_s = 0.0
