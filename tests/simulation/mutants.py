"""Deliberate breakages of the code under test, each with the promises of which a checker must notice it.

A checker that nothing ever trips may be asleep. So each rule whose loss would be silent is broken here once, and the
simulator must find out, on seeds that are named. `python -m tests.simulation --mutants` shows which seeds do.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from cluster import messages as wire
from cluster.table import Table
from disque.core import entries, handover, links, pubsub, step
from disque.core.auth import access, users
from disque.core.commands import cluster
from disque.core.dedup import acquire, key_keeper
from disque.core.federation import supply
from disque.core.jobs import add, overflow, terms
from disque.core.journal import replay
from disque.core.journal.replay import Replay
from disque.core.journal.schema import CLEAN, END
from disque.core.model.ends import CANCELLED, DROPPED
from disque.core.model.job import ACTIVE, LEASE_OWNER, QUEUED
from disque.core.model.key import SETTLED
from disque.core.model.peers import Peer
from disque.core.model.pubsub import ACKED as EVENT_ACKED
from disque.core.model.pubsub import DROPPED as EVENT_DROPPED
from disque.core.model.queue import Queue
from disque.core.model.registry import USER
from disque.core.model.session import Acquisition, PendingAdd, Spread
from disque.core.model.spec import JobSpec
from disque.core.node import Node
from disque.core.replication import (
    acks,
    arbitration,
    batching,
    coordinator,
    end_copies,
    ends,
    generations,
    moves,
    queue_options,
    registry,
    repair,
    replica,
    returned,
    standing,
    surveys,
    takeover,
    tries,
    zoning,
)
from disque.core.schedule import firing, keeping
from tests.simulation.bus import Bus
from tests.simulation.process import Process

Broken = AbstractContextManager[Any]


class Mutant(NamedTuple):
    """One breakage: how it is named, what may notice it, and on which of its seeds it is looked for."""

    name: str
    promises: frozenset[str]
    nodes: int
    seeds: range
    options: dict[str, Any]
    apply: Callable[[], Broken]

    @property
    def says(self) -> str:
        """What is broken."""
        return (self.apply.__doc__ or "").strip()


MUTANTS: Final[list[Mutant]] = []


def mutant(
    *promises: str, nodes: int = 3, first: int = 1, seeds: int = 60, **options: Any
) -> Callable[[Callable[[], Iterator[None]]], Callable[[], Iterator[None]]]:
    """Add the breakage that the decorated generator makes and takes back.

    It is looked for on so many ``seeds`` from the ``first`` on: what shows but rarely begins where it showed.
    """

    def add(breakage: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        changed: dict[str, Any] = {
            "faults": {},
            "pause": False,
            "unique": False,
            "jumps": False,
            "zones": 0,
            "body_most": 0,
            "mixed": False,
            "tries": False,
            "ends": False,
            "cron": False,
            "users": False,
            "repair_s": 600,
            "overflow": False,
            "talk": False,
            "active_ms": 8000,
        }
        changed |= options
        apply = contextmanager(breakage)
        MUTANTS.append(
            Mutant(breakage.__name__, frozenset(promises), nodes, range(first, first + seeds), changed, apply)
        )
        return breakage

    return add


def nothing(*words: Any, **more: Any) -> None:
    """Do nothing."""
    del words, more


def without_journal(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but it writes no records."""

    def quiet(node: Any, *words: Any) -> Any:
        journaling, node.journaling = node.journaling, False
        try:
            return function(node, *words)
        finally:
            node.journaling = journaling

    return quiet


# -- acknowledgements --------------------------------------------------------------------------------------------------


@mutant("I5", "I6", policy="off")
def setack_is_dropped() -> Iterator[None]:
    """SETACK is never sent."""
    quiet = patch.multiple(acks, tell=nothing, remind=nothing, lists=lambda *_: [])
    with quiet, patch.object(acks, "tell_again", lambda *_: iter(())):
        yield


@mutant("I5", policy="off")
def sizes_are_compared_for_sets() -> Iterator[None]:
    """An importer takes the sender's place among the holders, and as many confirmations as there are holders do."""

    def merged(node: Any, holders: tuple[bytes, ...], peer: bytes) -> Any:
        return node.shared(tuple(sorted({*holders, node.node_id} - {peer})))

    def all_know(node: Any, ack: Any) -> bool:
        return (ack.holders and len(ack.confirmed) >= len(ack.holders)) or genuine(node, ack)

    genuine = acks.all_know
    with patch.object(acks, "all_know", all_know), patch.object(supply, "merged", merged):
        yield


@mutant("I1", "I4", "I5", "I6", nodes=3, faults={"crash": 1500}, policy="always")
def unknown_is_answered_while_loading() -> Iterator[None]:
    """A node talks to others before it has read its journal."""
    genuine = Process.__init__

    def init(process: Any, *words: Any) -> None:
        genuine(process, *words)
        process.listening = True
        process.world.after(1, process._beat)

    with patch.object(Process, "__init__", init):
        yield


# -- hand-overs --------------------------------------------------------------------------------------------------------


@mutant("I2", policy="off")
def nobody_is_offered_what_is_kept_back() -> Iterator[None]:
    """A queue that imported lately keeps its jobs, and those who wait elsewhere hear nothing of them."""
    with patch.object(supply, "offer", nothing):
        yield


# -- at most once ------------------------------------------------------------------------------------------------------


@mutant("I3", "I10", nodes=1, faults={"crash": 1500}, policy="everysec")
def spent_is_not_written() -> Iterator[None]:
    """A job without RETRY leaves its queue without a record of that."""
    with patch.object(Node, "delivered", without_journal(Node.delivered)):
        yield


@mutant("I3", nodes=1, faults={"power": 1500}, policy="everysec")
def lost_tail_is_trusted() -> Iterator[None]:
    """After a loss of power the journal is believed to be complete."""
    with patch.object(Replay, "tail_is_sure", lambda *_: True):
        yield


@mutant("I3", "I4", "I9", nodes=1, faults={"stop": 1500, "crash": 1500}, policy="everysec", active_ms=20000)
def used_clean_list_is_replayed() -> Iterator[None]:
    """The list of a clean stop counts although more was written behind it."""
    genuine = Replay._apply

    def apply(replay: Any, record: Any, segment: int) -> None:
        clean, ended = dict(replay.clean), replay.clean_ended
        genuine(replay, record, segment)
        if record[0] not in {CLEAN, END} and ended:
            replay.clean, replay.clean_ended = clean, True

    with patch.object(Replay, "_apply", apply):
        yield


@mutant("I3", nodes=3, faults={"reset": 100, "slow": 300}, policy="off")
def hand_over_is_taken_back_after_it_left() -> Iterator[None]:
    """When a link ends, what is on its way counts as undelivered."""
    genuine = Bus.ended

    def ended(bus: Any, link: Any) -> None:
        link.queue = [message for messages in link.under_way for message in messages] + link.queue
        genuine(bus, link)

    with patch.object(Bus, "ended", ended):
        yield


# -- copies ------------------------------------------------------------------------------------------------------------


@mutant("I1")
def replica_is_counted_twice() -> Iterator[None]:
    """The first copy that is confirmed counts for two."""
    genuine = Spread.missing

    def missing(spread: Any) -> int:
        return genuine(spread) - bool(spread.confirmed)

    with patch.object(Spread, "missing", missing):
        yield


@mutant("I1", nodes=5, faults={"crash": 400, "cut": 300}, policy="off", clients=12, active_ms=12000)
def restarted_node_keeps_its_vote() -> Iterator[None]:
    """What a process confirmed counts for the next one of that node."""
    with patch.object(coordinator, "restarted", nothing):
        yield


@mutant("I10", policy="everysec")
def confirmation_does_not_wait() -> Iterator[None]:
    """GOTJOB and the like leave before their records are written."""
    genuine = step.send_batches

    def send(node: Any) -> None:
        genuine(node)
        node.early += node.messages
        node.messages = []

    with patch.object(step, "send_batches", send):
        yield


@mutant("I1", "I9", "I10", policy="everysec")
def imports_are_not_written() -> Iterator[None]:
    """Jobs that come from other nodes' queues are kept in memory only."""
    with patch.object(supply, "take_in", without_journal(supply.take_in)):
        yield


@mutant("I10", nodes=2, faults={"fsync": 1500}, policy="always")
def reply_does_not_wait() -> Iterator[None]:
    """Replies leave before the journal is as durable as promised."""

    def reply(process: Any, touched: Any) -> None:
        for session in touched:
            connection = process.connections.get(session.id)
            if connection is not None:
                connection.write_out()

    with patch.object(Process, "_reply", reply):
        yield


@mutant("I10", nodes=3, faults={"fsync": 1000}, policy="always")
def achieved_add_does_not_wait() -> Iterator[None]:
    """The answer to an ADDJOB whose last copy was confirmed does not wait for the record here."""
    genuine = coordinator.tell

    def tell(node: Any, add: Any, *words: Any) -> None:
        genuine(node, add, *words)
        add.session.unsettled = False

    with patch.object(coordinator, "tell", tell):
        yield


@mutant("I11", nodes=5, policy="off", zones=2)
def zones_are_ignored() -> Iterator[None]:
    """Copies go to any nodes, and count wherever they are."""

    def choose(node: Any, spread: Any, wanted: int) -> Any:
        return batching.choose(node, spread.job, wanted)

    with patch.multiple(zoning, choose=choose, must_wait=lambda *_: False):
        yield


@mutant("I11", nodes=5, faults={"cut": 300, "crash": 700}, policy="off", zones=2, clients=16, active_ms=15000)
def two_copies_of_a_zone_are_counted() -> Iterator[None]:
    """Copies are asked of other zones first, and count wherever they are."""
    with patch.object(zoning, "must_wait", lambda *_: False):
        yield


# -- retry -------------------------------------------------------------------------------------------------------------


@mutant("I4", nodes=1)
def jitter_goes_below_retry() -> Iterator[None]:
    """A RETRY is a quarter of a second short."""
    genuine = Node.hold

    def hold(node: Any, job: Any, until_ms: int, flags: int) -> None:
        genuine(node, job, until_ms - 250, flags)

    def delivered(node: Any, job: Any, now_ms: int) -> None:
        took(node, job, now_ms - 250)

    took = Node.delivered
    with patch.object(Node, "hold", hold), patch.object(Node, "delivered", delivered):
        yield


@mutant("I4", first=4, policy="off")
def questions_are_answered_no() -> Iterator[None]:
    """A node has nothing against another one's queueing a job that is out with its own consumer."""

    def will_queue(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        del now_ms
        for job_id in message[3]:
            node.batch(peer, (wire.ANSWER, message[1], wire.ANSWER_NO, ()), job_id)

    with patch.dict(step.MESSAGES, {wire.WILLQUEUE: will_queue}):
        yield


# -- UNIQUE ------------------------------------------------------------------------------------------------------------


@mutant("I1", "I7", nodes=4, faults={"cut": 800, "reset": 400}, policy="off", unique=True, clients=6)
def key_is_given_out_before_it_is_vouched_for() -> Iterator[None]:
    """Whoever finds a key taken answers with the ID that has it, decided or not."""

    def held(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        acquire.held(node, peer, (message[0], SETTLED, *message[2:]), now_ms)

    with patch.dict(step.MESSAGES, {wire.KEYHELD: held}):
        yield


@mutant("I7", nodes=4, policy="off", unique=True, clients=6)
def keepers_are_not_asked() -> Iterator[None]:
    """A node believes to have a key before those that keep it have said so."""
    with (
        patch.object(Acquisition, "complete", lambda acquisition: bool(acquisition.job_id)),
        patch.object(key_keeper, "others", lambda *_: []),
    ):
        yield


# -- everything else ---------------------------------------------------------------------------------------------------


@mutant("I2", nodes=1)
def waiting_consumers_are_not_woken() -> Iterator[None]:
    """A job that comes into its queue wakes nobody."""
    genuine = Node.enqueue

    def enqueue(node: Any, job: Any, now_ms: int) -> None:
        ready = list(node.ready)
        genuine(node, job, now_ms)
        if len(node.ready) > len(ready):
            node.ready.pop().ready = False

    with patch.object(Node, "enqueue", enqueue):
        yield


STOPS: Final[dict[str, Any]] = {
    "nodes": 3,
    "seeds": 12,
    "faults": {"stop": 500},
    "policy": "everysec",
    "long_retry": True,
    "clients": 10,
    "queues": 2,
    "active_ms": 8000,
    "eager": True,
    "timeout_ms": 1000,
}


@mutant("I2", **STOPS)
def jobs_are_sent_to_nodes_that_stop() -> Iterator[None]:
    """Nobody is told of a stop, or waited for."""
    with patch.multiple(handover, begin=nothing, is_settled=lambda _: True):
        yield


@mutant("I2", **STOPS)
def what_was_handed_on_is_taken_out_of_its_queue() -> Iterator[None]:
    """A node that stops speaks for the jobs that it has handed on."""
    with patch.object(handover, "HANDED_ON", 0):
        yield


@mutant("I2", **STOPS)
def a_restart_forgets_what_was_handed_on() -> Iterator[None]:
    """The list of a clean stop speaks for the jobs that were handed on."""
    with patch.object(replay, "ELSEWHERE", 256):
        yield


@mutant("I2", **STOPS)
def what_was_handed_on_does_not_come_back() -> Iterator[None]:
    """A node that stops cannot give a job back to the one that it has it from."""
    genuine = replica.enqueue_here

    def enqueue_here(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        job = node.find(message[1])
        if job is not None and not job.flags & LEASE_OWNER:
            genuine(node, peer, message, now_ms)

    with patch.dict(step.MESSAGES, {wire.ENQUEUE: enqueue_here}):
        yield


@mutant("I8", "I6", nodes=3, faults={"cut": 1000})
def adds_never_time_out() -> Iterator[None]:
    """The timeout of an ADDJOB is ignored."""
    with patch.dict(step.DUE, {PendingAdd: nothing}):
        yield


@mutant("I8", nodes=3, faults={"stop": 2500}, grace_s=60, timeout_ms=1000, active_ms=15000, policy="always")
def nodes_that_restart_are_not_waited_for() -> Iterator[None]:
    """There are too few nodes as soon as one of them cannot be reached."""
    with patch.object(add, "expected", lambda node, _: len(node.membership.reachable())):
        yield


@mutant("I8", nodes=3, faults={"retire": 2000}, grace_s=0, timeout_ms=1000, clients=6)
def waiting_is_for_ever() -> Iterator[None]:
    """Nobody is told that the nodes that are waited for do not come back."""
    with patch.object(coordinator, "is_hopeless", lambda *_: False):
        yield


@mutant("I8", first=5, nodes=3)
def answers_overtake_each_other() -> Iterator[None]:
    """The answer to an ADDJOB leaves although an earlier one is still open."""

    def answer(node: Any, pending: Any, reply: bytes) -> None:
        session = pending.session
        pending.reply = reply
        node.timers.disarm(pending)
        if pending in session.adds:
            session.adds.remove(pending)
            session.adds_bytes -= pending.size
            session.out.append(reply)
        if not session.adds:
            session.waiting = 0
        node.touch(session)

    with patch.object(coordinator, "answer", answer):
        yield


@mutant("I9", nodes=1)
def memory_leaks() -> Iterator[None]:
    """A byte stays accounted for with each job that goes."""
    genuine = Node.remove

    def remove(node: Any, job: Any) -> None:
        genuine(node, job)
        node.used += 1

    with patch.object(Node, "remove", remove):
        yield


@mutant("I6", "I8", nodes=2, faults={"reset": 150, "slow": 500}, policy="off", clients=16, active_ms=15000)
def nothing_is_said_again() -> Iterator[None]:
    """What a link lost is not sent over the next one."""
    with patch.object(links, "say_again", nothing):
        yield


# -- priorities --------------------------------------------------------------------------------------------------------


@mutant("I18", policy="off")
def who_can_wait_goes_first() -> Iterator[None]:
    """Jobs with a priority leave their queue behind all others."""
    genuine = Queue.pop

    def pop(queue: Any) -> Any:
        above = queue._above
        if above is None or queue.length == sum(lane.length for lane in above.lanes):
            return genuine(queue)
        queue._above = None
        job = genuine(queue)
        queue._above = above
        return job

    with patch.object(Queue, "pop", pop):
        yield


@mutant("I18", policy="off", clients=8, active_ms=20000)
def priorities_stay_at_home() -> Iterator[None]:
    """A job that was handed over has no priority any more."""
    genuine = supply.take_in

    def take_in(node: Any, peer: bytes, spec: Any, *words: Any) -> None:
        genuine(node, peer, JobSpec(spec.queue, spec.ttl, spec.retry, spec.repl), *words)

    with patch.object(supply, "take_in", take_in):
        yield


# -- leases ------------------------------------------------------------------------------------------------------------


@mutant("I4", first=5, policy="off", clients=6, active_ms=15000)
def nobody_is_told_of_a_lease() -> Iterator[None]:
    """Who delivered a job speaks for it until its RETRY is over, also where the lease is longer."""
    genuine = arbitration.hold_answer

    def hold_answer(node: Any, peer: Any, job: Any, left_ms: int, *words: Any) -> None:
        if job.id in node.leases.by_id and left_ms > job.retry * 1000:
            node.batch(peer, (wire.ANSWER, words[0], wire.ANSWER_NO, ()), job.id)
        else:
            genuine(node, peer, job, left_ms, *words)

    with patch.object(arbitration, "hold_answer", hold_answer):
        yield


# -- sizes -------------------------------------------------------------------------------------------------------------


@mutant("I12", body_most=1000, faults={"reset": 1000}, policy="off", clients=8)
def sizes_are_forgotten() -> Iterator[None]:
    """Whoever is asked for a copy is asked whatever it takes, also when it has refused that."""
    with patch.object(Peer, "takes", lambda *_: True):
        yield


# -- versions ----------------------------------------------------------------------------------------------------------


@mutant("I13", nodes=3, policy="off", mixed=True)
def everything_is_said_to_everybody() -> Iterator[None]:
    """Nobody looks whether the receiver of a message understands it."""
    with patch.object(Table, "understood", lambda _, outbox: outbox):
        yield


@mutant("I13", first=7, nodes=3, faults={"crash": 1500}, policy="off", mixed=True)
def what_a_node_understands_is_learnt_once() -> Iterator[None]:
    """A node that starts again as an earlier version counts as what it was."""
    genuine = Table.set_capabilities

    def set_capabilities(table: Any, node_id: bytes, mask: int) -> None:
        node = table.nodes.get(node_id)
        genuine(table, node_id, mask | (node.capabilities if node is not None and node is not table.myself else 0))

    with patch.object(Table, "set_capabilities", set_capabilities):
        yield


# -- questions to all nodes --------------------------------------------------------------------------------------------


@mutant("I8", "I9", first=4, nodes=3, tries=True, faults={"freeze": 800, "cut": 800}, policy="off")
def who_does_not_answer_is_waited_for() -> Iterator[None]:
    """A question to all nodes is not over while one of them is silent."""
    with patch.object(surveys, "give_up", nothing):
        yield


# -- the registry ------------------------------------------------------------------------------------------------------


@mutant("I14", nodes=3, faults={"cut": 1500}, policy="off", pause=True)
def what_was_missed_is_not_told_again() -> Iterator[None]:
    """Over a new link nobody says what he knows."""
    with patch.object(registry, "link_up", nothing):
        yield


@mutant("I14", nodes=3, faults={"cut": 1500}, policy="off", pause=True)
def what_comes_last_wins() -> Iterator[None]:
    """An entry replaces what is known, although it is older."""
    with patch.object(registry, "is_news", lambda *_: True):
        yield


@mutant(
    "I14",
    first=13,
    nodes=4,
    faults={"power": 1200, "cut": 800},
    policy="off",
    pause=True,
    timeout_ms=15_000,
    active_ms=5000,
)
def who_starts_again_has_told_all() -> Iterator[None]:
    """When a node has started again, the others do not compare what it may have told to some of them only."""
    with patch.object(registry, "started_again", nothing):
        yield


# -- tries and moves ---------------------------------------------------------------------------------------------------


@mutant("I15", nodes=1, tries=True)
def tries_are_not_counted() -> Iterator[None]:
    """A failure uses no try up."""
    with patch.object(tries, "end_one", lambda *_: 0):
        yield


@mutant("I15", first=33, tries=True, queues=1, clients=8, long_retry=False, policy="off")
def tries_at_other_nodes_do_not_count() -> Iterator[None]:
    """What other nodes say of tries is not heard."""
    with patch.object(generations, "merge", nothing):
        yield


@mutant("I16", tries=True)
def moves_are_told_to_nobody() -> Iterator[None]:
    """Where a job is knows only who has moved it."""
    with patch.object(generations, "catch_up", lambda *_: False), patch.object(moves, "tell", lambda *_: False):
        yield


@mutant("I16", first=4, tries=True, faults={"cut": 1500})
def of_two_moves_both_win() -> Iterator[None]:
    """Who has moved a job believes no other node that has done so."""
    with patch.object(generations, "is_newer", lambda node, job, *_: node.extra_of(job) is None):
        yield


@mutant("I16", tries=True)
def what_is_revived_is_counted_only() -> Iterator[None]:
    """REVIVE says that a job is back, and leaves it where it is."""
    with patch.object(tries, "revive", lambda *_: True):
        yield


# -- ends --------------------------------------------------------------------------------------------------------------


@mutant("I17", ends=True)
def ends_are_told_to_nobody() -> Iterator[None]:
    """Other holders hear that a job is done, and not how."""
    with patch.object(ends, "say", nothing):
        yield


@mutant("I17", first=27, ends=True, tries=True, policy="off", clients=8, queues=1, active_ms=15_000)
def who_did_not_take_an_end_tells_no_tries() -> Iterator[None]:
    """Other holders hear how a job has ended, and not what else the node knew of it that took the end."""

    def go_by(end: Any, text: bytes, beside: Any) -> None:
        del beside
        end.text, end.error, end.tries = text, b"", 0

    with patch.object(ends, "go_by", go_by):
        yield


@mutant("I17", first=10, ends=True, active_ms=25_000)
def ends_are_told_before_they_are_sure() -> Iterator[None]:
    """Whoever knows an end says it, whatever other holders know."""
    with patch.object(ends, "is_sure", ends.has_ended):
        yield


@mutant("I17", ends=True)
def of_two_ends_each_keeps_its_own() -> Iterator[None]:
    """Who has taken an end of a job believes no other."""
    genuine = ends.compare

    def compare(node: Any, peer: bytes, job_id: bytes, *words: Any) -> None:
        if job_id not in node.ends.by_id:
            genuine(node, peer, job_id, *words)

    with patch.object(ends, "compare", compare):
        yield


@mutant("I17", ends=True)
def other_nodes_are_not_told_what_they_wait_for() -> Iterator[None]:
    """Who wants to hear how a job ends hears it from his own node alone."""
    genuine = ends.tell

    def tell(node: Any, peer: bytes, *words: Any) -> None:
        if peer == node.node_id:
            genuine(node, peer, *words)

    with patch.object(ends, "tell", tell):
        yield


@mutant("I17", first=20, ends=True, faults={"forget": 1500}, clients=8, queues=1)
def who_keeps_another_end_is_not_told() -> Iterator[None]:
    """RESULT finds two ends of one job, and leaves it at that."""
    with patch.object(ends, "correct", nothing):
        yield


@mutant(
    "I17",
    first=130,
    ends=True,
    nodes=3,
    faults={"stop": 900, "crash": 2000, "cut": 1500},
    policy="always",
    clients=8,
    queues=1,
)
def who_remembers_only_that_a_job_is_done_does_not_say_so() -> Iterator[None]:
    """Who hears from such a node that a job is done takes that for its end: a result from elsewhere comes too late."""
    with patch.object(ends, "say_gone", nothing):
        yield


@mutant("I5", ends=True)
def what_is_cancelled_is_forgotten_here_alone() -> Iterator[None]:
    """CANCEL removes the copy of one node."""
    genuine = acks.end

    def end(node: Any, job: Any, status: int, *words: Any) -> bool:
        if status != CANCELLED or job.state not in {ACTIVE, QUEUED}:
            return genuine(node, job, status, *words)
        acks.forget(node, job)
        return True

    with patch.object(acks, "end", end):
        yield


# -- schedules ---------------------------------------------------------------------------------------------------------


@mutant("I19", cron=True)
def every_node_fires() -> Iterator[None]:
    """Each node takes itself for the first in order, and gives each of its jobs a key of its own."""
    numbers = count()

    def words(schedule: Any, saying: Any) -> list[bytes]:
        key = b"number %d" % next(numbers)
        return [*firing.job_words(schedule.name, saying, schedule.tick), b"UNIQUE", key, b"86400"]

    with patch.object(firing, "owner", lambda node, _: node.node_id), patch.object(firing, "words", words):
        yield


@mutant("I19", first=5, cron=True, faults={"crash": 2000}, policy="always", active_ms=15000)
def who_steps_in_makes_up_for_nothing() -> Iterator[None]:
    """A tick that is late when a node looks at it is left out."""
    genuine = firing.pending

    def pending(node: Any, schedule: Any, wall_ms: int, now_ms: int) -> int:
        tick = genuine(node, schedule, wall_ms, now_ms)
        if not tick or tick * 1000 > wall_ms - 500:
            return tick
        schedule.skipped = wall_ms // 1000
        return int(schedule.ticks.after(schedule.skipped))

    with patch.object(firing, "pending", pending):
        yield


@mutant("I19", cron=True, faults={"freeze": 2000}, policy="always", active_ms=15000)
def nobody_else_was_up() -> Iterator[None]:
    """A node makes nothing of how long others have been up."""
    with patch.object(firing, "oldest_ms", lambda node: node.schedules.up_ms):
        yield


@mutant("I19", cron=True)
def a_paused_one_goes_on() -> Iterator[None]:
    """PAUSE is not looked at."""
    genuine = keeping.take

    def take(node: Any, name: bytes) -> None:
        genuine(node, name)
        if name in node.schedules.by_name:
            node.schedules.by_name[name].paused = False

    with patch.object(keeping, "take", take):
        yield


@mutant("I19", cron=True, mixed=True)
def a_schedule_is_set_at_old_nodes_as_well() -> Iterator[None]:
    """CRON SET asks nobody what other nodes understand."""
    with patch.object(terms, "lacking", lambda *_: b""):
        yield


# -- repair ------------------------------------------------------------------------------------------------------------


@mutant("I21", nodes=4, faults={"decline": 1500}, repair_s=1, timeout_ms=1000)
def lost_copies_stay_lost() -> Iterator[None]:
    """Nobody begins to repair."""
    with patch.object(repair, "begin", nothing):
        yield


@mutant("I21", nodes=4, faults={"wipe": 2500}, repair_s=1, timeout_ms=1000)
def holders_are_taken_for_copies() -> Iterator[None]:
    """Whoever may have a copy, and can be reached, is counted."""
    genuine = repair.decide

    def decide(node: Any, walk: Any, job: Any, found: Any, now_ms: int) -> None:
        found.have = [one for one in job.holders if one != node.node_id and standing.is_able(node, one)]
        genuine(node, walk, job, found, now_ms)

    with patch.object(repair, "decide", decide):
        yield


@mutant("I21", nodes=4, faults={"decline": 1500}, repair_s=1, timeout_ms=1000)
def replacements_count_when_they_are_sent() -> Iterator[None]:
    """A copy that takes the place of a lost one is confirmed and not kept."""
    genuine = replica.replicate

    def replicate(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        if message[wire.REPLJOB_FLAGS] & wire.REPLACEMENT:
            node.send(peer, (wire.GOTJOB, message[wire.REPLJOB_IDS]))
        else:
            genuine(node, peer, message, now_ms)

    with patch.dict(step.MESSAGES, {wire.REPLJOB: replicate}):
        yield


@mutant("I1", "I21", nodes=3, faults={"depart": 1500}, repair_s=1, timeout_ms=1000, active_ms=20_000)
def who_leaves_does_not_look_back() -> Iterator[None]:
    """A node that leaves says at once that it can be stopped."""
    genuine = repair.finish

    def finish(node: Any, walk: Any) -> None:
        walk.left = walk.unsure = 0
        genuine(node, walk)

    with patch.object(repair, "finish", finish), patch.object(coordinator, "replace", nothing):
        yield


@mutant("I21", first=4, nodes=4, faults={"clear": 2500}, repair_s=1, timeout_ms=1000)
def who_was_reset_is_taken_for_what_it_was() -> Iterator[None]:
    """A node that has dropped all its jobs is the same process to the others."""
    genuine = cluster.reset

    def reset(node: Any, *words: Any) -> None:
        start = node.start
        genuine(node, *words)
        node.start = start

    with patch.dict(cluster.SUBCOMMANDS, {b"RESET": (2, 3, reset)}):
        yield


@mutant("I24", nodes=4, faults={"decline": 1500}, ends=True, repair_s=1, timeout_ms=1000, active_ms=20_000)
def lost_ends_stay_lost() -> Iterator[None]:
    """Only jobs are repaired."""
    with patch.object(end_copies, "check", lambda *_: 0):
        yield


@mutant("I10", "I24", nodes=4, faults={"decline": 1500}, ends=True, repair_s=1, timeout_ms=1000, active_ms=20_000)
def copies_of_ends_are_confirmed_only() -> Iterator[None]:
    """Whoever is given an end to keep confirms it, and no more."""

    def taken(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        del now_ms
        node.send(peer, (wire.COPYIS, wire.END_KEPT, (), (message[-1],)))

    with patch.dict(step.MESSAGES, {wire.KEEPEND: taken}):
        yield


@mutant("I24", first=4, nodes=3, faults={"depart": 1500}, ends=True, repair_s=1, timeout_ms=1000, active_ms=20_000)
def who_leaves_forgets_ends() -> Iterator[None]:
    """A node that leaves looks after its jobs only."""
    genuine = end_copies.lacks

    def lacks(node: Any, walk: Any, end: Any) -> bool:
        return not walk.leaves and genuine(node, walk, end)

    with patch.object(end_copies, "lacks", lacks):
        yield


@mutant("I10", nodes=3, faults={"depart": 1500}, repair_s=1, timeout_ms=1000, active_ms=20_000)
def what_is_given_away_is_still_in_the_journal() -> Iterator[None]:
    """A node that leaves gives away a job which is delivered at most once, and writes nothing of that."""
    genuine = takeover.begin

    def begin(node: Any, job: Any, now_ms: int) -> None:
        node.journaling, before = False, node.journaling
        genuine(node, job, now_ms)
        node.journaling = before

    with patch.object(takeover, "begin", begin):
        yield


@mutant("I1", nodes=3, faults={"depart": 1500}, repair_s=1, timeout_ms=1000, active_ms=20_000)
def what_is_taken_over_is_not_kept() -> Iterator[None]:
    """Whoever is given a job of a node that leaves confirms it, and no more."""

    def taken(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        del now_ms
        node.send(peer, (wire.GOTJOB, message[wire.REPLJOB_IDS]))

    with patch.dict(step.MESSAGES, {wire.TAKEJOB: taken}):
        yield


# -- queues that are too long, and those who listen --------------------------------------------------------------------


@mutant("I22", overflow=True)
def what_is_too_much_stays() -> Iterator[None]:
    """Nobody looks whether a queue is too long."""
    with patch.object(queue_options, "grows", nothing):
        yield


@mutant("I22", overflow=True)
def one_job_too_many_is_dropped() -> Iterator[None]:
    """A queue that is too long loses one job more than it must."""
    genuine = overflow.trim

    def trim(node: Any, now_ms: int) -> None:
        names = list(node.overflowing)
        genuine(node, now_ms)
        for name in names:
            queue, found = node.queues.get(name), queue_options.of(node, name)
            if queue is not None and found is not None and 0 < found.maxlen == queue.length and found.drops:
                acks.end(node, queue.oldest(), DROPPED, b"", now_ms)

    with patch.object(overflow, "trim", trim):
        yield


@mutant("I5", overflow=True)
def what_is_dropped_is_forgotten_here_alone() -> Iterator[None]:
    """A job that is dropped is removed at one node."""
    genuine = acks.end

    def end(node: Any, job: Any, status: int, *words: Any) -> bool:
        if status != DROPPED:
            return genuine(node, job, status, *words)
        node.pubsub.happened(EVENT_DROPPED, job.queue, job.id)
        acks.forget(node, job)
        return True

    with patch.object(acks, "end", end):
        yield


@mutant("I9", overflow=True, policy="always")
def what_is_dropped_is_not_written() -> Iterator[None]:
    """The journal does not say that a job was dropped."""
    with patch.object(overflow, "trim", without_journal(overflow.trim)):
        yield


@mutant("I23", talk=True)
def what_is_published_is_said_again() -> Iterator[None]:
    """Who hears of a message tells it to all others."""
    genuine = pubsub.published

    def published(node: Any, peer: bytes, message: Any, now_ms: int) -> None:
        genuine(node, peer, message, now_ms)
        if node.random.random() < 0.5:
            node.tell_all(message)

    with patch.dict(step.MESSAGES, {wire.PUBLISHED: published}):
        yield


@mutant("I23", talk=True)
def what_is_published_stays_here() -> Iterator[None]:
    """A message goes to no other node."""
    with patch.object(pubsub, "publish", lambda node, channel, message: node.pubsub.say(channel, message)):
        yield


@mutant("I23")
def who_hears_of_an_end_tells_it_too() -> Iterator[None]:
    """That a job was acknowledged is told at each node that hears of it, and again."""
    genuine = acks.finish

    def finish(node: Any, job: Any) -> None:
        node.pubsub.happened(EVENT_ACKED, job.queue, job.id)
        genuine(node, job)

    with patch.object(acks, "finish", finish):
        yield


@mutant("I13", nodes=4, mixed=True, tries=True, faults={"crash": 2000})
def only_linked_nodes_must_understand() -> Iterator[None]:
    """A node that is away is not asked for its version before a command is executed that needs a later one."""
    genuine = terms.lacking

    def lacking(node: Any, *words: Any) -> bytes:
        membership = node.membership
        nodes = membership.nodes
        try:
            membership.nodes = {node_id: member for node_id, member in nodes.items() if member.linked}
            return genuine(node, *words)
        finally:
            membership.nodes = nodes

    with patch.object(terms, "lacking", lacking):
        yield


# -- users -------------------------------------------------------------------------------------------------------------


@mutant("I20", users=True)
def rights_to_queues_are_not_looked_at() -> Iterator[None]:
    """Whoever may run a command may name any queue."""
    with patch.object(access, "denied_queue", lambda *_: None):
        yield


@mutant("I20", first=11, users=True)
def who_waits_keeps_waiting() -> Iterator[None]:
    """A GETJOB that waits is left alone when its user loses the right."""
    with patch.object(users, "review", nothing):
        yield


@mutant("I20", users=True, ends=True)
def jobs_stand_for_nothing() -> Iterator[None]:
    """A job that a user names by its ID is not held against his rights."""
    with patch.object(access, "judge", lambda *_: access.MAY):
        yield


@mutant("I20", users=True)
def users_of_other_nodes_are_kept_and_not_used() -> Iterator[None]:
    """An entry of another node takes no effect."""
    kinds = {**entries.TABLE}
    kind = kinds[USER]
    kinds[USER] = entries.EntryKind(kind.number, kind.check, kind.is_ready, nothing)
    with patch.dict(entries.TABLE, kinds):
        yield


@mutant("I5", nodes=3, faults={"away": 3000}, policy="always", timeout_ms=1000, forget_s=5, active_ms=40_000)
def who_was_away_for_long_delivers_what_it_had() -> Iterator[None]:
    """A node that was forgotten asks nobody whether its jobs are known."""
    with patch.object(returned, "mark", nothing):
        yield
