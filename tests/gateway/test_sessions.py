"""Cookies that hold a session."""

import pytest

from disque.gateway import sessions as module
from disque.gateway.sessions import COOKIE_MOST, LASTS_S, Session, Sessions

SECRET = b"a secret of some length"


def test_gateways_with_the_same_secret_know_each_others_sessions() -> None:
    session = Session("ada", "secret")
    assert Sessions(SECRET).read(Sessions(SECRET).cookie(session)) == session
    assert Sessions(b"another secret, also long").read(Sessions(SECRET).cookie(session)) is None
    assert Sessions().read(Sessions().cookie(session)) is None, "each has a secret of its own"


def test_a_cookie_shows_nothing_of_what_it_holds() -> None:
    session = Session("ada", "hidden")
    assert "hidden" not in repr(session)
    assert "hidden" not in Sessions(SECRET).cookie(session)


def test_a_session_ends() -> None:
    now = [1_000_000.0]
    sessions = Sessions(SECRET, lambda: now[0])
    cookie = sessions.cookie(Session(None, None))
    now[0] += LASTS_S
    assert sessions.read(cookie) is not None
    now[0] += 1
    assert sessions.read(cookie) is None


def test_a_cookie_that_was_changed_or_made_up_is_none() -> None:
    sessions = Sessions(SECRET)
    cookie = sessions.cookie(Session("ada", "secret"))
    for wrong in (None, "", "x", cookie[:-6], cookie[:40] + "AAAA" + cookie[44:], "\u00e9", "A" * (COOKIE_MOST + 1)):
        assert sessions.read(wrong) is None


def test_each_login_has_its_own_token() -> None:
    assert Session(None, None).csrf != Session(None, None).csrf


def test_a_session_that_was_logged_out_has_ended_and_others_have_not() -> None:
    sessions = Sessions(SECRET)
    mine, other = (sessions.cookie(Session("ada", "secret")) for _ in range(2))
    sessions.end(mine)
    sessions.end(mine)
    sessions.end("no cookie")
    assert sessions.read(mine) is None
    assert sessions.read(other) is not None


def test_what_is_remembered_is_bounded_and_no_session_comes_to_life_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_MOST", 3)
    now = [1_000_000.0]
    sessions = Sessions(SECRET, lambda: now[0])
    cookies = []
    for _ in range(6):
        now[0] += 1
        cookies.append(sessions.cookie(Session("ada", "secret")))
    for cookie in cookies:
        sessions.end(cookie)
    assert len(sessions._ended) == 3
    assert [sessions.read(cookie) for cookie in cookies] == [None] * 6
    now[0] += 1
    assert sessions.read(sessions.cookie(Session("ada", "secret"))) is not None
    now[0] += LASTS_S
    sessions.end(sessions.cookie(Session("ada", "secret")))
    assert len(sessions._ended) == 1, "what would have ended anyway is forgotten"
