"""Helpers for back-off are what ADDJOB takes."""

from datetime import timedelta

from disque.client.terms import backoff_word
from disque.tasks import exponential, fixed, linear


def test_each_helper_is_a_word_of_addjob() -> None:
    assert backoff_word(fixed(5)) == b"fixed:5"
    assert backoff_word(linear(timedelta(seconds=2), 60)) == b"linear:2:60"
    assert backoff_word(exponential(1, 600)) == b"exponential:1:600"
    assert backoff_word(exponential(0.5, 600, jitter=0)) == b"exponential:0.5:600:0.000"
