import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from disque.core import step
from tests.server.process import Machine, Process
from tests.support.nodes import START_MS

DAY_MS = 86_400_000
GRACE_MS = 15_000
TTL = (b"TTL", b"86400")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    loop = asyncio.new_event_loop()
    yield Machine(tmp_path, loop)
    loop.close()


class TestWrongClock:
    """A start whose clock is far ahead of the journal: it may be wrong."""

    @pytest.fixture
    def machine(self, machine: Machine) -> Machine:
        """One with a job that lives a day, and processes that load by hand."""
        process = machine.start()
        self.job = process.add(b"body", *TTL)
        process.kill()
        machine.by_hand = True
        return machine

    def told(self, process: Process) -> str:
        return "\n".join(process.log.lines)

    @pytest.mark.parametrize("days", [3, 30])
    def test_within_the_grace_nothing_is_served_and_nothing_written(self, machine: Machine, days: int) -> None:
        machine.wall_off_ms = days * DAY_MS
        files, size = machine.files, machine.size()
        process = machine.start()
        process.load_for(GRACE_MS - 100)
        assert process.node.loading
        assert f"The clock is {days}.0 days ahead of the last record of the journal" in self.told(process)
        assert "The TTL of 1 jobs seems over. They are kept, and clients are told LOADING, for 15.0 s" in self.told(
            process
        )
        process.end()
        assert (machine.files, machine.size()) == (files, size)
        machine.wall_off_ms = 0
        process = machine.start()
        process.get_ready()
        assert process.queued() == [self.job]
        assert process.pump.clock.now_ms() == machine.now_ms
        machine.now_ms += DAY_MS - 2 * GRACE_MS
        step.tick(process.node, process.pump.clock.now_ms())
        assert process.queued() == [self.job]
        process.kill()

    def test_behind_the_grace_the_clock_is_believed(self, machine: Machine) -> None:
        machine.now_ms += 30 * DAY_MS  # it was off for so long
        process = machine.start()
        assert process.load_for(DAY_MS) == GRACE_MS
        process.get_ready()
        assert not process.known()
        assert "The clock is taken to be right" in self.told(process)
        kept = process.add(b"new", *TTL)
        process.kill()
        process = machine.start()
        assert process.load_for(DAY_MS) == 0
        process.get_ready()
        assert process.queued() == [kept]
        process.kill()

    @pytest.mark.parametrize("off_ms", [0, -3 * DAY_MS, 1800_000])
    def test_a_clock_that_is_set_right_meanwhile_ends_the_wait(self, machine: Machine, off_ms: int) -> None:
        machine.wall_off_ms = 30 * DAY_MS
        process = machine.start()
        process.load_for(5000)
        machine.wall_off_ms = off_ms
        assert process.load_for(DAY_MS) <= 200
        process.get_ready()
        assert "The clock was set right" in self.told(process)
        assert process.queued() == [self.job]
        assert abs(process.pump.clock.now_ms() - machine.now_ms - max(off_ms, -5200)) <= 200
        process.kill()

    def test_a_clock_that_is_set_right_and_still_far_ahead_is_followed_first(self, machine: Machine) -> None:
        machine.now_ms += 2 * DAY_MS
        machine.wall_off_ms = 30 * DAY_MS
        process = machine.start()
        process.load_for(5000)
        machine.wall_off_ms = 0
        assert process.load_for(DAY_MS) == GRACE_MS - 5000
        process.get_ready()
        assert not process.known()
        assert process.pump.clock.now_ms() == machine.now_ms
        process.kill()

    def test_while_no_job_ends_a_start_does_not_wait(self, machine: Machine) -> None:
        machine.now_ms += DAY_MS // 2
        process = machine.start()
        assert process.load_for(DAY_MS) == 0
        process.get_ready()
        assert "The clock is 12.0 hours ahead" in self.told(process)
        assert process.queued() == [self.job]
        process.kill()

    def test_jobs_that_ended_before_the_last_record_are_not_waited_for(self, machine: Machine) -> None:
        machine.by_hand = False
        machine.now_ms += DAY_MS - 60_000
        process = machine.start()
        machine.now_ms += 120_000
        process.say(b"ADDJOB", b"other", b"b", b"0")
        process.kill()
        machine.by_hand = True
        machine.now_ms += 7200_000
        process = machine.start()
        assert process.load_for(DAY_MS) == 0
        process.get_ready()
        assert not process.queued()
        process.kill()

    def test_after_a_short_stop_jobs_end_at_once(self, machine: Machine) -> None:
        machine.now_ms += DAY_MS - 60_000
        process = machine.start()
        process.get_ready()
        process.kill()
        machine.now_ms += 1800_000
        process = machine.start()
        assert process.load_for(DAY_MS) == 0
        process.get_ready()
        assert not process.known()
        process.kill()

    def test_a_clock_that_is_far_behind_is_told_and_not_followed(self, machine: Machine) -> None:
        machine.wall_off_ms = -3 * DAY_MS
        process = machine.start()
        assert process.load_for(DAY_MS) == 0
        process.get_ready()
        assert "The clock is 3.0 days behind the last record of the journal" in self.told(process)
        assert process.pump.clock.now_ms() == process.node.stats.started_ms == START_MS
        process.kill()

    def test_a_journal_that_is_quiet_tells_the_time_all_the_same(self, machine: Machine) -> None:
        process = machine.start()
        process.get_ready()
        process.cron()
        for _ in range(13):
            machine.now_ms += 600_000
            process.cron()
        process.kill()
        size = machine.size()
        process = machine.start()
        process.get_ready()
        assert "ahead" not in self.told(process)
        process.kill()
        assert size < 2000
