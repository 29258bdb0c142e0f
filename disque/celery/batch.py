"""Many messages in one go: kombu's batches of a producer."""

from typing import TYPE_CHECKING, Any

from kombu.exceptions import BatchPublishError

from disque.client import DisqueError, NewJob

if TYPE_CHECKING:
    from disque.celery.channel import Channel


class PublishBatch:
    """Gathers what is published on a channel, and sends it when there are ``max_size`` messages, or when told to."""

    def __init__(self, channel: "Channel", max_size: int) -> None:
        self.channel = channel
        self.max_size = max_size
        self._jobs: list[NewJob] = []
        self._failed: Exception | None = None
        self._ended = False

    def publish(self, message: dict[str, Any], **kwargs: Any) -> object:
        """Gather a message, once for each queue that it goes to. Raises BatchPublishError."""
        self._check()
        return self.channel.basic_publish(message, _publish_batch=self, **kwargs)

    def add(self, job: NewJob) -> None:
        """Gather one job. Raises BatchPublishError."""
        self._jobs.append(job)
        if len(self._jobs) >= self.max_size:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered, once. Raises BatchPublishError: then some of it may be there, and some may not."""
        self._check()
        jobs, self._jobs = self._jobs, []
        try:
            self.channel.client.add_many(jobs)
        except DisqueError as error:
            self._failed = error
            raise BatchPublishError("a batch was not published, or only in part") from error

    def discard(self) -> None:
        """Drop what is gathered and not sent."""
        self._jobs.clear()
        self._ended = True

    def close(self) -> None:
        """Nothing more comes."""
        self._ended = True

    def _check(self) -> None:
        if self._failed is not None:
            raise BatchPublishError("this batch has failed before") from self._failed
        if self._ended:
            raise RuntimeError("this batch is closed")
