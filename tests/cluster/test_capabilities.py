from cluster.capabilities import (
    CAPABILITIES,
    JOBS,
    MASK_END,
    MINE,
    OVERFLOW,
    PUBSUB,
    QUEUES,
    REGISTRY,
    REPAIR,
    SCHEDULES,
    SIZES,
    names,
)


def test_bits_are_for_ever() -> None:
    bits = {"sizes": 1, "registry": 2, "jobs": 4, "queues": 8, "pubsub": 16, "schedules": 32, "users": 64}
    bits |= {"repair": 128, "overflow": 256, "takeover": 512, "ends": 1024, "stead": 2048}
    assert {name: bit for bit, (name, _) in CAPABILITIES.items()} == bits
    assert (SIZES, REGISTRY, JOBS, QUEUES, PUBSUB, SCHEDULES, REPAIR, OVERFLOW) == (1, 2, 4, 8, 16, 32, 128, 256)


def test_each_capability_is_one_bit_that_fits_into_the_mask() -> None:
    for bit in CAPABILITIES:
        assert bit.bit_count() == 1
        assert bit < MASK_END


def test_this_version_says_only_what_the_table_has() -> None:
    assert MINE & ~sum(CAPABILITIES) == 0


def test_the_log_names_what_it_knows_and_shows_the_bit_of_the_rest() -> None:
    assert names(0) == ""
    assert names(SIZES | REGISTRY) == "sizes, registry"
    assert names(SIZES | 1 << 40) == "sizes, bit 40"
