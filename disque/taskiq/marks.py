"""The place of the ID in a message that is sent again and again: each job puts its own there.

A schedule has one message for all its jobs. In the place of the ID of the task it has `PLACE`, which is as long as the
ID of a job, and before it a byte that no message begins with. Whoever takes the job puts its ID there.
"""

from typing import Final

PLACE: Final = "D-" + "-" * 38
MARK: Final = b"\0"


def marked(message: bytes) -> bytes:
    """A message for many jobs."""
    return MARK + message


def with_own_id(body: bytes, job_id: str) -> bytes:
    """The message in the body of a job."""
    if not body.startswith(MARK):
        return body
    return body[len(MARK) :].replace(PLACE.encode(), job_id.encode(), 1)
