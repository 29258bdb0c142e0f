import pytest
from hypothesis import given
from hypothesis import strategies as st

from disque.core.model.backoff import MOST_MS, parse, read

ID = b"D-11111111-%024d-003d" % 1


def waits(word: bytes, tries: int = 5) -> list[int]:
    backoff = parse(word)
    assert backoff is not None
    return [backoff.wait_ms(ID, number) for number in range(1, tries + 1)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"fixed:2:60:0", [2000] * 5),
        (b"LINEAR:2:60:0", [2000, 4000, 6000, 8000, 10_000]),
        (b"exponential:2:60:0", [2000, 4000, 8000, 16_000, 32_000]),
        (b"exponential:0.25:1:0", [250, 500, 1000, 1000, 1000]),
        (b"exponential:1:3:1", [1000, 2000, 3000, 3000, 3000]),
    ],
)
def test_what_each_kind_waits(word: bytes, expected: list[int]) -> None:
    for found, least in zip(waits(word), expected, strict=True):
        assert least <= found <= 60_000
        assert found == least or word.endswith(b":1")
        assert found <= int(word.split(b":")[2]) * 1000


def test_a_tenth_is_added_at_random_and_it_is_the_same_at_all_nodes() -> None:
    found = waits(b"fixed:10", 50)
    assert all(10_000 <= wait <= 11_000 for wait in found)
    assert len(set(found)) > 40
    assert found == waits(b"fixed:10", 50)


def test_the_exponent_ends() -> None:
    assert waits(b"exponential:1", 100)[-1] == MOST_MS


@pytest.mark.parametrize(
    "word",
    [
        *(b"", b"fixed", b"fixed:", b"cubic:1", b"fixed:0", b"fixed:-1", b"fixed:x", b"fixed:2:1", b"fixed:1:2:2"),
        *(b"fixed:1:2:-0.1", b"fixed:1:2:0.1:5", b"fixed:1e3", b"fixed:nan", b"fixed:4294967296", b"fixed:1:inf"),
    ],
)
def test_what_is_none(word: bytes) -> None:
    assert parse(word) is None


@given(
    st.sampled_from([b"fixed", b"linear", b"exponential"]),
    st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 1000),
)
def test_it_comes_back_from_a_spec(kind: bytes, base_ms: int, more_ms: int, jitter: int) -> None:
    seconds = b"%.3f:%.3f:%.3f" % (base_ms / 1000, (base_ms + more_ms) / 1000, jitter / 1000)
    said = parse(kind + b":" + seconds)
    assert said is not None
    found = read(said.encoded())
    assert found is not None
    assert (found.kind, found.base_ms, found.most_ms, found.jitter) == (kind[:1], base_ms, base_ms + more_ms, jitter)
    assert read(said.encoded()) is found
    again = parse(found.written())
    assert again is not None
    assert again.encoded() == said.encoded()


@pytest.mark.parametrize(("word", "written"), [
    (b"Fixed:5", b"fixed:5"),
    (b"exponential:2:60.0", b"exponential:2:60"),
    (b"linear:0.250:10:0.1", b"linear:0.25:10"),
    (b"linear:100:100:0", b"linear:100:100:0"),
    (b"fixed:0.001:4294967295:1", b"fixed:0.001:4294967295:1"),
])  # fmt: skip
def test_it_is_written_as_clients_do(word: bytes, written: bytes) -> None:
    backoff = parse(word)
    assert backoff is not None
    assert backoff.written() == written


@pytest.mark.parametrize("said", [b"", b"f", b"x:1:2:3", b"f:1:2", b"f:2:1:0", b"f:1:2:1001", b"f:0:1:0", b"f:-1:2:3"])
def test_nonsense_in_a_spec_is_no_backoff(said: bytes) -> None:
    assert read(said) is None
