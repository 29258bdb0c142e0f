"""A bench whose wall clock goes on with its time."""

from typing import Any

from cluster.messages import UPSINCE
from disque.core.schedule.keeping import Saying
from tests.core.support import Bench, Client, FakeHost, Word

#: The wall clock when a test begins, in seconds: a whole minute, and so many ms before the next second.
BEGIN_S = 1_800_000_000
EARLY_MS = 100


class WallHost(FakeHost):
    """The outside; its wall clock is ``ahead_ms`` ahead of the time of the node."""

    def __init__(self, bench: "CronBench") -> None:
        super().__init__()
        self.bench = bench
        self.ahead_ms = BEGIN_S * 1000 - EARLY_MS - bench.now_ms

    def wall_us(self) -> int:
        return (self.bench.now_ms + self.ahead_ms) * 1000


class CronBench(Bench):
    """A node, nodes beside it, and one client."""

    def __init__(self, *, peers: int = 0) -> None:
        super().__init__(peers=peers, journaling=True)
        self.wall = WallHost(self)
        self.node.host = self.wall
        self.one = self.client()
        for peer in self.peers:
            self.hear(peer, (UPSINCE, 3_600_000))
        self.live(1000 if peers else 100)
        self.sent()
        self.wall.ahead_ms = BEGIN_S * 1000 - EARLY_MS - self.now_ms
        self.node.schedules.ahead_ms = self.wall.ahead_ms
        self.records()

    def set(self, name: str, *words: Word) -> None:
        """CRON SET, or CONFIG SET where there is one word."""
        if len(words) == 1:
            super().set(name, *words)
        else:
            assert self.one("CRON", "SET", name, *words) == b"OK"

    def wall_s(self) -> float:
        """The time of the wall clock, in seconds after the first whole one."""
        return self.wall.wall_us() / 1_000_000 - BEGIN_S

    def until(self, wall_s: float) -> None:
        """Let time pass until so many seconds after the first whole one."""
        self.live(round((wall_s - self.wall_s()) * 1000))

    def ticks(self, queue: str = "q") -> list[int]:
        """The ticks of the jobs that were added, in seconds after the first whole one; they are gone then."""
        return sorted(int(headers[b"cron-tick"]) - BEGIN_S for headers in self.headers(queue))

    def headers(self, queue: str = "q") -> list[dict[bytes, bytes]]:
        """The headers of the jobs that were added; they are gone then."""
        jobs: list[Any] = self.one("GETJOB", "NOHANG", "COUNT", 5000, "WITHMETA", "FROM", queue) or []
        for _, job_id, _, _ in jobs:
            self.one("ACKJOB", job_id)
        flat = [meta[meta.index(b"headers") + 1] for _, _, _, meta in jobs]
        return [dict(zip(words[::2], words[1::2], strict=True)) for words in flat]

    def last(self, name: str = "s") -> int | None:
        """The last tick, as GET shows it, in seconds after the first whole one."""
        flat = self.one("CRON", "GET", name)
        last = dict(zip(flat[::2], flat[1::2], strict=True))[b"last"]
        return None if last is None else int(last) - BEGIN_S


def saying(spec: bytes = b"@every 1s", **more: Any) -> Saying:
    """What a schedule says."""
    found = Saying(spec, b"", b"q", b"b", (b"REPLICATE", b"1"))
    found.since = BEGIN_S - 1
    for name, value in more.items():
        setattr(found, name, value)
    return found


__all__ = ["BEGIN_S", "EARLY_MS", "Client", "CronBench", "WallHost", "saying"]
