"""Operations on users."""

import base64
from collections.abc import Iterator

import pytest

from tests.end_to_end.node import Node
from tests.gateway.rest.conftest import Api


@pytest.fixture
def users(api: Api, node: Node) -> Iterator[Api]:
    yield api
    for name in ("ada", "bob"):
        node.ask("ACL", "DELUSER", name)


def test_a_user_is_made_changed_and_deleted(users: Api) -> None:
    made = users("PUT", "/users/ada", {"rules": ["on", ">hidden", "~mails*", "+@consume"]})
    assert (made["name"], made["enabled"], made["needs_password"]) == ("ada", True, True)
    assert made["queues"] == "~mails*"
    assert "+@consume" in made["commands"]
    assert "hidden" not in repr(made)
    assert users("PUT", "/users/ada", {"rules": ["off"]})["enabled"] is False
    assert users("GET", "/users/ada")["queues"] == ""
    assert users("DELETE", "/users/ada") == {"count": 1}
    assert users.refused("GET", "/users/ada", status=404) == "there is no user of this name"


def test_they_are_listed_in_pages(users: Api) -> None:
    for name in ("bob", "ada"):
        users("PUT", f"/users/{name}", {"rules": []})
    first = users("GET", "/users?limit=2")
    assert [one["name"] for one in first["users"]] == ["ada", "bob"]
    second = users("GET", f"/users?limit=2&cursor={first['next']}")
    assert ([one["name"] for one in second["users"]], second["next"]) == (["default"], None)
    assert users.refused("GET", "/users?cursor=NQ") == "this is no cursor of this list"


def test_what_is_no_rule_is_refused(users: Api) -> None:
    assert users.refused("PUT", "/users/ada", {"rules": ["nonsense"]})
    assert users.refused("PUT", "/users/ada", {})


def test_a_user_does_what_it_may_and_no_more(users: Api, node: Node) -> None:
    rules = ["on", ">secret", "~mails*", "+@consume", "+@produce", "+@inspect", "+@connection", "+acl|whoami"]
    users("PUT", "/users/ada", {"rules": rules})
    authorization = "Basic " + base64.b64encode(b"ada:secret").decode()
    assert users("GET", "/whoami", authorization=authorization) == {"name": "ada"}
    assert users("GET", "/whoami") == {"name": "default"}
    users("POST", "/queues/mails/jobs", {"body": "x"}, status=201, authorization=authorization)
    answer = users.ask("POST", "/queues/other/jobs", {"body": "x"}, authorization=authorization)
    assert (answer.status, answer.json()["type"]) == (403, "urn:disque:noperm")
    assert users.ask("GET", "/users", None, authorization=authorization).status == 403
    assert node.ask("QLEN", "mails") == 1
