"""Jobs that fail under load while nodes are killed: tries stay within their bound, and no end of a job is lost.

Each third delivery fails, each tenth is left until its RETRY is over, the others are acknowledged with a result; so
some jobs of four tries die. At the end all that were answered are either done or dead letters, and every node tells
the same result of each.
"""

import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from typing import Any, Final

import pytest

from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import MakeCluster
from tests.end_to_end.node import Node, until

JOBS: Final = 300
TRIES: Final = 4
QUEUE: Final = "failing"
DEAD: Final = "failing:dead"
ADD: Final = (
    "REPLICATE",
    "2",
    "RETRY",
    "2",
    "TRIES",
    str(TRIES),
    "BACKOFF",
    "fixed:0.05",
    "RETAIN",
    "600",
    "HEADER",
    "of",
    "load",
)


class Load:
    """What producers and consumers have seen."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.added: set[bytes] = set()
        self.deliveries: Counter[bytes] = Counter()
        #: By job, the results that consumers gave. A node that is killed may have heard of one without an answer.
        self.results: defaultdict[bytes, set[bytes]] = defaultdict(set)
        self.over = threading.Event()

    def ask(self, *words: str | bytes) -> Any:
        """A request to any node that answers; None if the one that was tried does not."""
        node = random.choice(self.cluster.members)
        try:
            with closing(node.raw()) as raw:
                return raw.ask(*words)
        except (OSError, EOFError):
            time.sleep(0.05)
            return None

    def produce(self) -> None:
        while len(self.added) < JOBS:
            reply = self.ask("ADDJOB", QUEUE, f"job {len(self.added)}", "5000", *ADD)
            if isinstance(reply, bytes):
                self.added.add(reply)

    def consume(self, number: int) -> None:
        chance = random.Random(number)
        while not self.over.is_set():
            for entry in self.ask("GETJOB", "TIMEOUT", "100", "COUNT", "5", "FROM", QUEUE) or ():
                if isinstance(entry, list):
                    self.work_on(entry[1], chance.random())

    def work_on(self, job_id: bytes, chance: float) -> None:
        self.deliveries[job_id] += 1
        if chance < 1 / 3:
            self.ask("NACK", job_id, "ERROR", "each third fails")
        elif chance > 0.9:
            return  # it hangs, and its RETRY ends
        else:
            result = b"%b %d" % (job_id, self.deliveries[job_id])
            self.results[job_id].add(result)
            self.ask("ACKJOB", job_id, "RESULT", result)


def dead_letters(node: Node) -> dict[bytes, list[Any]]:
    """All dead letters, with what is known of each."""
    found: dict[bytes, list[Any]] = {}
    while entries := node.ask("GETJOB", "TIMEOUT", "1000", "COUNT", "1000", "WITHMETA", "FROM", DEAD):
        for entry in entries:
            found[entry[1]] = entry
    return found


def unfinished(cluster: Cluster) -> int:
    """How many copies there are of jobs of the queue that are neither acknowledged nor dead.

    A node that is killed forgets what it has delivered, so QSTAT does not count such jobs until their RETRY is over.
    """
    scans = (
        node.ask("JSCAN", "COUNT", "10000", "QUEUE", QUEUE, "STATE", "active", "STATE", "queued")
        for node in cluster.members
    )
    return sum(len(found) for _cursor, found in scans)


def result_of(node: Node, job_id: bytes) -> bytes:
    """What a node tells of a job that is done."""
    reply = node.ask("RESULT", job_id)
    found = dict(zip(reply[::2], reply[1::2], strict=True))
    assert found[b"status"] == b"done"
    result: bytes = found[b"result"]
    return result


@pytest.mark.slow
def test_tries_stay_within_their_bound_and_no_dead_letter_and_no_result_is_lost(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    load = Load(cluster)
    consumers = [threading.Thread(target=load.consume, args=(number,), daemon=True) for number in range(3)]
    producer = threading.Thread(target=load.produce, daemon=True)
    for thread in (producer, *consumers):
        thread.start()
    crashes = 0
    for victim in (cluster.members[1], cluster.members[2]):
        wanted = min(len(load.added) + JOBS // 4, JOBS)
        until(lambda: len(load.added) >= wanted, lambda: f"{len(load.added)} of {wanted} jobs")  # noqa: B023 - at once
        cluster.kill(victim)
        crashes += 1
        cluster.start_whole()
    producer.join()
    until(lambda: not unfinished(cluster), lambda: f"{unfinished(cluster)} copies are unfinished", 0.5)
    load.over.set()
    for thread in consumers:
        thread.join()
    dead = dead_letters(cluster.members[0])
    lost = load.added - load.results.keys() - dead.keys()
    assert not lost, [cluster.members[0].ask("SHOW", job_id) for job_id in list(lost)[:3]]
    # Others may be among the dead letters: those that a node had taken when it was killed, before it answered.
    assert max(load.deliveries.values()) <= TRIES + crashes
    for entry in dead.values():
        meta = dict(zip(entry[3][::2], entry[3][1::2], strict=True))
        assert (meta[b"origin"], meta[b"headers"]) == (QUEUE.encode(), [b"of", b"load"])
    for job_id in load.added - dead.keys():
        told = [result_of(node, job_id) for node in cluster.members]
        assert told[0] in load.results[job_id], job_id
        assert told == [told[0]] * 3
