"""The pages: each shows what is there, whatever it is called."""

import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from disque.client import NoPermError, UnavailableError
from disque.gateway.circuit import silent
from disque.gateway.dashboard import looks
from disque.gateway.pages import PAGES, Pages
from tests.end_to_end.node import Node
from tests.gateway.dashboard.test_actions import add, die, shown
from tests.gateway.support import Gateway

SCRIPT = "<script>alert(1)</script>"
PLAIN = [page.path for page in PAGES if "{" not in page.path]


@pytest.mark.parametrize("path", [*PLAIN, "/queues/none", "/jobs/none", "/schedules/none", "/nodes/none"])
def test_a_page_of_nothing_says_so(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert answer.status == 200
    assert "<main" in answer.text


class TestOverview:
    def test_the_busiest_queues_tell_how_long_jobs_wait_and_run(self, gateway: Gateway, node: Node) -> None:
        add(node, SCRIPT)
        for _ in range(2):
            add(node, "mails")
        assert node.ask("GETJOB", "FROM", "mails")
        text = gateway.ask("GET", "/").text
        [table] = re.findall("<caption>Busiest queues.*?</table>", text, re.DOTALL)
        assert table.index("mails") < table.index("&lt;script&gt;")
        assert SCRIPT not in table
        assert all(word in table for word in ("Wait p95", "Run p95"))


class TestQueues:
    def test_figures_are_there(self, gateway: Gateway, node: Node) -> None:
        add(node, "mails")
        for path in ("/queues", "/queues/mails"):
            assert "mails" in gateway.ask("GET", path).text

    def test_a_page_has_some_and_leads_to_the_next(self, gateway: Gateway, node: Node) -> None:
        for number in range(looks.QUEUES_A_PAGE + 3):
            add(node, f"q{number:03}")
        first = gateway.ask("GET", "/queues").text
        last = f"q{looks.QUEUES_A_PAGE - 1:03}"
        assert last in first
        assert f"q{looks.QUEUES_A_PAGE:03}" not in first
        assert f"q{looks.QUEUES_A_PAGE + 2:03}" in gateway.ask("GET", f"/queues?after={last}").text

    def test_a_search_finds_parts_of_names(self, gateway: Gateway, node: Node) -> None:
        for name in ("mails", "Emails", "other"):
            add(node, name)
        found = gateway.ask("GET", "/queues?q=MAIL").text
        assert ">mails<" in found
        assert ">Emails<" in found
        assert ">other<" not in found

    @pytest.mark.parametrize("unit", ["minute", "hour", "day", "year"])
    def test_history_by(self, gateway: Gateway, node: Node, unit: str) -> None:
        add(node, "mails")
        assert gateway.ask("GET", f"/queues/mails?unit={unit}").status == 200

    def test_names_with_slashes_and_odd_bytes_have_their_page(self, gateway: Gateway, node: Node) -> None:
        node.ask("ADDJOB", b"a/b", "x", 0)
        assert gateway.ask("GET", "/queues/a%2Fb").text.count("a/b") > 2
        node.ask("ADDJOB", b"\xff\xfe", "x", 0)
        assert gateway.ask("GET", "/queues").status == 200


class TestJobs:
    def test_by_state_and_header(self, gateway: Gateway, node: Node) -> None:
        one = add(node, "q", "1", "HEADER", "tenant", "acme")
        two = add(node, "q", "2", "DELAY", 600)
        text = gateway.ask("GET", "/jobs?queue=q").text
        assert shown(one) in text
        assert shown(two) in text
        text = gateway.ask("GET", "/jobs?queue=q&state=delayed").text
        assert shown(one) not in text
        assert shown(two) in text
        text = gateway.ask("GET", "/jobs?queue=q&header=tenant%3Dacme").text
        assert shown(one) in text
        assert shown(two) not in text
        assert shown(one) not in gateway.ask("GET", "/jobs?queue=q&header=tenant%3Dother").text

    def test_states_are_told_apart_where_nodes_say_active_of_all(self, gateway: Gateway, node: Node) -> None:
        add(node, "q", "1", "DELAY", 600)
        assert ">delayed</span>" in gateway.ask("GET", "/jobs?queue=q").text
        node.ask("DEBUG", "FLUSHALL")
        job_id = add(node)
        assert ">queued</span>" in gateway.ask("GET", "/jobs?queue=q").text
        node.ask("GETJOB", "FROM", "q")
        assert ">in flight</span>" in gateway.ask("GET", "/jobs?queue=q").text
        node.ask("NACK", job_id, "DELAY", 600)
        assert ">in flight or held back</span>" in gateway.ask("GET", "/jobs?queue=q").text
        assert ">delayed</span>" in gateway.ask("GET", "/jobs?queue=q&state=delayed").text

    def test_a_cursor_that_is_none(self, gateway: Gateway) -> None:
        assert gateway.ask("GET", "/jobs?queue=q&cursor=%3Cb%3E").status == 400

    def test_one_that_has_nothing_but_a_body(self, gateway: Gateway, node: Node) -> None:
        job_id = add(node)
        assert "<code>body</code>" in gateway.ask("GET", f"/jobs/{shown(job_id)}").text

    @pytest.mark.parametrize("form", [str, shown])
    def test_one_is_found_by_its_id(self, gateway: Gateway, node: Node, form: Callable[[str], str]) -> None:
        job_id = add(node)
        answer = gateway.ask("GET", f"/jobs?{urlencode({'id': form(job_id)})}")
        assert (answer.status, answer.headers["location"]) == (303, f"/jobs/{shown(job_id)}")

    def test_one_with_its_body_error_and_time_line(self, gateway: Gateway, node: Node) -> None:
        job_id = die(node, "ValueError: no address")
        text = gateway.ask("GET", f"/jobs/{shown(job_id)}").text
        assert "failed: ValueError: no address" in text
        assert "died in q (nack)" in text

    def test_one_that_has_ended_and_is_kept(self, gateway: Gateway, node: Node) -> None:
        job_id = add(node, "q", "body", "RETAIN", 600)
        node.ask("GETJOB", "FROM", "q")
        assert node.ask("ACKJOB", job_id, "RESULT", "sent") == 1
        text = gateway.ask("GET", f"/jobs/{shown(job_id)}").text
        assert "<code>sent</code>" in text
        assert "done" in text
        assert shown(job_id) in gateway.ask("GET", "/jobs?state=done").text


class TestDead:
    def test_they_are_grouped_by_the_first_line_of_their_error(self, gateway: Gateway, node: Node) -> None:
        for error in ("a: x\nat 1", "a: x\nat 2", "b", ""):
            die(node, error or "-")
        text = gateway.ask("GET", "/dead?queue=q:dead").text
        assert '<th scope="row" class="error">a: x</th><td class="n">2</td>' in text
        assert "4 dead letters" in text

    def test_all_of_many_queues_and_errors_can_be_reached(
        self, gateway: Gateway, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(looks, "QUEUES_A_PAGE", 1)
        for queue in ("a", "b"):
            die(node, "one", queue)
            die(node, "two", queue)
        first = gateway.ask("GET", "/dead").text
        assert 'href="/dead?after=a%3Adead"' in first
        assert ">b:dead<" not in first
        second = gateway.ask("GET", "/dead?after=a%3Adead&queue=b%3Adead").text
        assert ">b:dead<" in second
        assert "the 1 most frequent of 2 errors" in second
        assert 'rel="next"' not in second


def test_a_node_that_does_not_answer_is_named_once() -> None:
    where = "node-1:7711"
    assert looks.reason(where, silent(("node-1", 7711))) == "node-1:7711 does not answer"
    refused = UnavailableError.of("no node could be used", [(where, OSError("Connection refused"))])
    assert looks.reason(where, refused) == "node-1:7711: Connection refused"
    assert looks.reason(where, NoPermError("no")) == "node-1:7711: no"


class TestOthers:
    def test_schedules(self, gateway: Gateway, node: Node) -> None:
        node.ask("CRON", "SET", "nightly", "30 2 * * *", "q", '{"a": 1}', "TZ", "Europe/Berlin")
        assert "nightly" in gateway.ask("GET", "/schedules").text
        text = gateway.ask("GET", "/schedules/nightly").text
        assert "30 2 * * *" in text
        assert text.count("UTC</li>") == 10
        node.ask("CRON", "DEL", "nightly")

    def test_clients(self, gateway: Gateway) -> None:
        assert ">gateway<" in gateway.ask("GET", "/workers").text

    def test_nodes(self, gateway: Gateway, node: Node) -> None:
        assert f":{node.port}" in gateway.ask("GET", "/nodes").text
        node_id = gateway.run(gateway.hub.clusters.own.nodes())[0].id
        assert "used_memory" in gateway.ask("GET", f"/nodes/{node_id}").text

    def test_users(self, gateway: Gateway) -> None:
        assert ">default<" in gateway.ask("GET", "/users").text


def test_nothing_that_others_named_is_markup(gateway: Gateway, node: Node) -> None:
    add(node, SCRIPT, SCRIPT, "HEADER", "x", SCRIPT)
    job_id = die(node, SCRIPT, SCRIPT + "2")
    paths = [
        "/queues",
        f"/queues?q={SCRIPT}",
        f"/jobs?queue={SCRIPT}&header={SCRIPT}",
        "/dead",
        f"/jobs/{shown(job_id)}",
    ]
    for path in [*paths, f"/dead?queue={SCRIPT}2:dead", f"/add?queue={SCRIPT}", f"/jobs/{SCRIPT}", f"/nodes/{SCRIPT}"]:
        assert SCRIPT not in gateway.ask("GET", path).text


def test_a_stream_gives_the_live_part(gateway: Gateway, node: Node) -> None:
    page = next(page for page in PAGES if page.path == "/")
    place = {"path": "/", "raw_path": b"/", "query_string": b"", "server": ("h", 1)}
    scope = {"type": "http", "method": "GET", "headers": [], **place}

    async def first() -> str:
        stream = Pages(gateway.hub).stream(page, Request(scope))
        text = await anext(stream)
        await stream.aclose()
        return text

    text = gateway.run(first())
    assert text.startswith("data: ")
    assert f":{node.port}" in text
    assert "<html" not in text
