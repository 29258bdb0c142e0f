"""Specs and zones as rows of ticks."""

import time
from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from disque.core.schedule import ticks
from disque.core.schedule.ticks import Ticks


def row(spec: str, zone: str = "") -> Ticks:
    found = ticks.read(spec.encode(), zone.encode())
    assert isinstance(found, Ticks), found
    return found


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    """A time of day somewhere as seconds since 1970."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def said(spec: str, zone: str, after: str, count: int) -> list[str]:
    """The ticks after a local time, as local times with their distance from UTC."""
    place = ZoneInfo(zone)
    found = islice(row(spec, zone).walk(at(after, zone)), count)
    return [f"{datetime.fromtimestamp(tick, place):%m-%d %H:%M%z}" for tick in found]


class TestFields:
    @pytest.mark.parametrize(
        ("spec", "after", "first"),
        [
            ("* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00"),
            ("* * * * *", "2026-01-01 00:00:59", "2026-01-01 00:01:00"),
            ("*/15 9-17 * * mon-fri", "2026-11-27 17:45:00", "2026-11-30 09:00:00"),
            ("0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00"),
            ("0 0 31 * *", "2026-03-31 00:00:00", "2026-05-31 00:00:00"),
            ("0 0 l * *", "2026-02-01 00:00:00", "2026-02-28 00:00:00"),
            ("0 0 1 * mon", "2026-11-01 00:00:00", "2026-11-02 00:00:00"),
            ("@hourly", "2026-01-01 00:59:59", "2026-01-01 01:00:00"),
            ("@Daily", "2026-01-01 00:00:00", "2026-01-02 00:00:00"),
            ("@weekly", "2026-11-24 00:00:00", "2026-11-29 00:00:00"),
            ("@monthly", "2026-11-24 00:00:00", "2026-12-01 00:00:00"),
            ("@yearly", "2026-11-24 00:00:00", "2027-01-01 00:00:00"),
            ("@every 90s", "1970-01-01 00:02:59", "1970-01-01 00:03:00"),
            ("@every 1h30m", "1970-01-02 00:00:00", "1970-01-02 01:30:00"),
            ("@every 7d", "1970-01-01 00:00:00", "1970-01-08 00:00:00"),
        ],
    )
    def test_the_first_tick(self, spec: str, after: str, first: str) -> None:
        assert row(spec).after(at(after)) == at(first)

    @pytest.mark.parametrize(
        "spec",
        [
            *("", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8"),
            *("@reboot", "@every", "@every 0s", "@every 1.5s", "@every s", "@every 367d", "@every 999999999d", "@"),
            *(
                "*/0 * * * *",
                "5-1 * * * *",
                "a * * * *",
                "1L/2 * * * 1L/2",
                "* * * * 1L/2",
                "* * * * 1#9",
                "1,,2 * * * *",
            ),
            *(
                "0 0 30 2 *",
                "0 0 31 4,6,9,11 *",
                "\0 * * * *",
                "é * * * *",
                "1" * 300,
                f"{'1,' * 120}1 * * * *" + " " * 100,
            ),
        ],
    )
    def test_what_is_no_spec_or_never_due_is_an_error(self, spec: str) -> None:
        wrong = ticks.read(spec.encode(), b"")
        assert isinstance(wrong, bytes)
        assert wrong.startswith(b"ERR ")
        assert all(32 <= byte < 127 for byte in wrong)

    @pytest.mark.parametrize(
        "zone", ["Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe", "\0", "é", "x" * 100, "zone.tab", "."]
    )
    def test_an_unknown_zone_is_an_error(self, zone: str) -> None:
        wrong = ticks.read(b"* * * * *", zone.encode())
        assert isinstance(wrong, bytes)
        assert wrong.startswith(b"ERR unknown time zone")

    def test_equal_specs_share_one_row(self) -> None:
        assert row("5 4 * * *", "Europe/Berlin") is row("5 4 * * *", "Europe/Berlin")

    def test_the_end_of_the_calendar_is_the_end(self) -> None:
        assert row("0 0 29 2 *").after(ticks.TIME_END - 1) > 0
        assert row("* * * * *").after(ticks.TIME_END) == 0
        assert row("@every 1s").after(-1) == 0

    @given(st.binary(max_size=40), st.binary(max_size=12))
    @settings(max_examples=300, deadline=None)
    def test_any_bytes_are_a_row_or_an_error(self, spec: bytes, zone: bytes) -> None:
        found = ticks.read(spec, zone)
        assert isinstance(found, bytes) or found.after(1_800_000_000) > 1_800_000_000

    @given(st.text("0123456789*,-/#LW@ mon", max_size=30))
    @settings(max_examples=500, deadline=None)
    def test_all_that_looks_like_a_spec_is_a_row_or_an_error(self, spec: str) -> None:
        found = ticks.read(spec.encode(), b"Europe/Berlin")
        assert isinstance(found, bytes) or found.after(1_800_000_000) > 1_800_000_000


class TestZones:
    def test_a_time_that_is_skipped_counts_at_the_first_valid_one(self) -> None:
        found = said("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", 3)
        assert found == ["03-28 02:30+0100", "03-29 03:00+0200", "03-30 02:30+0200"]

    def test_several_that_are_skipped_count_once_together(self) -> None:
        found = said("*/20 2,3 * * *", "Europe/Berlin", "2026-03-29 00:00", 4)
        assert found == ["03-29 03:00+0200", "03-29 03:20+0200", "03-29 03:40+0200", "03-30 02:00+0200"]

    def test_a_time_that_comes_twice_counts_once(self) -> None:
        found = said("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 2)
        assert found == ["10-25 02:30+0200", "10-26 02:30+0100"]
        found = said("*/30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 3)
        assert found == ["10-25 02:00+0200", "10-25 02:30+0200", "10-26 02:00+0100"]

    def test_nothing_is_due_again_within_the_second_one(self) -> None:
        second = at("2026-10-25 02:10", "Europe/Berlin", fold=1)
        assert row("30 2 * * *", "Europe/Berlin").after(second) == at("2026-10-26 02:30", "Europe/Berlin")

    @pytest.mark.parametrize("spec", ["15 * * * *", "15 0-23 * * *", "15 */1 * * *"])
    def test_each_hour_means_each_hour_that_passes(self, spec: str) -> None:
        for begin in ("2026-03-28 20:00", "2026-10-24 20:00"):
            found = list(islice(row(spec, "Europe/Berlin").walk(at(begin, "Europe/Berlin")), 12))
            assert {later - earlier for earlier, later in pairwise(found)} == {3600}

    def test_every_other_hour_means_local_hours(self) -> None:
        found = said("0 */2 * * *", "Europe/Berlin", "2026-03-28 23:00", 3)
        assert found == ["03-29 00:00+0100", "03-29 03:00+0200", "03-29 04:00+0200"]

    def test_midnight_that_is_skipped(self) -> None:
        assert said("@daily", "America/Havana", "2026-03-07 12:00", 1) == ["03-08 01:00-0400"]

    def test_a_day_that_is_skipped(self) -> None:
        found = said("0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", 3)
        assert found == ["12-29 12:00-1000", "12-31 00:00+1400", "12-31 12:00+1400"]

    def test_half_an_hour(self) -> None:
        assert said("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", 1) == ["10-04 02:30+1100"]
        assert said("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05 01:20", 3)[:2] == [
            "04-05 01:30+1100",
            "04-05 01:45+1100",
        ]

    def test_each_hour_where_clocks_are_set_back_by_half_of_one(self) -> None:
        found = ["04-05 01:45+1100", "04-05 01:45+1030", "04-05 02:45+1030"]
        assert said("45 * * * *", "Australia/Lord_Howe", "2026-04-05 01:00", 3) == found

    def test_the_zone_of_the_machine_does_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = said("0 9 * * *", "Asia/Tokyo", "2026-01-01 00:00", 2)
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        try:
            assert said("0 9 * * *", "Asia/Tokyo", "2026-01-01 00:00", 2) == expected
            assert row("0 0 * * *").after(at("2026-06-01 12:00")) == at("2026-06-02 00:00")
        finally:
            monkeypatch.undo()
            time.tzset()

    @pytest.mark.parametrize(
        "zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Casablanca"]
    )
    @pytest.mark.parametrize("spec", ["*/7 * * * *", "0-59/7 1-23/3 * * *", "30 1,2,3 * * *"])
    def test_ticks_are_whole_minutes_in_order_and_of_the_spec(self, spec: str, zone: str) -> None:
        place = ZoneInfo(zone)
        found = list(islice(row(spec, zone).walk(at("2026-01-01 00:00")), 3000))
        assert found == sorted(set(found))
        assert all(tick % 60 == 0 for tick in found)
        local = [datetime.fromtimestamp(tick, place) for tick in found]
        odd = [one for one in local if one.minute % 7 and "7" in spec]
        assert len(odd) == 0

    def test_a_walk_that_begins_anywhere_finds_the_same(self) -> None:
        spec = row("20,40 1,2,3 * * *", "Europe/Berlin")
        begin, end = at("2026-10-24 00:00"), at("2026-10-27 00:00")
        expected = [tick for tick in islice(spec.walk(begin), 100) if tick < end]
        assert len(expected) == 16
        for moment in range(begin, expected[-1], 577):
            assert next(spec.walk(moment)) == min(tick for tick in expected if tick > moment)


class TestBack:
    @pytest.mark.parametrize("spec", ["*/5 * * * *", "0 9 * * mon", "@every 37s", "0 0 1 1 *", "* * 1 1 *"])
    def test_the_last_ticks_before_a_time(self, spec: str) -> None:
        now = at("2026-11-24 06:00")
        found = row(spec)
        last = found.back(now, 1)
        assert last < now
        assert found.after(last) >= now
        third = found.back(now, 3)
        assert list(islice(found.walk(third), 2))[-1] == last

    def test_when_there_are_fewer(self) -> None:
        assert row("@every 10s").back(35, 100) == 10
        assert row("@every 10s").back(5, 1) == 0
        assert row("@daily").back(86_401, 5) in {0, 86_400}

    def test_some_are_not_looked_for_for_ever(self) -> None:
        now = at("2026-11-24 06:00")
        assert len(row("0 0 29 2 *").some(now, 1000, 100 * 366 * 86_400)) == 24
        assert len(row("* * * * *").some(now, 1000, 100 * 366 * 86_400)) == 1000
        assert datetime.fromtimestamp(row("0 0 * 2 mon#5").some(now, 1000, 86_400)[0], UTC).day == 29


@pytest.mark.plain_only("looks are counted by putting something in the place of the library")
def test_a_spec_that_is_rarely_due_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    search = CronSim

    def count(fields: str, begin: datetime) -> object:
        looks.append(begin)
        return search(fields, begin)

    rare = row("0 0 * 2 1#5")
    monkeypatch.setattr(ticks, "CronSim", count)
    begin = at("2026-11-24 00:00:00")
    first = rare.after(begin)
    assert [rare.after(begin + later) for later in (1, 60, 86_400)] == [first] * 3
    assert rare.after(first - 1) == first
    assert len(looks) == 1
    assert rare.after(first) > first
    assert rare.after(begin) == first, "time may go back"
