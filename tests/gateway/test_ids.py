"""IDs of jobs in URLs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.gateway import ids

NATIVE = b"D-b74f6fa1-2Osz+/Fx7ZBCnO8eLUAZ4d++-05a1"


def test_an_id_has_nothing_that_a_url_would_have_to_write_otherwise() -> None:
    shown = ids.shown(NATIVE)
    assert re.fullmatch(rb"[-_.A-Za-z0-9]+", shown)
    assert ids.meant(shown.decode()) == NATIVE


def test_the_form_of_the_cluster_is_understood_as_well() -> None:
    assert ids.meant(NATIVE.decode()) == NATIVE


@given(st.text(st.sampled_from("ABCxyz019+/"), min_size=24, max_size=24))
def test_there_and_back(random: str) -> None:
    native = f"D-b74f6fa1-{random}-05a1".encode()
    assert ids.meant(ids.shown(native).decode()) == native


@pytest.mark.parametrize("text", ["", "x", NATIVE.decode()[:-1], NATIVE.decode() + "x", "D-" + "\u00e9" * 38, "-" * 40])
def test_what_can_be_no_id_is_none(text: str) -> None:
    assert ids.meant(text) is None
