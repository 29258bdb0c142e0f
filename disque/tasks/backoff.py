"""How long a failure holds a job back: the server computes it, so it holds whoever has the job.

Each helper gives the `Backoff` that ADDJOB takes. A tenth is added at random, so that jobs which failed together do not
come back together; ``jitter`` says another part.
"""

from disque.client.terms import Backoff
from disque.client.values import Duration


def fixed(base: Duration, *, jitter: float | None = None) -> Backoff:
    """``base`` after each failure."""
    return Backoff("fixed", base, None, jitter)


def linear(base: Duration, longest: Duration | None = None, *, jitter: float | None = None) -> Backoff:
    """``base`` after the first failure, twice that after the second, three times after the third, up to ``longest``."""
    return Backoff("linear", base, longest, jitter)


def exponential(base: Duration, longest: Duration | None = None, *, jitter: float | None = None) -> Backoff:
    """``base`` after the first failure, and twice as long after each further one, up to ``longest``."""
    return Backoff("exponential", base, longest, jitter)
