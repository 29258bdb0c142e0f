"""Names that make trouble, forms that nobody would send, many streams, nodes that hang, and jobs that are gone."""

import html
import re
from urllib.parse import parse_qsl, quote

import pytest

from disque.gateway import pages
from tests.end_to_end.node import Node
from tests.gateway.conftest import MakeGateway
from tests.gateway.dashboard.test_actions import ELSEWHERE, add, length, post, shown
from tests.gateway.support import Gateway

NAMES = [
    b"\xff\xfe",
    b"\x00",
    b"a/b",
    b"a%2Fb",
    b"a/../b",
    b".",
    b"..",
    b" mails",
    b"mails ",
    b"a\nb",
    b"a?b#c",
    b"'\"<&>",
    "\u202eslaim".encode(),
    b"x" * 4000,
]
FORM = re.compile('<form method="post" action="/do/flush".*?</form>', re.DOTALL)
HIDDEN = re.compile('name="([^"]+)" value="([^"]*)"')


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:12]))
def test_a_queue_of_any_name_has_its_page_and_is_emptied_there(gateway: Gateway, node: Node, name: bytes) -> None:
    for queue in (name, b"mails", b"b"):
        node.ask("ADDJOB", queue, "x", 0)
    link = re.search('<th scope="row" class="name"><a href="([^"]+)">(?!mails<|b<)', gateway.ask("GET", "/queues").text)
    assert link is not None
    page = gateway.ask("GET", html.unescape(link[1]))
    assert page.status == 200
    form = FORM.search(page.text)
    assert form is not None
    fields = {key: html.unescape(value) for key, value in HIDDEN.findall(form[0])}
    answer = post(gateway, "flush", fields)
    assert answer.status == 303
    assert gateway.ask("GET", answer.headers["location"]).status == 200
    assert [length(node, queue) for queue in (name, b"mails", b"b")] == [0, 1, 1]  # type: ignore[arg-type]  # bytes do
    for path in ("/jobs?queue=", "/dead?queue=", "/add?queue=", "/queues?q=", "/queues?after="):
        assert gateway.ask("GET", path + quote(name, safe="")).status == 200


@pytest.mark.parametrize("path", ["/static/%00", "/static/%FF", "/static/..%2Fpages.py", "/static/../pages.py"])
def test_only_files_of_ours_are_served(gateway: Gateway, path: str) -> None:
    assert gateway.ask("GET", path).status == 404


@pytest.mark.parametrize("path", ["/jobs/%FF", "/jobs/%ED%A0%80", "/nodes/%ED%A0%80"])
def test_names_that_are_no_text_are_unknown(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert answer.status == 200
    assert re.search(r"There is no node|there was none with this ID", answer.text)


def test_a_form_with_thousands_of_fields_is_refused(gateway: Gateway, node: Node) -> None:
    job_id = shown(add(node))
    answer = post(gateway, "cancel", [("id", job_id)] * 5000)
    assert (answer.status, answer.text) == (403, "the form has too many fields\n")
    assert length(node, "q") == 1


def test_a_form_that_is_too_long_is_refused(gateway: Gateway) -> None:
    assert post(gateway, "add", {"queue": "q", "body": "x" * (2 << 20)}).status == 413


@pytest.mark.parametrize("back", [*ELSEWHERE, "/\t/evil.example", "http://[", "/\r\nx: y", "/\udcff"])
def test_an_action_leads_back_to_this_site_only(gateway: Gateway, node: Node, back: str) -> None:
    answer = post(gateway, "cancel", {"id": shown(add(node)), "back": back})
    assert answer.status == 303
    assert answer.headers["location"].startswith("/?did=cancel")


def test_jobs_that_are_gone_meanwhile_are_not_counted(gateway: Gateway, node: Node) -> None:
    first, second = add(node), add(node)
    node.ask("CANCEL", first)
    for name in ("cancel", "delete", "run", "revive"):
        expected = 1 if name == "cancel" else 0
        answer = post(gateway, name, {"id": [shown(first), shown(second)]})
        assert dict(parse_qsl(answer.headers["location"].partition("?")[2]))["n"] == str(expected)


class TestOtherNames:
    """A browser that came by a name of somebody else's, where nodes want no password."""

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:7780", "127.0.0.1.evil.example", "[", "evil."])
    def test_it_is_refused(self, gateway: Gateway, node: Node, host: str) -> None:
        for path in ("/", "/api/v1/queues", "/metrics"):
            assert gateway.ask("GET", path, host=host, user_agent="Mozilla/5.0").status == 403
        assert post(gateway, "add", {"queue": "q", "body": "x"}, host=host, origin=f"http://{host}").status == 403
        assert length(node, "q") == 0

    @pytest.mark.parametrize("host", ["127.0.0.1:7780", "[::1]:7780", "localhost", "gateway", "jobs.example.org"])
    def test_addresses_and_names_that_are_ours_are_served(self, make_gateway: MakeGateway, host: str) -> None:
        gateway = make_gateway(hosts=frozenset({"jobs.example.org"}))
        assert gateway.ask("GET", "/", host=host, user_agent="Mozilla/5.0").status == 200

    def test_programs_come_by_any_name(self, gateway: Gateway) -> None:
        assert gateway.ask("GET", "/api/v1/queues", host="jobs.example.org", user_agent="curl/8").status == 200


def test_streams_are_bounded(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "STREAMS_MOST", 0)
    answer = gateway.ask("GET", "/", accept=pages.STREAM)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
