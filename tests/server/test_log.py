import errno
import os
import re
import syslog
import time
from pathlib import Path

import pytest

from disque.server.log import DEBUG, LEVELS, NOTICE, VERBOSE, WARNING, Log, escaped, open_syslog, printable

AT = time.mktime((2026, 11, 20, 16, 43, 15, 0, 0, -1)) + 0.479


class Clock:
    """The time of day, as told."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "disque.log"


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def texts(path: Path) -> list[str]:
    return [line.partition(".479 ")[2] for line in lines(path)]


def full_disk(_fd: int, _data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestLines:
    def test_a_line_tells_process_role_time_level_and_text(self, path: Path, clock: Clock) -> None:
        Log(str(path), clock=clock).notice("Server started")
        assert lines(path) == [f"{os.getpid()}:P 20 Nov 16:43:15.479 * Server started"]

    def test_each_level_has_its_sign(self, path: Path, clock: Clock) -> None:
        log = Log(str(path), DEBUG, clock=clock)
        log.debug("d")
        log.verbose("v")
        log.notice("n")
        log.warning("w")
        assert texts(path) == [". d", "- v", "* n", "# w"]

    def test_the_time_moves_on(self, path: Path, clock: Clock) -> None:
        log = Log(str(path), clock=clock)
        log.notice("a")
        clock.now = AT + 0.5
        log.notice("b")
        clock.now = AT + 45.001
        log.notice("c")
        assert [line.split()[3] for line in lines(path)] == ["16:43:15.479", "16:43:15.979", "16:44:00.480"]

    def test_standard_output_is_the_default(self, capfd: pytest.CaptureFixture[str]) -> None:
        log = Log()
        log.notice("hello")
        log.close()
        log.notice("still there")
        out = capfd.readouterr().out
        assert re.fullmatch(r"\d+:P \d\d \w{3} \d\d:\d\d:\d\d\.\d{3} \* hello\n.* \* still there\n", out)

    def test_a_banner_is_written_as_it_is(self, path: Path) -> None:
        log = Log(str(path))
        log.raw("  /\\\n /  \\")
        log.set_level("warning")
        log.raw("not shown")
        assert path.read_text() == "  /\\\n /  \\\n"

    def test_a_line_has_at_most_1024_characters(self, path: Path) -> None:
        log = Log(str(path))
        log.notice("é" * 5000)
        log.notice("\x01" * 5000)
        log.notice("short")
        assert [len(line) for line in lines(path)][:2] == [1024, 1024]
        assert lines(path)[2].endswith("* short")


class TestLevels:
    @pytest.mark.parametrize(("level", "shown"), [(DEBUG, "dvnw"), (VERBOSE, "vnw"), (NOTICE, "nw"), (WARNING, "w")])
    def test_lesser_levels_are_not_written(self, path: Path, level: int, shown: str) -> None:
        log = Log(str(path), level)
        for other in LEVELS.values():
            log.log(other, "dvnw"[other])
        assert "".join(line[-1] for line in lines(path)) == shown
        assert [log.enabled(other) for other in LEVELS.values()] == ["dvnw"[other] in shown for other in range(4)]

    def test_the_level_can_be_set_by_name(self) -> None:
        log = Log()
        log.set_level("debug")
        assert log.enabled(DEBUG)
        with pytest.raises(KeyError):
            log.set_level("loud")


class TestTextsFromTheNetwork:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain", "plain"),
            ("Grüße", "Grüße"),
            ("two\r\nlines", "two\\r\\nlines"),
            ("\x1b[2J\x00\x7f\x85", "\\x1b[2J\\x00\\x7f\\x85"),
            ("\u2028\u202e", "\\u2028\\u202e"),
            ("\udc80", "\\udc80"),
        ],
    )
    def test_what_cannot_be_printed_is_shown_as_an_escape(self, path: Path, text: str, shown: str) -> None:
        Log(str(path)).notice(text)
        (line,) = lines(path)
        assert line.endswith(f"* {shown}")
        assert escaped(text) == shown

    def test_bytes_become_text_and_no_line_forges_another(self) -> None:
        assert printable("é".encode()) == "é"
        assert printable(b"\xff\x00") == "\\xff\x00"
        assert len(printable(b"x" * 5000)) == 1024


class TestFile:
    def test_lines_are_appended(self, path: Path) -> None:
        path.write_text("before\n")
        Log(str(path)).notice("after")
        assert [line[-5:] for line in lines(path)] == ["efore", "after"]

    def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            Log(str(tmp_path / "nowhere" / "disque.log"))

    def test_a_relative_path_is_meant_from_where_the_server_started(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        log = Log("here.log")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        log.reopen()
        log.notice("text")
        assert len(lines(tmp_path / "here.log")) == 1

    def test_reopen_goes_on_in_a_new_file(self, path: Path, clock: Clock) -> None:
        log = Log(str(path), clock=clock)
        log.notice("old")
        path.rename(path.with_suffix(".1"))
        log.notice("same second")
        log.reopen()
        log.notice("new")
        assert texts(path.with_suffix(".1")) == ["* old", "* same second"]
        assert texts(path) == ["* new"]

    def test_a_renamed_file_is_noticed_within_a_second_of_logging(self, path: Path, clock: Clock) -> None:
        log = Log(str(path), clock=clock)
        log.notice("old")
        path.rename(path.with_suffix(".1"))
        clock.now = AT + 1
        log.notice("new")
        assert texts(path) == ["* new"]

    def test_if_reopening_fails_the_old_file_says_so_and_goes_on(self, path: Path, clock: Clock) -> None:
        log = Log(str(path), clock=clock)
        old = path.with_suffix(".1")
        path.rename(old)
        path.mkdir()
        log.reopen()
        log.notice("still here")
        first, second = lines(old)
        assert first.endswith("Can't open the log file: Is a directory")
        assert second.endswith("* still here")

    def test_a_closed_log_loses_lines_without_a_word(self, path: Path) -> None:
        log = Log(str(path))
        log.close()
        log.close()
        log.reopen()
        log.notice("text")
        assert path.read_text() == ""


class TestFailingDisk:
    def test_lines_are_lost_counted_and_reported_later(
        self, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Log(str(path), clock=clock)
        with monkeypatch.context() as full:
            full.setattr("disque.server.log.os.write", full_disk)
            for text in ("one", "two"):
                log.notice(text)
        lost = log.lost
        log.notice("three")
        assert (lost, log.lost) == (2, 0)
        assert lines(path)[0] == f"{os.getpid()}:P # 2 log lines could not be written"
        assert texts(path)[1:] == ["* three"]

    def test_the_line_after_a_torn_one_begins_anew(
        self, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Log(str(path), clock=clock)
        write = os.write
        with monkeypatch.context() as full:
            full.setattr("disque.server.log.os.write", lambda fd, data: write(fd, data[:9]))
            log.notice("torn")
        assert log.lost == 1
        log.notice("whole")
        torn, report, whole = lines(path)
        assert len(torn) == 9
        assert report.endswith("1 log lines could not be written")
        assert whole.endswith("* whole")


class TestSyslog:
    def test_the_system_log_gets_the_same_texts_with_its_own_levels(self, path: Path) -> None:
        seen: list[tuple[int, str]] = []
        log = Log(str(path), VERBOSE, syslog=lambda level, text: seen.append((level, text)))
        log.debug("d")
        log.verbose("v\n")
        log.notice("n\x00")
        log.warning("w")
        assert seen == [(syslog.LOG_INFO, "v\\n"), (syslog.LOG_NOTICE, "n\\x00"), (syslog.LOG_WARNING, "w")]
        assert len(lines(path)) == 3

    def test_it_is_opened_with_name_and_facility(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[tuple[object, ...]] = []
        monkeypatch.setattr("syslog.openlog", lambda *given: seen.append(given))
        open_syslog("disque", "local3")
        ((ident, options, facility),) = seen
        assert (ident, facility) == ("disque", syslog.LOG_LOCAL3)
        assert options == syslog.LOG_PID | syslog.LOG_NDELAY
        with pytest.raises(KeyError):
            open_syslog("disque", "local8")


def test_a_pipe_that_nobody_reads_stops_nobody(path: Path, clock: Clock) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = Log(str(path), clock=clock)
    os.close(reader)
    log.reopen()
    log.notice("lost")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log.reopen()
    log.notice("there")
    assert b"log lines could not be written" in (said := os.read(reader, 1000))
    assert said.endswith(b"there\n")
    for _ in range(2000):
        log.notice("x" * 1000)
    assert log.lost
    os.close(reader)
