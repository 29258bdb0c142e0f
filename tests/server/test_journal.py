import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disque.core.journal.frames import HEAD_SIZE, HEADER_SIZE
from disque.server import journal as journal_module
from disque.server import segment_file
from disque.server.background import Worker
from disque.server.journal import INLINE_S, Journal
from disque.server.segments import JournalError, Row
from tests.conftest import examples
from tests.support.disk import FOLDER, FakeDisk, Inode, Later


class Node:
    """Numbers its records; its live state is all of them, copied in two slices when the journal asks."""

    def __init__(self, disk: FakeDisk, policy: str = "always", segment_size: int = 1 << 20, known: int = 0) -> None:
        self.disk = disk
        self.later = Later()
        self.time = 0.0
        self.progress = 0
        self.turns_wanted = 0
        self.distrusted: list[int] = []
        self.retired: list[int] = []
        self.known = known
        self.to_copy: list[bytes] = []
        self.last_bad = 0
        self.copies_at_once = True
        self.numbers: dict[int, int] = {0: known}  # journal sequence -> how many records that covers
        self.journal = Journal(
            Row(FOLDER, "d", disk), self, self.later,
            policy=policy, segment_size=segment_size, clock=lambda: self.time, salt=lambda: 7,
        )  # fmt: skip

    def start(self, rebuild: bool = False) -> "Node":
        self.journal.start(rebuild)
        return self

    def journal_head(self) -> bytes:
        return b"head"

    def journal_progress(self) -> None:
        self.progress += 1

    def journal_distrust(self, last_bad: int) -> None:
        self.distrusted.append(last_bad)
        self.last_bad = last_bad
        self.copy()
        if self.copies_at_once:
            self.copy_slice()
            self.copy_slice()

    def journal_unfinished(self) -> None:
        self.turns_wanted += 1

    def journal_retired(self, segment: int) -> None:
        self.retired.append(segment)

    def copy(self) -> None:
        half = self.known // 2
        self.to_copy = [b"copy %d %d" % (0, half), b"copy %d %d" % (half, self.known)]

    def copy_slice(self) -> None:
        if self.to_copy:
            self._append(self.to_copy.pop(0))
            if not self.to_copy:
                self.journal.retire(self.last_bad)
                self.numbers[self.journal.sequence] = self.known

    def add(self, size: int = 1) -> int:
        self.known += 1
        return self._append(b"copy %d %d" % (self.known - 1, self.known) + b" " * size)

    def _append(self, payload: bytes) -> int:
        sequence = self.journal.append(payload)
        self.numbers[sequence] = self.known
        return sequence

    def write(self, size: int = 1) -> int:
        sequence = self.add(size)
        self.journal.flush()
        return sequence

    def empty_oldest(self) -> None:
        if self.journal.segment > self.journal.oldest and not self.to_copy and not self.journal.rebuilding:
            self.last_bad = self.journal.oldest
            self.copy()
            self.copy_slice()
            self.copy_slice()

    def cron(self, seconds: float = 1.0) -> None:
        self.time += seconds
        self.journal.cron(self.time)

    def rest(self, turns: int = 12) -> None:
        """Let time pass until nothing is left to do."""
        for _ in range(turns):
            self.cron(60.0)
            self.journal.flush()
            self.later.wait()

    def covered(self, sequence: int) -> int:
        return self.numbers[sequence]


def read_back(disk: FakeDisk) -> tuple[int, Row]:
    """Return how many records there are; they must be the first ones, without a hole."""
    row = Row(FOLDER, "d", disk)
    found: set[int] = set()
    for part in row.read():
        for payload in part.payloads:
            if payload != b"head":
                _, first, last = payload.split()
                found |= set(range(int(first), int(last)))
    assert found == set(range(len(found)))
    return len(found), row


def slow(node: Node) -> None:
    """Make fsync slow, so that it moves to the background, and let the journal notice."""

    def cost() -> None:
        node.time += INLINE_S * 20

    node.disk.sync_cost = cost
    node.write()
    assert node.later.done is None


# -- the three policies


def test_always_a_reply_is_safe_after_the_fsync_in_place_while_the_disk_is_fast() -> None:
    node = Node(FakeDisk()).start()
    sequence = node.write()
    assert node.journal.safe == node.journal.durable == sequence
    assert read_back(node.disk.after_power_loss(Random(1)))[0] == 1


def test_always_on_a_slow_disk_one_fsync_at_a_time_covers_all_that_gathered_meanwhile() -> None:
    node = Node(FakeDisk()).start()
    slow(node)
    first = node.write()
    assert node.journal.safe < first
    node.later.run()
    second = node.write()
    third = node.write()
    node.later.finish()
    assert node.journal.safe == first
    assert node.progress == 1
    syncs = node.disk.log.count("fdatasync")
    node.later.finish()
    assert node.journal.safe == third > second
    assert node.disk.log.count("fdatasync") == syncs + 1
    assert node.later.done is None


def test_always_goes_back_to_fsync_in_place_when_the_disk_is_fast_again() -> None:
    node = Node(FakeDisk()).start()
    slow(node)
    node.disk.sync_cost = lambda: None
    for _ in range(60):
        node.write()
        node.later.wait()
    sequence = node.write()
    assert node.later.done is None
    assert node.journal.safe == sequence


def test_everysec_is_safe_when_written_and_fsynced_within_a_second_in_the_background() -> None:
    node = Node(FakeDisk(), "everysec").start()
    node.cron(5)
    node.later.wait()
    sequence = node.write()
    assert (node.journal.safe, node.journal.durable) == (sequence, 0)
    node.cron(0.5)
    assert node.later.done is None
    node.cron(0.5)
    node.cron(1.5)
    node.later.finish()
    assert node.journal.durable == sequence


def test_no_never_fsyncs_by_itself() -> None:
    node = Node(FakeDisk(), "no").start()
    before = node.disk.log.count("fdatasync")
    node.write()
    for _ in range(5):
        node.cron()
    assert node.disk.log.count("fdatasync") == before
    assert node.journal.sync()
    assert node.journal.durable == node.journal.sequence


def test_a_policy_that_is_switched_never_takes_back_what_was_safe() -> None:
    node = Node(FakeDisk(), "everysec").start()
    first = node.write()
    node.journal.policy = "always"
    assert node.journal.safe == first
    second = node.add()
    node.journal.flush()
    assert node.journal.safe == first
    node.journal.policy = "everysec"
    assert node.journal.safe == second
    node.rest(2)
    assert node.journal.durable == second


def test_switching_to_always_fsyncs_what_was_written_before() -> None:
    node = Node(FakeDisk(), "no").start()
    sequence = node.write()
    node.journal.policy = "always"
    node.later.finish()
    assert node.journal.durable == sequence


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_an_idle_journal_vouches_for_its_last_record_once_and_then_rests(policy: str) -> None:
    node = Node(FakeDisk(), policy).start()
    node.write()
    node.rest()
    size = node.journal.size
    log = len(node.disk.log)
    node.rest()
    assert (node.journal.size, len(node.disk.log)) == (size, log)
    path = f"{FOLDER}/d.00000001"
    data = node.disk.names[path].data
    data[data.index(b"copy")] ^= 1
    with pytest.raises(JournalError, match=r"d\.00000001 at offset"):
        read_back(node.disk)


# -- segments


def test_a_segment_that_is_full_is_followed_by_the_next_which_opens_with_the_head_payload() -> None:
    node = Node(FakeDisk(), segment_size=500).start()
    for _ in range(20):
        node.write(60)
    assert node.journal.segment > 2
    payloads = [payload for part in Row(FOLDER, "d", node.disk).read() for payload in part.payloads]
    assert payloads.count(b"head") == node.journal.segment
    assert read_back(node.disk)[0] == 20


def test_segments_change_while_an_fsync_runs_and_both_are_fsynced_before_anything_is_safe() -> None:
    node = Node(FakeDisk()).start()
    slow(node)
    before = node.write()
    node.later.run()
    assert node.journal.switch() == 2
    after = node.write()
    node.later.finish()
    assert node.journal.safe == before
    node.later.finish()
    assert node.journal.safe == after
    assert len(node.disk.open_files) == 1
    assert read_back(node.disk.after_power_loss(Random(3)))[0] == 3


def test_files_that_are_full_are_closed_under_every_policy() -> None:
    node = Node(FakeDisk(), "no", segment_size=300).start()
    for _ in range(30):
        node.write(60)
        node.later.wait()
    assert len(node.disk.open_files) <= 2


def test_retired_files_go_after_the_copies_are_fsynced_oldest_first_each_with_its_directory() -> None:
    node = Node(FakeDisk(), "no").start()
    for _ in range(3):
        node.write()
        node.journal.switch()
        node.later.wait()
    node.disk.log.clear()
    node.last_bad = 2
    node.copy()
    node.copy_slice()
    node.copy_slice()
    node.journal.flush()
    assert node.retired == []
    node.later.wait()
    steps = [step for step in node.disk.log if step != "write"]
    assert steps == ["fdatasync", "unlink 1", "fsync_dir", "unlink 2", "fsync_dir"]
    assert node.retired == [2]
    assert (node.journal.oldest, node.journal.segment) == (3, 4)
    assert read_back(node.disk)[0] == 3


def test_a_file_that_cannot_be_unlinked_is_tried_again_and_does_not_disturb() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.journal.switch()
    node.disk.broken = {"unlink"}
    node.empty_oldest()
    node.journal.flush()
    node.later.wait()
    assert node.journal.stuck == "Input/output error"
    assert not node.journal.failing
    node.disk.broken = set()
    node.cron()
    node.later.wait()
    assert node.retired == [1]
    assert not node.journal.stuck


def test_a_segment_that_cannot_be_begun_leaves_the_old_one_in_use() -> None:
    node = Node(FakeDisk(), segment_size=200).start()
    node.disk.broken = {"create"}
    for _ in range(10):
        node.write(60)
    assert node.journal.segment == 1
    assert not node.journal.failing
    node.disk.broken = set()
    node.cron()
    node.write(60)
    assert node.journal.segment == 2
    assert read_back(node.disk)[0] == 11


def test_a_head_that_could_not_be_written_is_not_taken_for_a_segment() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.disk.room = HEAD_SIZE // 2
    assert node.journal.switch() == 1
    assert read_back(node.disk.after_process_crash())[0] == 1
    node.disk.room = None
    assert node.journal.switch() == 2
    node.write()
    assert read_back(node.disk)[0] == 2


# -- a full disk


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_full_disk_holds_the_replies_and_loses_nothing(policy: str) -> None:
    node = Node(FakeDisk(), policy).start()
    fine = node.write()
    node.disk.room = 70
    held = [node.write(40) for _ in range(5)]
    assert node.journal.failing == "No space left on device"
    assert node.journal.safe == fine
    assert node.journal.backlog > 0
    assert read_back(node.disk.after_process_crash())[0] == 1
    node.cron()
    assert node.journal.failing
    node.disk.room = None
    node.cron()
    node.later.wait()
    assert not node.journal.failing
    assert node.progress
    assert node.journal.safe == held[-1]
    assert node.journal.backlog == 0
    assert read_back(node.disk)[0] == 6


def test_a_full_disk_is_not_asked_more_than_once_a_second() -> None:
    node = Node(FakeDisk()).start()
    node.cron()
    node.disk.room = 0
    node.write()
    tries = node.disk.log.count("write")
    for _ in range(20):
        node.write()
        node.cron(0.02)
    assert node.disk.log.count("write") == tries


def test_what_a_failed_write_left_is_overwritten_even_if_it_could_not_be_cut_off() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.disk.broken = {"truncate"}
    node.disk.room = 70
    node.write(200)
    assert node.journal.failing
    assert read_back(node.disk.after_process_crash())[0] == 1
    node.disk.room = None
    node.cron()
    node.later.wait()
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 2


def test_while_the_disk_is_full_what_was_written_before_is_still_fsynced_each_second() -> None:
    node = Node(FakeDisk(), "everysec").start()
    written = node.write()
    node.disk.room = 0
    node.write()
    node.cron(2)
    node.later.wait()
    assert node.journal.failing
    assert node.journal.durable == written


def test_many_frames_of_which_a_part_fits_keep_their_order() -> None:
    node = Node(FakeDisk()).start()
    for _ in range(10):
        node.add(30)
    node.disk.room = 350
    node.journal.flush()
    written = read_back(node.disk.after_process_crash())[0]
    assert 0 < written < 10
    node.disk.room = None
    node.cron()
    assert read_back(node.disk)[0] == 10


# -- an fsync that fails


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_after_a_failed_fsync_the_state_is_copied_to_a_new_file_and_only_then_replies_leave(policy: str) -> None:
    node = Node(FakeDisk(), policy).start()
    node.write()
    node.rest(3)
    durable = node.journal.durable
    node.copies_at_once = False
    node.disk.broken = {"fdatasync"}
    held = node.write()
    node.cron(2.0)
    node.later.wait()
    node.disk.broken = set()
    assert node.journal.failing == "Input/output error"
    node.cron(2.0)
    node.later.wait()
    assert node.distrusted == [1]
    assert node.journal.segment == 2
    node.copy_slice()
    node.journal.flush()
    node.later.wait()
    assert node.journal.durable == durable
    assert node.journal.failing
    if policy == "always":
        assert node.journal.safe < held
    for seed in range(50):
        assert read_back(node.disk.after_power_loss(Random(seed)))[0] >= 1
    node.copy_slice()
    node.journal.flush()
    node.later.wait()
    assert not node.journal.failing
    assert node.journal.safe == node.journal.durable == node.journal.sequence
    assert node.retired == [1]
    for seed in range(50):
        assert read_back(node.disk.after_power_loss(Random(seed)))[0] == 2


def test_a_disk_that_goes_on_failing_is_probed_with_an_empty_segment_ever_more_rarely() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.disk.broken = {"fdatasync"}
    node.write()
    for _ in range(600):
        node.cron(1.0)
        node.later.wait()
    assert node.distrusted == []
    assert node.disk.log.count("create 2") < 20
    assert node.journal.size < 1000
    node.disk.broken = set()
    node.rest()
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 2


def test_a_second_failed_fsync_begins_the_copying_anew() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.disk.broken = {"fdatasync"}
    node.write()
    node.disk.broken = set()
    node.cron(2)
    node.later.wait()
    assert node.distrusted == [1]
    node.disk.broken = {"fdatasync"}
    node.journal.flush()
    node.later.wait()
    node.disk.broken = set()
    node.rest()
    assert node.distrusted == [1, 2]
    assert (node.journal.oldest, node.journal.segment) == (3, 3)
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 2


def test_a_failed_fsync_of_the_directory_counts_like_one_of_the_file() -> None:
    node = Node(FakeDisk()).start()
    node.disk.broken = {"fsync_dir"}
    node.write()
    assert node.journal.failing
    assert node.journal.safe == 0
    node.disk.broken = set()
    node.rest()
    assert node.journal.durable == node.journal.sequence


def test_a_rebuild_that_was_interrupted_is_taken_up_at_the_next_start() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.copies_at_once = False
    node.disk.broken = {"fdatasync"}
    node.write()
    node.disk.broken = set()
    node.cron(2)
    node.later.wait()
    disk = node.disk.after_process_crash()
    known, row = read_back(disk)
    assert row.untrusted == 1
    again = Node(disk, known=known).start()
    assert again.distrusted == [2]
    again.rest()
    assert (again.journal.oldest, again.journal.segment) == (3, 3)
    assert read_back(disk)[0] == 2


# -- start and stop


def test_every_start_opens_a_new_segment_behind_the_old_ones_which_it_makes_durable() -> None:
    first = Node(FakeDisk(), "no").start()
    first.write()
    disk = first.disk.after_process_crash()
    second = Node(disk, known=1).start()
    second.write()
    assert second.journal.segment == 2
    assert read_back(disk.after_power_loss(Random(5)))[0] == 2


def test_a_journal_that_is_switched_on_over_old_files_replaces_them() -> None:
    old = Node(FakeDisk()).start()
    for _ in range(5):
        old.write()
    assert not old.journal.close()
    new = Node(old.disk, known=3).start(rebuild=True)
    new.rest()
    assert read_back(new.disk)[0] == 3
    assert new.journal.oldest == 2


def test_close_writes_and_fsyncs_everything_though_an_fsync_runs() -> None:
    node = Node(FakeDisk()).start()
    slow(node)
    node.write()
    node.later.run()
    node.add()
    assert not node.journal.close()
    assert not node.disk.open_files
    assert read_back(node.disk.after_power_loss(Random(2)))[0] == 3


def test_close_tries_a_full_disk_once_more_and_says_what_was_not_saved() -> None:
    node = Node(FakeDisk()).start()
    node.disk.room = 0
    node.write()
    assert node.journal.close() == "No space left on device"
    other = Node(FakeDisk()).start()
    other.disk.room = 0
    other.write()
    other.disk.room = None
    assert not other.journal.close()
    assert read_back(other.disk)[0] == 1


def test_close_says_when_its_fsync_failed() -> None:
    node = Node(FakeDisk(), "everysec").start()
    node.write()
    node.disk.broken = {"fdatasync"}
    assert node.journal.close() == "Input/output error"
    assert not node.disk.open_files


def test_after_the_end_nothing_happens_any_more() -> None:
    node = Node(FakeDisk(), "everysec").start()
    node.write()
    node.add()
    node.journal.abandon()
    log = len(node.disk.log)
    node.add()
    node.journal.flush()
    node.cron()
    assert not node.journal.sync()
    assert len(node.disk.log) == log
    assert not node.disk.open_files
    assert read_back(node.disk)[0] == 1


@pytest.mark.parametrize("broken", ["create", "write", "fsync_dir"])
def test_a_start_on_a_disk_that_refuses_says_where_and_why(broken: str) -> None:
    node = Node(FakeDisk())
    node.disk.broken = {broken}
    with pytest.raises(JournalError, match=r"journal: .+: Input/output error"):
        node.start()


def test_what_was_read_and_cannot_be_made_durable_is_written_anew() -> None:
    """The disk says so once: the next process would trust files of which a loss of power takes a part."""
    first = Node(FakeDisk()).start()
    first.write()
    disk = first.disk.after_process_crash()
    disk.broken = {"fdatasync"}
    row = Row(FOLDER, "d", disk)
    list(row.read())
    again = Node(disk, known=1)
    again.journal = Journal(
        row, again, again.later, policy="always", segment_size=1 << 20, clock=lambda: 0.0, salt=lambda: 7
    )
    again.start()
    assert again.distrusted == [1]
    assert again.journal.rebuilding


# -- any order of events


STEPS = st.sampled_from(
    [
        "add", "add", "write", "write", "write", "flush", "work", "finish", "finish", "cron", "cron", "switch", "empty",
        "copy", "always", "everysec", "no", "fsync fails", "fsync works", "full", "room", "sync", "slow", "fast",
        "unlink fails", "unlink works", "truncate fails", "create fails", "create works", "dir fails", "dir works",
    ]
)  # fmt: skip


class Story:
    def __init__(self, disk: FakeDisk, policy: str, known: int, durable: int) -> None:
        self.node = Node(disk, policy, segment_size=700, known=known)
        self.node.copies_at_once = False
        self.node.start()
        if self.node.journal.rebuilding:
            self.node.numbers[0] = durable  # what the last process left is not trusted before it is copied

    def step(self, name: str) -> None:
        node, broken = self.node, self.node.disk.broken
        if name in {"always", "everysec", "no"}:
            node.journal.policy = name
        elif name.endswith((" fails", " works")):
            first, _, _ = name.partition(" ")
            what = {"fsync": "fdatasync", "dir": "fsync_dir"}.get(first, first)
            (broken.add if name.endswith("fails") else broken.discard)(what)
        else:
            actions: dict[str, Callable[[], object]] = {
                "add": node.add, "write": lambda: node.write(30), "flush": node.journal.flush, "work": node.later.run,
                "finish": node.later.finish, "cron": node.cron, "switch": node.journal.switch,
                "sync": node.journal.sync, "empty": node.empty_oldest, "copy": node.copy_slice,
            }  # fmt: skip
            actions.get(name, lambda: self.set(name))()
        self.check()

    def set(self, name: str) -> None:
        disk = self.node.disk
        if name in {"full", "room"}:
            disk.room = 100 if name == "full" else None
        else:
            disk.sync_cost = (lambda: None) if name == "fast" else self.slow

    def slow(self) -> None:
        self.node.time += 0.02

    def check(self) -> None:
        journal = self.node.journal
        assert journal.durable <= journal.sequence
        assert journal.safe <= journal.sequence
        assert journal.backlog >= 0
        assert (journal.backlog == 0) == (not journal._pending)

    def crash(self, power: bool, seed: int) -> tuple[FakeDisk, int, int]:
        """Return the disk afterwards, how many records are read back, and how many of them are surely durable."""
        node, journal = self.node, self.node.journal
        durable = promised = node.covered(journal.durable)
        if power:
            disk = node.disk.after_power_loss(Random(seed))
        else:
            unheard = node.later.done is not None and node.later.error is not None  # it died before it could hear
            traceless = unheard or (journal.rebuilding and not Row(FOLDER, "d", node.disk).untrusted)
            disk = node.disk.after_process_crash(forgiving=traceless)
            promised = max(durable, node.covered(journal.safe))
        found, row = read_back(disk)
        assert promised <= found <= node.known
        row.cut()
        assert read_back(disk)[0] == found
        assert read_back(disk)[1].tail is None
        return disk, found, found if power else durable


@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.lists(STEPS, max_size=40),
            st.sampled_from(["always", "everysec", "no"]),
            st.booleans(),
            st.integers(0, 1000),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_what_was_durable_is_read_back_and_what_is_read_back_is_a_prefix_of_what_was_appended(
    lives: list[tuple[list[str], str, bool, int]],
) -> None:
    disk, known, durable = FakeDisk(), 0, 0
    for steps, policy, power, seed in lives:
        story = Story(disk, policy, known, durable)
        for step in steps:
            story.step(step)
        disk, known, durable = story.crash(power, seed)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=60), st.sampled_from(["always", "everysec", "no"]))
def test_when_the_disk_is_well_again_everything_gets_safe(steps: list[str], policy: str) -> None:
    story = Story(FakeDisk(), policy, 0, 0)
    for step in steps:
        story.step(step)
    node = story.node
    node.disk.broken.clear()
    node.disk.room = None
    for _ in range(20):
        node.copy_slice()
        node.rest(2)
    journal = node.journal
    assert not journal.failing
    assert not journal.rebuilding
    assert journal.safe == journal.sequence
    assert not journal.close()
    assert read_back(node.disk.after_power_loss(Random(0)))[0] == node.known


# -- the real thing


async def _write_with_a_thread(folder: str) -> int:
    worker = Worker(asyncio.get_running_loop())
    node = Node(FakeDisk())
    node.journal = Journal(
        Row(folder, "d"), node, worker,
        policy="always", segment_size=2000, clock=iter(range(10**6)).__next__, salt=lambda: 5,
    )  # fmt: skip
    node.start()
    last = 0
    for _ in range(50):
        last = node.write(50)
        await asyncio.sleep(0)
    while node.journal.durable < last:  # noqa: ASYNC110 - the journal has a callback and no event
        await asyncio.sleep(0)
    node.empty_oldest()
    assert not node.journal.close()
    worker.close()
    return node.known


def test_on_a_real_disk_with_a_real_thread(tmp_path: Path) -> None:
    known = asyncio.run(_write_with_a_thread(str(tmp_path)))
    payloads = [payload for part in Row(str(tmp_path), "d").read() for payload in part.payloads]
    assert sum(payload.startswith(b"copy") and payload.endswith(b" ") for payload in payloads) == known


def test_a_worker_passes_on_what_the_work_raised_and_can_be_waited_for() -> None:
    async def story() -> list[OSError | None]:
        worker = Worker(asyncio.get_running_loop())
        seen: list[OSError | None] = []
        worker.submit(lambda: os.fdatasync(9999), seen.append)
        worker.wait()
        worker.submit(lambda: None, seen.append)
        while len(seen) < 2:  # noqa: ASYNC110 - the worker has a callback and no event
            await asyncio.sleep(0)
        worker.close()
        await asyncio.sleep(0)
        return seen

    first, second = asyncio.run(story())
    assert isinstance(first, OSError)
    assert second is None


# -- files that vanish


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_file_that_vanishes_is_noticed_and_what_is_known_goes_to_a_new_one(policy: str, which: int) -> None:
    node = Node(FakeDisk(), policy, segment_size=200).start()
    for _ in range(12):
        node.write(20)
    node.cron()
    node.later.wait()
    path = sorted(node.disk.names)[which]
    del node.disk.names[path]
    node.cron()
    assert node.journal.failing == f"{path}: No such file or directory"
    assert node.journal.vanished == 1
    late = node.add()
    node.rest()
    assert not node.journal.failing
    assert node.journal.safe == node.journal.durable >= late
    assert read_back(node.disk.after_power_loss(Random(1)))[0] == 13
    node.rest()
    assert node.journal.vanished == 1


def test_no_file_has_vanished_when_the_folder_cannot_be_opened_right_now(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FakeDisk(), "always").start()
    node.write(3)

    def listdir(_: str) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(node.disk, "listdir", listdir)
    node.cron()
    assert (node.journal.failing, node.journal.vanished) == ("", 0)


def test_a_file_in_whose_place_is_another_one_has_vanished() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    node.cron()
    node.later.wait()
    [path] = node.disk.names
    node.disk.names[path] = Inode()
    node.cron()
    assert path in node.journal.failing
    node.rest()
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 1


def take_away(node: Node, patch: pytest.MonkeyPatch) -> None:
    """The directory of the journal is removed."""

    def gone(*_: object) -> list[str]:
        raise FileNotFoundError(2, "No such file or directory", FOLDER)

    node.disk.names.clear()
    for call in ("listdir", "create"):
        patch.setattr(node.disk, call, gone)


def test_without_its_directory_nothing_is_written_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FakeDisk()).start()
    node.write()
    with monkeypatch.context() as patch:
        take_away(node, patch)
        node.cron()
        assert node.journal.failing == f"{FOLDER}: No such file or directory"
        late = node.write()
        node.rest()
        assert node.journal.safe < late
    node.rest()
    assert not node.journal.failing
    assert node.journal.safe >= late
    assert read_back(node.disk)[0] == 2


def test_a_directory_that_was_away_for_long_is_written_to_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FakeDisk()).start()
    node.write()
    with monkeypatch.context() as patch:
        take_away(node, patch)
        for _ in range(200):
            node.cron(1.0)
            node.later.wait()
    node.cron(1.0)
    node.later.wait()
    assert node.distrusted == [1], "the copy begins"
    node.rest()
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 1


def test_a_file_of_somebody_else_that_is_in_the_way_is_left_alone_and_named() -> None:
    node = Node(FakeDisk()).start()
    node.write()
    [path] = node.disk.names
    foreign = Inode()
    node.disk.names = {path[:-1] + "2": foreign}
    for _ in range(200):
        node.cron(1.0)
        node.later.wait()
    assert node.journal.failing == f"{path[:-1]}2: File exists"
    assert node.disk.names == {path[:-1] + "2": foreign}
    node.disk.names.clear()
    node.cron(1.0)
    node.later.wait()
    node.rest()
    assert not node.journal.failing
    assert read_back(node.disk)[0] == 1


def test_files_that_the_journal_itself_removes_have_not_vanished() -> None:
    node = Node(FakeDisk(), segment_size=200).start()
    for _ in range(12):
        node.write(20)
    node.empty_oldest()
    for _ in range(5):
        node.cron()
        node.journal.flush()
        node.cron()
        node.later.wait()
    assert node.retired
    assert node.journal.vanished == 0


# -- large frames


LARGE = 100


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are large from some bytes on."""
    monkeypatch.setattr(segment_file, "SLICE_BYTES", 16)


def large_node(policy: str = "everysec") -> Node:
    """A node that has begun to write a large frame, with others before it and behind it."""
    node = Node(FakeDisk(), policy).start()
    node.add()
    node.write(LARGE)
    node.write()
    assert node.journal.backlog > LARGE
    return node


def finish(node: Node) -> int:
    """Take turns until all is written; returns how many."""
    turns = 0
    while node.journal.backlog and turns < 100:
        node.journal.go_on()
        node.later.wait()
        turns += 1
    return turns


@pytest.mark.usefixtures("slices")
def test_a_large_frame_is_written_over_some_turns_and_what_follows_waits_for_it() -> None:
    node = large_node()
    sizes: list[int] = []
    write = node.disk.write

    def spy(fd: int, pieces: Sequence[bytes | memoryview], offset: int) -> int:
        sizes.append(sum(map(len, pieces)))
        return write(fd, pieces, offset)

    node.disk.write = spy  # type: ignore[method-assign]  # the test looks on
    node.write()
    assert not sizes  # the next turn goes on, and nothing comes before
    assert node.journal.safe == node.journal.sequence - 3
    before = node.progress
    assert finish(node) >= 2
    assert node.turns_wanted
    assert node.progress > before
    assert node.journal.safe == node.journal.sequence
    assert max(sizes) <= max(16 * 2 + 2 * HEADER_SIZE + 40, HEADER_SIZE)
    assert read_back(node.disk)[0] == 4


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("turns", range(5))
def test_a_crash_within_a_large_frame_leaves_a_tail_that_is_cut(turns: int) -> None:
    node = large_node()
    for _ in range(turns):
        node.journal.go_on()
    disk = node.disk.after_process_crash()
    row = Row(FOLDER, "d", disk)
    for _ in row.read():
        pass
    row.cut()
    assert read_back(disk)[0] >= node.covered(node.journal.safe)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_clean_stop_within_a_large_frame_ends_it(policy: str) -> None:
    node = large_node(policy)
    assert node.journal.close() == ""
    node.journal.go_on()  # too late
    assert read_back(node.disk)[0] == 3


@pytest.mark.usefixtures("slices")
def test_a_large_frame_goes_into_the_new_segment_if_one_begins_within_it() -> None:
    node = large_node()
    first = node.journal.segment
    end = HEAD_SIZE + 2 * HEADER_SIZE + len(b"head") + len(b"copy 0 1 ")
    assert node.journal.switch() == first + 1
    assert node.disk.size(node.disk.open(f"{FOLDER}/d.{first:08d}")) == end
    finish(node)
    assert read_back(node.disk)[0] == 3


@pytest.mark.usefixtures("slices")
def test_a_large_frame_is_ended_where_it_was_begun_while_no_new_segment_can_be() -> None:
    node = large_node()
    node.disk.broken = {"create"}
    for _ in range(50):
        if not node.journal.backlog:
            break
        node.journal.switch()
        node.journal.rotation_failed = False
        node.journal.go_on()
        node.later.wait()
    assert node.journal.backlog == 0
    assert read_back(node.disk)[0] == 3


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_disk_that_is_full_within_a_large_frame_holds_the_replies_and_loses_nothing(policy: str) -> None:
    node = large_node(policy)
    node.later.wait()
    safe = node.journal.safe
    node.disk.room = 10
    node.journal.go_on()
    assert node.journal.failing == "No space left on device"
    assert node.journal.safe == safe
    assert read_back(node.disk.after_process_crash())[0] == 1
    node.disk.room = None
    node.cron()
    finish(node)
    node.later.wait()
    assert not node.journal.failing
    assert node.journal.safe == node.journal.sequence
    assert read_back(node.disk)[0] == 3


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_an_fsync_that_fails_within_a_large_frame_loses_nothing(policy: str) -> None:
    node = large_node(policy)
    node.disk.broken = {"fdatasync"}
    node.cron()
    node.journal.go_on()
    node.later.wait()
    node.cron()
    node.later.wait()
    assert node.journal.failing
    node.disk.broken = set()
    for _ in range(20):
        node.rest(1)
        finish(node)
    assert not node.journal.failing
    assert node.journal.durable == node.journal.sequence
    assert read_back(node.disk.after_power_loss(Random(1)))[0] == 3


@pytest.mark.usefixtures("slices")
def test_a_large_frame_is_fsynced_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "INLINE_BYTES", 16)
    node = large_node("always")
    node.later.wait()
    while node.journal.backlog:
        node.journal.go_on()
    assert node.journal.safe < node.journal.sequence
    node.later.wait()
    assert node.journal.safe == node.journal.sequence
