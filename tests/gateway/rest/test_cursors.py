"""Cursors, and walks through all nodes."""

import pytest

from disque.gateway.rest.cursors import place_of, read, written
from disque.gateway.rest.operation import Problem
from tests.gateway.rest.conftest import Api


def test_there_and_back() -> None:
    for value in ("", "a/b\u00e9", ["node", 5]):
        assert read(written(value)) == value
        assert written(value).isascii()
    assert place_of("") == ("", 0)


@pytest.mark.parametrize(
    "text", ["x", "\u00e9", "e30", written({}), written([1, 2]), written(["a", -1]), "A" * 5000, "W" * 999]
)
def test_what_somebody_made_up_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        place_of(text)


def test_a_walk_meets_each_job_once_and_ends(api: Api) -> None:
    added = {api.add(body=str(number)) for number in range(57)}
    met: list[str] = []
    cursor = ""
    while True:
        page = api("GET", f"/queues/mails/jobs?limit=10&cursor={cursor}")
        met += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(met) == sorted(added)
    assert api.refused("GET", "/queues/mails/jobs?cursor=x") == "this is no cursor of this API"
