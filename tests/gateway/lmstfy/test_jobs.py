"""What lmstfy's clients see of jobs."""

import asyncio
from base64 import b64decode
from collections.abc import MutableMapping
from typing import Any, Final

import pytest

from disque.client import JobCancelledError
from disque.gateway import ids
from disque.gateway.lmstfy.call import RefusedError
from disque.gateway.lmstfy.jobs import FOREVER_S, elements, left_s
from tests.end_to_end.node import Node, until
from tests.gateway.lmstfy.conftest import TOKEN, Door

NAMES: Final = ["attributes", "data", "elapsed_ms", "job_id", "msg", "namespace", "queue", "remain_tries", "ttl"]


class TestPublish:
    def test_a_job_is_consumed_as_it_was_published(self, door: Door) -> None:
        body = bytes(range(256))
        job_id = door.publish("ns/q?ttl=100&tries=3", body)
        job = door.consume()
        assert list(job) == NAMES
        assert b64decode(job.pop("data")) == body
        assert 0 <= job.pop("elapsed_ms") < 60_000
        expected = {"attributes": None, "job_id": job_id, "msg": "new job", "namespace": "ns", "queue": "q"}
        assert job == {**expected, "remain_tries": 2, "ttl": 100}

    def test_the_answer_is_in_the_order_of_the_alphabet(self, door: Door) -> None:
        assert door("PUT", "ns/q", b"x").text.startswith('{"job_id":"D-')
        assert door("PUT", "ns/q", b"x").text.endswith('","msg":"published"}')

    def test_ttl_0_is_for_ever_and_shown_as_0(self, door: Door) -> None:
        door.publish("ns/q?ttl=0")
        assert door.consume()["ttl"] == 0

    @pytest.mark.parametrize("query", ["delay=1&ttl=1", "delay=4294967295&ttl=0", "delay=4294967295&ttl=4294967295"])
    def test_a_delay_may_be_as_long_as_the_ttl(self, door: Door, query: str) -> None:
        door.publish(f"ns/q?{query}")
        assert door("GET", "ns/q").status == 404

    def test_a_delayed_job_comes_when_it_is_due(self, door: Door) -> None:
        job_id = door.publish("ns/q?delay=1")
        assert door("GET", "ns/q").status == 404
        assert door("GET", "ns/q/peek").status == 404
        assert door.consume("ns/q?timeout=30")["job_id"] == job_id

    def test_publishing_again_deletes_the_old_one_first_whatever_else_is_wrong(self, door: Door) -> None:
        old = door.publish()
        new = door("PUT", f"ns/q/job/{old}?ttl=10", b"new")
        assert new.status == 201
        assert door.consume()["job_id"] == new.json()["job_id"] != old
        other = door.publish()
        assert door("PUT", f"ns/q/job/{other}?ttl=x").status == 400
        assert door("GET", "ns/q").status == 404

    def test_a_bulk_is_a_job_for_each_element_as_it_is_written(self, door: Door) -> None:
        answer = door("PUT", "ns/q/bulk?tries=2", b' [ "a\\u00e9" , {"x" : [1.0, 2e5]},1234567890123456789012,true ]')
        added = answer.json()["job_ids"]
        assert answer.json()["msg"] == "published"
        jobs = door.consume("ns/q?count=10")
        assert [job["job_id"] for job in jobs] == added
        bodies = [b64decode(job["data"]) for job in jobs]
        assert bodies == [b'"a\\u00e9"', b'{"x" : [1.0, 2e5]}', b"1234567890123456789012", b"true"]
        assert {job["remain_tries"] for job in jobs} == {1}

    def test_64_jobs_of_a_bulk_are_taken(self, door: Door) -> None:
        assert len(door("PUT", "ns/q/bulk", b"[" + b"1," * 63 + b"1]").json()["job_ids"]) == 64


class TestAttributes:
    def test_they_come_back_in_small_letters_and_cut(self, door: Door) -> None:
        long = {f"job_attr_{'K' * 40}": "v" * 200}
        door.publish(enable_job_version="YES", job_attr_Trace_ID="Abc", job_attr_empty="", **long)
        found = door.consume()["attributes"]
        assert found == {"trace-id": "Abc", "empty": "", "k" * 32: "v" * 128}

    @pytest.mark.parametrize("enabled", [{}, {"enable_job_version": "yes"}, {"enable_job_version": "NO"}])
    def test_without_the_version_there_are_none(self, door: Door, enabled: dict[str, str]) -> None:
        door.publish(job_attr_a="b", **enabled)
        assert door.consume()["attributes"] is None

    def test_there_are_16_at_most(self, door: Door) -> None:
        many = {f"job_attr_{number}": "x" for number in range(16)}
        door.publish(enable_job_version="YES", **many)
        answer = door("PUT", "ns/q", b"x", enable_job_version="YES", job_attr_16="x", **many)
        assert answer.body == b'{"error":"too many attributes, cannot exceed 16"}'
        assert answer.status == 400

    def test_values_that_are_no_text_are_shown_as_well_as_can_be(self, door: Door) -> None:
        door.publish(enable_job_version="YES", job_attr_a="\xff<")
        assert door.consume()["attributes"] == {"a": "\ufffd<"}

    def test_jobs_of_a_bulk_have_them_too(self, door: Door) -> None:
        door("PUT", "ns/q/bulk", b"[1,2]", enable_job_version="YES", job_attr_a="b")
        assert [job["attributes"] for job in door.consume("ns/q?count=5")] == [{"a": "b"}] * 2


class TestConsume:
    def test_the_first_queue_is_emptied_first(self, door: Door) -> None:
        for queue in ("b", "a", "b"):
            door.publish(f"ns/{queue}", queue.encode())
        assert [job["queue"] for job in door.consume("ns/,b,a?count=5")] == ["b", "b", "a"]

    def test_one_of_several_is_still_an_array(self, door: Door) -> None:
        door.publish()
        assert len(door.consume("ns/q?count=2")) == 1

    def test_a_long_poll_gets_the_job_when_it_comes_and_one_only(self, door: Door) -> None:
        async def both() -> Any:
            waiting = asyncio.create_task(door.poll("ns/q?timeout=30&count=3"))
            await door.until_polls(1)
            await door.gateway.client.ask("PUT", "/api/ns/q", b"late", {"X-Token": TOKEN})
            return (await waiting).json()

        [job] = door.gateway.run(both())
        assert b64decode(job["data"]) == b"late"

    def test_a_poll_without_a_job_ends_in_its_time(self, door: Door) -> None:
        assert door("GET", "ns/q?timeout=1").body == b'{"msg":"no job available"}'

    def test_a_client_that_leaves_takes_no_job_along(self, door: Door) -> None:
        async def both() -> None:
            left = asyncio.Event()

            async def receive() -> MutableMapping[str, Any]:
                await left.wait()
                return {"type": "http.disconnect"}

            waiting = asyncio.create_task(door.poll("ns/q?timeout=30", receive))
            await door.until_polls(1)
            left.set()
            with pytest.raises(KeyError):  # nothing was answered
                await waiting
            assert not door.gateway.hub.clusters.polls

        door.gateway.run(both())
        job_id = door.publish()
        assert door.consume("ns/q?timeout=30")["job_id"] == job_id

    def test_a_gateway_that_stops_ends_its_polls_without_a_job(self, door: Door) -> None:
        async def both() -> int:
            waiting = asyncio.create_task(door.poll("ns/q?timeout=30"))
            await door.until_polls(1)
            await door.gateway.hub.stop()
            return (await waiting).status

        assert door.gateway.run(both()) == 404

    def test_a_job_that_is_not_acknowledged_comes_again_after_its_ttr_until_it_is_dead(self, door: Door) -> None:
        job_id = door.publish("ns/q?tries=2&ttl=50")
        assert door.consume("ns/q?ttr=1")["remain_tries"] == 1
        again = door.consume("ns/q?ttr=0&timeout=30")
        assert (again["job_id"], again["remain_tries"]) == (job_id, 0)
        until(lambda: door("GET", "ns/q/deadletter").json()["deadletter_size"], "the job to die")
        assert door("GET", "ns/q/deadletter").json()["deadletter_head"] == job_id
        assert door("GET", "ns/q").status == 404

    def test_an_acknowledged_job_is_gone(self, door: Door, node: Node) -> None:
        job = door.consume(door.publish("ns/q?tries=5") and "ns/q")
        assert door("DELETE", f"ns/q/job/{job['job_id']}").status == 204
        shown = node.ask("SHOW", ids.meant(job["job_id"]) or b"")
        assert shown is None or b"acked" in shown

    def test_a_job_that_waits_is_deleted_all_the_same(self, door: Door) -> None:
        job_id = door.publish()
        assert door("DELETE", f"ns/any/job/{job_id}").status == 204
        assert door("GET", "ns/q").status == 404


class TestLooking:
    def test_a_job_is_peeked_at_by_its_id(self, door: Door) -> None:
        job_id = door.publish("ns/q?ttl=100&tries=3", b"x", enable_job_version="YES", job_attr_A="b")
        job = door("GET", f"ns/q/job/{job_id}").json()
        assert list(job) == [name for name in NAMES if name != "msg"]
        assert (job["job_id"], b64decode(job["data"]), job["remain_tries"]) == (job_id, b"x", 0)
        assert (job["ttl"], job["attributes"], job["elapsed_ms"] >= 0) == (100, {"a": "b"}, True)

    def test_a_job_of_another_queue_is_not_shown(self, door: Door) -> None:
        job_id = door.publish()
        door.gateway.run(door.gateway.hub.tokens.add("other", TOKEN, "x"))
        assert door("GET", f"ns/other/job/{job_id}").status == 404
        assert door("GET", f"other/q/job/{job_id}").status == 404

    def test_an_acknowledged_job_is_not_shown(self, door: Door) -> None:
        job_id = door.publish()
        door.consume()
        door("DELETE", f"ns/q/job/{job_id}")
        assert door("GET", f"ns/q/job/{job_id}").body == b'{"error":"job not found"}'

    def test_the_oldest_job_is_peeked_at_and_stays(self, door: Door) -> None:
        first = door.publish("ns/q?tries=4", b"first")
        door.publish()
        for _ in range(2):
            job = door("GET", "ns/q/peek").json()
            assert list(job) == [name for name in NAMES if name != "msg"]
            assert (job["job_id"], b64decode(job["data"]), job["remain_tries"]) == (first, b"first", 4)
        assert door("GET", "ns/q/size").body == b'{"namespace":"ns","queue":"q","size":2}'

    def test_destroying_a_queue_leaves_what_is_delayed_and_in_flight(self, door: Door) -> None:
        taken = door.consume(door.publish("ns/q?tries=2") and "ns/q?ttr=1")
        delayed = door.publish("ns/q?delay=1")
        for _ in range(3):
            door.publish()
        door.publish("ns/other")
        assert door("DELETE", "ns/q").status == 204
        assert door("GET", "ns/q/size").json()["size"] == 0
        assert door("GET", "ns/other/size").json()["size"] == 1
        came = {door.consume("ns/q?timeout=30")["job_id"] for _ in range(2)}
        assert came == {taken["job_id"], delayed}


class TestDeadLetters:
    @pytest.fixture
    def dead(self, door: Door, node: Node) -> list[str]:
        """Three jobs that have died, the oldest first."""
        added = [door.publish("ns/q?ttl=500", str(number).encode()) for number in range(3)]
        for job in door.consume("ns/q?count=3"):
            assert node.ask("NACK", ids.meant(job["job_id"]) or b"", "DEAD") == 1
        return added

    def test_they_are_counted_and_the_oldest_is_named(self, door: Door, dead: list[str]) -> None:
        answer = door("GET", "ns/q/deadletter")
        expected = f'{{"deadletter_head":"{dead[0]}","deadletter_size":3,"namespace":"ns","queue":"q"}}'
        assert answer.text == expected
        assert door("GET", "ns/q/deadletter/size").body == b'{"namespace":"ns","queue":"q","size":3}'
        assert b64decode(door("GET", f"ns/q/job/{dead[0]}").json()["data"]) == b"0"

    def test_some_are_put_back_under_their_old_ids(self, door: Door, dead: list[str]) -> None:
        assert door("PUT", "ns/q/deadletter?limit=2&ttl=120").body == b'{"count":2,"msg":"respawned"}'
        jobs = door.consume("ns/q?count=5")
        assert [job["job_id"] for job in jobs] == dead[:2]
        assert {job["remain_tries"] for job in jobs} == {0}
        assert door("PUT", "ns/q/deadletter").json()["count"] == 1
        assert door("PUT", "ns/q/deadletter").json()["count"] == 0

    def test_some_are_deleted(self, door: Door, dead: list[str]) -> None:
        assert door("DELETE", "ns/q/deadletter").status == 204
        assert door("GET", "ns/q/deadletter").json()["deadletter_head"] == dead[1]
        assert door("DELETE", "ns/q/deadletter?limit=100").status == 204
        assert door("GET", f"ns/q/job/{dead[2]}").status == 404


class TestElements:
    @pytest.mark.parametrize(
        ("body", "found"),
        [
            (b"[]", []),
            (b" \t\r\n[ ]\n", []),
            (b"null", []),
            (b'[[1, 2],{"a":"]"}, "x"]', [b"[1, 2]", b'{"a":"]"}', b'"x"']),
            (b'["\xff"]', [b'"\xff"']),
            (b"[" + b"9" * 10_000 + b"]", [b"9" * 10_000]),
        ],
    )
    def test_they_are_as_they_are_written(self, body: bytes, found: list[bytes]) -> None:
        assert elements(body) == found

    @pytest.mark.parametrize(
        "body", [b"", b"nul", b"[1 2]", b"[,]", b'["\x01"]', b"[01]", b"[1]]", b"\xef\xbb\xbf[]", b"[Infinity]"]
    )
    def test_what_go_would_not_read_is_refused(self, body: bytes) -> None:
        with pytest.raises(RefusedError):
            elements(body)


def test_the_rest_of_a_ttl_is_rounded_up() -> None:
    assert [left_s(ms) for ms in (0, 1, 1000, 1001)] == [0, 1, 1, 2]
    assert left_s(FOREVER_S * 1000) == 0
    assert left_s(FOREVER_S * 499) > 0


def test_a_consumer_of_a_job_that_was_deleted_hears_of_it(door: Door) -> None:
    job_id = door.publish()
    door.consume()
    assert door("DELETE", "ns/q").status == 204, "it is in flight, so it stays"
    client = door.gateway.hub.clusters.own.client
    assert door.gateway.run(client.cancel(ids.meant(job_id) or b"")) == 1
    with pytest.raises(JobCancelledError):
        door.gateway.run(client.working_one(ids.meant(job_id) or b""))
