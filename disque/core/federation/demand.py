"""Asking other nodes for jobs: when, whom, for how many. The why is told in `supply`.

Nothing is sent when a client begins to wait or ceases to: the flow of its queue is marked, and the settle that follows
compares what is wanted with what was asked for. Twice the need, or half the credit, makes a message: so many clients
cost few messages.
"""

from typing import TYPE_CHECKING, Final

from cluster.messages import NEEDJOBS, NEEDNOW
from disque.core.model.demand import POLLED_MOST, SHARE_MOST, STOCK_MS
from disque.core.model.flow import Flow
from disque.core.model.queue import PAUSED_OUT, Queue
from disque.core.model.session import WAIT_JOBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disque.core.model.peers import Peer
    from disque.core.node import Node

#: The most that is asked for on behalf of those who wait, whatever their COUNTs add up to.
BASE_MOST: Final = 100
#: A node is never owed more jobs than these: what was asked for and taken back counts, too, since it may be on its way.
OWED_MOST: Final = 100_000
#: Flows that one settle looks at; flows that one beat looks after.
ASK_MOST: Final = 1000
TURN_MOST: Final = 200
#: Sessions and their places that one step of a chore looks at.
WAIT_SLICE = 500  # not Final: tests want less, compiled too
#: A request is renewed after so long, in ms.
RENEW_MS: Final = 30_000
#: How long a delivery, and a client that looked in, count as somebody who waits, in ms.
LATELY_MS: Final = 1000
POLLED_MS: Final = 3000


def wait(node: "Node", queues: list[Queue]) -> None:
    """Somebody waits in these queues: other nodes are asked at the next settle, unless they are already."""
    federation = node.federation
    for queue in queues:
        flow = queue.flow
        if flow is None:
            flow = queue.flow = federation.flow(queue.name)
        if not flow.marked:
            federation.mark(flow)


def wait_all(node: "Node") -> "Iterator[None]":
    """Nodes can be reached that could not be asked when clients began to wait. Some places a step."""
    left = WAIT_SLICE
    for session in list(node.sessions.values()):
        if session.waiting == WAIT_JOBS:
            wait(node, session.wait_queues)
            left -= len(session.wait_queues)
        left -= 1
        if left <= 0:
            left = WAIT_SLICE
            yield


def poll(node: "Node", names: list[bytes], count: int, now_ms: int) -> None:
    """Somebody looked for up to ``count`` jobs in vain and does not wait: they may come before he looks again."""
    federation = node.federation
    for name in names[:BASE_MOST]:
        flow = federation.flows.get(name)
        if flow is None:
            if len(federation.flows) >= POLLED_MOST:
                return
            flow = federation.flow(name)
            queue = node.queues.get(name)
            if queue is not None:
                queue.flow = flow
        flow.polled_ms = now_ms
        flow.poll_count = min(count, BASE_MOST)
        federation.mark(flow)


def drained(node: "Node", queue: Queue) -> None:
    """The stock of imported jobs goes down: it is time to ask for more."""
    queue.low = -1
    if queue.flow is not None:
        node.federation.mark(queue.flow)


def ask(node: "Node", now_ms: int) -> None:
    """At the end of a settle: ask for what is needed, now that everybody was served with what there is."""
    marked = node.federation.marked
    for _ in range(min(len(marked), ASK_MOST)):
        flow = marked.popleft()
        flow.marked = False
        attend(node, flow, now_ms)


def may_ask(node: "Node") -> bool:
    """Whether this node wants jobs of others at all."""
    if node.reconciling or node.misconf or node.loading or node.stopping:
        return False
    return not node.membership.leaving and node.used <= node.limits.full


def is_wanted(flow: Flow, queue: Queue | None, now_ms: int) -> bool:
    """Whether jobs of this queue are of use here."""
    if queue is not None:
        if queue.paused & PAUSED_OUT:
            return False
        if queue.waiters is not None or now_ms - queue.consumed_ms < LATELY_MS:
            return True
    return now_ms - flow.polled_ms < POLLED_MS


def waited_for(flow: Flow, queue: Queue | None, now_ms: int) -> int:
    """How many jobs those want who wait or looked in lately, BASE_MOST at most."""
    count = flow.poll_count if now_ms - flow.polled_ms < POLLED_MS else 0
    if queue is not None and queue.waiters is not None:
        for session in queue.waiters:
            count += session.wait_count
            if count >= BASE_MOST:
                break
    return min(count, BASE_MOST)


def attend(node: "Node", flow: Flow, now_ms: int) -> bool:
    """Ask for jobs, or take the requests back when nobody wants any. Whether jobs are wanted."""
    queue = node.queues.get(flow.name)
    wanted = is_wanted(flow, queue, now_ms)
    if not wanted or not may_ask(node):
        cancel(node, flow)
        return wanted
    base = waited_for(flow, queue, now_ms)
    ahead = flow.ahead(now_ms)
    stock = queue.length if queue is not None else 0
    enough = max(base, ahead) // 2
    if queue is not None:
        queue.low = enough if ahead and stock > enough else -1
    if stock <= enough and sources(node):
        request(node, flow, base, ahead, now_ms)
    if flow.offers and queue is not None and queue.waiters is not None and not stock:
        accept(node, flow, base)
    return True


def sources(node: "Node") -> "list[Peer]":
    """The nodes that can be asked: those that leave, too, since somebody must take what they have."""
    return [peer for peer in node.peers.values() if peer.linked]


def request(node: "Node", flow: Flow, base: int, ahead: int, now_ms: int) -> None:
    """NEEDJOBS to each node that has sent half of what it was asked for, or should be asked for more than that."""
    linked = sources(node)
    senders = flow.senders(now_ms) if ahead else []
    from_each = -(-base // len(linked))
    from_senders = min(-(-ahead // len(senders)), SHARE_MOST) if senders else 0
    left = flow.left
    if not left:
        flow.asked_ms = now_ms
    for peer in linked:
        count = max(from_each, from_senders) if peer.id in senders else from_each
        if count and left.get(peer.id, 0) <= count // 2:
            left[peer.id] = count
            peer.owed = min(peer.owed + count, OWED_MOST)
            node.send(peer.id, (NEEDJOBS, flow.name, count))


def offered(node: "Node", peer: bytes, message: tuple[int, bytes], now_ms: int) -> None:
    """OFFER: ``peer`` keeps jobs of a queue until somebody waits for them here. If nobody wants any, never mind."""
    del now_ms
    flow = node.federation.flows.get(message[1])
    if flow is not None:
        flow.offers[peer] = None
        node.federation.mark(flow)


def accept(node: "Node", flow: Flow, base: int) -> None:
    """NEEDNOW to the nodes that keep jobs, for those who wait."""
    peers = [peer for peer in map(node.peers.get, flow.offers) if peer is not None and peer.linked]
    flow.offers.clear()
    for peer in peers:
        count = -(-base // len(peers))
        flow.left[peer.id] = count
        peer.owed = min(peer.owed + count, OWED_MOST)
        node.send(peer.id, (NEEDNOW, flow.name, count))


def cancel(node: "Node", flow: Flow) -> None:
    """Take back what was asked for."""
    for peer_id in flow.left:
        peer = node.peers.get(peer_id)
        if peer is not None and peer.linked:
            node.send(peer_id, (NEEDJOBS, flow.name, 0))
    flow.left.clear()


def ask_again(node: "Node", peer: bytes) -> None:
    """Have ``peer`` asked anew for whatever is wanted."""
    federation = node.federation
    for flow in federation.flows.values():
        flow.left.pop(peer, None)
        federation.mark(flow)


def look_after(node: "Node", flow: Flow, now_ms: int) -> bool:
    """Renew the requests of a flow, or take them back; False when it has ended."""
    wanted = attend(node, flow, now_ms)
    if wanted and flow.left and now_ms - flow.asked_ms >= RENEW_MS:
        flow.left.clear()
        attend(node, flow, now_ms)
    queue = node.queues.get(flow.name)
    waits = queue is not None and queue.waiters is not None
    if wanted or waits or flow.marked or now_ms - flow.imported_ms < STOCK_MS:
        return True
    if queue is not None:
        queue.flow = None
        queue.low = -1
    del node.federation.flows[flow.name]
    return False
