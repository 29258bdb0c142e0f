"""Sees everything that happens, writes it into the history, and asks the checkers.

A checker is an object with methods of the names in `HOOKS`; it has those that it needs. The history is up to date when
they are called.
"""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from cluster import messages as wire
from cluster.member import HANDSHAKE
from disque.core.jobs import orders
from disque.core.journal.schema import JOBS
from disque.core.model.job import ACKED, ACTIVE, QUEUED, Job
from disque.core.model.pubsub import CHANNELS, DEAD, DROPPED, Event
from disque.core.model.session import Session
from disque.core.replication import returned
from tests.simulation.connection import Request
from tests.simulation.history import FOREVER, Ack, Claim, History, Known
from tests.simulation.world import Violation, World

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.connection import Connection
    from tests.simulation.disk import Yield
    from tests.simulation.machine import Machine
    from tests.simulation.network import Link
    from tests.simulation.process import Process

#: What they are when nobody watches.
DEEDS: Final[dict[bytes, Callable[..., bool]]] = dict(orders.DEEDS)

Message = tuple[Any, ...]
Outbox = list[tuple[bytes, Message]]

HOOKS: Final = (
    *("answered", "hit", "refused", "delivered", "popped", "ran", "left", "flushing", "flushed", "ticking", "beat"),
    "put_away",
    *("free", "leaving", "replayed", "started", "died", "end", "taken", "rested", "has_all"),
    *("news", "happened", "learnt"),
)
#: Kinds that may carry a job from node to node for good.
HAND_OVER: Final = getattr(wire, "YOURJOBS", 13)
GOTJOB: Final = wire.GOTJOB
#: By so much two clocks may differ about the end of a job, in ms, by transit and drift.
EARLY_MS: Final = 1000


class Watch:
    """``survived``, ``ends_left`` and ``results_left`` tell by machine what its disk yields while it has no process."""

    def __init__(self, world: World, cluster: "Cluster") -> None:
        self.world = world
        self.cluster = cluster
        self.history = History(world)
        self.survived: dict[int, dict[bytes, Yield]] = {}
        self.ends_left: dict[int, set[bytes]] = {}
        self.results_left: dict[int, set[bytes]] = {}
        self._acking: set[bytes] = set()
        #: By machine, how far its clock was off when a process was ready there for the last time, in ms.
        self._offsets: dict[int, int] = {}
        self.hooks: dict[str, list[Callable[..., Any]]] = {name: [] for name in HOOKS}
        for verb, deed in DEEDS.items():
            orders.DEEDS[verb] = Ordered(self, verb, deed)

    def add(self, checker: object) -> None:
        """Have a checker asked."""
        for name in HOOKS:
            method = getattr(checker, name, None)
            if method is not None:
                self.hooks[name].append(method)

    def tell(self, hook: str, *values: Any) -> None:
        """Ask the checkers."""
        for method in self.hooks[hook]:
            method(*values)

    # -- requests --------------------------------------------------------------------------------------------------

    def before(self, process: "Process", request: Request) -> None:
        """A request is about to be executed."""
        if request.verb == b"ACKJOB":
            found = [(job_id, process.node.find(job_id)) for job_id in acked_ids(request)]
            self._acking = {job_id for job_id, job in found if job is not None and job.state != ACKED}

    def ran(self, process: "Process", request: Request, reply: bytes) -> None:
        """A request was executed; ``reply`` is empty when it is not known yet."""
        note = RAN.get(request.verb)
        if note is not None:
            note(self, process, request, reply)
        self.tell("ran", process, request, reply)

    def _ran_add(self, process: "Process", request: Request, reply: bytes) -> None:
        del process, reply
        plan = self.history.plans.get(request.args[2])
        if plan is not None:
            plan.asked_ms = self.world.now

    def _ran_ack(self, process: "Process", request: Request, reply: bytes) -> None:
        if reply.startswith(b":"):
            for known in self._known(acked_ids(request)):
                known.ended = known.ended or "acked"
                if known.id in self._acking:
                    known.acks.append(Ack(self.world.now, process.machine.number))

    def _ran_delete(self, process: "Process", request: Request, reply: bytes) -> None:
        for known in self._known(request.args[1:]):
            if reply.startswith(b":"):
                known.ended = known.ended or "deleted"
                known.deleted[process.machine.number] = self.world.now
                for ack in known.acks:
                    ack.forgotten |= ack.machine == process.machine.number or request.verb == b"FASTACK"

    def _ran_flush(self, process: "Process", request: Request, reply: bytes) -> None:
        if request.args[1:] == [b"FLUSHALL"] and reply.startswith(b"+"):
            self.history.flushes[process.machine.number] = self.world.now
            for known in self.history.jobs.values():
                known.ended = known.ended or "flushed"
                known.deleted[process.machine.number] = self.world.now
                for ack in known.acks:  # who was told, and has forgotten it, may be asked whether the job may be queued
                    ack.forgotten |= process.machine.number in {ack.machine, *known.holders}

    def _ran_free(self, process: "Process", request: Request, reply: bytes) -> None:
        if reply.startswith(b":") and reply != b":0\r\n":
            words = request.args
            delay = ceil(float(words[-1])) if words[-2].upper() == b"DELAY" else 0
            for known in self._known(words[1:]):
                known.freed_ms.append(self.world.now)
                known.nack_delay = max(known.nack_delay, delay, known.plan.backoff)
                self._note_tries(process, known, words)

    def _note_tries(self, process: "Process", known: Known, words: list[bytes]) -> None:
        """What a NACK or ENQUEUE means for the number of tries."""
        verb = words[0].upper()
        if verb != b"NACK" or b"NOCOUNT" in words:
            known.uncounted += 1
        elif not known.is_here(process.machine.number):
            known.nacked_elsewhere += 1
        if b"DEAD" in words:
            known.moved = True
        if b"DEAD" in words and (not known.plan.dead or not known.plan.retry):
            known.ended = known.ended or "dead"

    def _ran_cluster(self, process: "Process", request: Request, reply: bytes) -> None:
        """FORGET says that a node never returns: what that one should be told is told to nobody any more."""
        if request.args[1] == b"RESET" and not reply.startswith(b"-MISCONF"):
            self._ran_reset(process)
        if request.args[1] != b"FORGET" or not reply.startswith(b"+"):
            return
        number = process.machine.number
        self._forgets_some(number)
        for known in self.history.jobs.values():
            for ack in known.acks:
                ack.forgotten |= ack.machine == number

    def _forgets_some(self, number: int) -> None:
        """From now on a machine does not know all others."""
        forgets = self.history.forgets
        if number not in forgets or forgets[number][-1][1] != FOREVER:
            self.history.open_interval(forgets, number)

    def _looks_around(self, process: "Process") -> None:
        """Whether a machine that was told to forget others, and all others, know each other again."""
        number = process.machine.number
        forgets = self.history.forgets.get(number)
        if not forgets or forgets[-1][1] != FOREVER:
            return
        for machine in self.cluster.machines:
            other = machine.process
            if machine.retired or machine.number == number:
                continue
            if other is None or not machine.up or not knows(process, other) or not knows(other, process):
                return
        self.history.close_interval(self.history.forgets, number)

    def _ran_reset(self, process: "Process") -> None:
        """RESET: this node has no jobs any more, nor does it know of others, what it told them and who it was."""
        history, number = self.history, process.machine.number
        history.reset_ms = self.world.now
        history.resets.add(number)
        self._forgets_some(number)
        self.crashed(process)
        for job_id, machines in history.confirmed.items():
            if number in machines:
                history.forget(job_id, number)
        for known in history.jobs.values():
            history.note_lost(known.id, number)
            if number in known.holders:
                history.forget(known.id, number)
            for ack in known.acks:
                ack.forgotten |= ack.machine == number
        process.reset()

    def _ran_dequeue(self, process: "Process", request: Request, reply: bytes) -> None:
        del process, reply
        for known in self._known(request.args[1:]):
            known.dequeued = True

    def _ran_working(self, process: "Process", request: Request, reply: bytes) -> None:
        if reply.startswith(b":"):
            for known in self._known(request.args[1:2]):
                claim = self._claim(process, known, working=True)
                claim.lease_ms = int(reply[1:]) * 1000
                others = [one for one in self.cluster.processes() if one is not process]
                late = [other.machine.number for other in others if self.is_late(process, other, known.id)]
                claim.late = frozenset(late)
                known.claims.append(claim)

    def is_late(self, process: "Process", other: "Process", job_id: bytes) -> bool:
        """Whether ``other`` has the job in its queue, or will have it there before it hears of a WORKING now."""
        job = other.node.find(job_id)
        if job is None or job.state == QUEUED:
            return job is not None
        if job.state != ACTIVE or not job.requeue_ms:
            return False
        travel_ms = self.cluster.network.slowest(process.machine.number, other.machine.number)
        return job.requeue_ms <= other.now_ms() + travel_ms

    def _known(self, job_ids: list[bytes]) -> list[Known]:
        jobs = self.history.jobs
        return [jobs[job_id] for job_id in job_ids if job_id in jobs]

    def _claim(self, process: "Process", known: Known, *, working: bool) -> Claim:
        number = process.machine.number
        claim = Claim(self.world.now, number, process.life, known.path_to(number), working=working)
        claim.handed_ms = tuple([known.handed_ms[machine] for machine in claim.path[:-1]])
        return claim

    def handed_out(self, process: "Process", session: Session, seen: int) -> None:
        """A session has jobs in replies that did not leave yet; those behind the first ``seen`` were given just now."""
        if len(session.handed) > seen:
            self.tell("popped", process, [entry[0] for entry in session.handed[seen:]])
        for entry in session.handed:
            known = self.history.job(entry[0].id, entry[0].body)
            if known is not None:
                known.popped = True

    # -- replies ---------------------------------------------------------------------------------------------------

    def left(self, process: "Process", request: Request, reply: Any, times: dict[bytes, int]) -> None:
        """A reply begins to leave; ``times`` says when each job in it was handed out."""
        verb = request.verb
        if verb == b"ADDJOB":
            self._added(process, request, reply)
        elif verb == b"GETJOB" and isinstance(reply, list):
            for entry in reply:
                self._delivered(process, entry, times.get(entry[1], request.ready_ms), lease_of(request))
        elif verb in {b"ACKJOB", b"WORKING"} and isinstance(reply, int):
            self._confirmed_to_client(process, request)
        elif verb == b"CANCEL" and isinstance(reply, int):
            for known in self._known(request.args[1:]):
                for ack in known.acks:
                    if ack.is_cancel and ack.left_ms < 0 and ack.at_ms >= request.ran_ms:
                        ack.left_ms = self.world.now
        self.tell("left", process, request, reply)

    def _confirmed_to_client(self, process: "Process", request: Request) -> None:
        """The answer to an ACKJOB or WORKING begins to leave."""
        for known in self._known(request.args[1:]):
            said: list[Ack | Claim] = [*known.acks] if request.verb == b"ACKJOB" else [*known.claims]
            for one in said:
                if one.at_ms == request.ran_ms and one.machine == process.machine.number and one.left_ms < 0:
                    one.left_ms = self.world.now

    def _added(self, process: "Process", request: Request, reply: Any) -> None:
        if not isinstance(reply, bytes):
            self.tell("refused", process, request, str(reply))
            return
        body = request.args[2]
        if b"UNIQUE" in request.args and reply not in self.history.jobs:
            body = self._body_anywhere(reply)  # it may be somebody else's job, who was never told its ID
            if not body:
                return  # a key that outlived its job, of which nobody ever heard
        known = self.history.job(reply, body)
        if known is None or known.plan.body != request.args[2]:
            if known is None or b"UNIQUE" not in request.args:
                raise Violation("I8", f"ADDJOB {request.args[2]!r} was answered with an ID of another job: {reply!r}")
            self._promise_hit(process, known)
            self.tell("hit", process, request, known)
            return
        if known.answered_ms < 0:
            known.answered_ms = self.world.now
            known.coordinator = process.machine.number
            known.deleted |= self._dropped_since(request.ran_ms, process)
            if known.deleted:
                known.ended = known.ended or "flushed"
            known.expires_ms = request.ran_ms + known.plan.ttl * 1000
            if known.plan.retry or not known.sources:  # else it was handed on before its answer left
                known.holders = set(self.history.confirmed.get(reply, ()))
            if process.node.find(reply) is not None or process.journal.place(JOBS, reply) is not None:
                known.holders.add(process.machine.number)
                self.history.has_copy(reply, process.machine.number)
        self.world.count("jobs")
        self.tell("answered", process, request, known)

    def _dropped_since(self, since_ms: int, process: "Process") -> dict[int, int]:
        """Machines that were told to drop everything since then, this one by RESET, too, and when."""
        found = {number: at_ms for number, at_ms in self.history.flushes.items() if at_ms >= since_ms}
        if process.reset_ms >= since_ms:
            found[process.machine.number] = process.reset_ms
        return found

    def _promise_hit(self, process: "Process", known: Known) -> None:
        """An ID that nobody was told before is told to somebody who had the same key: it is promised from here on.

        Those who hold it are, as ever, the node that made it, and those that confirmed to that one. If a node was told
        to drop everything since it was asked for, that is promised as little as of a job that was answered before.
        """
        if known.answered_ms < 0 and self._body_anywhere(known.id):
            known.answered_ms = self.world.now
            known.deleted |= self._dropped_since(known.plan.asked_ms, process)
            if known.deleted:
                known.ended = known.ended or "flushed"
            known.expires_ms = known.plan.asked_ms + known.plan.ttl * 1000
            known.holders = set(self.history.confirmed.get(known.id, ()))
            maker = self.cluster.maker_of(known.id)
            known.coordinator = maker.number
            has_it = self._has(maker, known.id)
            if has_it or len(known.holders) < known.plan.repl:
                known.holders.add(maker.number)
            if not has_it and maker.number in known.holders:
                self.history.forget(known.id, maker.number)

    def _has(self, machine: "Machine", job_id: bytes) -> bool:
        """Whether a machine has a job, or its disk yields it."""
        process = machine.process
        if process is None or not machine.up:
            return job_id in self.survived.get(machine.number, ())
        return process.node.find(job_id) is not None

    def _body_anywhere(self, job_id: bytes) -> bytes:
        """The body of a job that some node has."""
        for process in self.cluster.processes():
            job = process.node.find(job_id)
            if job is not None and job.body:
                return job.body
        return b""

    def _delivered(self, process: "Process", entry: list[bytes], at_ms: int, lease_ms: int) -> None:
        queue, job_id, body = entry[:3]
        known = self.history.job(job_id, body)
        is_from = known is not None and (known.plan.queue == queue or self.may_be_in(known, queue))
        if known is None or known.plan.body != body or not is_from:
            raise Violation("I8", f"{job_id!r} was delivered from {queue!r} with body {body!r}: nobody added that")
        claim = self._claim(process, known, working=False)
        claim.at_ms = at_ms
        claim.lease_ms = lease_ms
        claim.left_ms = self.world.now
        claim.queue = queue
        known.claims.append(claim)
        known.popped = True
        self.world.count("deliveries")
        self.tell("delivered", known, claim)

    @staticmethod
    def may_be_in(known: Known, queue: bytes) -> bool:
        """Whether a job can have gone to this queue."""
        return known.moved or (known.plan.tries > 0 and queue == known.plan.dead)

    def hangs_up(self, process: "Process", connection: "Connection") -> None:
        """The node closes a connection: whoever only shut down his sending side has been answered by now."""
        owed = [request for request in connection.owed if request.verb not in {b"GETJOB", b"WAITJOB"}]
        if connection.ending and owed and not connection.killed:
            raise Violation("I8", f"{process.name} hangs up on a half-closed client and owes {owed[0].args!r}")

    def too_many(self, process: "Process", reply: Any) -> None:
        """A reply that nobody asked for."""
        raise Violation("I8", f"{process.name} sent a reply too many: {reply!r}")

    def heard(self, process: "Process", messages: list[bytes], events: list[Event]) -> None:
        """A turn is over: what was said to those who listen at a node, and what has happened to jobs there."""
        for event, _, job_id in events:
            self.world.counts[f"told {CHANNELS[event].decode()}"] += 1
            if event == DROPPED:
                self._dropped(process, job_id)
            elif event == DEAD:
                self._put_away(process, job_id)
        if messages:
            self.tell("news", process, messages)
        if events:
            self.tell("happened", process, events)

    def _dropped(self, process: "Process", job_id: bytes) -> None:
        """A queue was too long: this job ends as by CANCEL, and nobody was told before that it would."""
        self.history.dropped.add(job_id)
        for known in self._known([job_id]):
            known.ended = known.ended or "dropped"
            ack = Ack(self.world.now, process.machine.number, is_cancel=True)
            ack.left_ms = self.world.now
            known.acks.append(ack)

    def _put_away(self, process: "Process", job_id: bytes) -> None:
        """A job has become a dead letter: of interest is the queue for those that came back."""
        job = process.node.find(job_id)
        if job is not None and job.queue == returned.QUEUE:
            self.tell("put_away", process, job)
            for known in self._known([job_id]):
                known.returned_ms.append(self.world.now)

    # -- messages --------------------------------------------------------------------------------------------------

    def message(self, process: "Process", src: "Process", message: Message) -> None:
        """A message is about to be taken by ``process``."""
        kind = message[0]
        self.world.counts[kind] += 1
        self.tell("taken", process, src, message)
        if kind == GOTJOB:
            for job_id in message[1]:
                self._confirmed(src, process, job_id)
        elif kind in {wire.REPLJOB, wire.TAKEJOB}:
            for job_id in message[wire.REPLJOB_IDS]:
                self.history.has_copy(job_id, process.machine.number, src.machine.number)
                self.history.has_copy(job_id, src.machine.number)
        elif kind == HAND_OVER:
            self._arrived(process, src, message)
        elif kind == wire.REFUSED:
            self._refused(process, src, message[2])
        elif kind == wire.ENQUEUE and message[1] in self.history.jobs:
            self.history.jobs[message[1]].is_handed(process.machine.number, src.machine.number, self.world.now)

    def _arrived(self, process: "Process", src: "Process", message: Message) -> None:
        """YOURJOBS is about to be taken."""
        for job in message[wire.YOURJOBS_JOBS]:
            known = self.history.job(job[wire.ROW_ID], job[wire.ROW_BODY])
            if known is not None:
                self.history.has_copy(known.id, process.machine.number, src.machine.number)
                self.history.has_copy(known.id, src.machine.number)
                known.is_handed(process.machine.number, src.machine.number, self.world.now)
                if not known.plan.retry:
                    known.flying -= 1
                    known.handing = False  # whoever was given it has handed it on, if its giver has heard of it or not
                    known.holders = {process.machine.number}
                    self.history.forgot.pop(job[wire.ROW_ID], None)
                    # Who was told to forget the other one takes nothing of it, which does not know that yet.
                    known.lost |= src.node.node_id in process.node.membership.departed

    def _gives(self, process: "Process", ids: tuple[bytes, ...]) -> None:
        """A node that leaves gives these jobs to another one."""
        for job_id in ids:
            if job_id in self.history.jobs:
                self.history.jobs[job_id].handing = True
                self.history.jobs[job_id].giver = process.machine.number

    def _given(self, process: "Process", ids: tuple[bytes, ...]) -> list[Known]:
        """A node hears what became of these jobs: those that it had given away, and that went no further since."""
        found = [self.history.jobs[job_id] for job_id in ids if job_id in self.history.jobs]
        found = [known for known in found if known.handing and known.giver == process.machine.number]
        for known in found:
            known.handing = False
        return found

    def _refused(self, process: "Process", src: "Process", ids: tuple[bytes, ...]) -> None:
        """REFUSED is about to be taken. A job that was given away is lost if its node had forgotten it before.

        It does that when a link ends or is made anew in the middle, also while TAKEJOB still waits for the journal.
        """
        log, here, there = self.cluster.network.log, process.machine.number, src.machine.number
        for known in self._given(process, ids):
            if process.node.find(known.id) is None:
                known.lost |= log.longest_gap(here, there, known.answered_ms, self.world.now) > 0

    def learnt(self, process: "Process", node_id: bytes, capabilities: int) -> None:
        """A handshake has told ``process`` what another node understands."""
        self.tell("learnt", process, node_id, capabilities)

    def met(self, process: "Process", src: "Process") -> None:
        """``process`` knows the start number of ``src``: what an earlier process of that machine said is void."""
        peer = process.node.peers.get(src.node.node_id)
        if peer is None or peer.start != src.node.start:
            return
        for job_id in process.node.copies.wanted:
            if src.node.find(job_id) is None:
                self.history.vote(job_id, src.machine.number, counts=False)

    def _confirmed(self, src: "Process", process: "Process", job_id: bytes) -> None:
        """GOTJOB from ``src``, which may have died since and lost what it said."""
        number = src.machine.number
        peer = process.node.peers.get(src.node.node_id)
        self.history.vote(job_id, number, counts=peer is not None and peer.start in {0, src.node.start})
        self.history.confirmed.setdefault(job_id, set()).add(number)
        self.history.voters.setdefault(job_id, set()).add(src.node.node_id)
        self.history.has_copy(job_id, number)
        if src.gone and job_id not in self.survived.get(number, {}):
            self.history.forget(job_id, number)
        elif number in self.history.resets and src.node.find(job_id) is None:
            self.history.forget(job_id, number)  # CLUSTER RESET came while this was on its way
        elif not src.gone:
            self.history.forgot.get(job_id, set()).discard(number)
        for given in self._given(process, (job_id,)):
            given.holders = {number}
        known = self.history.jobs.get(job_id)
        if known is None or known.coordinator != process.machine.number or known.answered_ms < 0:
            return
        if known.plan.retry or (known.giver < 0 and not known.sources):  # else it has been handed on
            known.holders.add(number)
            self._lets_go(process, known)

    def _lets_go(self, process: "Process", known: Known) -> None:
        """A node that has answered an ASYNC, and keeps no copy itself, drops its own once enough others have one."""
        spread = process.node.copies.wanted.get(known.id)
        if spread is None or not spread.outside or not known.plan.asynchronous or not known.plan.retry:
            return
        number = process.machine.number
        if number in known.holders and len(self.history.voters[known.id]) >= known.plan.repl:
            known.holders.discard(number)
            self.history.note_lost(known.id, number)

    def free(self, process: "Process", outbox: Outbox) -> Outbox:
        """Messages that need not wait for the journal are about to leave."""
        self.tell("free", process, outbox)
        return outbox

    def leaving(self, process: "Process", outbox: Outbox) -> Outbox:
        """Messages that hang on the journal are about to leave."""
        self.tell("leaving", process, outbox)
        for _, message in outbox:
            if message[0] == HAND_OVER:
                for job in message[wire.YOURJOBS_JOBS]:
                    known = self.history.job(job[wire.ROW_ID], job[wire.ROW_BODY])
                    if known is not None:
                        known.handed_on_ms[process.machine.number] = self.world.now
                        known.flying += not known.plan.retry
            elif message[0] == wire.TAKEJOB:
                self._gives(process, message[wire.REPLJOB_IDS])
        return outbox

    def lost(self, link: "Link", messages: list[Message]) -> None:
        """Messages will not arrive."""
        del link
        for known in self._handed_over(messages):
            known.lost = True

    def unsent(self, process: "Process", messages: list[Message]) -> None:
        """Messages come back to ``process``, from where they came."""
        for known in self._handed_over(messages):
            known.holders = {process.machine.number}
            self.history.forgot.pop(known.id, None)
        for message in messages:
            if message[0] == wire.TAKEJOB:
                self._given(process, message[wire.REPLJOB_IDS])

    def _handed_over(self, messages: list[Message]) -> list[Known]:
        """What these messages hand over and is delivered at most once; it is on its way no more."""
        found = []
        for message in messages:
            if message[0] == HAND_OVER:
                for job in message[wire.YOURJOBS_JOBS]:
                    known = self.history.job(job[wire.ROW_ID], job[wire.ROW_BODY])
                    if known is not None and not known.plan.retry:
                        known.flying -= 1
                        found.append(known)
        return found

    # -- the life of processes -------------------------------------------------------------------------------------

    def flushing(self, process: "Process") -> None:
        """A flush goes on: lines are served, nothing has left."""
        self.tell("flushing", process)
        if process.node.evicted:
            self._note_evictions(process)
        if process.node.stats.ends_evicted != process.ends_evicted:
            process.ends_evicted = process.node.stats.ends_evicted
            self.history.end_evictions.setdefault(process.machine.number, []).append(self.world.now)

    def _note_evictions(self, process: "Process") -> None:
        if process.node.evicted != process.evicted:
            process.evicted = process.node.evicted
            self.history.evictions.setdefault(process.machine.number, []).append(self.world.now)

    def flushed(self, process: "Process") -> None:
        """A flush is over."""
        self.tell("flushed", process)

    def ticking(self, process: "Process") -> None:
        """Timers are about to fire."""
        self.tell("ticking", process)

    def beat(self, process: "Process") -> None:
        """A tenth of a second."""
        if process.journal.holds_back:
            self.history.silences.setdefault(process.machine.number, []).append(self.world.now)
        self._looks_around(process)
        self.tell("beat", process)

    def replayed(self, process: "Process") -> None:
        """A process has read its journal, and nothing else has happened."""
        self.tell("replayed", process)

    def started(self, process: "Process") -> None:
        """A process is ready."""
        number = process.machine.number
        history = self.history
        history.close_interval(history.down, number)
        history.versions.setdefault(number, []).append((self.world.now, process.node.membership.myself.capabilities))
        offset_ms = process.machine.offset_ms
        if self._offsets.setdefault(number, offset_ms) != offset_ms:  # set by this start, or by one that was not to end
            history.jumps.setdefault(number, []).append(self.world.now)
            self._offsets[number] = offset_ms
        now = process.now_ms()
        for job_id, found in self.survived.pop(number, {}).items():
            known = history.jobs.get(job_id)
            left_ms = found.expires_ms - now
            if left_ms <= 0 or (known is not None and self.world.now + left_ms < known.expires_ms - EARLY_MS):
                history.forget(job_id, number)  # by the clock here it is over, or will be before its time
        self.tell("started", process)

    def dying(self, process: "Process", what: str) -> None:
        """A process is about to end."""
        history = self.history
        number = process.machine.number
        history.close_interval(history.still, number)
        if not process.stopping:  # else it is down already
            history.open_interval(history.down, number)
        if what != "stop":
            self.crashed(process)

    def crashed(self, process: "Process") -> None:
        """A process ends without what a clean stop leaves."""
        self.history.crashes.setdefault(process.machine.number, []).append(self.world.now)

    def died(self, process: "Process", what: str) -> None:
        """A process has ended; the disk is as the next start will find it."""
        machine = process.machine
        number = machine.number
        reader = machine.disk.reader(machine.boot_id.encode())
        contents = reader.found
        before = self.survived.get(number)
        self.survived[number] = contents
        self.ends_left[number] = reader.ends
        self.results_left[number] = reader.ends | reader.strange
        history = self.history
        for job_id, machines in history.confirmed.items():
            if number in machines and job_id not in contents:
                history.forget(job_id, number)
        for known in history.jobs.values():
            if number in known.holders and known.id not in contents:
                history.forget(known.id, number)
            for ack in known.acks:
                lost = ack.machine == number and known.id not in reader.over
                if lost or (known.id in contents and is_over(process, known.id, before)):
                    ack.forgotten = True
        self.tell("died", process, what)

    def froze(self, process: "Process") -> None:
        """A process stands still."""
        self.history.open_interval(self.history.still, process.machine.number)

    def thawed(self, process: "Process") -> None:
        """A process goes on."""
        self.history.close_interval(self.history.still, process.machine.number)

    def is_repaired(self) -> bool:
        """Whether each promised job has as many copies as it should."""
        return all(method() for method in self.hooks["has_all"])

    def finished(self) -> None:
        """The run is over."""
        self.tell("end")


class Ordered:
    """What MOVE, QMOVE and others of their kind do with one job, at whatever node: it is noted."""

    def __init__(self, watch: Watch, verb: bytes, deed: Callable[..., bool]) -> None:
        self.watch = watch
        self.verb = verb
        self.deed = deed

    def __call__(self, node: Any, job: Job, order: orders.Order, now_ms: int) -> bool:
        """Do it."""
        known = self.watch.history.job(job.id, job.body)
        is_returned = job.queue == returned.QUEUE
        done = self.deed(node, job, order, now_ms)
        if known is not None and done:
            self.watch.world.count(f"jobs of {self.verb.decode()}")
            if self.verb == orders.QFLUSH:
                known.ended = known.ended or "acked"
            elif self.verb == orders.CANCEL:
                known.ended = known.ended or "cancelled"
                machine = next(one.machine.number for one in self.watch.cluster.processes() if one.node is node)
                known.acks.append(Ack(self.watch.world.now, machine, is_cancel=True))
            else:
                known.freed_ms.append(self.watch.world.now)
                known.nack_delay = max(known.nack_delay, ceil(order.delay_ms / 1000), known.plan.backoff)
                known.uncounted += 1
                known.moved = True
                if is_returned:
                    known.put_back_ms.append(self.watch.world.now)
        return done


def is_over(process: "Process", job_id: bytes, before: "dict[bytes, Yield] | None") -> bool:
    """Whether a process had heard that a job is over, or one before it, where this one has not read its journal.

    ``before`` is what that journal would have yielded.
    """
    if process.node.loading:
        return before is not None and job_id not in before
    job = process.node.find(job_id)
    return job is None or job.state == ACKED


def knows(process: "Process", other: "Process") -> bool:
    """Whether a process counts another one as one of its cluster."""
    found = process.node.membership.nodes.get(other.node.node_id)
    return found is not None and not found.flags & HANDSHAKE


def acked_ids(request: Request) -> list[bytes]:
    """The IDs of an ACKJOB."""
    words = request.args
    return words[1:2] if len(words) == 4 and words[2] == b"RESULT" else words[1:]


def lease_of(request: Request) -> int:
    """The LEASE of a GETJOB in ms; 0 where there is none."""
    words = request.args[: request.args.index(b"FROM")]
    return round(float(words[words.index(b"LEASE") + 1]) * 1000) if b"LEASE" in words else 0


RAN: Final[dict[bytes, Callable[[Watch, Any, Request, bytes], None]]] = {
    b"ACKJOB": Watch._ran_ack,
    b"ADDJOB": Watch._ran_add,
    b"FASTACK": Watch._ran_delete,
    b"DELJOB": Watch._ran_delete,
    b"NACK": Watch._ran_free,
    b"ENQUEUE": Watch._ran_free,
    b"DEQUEUE": Watch._ran_dequeue,
    b"WORKING": Watch._ran_working,
    b"DEBUG": Watch._ran_flush,
    b"CLUSTER": Watch._ran_cluster,
}
