"""How far a load is, as INFO tells it."""

from time import time

import pytest

from disque.server.loading import Loading


def test_progress_is_in_bytes_and_the_rest_goes_on_at_the_same_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading(1000)
    assert (loading.percent, loading.eta_s) == (0.0, 1)
    loading.done_bytes = 250
    started = loading.started
    monkeypatch.setattr("disque.server.loading.time", lambda: started + 10)
    assert (loading.percent, loading.eta_s) == (25.0, 30)


def test_nothing_to_load_is_all_of_it() -> None:
    loading = Loading(0)
    assert loading.percent == 100.0
    assert loading.started <= time()
