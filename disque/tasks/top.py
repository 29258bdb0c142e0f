"""`disque top`: queues and workers, live in a terminal."""

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Final

from disque.tasks.inspector import Inspector, QueueView, WorkerView
from disque.tasks.terminal import printable

#: Clears the screen and goes to its beginning.
CLEAR: Final = "\x1b[H\x1b[2J"
LINES_MOST: Final = 40
TITLES: Final = (
    f"{'queue':30} {'waiting':>9} {'delayed':>8} {'running':>8} {'dead':>7} {'added/s':>8} {'done/s':>8} "
    f"{'failed/s':>8} {'oldest':>8} {'wait p95':>9} {'run p95':>9}"
)


async def watch(inspector: Inspector, interval_s: float, *, once: bool) -> None:
    """Print a screen every so many seconds, or one; Ctrl-C ends it."""
    before: dict[str, QueueView] = {}
    before_s = time.monotonic()
    while True:
        queues, workers = await asyncio.gather(inspector.queues(), inspector.workers())
        now_s = time.monotonic()
        text = screen(queues, workers, before, now_s - before_s)
        text += "".join(f"{printable(one)}\n" for one in inspector.left_out)
        inspector.left_out.clear()
        sys.stdout.write(text if once else CLEAR + text)
        sys.stdout.flush()
        if once:
            return
        before, before_s = {one.name: one for one in queues}, now_s
        await asyncio.sleep(interval_s)


def screen(
    queues: Sequence[QueueView], workers: Sequence[WorkerView], before: dict[str, QueueView], passed_s: float
) -> str:
    """One screen: the busiest queues first. Rates are those since ``before``."""
    own = [one for one in queues if not one.name.endswith(":dead")]
    waiting, running = sum(one.length for one in own), sum(one.in_flight for one in own)
    dead = sum(one.dead for one in own)
    lines = [
        f"{len(own)} queues, {waiting} waiting, {running} in flight, {dead} dead letters, {len(workers)} workers",
        "",
        TITLES,
    ]
    rates = {one.name: rate(one, before.get(one.name), passed_s) for one in own}
    busiest = sorted(own, key=lambda one: (-sum(rates[one.name]), -one.in_flight, -one.length, one.name))
    for one in busiest[:LINES_MOST]:
        added, done, failed = rates[one.name]
        name = printable(one.name)
        name = name if len(name) <= 30 else name[:27] + "..."
        name += " (paused)" if one.paused not in {"none", "in"} else ""
        lines.append(
            f"{name:30} {one.length:9} {one.delayed:8} {one.in_flight:8} {one.dead:7} {added:8.0f} {done:8.0f} "
            f"{failed:8.0f} {ago(one.oldest_ms):>8} {ago(one.wait_p95_ms):>9} {ago(one.run_p95_ms):>9}"
        )
    if len(own) > LINES_MOST:
        lines.append(f"... and {len(own) - LINES_MOST} more")
    up = [
        f"worker {printable(one.app)} {printable(one.host)} {one.pid}: up {ago(one.age_s * 1000)}"
        for one in workers[:LINES_MOST]
    ]
    lines += ["", *up]
    return "\n".join(lines).rstrip() + "\n"


def rate(now: QueueView, before: QueueView | None, passed_s: float) -> tuple[float, float, float]:
    """Added, done and failed in a second. What was counted before a node started anew counts for nothing."""
    if before is None or passed_s <= 0:
        return 0.0, 0.0, 0.0
    pairs = ((now.added, before.added), (now.acked, before.acked), (now.nacked, before.nacked))
    added, done, failed = (max(0, after - earlier) / passed_s for after, earlier in pairs)
    return added, done, failed


def ago(ms: int) -> str:
    """A duration for people."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.0f}{unit}" if ms >= 10 * size else f"{ms / size:.1f}{unit}"
    return f"{ms}ms" if ms else "0"
