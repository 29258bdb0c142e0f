import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.utils.time import maybe_iso8601, maybe_make_aware

from disque.celery import terms
from disque.celery.options import FOREVER_S, Options
from disque.client.replies import Delivered

NOW_S = 1_800_000_000.0
ID = "D-80b5c460-Vr3WFsmz5lhcQcL2Vtzh1RKD-ffff"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)


def message(headers: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"body": "e30=", "headers": headers or {}, "properties": {"delivery_info": {}, **properties}}


def at(seconds: float, zone: Any = UTC) -> str:
    return (datetime.fromtimestamp(NOW_S, UTC) + timedelta(seconds=seconds)).astimezone(zone).isoformat()


class TestJobOptions:
    def test_a_plain_message_lives_for_ever(self) -> None:
        assert terms.job_options(message(), Options()) == {"ttl": FOREVER_S}

    @pytest.mark.parametrize(("said", "meant"), [(9, 9), (3, 3), (12, 9), ("7", 7)])
    def test_the_highest_priority_is_9(self, said: Any, meant: int) -> None:
        assert terms.job_options(message(priority=said), Options())["priority"] == meant

    @pytest.mark.parametrize("said", [0, -1, None, "high"])
    def test_anything_else_has_none(self, said: Any) -> None:
        assert "priority" not in terms.job_options(message(priority=said), Options())

    def test_an_eta_is_a_delay(self) -> None:
        one = message({"eta": at(90)})
        assert terms.job_options(one, Options())["delay"] == 90
        assert one["held"]

    def test_an_eta_may_be_in_any_time_zone(self) -> None:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - used here only

        assert terms.job_options(message({"eta": at(90, ZoneInfo("Asia/Tokyo"))}), Options())["delay"] == 90

    @pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
    def test_an_eta_without_a_time_zone_is_what_a_worker_takes_it_for(self, zone: str | None) -> None:
        one = message({"eta": "2027-01-15T08:01:30"})
        assert terms.job_options(one, Options())["delay"] == 90
        assert terms.eta_of(one) == maybe_make_aware(maybe_iso8601(one["headers"]["eta"]), zone).timestamp()

    @pytest.mark.parametrize("eta", [at(0), at(-5), "soon", None, 17, "2027-01-15T08:00:00"])
    def test_what_is_over_or_no_time_is_not_held(self, eta: Any) -> None:
        one = message({"eta": eta})
        assert "delay" not in terms.job_options(one, Options())
        assert "held" not in one

    def test_an_expiration_is_a_ttl(self) -> None:
        assert terms.job_options(message(expiration="90500"), Options())["ttl"] == 90.5

    def test_a_task_whose_worker_sees_that_it_expires_can_be_held_until_then(self) -> None:
        assert terms.job_options(message({"expires": at(20)}, expiration="20000"), Options())["ttl"] == 100
        one = message({"expires": at(20), "eta": at(11)}, expiration="20000")
        assert terms.job_options(one, Options()) == {"delay": 11, "ttl": 100}
        one = message({"expires": at(20), "eta": at(90)}, expiration="20000")
        assert terms.job_options(one, Options())["ttl"] == 150
        assert terms.job_options(message({"expires": at(20)}, expiration="20000"), Options(ttl_s=10))["ttl"] == 10

    def test_what_queue_and_transport_say_begins_when_it_is_not_put_off_any_more(self) -> None:
        assert terms.job_options(message({"eta": at(90)}), Options(ttl_s=100))["ttl"] == 100 + 2 * 90
        assert terms.job_options(message({"eta": at(90)}), Options(ttl_s=100), 80.0)["ttl"] == 80 + 2 * 90

    @pytest.mark.parametrize("said", ["0", "-3"])
    def test_nothing_is_over_at_once(self, said: str) -> None:
        assert terms.job_options(message(expiration=said), Options())["ttl"] == 1

    def test_what_is_over_before_its_eta_still_comes_so_that_a_worker_says_so(self) -> None:
        words = terms.job_options(message({"eta": at(90)}, expiration="30000"), Options())
        assert words == {"delay": 90, "ttl": 150}

    def test_transient_messages_live_for_a_day(self) -> None:
        assert terms.job_options(message(delivery_mode=1), Options())["ttl"] == 86_400
        assert terms.job_options(message(delivery_mode=2), Options())["ttl"] == FOREVER_S

    def test_the_shortest_life_counts(self) -> None:
        one = message(delivery_mode=1, expiration="60000")
        assert terms.job_options(one, Options(ttl_s=1000), 10.0)["ttl"] == 10

    def test_no_life_is_longer_than_there_is(self) -> None:
        words = terms.job_options(message({"eta": at(FOREVER_S - 10)}), Options())
        assert words["ttl"] == FOREVER_S

    def test_options_of_all_jobs(self) -> None:
        assert terms.job_options(message(), Options(job={"tries": 5}))["tries"] == 5


class TestMessageOf:
    def delivered(self, one: dict[str, Any], nacks: int = 0, additional: int = 0) -> dict[str, Any]:
        return terms.message_of(Delivered(ID, "q", terms.packed(one), nacks, additional))

    def test_the_id_of_the_job_is_the_tag(self) -> None:
        assert self.delivered(message())["properties"]["delivery_tag"] == ID

    @pytest.mark.parametrize(("nacks", "additional", "again"), [(0, 0, None), (1, 0, True), (0, 1, True)])
    def test_what_comes_again_is_marked(self, nacks: int, additional: int, again: bool | None) -> None:
        one = self.delivered(message(), nacks, additional)
        assert one["properties"]["delivery_info"].get("redelivered") is again
        assert one["headers"].get("redelivered") is again

    def test_an_eta_that_is_over_is_left(self) -> None:
        assert self.delivered(message({"eta": at(-1)}) | {"held": True})["headers"]["eta"] == at(-1)

    def test_what_the_server_held_runs_now_even_if_this_clock_is_late(self) -> None:
        one = self.delivered(message({"eta": at(30)}) | {"held": True})
        assert one["headers"]["eta"] is None
        assert "held" not in one

    def test_what_it_did_not_hold_is_left_to_the_worker(self) -> None:
        assert self.delivered(message({"eta": at(30)}))["headers"]["eta"] == at(30)

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"{}", b'{"properties": 3}'])
    def test_what_is_no_message_is_refused(self, body: bytes) -> None:
        with pytest.raises(ValueError, match=r".+"):
            terms.message_of(Delivered(ID, "q", body))
