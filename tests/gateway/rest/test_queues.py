"""Operations on queues."""

import pytest

from tests.end_to_end.node import Node
from tests.gateway.rest.conftest import Api


class TestLists:
    @pytest.fixture
    def many(self, api: Api) -> list[str]:
        names = sorted([f"q{number:02}" for number in range(25)] + ["shop%2Fmails", "q07:dead"])
        for name in names:
            api.add(name)
        return sorted(name.replace("%2F", "/") for name in names)

    def test_pages_are_in_order_and_have_all_of_them(self, api: Api, many: list[str]) -> None:
        met: list[str] = []
        page = api("GET", "/queues?limit=10")
        met += [queue["name"] for queue in page["queues"]]
        while page["next"] is not None:
            page = api("GET", f"/queues?limit=10&cursor={page['next']}")
            met += [queue["name"] for queue in page["queues"]]
        assert met == many

    def test_names_can_be_looked_for(self, api: Api, many: list[str]) -> None:
        assert [one["name"] for one in api("GET", "/queues?prefix=shop/")["queues"]] == ["shop/mails"]
        assert [one["name"] for one in api("GET", "/queues?contains=q0&suffix=5")["queues"]] == ["q05"]
        dead = api("GET", "/dead-letters")["queues"]
        assert [(one["name"], one["len"]) for one in dead] == [("q07:dead", 1)]
        assert len(many) == 27

    def test_figures_are_there_if_wanted(self, api: Api) -> None:
        api.add()
        assert api("GET", "/queues")["queues"] == [{"name": "mails"}]
        [found] = api("GET", "/queues?figures=true")["queues"]
        assert api.refused("GET", "/queues?figures=") == "'figures' must be of type boolean"
        assert (found["name"], found["len"], found["added"]) == ("mails", 1, 1)


class TestFigures:
    def test_of_one_queue(self, api: Api) -> None:
        api.add("shop%2Fmails")
        found = api("GET", "/queues/shop%2Fmails")
        assert (found["name"], found["len"], found["nodes"], found["unreachable"]) == ("shop/mails", 1, 1, [])
        assert "no node has a queue" in api.refused("GET", "/queues/other", status=404)

    def test_of_the_past(self, api: Api) -> None:
        api.add("past")
        found = api("GET", "/queues/past/history?unit=hour")
        assert (found["seconds"], sum(found["added"])) == (3600, 1)
        assert "must be one of minute, hour, day" in api.refused("GET", "/queues/mails/history?unit=year")
        assert api.refused("GET", "/queues/none/history", status=404)

    def test_names_that_are_no_text_are_taken_and_shown(self, api: Api) -> None:
        job_id = api.add("%FF%00")
        assert api("GET", "/queues/%FF%00")["len"] == 1
        assert api("GET", f"/jobs/{job_id}")["queue"] == "\udcff\x00"


class TestJobs:
    def test_by_state(self, api: Api) -> None:
        waits, later = api.add(), api.add(delay=100)
        assert [job["id"] for job in api("GET", "/queues/mails/jobs?state=queued")["jobs"]] == [waits]
        assert [job["id"] for job in api("GET", "/queues/mails/jobs?state=delayed")["jobs"]] == [later]
        both = api("GET", "/queues/mails/jobs?state=queued,delayed")["jobs"]
        assert {job["id"] for job in both} == {waits, later}
        assert "must be one of" in api.refused("GET", "/queues/mails/jobs?state=any")

    def test_peeking(self, api: Api) -> None:
        first = api.add(body="\u00e9")
        api.add()
        [found] = api("GET", "/queues/mails/peek?limit=1")["jobs"]
        assert (found["id"], found["body"]) == (first, "\u00e9")

    def test_flush_move_revive(self, api: Api, node: Node) -> None:
        for _ in range(3):
            api.add()
        assert api("DELETE", "/queues/mails/jobs?count=1") == {"count": 1, "unreachable": []}
        assert api("POST", "/queues/mails/move", {"to": "a/b"}) == {"count": 2, "unreachable": []}
        [job] = api.take("a/b")
        assert api("POST", f"/jobs/{job['id']}/nack", {"dead": True}) == {"count": 1}
        revived = api("POST", "/queues/a%2Fb:dead/revive", {"count": 5.0})
        assert revived == {"count": 1, "unreachable": [], "without_origin": 0}
        assert api("POST", "/queues/a%2Fb:dead/revive")["count"] == 0
        assert node.ask("QLEN", "a/b") == 2
        assert "'to'" in api.refused("POST", "/queues/mails/move", {})


class TestOptionsAndPauses:
    def test_options(self, api: Api) -> None:
        assert api("GET", "/queues/mails/options")["tries"] == {"value": "0", "from": "default"}
        set_to = api("PATCH", "/queues/mails%2A/options", {"tries": "5", "dead-ttl": "100"})
        assert set_to["tries"] == {"value": "5", "from": "mails*"}
        assert api("GET", "/queues/mails1/options")["dead-ttl"] == {"value": "100", "from": "mails*"}
        assert api("DELETE", "/queues/mails%2A/options?name=tries") == {"count": 1}
        assert api("DELETE", "/queues/mails%2A/options") == {"count": 1}
        assert "unknown field 'x'" in api.refused("PATCH", "/queues/mails/options", {"x": "1"})
        assert api.refused("PATCH", "/queues/mails/options", {"tries": "x"})
        assert api.refused("PATCH", "/queues/mails/options", {}) == "the body is empty"
        assert api.refused("PATCH", "/queues/mails/options") == "no option is given"

    def test_pauses(self, api: Api) -> None:
        assert api("PUT", "/queues/mails/pause", {"pause": "in"}) == {"pause": "in"}
        assert api("GET", "/queues/mails/pause") == {"pause": "in"}
        answer = api.ask("POST", "/queues/mails/jobs", {"body": "x"})
        assert (answer.status, answer.json()["type"]) == (409, "urn:disque:paused")
        assert answer.headers["retry-after"] == "1"
        assert api("PUT", "/queues/mails/pause", {"pause": "none"}) == {"pause": "none"}
        assert "must be one of none, in, out, all" in api.refused("PUT", "/queues/mails/pause", {"pause": "x"})
