"""The commands that show and put right, on a real node."""

import asyncio
import json

import pytest

from disque.client import AsyncDisque, Config, NewJob
from disque.tasks.listing import cell, config_of, main, parser, table, unknown_flag
from tests.tasks.support import Shop


class Shell:
    def __init__(self, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
        self.port = str(shop.config.nodes[0][1])
        self.capsys = capsys

    def run(self, *words: str) -> str:
        assert main([*words, "-p", self.port]) == 0
        return self.capsys.readouterr().out

    def rows(self, *words: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.run(*words, "--json").splitlines()]


def test_commands(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shell, queue = Shell(shop, capsys), shop.queue

    async def prepare() -> tuple[str, str]:
        async with AsyncDisque(shop.config) as client:
            later = await client.add(queue, b'{"task":"mail","args":[7]}', delay=1000)
            await client.add(queue, b"\xff", tries=1)
            [job] = await client.get(queue)
            await job.fail("bad\nthing " + "x" * 100)
            await client.set_schedule(f"{queue}-nightly", "@daily", NewJob(queue, "x"))
            return later, job.id

    later, dead = asyncio.run(prepare())
    [row] = shell.rows("queues", queue)
    assert (row["delayed"], row["dead"]) == (1, 1)
    assert "in-flight" in shell.run("queues", queue).splitlines()[0]
    assert [row["id"] for row in shell.rows("jobs", queue)] == [later]
    assert {row["what"]: row["value"] for row in shell.rows("jobs", later)}["task"] == "mail"
    assert {"queue": queue, "dead": 1} in shell.rows("dead")
    [row] = shell.rows("dead", queue)
    assert row["id"] == dead
    assert "bad thing xxx" in shell.run("dead", queue)
    assert shell.rows("dead", queue, "--revive") == [{"queue": f"{queue}:dead", "revive": 1, "unreachable": 0}]
    assert shell.rows("jobs", later, "--run-now") == [{"job": later, "run-now": 1}]
    assert shell.rows("jobs", later, "--cancel") == [{"job": later, "cancel": 1}]
    assert [row["paused"] for row in shell.rows("queues", queue, "--pause")] == ["out"]
    assert [row["paused"] for row in shell.rows("queues", queue, "--resume")] == ["none"]
    [row] = [row for row in shell.rows("cron") if row["name"] == f"{queue}-nightly"]
    assert row["spec"] == "@daily"
    assert str(row["next"]).endswith("00:00:00 UTC")
    assert f"{queue} " in shell.run("top", "--once")
    shell.run("workers")
    assert shell.run("jobs", "no such queue at all") == "none\n"


def test_what_makes_no_sense(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    port = str(shop.config.nodes[0][1])
    for words, reason in (
        (["queues", "--pause"], "which queue?"),
        (["queues", "mail*", "--pause"], "which queue?"),
        (["queues", "mail", "--pause", "--resume"], "which queue?"),
        (["jobs", "--cancel"], "--cancel needs the ID of a job"),
        (["dead", "--revive"], "--revive needs a queue"),
        (["jobs", "D-dc95f767-NMpun8G+aa7630zWd4snl4KZ-05a1"], "no node knows the job D-dc95f767-"),
        (["jobs", "D-dc95f767"], "D-dc95f767 is no ID of a job, which has 40 characters"),
        (["queues", "-u", "http://x"], "Invalid URL"),
        (["queues", "-u", "disque://127.0.0.1:1?attempts=1"], "no node could be used"),
    ):
        assert main([*words, "-p", port]) == 1
        assert reason in capsys.readouterr().err
    for wrong in (["nothing"], ["jobs", "q", "--status", "nonsense"]):
        with pytest.raises(SystemExit):
            main(wrong)


def test_where_the_nodes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def nodes(*words: str) -> object:
        return config_of(parser().parse_args(words)).nodes

    assert nodes("queues") == (("127.0.0.1", 7711),)
    assert nodes("-p", "5", "queues", "-h", "a") == (("a", 5),)
    monkeypatch.setenv("DISQUE_URL", "disque://b:7")
    assert nodes("queues") == (("b", 7),)
    assert nodes("queues", "-p", "8") == (("127.0.0.1", 8),)


def test_what_is_given_beside_a_url_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def config(*words: str) -> Config:
        return config_of(parser().parse_args(words))

    monkeypatch.setenv("DISQUE_AUTH", "of the environment")
    assert config("queues", "-u", "disque://a:1").password == "of the environment"
    assert config("queues", "-u", "disque://u:p@a:1").password == "p"
    given = config("queues", "-u", "disque://u:p@a:1", "-a", "q", "--user", "v")
    assert (given.user, given.password) == ("v", "q")
    safe = config("queues", "-u", "disque://a:1", "--tls", "--cacert", "ca", "--insecure")
    assert (safe.tls, safe.ca, safe.verify) == (True, "ca", False)
    assert config("queues", "-u", "disques://a:1").tls


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["-s", "/tmp/x", "queues"], "-s"),
        (["--sni=x", "jobs", "q"], "--sni"),
        (["--raw", "top"], "--raw"),
        (["-p7711", "queues", "-s"], ""),
        (["-p", "7711", "--json", "dead"], ""),
    ],
)
def test_flags_of_the_shell_are_named(words: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert unknown_flag(words) == flag
    if flag:
        assert main(words) == 1
        assert f"{flag} is for commands of the server" in capsys.readouterr().err


def test_tables() -> None:
    assert table([{"name": "a", "in_flight": 5}, {"name": "long", "in_flight": 10}]) == [
        "name  in-flight",
        "a             5",
        "long         10",
    ]
    assert cell(b"\xff") == "/w=="
    assert cell("a\nb " + "x" * 100).endswith("...")
    assert cell(None) == ""
    assert cell("\x1b]0;owned\x07\u202e é 猫") == r"\x1b]0;owned\x07\u202e é 猫"
