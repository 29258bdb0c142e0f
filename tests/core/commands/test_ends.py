"""CANCEL, RESULT, WAITJOB, and what ACKJOB, WORKING and SHOW say with them: at one node, and all bad input."""

from typing import Any

import pytest

from disque.core.model.extra import PROGRESS_MOST
from disque.core.model.memory import QUEUE_BYTES
from tests.core.support import UNKNOWN_ID, Bench, Client

MALFORMED = "BADID Invalid Job ID format."
NOTHING = [[None]]


def result(client: Client, job: bytes) -> dict[str, Any]:
    """What RESULT says, by name; nothing if no node knows the job."""
    reply = client("RESULT", job) or []
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}


def taken(client: Client, *options: str | int) -> bytes:
    """A job that a consumer has."""
    job = client.add("q", "body", *options)
    assert client.get("q") == [job]
    return job


class TestResult:
    def test_a_result_is_kept_for_the_retain_of_its_job(self, bench: Bench, client: Client) -> None:
        job = taken(client, "RETAIN", 60)
        assert client("ACKJOB", job, "RESULT", "value") == 1
        assert result(client, job) == {
            "id": job,
            "queue": b"q",
            "status": b"done",
            "result": b"value",
            "error": None,
            "tries": 0,
            "ended-ms-ago": 0,
            "progress": None,
        }
        bench.advance(59_999)
        assert result(client, job)["ended-ms-ago"] == 59_999
        bench.advance(1)
        assert result(client, job) == {}

    def test_it_outlives_the_ttl_of_its_job(self, bench: Bench, client: Client) -> None:
        job = taken(client, "RETAIN", 600, "TTL", 10)
        client("ACKJOB", job, "RESULT", "value")
        bench.advance(599_999)
        assert result(client, job)["result"] == b"value"

    def test_without_retain_nothing_is_kept(self, bench: Bench, client: Client) -> None:
        job = taken(client)
        assert client("ACKJOB", job, "RESULT", "value") == 1
        assert result(client, job) == {}
        assert bench.node.used == QUEUE_BYTES + 1

    def test_of_two_results_the_first_counts(self, client: Client) -> None:
        job = taken(client, "RETAIN", 60)
        assert [client("ACKJOB", job, "RESULT", value) for value in ("one", "two")] == [1, 0]
        assert result(client, job)["result"] == b"one"

    @pytest.mark.parametrize("words", [("ACKJOB",), ("FASTACK",)])
    def test_who_says_no_result_has_none(self, client: Client, words: tuple[str, ...]) -> None:
        job = taken(client, "RETAIN", 60)
        assert client(*words, job) == 1
        assert (result(client, job)["status"], result(client, job)["result"]) == (b"done", None)

    def test_jobs_that_go_on_are_told_too(self, bench: Bench, client: Client) -> None:
        job = client.add("q", "body", "TRIES", 2, "DELAY", 1)
        assert result(client, job)["status"] == b"delayed"
        bench.advance(1000)
        assert result(client, job)["status"] == b"queued"
        client.get("q")
        assert result(client, job)["status"] == b"in-flight"
        client("NACK", job, "ERROR", "broken", "DELAY", 1)
        found = result(client, job)
        assert (found["status"], found["tries"], found["error"]) == (b"delayed", 1, b"broken")
        assert found["ended-ms-ago"] is None
        bench.advance(1000)
        client.get("q")
        client("NACK", job)
        assert (result(client, job)["status"], result(client, job)["queue"]) == (b"dead-letter", b"q:dead")

    def test_jobs_that_nobody_wants_as_dead_letters_are_dead(self, client: Client) -> None:
        job = taken(client, "TRIES", 1, "DEADLETTER", "", "RETAIN", 60)
        client("NACK", job, "ERROR", "broken")
        found = result(client, job)
        assert (found["status"], found["error"], found["tries"]) == (b"dead", b"broken", 1)

    def test_jobs_whose_life_is_over_have_expired(self, bench: Bench, client: Client) -> None:
        job = client.add("q", "body", "TTL", 10, "RETAIN", 60)
        bench.advance(10_000)
        client.send("RESULT", job)
        bench.advance(3000)
        reply = client.read()
        assert dict(zip(reply[::2], reply[1::2], strict=True))[b"status"] == b"expired"

    def test_nobody_knows_it(self, client: Client) -> None:
        assert client("RESULT", UNKNOWN_ID) is None
        assert client.error("RESULT", "x") == MALFORMED

    def test_the_longest_result_is_a_setting(self, bench: Bench, client: Client) -> None:
        bench.set("max-result-bytes", 4)
        job = taken(client, "RETAIN", 60)
        assert client.error("ACKJOB", job, "RESULT", "12345") == "ERR RESULT is longer than max-result-bytes (4 bytes)"
        assert result(client, job)["status"] == b"in-flight"
        assert client("ACKJOB", job, "RESULT", "1234") == 1

    def test_a_result_is_of_one_job(self, client: Client) -> None:
        one, two = client.add("q"), client.add("q")
        assert client.error("ACKJOB", one, two, "RESULT", "x") == MALFORMED
        assert client.error("ACKJOB", one, "RESULT") == MALFORMED
        assert client.error("ACKJOB", "x", "RESULT", "y") == MALFORMED
        assert client("QLEN", "q") == 2


class TestRetain:
    @pytest.mark.parametrize("retain", ["-1", "x", "31536001", "1e3"])
    def test_it_has_bounds(self, client: Client, retain: str) -> None:
        text = "ERR RETAIN must be a number of seconds between 0 and 31536000"
        assert client.error("ADDJOB", "q", "b", 0, "RETAIN", retain) == text

    def test_it_is_said_once(self, client: Client) -> None:
        assert client.error("ADDJOB", "q", "b", 0, "RETAIN", 1, "RETAIN", 2) == "ERR RETAIN can be said once"
        assert client.error("ADDJOB", "q", "b", 0, "RETAIN") == "ERR syntax error"

    def test_it_goes_with_at_most_once(self, client: Client) -> None:
        job = taken(client, "RETRY", 0, "REPLICATE", 1, "RETAIN", 60)
        client("ACKJOB", job, "RESULT", "value")
        assert result(client, job)["result"] == b"value"

    def test_a_job_that_is_delivered_at_most_once_dies_with_its_error(self, client: Client) -> None:
        job = taken(client, "RETRY", 0, "REPLICATE", 1, "RETAIN", 60)
        assert client("NACK", job, "DEAD", "ERROR", "why") == 1
        assert (result(client, job)["status"], result(client, job)["error"]) == (b"dead", b"why")
        queue = client("QSTAT", "q")
        assert queue[queue.index(b"died") + 1] == 1


class TestCancel:
    def test_jobs_end_in_any_state(self, client: Client) -> None:
        queued, delayed = client.add("q"), client.add("q", "b", "DELAY", 60)
        out = client.add("r")
        client.get("r")
        assert client("CANCEL", queued, delayed, out, UNKNOWN_ID) == 3
        assert client("CANCEL", queued, delayed, out) == 0
        assert client.get("q", "r") == []

    def test_those_that_a_consumer_has_are_left_alone(self, client: Client) -> None:
        out = client.add("r", "b", "RETRY", 5)
        client.get("r")
        queued = client.add("q")
        assert client("CANCEL", queued, out, "WAITING") == 1
        assert client("ACKJOB", out) == 1

    def test_the_consumer_hears_of_it(self, bench: Bench, client: Client) -> None:
        job = taken(client, "RETRY", 10)
        assert client("CANCEL", job) == 1
        text = "CANCELLED Job was cancelled, nobody wants it any more."
        assert client.error("WORKING", job) == text
        assert client("ACKJOB", job) == 0
        bench.advance(9999)
        assert client.error("WORKING", job) == text
        bench.advance(1)
        assert client.error("WORKING", job).startswith("NOJOB")

    def test_it_is_kept_for_the_retain_of_the_job(self, bench: Bench, client: Client) -> None:
        job = client.add("q", "b", "RETAIN", 60)
        client("CANCEL", job)
        bench.advance(59_000)
        assert result(client, job)["status"] == b"cancelled"

    def test_a_dead_letter_ends_too(self, client: Client) -> None:
        job = taken(client, "TRIES", 1)
        client("NACK", job)
        assert client("CANCEL", job) == 1
        assert client("QLEN", "q:dead") == 0

    @pytest.mark.parametrize("words", [("x",), ("WAITING",), (UNKNOWN_ID, "WAITING", UNKNOWN_ID)])
    def test_what_is_no_id(self, client: Client, words: tuple[str | bytes, ...]) -> None:
        assert client.error("CANCEL", *words) == MALFORMED


class TestWaitjob:
    def test_it_waits_for_all(self, bench: Bench, client: Client) -> None:
        one, two = (client.add("q", "b", "RETAIN", 60) for _ in range(2))
        waiting = bench.client()
        waiting.send("WAITJOB", 0, two, one)
        client("ACKJOB", one, "RESULT", "1")
        assert waiting.waiting
        client("ACKJOB", two, "RESULT", "2")
        assert waiting.read() == [[b"done", b"2"], [b"done", b"1"]]
        assert not bench.node.ends.wanted

    def test_or_for_any(self, bench: Bench, client: Client) -> None:
        one, two = client.add("q"), client.add("q")
        waiting = bench.client()
        waiting.send("WAITJOB", 0, one, two, "ANY")
        client("ACKJOB", two, "RESULT", "2")
        assert waiting.read() == [None, [b"done", b"2"]]
        assert not bench.node.ends.wanted

    def test_or_for_so_long(self, bench: Bench, client: Client) -> None:
        one, two = client.add("q"), client.add("q")
        waiting = bench.client()
        waiting.send("WAITJOB", 500, one, two)
        client("ACKJOB", one)
        bench.advance(499)
        assert waiting.waiting
        bench.advance(1)
        assert waiting.read() == [[b"done", None], None]

    def test_a_result_without_retain_is_for_those_who_wait(self, bench: Bench, client: Client) -> None:
        job = taken(client)
        waits = [bench.client() for _ in range(3)]
        for waiting in waits:
            waiting.send("WAITJOB", 0, job)
        client("ACKJOB", job, "RESULT", "value")
        assert [waiting.read() for waiting in waits] == [[[b"done", b"value"]]] * 3
        assert not bench.node.ends.by_id

    def test_what_has_ended_is_answered_at_once(self, client: Client) -> None:
        job = taken(client, "RETAIN", 60)
        client("ACKJOB", job, "RESULT", "value")
        assert client("WAITJOB", 0, job, job) == [[b"done", b"value"]] * 2

    @pytest.mark.parametrize(
        ("words", "reply"),
        [
            (("CANCEL",), [[b"cancelled", None]]),
            (("FASTACK",), [[b"done", None]]),
            (("NACK", "DEAD", "ERROR", "broken"), [[b"dead-letter", b"broken"]]),
        ],
    )
    def test_other_ends(self, bench: Bench, client: Client, words: tuple[str, ...], reply: list[Any]) -> None:
        job = taken(client)
        waiting = bench.client()
        waiting.send("WAITJOB", 0, job)
        client(words[0], job, *words[1:])
        assert waiting.read() == reply
        if words[0] == "NACK":
            assert client("WAITJOB", 0, job) == reply

    def test_the_end_of_its_life(self, bench: Bench, client: Client) -> None:
        job = client.add("q", "b", "TTL", 5)
        client.send("WAITJOB", 0, job)
        bench.advance(5000 + 2000)
        assert client.read() == [[b"expired", None]]

    def test_nobody_has_ever_heard_of_it(self, bench: Bench, client: Client) -> None:
        client.send("WAITJOB", 0, UNKNOWN_ID)
        bench.advance(999)
        assert client.waiting
        bench.advance(1)
        assert client.read() == [[b"unknown", None]]

    def test_who_leaves_is_forgotten(self, bench: Bench, client: Client) -> None:
        job = client.add("q")
        before = bench.node.used
        waiting = bench.client()
        waiting.send("WAITJOB", 0, job, UNKNOWN_ID)
        assert bench.node.used > before
        waiting.disconnect()
        assert (bench.node.used, bench.node.ends.wanted, bench.node.ends.watched) == (before, {}, {})

    def test_when_all_jobs_are_forgotten_nobody_waits_on(self, bench: Bench, client: Client) -> None:
        job = client.add("q")
        waiting = bench.client()
        waiting.send("WAITJOB", 0, job)
        client("DEBUG", "FLUSHALL")
        assert waiting.read() == [[b"gone", None]]

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("x", UNKNOWN_ID), "ERR timeout is not an integer or out of range"),
            (("-1", UNKNOWN_ID), "ERR timeout is negative"),
            (("0", "x"), MALFORMED),
            (("0", "ANY"), MALFORMED),
            (("0", UNKNOWN_ID, "ANY", UNKNOWN_ID), MALFORMED),
            (("0", *["x"] * 1000), MALFORMED),
            (("0", *[UNKNOWN_ID] * 1001), "ERR WAITJOB takes at most 1000 IDs"),
        ],
    )
    def test_what_it_refuses(self, bench: Bench, client: Client, words: tuple[str | bytes, ...], text: str) -> None:
        assert client.error("WAITJOB", *words) == text
        assert not bench.node.ends.by_session

    def test_it_has_a_bound(self, bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("disque.core.commands.ends.WATCHES_MOST", 2)
        jobs = [client.add("q") for _ in range(3)]
        text = "ERR clients of this node wait for too many jobs already: at most 2"
        assert client.error("WAITJOB", 0, *jobs) == text
        bench.client().send("WAITJOB", 0, *jobs[:2])
        assert client.error("WAITJOB", 0, jobs[2]) == text


class TestProgress:
    def test_it_is_shown(self, client: Client) -> None:
        job = taken(client, "RETRY", 60)
        assert client("WORKING", job, "PROGRESS", "page 9") == 60
        assert client.show(job)["progress"] == b"page 9"
        assert result(client, job)["progress"] == b"page 9"

    def test_of_several_jobs(self, client: Client) -> None:
        jobs = [client.add("q", "b", "RETRY", 60) for _ in range(2)]
        client.get("q", count=2)
        assert client("WORKING", *jobs, "PROGRESS", "half") == [60, 60]
        assert [client.show(job)["progress"] for job in jobs] == [b"half"] * 2

    def test_it_has_a_bound(self, client: Client) -> None:
        job = taken(client, "RETRY", 60)
        client("WORKING", job, "PROGRESS", "x" * 5000)
        assert client.show(job)["progress"] == b"x" * PROGRESS_MOST

    def test_it_may_be_any_word(self, client: Client) -> None:
        job = taken(client, "RETRY", 60)
        assert client("WORKING", job, "PROGRESS", "progress") == 60
        assert client.show(job)["progress"] == b"progress"

    @pytest.mark.parametrize("words", [("PROGRESS",), ("PROGRESS", "a", "b")])
    def test_it_is_one_text(self, client: Client, words: tuple[str, ...]) -> None:
        job = taken(client)
        assert client.error("WORKING", job, *words) in {"ERR PROGRESS takes one text, behind the IDs", MALFORMED}


def test_results_for_jobs_that_are_unknown_have_a_bound(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disque.core.replication.acks.STRANGE_MOST", 10)
    bench.meet(1)
    assert client("ACKJOB", UNKNOWN_ID, "RESULT", "1234567890") == 0
    text = "ERR there are 64mb of results here for jobs that no node has known yet: try again later"
    assert client.error("ACKJOB", UNKNOWN_ID[:-1] + b"b", "RESULT", "1") == text
