from disque.core.model.tombstones import FORGET_LEAST, FORGET_PART, Tombstones
from tests.core.support import UNKNOWN_ID

OTHER = UNKNOWN_ID.replace(b"AAAA", b"BBBB")
KEEP_MS = 1000
MANY = 100


def test_an_id_is_remembered_for_its_time_and_then_forgotten() -> None:
    gone = Tombstones()
    assert gone.add(UNKNOWN_ID)
    assert gone.forget(100, KEEP_MS, MANY) == 0
    assert gone.forget(1099, KEEP_MS, MANY) == 0
    assert UNKNOWN_ID in gone
    assert gone.forget(1100, KEEP_MS, MANY) == 1
    assert UNKNOWN_ID not in gone
    assert len(gone) == 0


def test_whoever_is_added_again_is_remembered_from_then_on_and_counts_once() -> None:
    gone = Tombstones()
    assert gone.add(UNKNOWN_ID)
    assert not gone.add(UNKNOWN_ID)
    gone.forget(0, KEEP_MS, MANY)
    assert not gone.add(UNKNOWN_ID)
    gone.forget(500, KEEP_MS, MANY)
    assert len(gone) == 1
    assert gone.forget(1000, KEEP_MS, MANY) == 0
    assert UNKNOWN_ID in gone
    assert gone.forget(1500, KEEP_MS, MANY) == 1


def test_the_oldest_go_when_there_are_too_many() -> None:
    gone = Tombstones()
    gone.add(UNKNOWN_ID)
    gone.forget(0, KEEP_MS, 1)
    gone.add(OTHER)
    assert gone.forget(100, KEEP_MS, 1) == 1
    assert UNKNOWN_ID not in gone
    assert OTHER in gone


def test_of_very_many_that_came_together_each_beat_forgets_some() -> None:
    gone = Tombstones()
    many = FORGET_PART * FORGET_LEAST + 1
    for number in range(many):
        gone.add(UNKNOWN_ID[:11] + b"%024d" % number + UNKNOWN_ID[35:])
    gone.forget(0, KEEP_MS, many)
    for beat in range(FORGET_PART + 1):
        assert 0 < gone.forget(KEEP_MS + beat, KEEP_MS, many) <= FORGET_LEAST
    assert len(gone) == 0
