"""Names of namespaces and queues."""

import pytest

from disque.gateway.lmstfy.names import BAD_NAMESPACE, BAD_QUEUE, TOO_LONG, dead, inside, wrong, wrong_for_consuming


@pytest.mark.parametrize(
    ("namespace", "queue", "said"),
    [
        ("ns", "q", ""),
        ("_A-z9", "A-_z9", ""),
        ("n" * 255, "q" * 255, ""),
        ("n" * 256, "q", TOO_LONG),
        ("ns", "q" * 256, TOO_LONG),
        ("!" * 256, "!", TOO_LONG),
        ("\u00e9" * 128, "q", TOO_LONG),
        ("n s", "q!", BAD_NAMESPACE),
        ("n\u00e9", "q", BAD_NAMESPACE),
        ("ns\n", "q", BAD_NAMESPACE),
        ("ns", "_q", BAD_QUEUE),
        ("ns", "q,r", BAD_QUEUE),
        ("ns", "q:dead", BAD_QUEUE),
    ],
)
def test_lengths_come_first_then_the_namespace_then_the_queue(namespace: str, queue: str, said: str) -> None:
    assert wrong(namespace, queue) == said


@pytest.mark.parametrize(
    ("namespace", "queue", "said"),
    [("ns", "q,_r,s", ""), ("ns", "q" * 999, ""), ("n s", "q", BAD_NAMESPACE), ("ns", "q;r", BAD_QUEUE)],
)
def test_for_consuming_there_are_commas_and_no_bounds(namespace: str, queue: str, said: str) -> None:
    assert wrong_for_consuming(namespace, queue) == said


def test_no_name_reaches_into_another_namespace_or_its_dead_letters() -> None:
    assert inside("ns", "q") == b"ns/q"
    assert dead("ns", "q") == b"ns/q:dead"
    assert wrong("ns/x", "q")
    assert wrong("ns", "q/x")
