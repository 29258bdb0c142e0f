"""The entries of one node, and the sums by which two nodes find where they differ."""

import random
from collections import OrderedDict

import pytest

from disque.core.model.registry import BUCKETS, DIGEST_BYTES, QUEUE_OPTION, Entry, Registry, bucket_of

A, B = b"a" * 40, b"b" * 40


def entry(name: bytes = b"q", value: bytes = b"1", counter: int = 5, origin: bytes = A, deleted: int = 0) -> Entry:
    return Entry((1, name, b""), value, counter, origin, deleted)


def filled(count: int = 500) -> Registry:
    registry = Registry()
    for number in range(count):
        registry.put(entry(b"%d" % number, counter=number))
    return registry


def test_what_is_put_is_found_and_replaces_what_was_there() -> None:
    registry = Registry()
    first, second = entry(), entry(value=b"22", counter=6)
    assert registry.put(first) is None
    assert registry.put(second) is first
    assert registry.get((1, b"q", b"")) is second
    assert (registry.count, registry.size, registry.greatest) == (1, second.size(), 6)
    registry.drop(second)
    assert (registry.count, registry.size, registry.sums) == (0, 0, [0] * BUCKETS)
    assert registry.get((1, b"q", b"")) is None


def test_nodes_that_know_the_same_have_one_digest_whatever_the_order() -> None:
    registry, other = Registry(), Registry()
    entries = filled().entries()
    for one in entries:
        registry.put(one)
    random.Random(1).shuffle(entries)
    for one in entries:
        other.put(entry(b"gone"))
        other.put(one)
    other.drop(entry(b"gone"))
    assert registry.digest() == other.digest()
    assert len(registry.digest()) == DIGEST_BYTES
    assert registry.differing(other.digest()) == []


@pytest.mark.parametrize(
    "changed",
    [
        entry(b"7", b"2", 7),
        entry(b"7", b"1", 8),
        entry(b"7", b"1", 7, B),
        entry(b"7", b"", 7, deleted=1),
        Entry((2, b"7", b""), b"1", 7, A, 0),
        Entry((1, b"7", b"field"), b"1", 7, A, 0),
    ],
    ids=lambda one: repr((one.key, one.value, one.stamp())),
)
def test_whatever_differs_is_found_and_little_else(changed: Entry) -> None:
    registry, other = filled(), filled()
    other.put(changed)
    assert other.differing(registry.digest()) == [bucket_of(changed.key)]


def test_who_knows_nothing_lacks_everything_and_nonsense_is_taken_for_that() -> None:
    registry = filled(10)
    some = sorted({bucket_of(one.key) for one in registry.entries()})
    for digest in (b"", b"x", bytes(DIGEST_BYTES), b"x" * (DIGEST_BYTES + 1)):
        assert registry.differing(digest) == some
    assert Registry().digest() == b""
    assert Registry().differing(registry.digest()) == []


def test_options_of_queues_are_known_from_the_start() -> None:
    """And not read from all entries by the first ADDJOB after a start."""
    registry = Registry()
    option = Entry((QUEUE_OPTION, b"q*", b"ttl"), b"60", 1, A, 0)
    registry.put(option)
    assert registry.defaults.by_name == {b"q*": {b"ttl": b"60"}}
    registry.drop(option)
    assert not registry.defaults.by_name


def test_names_of_schedules_come_out_as_quickly_as_they_went_in() -> None:
    assert isinstance(Registry().schedules, OrderedDict)  # a plain dict finds its first one more slowly the more left
