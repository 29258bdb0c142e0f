"""The form that adds a job."""

from html.parser import HTMLParser
from typing import Any

import pytest

from disque.gateway.dashboard.adding import FORM_BODY_MOST, headers_of
from tests.end_to_end.node import Node
from tests.gateway.dashboard.test_actions import add, die, post, shown
from tests.gateway.support import Gateway


def test_it_begins_empty_or_with_a_queue(gateway: Gateway) -> None:
    assert 'value="mails"' in gateway.ask("GET", "/add?queue=mails").text


def test_it_begins_with_what_another_job_has(gateway: Gateway, node: Node) -> None:
    job_id = add(node, "q", "the body", "TRIES", 4, "PRIORITY", 9, "HEADER", "tenant", "acme")
    text = gateway.ask("GET", f"/add?from={shown(job_id)}").text
    assert "those of a new job, unless you say them" in text
    for part in ("\nthe body</textarea>", 'value="4"', 'value="9"', "\ntenant: acme</textarea>"):
        assert part in text


def test_a_dead_letter_is_added_to_the_queue_where_it_died(gateway: Gateway, node: Node) -> None:
    job_id = die(node, "no")
    assert 'required value="q"' in gateway.ask("GET", f"/add?from={shown(job_id)}").text


def test_bytes_are_in_hex_and_what_is_too_long_is_left_out(gateway: Gateway, node: Node) -> None:
    job_id = node.ask("ADDJOB", "q", b"\x00\xff", 0)
    assert isinstance(job_id, bytes)
    assert "\n00 ff</textarea>" in gateway.ask("GET", f"/add?from={shown(job_id.decode())}").text
    long_id = add(node, "q", "x" * (FORM_BODY_MOST + 1))
    assert "too long for a form" in gateway.ask("GET", f"/add?from={shown(long_id)}").text


class Browser(HTMLParser):
    """Fills in the form of a page as a browser does, and changes nothing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._area = ""
        self._in_form = False
        self.feed(lines(page).replace("\0", "\ufffd"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._in_form = found["action"] == "/do/add"
        if not self._in_form or tag not in {"input", "textarea"}:
            return
        if tag == "textarea":
            self._area = found["name"]
            self.fields[self._area] = ""
        elif found.get("type") != "checkbox" or "checked" in found:
            self.fields[found["name"]] = found.get("value", "").replace("\n", "")

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.fields[self._area] = self.fields[self._area].removeprefix("\n").replace("\n", "\r\n")
            self._area = ""


def lines(text: str) -> str:
    """A page as it is read: all its lines end alike."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def again(gateway: Gateway, node: Node, job_id: bytes, **changed: str) -> Any:
    """A copy of a job that was made with the form, some of whose fields were changed: all that SHOW tells of it."""
    page = gateway.ask("GET", f"/add?from={shown(job_id.decode())}").text
    answer = post(gateway, "add", {**Browser(page).fields, **changed})
    assert answer.status == 303, answer.text
    new = answer.headers["location"].rpartition("job=")[2].replace(".", "+").replace("_", "/")
    found = node.ask("SHOW", new)
    assert isinstance(found, list)
    return dict(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize(
    "body",
    [
        b"a\r\nb\r\n",
        b"a\rb",
        b"\nfoo",
        b"\n\nfoo",
        b"a\0b",
        b" a  ",
        b"a\x01\x1bb",
        "\ufeffa\u2028\x85".encode(),
        b"\xff",
        b"",
    ],
)
def test_a_body_that_nobody_changes_stays_as_it_is(gateway: Gateway, node: Node, body: bytes) -> None:
    job_id = node.ask("ADDJOB", "q", body, 0)
    assert isinstance(job_id, bytes)
    assert again(gateway, node, job_id)[b"body"] == body


@pytest.mark.parametrize("queue", [b" q", b"q ", b"q\nr", b"q\r\n", b"\xffq", b"q\0", b"\\xff"])
def test_a_queue_that_nobody_changes_stays_as_it_is(gateway: Gateway, node: Node, queue: bytes) -> None:
    job_id = node.ask("ADDJOB", queue, "x", 0)
    assert isinstance(job_id, bytes)
    assert again(gateway, node, job_id)[b"queue"] == queue
    assert again(gateway, node, job_id, queue="other ")[b"queue"] == b"other"


HEADERS = [
    (b"a:b", b"c"), (b"h", b" v "), (b"e", b""), (b"u", "\u2028z\u00a0".encode()), (b"bytes", b"\xff"),
    (b"last", b"one"),
]  # fmt: skip


def test_headers_that_nobody_changes_stay_as_they_are(gateway: Gateway, node: Node) -> None:
    words = [word for name, value in HEADERS for word in ("HEADER", name, value)]
    job_id = node.ask("ADDJOB", "q", "x", 0, *words)
    assert isinstance(job_id, bytes)
    had = [word for pair in HEADERS for word in pair]
    assert again(gateway, node, job_id)[b"headers"] == had
    page = gateway.ask("GET", f"/add?from={shown(job_id.decode())}").text
    changed = Browser(page).fields["headers"].replace("last: one", "new: one")
    assert again(gateway, node, job_id, headers=changed)[b"headers"] == [*had[:-2], b"new", b"one"]


def test_headers_are_lines() -> None:
    assert headers_of({"headers": "a: 1\r\n\r\nb:2\u2028"}) == {"a": "1", "b": "2"}
    assert headers_of({"headers": "", "had-headers": "a=1"}) == {}
    with pytest.raises(ValueError, match="a colon and a value, not 'a'"):
        headers_of({"headers": "a"})
