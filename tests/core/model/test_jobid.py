import re
from binascii import b2a_base64
from collections import Counter
from random import Random

import pytest

from disque.core.model.jobid import BATCH, RUN, SHARDS, IdMaker, comes_again, shard_of, ttl_suffix, valid
from tests.core.support import MYSELF, UNKNOWN_ID, Bench, Client


@pytest.mark.parametrize(
    ("ttl_s", "retry_s", "suffix"),
    [
        (86400, 300, b"-05a1"),
        (86400, 0, b"-05a0"),
        (59, 5, b"-0001"),
        (59, 0, b"-0000"),
        (60, 0, b"-0000"),
        (120, 1, b"-0003"),
        (2**32 - 1, 1, b"-ffff"),
        (2**32 - 1, 0, b"-fffe"),
    ],
)
def test_the_ending_tells_minutes_and_whether_the_job_comes_back(ttl_s: int, retry_s: int, suffix: bytes) -> None:
    assert ttl_suffix(ttl_s, retry_s) == suffix


def test_ids_have_the_layout_of_disque() -> None:
    ids = [IdMaker(MYSELF, Random(seed).randbytes).make(b"-05a1") for seed in range(50)]
    shape = re.compile(rb"D-a0a0a0a0-[A-Za-z0-9+/]{24}-05a1")
    assert all(shape.fullmatch(job_id) and valid(job_id) and len(job_id) == 40 for job_id in ids)


def test_no_id_is_made_twice() -> None:
    maker = IdMaker(MYSELF, Random(1).randbytes)
    assert len({maker.make(b"-05a1") for _ in range(5000)}) == 5000


def parts(block: bytes) -> list[bytes]:
    """The random parts of IDs that are made of a block. They begin alike, a run of them, as the last one of it."""
    drawn = [b2a_base64(block[at : at + 18], newline=False) for at in range(0, len(block), 18)][::-1]
    return [drawn[at - at % RUN][:2] + one[2:] for at, one in enumerate(drawn)]


def test_ids_are_what_the_source_gives_and_each_byte_of_it_is_used_once() -> None:
    blocks: list[bytes] = []

    def draw(size: int) -> bytes:
        blocks.append(bytes([len(blocks)]) * size)
        return blocks[-1]

    maker = IdMaker(MYSELF, draw)
    assert blocks == []
    ids = [maker.make(b"-05a1") for _ in range(2 * BATCH)]
    assert [len(block) for block in blocks] == [18 * BATCH] * 2
    assert ids == [b"D-a0a0a0a0-%b-05a1" % part for block in blocks for part in parts(block)]
    maker.make(b"-05a1")
    assert len(blocks) == 3


def test_a_node_makes_ids_of_what_the_process_hands_in_and_of_nothing_else(bench: Bench, client: Client) -> None:
    host, node = bench.host, bench.node
    node.ids._at = 0
    host.random.seed(7)
    state = node.random.getstate()
    made = [client.add("q"), client.add("q", "body", "UNIQUE", "key", 60)]
    source = Random(7)
    assert [job_id[11:35] for job_id in made] == parts(source.randbytes(18 * BATCH))[:2]
    assert node.random.getstate() == state
    client("CLUSTER", "RESET", "SOFT")  # which draws another number of its start
    state = node.random.getstate()
    assert client.add("q")[11:35] == parts(source.randbytes(18 * BATCH))[0]
    assert node.random.getstate() == state


def test_ids_made_together_are_of_one_shard_and_in_the_long_run_all_shards_have_their_share() -> None:
    maker = IdMaker(MYSELF, Random(1).randbytes)
    shards = [[shard_of(maker.make(b"-05a1")) for _ in range(RUN)] for _ in range(8 * SHARDS)]
    assert all(len(set(some)) == 1 for some in shards)
    counts = Counter(some[0] for some in shards)
    assert len(counts) > SHARDS * 0.95
    assert max(counts.values()) < 25


@pytest.mark.parametrize("text", [b"", b"D-a0a0a0a0-x", b"\xff" * 40, b"\0" * 13])
def test_whatever_stands_in_place_of_an_id_has_a_shard(text: bytes) -> None:
    assert 0 <= shard_of(text) < SHARDS


@pytest.mark.parametrize("job_id", [b"", b"D-", UNKNOWN_ID + b"0", UNKNOWN_ID[:-1], UNKNOWN_ID.lower(), b"x" * 40])
def test_what_is_no_id(job_id: bytes) -> None:
    assert not valid(job_id)


@pytest.mark.parametrize("minutes", [*range(64), 65535, 65534])
def test_the_ending_tells_whether_the_job_comes_again(minutes: int) -> None:
    assert comes_again(b"D-b0b0b0b0-%024d-%04x" % (1, minutes)) == (minutes % 2 == 1)
