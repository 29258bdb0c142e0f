"""The only doors to a node: `command`, `message`, `tick`, `settle`.

Whatever happens to a node happens through one of them, with the time handed in. They never fail for what a client or
another node sends: a request that is wrong gets an error reply, a message that is not understood is skipped and
counted.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cluster.messages import (
    ABORT,
    ANSWER,
    ASKCOPY,
    ASKEND,
    ASKKEY,
    BIND,
    BOUND,
    COPYIS,
    DELJOB,
    DIGEST,
    ENDED,
    ENQUEUE,
    ENTRIES,
    FAIL,
    GOTACK,
    GOTJOB,
    GOTMOVE,
    HAVE,
    HOLD,
    KEEPEND,
    KEEPKEY,
    KEYFREE,
    KEYHELD,
    KEYKEPT,
    KEYSAFE,
    LIMIT,
    MEET,
    MORE,
    MOVED,
    NEEDJOBS,
    NEEDNOW,
    OFFER,
    PING,
    PONG,
    PUBLISHED,
    QUEUED,
    REFUSED,
    REPLJOB,
    SETACK,
    STOPPING,
    SURVEY,
    SURVEYED,
    TAKEJOB,
    UNBIND,
    UPSINCE,
    WATCH,
    WILLQUEUE,
    WORKING,
    YOURJOBS,
)
from disque.core import entries, handover, links, pubsub, questions, sizes
from disque.core.auth import access, login, permits
from disque.core.base import errors, resp
from disque.core.base.timers import Timed
from disque.core.commands import scan, shown
from disque.core.dedup import acquire, key_keeper, keys, outcomes
from disque.core.federation import demand, supply
from disque.core.host import CROSS_PROTOCOL
from disque.core.jobs import add, bulk, deliver, eviction, history, overflow, queues, requeue, waiting
from disque.core.model import memory
from disque.core.model.ack_batch import Ack, AckBatch
from disque.core.model.command import DENYOOM, FAST, LISTENING, LOADING, NO_AUTH, SKIP_MONITOR, Command
from disque.core.model.ends import End, Wait, Wanted
from disque.core.model.job import Job
from disque.core.model.key import Key
from disque.core.model.key_store import KeyStore
from disque.core.model.moves import Move
from disque.core.model.queue import Queue
from disque.core.model.schedules import Alarm
from disque.core.model.session import (
    REPLY_ON,
    REPLY_SKIP,
    REPLY_SKIPPING,
    WAIT_ENDS,
    WAIT_ENTRIES,
    WAIT_HOST,
    WAIT_JOBS,
    WAIT_LOGIN,
    WAIT_NODES,
    WAIT_SCAN,
    Acquisition,
    PendingAdd,
    Session,
)
from disque.core.model.survey import Survey
from disque.core.model.vote import RequeueVote
from disque.core.replication import (
    ack_batches,
    acks,
    arbitration,
    batching,
    coordinator,
    end_copies,
    ends,
    generations,
    moves,
    registry,
    repair,
    replica,
    surveys,
    takeover,
    waits,
)
from disque.core.schedule import firing

if TYPE_CHECKING:
    from disque.core.node import Message, Node

#: What stands at the beginning of lines of HTTP: such a client is a browser that some web page has sent here.
HTTP: Final = frozenset({b"post", b"host:"})

#: Waits that end with a reply, which a client may not want.
WAITS_WITH_A_REPLY: Final = frozenset(
    {WAIT_JOBS, WAIT_HOST, WAIT_SCAN, WAIT_NODES, WAIT_ENDS, WAIT_LOGIN, WAIT_ENTRIES}
)

#: Timers that one tick handles, so that a hundred thousand jobs due together stop nobody.
TICK_MOST: Final = 1000


def command(node: "Node", session: Session, args: list[bytes], now_ms: int) -> Command | None:
    """Execute one request of at least one word. The row of the command that ran, or None when none did.

    Replies are in ``session.out`` or will be, when ``session.waiting`` says so. The order of the checks is Disque's.
    """
    row = node.lookup.get(args[0])
    if row is None:
        row = node.lookup.get(args[0].lower())
        if row is None:
            if args[0].lower() in HTTP:
                session.closing = True
                node.host.suspect(session, CROSS_PROTOCOL)
                return None
            refuse(node, session, args, errors.unknown_command(args[0]), now_ms)
            return None
    words = len(args)
    wrong_count = words < row.least or words > row.most
    listens = session.subscriptions is not None and session.protocol == 2
    if wrong_count or listens or session.limited or node.misconf or node.loading or node.used > node.limits.full:
        wrong = refusal(node, session, row, args, now_ms)
        if wrong == access.UNKNOWN:
            ask_first(node, session, row, args, now_ms)
            return row
        if wrong:
            refuse(node, session, args, wrong, now_ms)
            return None
    if node.monitors and not row.flags & SKIP_MONITOR:
        show_monitors(node, session, row, args)
    session.command = row.name
    if session.reply_mode:
        silently(node, session, row, args, now_ms)
    else:
        row.run(node, session, args, now_ms)
    if node.outcomes:
        outcomes.hand_on(node, now_ms)
    return row


def refusal(node: "Node", session: Session, row: Command, args: list[bytes], now_ms: int) -> bytes:
    """Why a command must not run now, or nothing: the one place that decides, in Disque's order."""
    flags = row.flags
    if not row.accepts(len(args)):
        is_list = row.arity <= 0 and len(args) > row.most
        wrong = errors.too_many_words(row.name, row.most) if is_list else errors.wrong_arity(row.name)
    elif not flags & NO_AUTH and not session.may():
        wrong = errors.NO_AUTH
    elif session.subscriptions is not None and session.protocol == 2 and not flags & LISTENING:
        wrong = errors.only_listens(row.full_name(args))
    elif flags & DENYOOM and node.used > node.limits.full and not has_room(node, args):
        wrong = errors.OUT_OF_MEMORY
    elif node.misconf and row.writes(args):
        wrong = node.misconf
    elif node.loading and not may_run_while_loading(node, session, row, args):
        wrong = errors.LOADING
    elif session.limited and session.may():
        wrong = access.refusal(node, session, row, args, now_ms)
    else:
        wrong = b""
    return wrong


def may_run_while_loading(node: "Node", session: Session, row: Command, args: list[bytes]) -> bool:
    """Whether this command may run while the journal is being read.

    The users are in there too. So a client that has shown no password may only log in, and ask how far that is.
    """
    if not row.flags & LOADING:
        return False
    is_progress = row.name == b"info" and len(args) == 2 and args[1].lower() == b"persistence"
    return row.flags & NO_AUTH != 0 or is_progress or not login.is_unsure(node, session)


def ask_first(node: "Node", session: Session, row: Command, args: list[bytes], now_ms: int) -> None:
    """Before this request runs, the other nodes must say whether its client may name these jobs."""
    if node.monitors and not row.flags & SKIP_MONITOR:
        show_monitors(node, session, row, args)
    session.command = row.name
    questions.ask(node, session, permits.ask(node, session, row, args), now_ms)
    session.wait_silent = session.reply_mode != REPLY_ON
    if session.reply_mode == REPLY_SKIP:
        session.reply_mode = REPLY_ON


def refuse(node: "Node", session: Session, args: list[bytes], text: bytes, now_ms: int) -> None:
    """Answer a request that is not executed, behind the ADDJOBs before it that are not answered yet."""
    if session.reply_mode == REPLY_ON:
        add.settle(node, session, args, resp.error(text), now_ms)
    elif session.reply_mode == REPLY_SKIP:
        session.reply_mode = REPLY_ON


def silently(node: "Node", session: Session, row: Command, args: list[bytes], now_ms: int) -> None:
    """Execute a command of a client that wants no reply to it, now or when it has waited."""
    if session.reply_mode == REPLY_SKIP:
        session.reply_mode = REPLY_SKIPPING
    replies, handed = len(session.out), len(session.handed)
    row.function(node, session, args, now_ms)
    if session.reply_mode == REPLY_ON:
        return  # CLIENT REPLY ON, RESET
    if session.reply_mode == REPLY_SKIPPING:
        session.reply_mode = REPLY_ON
    if row.name in CONFIRMED:
        return
    del session.out[replies:]
    del session.handed[handed:]
    session.wait_silent = session.waiting in WAITS_WITH_A_REPLY
    if session.adds:
        session.adds[-1].silent = True


#: Commands that are not answered but confirmed, as messages are sent: to who wants no replies, too.
CONFIRMED: Final = frozenset({b"subscribe", b"psubscribe", b"unsubscribe", b"punsubscribe"})


def has_room(node: "Node", args: list[bytes]) -> bool:
    """Whether a command that needs memory may run: a UNIQUE ADDJOB may find its job there, so it is let in."""
    return eviction.make_room(node) or (len(args) > 6 and b"UNIQUE" in [word.upper() for word in args[4:]])


def show_monitors(node: "Node", session: Session, row: Command, args: list[bytes]) -> None:
    """Tell those who monitor what is executed; secrets and most of long requests are left out."""
    seconds, micros = divmod(node.host.wall_us(), 1_000_000)
    plain = b"+%d.%06d [%b] %b\r\n" % (seconds, micros, session.address, shown.line(row, args))
    numbered = plain.replace(b"[", b"[0 ", 1)  # Redis shows a database, and its clients look for it
    for watcher in node.monitors.values():
        watcher.out.append(numbered if watcher.protocol >= 3 else plain)
        node.touch(watcher)


def account(node: "Node", session: Session, row: Command, args: list[bytes], spent_us: float, now_ms: int) -> None:
    """A command took so long that SLOWLOG or LATENCY want to know.

    The connection measures; counting calls is done there too.
    """
    threshold_us = node.config.number("slowlog-log-slower-than")
    if 0 <= threshold_us <= spent_us and row.name != b"slowlog":
        node.slowlog.add(now_ms // 1000, int(spent_us), shown.visible(row, args))
    threshold_ms = node.config.number("latency-monitor-threshold")
    if 0 < threshold_ms <= spent_us / 1000:
        node.latency.add(b"fast-command" if row.flags & FAST else b"command", now_ms // 1000, int(spent_us / 1000))
    del session


#: Each takes the messages of one kind, whose fields `cluster.messages` has checked.
Receiver = Callable[["Node", bytes, Any, int], None]

#: What each message of another node does.
MESSAGES: Final[dict[int, Receiver]] = {
    REPLJOB: replica.replicate,
    GOTJOB: coordinator.got_job,
    REFUSED: coordinator.refused,
    ENQUEUE: replica.enqueue_here,
    ABORT: replica.aborted,
    SETACK: acks.set_ack,
    GOTACK: acks.got_ack,
    DELJOB: acks.removed,
    WILLQUEUE: arbitration.will_queue,
    ANSWER: arbitration.answered,
    HOLD: arbitration.held,
    QUEUED: arbitration.queued,
    WORKING: arbitration.working,
    NEEDJOBS: supply.need_jobs,
    NEEDNOW: supply.need_now,
    OFFER: demand.offered,
    YOURJOBS: supply.your_jobs,
    HAVE: supply.have,
    ENTRIES: entries.told,
    DIGEST: registry.compared,
    BIND: key_keeper.bind,
    BOUND: acquire.bound,
    KEYHELD: acquire.held,
    UNBIND: key_keeper.unbind,
    KEEPKEY: acquire.keep,
    KEYKEPT: key_keeper.kept,
    KEYSAFE: key_keeper.is_safe,
    ASKKEY: key_keeper.asked,
    KEYFREE: key_keeper.is_free,
    MOVED: moves.moved,
    GOTMOVE: moves.got_move,
    MORE: generations.told,
    STOPPING: handover.peer_stops,
    LIMIT: sizes.told,
    SURVEY: questions.asked,
    SURVEYED: surveys.surveyed,
    PUBLISHED: pubsub.published,
    ENDED: ends.told,
    WATCH: ends.watched,
    UPSINCE: firing.told,
    ASKCOPY: repair.asked,
    COPYIS: repair.told,
    TAKEJOB: takeover.taken,
    ASKEND: end_copies.asked,
    KEEPEND: end_copies.taken,
}

#: Messages about who the nodes are: these are taken from nodes that are not known yet, too.
OF_MEMBERSHIP: Final = frozenset({PING, PONG, MEET, FAIL})

#: What is taken from nodes that are not (or no more) of the cluster.
OF_STRANGERS: Final[dict[int, Callable[..., None]]] = {
    DIGEST: registry.from_a_stranger,
    ENTRIES: registry.from_a_stranger,
    YOURJOBS: supply.from_a_stranger,
}


def message(node: "Node", peer: bytes, received: "Message", now_ms: int) -> None:
    """Take one message from the node with ID ``peer``: kind first.

    Its shape was checked when it was decoded. Kinds that are not known, and messages of nodes that are not known, are
    skipped and counted; but a job that is delivered at most once and comes from a node that was just forgotten is in no
    other place, and that a node says something of the registry is remembered.
    """
    kind = received[0]
    assert isinstance(kind, int)
    receiver = MESSAGES.get(kind)
    if receiver is not None and peer in node.peers:
        receiver(node, peer, received, now_ms)
        if node.outcomes:
            outcomes.hand_on(node, now_ms)
    elif kind in OF_MEMBERSHIP:
        node.membership.receive(peer, received, now_ms)
        links.review(node, now_ms)
    elif kind in OF_STRANGERS:
        OF_STRANGERS[kind](node, received, now_ms)
    else:
        node.messages_skipped += 1


def link_up(node: "Node", peer: bytes, start: int, now_ms: int) -> None:
    """The link to ``peer`` stands and both sides are proven; ``start`` is the number of its process."""
    links.link_up(node, peer, start, now_ms)
    outcomes.hand_on(node, now_ms)


def link_down(node: "Node", peer: bytes, refused: bool, now_ms: int) -> None:
    """The link to ``peer`` has ended or could not be made (``refused``: nobody listens there).

    What had not begun to leave has been handed to `undelivered` before.
    """
    links.link_down(node, peer, now_ms, refused=refused)
    outcomes.hand_on(node, now_ms)


def heard(node: "Node", peer: bytes, start: int, now_ms: int) -> None:
    """``peer`` has made a new link to this node."""
    links.heard(node, peer, start, now_ms)
    outcomes.hand_on(node, now_ms)


def undelivered(node: "Node", peer: bytes, messages: "list[Message]", now_ms: int) -> None:
    """No byte of these messages to ``peer`` has left or will."""
    links.undelivered(node, peer, messages, now_ms)
    outcomes.hand_on(node, now_ms)


def beat(node: "Node", now_ms: int) -> None:
    """Ten times a second: look after the other nodes, and notice that this process stood still."""
    gap_ms = now_ms - node.beat_ms
    links.beat(node, now_ms)
    firing.beat(node, now_ms, gap_ms)
    history.beat(node, now_ms)
    outcomes.hand_on(node, now_ms)


def tick(node: "Node", now_ms: int) -> None:
    """Do what is due, at most so much that nobody notices; `next_due_ms` of the node says when to come back."""
    items = node.timers.due(now_ms, TICK_MOST)
    items.reverse()
    try:
        while items:
            due(node, items.pop(), now_ms)
    finally:
        for item in items:  # a fault of ours in one of them must not cost the others their timers
            node.timers.arm(item, now_ms)
    if node.chores:
        do_some(node)
        outcomes.hand_on(node, now_ms)
    if node.trash:
        free_some(node)
    if node.leavers:
        deliver.leave_some(node)
    if node.walks and node.unread <= memory.UNREAD_MOST:
        scan.go_on(node, now_ms)
    if node.bulks.line:
        bulk.go_on(node, now_ms)
    if node.ends.over:
        waits.answer_some(node)
    if node.schedules.line:
        firing.go_on(node, now_ms)
        outcomes.hand_on(node, now_ms)


def due(node: "Node", item: Timed, now_ms: int) -> None:
    """Do what ``item`` was armed for."""
    if isinstance(item, Job):
        requeue.due(node, item, now_ms)
    else:
        DUE[type(item)](node, item, now_ms)
    if node.outcomes:
        outcomes.hand_on(node, now_ms)


def wait_is_over(node: "Node", session: Session, now_ms: int) -> None:
    """A client has waited for jobs for long enough, or for its login to be looked at."""
    if session.waiting == WAIT_LOGIN:
        args = login.go_on(node, session)
        silent, session.wait_silent = session.wait_silent, False
        replies = len(session.out)
        node.lookup[args[0].lower()].function(node, session, args, now_ms)
        if silent:
            del session.out[replies:]
        node.touch(session)
    else:
        deliver.time_out(node, session, now_ms)


#: What each kind of thing was armed for, jobs apart.
DUE: Final[dict[type[Timed], Callable[["Node", Any, int], None]]] = {
    Session: wait_is_over,
    Queue: queues.due,
    PendingAdd: coordinator.time_out,
    RequeueVote: arbitration.due,
    Move: moves.due,
    AckBatch: ack_batches.due,
    Ack: acks.due,
    Acquisition: acquire.due,
    Key: key_keeper.due,
    KeyStore: keys.store_due,
    Survey: surveys.due,
    End: ends.due,
    Wait: waits.time_out,
    Wanted: waiting.again,
    Alarm: firing.due,
}


def do_some(node: "Node") -> None:
    """Do a part of the work on many jobs that is under way."""
    chore = node.chores[0]
    for _ in range(CHORE_STEPS):
        try:
            is_enough = next(chore)
        except StopIteration:
            if node.chores and node.chores[0] is chore:
                node.chores.popleft()
            return
        if is_enough:
            node.resting.append(node.chores.popleft())
            return


#: Steps of a chore in one tick: of those over all jobs, each looks at one of the 1,024 dicts.
CHORE_STEPS: Final = 4


#: Things that one tick frees, and entries of a list that it takes out in the time of one: those are only counted down.
FREE_MOST: Final = 500
LOOKS: Final = 8


def free_some(node: "Node") -> None:
    """Free a part of what was forgotten: to free a million jobs or queues at once takes a second."""
    left = FREE_MOST
    while left > 0 and node.trash:
        some = node.trash[-1]
        if not some:
            node.trash.pop()
            left -= 1
        elif isinstance(some, dict):
            left -= 1
            item = some.popitem()[1]
            if isinstance(item, Queue):
                left -= 1 + item.length // LOOKS
                node.trash += item.lines()
        else:
            looks = LOOKS if isinstance(some, (list, deque)) else 1
            size = min(len(some), left * looks)
            for _ in range(size):
                some.pop()
            left -= 1 + size // looks


def settle(node: "Node", now_ms: int) -> None:
    """Once before each flush: serve those who wait for jobs, try again the ADDJOBs whose rival failed.

    Most turns have nothing of all this, so what there is to do is looked at here: uncompiled, calls are what costs.
    """
    if node.outcomes or node.unique.ended:
        outcomes.hand_on(node, now_ms)
        acquire.end_all(node)
    if node.batches or node.acks.telling:
        send_batches(node)  # what was said of a job before it travels must arrive before it
    if node.surveys.following or node.retries or node.schedules.open or node.registry.schedules:
        go_on(node, now_ms)
    if node.ready:
        deliver.serve_lines(node, now_ms)
    if node.overflowing:
        overflow.trim(node, now_ms)
    if node.federation.marked:
        demand.ask(node, now_ms)
    if node.copies.batch is not None:
        batching.seal(node)
    if node.batches:
        send_batches(node)
    if node.pubsub.dirty:
        pubsub.tell(node)


def go_on(node: "Node", now_ms: int) -> None:
    """Go on with what has an answer now, with the ADDJOBs whose rival failed, and with those of schedules."""
    if node.surveys.following:
        questions.go_on(node, now_ms)
        outcomes.hand_on(node, now_ms)
    while node.retries:
        add.again(node, node.retries.popleft(), now_ms)
        outcomes.hand_on(node, now_ms)
    firing.settle(node, now_ms)


def send_batches(node: "Node") -> None:
    """Make messages of what was gathered: one for all jobs of which the same is to be said to the same node."""
    node.acks.telling.clear()  # the turn is over, also where there is nobody to be told
    batches, node.batches = node.batches, {}
    for (peer, head), gathered in batches.items():
        if head[0] in key_keeper.WITH_KEYS:
            key_keeper.send(node, peer, head, gathered)
        elif head[0] == WATCH:
            waits.send(node, peer, gathered)
        else:
            node.send_ids(peer, head, gathered)
