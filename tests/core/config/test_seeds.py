import pytest

from disque.core.config.seeds import Seed, Seeds, parse_seed


@pytest.mark.parametrize(
    ("word", "seed"),
    [
        ("disque-1:7711", Seed("disque-1", 7711, 17711)),
        ("10.0.0.1:7711@9000", Seed("10.0.0.1", 7711, 9000)),
        ("[::1]:7711", Seed("::1", 7711, 17711)),
        ("::1:7711", Seed("::1", 7711, 17711)),
        ("h:60000@1", Seed("h", 60000, 1)),
    ],
)
def test_a_seed_is_a_host_and_one_or_two_ports(word: str, seed: Seed) -> None:
    assert parse_seed(word) == seed


@pytest.mark.parametrize(
    "word", ["", "host", ":7711", "host:", "host:0", "host:65536", "host:60000", "host:1@", "host:1@0", "host:1@65536"]
)
def test_what_names_no_two_ports_is_none(word: str) -> None:
    assert parse_seed(word) is None


@pytest.mark.parametrize(
    "word", ["host:-1", "host:+1", "host:x", "ho st:1", "h\u00f6st:1", f"{'x' * 256}:1", "h:1@2@3"]
)
def test_nonsense_is_none(word: str) -> None:
    assert parse_seed(word) is None


def test_seeds_are_written_as_they_were_given() -> None:
    kind = Seeds(2)
    value = kind.parse(("a:1 b:2@3",))
    assert value == ("a:1", "b:2@3")
    assert kind.show(value) == kind.write(value) == "a:1 b:2@3"
    assert kind.write(()) == '""'
    assert kind.parse(("",)) == ()


def test_one_that_is_none_or_one_too_many_spoils_all() -> None:
    assert Seeds(2).parse(("a:1 b",)) is None
    assert Seeds(2).parse(("a:1", "b:1", "c:1")) is None
