import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.server.facts import NS_PER_MS, Facts, NodeClock, cpu_seconds

START_MS = 1_795_193_000_000
SECOND_NS = 1_000_000_000


class Machine:
    """The two clocks of a machine."""

    def __init__(self) -> None:
        self.wall_ns = START_MS * NS_PER_MS
        self.monotonic_ns = 5 * SECOND_NS

    def clock(self, start_ms: int = 0) -> NodeClock:
        return NodeClock(start_ms, lambda: self.wall_ns, lambda: self.monotonic_ns)

    def pass_ns(self, elapsed_ns: int) -> None:
        self.wall_ns += elapsed_ns
        self.monotonic_ns += elapsed_ns

    def run(self, clock: NodeClock, seconds: int) -> None:
        """Let time pass with ten slews a second, at an odd phase."""
        for _ in range(seconds * 10):
            self.pass_ns(SECOND_NS // 10 + 37_003)
            clock.slew()


@pytest.fixture
def machine() -> Machine:
    return Machine()


class TestNodeClock:
    def test_it_starts_at_the_wall_clock(self, machine: Machine) -> None:
        assert machine.clock().now_ms() == START_MS

    def test_it_starts_no_earlier_than_told(self, machine: Machine) -> None:
        assert machine.clock(START_MS + 7000).now_ms() == START_MS + 7000
        assert machine.clock(START_MS - 7000).now_ms() == START_MS

    def test_it_can_begin_anew_earlier(self, machine: Machine) -> None:
        clock = machine.clock()
        machine.wall_ns -= 3600 * SECOND_NS
        assert clock.wall_ms() == START_MS - 3_600_000
        clock.begin(START_MS - 7_200_000)
        assert clock.now_ms() == START_MS - 3_600_000
        clock.begin(START_MS - 7000)
        assert clock.now_ms() == START_MS - 7000

    def test_it_goes_on_with_monotonic_time(self, machine: Machine) -> None:
        clock = machine.clock()
        machine.pass_ns(1_999_999)
        assert clock.now_ms() == START_MS + 1
        machine.pass_ns(1)
        assert clock.now_ms() == START_MS + 2

    @pytest.mark.parametrize("hours", [-24, 24])
    def test_it_does_not_follow_a_jump_of_the_wall_clock(self, machine: Machine, hours: int) -> None:
        clock = machine.clock()
        machine.wall_ns += hours * 3600 * SECOND_NS
        clock.slew()
        assert clock.now_ms() == START_MS

    def test_it_gains_half_a_millisecond_a_second_on_a_wall_clock_ahead(self, machine: Machine) -> None:
        clock = machine.clock()
        machine.wall_ns += 3600 * SECOND_NS
        begin_ns = machine.monotonic_ns
        machine.run(clock, 100)
        passed_ms = (machine.monotonic_ns - begin_ns) / NS_PER_MS
        assert clock.now_ms() - START_MS == pytest.approx(passed_ms + 50, abs=1.5)

    def test_it_loses_half_a_millisecond_a_second_to_a_wall_clock_behind(self, machine: Machine) -> None:
        clock = machine.clock()
        machine.wall_ns -= 3600 * SECOND_NS
        begin_ns = machine.monotonic_ns
        machine.run(clock, 100)
        passed_ms = (machine.monotonic_ns - begin_ns) / NS_PER_MS
        assert clock.now_ms() - START_MS == pytest.approx(passed_ms - 50, abs=1.5)

    @pytest.mark.parametrize("off_ns", [-20 * NS_PER_MS, 20 * NS_PER_MS])
    def test_it_reaches_the_wall_clock_and_stays(self, machine: Machine, off_ns: int) -> None:
        clock = machine.clock()
        machine.wall_ns += off_ns
        machine.run(clock, 60)
        assert clock.now_ms() == machine.wall_ns // NS_PER_MS
        machine.run(clock, 10)
        assert clock.now_ms() == machine.wall_ns // NS_PER_MS

    def test_a_long_pause_is_no_licence_to_jump(self, machine: Machine) -> None:
        clock = machine.clock()
        machine.wall_ns += 3600 * SECOND_NS
        machine.pass_ns(1000 * SECOND_NS)
        clock.slew()
        assert clock.now_ms() == START_MS + 1_000_000

    @given(
        st.integers(0, NS_PER_MS),
        st.lists(
            st.tuples(st.integers(0, 2 * SECOND_NS), st.integers(-SECOND_NS, SECOND_NS), st.booleans()), max_size=40
        ),
    )
    def test_it_never_goes_back(self, phase_ns: int, turns: list[tuple[int, int, bool]]) -> None:
        machine = Machine()
        machine.wall_ns += phase_ns
        clock = machine.clock()
        last_ms = clock.now_ms()
        for elapsed_ns, jump_ns, slews in turns:
            machine.pass_ns(elapsed_ns)
            machine.wall_ns += jump_ns
            before_ms = clock.now_ms()
            if slews:
                clock.slew()
            assert last_ms <= before_ms <= clock.now_ms() <= before_ms + 1
            last_ms = clock.now_ms()

    def test_the_clocks_of_the_machine_are_the_default(self) -> None:
        clock = NodeClock()
        first_ms = clock.now_ms()
        clock.slew()
        assert first_ms > START_MS - 10 * 365 * 86_400_000
        assert clock.now_ms() >= first_ms


class TestFacts:
    def test_the_process_and_its_machine(self) -> None:
        facts = Facts()
        assert facts.pid == os.getpid()
        assert facts.arch_bits in {32, 64}
        assert facts.page_size >= 4096
        assert Path(facts.executable).is_file()
        assert os.uname().sysname in facts.os_name

    def test_memory_in_use_is_at_most_its_peak(self) -> None:
        facts = Facts()
        assert 1_000_000 < facts.rss() <= facts.peak_rss()

    def test_memory_is_read_from_proc(self, tmp_path: Path) -> None:
        own = tmp_path / "self"
        own.mkdir()
        (own / "statm").write_text("900 250 100 1 0 50 0\n")
        (own / "status").write_text("Name:\tdisque\nVmPeak:\t  99999 kB\nVmHWM:\t    3000 kB\nVmRSS:\t 1 kB\n")
        facts = Facts(tmp_path)
        assert facts.rss() == 250 * facts.page_size
        assert facts.peak_rss() == 3000 * 1024

    def test_without_proc_the_peak_stands_for_both_and_there_is_no_boot_id(self, tmp_path: Path) -> None:
        facts = Facts(tmp_path)
        assert facts.rss() == facts.peak_rss() > 1_000_000
        assert facts.boot_id == ""

    def test_the_boot_id_is_the_one_of_the_kernel(self, tmp_path: Path) -> None:
        random = tmp_path / "sys" / "kernel" / "random"
        random.mkdir(parents=True)
        (random / "boot_id").write_text("5b1f8f0e-2f6c-4f5e-8c1d-000000000000\n")
        assert Facts(tmp_path).boot_id == "5b1f8f0e-2f6c-4f5e-8c1d-000000000000"

    def test_processor_time_only_grows(self) -> None:
        before = cpu_seconds()
        after = cpu_seconds()
        assert after.user >= before.user > 0
        assert after.system >= before.system >= 0
        assert after.user_children >= 0
        assert after.system_children >= 0
