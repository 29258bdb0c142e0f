"""Schedules fire: at each tick the first node in the order of the name adds the job.

The order is a rendezvous order of the nodes that can be reached, so it is the same at all nodes that agree who that
is. While the first one is there, only its clock counts. When it fails, the next one fires what is due, whenever that
was. The job has the UNIQUE key ``cron:<name>:<tick>``, so a tick that two nodes fire, or one fires twice, is one job.
When it is added, the tick becomes the last tick of the schedule (an entry of the registry), and no tick up to it fires
again. One that cannot be added is tried again until the next one is due, for a minute at least.

Ticks that passed while no node was up are the business of CATCHUP. Once there is a schedule, nodes tell each other how
long they have been up (UPSINCE): one that is lost or late makes ticks seem to be such, or not; twice is as once.
A node that stood still, or whose wall clock was set forward, counts as one that was not up. After a start, and after it
stood still, a node fires nothing before the others have had time to tell it what they know.

This node looks at a schedule when an entry of it has changed, when its time has come, or when nodes have come or gone.
"""

from typing import TYPE_CHECKING, Final

from cluster.capabilities import SCHEDULES
from cluster.member import DELETED, FAIL, HANDSHAKE, MYSELF, PFAIL, STOPPED
from cluster.messages import UPSINCE
from disque.core import entries
from disque.core.jobs import add
from disque.core.model.key_ring import ranked
from disque.core.model.registry import LAST_TICK, SCHEDULE
from disque.core.model.schedules import OPEN_MOST, Alarm, Schedule
from disque.core.model.session import Session
from disque.core.schedule import keeping
from disque.core.schedule.keeping import AHEAD_MOST, LAST, NONE, SOON, Saying
from disque.core.schedule.ticks import printable

if TYPE_CHECKING:
    from disque.core.node import Node

#: Nodes that fire nothing.
AWAY: Final = PFAIL | FAIL | HANDSHAKE | DELETED | STOPPED
#: After a start, each link must have stood for so long before anything fires, in ms.
IN_STEP_MS: Final = 500
#: A tick that is late by so many ms may have been fired before this node heard of its schedule.
LATE_MS: Final = 1000
#: One that says that it came up so much later than was known, in ms, is asked and told anew.
NEWS_MS: Final = 1000
#: One that waits until the others have said that says again itself that it has come up, which asks them, so often.
ASK_AGAIN_MS: Final = 3000
#: A wall clock that was set by so many ms: what it has passed over was no time in which this node was up, and if it was
#: set back, schedules are due earlier than was known.
JUMP_MS: Final = 10_000
#: Ticks that are made up for.
TICKS_MOST: Final = 1000
#: Nodes that are known no more, of which it is kept how long they have been up. Who is met again does not say it again
#: if its own link was there all the time.
GONE_MOST: Final = 1000
#: How long ADDJOB may wait for copies, and what fails for how long is tried again, in ms.
ADD_MS: Final = 10_000
AGAIN_MS: Final = 1000
AGAIN_MOST_MS: Final = 10_000
GIVE_UP_MS: Final = 60_000
#: Its key outlives a tick by 100 periods, within these bounds in seconds, by a longer period whole, and by a week at
#: most: it is needed while nodes may not know of the last tick, and each key takes memory. It lies on so many nodes.
WINDOW_PERIODS: Final = 100
WINDOW_LEAST: Final = 3600
WINDOW_DAY: Final = 86_400
WINDOW_MOST: Final = 7 * 86_400
KEEPERS: Final = 3
#: Schedules that one tick looks at, and as how many one counts that fires.
LOOKS_MOST: Final = 500
FIRE_COST: Final = 20
#: Schedules whose time has come that one tick puts into the line.
DUE_MOST: Final = 1000


# -- doors -------------------------------------------------------------------------------------------------------------


def beat(node: "Node", now_ms: int, gap_ms: int) -> None:
    """Ten times a second: who fires, how late it is, and whether this process stood still for ``gap_ms``."""
    schedules = node.schedules
    ahead_ms = node.host.wall_us() // 1000 - now_ms
    stood = has_stood(node, gap_ms)
    if stood:
        schedules.up.clear()  # they say it again when they have heard that this node stood still
    again = schedules.held and schedules.speaks and now_ms - schedules.up_ms >= ASK_AGAIN_MS and is_owed(node)
    if stood or again or ahead_ms - schedules.ahead_ms > JUMP_MS:
        schedules.up_ms = now_ms
        tell_up(node, now_ms)
    elif schedules.ahead_ms - ahead_ms > JUMP_MS:
        look_at_all(node)  # they wait for times that this clock will not show for long
    schedules.ahead_ms = ahead_ms
    schedules.held |= stood
    if schedules.held and is_in_step(node, now_ms):
        schedules.held = False
        look_at_all(node)
    if schedules.by_name or schedules.alarm.due_ms:
        if schedules.version != node.membership.version:
            review(node)
        arm(node, now_ms)


def has_stood(node: "Node", gap_ms: int) -> bool:
    """Whether a process that has not looked after the others for so long has stood still."""
    return gap_ms > node.membership.timeout_ms // 2


def settle(node: "Node", now_ms: int) -> None:
    """Once before each flush: entries have changed, or jobs were added."""
    schedules = node.schedules
    if schedules.open:
        still: list[Schedule] = []
        opened, schedules.open = schedules.open, still
        for schedule in opened:
            session = schedule.session
            if session is not None and session.adds:
                still.append(schedule)
            elif session is not None:
                over(node, schedule, session, now_ms)
    if node.registry.schedules:
        keeping.refresh(node)
        if schedules.by_name:
            speak(node, now_ms)


def due(node: "Node", alarm: Alarm, now_ms: int) -> None:
    """The time of some schedules has come."""
    del alarm
    node.schedules.due(node.host.wall_us() // 1000, DUE_MOST)
    arm(node, now_ms)


def go_on(node: "Node", now_ms: int) -> None:
    """Look at some of those that are to be looked at."""
    line = node.schedules.line
    left = LOOKS_MOST
    while line and left > 0 and len(node.schedules.open) < OPEN_MOST:
        schedule = line.popleft()
        schedule.in_line = False
        left -= FIRE_COST if look(node, schedule, now_ms) else 1
    arm(node, now_ms)


def arm(node: "Node", now_ms: int) -> None:
    """Set the alarm to when the next schedule is due by the wall clock."""
    schedules = node.schedules
    due_ms = schedules.next_ms()
    if due_ms:
        left_us = due_ms * 1000 - node.host.wall_us()
        at_ms = now_ms + max(0, -(-left_us // 1000))
        if abs(schedules.alarm.due_ms - at_ms) > 1:
            node.timers.arm(schedules.alarm, at_ms)
    elif schedules.alarm.due_ms:
        node.timers.disarm(schedules.alarm)


# -- other nodes -------------------------------------------------------------------------------------------------------


def link_up(node: "Node", peer_id: bytes, now_ms: int) -> None:
    """There is a new link to ``peer_id``: tell it how long this node has been up."""
    if node.schedules.speaks:
        node.send(peer_id, (UPSINCE, max(0, now_ms - node.schedules.up_ms)))


def speak(node: "Node", now_ms: int) -> None:
    """There is a schedule somewhere: from now on the others are told."""
    if not node.schedules.speaks:
        node.schedules.speaks = True
        tell_up(node, now_ms)


def tell_up(node: "Node", now_ms: int) -> None:
    """Tell all others, if there are schedules."""
    if node.schedules.speaks:
        node.tell_all((UPSINCE, max(0, now_ms - node.schedules.up_ms)))


def told(node: "Node", peer: bytes, message: tuple[int, int], now_ms: int) -> None:
    """UPSINCE: so long ``peer`` has been up. If that is news, it may not know how long this node has been."""
    before = node.schedules.up.get(peer, 0)
    node.schedules.up[peer] = now_ms - message[1]
    if not node.schedules.speaks:
        speak(node, now_ms)
    elif now_ms - message[1] > before + NEWS_MS:
        link_up(node, peer, now_ms)


def review(node: "Node") -> None:
    """Nodes have come or gone: others may have to fire."""
    schedules = node.schedules
    schedules.version = node.membership.version
    known = node.membership.nodes
    if len(schedules.up) > len(known) + GONE_MOST:
        schedules.up = {peer_id: up_ms for peer_id, up_ms in schedules.up.items() if peer_id in known}
    nodes = tuple(sorted([node_id for node_id in known if can_fire(node, node_id)]))
    if nodes != schedules.nodes:
        schedules.nodes = nodes
        look_at_all(node)


def can_fire(node: "Node", node_id: bytes) -> bool:
    """Whether a node is there, and knows what schedules are."""
    member = node.membership.nodes[node_id]
    if member.flags & AWAY:
        return False
    if member.flags & MYSELF:
        return member.capabilities & SCHEDULES != 0
    peer = node.peers.get(node_id)
    return peer is not None and (not peer.start or peer.understands(SCHEDULES))


def look_at_all(node: "Node") -> None:
    """Look at each schedule: who fires it may have changed."""
    for schedule in node.schedules.by_name.values():
        node.schedules.look_at(schedule)


def is_in_step(node: "Node", now_ms: int) -> bool:
    """Whether all others that are there have said how long they have been up, and have had time for all else."""
    for member in node.membership.nodes.values():
        if member.flags & (MYSELF | AWAY):
            continue
        if not member.linked or now_ms - member.linked_ms < IN_STEP_MS:
            return False
    return not is_owed(node)


def is_owed(node: "Node") -> bool:
    """Whether one that is there has not said how long it has been up.

    It says so when it hears of a new link, or that this node came up later than it knew. A node that came up twice
    within a second has said nothing new the second time.
    """
    for member in node.membership.nodes.values():
        if member.linked and not member.flags & (MYSELF | AWAY):
            peer = node.peers.get(member.id)
            if peer is not None and peer.understands(SCHEDULES) and peer.id not in node.schedules.up:
                return True
    return False


def owner(node: "Node", slot: bytes) -> bytes:
    """The node that fires a schedule; nothing if none can."""
    if node.schedules.version != node.membership.version:
        review(node)
    first = ranked(node.schedules.nodes, slot, 1)
    return first[0] if first else b""


# -- one schedule ------------------------------------------------------------------------------------------------------


def look(node: "Node", schedule: Schedule, now_ms: int) -> bool:
    """See what is to be done about a schedule: nothing, later, or now; whether a job was added."""
    schedules = node.schedules
    if schedules.by_name.get(schedule.name) is not schedule or schedule.session is not None:
        return False
    if schedule.name in node.registry.schedules:
        return False  # an entry of it has changed in this turn, or is gone: it is looked at when that is known here
    if schedule.ticks is None and not schedule.warned:
        schedule.warned = True
        node.host.warn(f"The spec or the time zone of the schedule {named(schedule)} is not known here: see CRON GET")
    if has_stood(node, now_ms - node.beat_ms):
        schedules.held = True  # the next beat goes on with it
    is_mine = owner(node, schedule.slot) == node.node_id
    if schedule.paused or schedule.ticks is None or not is_mine or schedules.held or node.stopping:
        schedules.wake_at(schedule, 0)
        return False
    wall_ms = node.host.wall_us() // 1000
    tick = pending(node, schedule, wall_ms, now_ms)
    again_ms = 0
    if schedule.tries and schedule.tick == tick:
        again_ms = schedule.tried_ms + pause_ms(schedule.tries)
    if node.peers and tick * 1000 < wall_ms - LATE_MS and now_ms - schedule.heard_ms < IN_STEP_MS:
        again_ms = wall_ms + IN_STEP_MS  # its last tick may be on its way here
    if not tick or tick * 1000 > wall_ms or again_ms > wall_ms:
        schedules.wake_at(schedule, max(tick * 1000, again_ms))
        return False
    schedules.wake_at(schedule, 0)
    if schedule.tick != tick:
        schedule.tick, schedule.tries, schedule.tried_ms = tick, 0, wall_ms
    fire(node, schedule, now_ms)
    return True


def pause_ms(tries: int) -> int:
    """How long after the first attempt the next one is, when so many have failed."""
    return sum([min(AGAIN_MS << min(one, 8), AGAIN_MOST_MS) for one in range(tries)])


def pending(node: "Node", schedule: Schedule, wall_ms: int, now_ms: int) -> int:
    """The tick that is to be fired next, now or later; 0: there is none."""
    assert schedule.ticks is not None
    row = schedule.ticks
    wall_s = wall_ms // 1000
    last = done(node, schedule, wall_s)
    tick = row.after(last)
    if not tick or tick >= wall_s:
        return tick
    up_s = -((now_ms - oldest_ms(node) - wall_ms) // 1000)
    if tick < up_s and schedule.catchup == NONE:
        schedule.skipped = up_s - 1
    elif tick < up_s and schedule.catchup == LAST:
        schedule.skipped = row.back(up_s, 1) - 1
    elif (wall_s - tick) // row.least_s >= TICKS_MOST:
        schedule.skipped = max(schedule.skipped, row.back(wall_s + 1, TICKS_MOST) - 1)
    else:
        return tick
    return row.after(max(last, schedule.skipped))


def done(node: "Node", schedule: Schedule, wall_s: int) -> int:
    """Up to where nothing is to be fired. What is more than a day ahead was said by a clock that was wrong.

    Then nobody knows what was fired before. So what is past now is left out, once.
    """
    far_s = wall_s + AHEAD_MOST
    last = keeping.last_tick(node, schedule.name)
    is_lost = schedule.done > far_s or schedule.skipped > far_s
    if last > far_s:
        if last != schedule.ignored:
            schedule.ignored, is_lost = last, True
            node.host.warn(f"The last tick of the schedule {named(schedule)} is more than a day ahead: ignored")
        last = 0
    if is_lost:
        schedule.done, schedule.skipped = 0, wall_s - 1
    since = schedule.since if schedule.since <= far_s else wall_s - 1
    upto = max(last, since, schedule.done, schedule.skipped)
    if upto > wall_s + SOON and upto != schedule.waits_for:
        schedule.waits_for = upto
        node.host.warn(
            f"The schedule {named(schedule)} waits for {upto - wall_s} s: it was set, or fired last, by a clock that "
            "was ahead of this one. With CRON PAUSE and RESUME it goes on from now"
        )
    return upto


def oldest_ms(node: "Node") -> int:
    """Since when, by the time of this node, it or one that it is linked to has been up."""
    up = node.schedules.up
    return min([node.schedules.up_ms, *[up[peer.id] for peer in node.peers.values() if peer.linked and peer.id in up]])


def fire(node: "Node", schedule: Schedule, now_ms: int) -> None:
    """Add the job of a tick. The reply comes now, or when the copies are there: see `settle`."""
    saying = keeping.find(node, schedule.name)
    assert saying is not None
    session = Session(0, b"cron", b"cron", now_ms)
    schedule.session = session
    if node.misconf:
        session.out.append(b"-" + node.misconf)
    else:
        add.add_kept(node, session, words(schedule, saying), KEEPERS, now_ms)
    if session.adds:
        node.schedules.open.append(schedule)
    else:
        over(node, schedule, session, now_ms)


def words(schedule: Schedule, saying: Saying) -> list[bytes]:
    """The ADDJOB of a tick."""
    assert schedule.ticks is not None
    tick = schedule.tick
    following = schedule.ticks.after(tick)
    key = b"cron:%b:%d" % (schedule.name, tick)
    return [*job_words(schedule.name, saying, tick), b"UNIQUE", key, b"%d" % window_s(following - tick)]


def window_s(period_s: int) -> int:
    """For how many seconds a key is kept whose tick has the next one so much later; there may be none."""
    if period_s <= 0:
        return WINDOW_DAY
    window = max(min(WINDOW_PERIODS * period_s, WINDOW_DAY), WINDOW_LEAST)
    return min(max(period_s, window), WINDOW_MOST)


def job_words(name: bytes, saying: Saying, tick: int) -> list[bytes]:
    """The ADDJOB of a schedule, without a UNIQUE key. ``tick`` is in seconds since 1970."""
    headers = [b"HEADER", b"cron-name", name, b"HEADER", b"cron-tick", b"%d" % tick]
    return [b"ADDJOB", saying.queue, saying.body, b"%d" % ADD_MS, *saying.options, *headers]


def over(node: "Node", schedule: Schedule, session: Session, now_ms: int) -> None:
    """The job of a tick was added, or could not be."""
    reply = session.out[0] if session.out else b""
    session.closing = True
    schedule.session = None
    if node.schedules.by_name.get(schedule.name) is not schedule:
        return
    wall_ms = node.host.wall_us() // 1000
    if reply.startswith(b"+"):
        node.stats.cron_fired += 1
        fired(node, schedule, now_ms)
    else:
        schedule.tries += 1
        following = schedule.ticks.after(schedule.tick) if schedule.ticks is not None else 0
        late_ms = wall_ms - schedule.tried_ms
        if late_ms >= GIVE_UP_MS and wall_ms >= following * 1000:
            node.stats.cron_failed += 1
            why = reply[1:].strip().decode("utf-8", "replace")
            node.host.warn(f"The tick {schedule.tick} of the schedule {named(schedule)} is given up: {why}")
            fired(node, schedule, now_ms)
    node.schedules.look_at(schedule)


def named(schedule: Schedule) -> str:
    """How the log names a schedule: its name may have any bytes."""
    return printable(schedule.name).decode("ascii")


def fired(node: "Node", schedule: Schedule, now_ms: int) -> None:
    """A tick is done with: all nodes are to know."""
    schedule.done = schedule.tick
    schedule.tries = 0
    entries.set_value(node, (LAST_TICK, schedule.name, b""), b"%d" % schedule.tick, now_ms)


# -- what users do -----------------------------------------------------------------------------------------------------


def forget_ahead(node: "Node", name: bytes, wall_s: int, now_ms: int) -> None:
    """A schedule is to go on from now: a last tick that is ahead of the clock was set by one that was wrong.

    Who fires a tick again gets the same job.
    """
    if keeping.last_tick(node, name) > wall_s + SOON:
        entries.set_value(node, (LAST_TICK, name, b""), b"", now_ms, deleted=True)


def put(node: "Node", name: bytes, saying: Saying, now_ms: int) -> bytes:
    """Set a schedule at all nodes; returns the text of an error, or nothing."""
    wrong = entries.set_value(node, (SCHEDULE, name, b""), saying.encoded(), now_ms)
    if not wrong:
        keeping.take(node, name)
    return wrong


def delete(node: "Node", name: bytes, now_ms: int) -> None:
    """Delete a schedule at all nodes."""
    entries.set_value(node, (SCHEDULE, name, b""), b"", now_ms, deleted=True)
    if keeping.last_tick(node, name):
        entries.set_value(node, (LAST_TICK, name, b""), b"", now_ms, deleted=True)
    keeping.take(node, name)
