"""What the core may ask of the simulated process around it: see `disque.core.host`."""

from typing import TYPE_CHECKING

from disque.core.host import HostRefusedError
from disque.core.model.session import Session
from tests.core.support import NUMBERS, TEXTS
from tests.simulation.world import WALL_MS

if TYPE_CHECKING:
    from tests.simulation.process import Process


class SimulatedHost:
    """Facts are invented; acts that only a real process can do are refused."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.random = process.world.random(f"{process.machine.name} ids {process.life}")

    def facts(self) -> dict[str, int | float | str]:
        numbers: dict[str, int | float | str] = {name: number for number, name in enumerate(NUMBERS, 1)}
        node = self.process.node
        persistence = {"persist:loading": int(node.loading), "persist:aof_enabled": int(node.journaling)}
        return {**numbers, **{name: f"the {name}" for name in TEXTS}, **persistence}

    def client_facts(self, session: Session) -> dict[str, int | str]:
        numbers = {"fd": session.id + 6, "qbuf": 0, "qbuf_free": 32768, "obl": 0, "oll": 0, "omem": 0}
        return {**numbers, "events": "r", "unix": 0}

    def kill(self, session: Session) -> None:
        self.process.kill(session)

    def suspect(self, session: Session, what: str) -> None:
        del session, what

    def warn(self, text: str) -> None:
        del text

    def configure(self, name: str) -> None:
        del name

    def rewrite_config(self, session: Session) -> None:
        del session
        raise HostRefusedError("ERR no file here")

    def save_cluster(self) -> None:
        self.process.save_nodes()

    def shutdown(self, session: Session, *, rewrite: bool) -> None:
        refuse(session, rewrite)

    def rewrite_journal(self) -> bool:
        return self.process.journal.begin_copying()

    def reload_journal(self, session: Session) -> None:
        refuse(session)

    def sleep(self, seconds: float) -> None:
        refuse(seconds)

    def restart(self, session: Session, delay_ms: int, *, clean: bool) -> None:
        refuse(session, delay_ms, clean)

    def crash(self, how: str) -> None:
        refuse(how)

    def entropy(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def wall_us(self) -> int:
        return (WALL_MS + self.process.world.now) * 1000


def refuse(*words: object) -> None:
    """None of this is done here: faults come from `faults`."""
    del words
    raise HostRefusedError("ERR not in here")
