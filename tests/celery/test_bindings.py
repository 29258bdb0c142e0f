"""Bindings on nodes that are functions: each answers QPEEK with what it has queued."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.utils.json import dumps, loads

from disque.celery import bindings
from disque.celery.bindings import Bindings, Row
from disque.celery.options import FOREVER_S
from disque.client import Config, Disque, UnavailableError
from tests.client.served import Served

ROW = Row("mail", "", "mails")


class FakeNode:
    """A node that keeps what is added, and shows it."""

    def __init__(self) -> None:
        self.jobs: dict[bytes, bytes] = {}
        self.added: list[list[bytes]] = []
        self.fails = False
        self.served = Served(self.answer)

    def answer(self, words: list[bytes]) -> bytes | None:
        if self.fails:
            return None
        if words[0] == b"ADDJOB":
            self.added.append(words)
            job_id = b"D-%038d" % len(self.added)
            self.jobs[job_id] = words[2]
            return b"+%b\r\n" % job_id
        if words[0] == b"CANCEL":
            return b":%d\r\n" % sum(self.jobs.pop(one, None) is not None for one in words[1:])
        assert words[0] == b"QPEEK"
        rows = [[words[1], job_id, body] for job_id, body in self.jobs.items()]
        return b"*%d\r\n" % len(rows) + b"".join(
            b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in row) for row in rows
        )


@pytest.fixture
def nodes() -> Iterator[list[FakeNode]]:
    two = [FakeNode(), FakeNode()]
    with two[0].served, two[1].served:
        yield two


@pytest.fixture
def table(nodes: list[FakeNode], caplog: Any) -> Iterator[Bindings]:
    caplog.set_level(logging.CRITICAL)
    addresses = tuple(node.served.address for node in nodes)
    with Disque(Config(nodes=addresses, order="given", discover=False, attempts=1)) as client:
        made = Bindings(client, "shop/")
        yield made
        made.close()


def rows(table: Bindings) -> set[Row]:
    return {one.row for one in table.read("direct")}


def test_a_binding_is_a_job_that_lives_for_ever(table: Bindings, nodes: list[FakeNode]) -> None:
    table.add("direct", ROW)
    [words] = nodes[0].added
    assert words[1] == b"shop/kombu:bindings:direct"
    assert words[words.index(b"TTL") + 1] == b"%d" % FOREVER_S
    assert rows(table) == {ROW}


def test_it_is_on_as_many_nodes_as_is_said(table: Bindings, nodes: list[FakeNode]) -> None:
    Bindings(table.client, "shop/", 2).add("direct", ROW)
    [words] = nodes[0].added
    assert words[words.index(b"REPLICATE") + 1] == b"2"


def test_it_is_added_once(table: Bindings, nodes: list[FakeNode]) -> None:
    table.add("direct", ROW)
    table.add("direct", ROW)
    table.add("direct", ROW._replace(queue="copies"))
    assert len(nodes[0].added) == 2


def test_what_all_nodes_have_counts(table: Bindings, nodes: list[FakeNode]) -> None:
    other = Row("news", "", "news")
    nodes[1].jobs[b"D-" + b"9" * 38] = dumps([*other, time.time() + 100, None]).encode()
    table.add("direct", ROW)
    assert rows(table) == {ROW, other}


def test_also_one_that_has_joined_since(nodes: list[FakeNode]) -> None:
    first, joined = nodes
    with Disque(Config(nodes=(first.served.address,), attempts=1)) as client:
        table = Bindings(client, "shop/")
        assert rows(table) == set()
        joined.jobs[b"D-" + b"9" * 38] = dumps([*ROW, time.time() + 100, None]).encode()
        first.served.tells(first.served.address, joined.served.address)
        assert rows(table) == {ROW}
        table.close()


def test_that_of_a_queue_that_expires_is_added_again_when_half_its_life_is_over(
    table: Bindings, nodes: list[FakeNode], monkeypatch: Any
) -> None:
    now_s = time.time()
    for passed_s, added in ((0, 1), (1000, 1), (2000, 2), (2001, 2)):
        monkeypatch.setattr(time, "time", lambda passed_s=passed_s: now_s + passed_s)
        table.add("direct", ROW, 10.0)
        assert len(nodes[0].added) == added
    words = nodes[0].added[0]
    assert words[words.index(b"TTL") + 1] == b"3600"
    assert table.read("direct")[0].queue_ttl_s == 10
    table.remove("direct", [ROW])
    assert rows(table) == set()


def test_a_binding_that_is_not_there_cannot_be_missed(table: Bindings) -> None:
    table.remove("direct", [ROW])
    assert rows(table) == set()


def test_what_a_node_told_last_counts_while_it_is_away(table: Bindings, nodes: list[FakeNode]) -> None:
    table.add("direct", ROW)
    assert rows(table) == {ROW}
    nodes[0].fails = True
    assert rows(table) == {ROW}


def test_where_nothing_is_known_and_a_node_is_away_it_is_an_error(
    table: Bindings, nodes: list[FakeNode], monkeypatch: Any
) -> None:
    nodes[0].fails = True
    with pytest.raises(UnavailableError, match="bindings of an exchange are not known"):
        rows(table)
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + bindings.MISSED_S + 1)
    assert rows(table) == set(), "others have its jobs by now"
    nodes[0].fails = False
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 2 * bindings.MISSED_S)
    table.add("direct", ROW)
    assert rows(table) == {ROW}


def test_a_queue_can_be_bound_while_a_node_is_away(table: Bindings, nodes: list[FakeNode]) -> None:
    nodes[1].fails = True
    table.remove("direct", [ROW])
    table.add("direct", ROW)
    assert rows(table) == {ROW}


def test_a_node_that_failed_is_not_asked_for_a_while(table: Bindings, nodes: list[FakeNode]) -> None:
    nodes[1].fails = True
    nodes[0].jobs[b"D-" + b"9" * 38] = dumps([*ROW, time.time() + 100, None]).encode()
    rows(table)
    asked = len(nodes[1].served.requests)
    rows(table)
    assert len(nodes[1].served.requests) == asked


@pytest.mark.parametrize("body", [b"", b"hello", b"{}", b"[]", b'["a", "b", "c", "d", null]', b"7"])
def test_a_job_that_is_no_binding_is_passed_over(table: Bindings, nodes: list[FakeNode], body: bytes) -> None:
    nodes[1].jobs[b"D-" + b"9" * 38] = body
    table.add("direct", ROW)
    assert rows(table) == {ROW}
    assert len(loads(nodes[0].added[0][2].decode())) == 5
