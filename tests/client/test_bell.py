import threading

from disque.client.bell import Bell


def test_a_ring_is_kept_for_who_waits_next_and_the_second_is_the_same() -> None:
    bell = Bell()
    assert not bell.wait(0)
    bell.ring()
    bell.ring()
    assert bell.wait()
    assert not bell.wait(0.001)


def test_who_waits_is_woken() -> None:
    bell, woken = Bell(), Bell()

    def wait() -> None:
        bell.wait()
        woken.ring()

    thread = threading.Thread(target=wait)
    thread.start()
    bell.ring()
    assert woken.wait(30)
    thread.join(30)
    assert not thread.is_alive()
