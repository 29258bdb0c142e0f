"""Operations on schedules."""

from tests.gateway.rest.conftest import Api


def test_a_schedule_is_made_changed_and_deleted(api: Api) -> None:
    given = {"spec": "0 9 * * mon-fri", "tz": "Europe/Berlin", "queue": "mails", "json": {"x": 1}, "tries": 3}
    made = api("PUT", "/schedules/each%20day", {**given, "catchup": "last", "headers": {"a": "b"}})
    assert (made["name"], made["spec"], made["tz"], made["catchup"]) == (
        "each day", "0 9 * * mon-fri", "Europe/Berlin", "last"
    )  # fmt: skip
    assert (made["queue"], made["body"], made["paused"], made["last"]) == ("mails", '{"x":1}', False, None)
    assert made["next"].endswith("Z")
    assert api("PUT", "/schedules/each%20day", {"spec": "@hourly", "queue": "other", "body": "x"})["queue"] == "other"
    listed = api("GET", "/schedules")
    assert ([one["name"] for one in listed["schedules"]], listed["next"]) == (["each day"], None)
    assert api("DELETE", "/schedules/each%20day") == {"count": 1}
    assert api.refused("GET", "/schedules/each%20day", status=404) == "there is no schedule of this name"


def test_it_is_paused_and_run_by_hand(api: Api) -> None:
    api("PUT", "/schedules/x", {"spec": "@yearly", "queue": "mails", "body": "run"})
    assert api("POST", "/schedules/x/pause") == {"count": 1}
    assert api("GET", "/schedules/x")["paused"] is True
    assert api("POST", "/schedules/x/resume") == {"count": 1}
    job_id = api("POST", "/schedules/x/run", status=201)["id"]
    [job] = api.take()
    assert (job["id"], job["body"], job["headers"]["cron-name"]) == (job_id, "run", "x")
    api("DELETE", "/schedules/x")
    missing = "there is no schedule of this name"
    assert api.refused("POST", "/schedules/x/run", status=404) == missing
    assert api.refused("GET", "/schedules/x", status=404) == missing


def test_times_are_told_before(api: Api) -> None:
    ticks = api("GET", "/schedules-preview?spec=0%200%201%201%20*&count=2&tz=UTC")["ticks"]
    assert [tick[4:] for tick in ticks] == ["-01-01T00:00:00.000Z"] * 2
    assert api.refused("GET", "/schedules-preview?spec=x")
    assert api.refused("GET", "/schedules-preview") == "'spec' is missing"


def test_what_is_no_schedule_is_refused(api: Api) -> None:
    assert "surrogate" in api.refused("PUT", "/schedules/x", {"spec": "\ud800", "queue": "q", "body": "x"})
    assert api.refused("PUT", "/schedules/x", {"spec": "x", "queue": "q", "body": "x"})
    assert "lacks 'queue'" in api.refused("PUT", "/schedules/x", {"spec": "@hourly", "body": "x"})
    assert "unknown field 'unique'" in api.refused(
        "PUT", "/schedules/x", {"spec": "@hourly", "queue": "q", "body": "x", "unique": "k"}
    )
    assert api.refused("GET", "/schedules?cursor=x") == "this is no cursor of this list"
