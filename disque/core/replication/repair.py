"""Copies that are lost for good are made again elsewhere.

A copy counts as lost when its node has been failing for `cluster-repair-after`, is forgotten, or leaves; or when a
node has it no more, since it has started again without its disk, or has missed where the job has gone. Then the other
holders walk through all their jobs. As long as nothing of that happens, nobody walks, and no job costs anything.

*Holders are not copies*: the list says who may have one. So for each job that may lack a copy, the linked holders are
asked (ASKCOPY), and those that say yes are counted (COPYIS). A node that cannot be reached for less than
`cluster-repair-after`, or does not understand the question, counts too: most of them have their copies. The first of
those that have one, in the order of the job (`rank`), repairs it: it sends copies to the next nodes in that order (see
`replacement`). All others leave it to that one. It may see no reason to walk, since it has lost its memory of a node
that failed (CLUSTER RESET): so the others look again, and in the end whoever does repairs. Two nodes that both think
so, or do not reach the same nodes, choose the same targets. A copy too many stays until the job ends.

*A node that leaves* has copies that do not count. It makes new ones itself of jobs that nobody else has, and gives away
those that are delivered at most once (see `takeover`). It goes on until it finds none that has too few elsewhere.

*Slices.* Jobs with the fewest nodes that may have a copy come first. So much is done a beat that it takes a tenth of a
node's time, and so many jobs are under way at a time. What cannot be done, since a node that could take a copy refuses
it for now, or since a link has ended, is tried again by another walk.

*Messages that are lost.* With a link all questions over it end, and the next walk asks again. So it does when no answer
has come for a while: it goes over the link of the other side, which may not stand yet. An answer that comes twice or
late is of no question that is open, or says what is asked anew. ASKCOPY and COPYIS bring the holders that the other
side may not know, as questions before a requeue do (see `arbitration`).

Jobs that are delivered at most once have one copy, and are not repaired.
"""

from typing import TYPE_CHECKING, Final

from cluster.member import FAILING, LEAVING
from cluster.messages import ASKCOPY, COPY_OVER, COPY_THERE, COPY_UNDECIDED, COPY_UNKNOWN, COPYIS, END_KEPT
from disque.core.model.job import ACKED, ACTIVE, EXTRA, QUEUED, SPENT, WAIT_REPL, Job
from disque.core.model.memory import CHECK_BYTES, SPREAD_BYTES
from disque.core.model.repair import Check, Replacement, Walk
from disque.core.replication import (
    acks,
    coordinator,
    end_copies,
    generations,
    replacement,
    replica,
    returned,
    standing,
    takeover,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.node import Node

#: What is done is counted in microseconds, about: to look at a job, to ask one node about it, to make a copy, and to
#: send so many bytes of its body.
LOOK_US: Final = 1
ASK_US: Final = 10
COPY_US: Final = 40
BYTES_A_US: Final = 256
#: One step of a walk; all its steps between two beats, which is a tenth of the time.
STEP_US: Final = 1000
BEAT_US: Final = 10_000
#: Jobs that are asked about, or copied, at a time.
OPEN_MOST = 1000  # not Final: tests want less, compiled too
#: So long after a loss that is known at once (FORGET, LEAVING) the walk begins: others may have to hear of it.
SETTLE_MS: Final = 1000
#: A walk that has left something undone is followed by another one, after so long at first and at most.
AGAIN_MS: Final = 5_000
AGAIN_MOST_MS: Final = 30_000
#: A walk after such a pause leaves nothing to other nodes: they have had half a minute.
INSIST_MS: Final = 20_000
#: The same for a node that leaves.
LEAVING_MS: Final = 2_000
#: A question that is not answered in this time is left to the next walk.
ANSWER_MOST_MS: Final = 10_000
#: A copy that was not made in this time is left to the next walk.
COPY_MOST_MS: Final = 30_000
#: The log says how far a walk has come so often.
SAY_MS: Final = 10_000
#: Kept ends that are looked up at a time.
SLICE: Final = 500
#: Jobs that so many nodes or more may have are all alike.
LEVELS: Final = 8
#: Beats a second.
BEAT_MS: Final = 100
LOOK_EVERY_MS: Final = 1000


# -- who is gone -------------------------------------------------------------------------------------------------------


def review(node: "Node", forgotten: list[bytes], now_ms: int) -> None:
    """Take over what has changed in the membership."""
    repairs, known = node.repairs, node.membership.nodes
    failing = {peer_id for peer_id in node.peers if known[peer_id].flags & FAILING}
    for peer_id in failing:
        if peer_id not in repairs.failing:
            repairs.failing[peer_id] = known[peer_id].failing_ms or now_ms
    for peer_id in [peer_id for peer_id in repairs.failing if peer_id not in failing]:
        del repairs.failing[peer_id]
        repairs.gone.discard(peer_id)
        repairs.urgent.pop(peer_id, None)
        if peer_id in known:
            repairs.doubts[peer_id] = now_ms
    leaving = {peer_id for peer_id in known if known[peer_id].flags & LEAVING}
    for peer_id in sorted(leaving - repairs.leaving):
        repairs.urgent[peer_id] = "this node leaves" if peer_id == node.node_id else f"{name(peer_id)} leaves"
        repairs.again_ms = now_ms + SETTLE_MS
    if node.node_id not in leaving:
        repairs.left = -1
    repairs.leaving = leaving
    for peer_id in forgotten:
        repairs.urgent[peer_id] = f"{name(peer_id)} was forgotten"
        repairs.lacking.pop(peer_id, None)
        repairs.everything = True
        repairs.again_ms = now_ms + SETTLE_MS
    linked = {peer.id for peer in node.linked}
    if repairs.again_ms and not linked <= repairs.linked:
        repairs.again_ms = min(repairs.again_ms, now_ms + SETTLE_MS)  # a node has come that may take copies
    repairs.linked = linked


def started_again(node: "Node", peer_id: bytes, now_ms: int) -> None:
    """A node is another process than before, which may have lost copies."""
    node.repairs.doubts[peer_id] = now_ms


def lost(node: "Node", peer_id: bytes) -> bool:
    """Somebody says that a node is gone for good. False if it answers, or if it is not known."""
    if peer_id not in node.repairs.failing:
        return False
    node.repairs.gone.add(peer_id)
    node.repairs.urgent[peer_id] = f"{name(peer_id)} is said to be gone"
    return True


def name(node_id: bytes) -> str:
    """A node as the log names it."""
    return f"node {node_id[:8].decode('latin-1')}"


def beat(node: "Node", now_ms: int) -> None:
    """Begin a walk when there is a reason."""
    repairs = node.repairs
    if repairs.returned or repairs.noted:
        returned.beat(node, now_ms)
    if repairs.parting:
        takeover.beat(node)
    is_idle = not (repairs.doubts or repairs.failing or repairs.urgent or repairs.again_ms)
    if is_idle or now_ms % LOOK_EVERY_MS >= BEAT_MS:
        return
    after_ms = node.config.number("cluster-repair-after") * 1000
    due: set[bytes] = set()
    if after_ms:
        for peer_id, since_ms in repairs.failing.items():
            if now_ms - since_ms >= after_ms and peer_id not in repairs.gone:
                repairs.gone.add(peer_id)
                repairs.urgent[peer_id] = f"{name(peer_id)} has been failing for {after_ms // 1000} s"
        due = {peer_id for peer_id, since_ms in repairs.doubts.items() if now_ms - since_ms >= after_ms}
    is_again = 0 < repairs.again_ms <= now_ms and repairs.walk is None
    if repairs.urgent or due or is_again:
        begin(node, frozenset(due), now_ms)


def begin(node: "Node", due: frozenset[bytes], now_ms: int) -> None:
    """Begin a walk; one that goes on already begins again."""
    repairs = node.repairs
    before = repairs.walk
    everything = repairs.everything or node.node_id in due or (before is not None and before.all)
    doubted = repairs.open | due | frozenset(repairs.urgent)
    for peer_id in due:
        del repairs.doubts[peer_id]
    if before is not None:
        break_off(node)
    elif repairs.urgent or due:
        repairs.pause_ms = 0
    why = ", ".join(repairs.urgent.values())
    repairs.urgent.clear()
    repairs.everything = False
    repairs.again_ms = repairs.short = repairs.alone = 0
    repairs.open = doubted
    walk = repairs.walk = Walk(doubted, why, now_ms, everything=everything)
    walk.leaves = node.membership.leaving
    walk.insists = repairs.pause_ms >= INSIST_MS
    node.begin_chore(go(node, walk))


def break_off(node: "Node") -> None:
    """What is under way is left to another walk."""
    repairs = node.repairs
    node.used -= CHECK_BYTES * len(repairs.checks)
    repairs.checks.clear()
    for job_id in list(repairs.copying):
        node.drop_copies(job_id)
    repairs.copying.clear()
    node.used -= CHECK_BYTES * len(repairs.keeping)
    repairs.keeping.clear()


# -- the walk ----------------------------------------------------------------------------------------------------------


def go(node: "Node", walk: Walk) -> "Iterator[bool]":
    """Walk through all jobs: count them first, then see to them, those with the fewest copies first. Then the ends."""
    repairs = node.repairs
    for level in range(LEVELS + 1):
        if not level or walk.levels[level]:
            yield from over_jobs(node, walk, level)
        if not level:
            yield from over_ends(node, walk, counts=True)
            say_begin(node, walk)
    yield from over_ends(node, walk, counts=False)
    while goes_on(node, walk) and (repairs.checks or repairs.copying or repairs.parting or repairs.keeping):
        yield True
        if goes_on(node, walk):
            tend(node, walk)
    if goes_on(node, walk):
        finish(node, walk)


def goes_on(node: "Node", walk: Walk) -> bool:
    """Whether this is still the walk; it may have ended, or begun again, whenever others had their turn."""
    return node.repairs.walk is walk


def over_jobs(node: "Node", walk: Walk, level: int) -> "Iterator[bool]":
    """Walk through all jobs, and see to those of one level. On level 0 they are only counted."""
    for shard in node.shards:
        jobs = list(shard.values()) if goes_on(node, walk) else []
        while jobs:
            see_to(node, walk, level, jobs)
            if walk.step_us < STEP_US and not is_full(node):
                continue
            yield is_enough(node, walk)
            if not goes_on(node, walk):
                return


def over_ends(node: "Node", walk: Walk, *, counts: bool) -> "Iterator[bool]":
    """Walk through all ends that are kept. ``counts``: they are only counted."""
    cursor = 1 if node.ends.by_id and goes_on(node, walk) else 0
    while cursor:
        cursor, some = node.ends.index.look(cursor, SLICE)
        while some:
            if walk.step_us >= STEP_US or is_full(node):
                yield is_enough(node, walk)
                if not goes_on(node, walk):
                    return
                continue
            end = some.pop()
            walk.step_us += LOOK_US
            if counts:
                end_copies.count(node, walk, end)
            elif (about := end_copies.check(node, walk, end)) > 0:
                walk.step_us += ASK_US * about + (len(end.text) + len(end.body)) // BYTES_A_US


def see_to(node: "Node", walk: Walk, level: int, jobs: list[Job]) -> None:
    """Take the last of ``jobs``, until that is enough for one step. On level 0 they are only counted."""
    while jobs and walk.step_us < STEP_US and not is_full(node):
        job = node.find(jobs.pop().id)  # it may have ended since, or moved, and be another object
        walk.step_us += LOOK_US
        if job is None:
            continue
        found = level_of(node, walk, job)
        if level:
            if found == level:
                walk.step_us += check(node, walk, job)
        elif found:
            walk.levels[found] += 1
            if found <= job.repl:
                standing.estimate(node, job.id, job.holders, job.repl, found - 1)
        elif walk.leaves and is_only_here(node, job):
            walk.left += 1
            if not job.retry and job.state in {ACTIVE, QUEUED} and node.membership.leaving:
                walk.step_us += COPY_US + len(job.body) // BYTES_A_US
                takeover.begin(node, job, node.beat_ms)


def is_only_here(node: "Node", job: Job) -> bool:
    """Whether a job is lost with this node which is not repaired: delivered at most once, or ASYNC and just begun."""
    spread = node.copies.wanted.get(job.id) if node.copies.wanted else None
    if spread is not None:
        return spread.add is None
    return not job.retry and job.state in {ACTIVE, QUEUED} and not job.flags & SPENT


def is_full(node: "Node") -> bool:
    """Whether enough jobs are under way; or nothing must be, since the journal takes nothing."""
    repairs = node.repairs
    under_way = len(repairs.checks) + len(repairs.copying) + len(repairs.parting) + len(repairs.keeping)
    return under_way >= OPEN_MOST or len(node.misconf) > 0


def is_enough(node: "Node", walk: Walk) -> bool:
    """A step is over; whether the walk rests until the next beat. Then it sees to what has ended otherwise."""
    walk.beat_us += walk.step_us
    walk.step_us = 0
    if walk.beat_us < BEAT_US and not is_full(node):
        return False
    walk.beat_us = 0
    tend(node, walk)
    return True


def level_of(node: "Node", walk: Walk, job: Job) -> int:
    """One more than the number of nodes that may have a copy, up to LEVELS; 0: nothing is to be looked at."""
    if job.state not in {ACTIVE, QUEUED} or not job.retry:
        return 0
    live, is_doubtful = standing.standing(node, walk, job.holders)
    if live >= job.repl and not is_doubtful:
        return 0
    if node.copies.wanted and job.id in node.copies.wanted:
        return 0
    return min(live + 1, LEVELS)


def check(node: "Node", walk: Walk, job: Job) -> int:
    """Ask who has a copy of ``job``; what that will cost, in us."""
    if job.id in node.repairs.checks:
        return 0  # asked already, when it seemed to have another number of copies
    asked = [holder for holder in job.holders if holder != node.node_id and standing.is_able(node, holder)]
    found = Check(asked, node.beat_ms)
    if not asked:
        decide(node, walk, job, found, node.beat_ms)
        return COPY_US + len(job.body) // BYTES_A_US
    node.repairs.checks[job.id] = found
    node.used += CHECK_BYTES
    for holder in asked:
        node.batch(holder, (ASKCOPY, job.holders), job.id)
    return ASK_US * len(asked) + (COPY_US + len(job.body) // BYTES_A_US) // (len(asked) + 1)


def say_begin(node: "Node", walk: Walk) -> None:
    """All jobs were counted."""
    if node.repairs.short and walk.why and goes_on(node, walk):
        node.repairs.news.append(f"Repair begins, of {node.repairs.short} jobs here: {walk.why}")


def tend(node: "Node", walk: Walk) -> None:
    """A beat is over: see to what has ended otherwise."""
    repairs, now_ms = node.repairs, node.beat_ms
    walk.memo.clear()  # of nodes that come and go
    for job_id, found in list(repairs.checks.items()):
        if now_ms - found.since_ms >= ANSWER_MOST_MS or not all(standing.is_able(node, peer) for peer in found.open):
            drop_check(node, job_id)
            repairs.open |= set(found.open)
            walk.unsure += 1
    for job_id, spread in list(repairs.copying.items()):
        if node.copies.wanted.get(job_id) is not spread:
            del repairs.copying[job_id]
            replacement.over(node, spread)  # the job has ended
        elif now_ms - spread.since_ms >= COPY_MOST_MS:
            replacement.give_up(node, spread, may_refuse=True)
    for job_id, leaver in list(repairs.parting.items()):
        if node.copies.wanted.get(job_id) is not leaver:
            del repairs.parting[job_id]  # the job has ended
    end_copies.tend(node, walk, ANSWER_MOST_MS)
    if now_ms - walk.said_ms >= SAY_MS:
        walk.said_ms = now_ms
        if walk.made:
            repairs.news.append(f"Repair goes on: {walk.made} jobs have their copies again, {repairs.short} to go")


def drop_check(node: "Node", job_id: bytes) -> Check:
    """The copies of a job are counted, or cannot be."""
    node.used -= CHECK_BYTES
    return node.repairs.checks.pop(job_id)


def finish(node: "Node", walk: Walk) -> None:
    """All jobs were seen to."""
    repairs, now_ms = node.repairs, node.beat_ms
    repairs.walk = None
    repairs.short, repairs.alone = max(0, walk.short), max(0, walk.alone)
    is_open = walk.refused or walk.unsure or walk.passed
    if walk.made or (walk.why and not repairs.short):
        repairs.news.append(f"Repair has ended: {walk.made or 'no'} jobs had to get their copies again from here")
    if repairs.short and (walk.why or walk.made):
        cause = "nodes refuse to take more for now" if walk.refused else "there is no further node to take one"
        repairs.news.append(f"Repair: {repairs.short} jobs still have too few copies: {cause}")
    if walk.leaves and node.membership.leaving:
        left = walk.left + walk.unsure + int(node.ends.strange > 0)  # results that no holder has taken yet
        if not left and repairs.left:
            repairs.news.append("This node leaves, and all its jobs have their copies elsewhere: it can be stopped")
        repairs.left = left
    repairs.pause_ms = min(max(AGAIN_MS, 2 * repairs.pause_ms), AGAIN_MOST_MS)
    if node.membership.leaving and repairs.left and (walk.made or walk.parted):
        repairs.again_ms = now_ms + LEAVING_MS
    elif is_open or repairs.short or (node.membership.leaving and repairs.left):
        repairs.again_ms = now_ms + repairs.pause_ms
    else:
        repairs.open = frozenset()


# -- counting ----------------------------------------------------------------------------------------------------------


def asked(node: "Node", peer: bytes, message: tuple[int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int) -> None:
    """ASKCOPY: say of each job whether there is a copy here."""
    _, holders, ids = message
    for job_id in ids:
        job = node.find(job_id)
        named: tuple[bytes, ...] = ()
        if job is None and job_id not in node.acks.by_id and job_id not in node.tombstones:
            what = COPY_UNKNOWN
        elif job is None or job.state == ACKED:
            acks.tell_acked(node, peer, job_id)
            what = COPY_OVER
        elif job.state == WAIT_REPL:
            what = COPY_UNDECIDED
        elif not job.retry:
            what = COPY_UNKNOWN
        else:
            what = COPY_THERE
            if holders != job.holders or peer not in job.holders:
                replica.add_holders(node, job, (*holders, peer))
                named = job.holders if job.holders != holders else ()
            if job.flags & EXTRA:
                generations.catch_up(node, peer, job, now_ms)
        node.batch(peer, (COPYIS, what, named), job_id)


def told(
    node: "Node", peer: bytes, message: tuple[int, int, tuple[bytes, ...], tuple[bytes, ...]], now_ms: int
) -> None:
    """COPYIS: ``peer`` says whether it has copies of these jobs, or of their ends."""
    _, what, holders, ids = message
    if what >= END_KEPT:
        end_copies.told(node, peer, what, holders, ids, now_ms)
    else:
        counted(node, peer, what, holders, ids, now_ms)


def counted(
    node: "Node", peer: bytes, what: int, holders: tuple[bytes, ...], ids: tuple[bytes, ...], now_ms: int
) -> None:
    """``peer`` says whether it has copies of these jobs."""
    repairs = node.repairs
    for job_id in ids:
        if repairs.returned:
            returned.told(node, peer, job_id, what, now_ms)
        found = repairs.checks.get(job_id)
        job = node.find(job_id)
        note_lacking(node, peer, what, job)
        is_news = job is not None and (peer not in job.holders or (holders and holders != job.holders))
        if is_news and what == COPY_THERE and job is not None and job.retry and job.state in {ACTIVE, QUEUED}:
            replica.add_holders(node, job, (*holders, peer))
        if found is None or peer not in found.open:
            continue
        found.open.remove(peer)
        if what == COPY_THERE:
            found.have.append(peer)
        elif what != COPY_UNKNOWN:
            drop_check(node, job_id)
            if what == COPY_UNDECIDED and repairs.walk is not None:
                repairs.open |= {peer}
                repairs.walk.unsure += 1
            continue
        if not found.open:
            drop_check(node, job_id)
            if job is not None and repairs.walk is not None and job.state in {ACTIVE, QUEUED}:
                decide(node, repairs.walk, job, found, now_ms)


def note_lacking(node: "Node", peer: bytes, what: int, job: Job | None) -> None:
    """Note if ``peer`` does not know a job of which it is to have a copy: it may have lost older ones as well."""
    if what == COPY_UNKNOWN and job is not None:
        node.repairs.lacking[peer] = max(job.ctime, node.repairs.lacking.get(peer, 0))


def decide(node: "Node", walk: Walk, job: Job, found: Check, now_ms: int) -> None:
    """It is known who has a copy: make more of them, if there are too few and it is up to this node."""
    repairs = node.repairs
    sayers = [*found.have, node.node_id]
    have = [one for one in sayers if one not in repairs.leaving]
    # A node that was asked for a copy is a holder before it says that it has one: it may not be all that remains.
    others = standing.away(node, job.holders) if have or not node.membership.leaving else ()
    count = len(have) + len(others)
    repl = max(1, job.repl)
    if count >= repl:
        standing.rely_on(node, others, now_ms)
        return
    # Whoever has said that it has no copy stays a holder: it is doubted until copies enough are there.
    repairs.open |= {holder for holder in job.holders if holder not in sayers and holder not in others}
    if node.membership.leaving and count < max(1, min(repl, len(node.linked))):
        walk.left += 1
    if job.id in repairs.returned:
        walk.unsure += 1  # it may have been done long ago: whoever got a copy would deliver it
        return
    if job.id in node.copies.wanted:
        return
    if standing.first(have or sayers, job.id) != node.node_id and not walk.insists:
        walk.passed += 1
        return
    walk.short += 1
    is_alone = count <= 1 < repl
    walk.alone += is_alone
    known = tuple([one for one in sayers if one != node.node_id])
    spread = Replacement(job, known, others, repl - count, now_ms, is_alone=is_alone)
    repairs.copying[job.id] = spread
    node.copies.wanted[job.id] = spread
    node.used += SPREAD_BYTES
    for _ in range(spread.missing()):
        coordinator.more(node, spread, now_ms)
