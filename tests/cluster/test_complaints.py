import socket
import ssl

import pytest

from cluster.complaints import MOST, PATIENCE_S, PLACES_MOST, QUIET_S, Complaints, Unreached, reason_of


def test_each_has_a_line_a_minute() -> None:
    complaints = Complaints()
    assert [complaints.add("a", 0.0), complaints.add("a", 1.0), complaints.add("b", 2.0)] == [True, False, True]
    assert complaints.add("a", QUIET_S)
    assert not complaints.add("a", QUIET_S + 1)
    assert complaints.count == 5


def test_memory_of_them_is_bounded_and_those_beyond_it_are_only_counted() -> None:
    complaints = Complaints()
    lines = [complaints.add(str(number), number / 1e6) for number in range(MOST * 2)]
    assert sum(lines) == len(complaints._heard) == MOST
    assert complaints.count == MOST * 2


def test_after_a_minute_there_is_room_again() -> None:
    complaints = Complaints()
    for number in range(MOST):
        complaints.add(str(number), 0.0)
    assert complaints.add("late", QUIET_S)
    assert len(complaints._heard) == 1


def test_the_first_second_says_nothing_then_there_is_a_line_a_minute() -> None:
    unreached = Unreached()
    unreached.tried("a:1", 10.0)
    unreached.tried("a:1", 10.1)
    at_s = [10.0, 10.0 + PATIENCE_S / 2, 10.0 + PATIENCE_S, 20.0, 10.0 + PATIENCE_S + QUIET_S]
    assert [unreached.failed("a:1", now_s) for now_s in at_s] == [False, False, True, False, True]


def test_each_place_counts_for_itself() -> None:
    unreached = Unreached()
    unreached.tried("a:1", 0.0)
    unreached.tried("b:1", PATIENCE_S)
    assert not unreached.failed("b:1", PATIENCE_S)
    assert unreached.failed("a:1", PATIENCE_S)


def test_a_node_that_was_reached_has_its_second_again() -> None:
    unreached = Unreached()
    unreached.tried("a:1", 0.0)
    unreached.reached("a:1")
    unreached.reached("never heard of")
    unreached.tried("a:1", 5.0)
    assert not unreached.failed("a:1", 5.0 + PATIENCE_S / 2)


def test_memory_of_places_is_bounded() -> None:
    unreached = Unreached()
    for number in range(PLACES_MOST * 2):
        unreached.tried(str(number), 0.0)
    assert len(unreached._since_s) == PLACES_MOST


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name cannot be resolved (Name or service not known)"),
        (ConnectionRefusedError(), "connection refused, no process listens there"),
        (TimeoutError(), "timed out, no answer within 5 s"),
        (ssl.SSLCertVerificationError(1, "x"), "TLS failed: the certificate is not trusted: expired"),
        (UnicodeError("label too long"), "this is not a valid name"),
        (OSError(113, "No route to host"), "No route to host"),
        (OSError(), "OSError"),
    ],
)
def test_reasons_are_words_for_people(wrong: Exception, said: str) -> None:
    if isinstance(wrong, ssl.SSLCertVerificationError):
        wrong.verify_message = "expired"
    assert reason_of(wrong, 5.0) == said
