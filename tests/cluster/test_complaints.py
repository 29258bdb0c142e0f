from cluster.complaints import MOST, QUIET_S, Complaints


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
