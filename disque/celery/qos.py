"""What a channel has delivered and nobody has settled, and how it is settled: ACKJOB, NACK, a dead letter."""

from typing import Any, Final

from kombu.transport import virtual

#: The error that a dead letter has which a consumer rejected.
REJECTED: Final = "rejected by its consumer"


class QoS(virtual.QoS):
    """Counts what is delivered against the prefetch limit, and settles it.

    A message that was published to a fanout exchange is no job: it is only counted.
    """

    def free(self) -> int | None:
        """How many messages may be taken at once; None: as many as one likes.

        Celery may put a rule of its own into `can_consume`, which looks at each message: then it is one.
        """
        if "can_consume" in vars(self):
            return 1
        most: int | None = self.can_consume_max_estimate()
        return most

    def ack(self, delivery_tag: str) -> None:
        """It is done. Raises DisqueError: then it comes again, since no node knows."""
        try:
            self.channel.settle(delivery_tag)
        finally:
            self._forget(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """It is not done: back to its queue, which counts as a failure, or a dead letter. Raises as `ack`."""
        try:
            if requeue:
                self.channel.give_back([delivery_tag])
            else:
                self.channel.give_back([delivery_tag], error=REJECTED, dead=True)
        finally:
            self._forget(delivery_tag)

    def _forget(self, delivery_tag: str) -> None:
        """It counts no more against the limit."""
        super().ack(delivery_tag)
        self.channel.credit()

    def restore_unacked(self) -> list[Any]:
        """Give back all that is not settled: that uses up no try, and marks it. What fails comes after its lease."""
        self._flush()
        tags = list(self._delivered)
        self._delivered.clear()
        self.channel.hand_back(tags, seen=True)
        return []
