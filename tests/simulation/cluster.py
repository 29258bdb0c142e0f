"""All machines of a run, the network between them, and how they find each other."""

from cluster.member import HANDSHAKE
from tests.simulation.machine import Machine
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.watch import Watch
from tests.simulation.world import World


class Cluster:
    """The machines by number. ``watch`` sees everything that happens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(world)
        self.watch = Watch(world, self)
        self.machines: list[Machine] = []
        self.random = world.random("cluster")
        for _ in range(world.options.nodes):
            self.add()
        self.network.on_lost.append(self.watch.lost)

    def add(self) -> Machine:
        """One more machine, without a node yet."""
        machine = Machine(self, len(self.machines))
        self.machines.append(machine)
        return machine

    def machine_at(self, ip: bytes, bus_port: int) -> Machine | None:
        """The machine with this address."""
        for machine in self.machines:
            if machine.ip == ip and machine.bus_port == bus_port:
                return machine
        return None

    def machine_of(self, node_id: bytes) -> Machine | None:
        """The machine on which the node with this ID runs, or ran."""
        for machine in self.machines:
            if machine.node_id == node_id:
                return machine
        return None

    def maker_of(self, job_id: bytes) -> Machine:
        """The machine on which this job was made."""
        start = job_id[2:10]
        for machine in self.machines:
            if any(node_id.startswith(start) for node_id in (machine.node_id, *machine.former_ids)):
                return machine
        raise LookupError(job_id)

    def up(self) -> list[Machine]:
        """The machines whose nodes serve clients."""
        return [machine for machine in self.machines if machine.up]

    def processes(self) -> list[Process]:
        """The node processes that run and have read their journals."""
        return [machine.process for machine in self.machines if machine.process is not None and machine.up]

    def begin(self) -> None:
        """Start all nodes and introduce them to each other."""
        for machine in self.machines:
            machine.start()
        self.world.run(self.world.now + 10)
        for machine in self.machines[1:]:
            self.introduce(machine)

    def introduce(self, machine: Machine) -> None:
        """CLUSTER MEET between a node and some older one."""
        others = [other for other in self.up() if other.number < machine.number]
        if machine.process is None or not machine.up or not others:
            return
        process = machine.process
        other = self.random.choice(others)
        process.node.membership.meet(other.ip, other.port, other.bus_port, process.now_ms())
        process.schedule()

    def forget_strangers(self) -> None:
        """Tell all nodes to forget those that never come back, under the IDs that they had."""
        there = {machine.node_id for machine in self.machines if not machine.retired}
        for process in self.processes():
            for node in list(process.node.membership.nodes.values()):
                if node.id not in there and not node.flags & HANDSHAKE:
                    process.machine.tell([b"CLUSTER", b"FORGET", node.id])

    def whole(self) -> bool:
        """Whether all nodes that run know and reach each other, over links that stand."""
        return not self.missing()

    def missing(self) -> list[str]:
        """Pairs of nodes of which one does not reach the other."""
        found = []
        for process in self.processes():
            reached = {node.id for node in process.node.membership.reachable() if node.linked}
            found += [
                f"{process.name}-{other.name}"
                for other in self.processes()
                if other is not process and other.node.node_id not in reached
            ]
        return found
