"""Faults: what goes wrong, when, and for how long.

Each kind has a rhythm of its own. Everything that is broken is mended again after a while; the end of the run mends
the rest.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


#: How often a machine that leaves is looked at, and how long it has.
PART_MS = 300
PART_MOST_MS = 25_000


class Faults:
    """Breaks things as the options say until `end`."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.network = cluster.network
        self.ended = False
        self.random: Random = self.world.random("faults")
        self._do: dict[str, Callable[[], bool]] = {
            "crash": self.crash,
            "power": self.power,
            "stop": self.stop,
            "wipe": self.wipe,
            "massacre": self.massacre,
            "freeze": self.freeze,
            "cut": self.cut,
            "split": self.split,
            "reset": self.reset,
            "slow": self.slow,
            "disk": self.disk,
            "fsync": self.fsync,
            "eio": self.eio,
            "compact": self.compact,
            "leaving": self.leaving,
            "forget": self.forget,
            "clear": self.clear,
            "retire": self.retire,
            "half": self.half,
            "memory": self.memory,
            "newcomer": self.newcomer,
            "decline": self.decline,
            "depart": self.depart,
            "away": self.away,
        }

    def begin(self) -> None:
        """Let things go wrong from now on."""
        for kind, mean_ms in self.world.options.faults.items():
            self._plan(kind, mean_ms)

    def _plan(self, kind: str, mean_ms: int) -> None:
        self.world.after(int(self.random.expovariate(1 / mean_ms)) + 1, self._happen, kind, mean_ms)

    def _happen(self, kind: str, mean_ms: int) -> None:
        if self.ended:
            return
        if self._do[kind]():
            self.world.count(f"fault {kind}")
        self._plan(kind, mean_ms)

    def _some(self) -> Machine:
        return self.random.choice([machine for machine in self.cluster.machines if not machine.retired])

    def _running(self) -> Machine | None:
        machines = self.cluster.up()
        return self.random.choice(machines) if machines else None

    def _pair(self) -> tuple[int, int] | None:
        numbers = [machine.number for machine in self.cluster.machines]
        if len(numbers) < 2:
            return None
        one, other = self.random.sample(numbers, 2)
        return one, other

    def _later(self) -> int:
        """How long something stays broken: mostly short, sometimes longer than the node timeout."""
        timeout_ms = self.world.options.timeout_ms
        return self.random.choice((self.random.randint(10, 800), self.random.randint(500, timeout_ms * 3)))

    # -- processes and machines ------------------------------------------------------------------------------------

    def _end(self, how: Callable[[Machine], None]) -> bool:
        machine = self._some()
        if machine.process is None:
            return False
        process = machine.process
        was_stopping = process.stopping
        how(machine)
        if machine.process is process and (was_stopping or not process.stopping):
            return False
        self.world.after(self._later(), machine.start)
        return True

    def crash(self) -> bool:
        """kill -9."""
        return self._end(Machine.crash)

    def power(self) -> bool:
        """The plug is pulled."""
        return self._end(Machine.power_off)

    def stop(self) -> bool:
        """SIGTERM."""
        return self._end(Machine.stop)

    def wipe(self) -> bool:
        """The plug is pulled, and the disk is empty afterwards."""
        return self._end(Machine.wipe)

    def massacre(self) -> bool:
        """Several processes or machines die within a moment."""
        machines = self.cluster.up()
        if not machines:
            return False
        chosen = self.random.sample(machines, self.random.randint(1, len(machines)))
        power = self.random.random() < 0.5
        for machine in chosen:
            if power:
                machine.power_off()
            else:
                machine.crash()
            self.world.after(self._later(), machine.start)
        return True

    def freeze(self) -> bool:
        """SIGSTOP, and SIGCONT later."""
        machine = self._running()
        if machine is None or machine.process is None or machine.process.frozen:
            return False
        process = machine.process
        self.world.note("freeze", process.name)
        process.freeze()
        self.cluster.watch.froze(process)
        self.world.after(self._later(), self.thaw, machine)
        return True

    def thaw(self, machine: Machine) -> None:
        """SIGCONT."""
        process = machine.process
        if process is not None and process.frozen:
            self.world.note("thaw", process.name)
            self.cluster.watch.thawed(process)
            process.thaw()

    # -- the network -----------------------------------------------------------------------------------------------

    def cut(self) -> bool:
        """Nothing gets through between two machines, one way or both."""
        pair = self._pair()
        if pair is None:
            return False
        ways = [pair, pair[::-1]] if self.random.random() < 0.5 else [pair]
        self._block(ways)
        return True

    def split(self) -> bool:
        """Two groups of machines cannot hear each other."""
        numbers = [machine.number for machine in self.cluster.machines]
        group = set(self.random.sample(numbers, self.random.randint(1, max(1, len(numbers) // 2))))
        across = [(one, other) for one in numbers for other in numbers if (one in group) != (other in group)]
        one_way = self.random.random() < 0.2
        self._block([pair for pair in across if not one_way or pair[0] in group])
        return True

    def _block(self, ways: list[tuple[int, int]]) -> None:
        self.world.note("block", *ways)
        for way in ways:
            self.network.block(*way)
        self.world.after(self._later(), self._unblock, ways)

    def _unblock(self, ways: list[tuple[int, int]]) -> None:
        self.world.note("unblock", *ways)
        for way in ways:
            self.network.unblock(*way)

    def reset(self) -> bool:
        """A link ends."""
        links = self.network.sorted_links()
        if not links:
            return False
        link = self.random.choice(links)
        self.world.note("reset", link.src.name, link.target.name)
        self.network.reset(link)
        return True

    def slow(self) -> bool:
        """A way becomes slow: some hundred ms, rarely seconds."""
        pair = self._pair()
        if pair is None:
            return False
        way = self.network.way(*pair)
        way.low_ms, way.high_ms = self.random.choice(((10, 100), (100, 500), (100, 500), (500, 2500)))
        self.world.note("slow", *pair, way.high_ms)
        self.world.after(self._later(), self._fast, pair)
        return True

    def _fast(self, pair: tuple[int, int]) -> None:
        way = self.network.way(*pair)
        way.low_ms, way.high_ms = 0, 3

    # -- disks -----------------------------------------------------------------------------------------------------

    def disk(self) -> bool:
        """No room on the disk."""
        machine = self._some()
        machine.disk.full = True
        self.world.note("disk full", machine.name)
        self.world.after(self._later(), self._mend, machine)
        return True

    def _mend(self, machine: Machine) -> None:
        machine.disk.full = False
        self.world.note("disk fine", machine.name)

    def fsync(self) -> bool:
        """Each fsync takes a while."""
        machine = self._some()
        machine.disk.fsync_ms = self.random.choice((3, 20, 150, 600))
        self.world.after(self._later(), self._quick, machine)
        return True

    @staticmethod
    def _quick(machine: Machine) -> None:
        machine.disk.fsync_ms = 0

    def eio(self) -> bool:
        """The next fsyncs fail: what was written since the last one is on the disk, or not."""
        machine = self._some()
        if machine.disk.policy == "off" or machine.disk.files.bad_syncs:
            return False
        machine.disk.files.bad_syncs = self.random.choice((1, 1, 2, 3))
        self.world.note("bad fsync", machine.name, machine.disk.files.bad_syncs)
        return True

    def compact(self) -> bool:
        """BGREWRITEAOF."""
        machine = self._running()
        process = machine.process if machine is not None else None
        return process is not None and not process.frozen and process.journal.begin_copying()

    # -- administration --------------------------------------------------------------------------------------------

    def leaving(self) -> bool:
        """CLUSTER LEAVING yes, and no later."""
        machine = self._running()
        if machine is None:
            return False
        machine.tell([b"CLUSTER", b"LEAVING", b"yes"])
        self.world.after(self._later(), machine.tell, [b"CLUSTER", b"LEAVING", b"no"])
        return True

    def forget(self) -> bool:
        """One node is told to forget another, and to meet it again after a while."""
        machines = self.cluster.up()
        if len(machines) < 2:
            return False
        one, other = self.random.sample(machines, 2)
        one.tell([b"CLUSTER", b"FORGET", other.node_id])
        self.world.after(self._later(), one.meet, other)
        return True

    def clear(self) -> bool:
        """CLUSTER RESET, soft or hard; somebody meets that node again after a while."""
        machines = self.cluster.up()
        if len(machines) < 2:
            return False
        one, other = self.random.sample(machines, 2)
        one.tell([b"CLUSTER", b"RESET", self.random.choice((b"SOFT", b"HARD"))])
        self.world.after(self._later(), other.meet, one)
        return True

    def retire(self) -> bool:
        """A machine is gone for good; after a while those who are there are told to forget it."""
        machines = [machine for machine in self.cluster.machines if not machine.retired]
        if len(machines) < 3:
            return False
        machine = self.random.choice(machines)
        machine.wipe()
        machine.retired = True
        self.world.after(self._later(), self.cluster.forget_strangers)
        return True

    def decline(self) -> bool:
        """A machine is gone for good while all others have all the copies that there should be.

        Nobody says so, or everybody hears of it after a while.
        """
        machines = [machine for machine in self.cluster.machines if not machine.retired]
        if len(machines) < 3 or not all(machine.up for machine in machines) or not self.cluster.watch.is_repaired():
            return False
        machine = self.random.choice(machines)
        machine.wipe()
        machine.retired = True
        if self.random.random() < 0.3:
            self.world.after(self._later(), self.cluster.forget_strangers)
        elif self.random.random() < 0.5:
            self.world.after(self._later(), self._say_gone, machine)
        return True

    def away(self) -> bool:
        """A machine is off until the others have forgotten it, and comes back with what it had."""
        machine = self._some()
        if machine.process is None or not all(other.up for other in self.cluster.machines):
            return False
        machine.crash()
        options = self.world.options
        self.world.after(1000 * options.forget_s + 2 * options.timeout_ms, self._come_back, machine)
        return True

    def _come_back(self, machine: Machine) -> None:
        """Start it; a while later somebody says that it is there."""
        machine.start()
        for other in self.cluster.machines:
            if other is not machine:
                self.world.after(3000, other.meet, machine)

    def depart(self) -> bool:
        """A machine leaves for good: as soon as it says that it can be stopped, it is."""
        machine = self._running()
        left = [one for one in self.cluster.machines if not one.retired]
        if machine is None or machine.process is None or len(left) < 3 or machine.process.node.membership.leaving:
            return False
        machine.tell([b"CLUSTER", b"LEAVING", b"yes"])
        self.world.after(PART_MS, self._part, machine, self.world.now + PART_MOST_MS)
        return True

    def _part(self, machine: Machine, until_ms: int) -> None:
        """Stop a machine that leaves if it can be; or it stays after all."""
        process = machine.process
        left = [one for one in self.cluster.machines if not one.retired]
        if self.ended or machine.retired or len(left) < 3 or self.world.now >= until_ms or process is None:
            machine.tell([b"CLUSTER", b"LEAVING", b"no"])
        elif machine.up and not process.frozen and process.node.membership.leaving and not process.node.repairs.left:
            machine.stop()
            machine.retired = machine.departed = True
            machine.departed_ms = self.world.now
            self.world.count("machines that left for good")
            self.world.after(self._later(), self.cluster.forget_strangers)
        else:
            self.world.after(PART_MS, self._part, machine, until_ms)

    def _say_gone(self, machine: Machine) -> None:
        """CLUSTER REPAIR at some node, which tells the others."""
        running = self._running()
        if running is not None:
            running.tell([b"CLUSTER", b"REPAIR", machine.node_id])

    def half(self) -> bool:
        """A client says that it sends nothing more, and waits for its answers."""
        machine = self._running()
        process = machine.process if machine is not None else None
        if process is None or not process.connections:
            return False
        process.connections[self.random.choice(list(process.connections))].wire.half_close()
        return True

    def memory(self) -> bool:
        """maxmemory is small for a while."""
        machine = self._running()
        if machine is None or machine.process is None:
            return False
        machine.set_memory(max(20_000, machine.process.node.used * self.random.choice((50, 80, 99, 130)) // 100))
        self.world.after(self._later(), machine.set_memory, 0)
        return True

    def newcomer(self) -> bool:
        """Another node joins."""
        if len(self.cluster.machines) >= 9:
            return False
        machine = self.cluster.add()
        machine.start()
        self.world.after(50, self.cluster.introduce, machine)
        return True
