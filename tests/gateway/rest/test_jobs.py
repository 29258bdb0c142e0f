"""Operations on jobs."""

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.end_to_end.node import Node, until
from tests.gateway.rest.conftest import Api


class TestAdd:
    def test_a_job_has_all_its_options(self, api: Api) -> None:
        options: dict[str, Any] = {"delay": 0.5, "ttl": 100, "retry": 10, "tries": 3, "backoff": "fixed:2"}
        options |= {"priority": 7, "retain": 60}
        job_id = api.add(**options, headers={"a": "b"}, deadletter="grave")
        job = api("GET", f"/jobs/{job_id}")
        assert (job["ttl"], job["retry"], job["tries_left"], job["priority"]) == (100, 10, 3, 7)
        assert (job["headers"], job["body"], job["encoding"]) == ({"a": "b"}, "hello", "utf-8")
        assert job["created"].endswith("Z")

    def test_where_it_is_stands_in_the_answer(self, api: Api) -> None:
        answer = api.ask("POST", "/queues/mails/jobs", {"body": "x"})
        assert answer.headers["location"] == f"/api/v1/jobs/{answer.json()['id']}"
        assert answer.headers["cache-control"] == "no-store"

    def test_bodies_are_texts_or_base64_or_any_value(self, api: Api) -> None:
        raw = bytes(range(256))
        api.add(body="\u00e9")
        api.add(body=base64.b64encode(raw).decode(), encoding="base64")
        api("POST", "/queues/mails/jobs", {"json": {"x": [1, None]}}, status=201)
        jobs = api.take(count=3)
        assert (jobs[0]["body"], jobs[0]["encoding"]) == ("\u00e9", "utf-8")
        assert (base64.b64decode(jobs[1]["body"]), jobs[1]["encoding"]) == (raw, "base64")
        assert json.loads(jobs[2]["body"]) == {"x": [1, None]}

    def test_a_body_that_is_no_json_is_taken_as_it_comes(self, api: Api, node: Node) -> None:
        for kind in ("application/octet-stream", "text/plain", "image/png"):
            path = "/queues/mails/jobs?priority=9&unique=k&window=10"
            assert api("POST", path, b"\x00{}", status=201, content_type=kind)["id"]
        assert node.ask("QLEN", "mails") == 1, "it is unique"
        assert node.ask("GETJOB", "FROM", "mails")[0][2] == b"\x00{}"

    def test_several_jobs_each_with_its_answer(self, api: Api) -> None:
        jobs = [{"body": "a"}, {"body": "b", "delay": 10, "ttl": 5}, {"json": 1, "tries": 2}]
        first, second, third = api("POST", "/queues/mails/jobs", {"jobs": jobs}, status=201)["jobs"]
        assert set(first) == set(third) == {"id"}
        assert second["code"] == "ERR"
        assert len(api.take(count=5)) == 2

    def test_an_idempotency_key_adds_one_job(self, api: Api, node: Node) -> None:
        path, job = "/queues/mails/jobs", {"body": "x"}
        added = {api.ask("POST", path, job, idempotency_key="k").json()["id"] for _ in range(3)}
        assert len(added) == 1
        assert node.ask("QLEN", "mails") == 1
        api("POST", "/queues/mails/jobs", {"body": "x"}, status=201, idempotency_key="other")
        assert node.ask("QLEN", "mails") == 2
        refused = api.refused("POST", "/queues/mails/jobs", {"jobs": []}, idempotency_key="k")
        assert refused == "several jobs have all their options in 'jobs', each 'unique' too"

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({}, "a job has either 'body' or 'json'"),
            ({"body": "a", "json": 1}, "a job has either 'body' or 'json'"),
            ({"body": "!", "encoding": "base64"}, "'body' is no base64"),
            ({"body": "a", "encoding": "latin-1"}, "'encoding' must be one of utf-8, base64"),
            ({"body": "a", "delay": -1}, "'delay' must be at least 0"),
            ({"body": "a", "delay": 1, "at": 1}, "at and delay cannot be used together"),
            ({"body": "a", "window": 1}, "window needs a key: unique=..."),
            ({"body": "a", "headers": {"a": 1}}, "'a' must be of type string"),
            ({"body": "a", "nonsense": 1}, "unknown field 'nonsense'"),
            ({"body": "a", "replicate": 9}, "NOREPL"),
            ([], "the body must be of type object"),
            (b"{", "the body is no JSON"),
            (b'{"body": NaN}', "the body is no JSON"),
            (b'{"json": 1e400}', "the number 1e400 is out of range"),
            (b'{"jobs": [{"json": {"a": [-1.5e999]}}]}', "the number -1.5e999 is out of range"),
            (b'{"json": "a\\ud800b"}', "half of a surrogate pair"),
            (b'{"body": "a\\ud800b"}', "half of a surrogate pair"),
            (b"", "a body is expected"),
        ],
    )
    def test_what_is_no_job_is_refused(self, api: Api, body: object, said: str) -> None:
        answer = api.ask("POST", "/queues/mails/jobs", body)
        assert answer.status == (503 if said == "NOREPL" else 400)
        assert said in answer.text or said.lower() in answer.text

    def test_parameters_that_are_none_are_named(self, api: Api) -> None:
        path = "/queues/mails/jobs"
        said = api.refused("POST", f"{path}?tries=x", b"a", content_type="text/plain")
        assert said == "'tries' must be of type integer"
        said = api.refused("POST", f"{path}?headers=x", b"a", content_type="text/plain")
        assert said.startswith("unknown parameter 'headers'")


class TestTake:
    def test_a_taken_job_says_what_is_known_of_it(self, api: Api) -> None:
        job_id = api.add(tries=3, headers={"a": "b"}, ttl=100)
        [job] = api.take(lease=30)
        assert (job["id"], job["queue"], job["tries"], job["tries_left"]) == (job_id, "mails", 0, 3)
        assert job["lease_seconds"] == 30
        assert 0 < job["ttl_seconds"] <= 100
        assert (job["error"], job["origin"], job["headers"]) == (None, None, {"a": "b"})

    def test_without_a_job_there_is_none(self, api: Api) -> None:
        assert api.take() == []
        assert api.take(wait=0.01) == []

    def test_a_long_poll_gets_the_job_when_it_comes(self, api: Api) -> None:
        async def both() -> object:
            ask = api.gateway.client.ask
            body = b'{"queues":["a","b"],"wait":30,"count":5}'
            waiting = asyncio.create_task(ask("POST", "/api/v1/take", body, {"content-type": "application/json"}))
            await asyncio.sleep(0)
            await ask("POST", "/api/v1/queues/b/jobs", b"x", {"content-type": "text/plain"})
            return [job["body"] for job in (await waiting).json()["jobs"]]

        assert api.gateway.run(both()) == ["x"]

    def test_strict_empties_the_first_queue_first(self, api: Api) -> None:
        for queue in ("b", "a", "a"):
            api.add(queue)
        assert [job["queue"] for job in api.take("a", "b", count=3, strict=True)] == ["a", "a", "b"]

    def test_bounds(self, api: Api) -> None:
        assert api.refused("POST", "/take", {"queues": []}) == "'queues' is empty"
        for name, value in (("count", 101), ("wait", 301), ("lease", 0)):
            assert api.refused("POST", "/take", {"queues": ["a"], name: value}).startswith(f"'{name}' must be at")


class TestEnds:
    def test_a_result_is_kept_and_told(self, api: Api) -> None:
        job_id = api.add(retain=60)
        api.take()
        found = api("GET", f"/jobs/{job_id}/result")
        assert (found["status"], found["ended_seconds_ago"]) == ("in-flight", None)
        assert api("POST", f"/jobs/{job_id}/ack", {"json": [1]}) == {"count": 1}
        found = api("GET", f"/jobs/{job_id}/result")
        assert (found["status"], found["result"], found["id"]) == ("done", "[1]", job_id)
        [waited] = api("POST", "/wait", {"ids": [job_id]})["jobs"]
        assert (waited["status"], waited["result"]) == ("done", "[1]")
        assert api("GET", f"/jobs/{job_id}")["status"] == "done"

    def test_a_result_may_be_a_text_or_nothing(self, api: Api) -> None:
        first, second = api.add(retain=60), api.add(retain=60)
        assert api("POST", f"/jobs/{first}/ack", {"result": "fine"}) == {"count": 1}
        assert api("POST", f"/jobs/{second}/ack") == {"count": 1}
        assert api("GET", f"/jobs/{first}/result")["result"] == "fine"
        wrong = {b'{"json":1e400}': "1e400 is out of range", b'{"result":"\\udfff"}': "half of a surrogate pair"}
        for body, said in wrong.items():
            assert said in api.refused("POST", f"/jobs/{first}/ack", body, content_type="application/json")
        assert "no node knows" in api.refused("GET", f"/jobs/D-{'0' * 8}-{'x' * 24}-05a1/result", status=404)

    def test_waiting_ends_with_the_job_or_the_time(self, api: Api) -> None:
        job_id = api.add()
        assert api("POST", "/wait", {"ids": [job_id], "timeout": 0}) == {"jobs": [{"status": None, "id": job_id}]}

        async def both() -> object:
            ask = api.gateway.client.ask
            body = json.dumps({"ids": [job_id], "timeout": 30}).encode()
            waiting = asyncio.create_task(ask("POST", "/api/v1/wait", body, {"content-type": "application/json"}))
            client = api.gateway.hub.clusters.own.client
            while not (await client.info("clients"))["blocked_clients"]:  # noqa: ASYNC110 - it is the node that knows
                await asyncio.sleep(0.001)
            await ask("DELETE", f"/api/v1/jobs/{job_id}", b"", {})
            return (await waiting).json()["jobs"][0]["status"]

        assert api.gateway.run(both()) == "cancelled"
        assert api.refused("POST", "/wait", {"ids": []}) == "'ids' is empty"

    def test_results_beyond_the_bound_are_left_out_and_can_be_asked_for(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("disque.gateway.rest.jobs.VALUES_MOST", 10_000)
        sizes = (5000, 10, 5000, 5000, 0)
        job_ids = [api.add(retain=60) for _ in sizes]
        for job_id, size in zip(job_ids, sizes, strict=True):
            api("POST", f"/jobs/{job_id}/ack", {"result": "r" * size})
        failed = api.add(tries=1, deadletter="", retain=60)
        api.take(count=10)
        api("POST", f"/jobs/{failed}/nack", {"error": "no"})
        ended = api("POST", "/wait", {"ids": [*job_ids, failed]})["jobs"]
        assert [one["status"] for one in ended] == ["done"] * 5 + ["dead"]
        assert [len(one["result"] or "") for one in ended] == [5000, 10, 5000, 0, 0, 0]
        assert [one.get("left_out") for one in ended] == [None, None, None, True, None, None]
        assert ended[5]["error"] == "no"
        assert len(api("GET", f"/jobs/{job_ids[3]}/result")["result"]) == 5000

    def test_a_job_that_is_named_twice_has_its_long_result_once(self, api: Api) -> None:
        job_id = api.add(retain=60)
        api("POST", f"/jobs/{job_id}/ack", {"result": "r" * 5000})
        first, second = api("POST", "/wait", {"ids": [job_id] * 2})["jobs"]
        assert (len(first["result"]), first.get("left_out")) == (5000, None)
        assert (second["result"], second["left_out"], second["status"]) == (None, True, "done")

    def test_failures_are_told_and_the_last_one_is_dead(self, api: Api) -> None:
        job_id = api.add(tries=2)
        api.take()
        assert api("POST", f"/jobs/{job_id}/nack", {"error": "no \u00e9"}) == {"count": 1}
        [again] = api.take()
        assert (again["error"], again["tries"], again["tries_left"]) == ("no \u00e9", 1, 1)
        assert api("POST", f"/jobs/{job_id}/nack", {"count": False}) == {"count": 1}
        api.take()
        assert api("POST", f"/jobs/{job_id}/nack") == {"count": 1}
        assert api("GET", "/queues/mails:dead")["len"] == 1
        assert api("POST", f"/jobs/{job_id}/revive") == {"count": 1}
        assert api("POST", f"/jobs/{job_id}/nack") == {"count": 0}, "nobody has it"
        assert "no error" in api.refused("POST", f"/jobs/{job_id}/nack", {"count": False, "dead": True})

    def test_a_lease_is_extended_until_the_job_is_cancelled(self, api: Api) -> None:
        job_id = api.add()
        api.take(lease=50)
        assert 49 <= api("POST", f"/jobs/{job_id}/extend", {"progress": "half"})["lease_seconds"] <= 50
        assert api("GET", f"/jobs/{job_id}/result")["progress"] == "half"
        assert api("DELETE", f"/jobs/{job_id}?waiting=true") == {"count": 0}
        assert api("DELETE", f"/jobs/{job_id}") == {"count": 1}
        answer = api.ask("POST", f"/jobs/{job_id}/extend")
        assert (answer.status, answer.json()["type"]) == (409, "urn:disque:cancelled")

    def test_several_are_acknowledged(self, api: Api) -> None:
        added = [api.add() for _ in range(3)]
        assert api("POST", "/ack", {"ids": added}) == {"count": 3}
        assert "'x' is not the ID" in api.refused("POST", "/ack", {"ids": ["x"]})


class TestMoves:
    def test_run_now_and_move(self, api: Api, node: Node) -> None:
        job_id = api.add(delay=1000)
        assert api("POST", f"/jobs/{job_id}/run") == {"count": 1}
        assert [job["id"] for job in api.take()] == [job_id]
        assert api("POST", f"/jobs/{job_id}/move", {"queue": "other", "delay": 0.01}) == {"count": 1}
        until(lambda: node.ask("QLEN", "other"), "the job")
        assert api("GET", f"/jobs/{job_id}")["queue"] == "other"

    @pytest.mark.parametrize("path", ["/jobs/x", "/jobs/x/result"])
    def test_what_is_no_id_is_no_job(self, api: Api, path: str) -> None:
        assert api.refused("GET", path, status=404) == "'x' is not the ID of a job"
