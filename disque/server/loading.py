"""The progress of loading a journal."""

from time import time


class Loading:
    """How far a load is, for INFO."""

    __slots__ = ("done_bytes", "loaded_s", "started", "total_bytes")

    def __init__(self, total_bytes: int) -> None:
        self.started = time()
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self.loaded_s = 0.0

    @property
    def percent(self) -> float:
        """Progress in percent."""
        return 100.0 * self.done_bytes / self.total_bytes if self.total_bytes else 100.0

    @property
    def eta_s(self) -> int:
        """Seconds to go, from the pace so far."""
        spent = time() - self.started
        return int(spent * (self.total_bytes - self.done_bytes) / self.done_bytes) if self.done_bytes else 1
