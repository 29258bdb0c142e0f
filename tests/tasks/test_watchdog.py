"""Functions that block the loop are found, with where they are."""

import logging
import threading

import pytest

from disque.tasks.watchdog import Watchdog, stack


def test_it_warns_once_and_says_how_long_it_was(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    dog = Watchdog(1.0, lambda: now[0])
    with caplog.at_level(logging.WARNING, "disque.tasks"):
        now[0] = 0.9
        dog.look()
        assert not caplog.records
        now[0] = 1.1
        dog.look()
        dog.look()
        assert len(caplog.records) == 1
        assert "test_watchdog.py" in caplog.text
        now[0] = 3.0
        dog.sign()
        assert "blocked for 3.0 s" in caplog.text
        dog.look()
    assert dog.warnings == 1


def test_a_thread_that_has_ended() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    assert thread.ident is not None
    thread.join()
    assert stack(thread.ident) == "(the thread has ended)"
