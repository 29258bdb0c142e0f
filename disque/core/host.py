"""What the core may ask of the outside: facts only a process knows, acts only a process can do.

The server implements `Host`; tests use a fake. Nothing here is called on the path of ADDJOB, GETJOB or ACKJOB, but for
`entropy` once for some thousand ADDJOBs.
"""

from typing import Final, Protocol

from disque.core.model.session import Session

#: What clients may be suspected of: to be a browser that a web page has sent here, to have no right password, and to
#: guess it.
CROSS_PROTOCOL: Final = "cross-protocol"
FAILED_AUTH: Final = "failed-auth"
GUESSING: Final = "guessing"


class HostRefusedError(Exception):
    """An act that the outside could not do; the text is an error reply without the dash."""


class Host(Protocol):
    """The process around a node."""

    def facts(self) -> dict[str, int | float | str]:
        """Numbers and names for INFO: ``rss_bytes``, ``cpu_user_s``, ``pid`` and so on (see `commands.info`)."""

    def client_facts(self, session: Session) -> dict[str, int | str]:
        """``fd``, ``qbuf``, ``qbuf_free``, ``obl``, ``oll``, ``omem``, ``events``, ``unix`` of one connection."""

    def kill(self, session: Session) -> None:
        """Close a connection; replies that it already has may still leave when it kills itself."""

    def suspect(self, session: Session, what: str) -> None:
        """A client has done what attackers do: the log says so, with its address, and not at every time."""

    def warn(self, text: str) -> None:
        """Something that whoever runs the node should know: a line of the log."""

    def configure(self, name: str) -> None:
        """A setting has changed in the node's config.

        Act on it. Raises HostRefusedError; the core then takes the change back.
        """

    def rewrite_config(self, session: Session) -> None:
        """Write the configuration file. Raises HostRefusedError, or answers the session, which may wait for that."""

    def save_cluster(self) -> None:
        """Write nodes.conf. Raises HostRefusedError."""

    def shutdown(self, session: Session, *, rewrite: bool) -> None:
        """Stop the process cleanly once everything is flushed; on failure the session gets an error reply."""

    def rewrite_journal(self) -> bool:
        """Start emptying the old segments of the journal; False when that is going on already."""

    def reload_journal(self, session: Session) -> None:
        """Forget all jobs and read the journal again; the session waits in WAIT_HOST and is answered at the end."""

    def sleep(self, seconds: float) -> None:
        """Block the whole process, which is what DEBUG SLEEP is for."""

    def restart(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        """Replace the process by a fresh one after ``delay_ms``, with or without a clean stop.

        Raises HostRefusedError.
        """

    def crash(self, how: str) -> None:
        """Die at once: ``segfault``, ``assert`` or ``oom``."""

    def entropy(self, size: int) -> bytes:
        """``size`` bytes that nobody can foretell, for IDs."""

    def wall_us(self) -> int:
        """The wall clock in microseconds, for TIME and for log-like replies."""
