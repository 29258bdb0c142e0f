"""The order of nodes for one job, which all nodes compute alike: who comes first decides, repairs, or gets a copy."""

from typing import Final

PRIME: Final = 2**61 - 1


def rank(node_id: bytes, job_id: bytes) -> int:
    """The place of a node in the order for a job, as fair as chance: the greatest comes first."""
    return (int.from_bytes(node_id, "big") * int.from_bytes(job_id[11:35], "big")) % PRIME
