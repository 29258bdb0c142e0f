"""Dead letters, and why they died."""

import pytest

from disque.gateway.rest import dead
from tests.end_to_end.node import Node
from tests.gateway.dashboard.test_actions import die, shown
from tests.gateway.rest.conftest import Api


def test_they_are_grouped_by_the_first_line_of_their_error(api: Api, node: Node) -> None:
    first = die(node, "KeyError: 'a'\nat line 1")
    for error in ("KeyError: 'a'\nat line 2", "no room"):
        die(node, error)
    found = api("GET", "/dead-letters/q:dead/errors")
    assert (found["looked_at"], found["complete"]) == (3, True)
    [most, least] = found["errors"]
    assert (most["error"], most["count"]) == ("KeyError: 'a'", 2)
    assert least["count"] == 1
    assert api("GET", f"/jobs/{most['example']}")["error"].startswith("KeyError: 'a'")
    assert len(shown(first)) == len(most["example"])
    assert len(api("GET", "/dead-letters/q:dead/errors?limit=1")["errors"]) == 1
    assert api("GET", "/dead-letters/none:dead/errors")["errors"] == []


def test_not_all_are_looked_at(api: Api, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    die(node, "no")
    monkeypatch.setattr(dead, "LONGEST_S", 0.0)
    assert api("GET", "/dead-letters/q:dead/errors") == {"errors": [], "looked_at": 0, "complete": False}
