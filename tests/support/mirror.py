"""Half of the machine of `tests/core/test_model.py`: what clients and time do to a node, done to the model as well.

The machine plays the shell: it hands in commands, ticks exactly when the node asks for it, and flushes. After every
step node and model must agree: replies byte for byte, jobs field by field, queues in order, memory, due times.
"""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from disque.core import step
from disque.core.base import errors
from disque.core.base.timers import NEVER
from disque.core.dedup.keys import digest_of
from disque.core.jobs import sessions
from disque.core.model.job import ACTIVE, DEFERRED, DELIVERED, QUEUED, SPENT
from disque.core.model.jobid import ttl_suffix, valid
from disque.core.model.memory import JOB_BYTES, KEY_BYTES, PLACE_BYTES, QUEUE_BYTES, STORED_BYTES
from disque.core.model.session import NOT_WAITING
from disque.core.model.spec import PRIORITY
from disque.core.node import Node
from tests.support.keys import keys
from tests.support.model import NIL, Client, Model, ModelJob, Wait, encoded, error, integer
from tests.support.nodes import START_MS, make_node

QUEUES = (b"a", b"b", b"c")
CLIENTS = 4
PAUSES = (b"none", b"in", b"out", b"all")


class Mirror(RuleBasedStateMachine):
    """Commands, time and flushes, each done to the node and to the model; what a journal is, `write` knows."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.model = Model()
        self.numbers = 0
        self.seen: list[bytes] = []
        #: By ID how often an at-most-once job was in a reply that left.
        self.left_once: dict[bytes, int] = {}
        self.stats: dict[bytes, list[int]] = {}
        #: When each queue was made, as of the last look.
        self.born: dict[bytes, int] = {}
        self.max_bytes = 0
        self.node: Node = make_node(self.now_ms)
        self.clients: list[Client] = []
        #: Numbers of clients that do not take their replies.
        self.stuck: set[int] = set()
        #: Clients in the order in which they came to wait.
        self.arrivals: list[int] = []

    def connect_all(self) -> None:
        self.clients = []
        for number in range(1, CLIENTS + 1):
            self.clients.append(Client(number, sessions.connect(self.node, number, b"", b"", self.now_ms)))

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        jobs = sum(JOB_BYTES + len(job.body) for job in self.model.jobs.values())
        queues = sum(QUEUE_BYTES + len(name) for name in self.node.queues)
        keys = sum(key.cost() for key in self.node.unique.table.values())
        node = self.node
        parts = sum([part.cost() for part in (node.leases, node.extras, node.moves, *node.jobless)])
        places = PLACE_BYTES * node.places + parts
        return jobs + queues + keys + STORED_BYTES * self.node.unique.store.count + places

    def over(self, percent: int) -> bool:
        return bool(self.max_bytes) and self.used > self.max_bytes * percent // 100

    def make_room(self) -> bool:
        while self.over(95) and self.model.evictable:
            job_id = self.model.evictable[0]
            self.model.remove(job_id)
            self.model.evicted.add(job_id)
        return not self.over(95)

    # -- what the model does -------------------------------------------------------------------------------------------

    def stat(self, name: bytes) -> list[int]:
        return self.stats.setdefault(name, [0, 0])

    def enqueue(self, job: ModelJob) -> None:
        job.queued, job.due_ms, job.held, job.lease_ms = True, 0, False, 0
        if job.priority:
            job.delivered = False  # of a job with options that few have, an earlier delivery is over then
        self.stat(job.queue)[0] += 1

    def come_back(self, job: ModelJob) -> None:
        if job.retry and self.model.paused.get(job.queue, 0) & 1:
            job.due_ms = self.now_ms + job.retry * 1000
            job.lease_ms = 0
            return
        job.deliveries += job.delivered and not job.held
        self.enqueue(job)

    def deliver(self, job: ModelJob, lease_ms: int) -> None:
        job.queued = False
        job.delivered = True
        job.lease_ms = lease_ms if job.retry else 0
        job.due_ms = self.now_ms + (lease_ms or job.retry * 1000) if job.retry else 0
        self.stat(job.queue)[1] += 1
        if not job.retry:
            assert not job.spent
            job.spent = True
            self.model.evictable.append(job.id)

    def take(self, client: Client, names: list[bytes], count: int, *, strict: bool, lease_ms: int) -> list[ModelJob]:
        taken: list[ModelJob] = []
        if strict:
            for name in dict.fromkeys(names):
                taken += self.take(client, [name], count - len(taken), strict=False, lease_ms=lease_ms)
            return taken
        while len(taken) < count:
            before = len(taken)
            for name in names:
                line = [] if self.model.paused.get(name, 0) & 2 else self.model.line_up(name)
                if line and len(taken) < count:
                    self.deliver(line[0], lease_ms)
                    taken.append(line[0])
            if len(taken) == before:
                break
        client.handed += [(job.id, job.stamp()) for job in taken]
        return taken

    def line(self, name: bytes) -> list[Client]:
        """Those who wait for ``name``, first come first."""
        waiting = [client for client in self.clients if client.wait and name in client.wait.names]
        return sorted(waiting, key=lambda client: self.arrivals.index(client.number))

    def due_lines(self) -> list[bytes]:
        """Queues from which somebody who waits can be served."""
        names = {name for client in self.clients if client.wait for name in client.wait.names}
        return [name for name in names if self.model.line_up(name) and not self.model.paused.get(name, 0) & 2]

    def lines_to_serve(self) -> list[bytes]:
        """The same in the order of the node: which of two queues is first is its own affair, that both are is not."""
        order = [queue.name for queue in self.node.ready]
        assert set(self.due_lines()) <= set(order)
        return order

    def serve(self, order: list[bytes]) -> None:
        for name in order:
            while name in self.due_lines():
                client = self.line(name)[0]
                wait = client.wait
                assert wait is not None
                first_in = [queue for queue in wait.names if self.line(queue)[0] is client]
                jobs = self.take(client, first_in, wait.count, strict=wait.strict, lease_ms=wait.lease_ms)
                self.end_wait(client, encoded(jobs, counters=wait.counters))

    def end_wait(self, client: Client, reply: bytes) -> None:
        client.wait = None
        client.out.append(reply)

    def happen(self) -> None:
        """Everything in the model that is due by now."""
        for job in list(self.model.jobs.values()):
            if job.expires_ms <= self.now_ms:
                self.model.remove(job.id)
            elif not job.queued and 0 < job.due_ms <= self.now_ms:
                self.come_back(job)
        for client in self.clients:
            if client.wait and 0 < client.wait.until_ms <= self.now_ms:
                self.end_wait(client, NIL)
        self.model.at(self.now_ms)

    def next_event_ms(self) -> int:
        times = [job.expires_ms for job in self.model.jobs.values()]
        times += [job.due_ms for job in self.model.jobs.values() if job.due_ms]
        times += [client.wait.until_ms for client in self.clients if client.wait and client.wait.until_ms]
        return min(times, default=NEVER)  # nothing happens at the end of a key's window: whoever asks then finds none

    # -- commands ------------------------------------------------------------------------------------------------------

    def command(self, client: Client, *words: bytes) -> None:
        step.command(self.node, client.session, list(words), self.now_ms)

    def free_client(self, number: int) -> Client:
        """A client that does not wait: number ``number`` of those."""
        free = [client for client in self.clients if client.wait is None]
        assume(free)
        return free[number % len(free)]

    def some_ids(self, picks: list[int]) -> list[bytes]:
        """IDs of jobs that are or were: the newest is number 0."""
        assume(self.seen)
        return [self.seen[-1 - pick % len(self.seen)] for pick in picks]

    clients_of = st.integers(0, CLIENTS - 1)
    picks_of = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8, 13]), min_size=1, max_size=3)
    queues_of = st.sampled_from([b"a", b"a", b"a", b"b", b"c"])

    @rule(number=clients_of, retry=st.sampled_from([0, 1, 2, 60]), delay=st.sampled_from([0, 0, 0, 2]))
    def add_plain(self, number: int, retry: int, delay: int) -> None:
        self.addjob(number, b"a", b"plain", retry, None, delay, None, None, 0)

    @rule(number=clients_of, count=st.sampled_from([1, 1, 3]))
    def get_plain(self, number: int, count: int) -> None:
        self.getjob(number, [b"a"], count, False, None, False, 0)

    @rule(
        number=clients_of,
        queue=queues_of,
        body=st.binary(max_size=40),
        retry=st.sampled_from([None, 0, 0, 1, 2, 5, 30]),
        ttl=st.sampled_from([None, None, 1, 2, 5, 20, 100]),
        delay=st.sampled_from([0, 0, 0, 1, 3, 10]),
        maxlen=st.sampled_from([None, None, None, 1, 2]),
        unique=st.sampled_from([None, None, (b"k", 0), (b"k", 3), (b"long" * 9, 0), (b"l", 60)]),
        priority=st.sampled_from([0, 0, 1, 5, 255]),
    )
    def addjob(
        self,
        number: int,
        queue: bytes,
        body: bytes,
        retry: int | None,
        ttl: int | None,
        delay: int,
        maxlen: int | None,
        unique: tuple[bytes, int] | None,
        priority: int,
    ) -> None:
        client = self.free_client(number)
        words = [b"ADDJOB", queue, body, b"0"]
        for name, value in (
            (b"RETRY", retry),
            (b"TTL", ttl),
            (b"DELAY", delay or None),
            (b"MAXLEN", maxlen),
            (b"PRIORITY", priority or None),
        ):
            words += [name, b"%d" % value] if value is not None else []
        words += [b"UNIQUE", unique[0], b"%d" % unique[1]] if unique is not None else []
        ttl = 86400 if ttl is None else ttl
        retry = (min(300, ttl // 10) or 1) if retry is None else retry
        refusal = self.refusal(queue, ttl, delay, maxlen, unique)
        mark = len(client.session.out)
        self.command(client, *words)
        if refusal:
            client.out.append(refusal)
            return
        reply = client.session.out[mark]
        job_id = reply[1:-2]
        assert reply == b"+" + job_id + b"\r\n"
        assert valid(job_id)
        assert job_id.endswith(ttl_suffix(ttl, retry))
        assert job_id not in self.seen
        client.out.append(reply)
        self.numbers += 1
        self.seen.append(job_id)
        job = ModelJob(self.numbers, job_id, queue, body, retry, self.now_ms, self.now_ms + ttl * 1000)
        job.priority = priority
        self.model.jobs[job_id] = job
        if delay:
            job.held = True
            job.due_ms = job.promised_ms = self.now_ms + delay * 1000
        else:
            self.enqueue(job)
        if unique is not None:
            window = unique[1]
            self.model.keys[queue, unique[0]] = (job_id, self.now_ms + window * 1000 if window else 0)

    def refusal(
        self, queue: bytes, ttl: int, delay: int, maxlen: int | None, unique: tuple[bytes, int] | None
    ) -> bytes:
        """The reply of an ADDJOB that makes no job, or nothing; room is made meanwhile."""
        full = self.over(95) and not self.make_room()
        if full and unique is None:
            return error(errors.OUT_OF_MEMORY)
        if delay >= ttl:
            return error(errors.DELAY_BEYOND_TTL)
        if unique is not None and (queue, unique[0]) in self.model.keys:
            return b"+" + self.model.keys[queue, unique[0]][0] + b"\r\n"
        if full:
            return error(errors.OUT_OF_MEMORY)
        return self.refusal_of_queue(queue, maxlen)

    def refusal_of_queue(self, queue: bytes, maxlen: int | None) -> bytes:
        if self.over(75):
            return error(errors.NO_REPL_MEMORY)
        if maxlen is not None and len(self.model.line_up(queue)) >= maxlen:
            return error(errors.MAXLEN)
        return error(errors.PAUSED) if self.model.paused.get(queue, 0) & 1 else b""

    @rule(
        number=clients_of,
        names=st.lists(queues_of, min_size=1, max_size=3),
        count=st.integers(1, 3),
        counters=st.booleans(),
        timeout_ms=st.sampled_from([None, 0, 1, 999, 1000, 3500]),
        strict=st.booleans(),
        lease_ms=st.sampled_from([0, 0, 0, 1, 250, 1500, 60_000]),
    )
    def getjob(
        self,
        number: int,
        names: list[bytes],
        count: int,
        counters: bool,
        timeout_ms: int | None,
        strict: bool,
        lease_ms: int,
    ) -> None:
        client = self.free_client(number)
        words = [b"GETJOB", b"COUNT", b"%d" % count]
        words += [b"NOHANG"] if timeout_ms is None else [b"TIMEOUT", b"%d" % timeout_ms]
        words += [b"WITHCOUNTERS"] if counters else []
        words += [b"STRICT"] if strict else []
        words += [b"LEASE", b"%.3f" % (lease_ms / 1000)] if lease_ms else []
        if (count, counters, timeout_ms, lease_ms) == (1, False, 0, 0):
            words = [b"GETJOB"]  # as it is said mostly
        ready = [queue.name for queue in self.node.ready]
        assert set(self.due_lines()) <= set(ready)
        no_room = self.over(100) and any(name not in self.node.queues for name in names)
        self.command(client, *words, b"FROM", *names)
        if any(name in ready and self.line(name) for name in names):
            self.serve(ready)  # those who wait already come first
        jobs = self.take(client, names, count, strict=strict, lease_ms=lease_ms)
        if jobs:
            client.out.append(encoded(jobs, counters=counters))
        elif timeout_ms is None:
            client.out.append(NIL)
        elif no_room:
            client.out.append(error(errors.OUT_OF_MEMORY))
        else:
            until_ms = self.now_ms + timeout_ms if timeout_ms else 0
            client.wait = Wait(list(dict.fromkeys(names)), count, counters, until_ms, strict, lease_ms)
            self.arrivals.append(client.number)
            self.arrivals[:] = [n for at, n in enumerate(self.arrivals) if n not in self.arrivals[at + 1 :]]

    @rule(number=clients_of, picks=picks_of, word=st.sampled_from([b"ACKJOB", b"FASTACK", b"DELJOB"]))
    def end_jobs(self, number: int, picks: list[int], word: bytes) -> None:
        client, ids = self.free_client(number), self.some_ids(picks)
        self.command(client, word, *ids)
        known = {job_id for job_id in ids if job_id in self.model.jobs}
        for job_id in known:
            self.model.remove(job_id)
        client.out.append(integer(len(known)))

    @rule(number=clients_of, picks=picks_of, delay=st.sampled_from([None, None, 0, 1, 4, 500]), counts=st.booleans())
    def nack(self, number: int, picks: list[int], delay: int | None, counts: bool) -> None:
        client, ids = self.free_client(number), self.some_ids(picks)
        full = self.over(95) and not self.make_room()
        words = [] if delay is None else [b"DELAY", b"%d" % delay]
        self.command(client, b"NACK", *ids, *words, *([] if counts else [b"NOCOUNT"]))
        if full:
            client.out.append(error(errors.OUT_OF_MEMORY))
            return
        jobs = [self.model.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in self.model.jobs]
        client.out.append(integer(sum([self.nack_one(job, delay or 0, counts) for job in jobs])))

    def nack_one(self, job: ModelJob, delay: int, counts: bool) -> bool:
        if job.queued or job.spent:
            return False
        job.nacks += counts
        if delay:
            job.held, job.lease_ms = True, 0
            job.due_ms = job.promised_ms = self.now_ms + delay * 1000
        else:
            self.enqueue(job)
        return True

    @rule(number=clients_of, picks=picks_of)
    def enqueue_jobs(self, number: int, picks: list[int]) -> None:
        client, ids = self.free_client(number), self.some_ids(picks)
        full = self.over(95) and not self.make_room()
        self.command(client, b"ENQUEUE", *ids)
        if full:
            client.out.append(error(errors.OUT_OF_MEMORY))
            return
        moved = 0
        for job_id in ids:
            job = self.model.jobs.get(job_id)
            if job is not None and not job.queued and not job.spent:
                job.deliveries += job.delivered
                self.enqueue(job)
                moved += 1
        client.out.append(integer(moved))

    @rule(number=clients_of, picks=picks_of)
    def dequeue_jobs(self, number: int, picks: list[int]) -> None:
        client, ids = self.free_client(number), self.some_ids(picks)
        self.command(client, b"DEQUEUE", *ids)
        moved = 0
        for job_id in ids:
            job = self.model.jobs.get(job_id)
            if job is not None and job.queued:
                job.queued = False
                job.due_ms = self.now_ms + job.retry * 1000 if job.retry else 0
                moved += 1
        client.out.append(integer(moved))

    @rule(number=clients_of, picks=picks_of)
    def working(self, number: int, picks: list[int]) -> None:
        client, ids = self.free_client(number), self.some_ids(picks)
        self.command(client, b"WORKING", *ids)
        replies = [self.work_on(job_id) for job_id in ids]
        client.out.append(replies[0] if len(replies) == 1 else b"*%d\r\n" % len(replies) + b"".join(replies))

    def work_on(self, job_id: bytes) -> bytes:
        job = self.model.jobs.get(job_id)
        if job is None:
            return error(errors.NO_JOB)
        if (self.now_ms - job.created_ms) * 2 > job.expires_ms - job.created_ms:
            return error(errors.TOO_LATE)
        if job.retry:
            job.queued = False
            more_ms = max(1000, job.lease_ms) if job.lease_ms else job.retry * 1000
            until_ms = self.now_ms + more_ms
            job.due_ms = max(job.due_ms, until_ms) if job.held else until_ms  # no delay gets shorter
            job.promised_ms = job.due_ms if job.held else job.promised_ms
            return integer(more_ms // 1000)
        return integer(0)

    @rule(number=clients_of, queue=st.sampled_from(QUEUES), flags=st.sampled_from([0, 0, 0, 1, 2, 3]))
    def pause(self, number: int, queue: bytes, flags: int) -> None:
        client = self.free_client(number)
        refused = flags and queue not in self.node.queues and self.over(100)
        self.command(client, b"PAUSE", queue, PAUSES[flags])
        if refused:
            client.out.append(error(errors.OUT_OF_MEMORY))
            return
        self.model.paused[queue] = flags
        client.out.append(b"+" + PAUSES[flags] + b"\r\n")

    @rule(number=clients_of, queue=st.sampled_from(QUEUES))
    def qlen(self, number: int, queue: bytes) -> None:
        client = self.free_client(number)
        self.command(client, b"QLEN", queue)
        client.out.append(integer(len(self.model.line_up(queue))))

    @rule(number=clients_of, size=st.sampled_from([0, 0, 0, 3000, 8000, 12000]))
    def limit_memory(self, number: int, size: int) -> None:
        client = self.free_client(number)
        self.command(client, b"CONFIG", b"SET", b"maxmemory", b"%d" % size)
        self.max_bytes = size
        client.out.append(b"+OK\r\n")

    @rule(number=clients_of, sure=st.integers(0, 4))
    def flushall(self, number: int, sure: int) -> None:
        assume(sure == 0)
        client = self.free_client(number)
        self.command(client, b"DEBUG", b"FLUSHALL")
        for other in self.clients:
            other.handed.clear()
            if other.wait:
                self.end_wait(other, NIL)
        self.model = Model(evicted=self.model.evicted)
        self.stats.clear()
        client.out.append(b"+OK\r\n")

    @rule(number=clients_of)
    def disconnect(self, number: int) -> None:
        """The client is gone: what is in replies that did not leave goes back, if nothing happened to it since."""
        holding = [client for client in self.clients if client.handed]
        client = holding[number % len(holding)] if holding else self.clients[number]
        sessions.disconnect(self.node, client.session, self.now_ms)
        for job_id, stamp in client.handed:
            job = self.model.jobs.get(job_id)
            if job is not None and job.stamp() == stamp:
                if job.spent:
                    job.spent = False
                    self.model.evictable.remove(job_id)
                self.enqueue(job)
        fresh = max(other.session.id for other in self.clients) + 1
        session = sessions.connect(self.node, fresh, b"", b"", self.now_ms)
        self.clients[client.number - 1] = Client(client.number, session)

    # -- time and the flush --------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 10, 500, 999, 1000, 1001, 2500, 7000, 60_000, 400_000]))
    def advance(self, ms: int) -> None:
        """Time goes on; the node is called exactly when it asks to be."""
        until_ms = self.now_ms + ms
        self.flush()
        while self.node.next_due_ms <= until_ms:
            wanted = self.node.next_due_ms
            assert wanted <= self.next_event_ms()
            self.now_ms = max(self.now_ms, wanted)
            step.tick(self.node, self.now_ms)
            self.happen()
            self.check_state()
            self.flush()
        self.now_ms = until_ms
        self.model.at(until_ms)

    @rule(stuck=st.sets(clients_of, max_size=3))
    def flush_but(self, stuck: set[int]) -> None:
        """From now on some clients do not take their replies."""
        self.stuck = {number + 1 for number in stuck}
        self.flush()

    def flush(self) -> None:
        order = self.lines_to_serve()
        step.settle(self.node, self.now_ms)
        self.serve(order)
        self.check_state()
        self.write()
        self.node.touched.clear()
        for client in self.clients:
            client.session.touched = False
            if client.number not in self.stuck:
                self.let_leave(client)

    def let_leave(self, client: Client) -> None:
        assert client.session.out == client.out
        for job_id, _ in client.handed:
            if int(job_id[36:], 16) % 2 == 0:
                self.left_once[job_id] = self.left_once.get(job_id, 0) + 1
                assert self.left_once[job_id] == 1, "an at-most-once job left twice"
        client.session.out.clear()
        client.session.handed.clear()
        client.out.clear()
        client.handed.clear()

    def write(self) -> None:
        """The journal's part of a flush."""
        raise NotImplementedError

    # -- comparing -----------------------------------------------------------------------------------------------------

    def compare(self, node: Node, model: Model, *, crashed: bool, now_ms: int = 0) -> None:
        """``node`` holds what ``model`` says, now or at that time. A crash may forget redeliveries."""
        jobs = {job.id: job for shard in node.shards for job in shard.values()}
        assert set(jobs) == set(model.jobs)
        for job_id, expected in model.jobs.items():
            job = jobs[job_id]
            assert (job.queue, job.body, job.retry, job.expires_ms, job.nacks) == (
                expected.queue,
                expected.body,
                expected.retry,
                expected.expires_ms,
                expected.nacks,
            )
            assert job.spec.number(PRIORITY) == expected.priority
            assert node.leases.by_id.get(job_id, 0) == expected.lease_ms
            assert job.state == (QUEUED if expected.queued else ACTIVE)
            assert bool(job.flags & SPENT) == expected.spent
            assert bool(job.flags & DEFERRED) == expected.held
            assert job.requeue_ms == expected.due_ms
            assert job.due_ms == min(expected.due_ms or expected.expires_ms, expected.expires_ms)
            if crashed:
                assert job.deliveries <= expected.deliveries
            else:
                assert (job.deliveries, bool(job.flags & DELIVERED)) == (expected.deliveries, expected.delivered)
        for name in QUEUES:
            queue = node.queues.get(name)
            found = [job.id for job in queue.jobs()] if queue is not None else []
            assert found == [job.id for job in model.line_up(name)]
            assert (queue.paused if queue is not None else 0) == model.paused.get(name, 0)
        found_keys = {key: (value.job_id, value.expires_ms) for key, value in keys(node, now_ms or self.now_ms).items()}
        assert found_keys == {digest_of(*name): key for name, key in model.keys.items()}
        self.recount(node)

    def recount(self, node: Node) -> None:
        """What a node keeps count of, counted."""
        jobs = [job for shard in node.shards for job in shard.values()]
        used = sum(JOB_BYTES + len(job.body) for job in jobs)
        used += sum(QUEUE_BYTES + len(name) for name in node.queues)
        used += sum([part.cost() for part in (node.leases, node.extras, node.moves, *node.jobless)])
        used += PLACE_BYTES * sum(len(queue.waiters or ()) for queue in node.queues.values())
        assert {key.cost() for key in node.unique.table.values()} <= {KEY_BYTES}
        assert node.used == used + KEY_BYTES * len(node.unique.table) + STORED_BYTES * node.unique.store.count
        things: list[Any] = [*jobs, *keys(node).values(), *node.queues.values(), *node.histories.by_queue.values()]
        live: dict[int, int] = {}
        for thing in things:
            if thing.segment:
                live[thing.segment] = live.get(thing.segment, 0) + 1
        assert live == {number: count for number, count in node.live.items() if count}
        assert set(node.evictable) == {job.id for job in jobs if job.flags & SPENT}
        for queue in node.queues.values():
            assert queue.length == len(list(queue.jobs()))
            assert list(reversed(list(queue.newest()))) == list(queue.jobs())
        assert all(job.due_ms for job in jobs)

    def check_state(self) -> None:
        self.compare(self.node, self.model, crashed=False)
        assert list(self.node.evictable) == self.model.evictable
        for name in [name for name in self.stats if name not in self.node.queues]:
            assert not self.model.line_up(name)
            assert not self.model.paused.get(name, 0)
            del self.stats[name]
        for name, queue in self.node.queues.items():
            if self.born.get(name, 0) not in {0, queue.created_ms}:
                self.stats[name] = [queue.jobs_in, queue.jobs_out]  # nobody used it for long, and then it came anew
            assert [queue.jobs_in, queue.jobs_out] == self.stat(name)
            assert list(queue.waiters or ()) == [client.session for client in self.line(name)]
        self.born = {name: queue.created_ms for name, queue in self.node.queues.items()}

    @invariant()
    def both_agree(self) -> None:
        self.check_state()
        for client in self.clients:
            assert client.session.out == client.out
            assert (client.session.waiting != NOT_WAITING) == (client.wait is not None)
            assert len(client.session.handed) == len(client.handed)
        assert self.node.next_due_ms <= self.next_event_ms()
