import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from disque.core import step
from disque.core.dedup import keys as unique
from disque.core.dedup.keys import digest_of
from disque.core.jobs import sessions
from disque.core.replication import acks
from disque.server.disk import Disk
from disque.server.segments import JournalError, Row
from tests.core.support import UNKNOWN_ID
from tests.server.process import NAME, Machine, Process
from tests.support.keys import keys
from tests.support.nodes import START_MS

SEGMENT = 64 * 1024
KB = b"x" * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    loop = asyncio.new_event_loop()
    yield Machine(tmp_path, loop)
    loop.close()


class TestRestart:
    def test_what_was_answered_is_there_after_a_kill(self, machine: Machine) -> None:
        process = machine.start()
        kept, done = process.add(b"kept"), process.add(b"done")
        assert process.say(b"ACKJOB", done) == b":1\r\n"
        process.kill()
        process = machine.start()
        assert process.queued() == [kept]
        assert b"kept" in process.get()
        process.kill()

    def test_what_was_not_flushed_never_was(self, machine: Machine) -> None:
        process = machine.start()
        kept = process.add()
        step.command(process.node, process.client, b"ADDJOB q lost 0".split(), machine.now_ms)
        process.kill()
        process = machine.start()
        assert process.known() == {kept}
        process.kill()

    def test_many_starts_in_a_row_lose_nothing_and_bring_nothing_back(self, machine: Machine) -> None:
        alive: list[bytes] = []
        for number in range(6):
            process = machine.start()
            assert process.queued() == alive
            alive.append(process.add(b"%d" % number))
            if number % 2:
                process.say(b"DELJOB", alive.pop(0))
            process.kill()
        assert len(machine.files) <= 7

    def test_a_clean_stop_keeps_what_is_out_and_how_long(self, machine: Machine) -> None:
        process = machine.start()
        out, _once = process.add(b"out", b"RETRY", b"10"), process.add(b"once", b"RETRY", b"0")
        process.get(2)
        machine.now_ms += 4000
        process.stop()
        machine.now_ms += 5000
        machine.boot = "boot 2"
        process = machine.start()
        assert not process.queued()
        step.tick(process.node, machine.now_ms + 999)
        assert not process.queued()
        step.tick(process.node, machine.now_ms + 1000)
        assert process.queued() == [out]
        process.kill()

    def test_the_list_of_a_clean_stop_counts_once(self, machine: Machine) -> None:
        process = machine.start()
        out = process.add(b"out", b"RETRY", b"10")
        process.get()
        process.stop()
        process = machine.start()
        assert not process.queued()
        process.kill()
        process = machine.start()
        assert process.queued() == [out]
        process.kill()

    @pytest.mark.parametrize("jobs", range(50, 66))
    def test_the_list_counts_wherever_the_segment_is_full(self, machine: Machine, jobs: int) -> None:
        process = machine.start()
        for _ in range(jobs):
            process.add(KB)
        process.get(jobs)
        process.stop()
        process = machine.start()
        assert not process.queued()
        assert len(process.known()) == jobs
        process.kill()

    def test_an_at_most_once_job_is_dropped_for_good_when_the_machine_failed(self, machine: Machine) -> None:
        process = machine.start()
        process.add(b"once", b"RETRY", b"0")
        process.kill()
        machine.boot = "boot 2"
        process = machine.start()
        assert any("1 at-most-once jobs were dropped" in line for line in process.log.lines)
        process.kill()
        process = machine.start()
        assert not process.known()
        assert not any("at-most-once" in line for line in process.log.lines)
        process.stop()
        assert not machine.start().known()

    def test_the_key_of_a_dropped_job_stays_free_when_only_its_record_is_left(self, machine: Machine) -> None:
        process = machine.start()
        process.add(b"once", b"RETRY", b"0", b"UNIQUE", b"key", b"0")
        process.node.segment = process.pump.journal.switch()  # type: ignore[union-attr]  # it is there
        unique.file(process.node, keys(process.node)[digest_of(b"q", b"key")])
        process.add(b"kept")
        process.kill()
        machine.boot = "boot 2"
        process = machine.start()
        assert not keys(process.node)
        process.cron(3)
        assert machine.files[0] == f"{NAME}.00000002"  # the job's own record is gone
        process.kill()
        process = machine.start()
        assert not keys(process.node)
        process.kill()

    def test_without_a_boot_id_every_process_counts_as_another_boot(self, machine: Machine) -> None:
        machine.boot = ""
        process = machine.start()
        process.persistence.boot_id = "process 1"  # the salt of this test is always the same
        process.persistence.rewrite()
        process.add(b"once", b"RETRY", b"0")
        process.kill()
        process = machine.start()
        assert process.persistence.boot_id.startswith("process ")
        assert not process.known()
        process.kill()

    def test_time_does_not_go_back_over_a_restart(self, machine: Machine) -> None:
        process = machine.start()
        machine.now_ms += 50_000
        process.add()
        process.kill()
        machine.now_ms -= 40_000
        process = machine.start()
        assert process.pump.clock.now_ms() == START_MS + 50_000
        process.kill()

    def test_jobs_that_are_loaded_without_a_journal_are_not_loaded_twice_if_delivered_at_most_once(
        self, machine: Machine
    ) -> None:
        process = machine.start()
        process.add(b"once", b"RETRY", b"0")
        kept = process.add(b"kept")
        process.kill()
        process = machine.start(appendonly="no")
        assert b"once" in process.get()
        process.stop()
        process = machine.start()
        assert process.known() == {kept}
        process.kill()


class TestDamage:
    def torn(self, machine: Machine) -> list[bytes]:
        process = machine.start()
        ids = [process.add(b"one"), process.add(b"two")]
        process.kill()
        data = machine.newest.read_bytes()
        machine.newest.write_bytes(data[:-5])
        return ids

    def test_a_torn_tail_is_cut_and_told(self, machine: Machine) -> None:
        ids = self.torn(machine)
        process = machine.start()
        assert process.queued() == ids[:1]
        assert any("short read" in line for line in process.log.lines)
        new = process.add(b"three")
        process.kill()
        process = machine.start()
        assert process.queued() == [ids[0], new]
        process.kill()

    def test_with_aof_load_truncated_no_a_torn_tail_stops_the_start(self, machine: Machine) -> None:
        self.torn(machine)
        before = machine.newest.read_bytes()
        with pytest.raises(JournalError, match="aof-load-truncated yes"):
            machine.start(aof_load_truncated="no")
        assert machine.newest.read_bytes() == before

    def test_damage_before_what_was_synced_stops_the_start(self, machine: Machine) -> None:
        process = machine.start()
        process.add(b"one")
        process.stop()
        path = machine.folder / machine.files[0]
        data = bytearray(path.read_bytes())
        data[data.index(b"one")] ^= 1
        path.write_bytes(data)
        with pytest.raises(JournalError, match=r"00000001"):
            machine.start()

    def test_a_record_that_makes_no_sense_stops_the_start(self, machine: Machine) -> None:
        process = machine.start()
        writer = process.persistence.journal
        assert writer is not None
        writer.append(b"\x92\x01\x05")
        writer.flush()
        process.kill()
        with pytest.raises(JournalError, match="cannot be used"):
            machine.start()


class TestSwitching:
    def test_switched_on_at_run_time_it_holds_what_was_there_before(self, machine: Machine) -> None:
        process = machine.start(appendonly="no")
        before = process.add(b"before")
        assert not machine.files
        assert process.say(b"CONFIG", b"SET", b"appendonly", b"yes") == b"+OK\r\n"
        process.turn(20)
        after = process.add(b"after")
        process.kill()
        process = machine.start()
        assert process.queued() == [before, after]
        process.kill()

    def test_while_it_was_off_at_most_once_jobs_may_have_been_delivered(self, machine: Machine) -> None:
        process = machine.start()
        process.add(b"once", b"RETRY", b"0")
        twice = process.add(b"twice")
        process.say(b"CONFIG", b"SET", b"appendonly", b"no")
        assert b"once" in process.get()
        process.kill()
        process = machine.start()
        assert process.known() == {twice}
        process.kill()

    def test_switched_off_and_on_it_holds_what_is_true_now(self, machine: Machine) -> None:
        process = machine.start()
        gone = process.add(b"gone")
        process.say(b"CONFIG", b"SET", b"appendonly", b"no")
        process.say(b"ACKJOB", gone)
        once = process.add(b"once", b"RETRY", b"0")
        process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
        process.turn(30)
        assert not process.persistence.facts()["aof_rewrite_in_progress"]
        process.kill()
        process = machine.start()
        assert process.known() == {once}
        assert process.queued() == [once]
        process.kill()

    def test_a_changed_fsync_policy_counts_from_then_on(self, machine: Machine) -> None:
        process = machine.start()
        process.say(b"CONFIG", b"SET", b"appendfsync", b"always")
        once = process.add(b"once", b"RETRY", b"0")
        process.kill()
        machine.boot = "boot 2"
        process = machine.start(appendfsync="always")
        assert process.queued() == [once]
        process.say(b"CONFIG", b"SET", b"appendfsync", b"everysec")
        process.kill()
        machine.boot = "boot 3"
        assert not machine.start().known()

    def test_after_a_reset_the_journal_is_that_of_the_new_id(self, machine: Machine) -> None:
        process = machine.start()
        process.add(b"old")
        process.say(b"CLUSTER", b"RESET", b"SOFT")
        assert len(machine.files) == 1, "it has its ID still"
        assert process.say(b"CLUSTER", b"RESET", b"HARD") == b"+OK\r\n"
        kept = process.add(b"kept")
        process.kill()
        assert Row(str(machine.folder), NAME).previous_writer == process.node.node_id
        process = machine.start()
        assert process.known() == {kept}
        process.kill()

    def test_reading_it_again_finds_what_a_crash_would_leave(self, machine: Machine) -> None:
        process = machine.start()
        kept = process.add(b"kept")
        process.get()
        process.persistence.close_for_reload()
        sessions.flush_all(process.node, machine.now_ms)
        for _ in process.persistence.load():
            pass
        assert process.queued() == [kept]
        process.add(b"more")
        process.kill()
        process = machine.start()
        assert len(process.queued()) == 2
        process.kill()


class TestCompaction:
    def fill(self, process: Process, jobs: int = 200) -> list[bytes]:
        return [process.add(KB) for _ in range(jobs)]

    def test_a_pass_leaves_only_what_is_alive(self, machine: Machine) -> None:
        process = machine.start()
        ids = self.fill(process)
        process.say(b"ACKJOB", *ids[5:])
        before = machine.size()
        assert process.persistence.rewrite()
        assert not process.persistence.rewrite()
        process.turn(30)
        assert process.persistence.facts()["aof_rewrite_in_progress"] == 0
        assert len(machine.files) == 1
        assert machine.size() < before / 10
        process.kill()
        process = machine.start()
        assert process.queued() == ids[:5]
        process.kill()

    def test_a_kill_in_the_middle_of_a_pass_loses_nothing(self, machine: Machine) -> None:
        process = machine.start()
        ids = self.fill(process)
        process.get(3)
        for turns in range(8):
            process.persistence.rewrite()
            process.turn(turns)
            ids.append(process.add(b"%d" % turns))
            process.say(b"ACKJOB", ids.pop(0))
            process.kill()
            process = machine.start()
            assert process.queued() == ids
        process.kill()

    def test_dead_segments_go_by_themselves_oldest_first(self, machine: Machine) -> None:
        process = machine.start(auto_aof_rewrite_percentage="0")
        ids = self.fill(process)
        files = machine.files
        assert len(files) > 3
        process.say(b"ACKJOB", *ids[70:])
        process.cron(3)
        assert machine.files[0] == files[0]
        process.say(b"ACKJOB", *ids[:70])
        process.cron(3)
        assert machine.files == process_files(process)
        assert machine.files[0] > files[-2]
        process.kill()
        process = machine.start()
        assert not process.known()
        process.kill()

    def test_a_segment_with_an_acknowledgement_of_an_unknown_job_is_not_dead(self, machine: Machine) -> None:
        process = machine.start(auto_aof_rewrite_percentage="0")
        acks.add_dummy(process.node, UNKNOWN_ID, process.pump.clock.now_ms())
        process.say(b"ACKJOB", *self.fill(process))
        assert len(machine.files) > 3
        process.cron(3)
        process.kill()
        process = machine.start()
        assert list(process.node.acks.dummies) == [UNKNOWN_ID]
        process.kill()

    def test_it_starts_by_itself_when_the_journal_has_grown(self, machine: Machine) -> None:
        process = machine.start(auto_aof_rewrite_percentage="100", auto_aof_rewrite_min_size="100kb")
        keeper = process.add(b"keeper")
        for _ in range(300):
            process.say(b"ACKJOB", process.add(KB))
        process.cron()
        process.turn(30)
        assert any("Starting automatic compaction" in line for line in process.log.lines)
        assert machine.size() < 80 * 1024
        process.kill()
        process = machine.start()
        assert process.known() == {keeper}
        process.kill()

    def test_a_pass_that_no_segment_can_be_begun_for_is_told_once_and_tried_again(self, machine: Machine) -> None:
        process = machine.start(auto_aof_rewrite_percentage="100", auto_aof_rewrite_min_size="20kb")
        for _ in range(50):
            process.add(KB)
        writer = process.persistence.journal
        assert writer is not None
        in_the_way = machine.folder / f"{NAME}.{writer.segment + 1:08d}"
        in_the_way.mkdir()
        process.cron(10)
        told = [line for line in process.log.lines if "compaction" in line or "segment" in line]
        why = f"{in_the_way}: File exists"
        assert told == [f"Can't begin a new segment of the journal: {why}. The old one is still written to"]
        assert process.persistence.facts()["aof_last_bgrewrite_status"] == "err"
        in_the_way.rmdir()
        writer._retry_at = 0.0
        process.cron(10)
        assert sum("Starting automatic compaction" in line for line in process.log.lines) == 1
        assert process.persistence.facts()["aof_last_bgrewrite_status"] == "ok"
        process.kill()

    def test_shutdown_with_a_rewrite_leaves_one_compact_journal(self, machine: Machine) -> None:
        process = machine.start()
        ids = self.fill(process)
        process.say(b"ACKJOB", *ids[1:])
        assert process.persistence.rewrite_now() == ""
        process.turn(20)
        process.stop()
        assert machine.size() < 8 * 1024
        process = machine.start()
        assert process.queued() == ids[:1]
        process.kill()

    def test_pauses_and_keys_survive_passes(self, machine: Machine) -> None:
        process = machine.start()
        process.say(b"PAUSE", b"p", b"in")
        job_id = process.add(b"u", b"UNIQUE", b"key", b"0")
        for _ in range(2):
            process.persistence.rewrite()
            process.turn(30)
        process.kill()
        process = machine.start()
        assert process.say(b"PAUSE", b"p", b"state") == b"+in\r\n"
        assert process.add(b"again", b"UNIQUE", b"key", b"0") == job_id
        process.kill()


def test_pauses_of_all_nodes_are_copied_when_the_journal_is_switched_on(machine: Machine) -> None:
    process = machine.start(appendonly="no")
    process.say(b"PAUSE", b"q", b"none", b"bcast")
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    process.turn(5)
    process.kill()
    assert [entry.key[1] for entry in machine.start().node.registry.entries()] == [b"q"]


def process_files(process: Process) -> list[str]:
    return [Path(process.persistence.row.path(number)).name for number in process.persistence.row.segments]


def test_a_journal_of_which_the_directory_is_gone_stops_the_start(machine: Machine) -> None:
    with pytest.raises(JournalError, match="directory"):
        machine.start(dir=str(machine.folder / "nowhere"))


def test_facts_tell_what_goes_on(machine: Machine) -> None:
    process = machine.start()
    process.add()
    facts = process.persistence.facts()
    assert facts["aof_enabled"] == 1
    assert facts["aof_state"] == "on"
    assert facts["aof_current_size"] == machine.size()
    assert facts["aof_segments"] == 1
    assert facts["aof_last_write_status"] == "ok"
    process.stop()
    assert process.persistence.facts()["aof_state"] == "off"


def test_a_stop_while_the_first_copy_runs_keeps_what_was_there_before_the_journal(machine: Machine) -> None:
    process = machine.start(appendonly="no")
    ids = {process.add() for _ in range(1000)}
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    assert process.persistence.copying is not None
    process.stop()
    assert machine.start().known() == ids


def test_keys_and_pauses_without_any_job_are_copied_when_the_journal_is_switched_on(machine: Machine) -> None:
    process = machine.start(appendonly="no")
    process.say(b"ACKJOB", process.add(b"body", b"UNIQUE", b"key", b"3600"))
    process.say(b"PAUSE", b"other", b"in")
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    process.turn(5)
    process.kill()
    again = machine.start()
    assert digest_of(b"q", b"key") in keys(again.node)
    assert again.node.queues[b"other"].paused


def test_a_journal_in_another_place_is_compacted_by_itself_too(machine: Machine) -> None:
    process = machine.start()
    for _ in range(3):
        process.persistence.rewrite()
        process.cron(3)
    process.say(b"CONFIG", b"SET", b"appendonly", b"no")
    for name in machine.files:
        (machine.folder / name).unlink()
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    process.turn(3)
    writer = process.persistence.journal
    assert writer is not None
    assert process.persistence._retired_upto < writer.oldest
    process.kill()


def test_the_policy_stays_when_no_segment_can_take_note_of_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_disk: Disk, path: str) -> int:
        raise OSError(24, "Too many open files", path)

    process = machine.start(appendfsync="always")
    monkeypatch.setattr(Disk, "create", fail)
    assert process.say(b"CONFIG", b"SET", b"appendfsync", b"everysec").startswith(b"-ERR")
    writer = process.persistence.journal
    assert writer is not None
    assert writer.policy == process.node.config.text("appendfsync") == "always"
    process.kill()


def test_a_crash_before_the_first_copy_is_complete_is_told_at_the_next_start(machine: Machine) -> None:
    process = machine.start(appendonly="no")
    for _ in range(3000):
        process.add()
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    assert process.persistence.facts()["aof_state"] == "wait-rewrite"
    process.kill()
    again = machine.start()
    assert len(again.known()) < 3000
    assert any("before all of them were written to it" in line for line in again.log.lines)


def test_a_first_copy_that_is_complete_is_nothing_to_speak_of(machine: Machine) -> None:
    process = machine.start(appendonly="no")
    ids = {process.add() for _ in range(3000)}
    process.say(b"CONFIG", b"SET", b"appendonly", b"yes")
    process.turn(20)
    assert process.persistence.facts()["aof_state"] == "on"
    process.kill()
    again = machine.start()
    assert again.known() == ids
    assert not any("before all of them were written to it" in line for line in again.log.lines)


def test_after_an_fsync_that_failed_in_the_background_all_jobs_belong_to_the_segment_that_replaces_the_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = machine.start(appendfsync="everysec")
    job_id = process.add(KB)
    genuine, bad = Disk.fdatasync, [OSError(errno.EIO, "Input/output error")]

    def fdatasync(disk: Disk, fd: int) -> None:
        if bad:
            raise bad.pop()
        genuine(disk, fd)

    monkeypatch.setattr(Disk, "fdatasync", fdatasync)
    process.cron(5)
    assert not bad
    writer = process.persistence.journal
    assert writer is not None
    assert not writer.rebuilding
    assert writer.oldest == writer.segment == 2
    job = process.node.find(job_id)
    assert job is not None
    assert (job.segment, process.node.live) == (2, {2: 1})
    assert process.say(b"DELJOB", job_id) == b":1\r\n"
    process.kill()
    assert machine.start().known() == set()


# -- a journal beside appendonly no --------------------------------------------------------------------------------


def test_a_start_without_the_journal_that_is_there_stops_unless_that_is_meant(machine: Machine) -> None:
    process = machine.start()
    process.add()
    process.stop()
    files = machine.files
    with pytest.raises(JournalError, match=rf"There is a journal, {machine.folder}/{files[0]}, and appendonly is no"):
        machine.start(passes_by="yes", appendonly="no")
    ignoring = machine.start(passes_by="yes", appendonly="no", ignore_journal="yes")
    assert f"The journal is ignored. Its jobs are not loaded: {machine.folder}/{files[0]}" in ignoring.log.lines
    assert ignoring.queued() == []
    assert machine.files == files
    assert len(machine.start().queued()) == 1


def test_a_journal_that_cannot_be_read_is_not_passed_by_either_but_can_be_ignored(machine: Machine) -> None:
    machine.start().add()
    machine.newest.rename(machine.newest.with_suffix(".00000009"))
    with pytest.raises(JournalError, match="There is a journal"):
        machine.start(passes_by="yes", appendonly="no")
    machine.start(passes_by="yes", appendonly="no", ignore_journal="yes")


def test_a_journal_in_which_there_was_nothing_is_nothing_to_miss(machine: Machine) -> None:
    machine.start().stop()
    machine.start(passes_by="yes", appendonly="no")


def test_a_journal_that_was_switched_off_is_passed_by(machine: Machine) -> None:
    process = machine.start()
    process.add()
    process.say(b"CONFIG", b"SET", b"appendonly", b"no")
    process.stop()
    later = machine.start(passes_by="yes", appendonly="no")
    assert any("was switched off earlier" in line for line in later.log.lines)
    assert later.queued() == []


def test_what_was_ignored_is_set_aside_before_a_journal_is_switched_on(machine: Machine) -> None:
    process = machine.start()
    old = process.add()
    process.stop()
    data = machine.newest.read_bytes()
    process = machine.start(passes_by="yes", appendonly="no", ignore_journal="yes")
    new = process.add()
    assert process.say(b"CONFIG", b"SET", b"appendonly", b"yes") == b"+OK\r\n"
    process.turn(5)
    aside = machine.folder / f"{NAME}.00000001.ignored"
    assert aside.read_bytes() == data
    assert machine.files == [NAME + ".00000001", aside.name]
    aside.unlink()
    assert machine.start().queued() == [new] != [old]


def test_what_this_process_wrote_is_replaced_and_not_set_aside(machine: Machine) -> None:
    process = machine.start()
    process.add()
    for value in (b"no", b"yes"):
        process.say(b"CONFIG", b"SET", b"appendonly", value)
    process.turn(9)
    assert not [name for name in machine.files if name.endswith(".ignored")]
