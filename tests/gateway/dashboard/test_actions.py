"""What pages can do, against a real node."""

from typing import Any
from urllib.parse import urlencode

import pytest

from disque.client import NewJob
from disque.gateway.dashboard import actions
from disque.gateway.dashboard.actions import ACTIONS, read, sentence
from tests.end_to_end.node import Node
from tests.gateway.support import Answer, Gateway

WRONG = [{"queue": ""}, {"delay": "soon"}, {"headers": "none"}, {"body": "zz", "hex": "1"}, {"tries": "-1"}]
ELSEWHERE = ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "x"]


def post(gateway: Gateway, name: str, fields: Any, **headers: str) -> Answer:
    body = urlencode(fields, doseq=True, errors="surrogateescape").encode()
    return gateway.ask("POST", f"/do/{name}", body, content_type="application/x-www-form-urlencoded", **headers)


def add(node: Node, queue: str = "q", body: str = "body", *words: object) -> str:
    answer = node.ask("ADDJOB", queue, body, 0, *map(str, words))
    assert isinstance(answer, bytes)
    return answer.decode()


def shown(job_id: str) -> str:
    return job_id.replace("+", ".").replace("/", "_")


def length(node: Node, queue: str) -> object:
    return node.ask("QLEN", queue)


def die(node: Node, error: str, queue: str = "q") -> str:
    """A dead letter with this error."""
    add(node, queue)
    [[_, job_id, _]] = node.ask("GETJOB", "FROM", queue)  # type: ignore[misc]  # a list of jobs
    assert node.ask("NACK", job_id, "ERROR", error, "DEAD") == 1
    return bytes(job_id).decode()


class TestJobs:
    def test_chosen_ones_are_cancelled(self, gateway: Gateway, node: Node) -> None:
        first, second, third = (add(node) for _ in range(3))
        answer = post(gateway, "cancel", {"id": [shown(first), shown(third)], "back": "/jobs?queue=q"})
        assert answer.status == 303
        assert answer.headers["location"] == "/jobs?queue=q&did=cancel&n=2"
        assert [row[1] for row in node.ask("QPEEK", "q", 10)] == [second.encode()]  # type: ignore[union-attr]  # a list

    def test_without_a_choice_nothing_is_done(self, gateway: Gateway, node: Node) -> None:
        add(node)
        answer = post(gateway, "cancel", {"queue": "q"})
        assert answer.status == 400
        assert "No job is chosen." in answer.text
        assert length(node, "q") == 1

    def test_what_is_no_id_is_refused(self, gateway: Gateway) -> None:
        assert post(gateway, "cancel", {"id": "<script>"}).status == 400

    def test_they_move_to_a_queue_that_is_named(self, gateway: Gateway, node: Node) -> None:
        job_id = add(node)
        assert post(gateway, "move", {"id": shown(job_id)}).status == 400
        assert post(gateway, "move", {"id": shown(job_id), "to": "other"}).status == 303
        assert (length(node, "q"), length(node, "other")) == (0, 1)

    def test_a_delayed_one_is_queued_now(self, gateway: Gateway, node: Node) -> None:
        job_id = add(node, "q", "body", "DELAY", 600)
        assert post(gateway, "run", {"id": shown(job_id)}).headers["location"].endswith("n=1")
        assert length(node, "q") == 1

    def test_a_dead_letter_goes_back(self, gateway: Gateway, node: Node) -> None:
        job_id = die(node, "no")
        post(gateway, "revive", {"id": shown(job_id)})
        assert (length(node, "q"), length(node, "q:dead")) == (1, 0)

    def test_deleting_leaves_alone_what_a_consumer_has(self, gateway: Gateway, node: Node) -> None:
        flying, waiting = add(node), add(node)
        node.ask("GETJOB", "FROM", "q")
        answer = post(gateway, "delete", {"id": [shown(flying), shown(waiting)]})
        assert answer.headers["location"].endswith("n=1")


class TestAllThatMatch:
    def test_those_of_one_error(self, gateway: Gateway, node: Node) -> None:
        for error in ("a", "b", "a"):
            die(node, error)
        answer = post(gateway, "revive", {"all": "1", "queue": "q:dead", "error": "a"})
        assert answer.headers["location"].endswith("n=2")
        assert (length(node, "q"), length(node, "q:dead")) == (2, 1)

    def test_those_with_a_header(self, gateway: Gateway, node: Node) -> None:
        add(node, "q", "1", "HEADER", "tenant", "acme")
        add(node, "q", "2", "HEADER", "tenant", "other")
        add(node, "q", "3")
        post(gateway, "cancel", {"all": "1", "queue": "q", "state": "queued", "header": "tenant=acme"})
        assert length(node, "q") == 2

    def test_more_than_fit_into_one_request(self, gateway: Gateway, node: Node) -> None:
        for number in range(actions.TOGETHER + 50):
            add(node, "q", str(number))
        answer = post(gateway, "cancel", {"all": "1", "queue": "q"})
        assert answer.headers["location"].endswith(f"n={actions.TOGETHER + 50}")
        assert length(node, "q") == 0

    def test_what_takes_too_long_ends_and_says_so(
        self, gateway: Gateway, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(node)
        monkeypatch.setattr(actions, "LONGEST_S", -1.0)
        assert post(gateway, "cancel", {"all": "1", "queue": "q"}).headers["location"].endswith("n=0&more=more")
        assert "Do it again" in sentence("cancel", "0", "more")

    def test_it_needs_a_queue(self, gateway: Gateway) -> None:
        assert post(gateway, "cancel", {"all": "1"}).status == 400


class TestAgain:
    def test_each_keeps_what_the_form_does_not_say(self, gateway: Gateway, node: Node) -> None:
        for number in range(3):
            add(node, "q", f"body {number}", "TRIES", number + 2, "PRIORITY", 9, "HEADER", "tenant", "acme ")
        add(node, "q", "another")
        terms = {"to": "p", "priority": "4", "retry": "", "tries": "", "delay": "", "ttl": "3000"}
        fields = {"all": "1", "queue": "q", "state": "queued", "header": "tenant", **terms}
        answer = post(gateway, "again", {**fields, "back": "/jobs?queue=q"})
        assert answer.headers["location"] == "/jobs?queue=q&did=again&n=3"
        assert (length(node, "q"), length(node, "p")) == (4, 3)
        _, found = gateway.run(gateway.hub.clusters.own.client.scan_job_infos(0, queue="p", count=100))
        assert sorted((job["body"], job["tries_left"]) for job in found) == [(b"body %d" % n, n + 2) for n in range(3)]
        assert all(job["headers"] == {"tenant": "acme "} and job["priority"] == 4 for job in found)
        assert {job["ttl"] for job in found} <= {2998, 2999, 3000}

    def test_what_is_added_is_not_added_once_more(self, gateway: Gateway, node: Node) -> None:
        many = actions.BODIES + 5
        for number in range(many):
            add(node, "q", str(number))
        post(gateway, "again", {"all": "1", "queue": "q"})
        assert length(node, "q") == 2 * many

    def test_a_dead_letter_goes_where_it_died_and_what_is_done_nowhere(self, gateway: Gateway, node: Node) -> None:
        die(node, "no")
        assert post(gateway, "again", {"all": "1", "queue": "q:dead"}).headers["location"].endswith("n=1")
        assert (length(node, "q"), length(node, "q:dead")) == (1, 1)
        node.ask("CANCEL", gone := add(node, "p"))
        assert post(gateway, "again", {"id": shown(gone)}).headers["location"].endswith("n=0")

    def test_if_too_many_match_none_is_added(
        self, gateway: Gateway, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(2):
            add(node)
        for bound, said in (("AGAIN_MOST", "More than 1 jobs match"), ("LONGEST_S", "It takes too long")):
            with monkeypatch.context() as patch:
                patch.setattr(actions, bound, 1 if bound == "AGAIN_MOST" else -1.0)
                answer = post(gateway, "again", {"all": "1", "queue": "q"})
            assert (answer.status, said in answer.text) == (400, True)
        assert length(node, "q") == 2

    @pytest.mark.parametrize("wrong", [{"delay": "soon"}, {"tries": "-1"}, {"priority": "nan"}, {"queue": ""}])
    def test_what_cannot_be_meant_is_refused(self, gateway: Gateway, node: Node, wrong: dict[str, str]) -> None:
        add(node)
        assert post(gateway, "again", {"all": "1", "queue": "q", **wrong}).status == 400
        assert length(node, "q") == 1

    def test_where_the_node_refuses_it_says_how_many_were_added_before(self, gateway: Gateway, node: Node) -> None:
        ids = [add(node), add(node, "q", "body", "RETRY", 0)]
        answer = post(gateway, "again", {"id": [shown(one) for one in ids], "tries": "3", "to": "p", "back": "/jobs"})
        assert "with RETRY 0 a job is delivered once" in answer.text
        assert "Before, it was done to 1 job." in answer.text
        assert length(node, "p") == 1

    def test_the_page_of_jobs_has_the_form(self, gateway: Gateway, node: Node) -> None:
        add(node)
        text = gateway.ask("GET", "/jobs?queue=q").text
        assert 'action="/do/again"' in text
        for name in ("to", "delay", "priority", "tries", "retry", "ttl"):
            assert f'name="{name}"' in text
        assert "TTL and how long its end is kept are those of a new job" in text


@pytest.mark.usefixtures("node")
class TestQueues:
    def test_pause_and_go_on(self, gateway: Gateway, node: Node) -> None:
        post(gateway, "pause", {"queue": "q", "how": "in"})
        assert node.ask("PAUSE", "q", "state") == b"in"
        post(gateway, "pause", {"queue": "q", "how": "none"})
        assert node.ask("PAUSE", "q", "state") == b"none"
        assert post(gateway, "pause", {"queue": "q", "how": "sideways"}).status == 400

    def test_flush_move_and_revive(self, gateway: Gateway, node: Node) -> None:
        die(node, "no")
        post(gateway, "revive-all", {"queue": "q:dead"})
        post(gateway, "move-all", {"queue": "q", "to": "p"})
        assert (length(node, "q"), length(node, "p")) == (0, 1)
        assert post(gateway, "flush", {"queue": "p"}).headers["location"].endswith("n=1")
        assert length(node, "p") == 0

    def test_options_are_set_and_taken_back(self, gateway: Gateway) -> None:
        post(gateway, "option", {"queue": "q", "option": "tries", "value": "4"})
        options = gateway.run(gateway.hub.clusters.own.client.queue_options("q"))
        assert options["tries"] == ("4", "q")
        post(gateway, "option", {"queue": "q", "option": "tries", "value": ""})
        options = gateway.run(gateway.hub.clusters.own.client.queue_options("q"))
        assert options["tries"] == ("0", "default")
        assert post(gateway, "option", {"queue": "q", "option": "colour", "value": "red"}).status == 400

    def test_what_the_node_refuses_is_said(self, gateway: Gateway) -> None:
        answer = post(gateway, "option", {"queue": "q", "option": "tries", "value": "many", "back": "/queues/q"})
        assert answer.status == 400
        assert 'href="/queues/q"' in answer.text


class TestAdd:
    def test_a_job_with_everything(self, gateway: Gateway) -> None:
        fields = {"queue": "q", "body": "a\r\nb", "tries": "3", "priority": "7", "headers": "tenant: acme\n\nx: y: z"}
        answer = post(gateway, "add", fields)
        job_id = answer.headers["location"].rpartition("job=")[2]
        info = gateway.ask("GET", f"/api/v1/jobs/{job_id}").json()
        assert (info["body"], info["tries_left"], info["priority"]) == ("a\nb", 3, 7)
        assert info["headers"] == {"tenant": "acme", "x": "y: z"}

    def test_a_body_in_hex(self, gateway: Gateway, node: Node) -> None:
        post(gateway, "add", {"queue": "q", "body": "00 ff", "hex": "1"})
        assert node.ask("QPEEK", "q", 1)[0][2] == b"\x00\xff"  # type: ignore[index]  # a list

    @pytest.mark.parametrize(
        "wrong", [{"queue": ""}, {"delay": "soon"}, {"headers": "none"}, {"body": "zz", "hex": "1"}, {"tries": "-1"}]
    )
    def test_what_cannot_be_meant_is_refused(self, gateway: Gateway, node: Node, wrong: dict[str, str]) -> None:
        assert post(gateway, "add", {"queue": "q", "body": "x", **wrong}).status == 400
        assert length(node, "q") == 0

    def test_a_job_of_retry_0_has_one_copy_as_clusters_want_it(self, gateway: Gateway) -> None:
        cluster = gateway.hub.clusters.own
        assert b"REPLICATE" not in actions.as_words(cluster, NewJob("q", b"", retry=5))
        words = actions.as_words(cluster, NewJob("q", b"", retry=0))
        assert words[words.index(b"REPLICATE") + 1] == b"1"


class TestSchedules:
    def test_run_pause_resume_delete(self, gateway: Gateway, node: Node) -> None:
        assert node.ask("CRON", "SET", "hourly", "0 * * * *", "q", "body") == b"OK"
        assert "job=" in post(gateway, "run-schedule", {"name": "hourly"}).headers["location"]
        assert length(node, "q") == 1
        for name, paused in (("pause-schedule", True), ("resume-schedule", False)):
            post(gateway, name, {"name": "hourly"})
            found = gateway.run(gateway.hub.clusters.own.client.schedule("hourly"))
            assert found is not None
            assert found.paused is paused
        post(gateway, "delete-schedule", {"name": "hourly"})
        assert gateway.run(gateway.hub.clusters.own.client.schedule("hourly")) is None


class TestSafety:
    def test_another_site_cannot_do_anything(self, gateway: Gateway, node: Node) -> None:
        add(node)
        assert post(gateway, "flush", {"queue": "q"}, sec_fetch_site="cross-site").status == 403
        assert post(gateway, "flush", {"queue": "q"}, origin="http://evil.example").status == 403
        assert length(node, "q") == 1

    @pytest.mark.parametrize(
        "back", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "x"]
    )
    def test_nobody_is_sent_away(self, gateway: Gateway, back: str) -> None:
        answer = post(gateway, "flush", {"queue": "q", "back": back})
        assert answer.headers["location"].startswith("/?did=flush")

    def test_an_action_that_is_none(self, gateway: Gateway) -> None:
        assert post(gateway, "explode", {}).status == 404

    def test_a_sentence_says_only_what_is_ours(self) -> None:
        assert sentence("<script>", "1", "") == ""
        assert sentence("cancel", "<b>", "") == ""
        assert sentence("cancel", "1", "<b>") == "Cancelled: 1 job."
        assert sentence("move", "1200", "unreachable") == "Moved: 1,200 jobs. Some nodes did not answer."
        assert all(sentence(name, "1", "") for name in ACTIONS)

    def test_ids_of_a_form_are_read_in_their_order(self) -> None:
        first = "D-f32533da-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"
        assert read([("id", first), ("x", "1")]).job_ids == [first.encode()]
