"""I12: a job that is too long for a node is not sent to it again and again."""

from typing import Any

from cluster.messages import REPLJOB, REPLJOB_BODIES, REPLJOB_IDS, ROW_BODY, ROW_ID, TAKEJOB, YOURJOBS, YOURJOBS_JOBS
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation


class Sized:
    """What a node has said at the handshake holds: no process sends it a longer body, or once, if it did not know yet.

    What a node is given that is new here needs an answer like any other job: that is I8.
    """

    promise = "I12"

    def __init__(self, cluster: Cluster) -> None:
        self.world = cluster.world
        self.sent: set[tuple[Process, int, bytes]] = set()

    def taken(self, process: Process, src: Process, message: tuple[Any, ...]) -> None:
        """A message arrives."""
        most = process.machine.body_most
        if not self.world.options.body_most:
            return
        jobs: list[tuple[bytes, bytes]] = []
        if message[0] in {REPLJOB, TAKEJOB}:
            jobs = list(zip(message[REPLJOB_IDS], message[REPLJOB_BODIES], strict=True))
        elif message[0] == YOURJOBS:
            jobs = [(row[ROW_ID], row[ROW_BODY]) for row in message[YOURJOBS_JOBS]]
        for job_id, body in jobs:
            if len(body) <= most:
                continue
            key = (src, process.machine.number, job_id)
            if key in self.sent:
                raise Violation("I12", f"{src.name} sends {job_id!r} to {process.name} again: {len(body)} bytes")
            self.sent.add(key)
