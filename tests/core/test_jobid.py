import re
from random import Random

import pytest

from disque.core.jobid import IdMaker, ttl_suffix, valid
from tests.core.support import MYSELF, UNKNOWN_ID


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
    ids = [IdMaker(MYSELF, Random(seed)).make(b"-05a1") for seed in range(50)]
    shape = re.compile(rb"D-a0a0a0a0-[A-Za-z0-9+/]{24}-05a1")
    assert all(shape.fullmatch(job_id) and valid(job_id) and len(job_id) == 40 for job_id in ids)


def test_no_id_is_made_twice() -> None:
    maker = IdMaker(MYSELF, Random(1))
    assert len({maker.make(b"-05a1") for _ in range(5000)}) == 5000


def test_ids_follow_from_the_seed() -> None:
    assert IdMaker(MYSELF, Random(3)).make(b"-05a1") == IdMaker(MYSELF, Random(3)).make(b"-05a1")


@pytest.mark.parametrize("job_id", [b"", b"D-", UNKNOWN_ID + b"0", UNKNOWN_ID[:-1], UNKNOWN_ID.lower(), b"x" * 40])
def test_what_is_no_id(job_id: bytes) -> None:
    assert not valid(job_id)
