from pathlib import Path

import pytest

from disque.cli import aof_cost
from disque.cli.aof_cost import cost


def job_id(number: int) -> bytes:
    return b"D-0123abcd-" + b"%024d" % number + b"-05a1"


def test_jobs_that_are_spoken_of_nowhere_else_are_lost_and_of_others_something_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(job_id(1) + b"..." + job_id(2) + job_id(2) + job_id(3) + job_id(4))
    half = path.stat().st_size - 40
    found = cost([(path, 0, half), (path, half, half + 40)], [b"x" + job_id(3), b"y"])
    assert (found.lost, found.touched, found.more) == (3, 1, False)
    assert str(found) == (
        "The cut costs 3 jobs of which there is no other record. It also takes the last record of 1 other: "
        "finished jobs may be delivered again"
    )
    assert str(cost([(path, 0, 40)], [])) == "The cut costs 1 job of which there is no other record"
    assert str(cost([(path, 1, 40)], [])) == "No job ID can be read in what is cut out"
    assert "records of 2 others" in str(cost([(path, 0, half)], [job_id(1), job_id(3)]))


@pytest.mark.parametrize("size", [1, 7, 40, 41])
def test_an_id_is_found_however_the_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(aof_cost, "CHUNK", size)
    path = tmp_path / "file"
    path.write_bytes(b"".join([b"?" * number + job_id(number) for number in range(60)]))
    assert cost([(path, 0, path.stat().st_size)], []).lost == 60


def test_more_ids_than_anybody_counts_take_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aof_cost, "IDS_MOST", 10)
    path = tmp_path / "file"
    path.write_bytes(b"".join(map(job_id, range(60))))
    assert str(cost([(path, 0, 9999)], [])).startswith("The cut costs more than 10 jobs of")
