"""I2, on a calm cluster: nobody waits for a job that is there."""

from disque.core.federation import demand, supply
from disque.core.model.job import Job
from disque.core.model.queue import PAUSED_OUT, Queue
from tests.simulation.cluster import Cluster
from tests.simulation.process import Process
from tests.simulation.world import Violation

#: Ways between two nodes that it may take: asking, an offer, its answer, the job, and what is decided meanwhile.
WAYS = 8
#: What beats, fsyncs and the like may take beyond them, in ms.
SLACK_MS = 300


class Prompt:
    """When nothing goes wrong, the oldest job of a queue is not left there while somebody waits at a linked node.

    It is looked at with each beat. Calm are runs without faults, and all others some time after healing.
    """

    promise = "I2"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.history = cluster.watch.history
        #: Since when the oldest job of a queue is seen while somebody waits elsewhere.
        self.since: dict[tuple[int, bytes], tuple[bytes, int]] = {}

    def beat(self, process: Process) -> None:
        """A tenth of a second has passed."""
        if not self.is_calm():
            return
        number = process.machine.number
        for queue in process.node.queues.values():
            key = (number, queue.name)
            head = queue.head()
            if head is None or not self.may_give(process, queue) or not self.waits_elsewhere(process, head):
                self.since.pop(key, None)
                continue
            seen = self.since.get(key)
            if seen is None or seen[0] != head.id:
                self.since[key] = (head.id, self.world.now)
            elif self.world.now - seen[1] > self.most_ms(number):
                raise Violation(
                    self.promise, f"{head.id!r} stays in {queue.name!r} of {process.machine.name} while somebody waits"
                )

    def is_calm(self) -> bool:
        """Whether nothing goes wrong now, and has not for a while."""
        healed_ms = self.history.healed_ms
        return self.world.options.calm or 0 < healed_ms < self.world.now - 2 * self.world.options.timeout_ms

    def may_give(self, process: Process, queue: Queue) -> bool:
        """Whether nothing forbids to give jobs of this queue."""
        node = process.node
        return not queue.paused & PAUSED_OUT and not node.reconciling and not node.misconf and not node.loading

    def waits_elsewhere(self, process: Process, head: Job) -> bool:
        """Whether a client of another node waits for jobs of this queue, and that node can be given this one."""
        node = process.node
        for machine in self.cluster.machines:
            other = machine.process
            if other is None or other is process or other.gone or not demand.may_ask(other.node):
                continue
            queue = other.node.queues.get(head.queue)
            peer = other.node.peers.get(node.node_id)
            linked = peer is not None and peer.linked and supply.can_take(node, other.node.node_id)
            if linked and not node.peers[other.node.node_id].takes(len(head.body)):
                continue
            if linked and queue is not None and queue.waiters is not None and not queue.paused & PAUSED_OUT:
                return True
        return False

    def most_ms(self, number: int) -> int:
        """How long that may be so."""
        slowest = [self.cluster.network.slowest(number, other.number) for other in self.cluster.machines]
        return WAYS * max(slowest) + SLACK_MS
