"""The examples of README.md and of some pages in docs/ are played against real nodes, page by page.

A page is one session. The ID in its examples stands for the job that the last ADDJOB before has made. What a page tells
in its prose (a consumer takes a job, a job dies) happens before the first example that needs it: see `STORY`. In
docs/commands.md, each example is a session of its own, on a node without jobs.
"""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import pytest

from disque.client import Disque, Job
from disque.client.stream import Jobs
from disque.core.commands import ROWS
from tests.conftest import ROOT
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node, Raw, ServerError

pytestmark = pytest.mark.slow

NAMES: Final = {row.name.decode() for row in ROWS}
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID: Final = re.compile(r"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}")
WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
PORTS: Final = ("7711", "7712", "7713")

#: What happens before the examples that begin so; `-` is the ID of the job that is spoken of.
STORY: Final[dict[str, list[str]]] = {
    "NACK": ["GETJOB FROM mails"],
    "QLEN mails:dead": ["ADDJOB mails bad 1000", "GETJOB FROM mails", "NACK - DEAD"],
    "REVIVE mails:dead": ["DEBUG FLUSHALL", "ADDJOB mails bad 1000", "GETJOB FROM mails", "NACK - DEAD"],
    "ACKJOB": ["GETJOB FROM reports"],
    "WORKING": ["ADDJOB reports more 1000", "GETJOB FROM reports"],
    "GETJOB LEASE 0.5 FROM thumbnails": ["ADDJOB thumbnails picture 1000"],
    "GETJOB LEASE 3600 FROM videos": ["ADDJOB videos film 1000"],
}


class Session:
    """The replies of a page, at the first of the nodes unless it says another port."""

    def __init__(self, cluster: Cluster, redis_cli: str) -> None:
        self.ports = [str(node.port) for node in cluster.members]
        self.redis_cli = redis_cli
        self.raw = Raw(("127.0.0.1", cluster.members[0].port))
        self.job = ""
        self.replies: list[tuple[str, Any]] = []

    def close(self) -> None:
        self.raw.close()

    def own(self, text: str) -> str:
        """The text with the ports and the ID of this session."""
        for theirs, mine in zip(PORTS, self.ports, strict=True):
            text = re.sub(rf"\b{theirs}\b", mine, text)
        return ID.sub(lambda _: self.job, text) if self.job else text

    def play(self, line: str) -> None:
        """One command as it stands in a block; an error fails the test."""
        for first, before in STORY.items():
            if line == first or (line.startswith(first + " ") and " " not in first):
                for each in before:
                    self.ask(each)
        self.replies.append((line, self.ask(line)))

    def ask(self, line: str) -> Any:
        words = [quoted or bare for quoted, bare in WORD.findall(self.own(line))]
        reply = self.raw.ask(*[self.job if word == "-" else word for word in words])
        assert not isinstance(reply, ServerError), f"{line}: {reply}"
        if words[0] == "ADDJOB":
            self.job = reply.decode()
        return reply

    def shell(self, line: str, answer: str) -> None:
        """A command of the system's shell, whose output is to be ``answer`` but for the ID."""
        words = [quoted or bare for quoted, bare in WORD.findall(self.own(line))]
        assert words[0] == "redis-cli", line
        done = subprocess.run(
            [self.redis_cli, "--no-raw", *words[1:]], capture_output=True, text=True, timeout=60, check=True
        )
        got = done.stdout
        if "ADDJOB" in words:
            (self.job,) = ID.findall(got)
            got = self.job + "\n"  # without the quotes that it has for everybody who is no terminal
        assert got == self.own(answer), line

    def block(self, text: str) -> None:
        """A block without a language: commands of the server, or of the shell with what they answer."""
        lines = text.splitlines()
        if lines[0].startswith("$ redis-cli"):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, answer = part.partition("\n")
                self.shell(command, answer)
            return
        for line in lines:
            if line.split()[0].lower() in NAMES and line.split()[0].isupper():
                self.play(line)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes as `make run` starts them."""
    nodes = Cluster(tmp_path_factory.mktemp("nodes"), 3, "--default-replicate", "2")
    nodes.start_whole()
    yield nodes
    nodes.discard()


@pytest.fixture
def session(cluster: Cluster, redis_cli: str) -> Iterator[Session]:
    one = Session(cluster, redis_cli)
    one.ask("DEBUG FLUSHALL")
    yield one
    one.close()


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in this language, in order."""
    return [text for name, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if name == language]


def test_the_commands_of_the_guide_are_answered_as_it_says(session: Session) -> None:
    for text in blocks("docs/guide.md", ""):
        session.block(text)
    told = dict(session.replies)
    assert told["QLEN mails:dead"] == 1
    assert [job[0] for job in told["GETJOB WITHMETA FROM mails:dead"]] == [b"mails:dead"]
    assert told["REVIVE mails:dead"][:2] == [b"count", 1]
    ((_, waited),) = [pair for pair in told.items() if pair[0].startswith("WAITJOB")]
    assert waited == [[b"done", b"17 pages"]]
    assert b"17 pages" in told[next(line for line in told if line.startswith("RESULT"))]


def test_the_commands_of_the_readme_are_answered_as_it_says(session: Session) -> None:
    (text,) = [text for text in blocks("README.md", "") if text.startswith("$ redis-cli")]
    session.block(text)


EXAMPLE: Final = re.compile(r"^> (.*)\n((?:(?!> ).*\n)*)", re.MULTILINE)


def test_the_examples_of_commands_are_answered_as_they_say(shared: Node, redis_cli: str) -> None:
    """To the byte, as redis-cli shows it; `...` is anything."""
    wrong = []
    for text in blocks("docs/commands.md", "console"):
        assert shared.ask("DEBUG", "FLUSHALL") == b"OK"
        job = ""
        for line, answer in EXAMPLE.findall(text):
            words = [quoted or bare for quoted, bare in WORD.findall(line.replace("D-...", job))]
            shown = subprocess.run(
                [redis_cli, "-p", str(shared.port), "--no-raw", *words], capture_output=True, text=True, check=True
            ).stdout
            if words[0] == "ADDJOB" and (found := ID.match(shown)):
                job = found[0]
            pattern = ".*?".join(map(re.escape, ID.sub("...", answer).split("...")))
            if not re.fullmatch(pattern, shown, re.DOTALL):
                wrong.append(f"> {line}\n{shown}")
    assert not wrong, "\n".join(wrong)


def test_each_command_of_jobs_and_queues_has_an_example() -> None:
    wanted = {row.name.decode().upper() for row in ROWS if row.group in {"jobs", "queues"}}
    played = {line.split()[0] for text in blocks("docs/commands.md", "console") for line, _ in EXAMPLE.findall(text)}
    assert wanted - played == {"QHISTORY"}, "whose reply is mostly zeros"


def test_the_commands_about_schedules_are_answered(session: Session) -> None:
    for text in blocks("docs/schedules.md", ""):
        session.block(text)
    told = dict(session.replies)
    assert len(told['CRON NEXT "0 2 * * *" 3 TZ Europe/Berlin']) == 3
    assert told["CRON GET nightly"][:4] == [b"name", b"nightly", b"spec", b"0 2 * * *"]
    assert len(told["CRON RUN nightly"]) == 40
    assert [told[f"CRON {verb} nightly"] for verb in ("PAUSE", "RESUME", "DEL")] == [1, 1, 1]
    session.ask("CRON DEL poll")


# -- Python ------------------------------------------------------------------------------------------------------------


class Once:
    """Jobs of a stream, which ends behind the first one: examples wait for more without end."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def __enter__(self) -> Self:
        self._jobs.__enter__()
        return self

    def __exit__(self, *why: object) -> None:
        self._jobs.close()

    def __iter__(self) -> Iterator[Job]:
        for job in self._jobs:
            yield job
            self._jobs.stop()

    def stop(self) -> None:
        self._jobs.stop()


class Short(Disque):
    """A client whose streams end behind the first job."""

    def jobs(self, *queues: Any, **options: Any) -> Any:
        return Once(super().jobs(*queues, **options))


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/client.md", "docs/schedules.md"])
def test_the_programs_of_a_page_run(page: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Job] = []
    monkeypatch.setattr("disque.client.Disque", Short)
    before: dict[str, Callable[[Short], object]] = {
        "nohang=True": kill_one,
        'disque.jobs("sums")': lambda disque: disque.add("sums", "[1, 2]"),
        'disque.jobs("mails")': lambda disque: disque.add("mails", "one more"),
    }
    names: dict[str, Any] = {"body": "b", "send": sent.append, "json": json, "signal": signal}  # imports stay
    with Short.from_url(f"disque://127.0.0.1:{session.ports[0]}") as disque:
        for text in blocks(page, "python"):
            if page == "README.md" and "disque.client" not in text:
                continue  # of other packages, whose pages have tests of their own
            for sign, prepare in before.items():
                if sign in text:
                    prepare(disque)
            names["disque"] = disque
            with monkeypatch.context() as patch:
                patch.setattr(signal, "signal", lambda *_: None)
                exec(compile(session.own(text).replace("timeout=30", "timeout=0.1"), page, "exec"), names)
    assert page != "docs/client.md" or len(sent) == 1


def kill_one(disque: Disque) -> None:
    """Let a job become a dead letter."""
    disque.add("mails", "bad")
    (job,) = disque.get("mails")
    job.dead("broken")


def test_each_example_of_the_story_is_there() -> None:
    lines = [line for text in blocks("docs/guide.md", "") for line in text.splitlines()]
    for first in STORY:
        assert any(line == first or line.startswith(first + " ") for line in lines), first
