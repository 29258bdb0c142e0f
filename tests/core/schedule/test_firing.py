"""Who adds the job of a schedule, when, and how often."""

from hashlib import blake2b
from typing import Any

import pytest

from cluster.member import FAIL, STOPPED
from cluster.messages import BIND, ENTRIES, UPSINCE
from disque.core import entries, step
from disque.core.jobs import sessions
from disque.core.model.key_ring import ranked
from disque.core.model.registry import LAST_TICK, SCHEDULE
from disque.core.replication import registry
from tests.core.journal.test_replay import replayed
from tests.core.schedule.support import BEGIN_S, CronBench, WallHost, saying
from tests.core.support import MYSELF

DAY_S = 86_400


@pytest.fixture
def bench() -> CronBench:
    return CronBench()


def order(bench: CronBench, name: bytes = b"s") -> list[bytes]:
    """The nodes in the order in which they fire."""
    nodes = tuple(sorted([MYSELF, *[peer.id for peer in bench.peers]]))
    return list(ranked(nodes, blake2b(name, digest_size=8).digest(), len(nodes)))


def name_with(bench: CronBench, *wanted: bytes) -> bytes:
    """A name for which these nodes come first, in this order."""
    names = (b"s%d" % number for number in range(1000))
    return next(name for name in names if order(bench, name)[: len(wanted)] == list(wanted))


def entry(kind: int, name: bytes, value: bytes, counter: int, origin: bytes) -> tuple[Any, ...]:
    return (kind, name, b"", value, counter, origin, 0)


class TestOneNode:
    def test_a_job_comes_at_each_tick_in_its_millisecond(self, bench: CronBench) -> None:
        bench.set("s", "@every 2s", "q", "b", "PRIORITY", 7)
        bench.until(-0.002)
        assert bench.ticks() == []
        bench.until(0.001)
        assert bench.headers() == [{b"cron-name": b"s", b"cron-tick": b"%d" % BEGIN_S}]
        bench.until(7)
        assert bench.ticks() == [2, 4, 6]
        assert bench.last() == 6

    def test_without_schedules_nothing_is_armed(self, bench: CronBench) -> None:
        bench.live(1000)
        assert bench.node.timers.count == 0
        bench.set("s", "@every 2s", "q", "b")
        bench.live(10)
        assert bench.node.timers.count == 1
        assert bench.one("CRON", "DEL", "s") == 1
        bench.live(100)
        assert bench.node.timers.count == 0

    def test_a_schedule_says_nothing_of_times_before_it_was_set(self, bench: CronBench) -> None:
        bench.until(5.5)
        bench.set("s", "@every 2s", "q", "b", "CATCHUP", "all")
        bench.until(6.5)
        assert bench.ticks() == [6]

    def test_a_changed_spec_counts_from_the_change(self, bench: CronBench) -> None:
        bench.set("s", "@every 1h", "q", "b", "CATCHUP", "all")
        bench.until(4.5)
        bench.set("s", "@every 2s", "q", "b", "CATCHUP", "all")
        bench.until(6.5)
        assert bench.ticks() == [0, 6]

    def test_a_changed_body_changes_no_tick(self, bench: CronBench) -> None:
        bench.set("s", "@every 2s", "q", "b")
        bench.until(1)
        bench.set("s", "@every 2s", "q", "other")
        bench.until(2.5)
        jobs = bench.one("GETJOB", "NOHANG", "COUNT", 9, "FROM", "q")
        assert [body for _, _, body in jobs] == [b"b", b"other"]

    def test_a_paused_one_rests_and_makes_up_for_nothing(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b", "CATCHUP", "all")
        bench.until(1.5)
        assert bench.one("CRON", "PAUSE", "s") == 1
        bench.until(5.5)
        assert bench.one("CRON", "RESUME", "s") == 1
        bench.until(7.5)
        assert bench.ticks() == [0, 1, 6, 7]

    def test_a_deleted_one_fires_no_more_and_leaves_nothing(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b")
        bench.until(1.5)
        bench.one("CRON", "DEL", "s")
        bench.until(9)
        assert bench.ticks() == [0, 1]
        assert bench.node.schedules.by_name == {}
        assert all(one.deleted for one in bench.node.registry.entries())
        bench.set("s", "@every 1s", "q", "b")
        bench.until(10.5)
        assert bench.ticks() == [10]

    def test_one_that_is_deleted_in_the_turn_in_which_it_is_due_fires_no_more(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b")
        bench.until(0.5)
        bench.now_ms += 1000
        entries.set_value(bench.node, (SCHEDULE, b"s", b""), b"", bench.now_ms, deleted=True)
        bench.node.schedules.look_at(bench.node.schedules.by_name[b"s"])
        step.tick(bench.node, bench.now_ms)
        bench.settle()
        assert bench.ticks() == [0]
        assert bench.node.schedules.by_name == {}

    def test_each_tick_has_a_key_of_its_own(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b")
        bench.until(0.5)
        key = b"cron:s:%d" % BEGIN_S
        job_id = bench.one("FIND", "q", key)
        assert bench.one("GETJOB", "NOHANG", "FROM", "q")[0][1] == job_id
        assert bench.one("ADDJOB", "q", "b", 0, "UNIQUE", key, 5) == job_id

    def test_the_window_is_an_hour_to_a_week(self) -> None:
        """A hundred periods, so that frequent ones do not fill the memory with keys; a day for those that are rare."""
        hours = (("@every 1s", 3600), ("@every 60s", 6000), ("@every 3600s", DAY_S))
        for spec, window_s in (*hours, ("@every 2d", 2 * DAY_S), ("@every 30d", 7 * DAY_S)):
            bench = CronBench(peers=2)
            bench.agreeable = False
            name = name_with(bench, MYSELF)
            every = int(spec.split()[1][:-1]) * (DAY_S if spec.endswith("d") else 1)
            bench.wall.ahead_ms += (-BEGIN_S % every) * 1000
            bench.node.schedules.ahead_ms = bench.wall.ahead_ms
            bench.set(name.decode(), spec, "q", "b", "REPLICATE", 1)
            bench.advance(150)
            binds = [message for _, message in bench.sent(BIND)]
            assert {message[2] for message in binds} == {window_s * 1000}
            assert len(binds) == 2, "the key lies on three nodes, whatever REPLICATE is"

    def test_ten_thousand_at_once_are_done_some_at_a_time(self, bench: CronBench) -> None:
        bench.checked = False
        for number in range(1200):
            bench.one("CRON", "SET", f"s{number}", "@every 1h", "q", "b")
        turns = 0
        bench.now_ms += 100
        while bench.node.next_due_ms <= bench.now_ms:
            before = bench.node.stats.cron_fired
            step.tick(bench.node, bench.now_ms)
            bench.settle()
            assert bench.node.stats.cron_fired - before <= 25
            turns += 1
        assert turns >= 48
        assert bench.ticks() == [0] * 1200


class TestFailures:
    def test_what_is_refused_is_tried_again(self, bench: CronBench) -> None:
        bench.one("PAUSE", "q", "in")
        bench.set("s", "@every 1h", "q", "b")
        bench.until(30)
        assert bench.ticks() == []
        bench.one("PAUSE", "q", "none")
        bench.until(41)
        assert bench.ticks() == [0]
        bench.until(60)
        assert bench.ticks() == []

    def test_until_the_next_one_is_due(self, bench: CronBench) -> None:
        bench.one("PAUSE", "q", "in")
        bench.set("s", "*/5 * * * *", "q", "b")
        bench.until(299)
        assert bench.last() is None
        bench.until(320)
        assert bench.last() == 0
        assert bench.node.stats.cron_failed == 1
        text = f"The tick {BEGIN_S} of the schedule s is given up: PAUSED Queue paused in input, try later"
        assert ("warn", text) in bench.wall.asked
        bench.one("PAUSE", "q", "none")
        bench.until(340)
        assert bench.ticks() == [300]

    def test_frequent_ones_wait_for_a_minute_behind_each_other(self, bench: CronBench) -> None:
        bench.one("PAUSE", "q", "in")
        bench.set("s", "@every 1s", "q", "b")
        bench.until(100)
        assert bench.node.stats.cron_failed == 1
        bench.one("PAUSE", "q", "none")
        bench.until(120.5)
        assert bench.ticks() == list(range(1, 121))

    def test_a_node_that_cannot_write_adds_nothing(self, bench: CronBench) -> None:
        bench.set("s", "@every 1h", "q", "b")
        bench.node.misconf = b"MISCONF no"
        bench.until(2)
        assert bench.node.jobs_registered() == 0
        bench.node.misconf = b""
        bench.until(5)
        assert bench.ticks() == [0]

    def test_flushall_lets_what_was_on_its_way_be_fired_again(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF).decode()
        bench.set(name, "@every 1h", "q", "b", "REPLICATE", 2)
        bench.until(0.5)
        assert len(bench.node.schedules.open) == 1
        sessions.flush_all(bench.node, bench.now_ms)
        bench.settle()
        bench.until(1)
        bench.confirm(next(iter(bench.node.copies.wanted)), bench.peers[0])
        assert bench.ticks() == [0]
        assert bench.last(name) == 0


class TestWallClock:
    def test_it_is_the_wall_clock_that_counts(self, bench: CronBench) -> None:
        bench.set("s", "@every 10s", "q", "b")
        bench.until(1)
        bench.wall.ahead_ms += 5000
        bench.live(3900)
        assert bench.ticks() == [0]
        bench.live(300)
        assert bench.ticks() == [10]

    def test_one_that_was_set_back_repeats_nothing(self, bench: CronBench) -> None:
        bench.set("s", "@every 2s", "q", "b")
        bench.until(5)
        bench.wall.ahead_ms -= 4000
        bench.until(4.5)
        assert bench.ticks() == [0, 2, 4]
        bench.until(6.5)
        assert bench.ticks() == [6]

    def test_what_it_was_set_past_is_no_time_in_which_the_node_was_up(self, bench: CronBench) -> None:
        for catchup in ("none", "last", "all"):
            bench.set(catchup, "@every 10s", catchup, "b", "CATCHUP", catchup)
        bench.until(1)
        bench.wall.ahead_ms += 64_000
        bench.live(200)
        assert [bench.ticks(catchup) for catchup in ("none", "last")] == [[0], [0, 60]]
        assert bench.ticks("all") == [0, 10, 20, 30, 40, 50, 60]

    def test_a_last_tick_far_ahead_is_ignored_and_logged(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF)
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        peer = bench.peers[0]
        far = entry(LAST_TICK, name, b"%d" % (BEGIN_S + DAY_S + 100), bench.now_ms + 1000, peer.id)
        bench.hear(peer, (ENTRIES, (far,)))
        bench.until(1.5)
        assert bench.ticks() == [0, 1]
        assert sum(what[0] == "warn" for what in bench.wall.asked) == 1
        near = entry(LAST_TICK, name, b"%d" % (BEGIN_S + 5), bench.now_ms + 1000, peer.id)
        bench.hear(peer, (ENTRIES, (near,)))
        bench.until(7.5)
        assert bench.ticks() == [6, 7]

    def test_who_waits_for_a_last_tick_says_so_and_resume_has_it_go_on(self, bench: CronBench) -> None:
        bench.set("s", "@every 2s", "q", "b")
        bench.until(1)
        bench.wall.ahead_ms += 3_600_000
        bench.live(5000)
        bench.wall.ahead_ms -= 3_600_000
        assert bench.ticks()
        bench.until(20.5)
        assert bench.ticks() == []
        (said,) = [what[1] for what in bench.wall.asked if what[0] == "warn"]
        assert "waits for 3600 s: it was set, or fired last, by a clock that was ahead" in said
        assert [bench.one("CRON", word, "s") for word in ("PAUSE", "RESUME")] == [1, 1]
        bench.until(24.5)
        assert bench.ticks() == [22, 24]
        assert bench.last() == 24

    @pytest.mark.parametrize("catchup", ["none", "last", "all"])
    def test_a_clock_that_was_far_ahead_and_is_set_right_silences_nothing(self, bench: CronBench, catchup: str) -> None:
        bench.set("s", "@every 2s", "q", "b", "CATCHUP", catchup)
        bench.until(1)
        bench.checked = False  # with all, it makes some thousand jobs
        bench.wall.ahead_ms += 10 * 365 * DAY_S * 1000
        bench.live(5000)
        assert bench.ticks()
        bench.checked = True
        bench.wall.ahead_ms -= 10 * 365 * DAY_S * 1000
        flat = bench.one("CRON", "GET", "s")
        assert dict(zip(flat[::2], flat[1::2], strict=True))[b"next"] == BEGIN_S + 8
        bench.until(12.5)
        assert bench.ticks()[-3:] == [8, 10, 12]
        assert bench.last() == 12

    def test_what_was_fired_before_a_wrong_last_tick_is_not_fired_again(self) -> None:
        bench = CronBench(peers=1)
        peer = bench.peers[0]
        name = name_with(bench, MYSELF)
        daily = saying(b"@daily", since=BEGIN_S - 100 * DAY_S)
        bench.hear(peer, (UPSINCE, 100 * DAY_S * 1000))
        bench.hear(peer, (ENTRIES, (entry(SCHEDULE, name, daily.encoded(), bench.now_ms, peer.id),)))
        far = entry(LAST_TICK, name, b"%d" % (BEGIN_S + 2 * DAY_S), bench.now_ms, peer.id)
        bench.hear(peer, (ENTRIES, (far,)))
        bench.live(3000)
        assert bench.ticks() == []

    def test_nor_when_the_log_had_something_else_to_say(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF)
        bench.hear(bench.peers[0], (UPSINCE, 100 * DAY_S * 1000))
        since = BEGIN_S - 100 * DAY_S
        self.told(bench, SCHEDULE, name, saying(b"@never", since=since).encoded())
        self.told(bench, LAST_TICK, name, b"%d" % (BEGIN_S + 2 * DAY_S))
        self.told(bench, SCHEDULE, name, saying(b"@daily", since=since).encoded())
        assert bench.ticks() == []

    def test_nor_before_another_one(self) -> None:
        """The other node fires, and its clock is set far ahead for a moment before it fails; and then once more."""
        bench = CronBench(peers=1)
        (first,) = bench.peers
        name = name_with(bench, first.id, MYSELF)
        self.told(bench, SCHEDULE, name, saying().encoded())
        for count in (1, 2):
            bench.until(100 * count)
            self.told(bench, LAST_TICK, name, b"%d" % (BEGIN_S + count * 2 * DAY_S))
            bench.fail(first)
            bench.live(1500)
            assert len(bench.ticks()) <= 2
            bench.fail(first, 0)
        assert sum(what[0] == "warn" for what in bench.wall.asked) == 2

    def told(self, bench: CronBench, kind: int, name: bytes, value: bytes) -> None:
        """The first peer has set an entry, a moment ago."""
        (peer, *_) = bench.peers
        bench.hear(peer, (ENTRIES, (entry(kind, name, value, bench.now_ms + 1, peer.id),)))
        bench.live(1000)


class TestCatchup:
    def start(self, bench: CronBench, away_s: int) -> CronBench:
        """The node starts anew, so many seconds later."""
        node = replayed(bench.records())[0]
        later = CronBench()
        later.node = node
        later.now_ms = bench.now_ms + away_s * 1000
        host = WallHost(later)
        host.ahead_ms = bench.wall.ahead_ms
        later.wall, node.host = host, host
        node.schedules.up_ms = node.beat_ms = later.now_ms
        later.membership = node.membership
        later.clients.clear()
        later.one = later.client()
        later.checked = False
        later.live(200)
        return later

    @pytest.mark.parametrize(("catchup", "ticks"), [("none", []), ("last", [70]), ("all", [20, 30, 40, 50, 60, 70])])
    def test_what_passed_while_no_node_was_up(self, bench: CronBench, catchup: str, ticks: list[int]) -> None:
        bench.set("s", "@every 10s", "q", "b", "CATCHUP", catchup)
        bench.until(10.5)
        assert bench.ticks() == [0, 10]
        later = self.start(bench, 60)
        assert later.ticks() == ticks
        later.until(80.5)
        assert later.ticks() == [80]

    def test_a_thousand_at_most(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b", "CATCHUP", "all")
        bench.until(0.5)
        assert bench.ticks() == [0]
        later = self.start(bench, 5000)
        found = later.ticks()
        assert (len(found), found[-1]) == (1000, 5000)

    def test_a_paused_one_stays_so(self, bench: CronBench) -> None:
        bench.set("s", "@every 1s", "q", "b", "CATCHUP", "all")
        bench.one("CRON", "PAUSE", "s")
        later = self.start(bench, 60)
        assert later.ticks() == []
        assert later.one("CRON", "GET", "s")[9] == 1

    def test_a_node_that_stood_still_was_not_up(self, bench: CronBench) -> None:
        bench.set("none", "@every 10s", "none", "b")
        bench.set("all", "@every 10s", "all", "b", "CATCHUP", "all")
        bench.until(1)
        bench.now_ms += 35_000
        bench.live(200)
        assert (bench.ticks("none"), bench.ticks("all")) == ([0], [0, 10, 20, 30])


class TestManyNodes:
    def test_the_first_in_order_fires_and_tells_the_others(self) -> None:
        bench = CronBench(peers=2)
        name = name_with(bench, MYSELF)
        bench.set(name.decode(), "@every 1h", "q", "b", "REPLICATE", 1)
        bench.sent()
        bench.until(0.5)
        told = [message[1][0] for _, message in bench.sent(ENTRIES)]
        assert [row[:4] for row in told] == [(LAST_TICK, name, b"", b"%d" % BEGIN_S)] * 2
        assert bench.ticks() == [0]

    def test_another_one_does_while_the_first_is_there(self) -> None:
        bench = CronBench(peers=2)
        name = name_with(bench, bench.peers[0].id)
        bench.set(name.decode(), "@every 1s", "q", "b")
        bench.until(3)
        assert bench.ticks() == []
        assert bench.node.timers.count == 0

    @pytest.mark.parametrize("flags", [FAIL, STOPPED])
    def test_the_next_one_steps_in_when_it_fails_and_fires_what_is_due(self, flags: int) -> None:
        bench = CronBench(peers=2)
        first = bench.peers[0]
        name = name_with(bench, first.id, MYSELF)
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.until(1.5)
        last = entry(LAST_TICK, name, b"%d" % BEGIN_S, bench.now_ms + 1000, first.id)
        bench.hear(first, (ENTRIES, (last,)))
        bench.until(3.5)
        bench.fail(first, flags)
        bench.live(200)
        assert bench.ticks() == [1, 2, 3]
        bench.until(4.5)
        assert bench.ticks() == [4]
        bench.fail(first, 0)
        bench.membership.set_flags(first, first.flags & ~STOPPED)
        bench.until(9)
        assert bench.ticks() == []

    def test_who_takes_over_later_than_a_start_asks_whether_anybody_was_up(self) -> None:
        bench = CronBench(peers=2)
        first, second = bench.peers
        name = name_with(bench, first.id, MYSELF)
        set_by_first = entry(SCHEDULE, name, saying().encoded(), bench.now_ms, first.id)
        bench.hear(first, (ENTRIES, (set_by_first,)))
        bench.until(5.5)
        bench.node.schedules.up_ms = bench.now_ms - 1000
        bench.hear(second, (UPSINCE, 3000))
        bench.hear(first, (UPSINCE, 0))
        bench.fail(first)
        bench.live(200)
        assert bench.ticks() == [3, 4, 5], "what passed before is not made up for"

    def test_a_node_says_how_long_it_has_been_up(self) -> None:
        bench = CronBench()
        bench.meet(0)
        bench.meet(1)
        bench.live(5000)
        assert bench.sent(UPSINCE) == [], "there is no schedule"
        bench.set("s", "@every 1h", "q", "b")
        up_ms = bench.now_ms - bench.node.schedules.up_ms
        assert bench.sent(UPSINCE) == [(peer.id, (UPSINCE, up_ms)) for peer in bench.peers]
        bench.live(5000)
        bench.link_down(bench.peers[0])
        bench.link_up(bench.peers[0])
        up_ms = bench.now_ms - bench.node.schedules.up_ms
        assert bench.sent(UPSINCE) == [(bench.peers[0].id, (UPSINCE, up_ms))]
        bench.now_ms += bench.membership.timeout_ms
        bench.live(100)
        assert {message[1] for _, message in bench.sent(UPSINCE)} == {0}

    def test_who_hears_how_long_others_have_been_up_says_it_too(self) -> None:
        bench = CronBench()
        peer = bench.meet(0)
        bench.hear(peer, (UPSINCE, 500_000))
        bench.hear(peer, (UPSINCE, 500_000))
        assert len(bench.sent(UPSINCE)) == 1
        bench.hear(peer, (UPSINCE, 5))
        bench.hear(peer, (UPSINCE, 5))
        assert len(bench.sent(UPSINCE)) == 1, "it is another process"

    def test_a_node_that_stood_still_waits_for_what_was_said_meanwhile(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF)
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.until(0.5)
        bench.now_ms += bench.membership.timeout_ms
        bench.live(1000)
        assert bench.ticks() == [0]
        bench.hear(bench.peers[0], (UPSINCE, 60_000))
        bench.live(200)
        assert bench.ticks() == list(range(1, 17))

    def test_a_node_that_waits_for_others_asks_them_again(self) -> None:
        """One says nothing if it is no news that this node came up, as after it stood still twice in a second."""
        bench = CronBench(peers=2)
        bench.set("s", "@every 1s", "q", "b", "REPLICATE", 1)
        bench.until(0.5)
        bench.now_ms += bench.membership.timeout_ms
        bench.live(100)
        bench.hear(bench.peers[0], (UPSINCE, 60_000))
        bench.sent()
        bench.live(7000)
        assert [message[1] for _, message in bench.sent(UPSINCE)] == [0] * 4, "twice, to each"
        bench.hear(bench.peers[1], (UPSINCE, 60_000))
        bench.sent()
        bench.live(7000)
        assert bench.sent(UPSINCE) == []

    def test_a_node_that_knows_of_no_schedule_asks_nobody(self) -> None:
        bench = CronBench(peers=1)
        schedules = bench.node.schedules
        schedules.held, schedules.speaks = True, False
        schedules.up.clear()
        up_ms = schedules.up_ms
        bench.live(7000)
        assert (schedules.up_ms, bench.sent(UPSINCE)) == (up_ms, [])

    def test_nothing_fires_before_all_have_said_how_long_they_have_been_up(self) -> None:
        bench = CronBench(peers=2)
        name = name_with(bench, MYSELF)
        bench.node.schedules.held = True
        bench.node.schedules.up.clear()
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.hear(bench.peers[0], (UPSINCE, 5))
        bench.until(2.5)
        assert bench.ticks() == []
        bench.hear(bench.peers[1], (UPSINCE, 5))
        bench.until(2.8)
        assert bench.ticks() == [0, 1, 2]

    def test_who_was_forgotten_and_is_met_again_need_not_say_it_again(self) -> None:
        bench = CronBench(peers=2)
        name = name_with(bench, MYSELF)
        first, second = bench.peers
        bench.node.schedules.held = True
        del bench.node.schedules.up[second.id]
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.client()("CLUSTER", "FORGET", first.id)
        bench.until(0.5)
        bench.peers.remove(first)
        bench.meet(0)
        bench.hear(second, (UPSINCE, 5))
        bench.until(2.5)
        assert bench.ticks() == [0, 1, 2]

    def test_after_a_start_nothing_fires_before_the_others_were_heard(self) -> None:
        bench = CronBench(peers=2)
        name = name_with(bench, MYSELF)
        bench.node.schedules.held = True
        first = bench.peers[0]
        bench.link_down(first)
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.until(2.5)
        assert bench.ticks() == []
        bench.link_up(first)
        bench.until(2.9)
        assert bench.ticks() == []
        bench.until(3.5)
        assert bench.ticks() == [0, 1, 2, 3]

    def test_it_does_not_wait_for_who_fails(self) -> None:
        bench = CronBench(peers=2)
        bench.node.schedules.held = True
        bench.link_down(bench.peers[0])
        bench.fail(bench.peers[0])
        name = name_with(bench, MYSELF)
        bench.set(name.decode(), "@every 1s", "q", "b", "REPLICATE", 1)
        bench.until(0.5)
        assert bench.ticks() == [0]

    def test_a_schedule_of_another_node_is_deleted_by_it(self) -> None:
        bench = CronBench(peers=1)
        peer = bench.peers[0]
        name = name_with(bench, MYSELF)
        bench.hear(peer, (ENTRIES, (entry(SCHEDULE, name, saying().encoded(), bench.now_ms, peer.id),)))
        bench.until(0.5)
        gone = (SCHEDULE, name, b"", b"", bench.now_ms + 5000, peer.id, 1)
        bench.hear(peer, (ENTRIES, (gone,)))
        bench.until(5)
        assert bench.ticks() == [0]

    def test_what_was_fired_before_a_node_heard_of_the_schedule_is_not_fired_again(self) -> None:
        bench = CronBench(peers=1)
        peer = bench.peers[0]
        name = name_with(bench, MYSELF)
        bench.until(25.5)
        often = saying(b"@every 10s", since=BEGIN_S - 100 * DAY_S)
        bench.hear(peer, (UPSINCE, 100 * DAY_S * 1000))
        bench.hear(peer, (ENTRIES, (entry(SCHEDULE, name, often.encoded(), bench.now_ms, peer.id),)))
        bench.live(200)
        assert bench.ticks() == []
        last = entry(LAST_TICK, name, b"%d" % (BEGIN_S + 10), bench.now_ms, peer.id)
        bench.hear(peer, (ENTRIES, (last,)))
        bench.live(1000)
        assert bench.ticks() == [20]

    def test_one_that_was_set_by_a_clock_that_is_ahead_fires_now_all_the_same(self) -> None:
        bench = CronBench(peers=1)
        peer = bench.peers[0]
        name = name_with(bench, MYSELF)
        ahead = saying(since=BEGIN_S + 3600)
        bench.until(0.5)
        bench.hear(peer, (ENTRIES, (entry(SCHEDULE, name, ahead.encoded(), bench.now_ms, peer.id),)))
        bench.until(3.5)
        assert bench.ticks() == [1, 2, 3]
        resumed = saying(b"@every 2s", since=BEGIN_S + 3603)
        bench.hear(peer, (ENTRIES, (entry(SCHEDULE, name, resumed.encoded(), bench.now_ms + 10_000, peer.id),)))
        bench.until(6.5)
        assert bench.ticks() == [4, 6]

    def test_a_spec_that_is_not_known_here_is_logged_once(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF)
        for body in (b"a", b"b"):
            value = saying(b"@lunar", body=body).encoded()
            bench.hear(bench.peers[0], (ENTRIES, (entry(SCHEDULE, name, value, bench.now_ms, b"b0" * 20),)))
            bench.live(1000)
        assert sum(what[0] == "warn" for what in bench.wall.asked) == 1

    def test_a_node_that_stops_fires_no_more(self) -> None:
        bench = CronBench()
        bench.set("s", "@every 1s", "q", "b")
        bench.until(0.5)
        bench.node.stopping = True
        bench.until(3)
        assert bench.ticks() == [0]

    def test_it_is_one_job_if_two_nodes_fire(self) -> None:
        bench = CronBench(peers=1)
        name = name_with(bench, MYSELF)
        bench.set(name.decode(), "@every 1h", "q", "b", "REPLICATE", 1)
        bench.until(0.5)
        bench.node.schedules.by_name[name].done = 0
        for one in [one for one in bench.node.registry.entries() if one.key[0] == LAST_TICK]:
            registry.drop(bench.node, one)
        bench.live(500)
        assert bench.ticks() == [0]
