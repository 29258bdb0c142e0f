"""The interface that the journal needs from its node."""

from typing import Protocol


class Owner(Protocol):
    """What the journal asks of the node that it writes for. Calls may come from within any method of the journal."""

    def journal_head(self) -> bytes:
        """Return the payload that opens a new segment, b"" for none.

        It may stand before records that were appended earlier, so applying it before them must do no harm.
        """

    def journal_unfinished(self) -> None:
        """See to it that Journal.go_on() is called in the next turn of the loop: not all could be written in this."""

    def journal_progress(self) -> None:
        """Take note that `safe` or `failing` changed outside flush(): held replies and messages may leave."""

    def journal_distrust(self, last_bad: int) -> None:
        """Begin (anew) to append a copy of the whole live state, over as many turns as it takes; then retire(last_bad).

        It comes again with a higher number if the copying was in vain; a retire() that had not ended in
        journal_retired() is void. Appending may begin within the call. Pause while Journal.backlog is large.
        """

    def journal_retired(self, segment: int) -> None:
        """Take note that no file up to `segment` exists any more."""
