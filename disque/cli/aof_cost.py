"""What a repair of a journal costs: the jobs in the bytes that are cut out of which there is no other record.

These bytes are no valid records, but job IDs in them can still be read. The result is an estimate: a body may contain
the ID of another job, and an ID may be damaged itself.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

JOB_ID: Final = re.compile(rb"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}")
ID_BYTES: Final = 40
CHUNK: Final = 1 << 20
IDS_MOST: Final = 1_000_000  # of more, nobody wants the exact number, and they take memory


class Cost:
    """How many jobs are lost with what is cut out, and how many others were spoken of there."""

    def __init__(self, lost: int, touched: int, *, more: bool) -> None:
        self.lost = lost
        self.touched = touched
        self.more = more

    def __str__(self) -> str:
        """Say it, before anybody is asked."""
        if not self.lost and not self.touched:
            return "No job ID can be read in what is cut out"
        count = f"more than {self.lost}" if self.more else str(self.lost)
        said = f"The cut costs {count} job{'' if count == '1' else 's'} of which there is no other record"
        if self.touched:
            also = "the last record of 1 other" if self.touched == 1 else f"records of {self.touched} others"
            said += f". It also takes {also}: finished jobs may be delivered again"
        return said


def cost(cut: Iterable[tuple[Path, int, int]], kept: Iterable[bytes]) -> Cost:
    """Look for IDs of jobs in the bytes to be cut, (path, start, end) each, and in all records that stay."""
    found: set[bytes] = set()
    for job_id in _ids_in(cut):
        if len(found) >= IDS_MOST:
            break
        found.add(job_id)
    lost = set(found)
    if found:
        for payload in kept:
            lost.difference_update(JOB_ID.findall(payload))
    return Cost(len(lost), len(found) - len(lost), more=len(found) >= IDS_MOST)


def _ids_in(cut: Iterable[tuple[Path, int, int]]) -> Iterator[bytes]:
    for path, start, end in cut:
        with path.open("rb") as file:
            file.seek(start)
            rest = b""
            left = end - start
            while left > 0 and (data := file.read(min(CHUNK, left))):
                left -= len(data)
                data = rest + data
                yield from JOB_ID.findall(data)
                rest = data[1 - ID_BYTES :]
