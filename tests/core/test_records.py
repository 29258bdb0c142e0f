import pytest

from disque.core.records import ACK, HEAVY, JOB, KEY, PAUSE, Record, weight

ID = b"D-11111111-%024d-003d" % 1


@pytest.mark.parametrize(
    ("record", "heavy"),
    [
        ((JOB, ID, b"queue", b"x" * 1000, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0), 1005),
        ((PAUSE, b"q" * 300, 1), 300),
        ((KEY, b"k" * 15, ID, 0, 9, 1), 0),
        ((ACK, ID), 0),
    ],
)
def test_the_weight_of_a_record_is_that_of_what_a_client_can_make_large(record: Record, heavy: int) -> None:
    assert weight(record) == heavy
    assert (record[0] in HEAVY) == bool(heavy)
