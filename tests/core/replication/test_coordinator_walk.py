"""Whatever happens to ADDJOBs that wait: each gets one reply, in order, and the node's books stay true.

A random walk over one node whose peers confirm, stay silent or fail. The bench recounts everything after every step.
"""

from typing import Any

import hiredis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.membership import PFAIL
from disque.core.model.session import NOT_WAITING, WAIT_COPIES, WAIT_JOBS
from tests.conftest import examples
from tests.core.support import Bench, Client, all_jobs
from tests.support.keys import keys

CLIENTS = st.integers(0, 2)
QUEUE = b"q"


class Watched(Bench):
    """Notes of each UNIQUE key, when it appears, when its job was made and when its window ends (0: with the job)."""

    def __init__(self) -> None:
        super().__init__(peers=3, journaling=True)
        self.windows: dict[bytes, int] = {}
        self.created: dict[bytes, int] = {}

    def settle(self, *, is_idle: bool = False) -> None:
        super().settle(is_idle=is_idle)
        for key in keys(self.node).values():
            self.windows.setdefault(key.job_id, key.expires_ms)
            self.created.setdefault(key.job_id, self.now_ms)


class Walk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Watched()
        self.admin = self.bench.client()
        self.clients: list[Client] = []
        self.owed: list[int] = []
        #: By key: the IDs that were answered since the last flush.
        self.answered: dict[bytes, set[bytes]] = {}
        #: By client, the keys of the ADDJOBs not answered yet, in order; None where there was none.
        self.asked: list[list[bytes | None]] = []
        for _ in range(3):
            self.join(len(self.clients))

    def join(self, at: int) -> None:
        """A fresh client in this place."""
        self.clients[at:] = [self.bench.client(), *self.clients[at + 1 :]]
        self.owed[at:] = [0, *self.owed[at + 1 :]]
        self.asked[at:] = [[], *self.asked[at + 1 :]]

    @rule(
        at=CLIENTS,
        copies=st.integers(1, 4),
        key=st.sampled_from([None, None, b"k", b"l"]),
        window=st.sampled_from([0, 1, 60]),
        timeout=st.sampled_from([0, 100, 1500]),
        ttl=st.sampled_from([1, 100]),
    )
    def add(self, at: int, copies: int, key: bytes | None, window: int, timeout: int, ttl: int) -> None:
        client = self.clients[at]
        if client.session.waiting not in {NOT_WAITING, WAIT_COPIES}:
            return
        options: list[Any] = ["REPLICATE", copies, "TTL", ttl]
        options += ["UNIQUE", key, window] if key is not None else []
        self.owed[at] += 1
        self.asked[at].append(key)
        client.send("ADDJOB", QUEUE, "body", timeout, *options)

    @rule(at=CLIENTS, timeout=st.sampled_from([0, 500]))
    def get(self, at: int, timeout: int) -> None:
        client = self.clients[at]
        if client.session.waiting == NOT_WAITING:
            self.owed[at] += 1
            self.asked[at].append(None)
            client.send("GETJOB", "TIMEOUT", timeout, "FROM", QUEUE)

    @precondition(lambda self: self.bench.node.copies.wanted)
    @rule(which=st.integers(0, 20), who=st.integers(0, 2))
    def confirm(self, which: int, who: int) -> None:
        ids = list(self.bench.node.copies.wanted)
        self.bench.confirm(ids[which % len(ids)], self.bench.peers[who])

    @rule(ms=st.sampled_from([0, 1, 99, 100, 1000, 1500, 61_000]))
    def advance(self, ms: int) -> None:
        self.bench.advance(ms)

    @rule(command=st.sampled_from(["ACKJOB", "DELJOB", "NACK", "ENQUEUE", "WORKING"]), which=st.integers(0, 20))
    def touch(self, command: str, which: int) -> None:
        ids = [job.id for job in all_jobs(self.bench.node)]
        if ids:
            self.admin(command, ids[which % len(ids)])

    @rule(at=CLIENTS, choked=st.booleans())
    def leave(self, at: int, choked: bool) -> None:
        self.clients[at].choked = choked
        self.clients[at].disconnect()
        self.join(at)

    @rule(word=st.sampled_from(["in", "none"]))
    def pause(self, word: str) -> None:
        self.admin("PAUSE", QUEUE, word)

    @rule(who=st.integers(0, 2), flags=st.sampled_from([0, PFAIL]))
    def fail(self, who: int, flags: int) -> None:
        self.bench.membership.set_flags(self.bench.peers[who], flags)
        self.bench.node.count_nodes()

    @rule()
    def flush_all(self) -> None:
        self.bench.settle()
        self.collect()
        self.admin("DEBUG", "FLUSHALL")
        self.collect()  # what was decided before, and waited behind what was not
        self.answered.clear()

    def collect(self) -> None:
        """Every reply belongs to the oldest request that is unanswered; an ID for a key fits those before it."""
        for at, client in enumerate(self.clients):
            for reply in client.read_all():
                self.owed[at] -= 1
                key = self.asked[at].pop(0)
                if key is not None and not isinstance(reply, hiredis.ReplyError):
                    self.check_key(key, reply)

    def check_key(self, key: bytes, job_id: bytes) -> None:
        before = self.answered.setdefault(key, set())
        created, windows = self.bench.created, self.bench.windows
        created.setdefault(job_id, self.bench.now_ms)  # the job was done before this node had to keep the key
        windows.setdefault(job_id, 0)
        for other in before:
            earlier, later = sorted((other, job_id), key=created.__getitem__)
            assert other == job_id or windows[earlier] <= created[later]
        before.add(job_id)

    @invariant()
    def every_request_is_owed_one_reply(self) -> None:
        self.bench.settle()
        self.collect()
        self.bench.records()
        for at, client in enumerate(self.clients):
            waits = client.session.waiting == WAIT_JOBS
            assert self.owed[at] == len(client.session.adds) + waits

    def teardown(self) -> None:
        for client in self.clients:
            client.disconnect()
        self.bench.advance(200_000)
        node = self.bench.node
        assert (node.jobs_registered(), node.copies.wanted, keys(node)) == (0, {}, {})


Walk.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestWalk = Walk.TestCase
