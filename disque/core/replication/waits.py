"""Who waits at this node for the ends of jobs, and what they are answered: the side of WAITJOB that asks.

All nodes are asked (WATCH), this one as well, and each tells (ENDED) when a job has ended, or that it does not know
it. The first end that is sure counts; that a job has expired only when nobody knows better. A request stands as long
as the link over which it went: over a new one it is said again. Nobody knows a job if all nodes of the cluster say so
twice, a second apart; while one of them cannot be asked, its client goes on waiting.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import NO_MORE, TELL_ME, WATCH
from disque.core.base import resp
from disque.core.model.ends import EXPIRED, GONE, NAMES, UNKNOWN, Wait, Wanted
from disque.core.model.memory import WAIT_BYTES
from disque.core.model.peers import Peer
from disque.core.model.session import NOT_WAITING, WAIT_ENDS, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node

#: Between the two times that all nodes are asked about a job that nobody knows, in ms.
AGAIN_MS: Final = 1000
#: What one node says of a job may be wrong, if others know better: it was cut off when the job was done. The smallest
#: number counts.
WEAK: Final = frozenset({EXPIRED, GONE, UNKNOWN})
#: Requests that one step of a chore says again.
SLICE: Final = 500
#: Under which WATCH is gathered for a node: what it says of each job is in `Ends.saying`.
HEAD: Final = (WATCH,)
#: Who waits for more jobs is answered in a tick: clients with so many jobs, or so many bytes of replies, in each.
AT_ONCE: Final = 100
SLICE_JOBS = 10_000  # not Final: tests want less, compiled too
SLICE_BYTES: Final = 1 << 20
#: A text of so many bytes is a piece of its own of each reply, which nobody copies: clients share it.
LONG_TEXT = 1 << 14  # not Final: tests want less, compiled too
#: What is said of a job by its status, in RESP2 and in RESP3, where there is no text; first, of one that has not ended.
BARE: Final[list[list[bytes]]] = [
    [resp.NULL_ARRAY, *[resp.array([resp.bulk(name), resp.NULL_BULK]) for name in NAMES[1:]]],
    [resp.NULL, *[resp.array([resp.bulk(name), resp.NULL]) for name in NAMES[1:]]],
]


def begin(node: "Node", session: Session, ids: list[bytes], *, is_any: bool) -> list[bytes]:
    """A client waits for these jobs. Gives those that nobody else waits for here: all nodes are to be asked."""
    wait = Wait(session, is_any=is_any)
    ends = node.ends
    ends.by_session[session.id] = wait
    new: list[bytes] = []
    for job_id in ids:
        wanted = ends.wanted.get(job_id)
        if wanted is None:
            wanted = ends.wanted[job_id] = Wanted(job_id)
            node.used += WAIT_BYTES
            new.append(job_id)
        if wait not in wanted.waits:
            wanted.waits[wait] = None
            wait.left += 1
        wait.wanted.append(wanted)
    node.used += wait.size()
    return new


def stand(node: "Node", session: Session, timeout_ms: int, now_ms: int) -> None:
    """The client has to wait; 0 ms means for ever."""
    session.waiting = WAIT_ENDS
    if timeout_ms:
        node.timers.arm(node.ends.by_session[session.id], now_ms + timeout_ms)


def say(node: "Node", peer_id: bytes, what: int, job_id: bytes) -> None:
    """WATCH: that this node wants to hear of a job, or does not any more. Of both in one turn only the last is said."""
    node.ends.saying[peer_id, job_id] = what
    node.batch(peer_id, HEAD, job_id)


def send(node: "Node", peer_id: bytes, gathered: list[bytes]) -> None:
    """Make messages of what is to be said of these jobs. A job may be among them more than once."""
    saying = node.ends.saying
    wanted: list[bytes] = []
    unwanted: list[bytes] = []
    for job_id in gathered:
        what = saying.pop((peer_id, job_id), -1)
        if what >= 0:
            (wanted if what == TELL_ME else unwanted).append(job_id)
    node.send_ids(peer_id, (WATCH, TELL_ME), wanted)
    node.send_ids(peer_id, (WATCH, NO_MORE), unwanted)


def ask(node: "Node", ids: list[bytes]) -> None:
    """Ask all other nodes about those of these jobs of which nothing is known yet."""
    for job_id in ids:
        if job_id in node.ends.wanted:
            for peer in node.peers.values():
                if peer.linked:
                    say(node, peer.id, TELL_ME, job_id)


def tell_again(node: "Node", peer: Peer, saying: int) -> "Iterator[bool]":
    """There is a new link to or from ``peer``: ask it about all jobs that somebody waits for."""
    is_enough = False
    for count, job_id in enumerate(list(node.ends.wanted), 1):
        if peer.saying != saying:
            return
        wanted = node.ends.wanted.get(job_id)
        if wanted is not None:
            wanted.without.pop(peer.id, None)
            say(node, peer.id, TELL_ME, job_id)
            is_enough = peer.tell(0)
        if is_enough or count % SLICE == 0:
            yield is_enough
            is_enough = False


# -- being told --------------------------------------------------------------------------------------------------------


def told(node: "Node", teller: bytes, job_id: bytes, status: int, text: bytes, now_ms: int) -> None:
    """A node, which may be this one, says how a job has ended, or that it does not know it."""
    wanted = node.ends.wanted.get(job_id)
    if wanted is None:
        return
    if status not in WEAK:
        end(node, wanted, status, text)
        return
    wanted.without[teller] = status
    judge(node, wanted, now_ms)


def judge(node: "Node", wanted: Wanted, now_ms: int) -> None:
    """See whether nobody knows a job."""
    without = wanted.without
    if node.node_id not in without:
        return
    is_whole = True
    for peer in node.peers.values():
        if peer.id not in without:
            if peer.linked and not node.failed(peer.id):
                return  # it knows the job, or has yet to answer
            is_whole = False
    said = min(without.values())
    if said != UNKNOWN:
        end(node, wanted, said, b"")
    elif is_whole and wanted.again:
        end(node, wanted, UNKNOWN, b"")
    elif is_whole and not wanted.due_ms:
        node.timers.arm(wanted, now_ms + AGAIN_MS)


def end(node: "Node", wanted: Wanted, status: int, text: bytes) -> None:
    """It is known how a job has ended: answer those who waited for nothing else."""
    forget(node, wanted)
    wanted.status = status
    if len(text) >= LONG_TEXT:
        wanted.reply, wanted.text = b"*2\r\n%b%b" % (resp.bulk(NAMES[status]), resp.head(len(text))), text
    elif text:
        wanted.reply = resp.array([resp.bulk(NAMES[status]), resp.bulk(text)])
    node.used += wanted.size()
    for wait in list(wanted.waits):
        wait.left -= 1
        if wait.is_over or (wait.left and not wait.is_any):
            continue
        wait.is_over = True
        if len(wait.wanted) <= AT_ONCE:
            answer(node, wait)
        else:
            node.ends.over.append(wait)


def answer_some(node: "Node") -> None:
    """Answer clients with many jobs that have heard enough: one at least, and few enough that others are served."""
    over = node.ends.over
    jobs = size = 0
    while over and jobs < SLICE_JOBS and size < SLICE_BYTES:
        wait = over.popleft()
        if node.ends.by_session.get(wait.session.id) is wait:
            jobs += len(wait.wanted)
            size += answer(node, wait)


def answer(node: "Node", wait: Wait) -> int:
    """Answer a client with what is known. Returns the bytes of the reply."""
    session = wait.session
    reply = pieces(wait)
    size = sum([len(piece) for piece in reply])
    leave(node, wait)
    if node.journaling:
        session.unsettled = True
    is_silent = False
    if session.waiting == WAIT_ENDS:  # else it is at once
        session.waiting = NOT_WAITING
        is_silent, session.wait_silent = session.wait_silent, False
        node.touch(session)
    if not is_silent:
        session.large = session.large or len(reply) > 1
        session.out += reply
    return size


def pieces(wait: Wait) -> list[bytes]:
    """The reply to a client: one piece, or several with the long texts as they are."""
    bare = BARE[wait.session.protocol - 2]
    reply: list[bytes] = []
    short = [b"*%d\r\n" % len(wait.wanted)]
    for wanted in wait.wanted:
        short.append(wanted.reply or bare[wanted.status])
        if wanted.text:
            reply += (b"".join(short), wanted.text)
            short = [b"\r\n"]
    reply.append(b"".join(short))
    return reply


def leave(node: "Node", wait: Wait) -> None:
    """A client waits no more. What nobody else waits for is not asked for any more."""
    node.timers.disarm(wait)
    del node.ends.by_session[wait.session.id]
    node.used -= wait.size()
    for wanted in wait.wanted:
        if wait not in wanted.waits:
            continue  # named twice
        del wanted.waits[wait]
        if wanted.waits:
            continue
        node.used -= wanted.size()
        if not wanted.status:
            forget(node, wanted)
    wait.wanted.clear()


def forget(node: "Node", wanted: Wanted) -> None:
    """Nobody waits for this job any more."""
    del node.ends.wanted[wanted.id]
    node.used -= WAIT_BYTES + node.ends.unwatch(node.node_id, wanted.id)
    node.timers.disarm(wanted)
    for peer in node.peers.values():
        # Also without a link: a WATCH from before may still wait for the journal, and goes out over the next link.
        say(node, peer.id, NO_MORE, wanted.id)


def time_out(node: "Node", wait: Wait, now_ms: int) -> None:
    """The client has waited for long enough. What it waits for may have ended in the same moment."""
    del now_ms
    if node.ends.by_session.get(wait.session.id) is wait:
        answer(node, wait)


def refuse(node: "Node", session: Session, reply: bytes) -> None:
    """This client may not wait for these jobs any more."""
    leave(node, node.ends.by_session[session.id])
    session.waiting = NOT_WAITING
    is_silent, session.wait_silent = session.wait_silent, False
    node.touch(session)
    if not is_silent:
        session.out.append(reply)


def review(node: "Node", now_ms: int) -> None:
    """Links or nodes have changed: somebody who has not answered may not be there any more."""
    node.ends.reviews += 1
    node.begin_chore(judge_all(node, node.ends.reviews, now_ms))


def judge_all(node: "Node", number: int, now_ms: int) -> "Iterator[bool]":
    """Look at all jobs that somebody waits for, unless there is a newer reason to do that."""
    for count, job_id in enumerate(list(node.ends.wanted), 1):
        wanted = node.ends.wanted.get(job_id)  # the answer to one client may be all that others were wanted for
        if wanted is not None and wanted.without:
            judge(node, wanted, max(now_ms, node.beat_ms))
        if count % SLICE == 0:
            yield False
            if node.ends.reviews != number:
                return


def disconnect(node: "Node", session: Session) -> None:
    """A client is gone that waits."""
    session.waiting = NOT_WAITING
    leave(node, node.ends.by_session[session.id])


def break_off(node: "Node") -> None:
    """This node forgets all jobs: nobody waits for them any more."""
    for wait in list(node.ends.by_session.values()):
        answer(node, wait)
