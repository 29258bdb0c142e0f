"""One option: what a row of the table of options says, and the sections of conf/disque.conf that rows belong to."""

from typing import Final, NamedTuple

from disque.core.config.kinds import Kind, Value

NETWORK: Final = "Network"
GENERAL: Final = "General"
SECURITY: Final = "Security"
LIMITS: Final = "Limits"
JOURNAL: Final = "Journal"
CLUSTER: Final = "Cluster"
TLS: Final = "TLS"
WATCHING: Final = "Slow log and latency monitor"
OLD: Final = "Accepted from older configuration files, without effect"
SECTIONS: Final = (NETWORK, GENERAL, SECURITY, LIMITS, JOURNAL, CLUSTER, TLS, WATCHING, OLD)


class Setting(NamedTuple):
    """One option: its row in the table.

    `mutable` says that CONFIG SET may change it, `gettable` that CONFIG GET shows it; `example` stands in the
    documentation where the default is to say nothing. A `secret` value is never shown to those who watch.
    """

    name: str
    kind: Kind
    default: Value
    section: str
    help: str
    mutable: bool = False
    gettable: bool = True
    example: str = ""
    secret: bool = False

    def usage(self) -> str:
        """Say how a line of this option looks."""
        return f"Expected: {self.name} <{self.kind.expected}>"

    def facts(self) -> str:
        """Say what the option takes, its default, and whether it can be changed."""
        default = "none" if self.example else self.kind.write(self.default)
        changeable = " Changeable by CONFIG SET." if self.mutable else ""
        return f"Takes {self.kind.expected}. Default: {default}.{changeable}"
