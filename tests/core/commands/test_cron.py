"""CRON: what its words mean, and what it answers."""

from typing import Any

import hiredis
import pytest

from cluster.capabilities import MINE, SCHEDULES
from disque.core import entries
from disque.core.commands import cron
from disque.core.schedule import ticks
from disque.core.schedule.ticks import Ticks
from tests.core.support import Bench, Client

WALL_S = 1_800_000_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(journaling=True)
    bench.host.now_us = WALL_S * 1_000_000
    return bench


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def as_dict(flat: list[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def shown(client: Client, name: str = "s") -> dict[str, Any]:
    return as_dict(client("CRON", "GET", name))


class TestSet:
    def test_what_is_set_is_shown(self, client: Client) -> None:
        options = ("RETRY", 5, "HEADER", "tz", "catchup", "TZ", "Europe/Berlin", "PRIORITY", 3, "catchup", "ALL")
        assert client("CRON", "SET", "s", "0 9 * * mon-fri", "q", b"\0body\xff", *options) == b"OK"
        row = ticks.read(b"0 9 * * mon-fri", b"Europe/Berlin")
        assert isinstance(row, Ticks)
        assert shown(client) == {
            "name": b"s",
            "spec": b"0 9 * * mon-fri",
            "tz": b"Europe/Berlin",
            "catchup": b"all",
            "paused": 0,
            "queue": b"q",
            "last": None,
            "next": row.after(WALL_S),
            "node": client.bench.node.node_id,
            "body": b"\0body\xff",
            "options": [b"RETRY", b"5", b"HEADER", b"tz", b"catchup", b"PRIORITY", b"3"],
        }

    @pytest.mark.parametrize(
        ("words", "wrong"),
        [
            (("", "@hourly", "q", "b"), "ERR the name of a schedule"),
            (("x" * 257, "@hourly", "q", "b"), "ERR the name of a schedule"),
            (("a\nb", "@hourly", "q", "b"), "ERR the name of a schedule"),
            (("s", "hourly", "q", "b"), "ERR the spec must have five fields"),
            (("s", "0 0 30 2 *", "q", "b"), "ERR bad day-of-month in the spec '0 0 30 2 *'"),
            (("s", "@every 0s", "q", "b"), "ERR @every needs a duration"),
            (("s", "@hourly", "q", "b", "TZ", "Mars"), "ERR unknown time zone 'Mars'"),
            (("s", "@hourly", "q", "b", "TZ"), "ERR syntax error"),
            (("s", "@hourly", "q", "b", "TZ", "UTC", "TZ", "UTC"), "ERR TZ can be said once"),
            (("s", "@hourly", "q", "b", "CATCHUP", "some"), "ERR CATCHUP must be none, last or all"),
            (("s", "@hourly", "q", "b", "UNIQUE", "k", "3"), "ERR UNIQUE cannot be said in CRON SET"),
            (("s", "@hourly", "q", "b", "async"), "ERR ASYNC cannot be said in CRON SET"),
            (("s", "@hourly", "q", "b", "RETRY", "x"), "ERR RETRY time must be"),
            (("s", "@hourly", "q", "b", "RETRY"), "ERR syntax error"),
            (("s", "@hourly", "q", "b", "WHAT", "x"), "ERR syntax error"),
            (("s", "@hourly", "q", "b", "HEADER", "cron-name", "x"), "ERR a job can have one HEADER of each name"),
            (("s", "@hourly", "q", "b", "HEADER", "h", "x" * 65_530), "ERR a job can have at most 64 headers"),
            (("s", "@hourly", "q", "b", "RETRY", "0", "REPLICATE", "2"), "ERR With RETRY set to 0"),
            (("s", "@hourly", "q", "b" * entries.VALUE_MOST), "ERR a schedule, its body included"),
        ],
        ids=lambda value: repr(value)[:60],
    )
    def test_what_is_wrong_is_said_and_nothing_set(self, client: Client, words: tuple[Any, ...], wrong: str) -> None:
        assert client.error("CRON", "SET", *words).startswith(wrong)
        assert client("CRON", "LIST") == [b"0", []]
        assert client.bench.node.registry.count == 0

    def test_names_are_of_any_bytes_but_control_characters(self, bench: Bench, client: Client) -> None:
        name = bytes(byte for byte in range(256) if byte >= 32 and byte != 127)
        assert client("CRON", "SET", name, "@every 10s", "q\r\n", "b") == b"OK"
        assert client("CRON", "GET", name)[1] == name
        bench.host.now_us += 10_000_000
        bench.live(10_000)
        assert len(client.get("q\r\n")) == 1

    def test_to_set_the_same_again_changes_nothing(self, bench: Bench, client: Client) -> None:
        client("CRON", "SET", "s", "@hourly", "q", "b", "RETRY", 5)
        records = bench.records()
        assert len(records) == 1
        bench.host.now_us += 10_000_000
        assert client("CRON", "SET", "s", "@hourly", "q", "b", "RETRY", 5) == b"OK"
        assert bench.records() == []

    def test_a_schedule_that_is_set_again_stays_paused(self, client: Client) -> None:
        client("CRON", "SET", "s", "@hourly", "q", "b")
        client("CRON", "PAUSE", "s")
        client("CRON", "SET", "s", "@daily", "q", "c")
        assert (shown(client)["paused"], shown(client)["next"], shown(client)["body"]) == (1, None, b"c")

    def test_it_is_refused_while_a_node_does_not_know_schedules(self) -> None:
        bench = Bench(peers=2)
        client = bench.client()
        old = bench.peers[1]
        bench.membership.set_capabilities(old.id, MINE & ~SCHEDULES)
        bench.link_up(old)
        wrong = client.error("CRON", "SET", "s", "@hourly", "q", "b")
        assert wrong == f"ERR CRON SET needs all nodes to know it: node {old.id.decode()} runs an older version"
        bench.link_down(old)
        assert old.id.decode() in client.error("CRON", "SET", "s", "@hourly", "q", "b"), "it will be back"
        bench.membership.set_capabilities(old.id, MINE)
        bench.link_up(old)
        assert client("CRON", "SET", "s", "@hourly", "q", "b") == b"OK"

    def test_beyond_the_bound_nothing_more_can_be_set_but_paused_and_deleted(
        self, bench: Bench, client: Client
    ) -> None:
        bench.node.registry_most = 2000
        replies = [client("CRON", "SET", f"s{number}", "@hourly", "q", "b") for number in range(10)]
        assert replies[0] == b"OK"
        assert str(replies[-1]).startswith("ERR the nodes of this cluster share too many settings")
        assert client("CRON", "PAUSE", "s0") == 1
        assert client("CRON", "DEL", "s0") == 1

    def test_without_memory_nothing_is_set(self, bench: Bench, client: Client) -> None:
        client.add("q", b"x" * 200_000)
        bench.set("maxmemory", 100_000)
        assert client.error("CRON", "SET", "s", "@hourly", "q", "b").startswith("OOM")


class TestOthers:
    def test_del_pause_and_resume_say_whether_they_changed_something(self, client: Client) -> None:
        client("CRON", "SET", "s", "@hourly", "q", "b")
        verbs = ("PAUSE", "pause", "RESUME", "RESUME", "DEL", "DEL", "PAUSE", "RESUME")
        assert [client("CRON", verb, "s") for verb in verbs] == [1, 0, 1, 0, 1, 0, 0, 0]
        assert client("CRON", "GET", "s") is None

    def test_list_walks_through_all(self, bench: Bench, client: Client) -> None:
        for number in range(cron.NAMES + 5):
            client("CRON", "SET", f"s{number}", "@hourly", "q", "b" * 1000)
        bench.settle()
        cursor, first = client("CRON", "LIST", 0)
        end, rest = client("CRON", "LIST", cursor)
        names = [as_dict(row)["name"] for row in (*first, *rest)]
        assert (len(first), end) == (cron.NAMES, b"0")
        assert names == [b"s%d" % number for number in range(cron.NAMES + 5)]
        assert "body" not in as_dict(first[0])
        assert client.error("CRON", "LIST", "x").startswith("ERR invalid cursor")

    def test_in_resp3_they_are_maps(self, bench: Bench) -> None:
        client = bench.client()
        client("HELLO", 3)
        client("CRON", "SET", "s", "@hourly", "q", "b")
        assert client("CRON", "GET", "s")[b"spec"] == b"@hourly"
        assert client("CRON", "LIST")[1][0][b"name"] == b"s"

    def test_run_adds_the_job_now(self, bench: Bench, client: Client) -> None:
        client("CRON", "SET", "s", "@yearly", "q", "b", "HEADER", "x", "y", "RETRY", 9)
        first, second = client("CRON", "RUN", "s"), client("CRON", "RUN", "s")
        assert first != second
        job = bench.job(first)
        extra = bench.node.extra_of(job)
        assert extra is not None
        assert extra.headers == (b"x", b"y", b"cron-name", b"s", b"cron-tick", b"%d" % WALL_S)
        assert (job.body, job.retry) == (b"b", 9)
        assert client.error("CRON", "RUN", "other").startswith("ERR there is no schedule")

    def test_run_waits_for_copies_as_addjob_does(self) -> None:
        bench = Bench(peers=1)
        client = bench.client()
        client("CRON", "SET", "s", "@yearly", "q", "b", "REPLICATE", 2)
        client("CRON", "RUN", "s")
        assert client.waiting
        bench.confirm(next(iter(bench.node.copies.wanted)), bench.peers[0])
        assert isinstance(client.read(), bytes)

    def test_next_tells_ticks(self, client: Client) -> None:
        assert client("CRON", "NEXT", "@every 1h", 3) == [WALL_S + 3600 * hours for hours in (1, 2, 3)]
        assert client("CRON", "NEXT", "0 0 * * *", 1, "TZ", "Asia/Tokyo") == [WALL_S - WALL_S % 86_400 + 54_000]
        assert len(client("CRON", "NEXT", "0 0 29 2 *", 1000)) == 3
        for count in (0, -1, 1001, "x"):
            assert client.error("CRON", "NEXT", "@daily", count).startswith("ERR the count must be")
        assert client.error("CRON", "NEXT", "@never", 1).startswith("ERR the spec must have five fields")

    @pytest.mark.parametrize(
        "words",
        [("WHAT",), ("SET",), ("SET", "s", "@daily", "q"), ("GET",), ("DEL", "a", "b"), ("NEXT", "@daily", 1, "UTC")],
    )
    def test_other_words_are_a_syntax_error(self, client: Client, words: tuple[Any, ...]) -> None:
        assert client.error("CRON", *words) == "ERR syntax error"

    def test_help(self, client: Client) -> None:
        assert any(b"CATCHUP" in line for line in client("CRON", "HELP"))

    def test_a_spec_that_is_not_known_here_is_shown_without_ticks(self, bench: Bench, client: Client) -> None:
        client("CRON", "SET", "s", "@daily", "q", "b")
        entry = bench.node.registry.entries()[0]
        entry.value = entry.value.replace(b"@daily", b"@lunar")
        bench.node.registry.schedules[b"s"] = None
        assert shown(client)["next"] is None
        assert isinstance(ticks.read(b"@lunar", b""), bytes)
        assert not isinstance(client("CRON", "RUN", "s"), hiredis.ReplyError)
