"""The form that adds a job."""

from disque.gateway.dashboard.adding import FORM_BODY_MOST
from tests.end_to_end.node import Node
from tests.gateway.dashboard.test_actions import add, die, shown
from tests.gateway.support import Gateway


def test_it_begins_empty_or_with_a_queue(gateway: Gateway) -> None:
    assert 'value="mails"' in gateway.ask("GET", "/add?queue=mails").text


def test_it_begins_with_what_another_job_has(gateway: Gateway, node: Node) -> None:
    job_id = add(node, "q", "the body", "TRIES", 4, "PRIORITY", 9, "HEADER", "tenant", "acme")
    text = gateway.ask("GET", f"/add?from={shown(job_id)}").text
    assert "those of a new job, unless you say them" in text
    for part in (">the body</textarea>", 'value="4"', 'value="9"', ">tenant: acme</textarea>"):
        assert part in text


def test_a_dead_letter_is_added_to_the_queue_where_it_died(gateway: Gateway, node: Node) -> None:
    job_id = die(node, "no")
    assert 'required value="q"' in gateway.ask("GET", f"/add?from={shown(job_id)}").text


def test_bytes_are_in_hex_and_what_is_too_long_is_left_out(gateway: Gateway, node: Node) -> None:
    job_id = node.ask("ADDJOB", "q", b"\x00\xff", 0)
    assert isinstance(job_id, bytes)
    assert ">00 ff</textarea>" in gateway.ask("GET", f"/add?from={shown(job_id.decode())}").text
    long_id = add(node, "q", "x" * (FORM_BODY_MOST + 1))
    assert "too long for a form" in gateway.ask("GET", f"/add?from={shown(long_id)}").text
