import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.spark.offsets import OffsetError, first, pack, read, unpack

IDS = st.lists(
    st.builds(
        lambda node, middle, tail: f"D-{node}-{middle}-{tail}",
        st.sampled_from(["b74f6fa1", "00000000"]),
        st.text("abcABC019+/", min_size=24, max_size=24),
        st.sampled_from(["05a1", "0001"]),
    ),
    max_size=20,
)


@given(IDS)
def test_ids_are_the_same_after_packing(ids: list[str]) -> None:
    assert sorted(unpack(pack(ids))) == sorted(ids)


@given(IDS)
def test_an_offset_has_its_ids_in_the_order_in_which_they_come_back(ids: list[str]) -> None:
    offset = first("mails").next(ids)
    assert read(offset.as_json(), "mails") == offset


def test_ids_of_one_kind_take_24_characters_each() -> None:
    ids = [f"D-b74f6fa1-{number:024d}-05a1" for number in range(1000)]
    assert len(json.dumps(pack(ids))) < 24_100


@given(IDS)
def test_an_offset_survives_the_checkpoint(ids: list[str]) -> None:
    offset = first("mails").next(ids)
    found = read(json.loads(json.dumps(offset.as_json())), "mails")
    assert (found.number, sorted(found.ids)) == (1, sorted(ids))


def test_a_query_begins_with_nothing() -> None:
    assert read(first("q").as_json(), "q") == ("q", 0, [])


@pytest.mark.parametrize(
    ("json", "message"),
    [
        ({"partition-0": 3}, "another source"),
        (first("other").as_json(), "of the queue 'other', not of 'mails'"),
        ({**first("mails").as_json(), "version": 2}, "version 2"),
        ({**first("mails").as_json(), "jobs": 3}, "damaged"),
    ],
)
def test_an_offset_of_another_query_is_refused(json: dict[str, Any], message: str) -> None:
    with pytest.raises(OffsetError, match=message):
        read(json, "mails")
