from disque.core.model.slowlog import SlowLog


def ids(log: SlowLog, count: int = -1) -> list[int]:
    return [entry.id for entry in log.get(count)]


def slow_log(entries: int, max_len: int = 128) -> SlowLog:
    log = SlowLog(max_len)
    for number in range(entries):
        log.add(1000 + number, 20000 + number, [b"PING"])
    return log


def test_an_entry_tells_number_time_duration_and_words() -> None:
    log = SlowLog()
    log.add(1795193003, 15000, [b"ADDJOB", b"q", b"", b"0"])
    (entry,) = log.get(10)
    assert (entry.id, entry.time_s, entry.duration_us) == (0, 1795193003, 15000)
    assert entry.args == [b"ADDJOB", b"q", b"", b"0"]


def test_the_newest_come_first_and_count_limits_them() -> None:
    log = slow_log(5)
    assert ids(log, 3) == [4, 3, 2]
    assert ids(log, 0) == []
    assert ids(log, 99) == [4, 3, 2, 1, 0]


def test_a_negative_count_means_all() -> None:
    assert ids(slow_log(20), -1) == list(range(19, -1, -1))


def test_the_oldest_go_when_the_log_is_full() -> None:
    log = slow_log(5, max_len=3)
    assert len(log) == 3
    assert ids(log) == [4, 3, 2]


def test_a_log_of_length_0_keeps_nothing() -> None:
    assert len(slow_log(5, max_len=0)) == 0


def test_a_smaller_length_drops_the_oldest_at_once() -> None:
    log = slow_log(5)
    log.max_len = 2
    assert log.max_len == 2
    assert ids(log) == [4, 3]


def test_numbers_go_on_after_reset() -> None:
    log = slow_log(5)
    log.reset()
    assert len(log) == 0
    log.add(2000, 20000, [b"PING"])
    assert ids(log) == [5]
