"""Who stands in the lines of queues."""

from disque.core.base.timers import Timed


class Waiter(Timed):
    """A client, as far as a queue must know it.

    ``waiting`` says what it waits for (see `session`), ``wait_count`` how many jobs it wants.
    """

    __slots__ = ("wait_count", "waiting")

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.wait_count = 0
