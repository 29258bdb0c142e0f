"""What a session knows of itself: who may run commands, and how many ADDJOBs it may leave unanswered."""

import pytest

from disque.core.base.timers import NEVER
from disque.core.model.session import ADDS_BYTES_MAX, ADDS_MAX, NOT_WAITING, PendingAdd, Session
from disque.core.model.user import Users, open_default


@pytest.fixture
def session() -> Session:
    return Session(7, b"127.0.0.1:5000", b"127.0.0.1:7711", 1000)


def test_a_new_session_waits_for_nothing_and_speaks_resp2(session: Session) -> None:
    assert (session.waiting, session.protocol, session.out, session.closing) == (NOT_WAITING, 2, [], False)


def test_without_a_password_everybody_may(session: Session) -> None:
    session.log_in(open_default(), passed=False)
    assert (session.may(), session.limited) == (True, False)


def test_with_a_password_only_those_may_who_gave_it(session: Session) -> None:
    users = Users()
    session.log_in(users.require(b"secret"), passed=False)
    assert (session.may(), session.limited) == (False, True)
    session.log_in(users.default, passed=True)
    assert (session.may(), session.limited) == (True, False)


def test_a_connection_is_full_with_too_many_unanswered_adds(session: Session) -> None:
    session.adds.extend(PendingAdd(session, [b"ADDJOB"]) for _ in range(ADDS_MAX - 1))
    assert not session.full()
    session.adds.append(PendingAdd(session, [b"ADDJOB"]))
    assert session.full()


def test_a_connection_is_full_with_too_many_bytes_in_them(session: Session) -> None:
    session.adds_bytes = ADDS_BYTES_MAX
    assert session.full()


def test_an_unanswered_add_counts_with_all_its_words(session: Session) -> None:
    assert PendingAdd(session, [b"ADDJOB", b"q", b"12345", b"0"]).size == 13


def test_the_first_addjob_that_is_too_late_counts_while_replies_are_owed() -> None:
    session = Session(1, b"", b"", 0)
    session.expect(500, 1000)
    assert session.answer_by_ms == 1500
    session.expect(900, 1001)
    assert session.answer_by_ms == 1901, "nothing was owed any more"
    session.out.append(b"+reply\r\n")
    session.expect(400, 1002)
    session.expect(500, 1003)
    session.expect(0, 1004)
    assert session.answer_by_ms == 1402
    session.expect(800, 1402)
    assert session.answer_by_ms == 2202, "what is over counts no more"
    session.out.clear()
    session.expect(0, 1403)
    assert session.answer_by_ms == NEVER
