import pytest

from disque.core.model import early_holders
from disque.core.model.early_holders import EarlyHolders
from tests.core.support import UNKNOWN_ID

OTHER = UNKNOWN_ID.replace(b"AAAA", b"BBBB")
ONE, TWO = b"1" * 40, b"2" * 40


def test_who_said_so_is_told_once_each_and_only_once() -> None:
    heard = EarlyHolders()
    for peer in (ONE, TWO, ONE):
        heard.note(UNKNOWN_ID, peer, 5)
    assert len(heard) == 1
    assert heard.take(UNKNOWN_ID) == (ONE, TWO)
    assert heard.take(UNKNOWN_ID) == ()
    assert len(heard) == 0


def test_what_was_heard_before_a_time_is_forgotten() -> None:
    heard = EarlyHolders()
    heard.note(UNKNOWN_ID, ONE, 5)
    heard.note(OTHER, ONE, 7)
    heard.note(UNKNOWN_ID, TWO, 9)
    heard.forget(5)
    assert len(heard) == 2
    heard.forget(6)
    assert heard.take(UNKNOWN_ID) == ()
    assert heard.take(OTHER) == (ONE,)


def test_so_many_are_remembered_and_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_holders, "EARLY_MOST", 32)
    heard = EarlyHolders()
    ids = [b"D-11111111-%024d-05a1" % number for number in range(33)]
    for one in ids:
        heard.note(one, ONE, 0)
    heard.note(ids[5], TWO, 0)
    assert [heard.take(one) for one in ids] == [*[()] * 3, (ONE,), (ONE,), (ONE, TWO), *[(ONE,)] * 27]
