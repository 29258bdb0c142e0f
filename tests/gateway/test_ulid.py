"""IDs of requests."""

from disque.gateway.ulid import BLOCK, UlidMaker


def test_an_id_tells_the_time_and_is_in_crockfords_letters() -> None:
    make = UlidMaker(lambda: 1_469_918_176.385, lambda size: bytes(size - 1) + b"\x1f")
    assert make() == "01ARYZ6S41" + 16 * "0"  # the example of the specification
    assert len(make()) == 26


def test_ids_differ_within_a_millisecond_and_over_many_blocks() -> None:
    make = UlidMaker(lambda: 1.0)
    assert len({make() for _ in range(BLOCK)}) == BLOCK


def test_ids_of_later_times_are_greater() -> None:
    times = iter([1.0, 1.5, 2.0])
    make = UlidMaker(lambda: next(times))
    made = [make() for _ in range(3)]
    assert made == sorted(made)
