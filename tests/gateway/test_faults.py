"""Errors of the cluster, as HTTP says them."""

import pytest

from disque.client import CommandError, DisqueError, NoReplError, UnavailableError, UnknownCodeError, WrongPassError
from disque.client.errors import BY_CODE, make
from disque.gateway.faults import FAULTS, fault_of


@pytest.mark.parametrize(
    ("error", "status"),
    [(CommandError("x"), 400), (WrongPassError(), 401), (NoReplError(), 503), (UnavailableError(), 503)],
)
def test_each_error_has_a_status(error: DisqueError, status: int) -> None:
    assert fault_of(error).status == status


def test_what_may_have_been_done_is_told_apart() -> None:
    error = UnavailableError()
    error.maybe_done = True
    assert fault_of(error)[::2] == (504, True)


def test_all_codes_of_the_client_are_in_the_table_but_those_of_the_handshake() -> None:
    assert set(BY_CODE) - set(FAULTS) == {"NOPROTO"}


def test_a_user_without_the_right_is_told_so_and_what_is_not_known_is_the_clusters() -> None:
    assert fault_of(make("NOPERM", "no")).status == 403
    unknown = UnknownCodeError("x")
    unknown.code = "NEWS"
    assert fault_of(unknown).status == 502
