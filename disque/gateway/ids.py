"""IDs of jobs in URLs, where `+` and `/` of those of the cluster mean something: they are shown as `.` and `_`.

Neither of these is in an ID otherwise, so both forms are understood, and one can be told from the other.
"""

from typing import Final

_SHOWN: Final = bytes.maketrans(b"+/", b"._")
_MEANT: Final = bytes.maketrans(b"._", b"+/")
LENGTH: Final = 40


def shown(job_id: bytes) -> bytes:
    """An ID of the cluster, as URLs and JSON have it."""
    return job_id.translate(_SHOWN)


def meant(text: str) -> bytes | None:
    """The ID of the cluster that a text in either form means; None for what can be none."""
    word = text.encode("ascii", "replace").translate(_MEANT)
    if len(word) == LENGTH and word[:2] == b"D-" and word[10:11] == b"-" and word[35:36] == b"-":
        return word
    return None
