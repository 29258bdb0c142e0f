"""No two IDs for one key, whatever arrives when: walks over several nodes that agree who can be reached."""

from random import Random

import pytest

from disque.core.dedup.keys import digest_of
from disque.core.model.key import TENTATIVE
from tests.conftest import rarely
from tests.support.keys import keys
from tests.support.net import Net

KEYS = (b"k", b"l")


class Walk:
    """A walk of random steps. Up to ``losses`` nodes lose their disk, ``crashes`` only their process."""

    def __init__(self, seed: int, *, nodes: int, copies: int, window: int) -> None:
        self.random = Random(seed)
        self.net = Net(nodes, seed)
        self.nodes = nodes
        self.copies = copies
        self.window = window
        self.losses_left = copies - 1
        self.crashes_left = 3

    def step(self) -> None:
        weights = {"ask": 3, "deliver": 30, "cut": 2, "join": 3, "advance": 3, "crash": 1, "start": 2}
        name = self.random.choices(list(weights), list(weights.values()))[0]
        getattr(self, name)()

    def ask(self) -> None:
        place = self.random.choice(self.net.up())
        timeout = self.random.choice([0, 0, 300])
        options = (self.window, b"REPLICATE", self.copies)
        if len(self.net.asked) < 12:
            self.net.ask(place.number, self.random.choice(KEYS), *options, timeout=timeout)

    def deliver(self) -> None:
        busy = self.net.busy()
        if busy:
            self.net.deliver(*self.random.choice(busy))

    def ends(self) -> tuple[bytes, bytes]:
        one, other = self.random.sample(list(self.net.places), 2)
        return one, other

    def cut(self) -> None:
        self.net.cut(*self.ends())

    def join(self) -> None:
        self.net.join(*self.ends())

    def advance(self) -> None:
        self.net.advance(self.random.choice([1, 30, 200, 1100]))

    def crash(self) -> None:
        up = self.net.up()
        if len(up) > 1 and self.crashes_left:
            self.crashes_left -= 1
            self.net.crash(self.random.choice(up).number)

    def start(self) -> None:
        down = [place for place in self.net.places.values() if place.node is None]
        if down:
            lost = self.losses_left > 0 and self.random.random() < 0.5
            self.losses_left -= lost
            self.net.start(self.random.choice(down).number, empty=lost)

    def answered(self, key: bytes) -> set[bytes]:
        return {asker.reply for asker in self.net.asked if asker.key == key and isinstance(asker.reply, bytes)}

    def check(self) -> None:
        for key in KEYS:
            assert len(self.answered(key)) <= 1, key

    def finish(self) -> None:
        """When all is well again, everybody is answered and nothing undecided is left."""
        self.net.heal()
        self.net.advance(6000, calm=True)
        self.check()
        assert [asker.reply for asker in self.net.asked if asker.reply is None] == []
        for place in self.net.up():
            node = place.node
            assert node is not None
            assert (node.unique.acquisitions, node.unique.attempts, node.copies.wanted) == ({}, {}, {})
            assert all(key.state != TENTATIVE and key.told is None for key in keys(node).values())
        for key in KEYS:
            self.check_keepers(key)

    def check_keepers(self, key: bytes) -> None:
        """The keepers that have not lost it all have the ID that was answered, and there is such a job."""
        given = self.answered(key)
        found = set()
        for place in self.net.up():
            node = place.node
            assert node is not None
            known = keys(node).get(digest_of(b"q", key))
            if known is not None and node.node_id in node.unique.ring.keepers(known.digest, self.copies):
                found.add(known.job_id)
        assert len(found) <= 1
        assert found >= given
        for job_id in given:
            assert any(place.node is not None and place.node.find(job_id) for place in self.net.up())


def walk(seed: int, *, nodes: int, copies: int, window: int, steps: int = 150) -> None:
    walk = Walk(seed, nodes=nodes, copies=copies, window=window)
    for _ in range(steps):
        walk.step()
        walk.check()
    walk.finish()


@pytest.mark.parametrize("window", [0, 3600])
@pytest.mark.parametrize(("nodes", "copies"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (5, 2)])
@pytest.mark.parametrize("seed", [0, *rarely(*range(1, 6))])
def test_one_key_has_one_id(seed: int, nodes: int, copies: int, window: int) -> None:
    walk(seed, nodes=nodes, copies=copies, window=window)


class Divided(Walk):
    """A walk in which nodes take others for failed, each for itself: two IDs may be answered, but not for long."""

    def step(self) -> None:
        if self.random.random() < 0.1:
            one, other = self.random.sample(self.net.up(), 2) if len(self.net.up()) > 1 else (None, None)
            if one is not None and other is not None:
                self.net.fail(one.number, other.number, failing=self.random.random() < 0.5)
        super().step()

    def check(self) -> None:
        """Nothing is promised while they differ."""

    def finish(self) -> None:
        for place in self.net.up():
            for other in self.net.places.values():
                if other is not place:
                    self.net.fail(place.number, other.number, failing=False)
        super().finish()

    def check_keepers(self, key: bytes) -> None:
        """In the end all keepers have the same ID."""
        found = set()
        for place in self.net.up():
            node = place.node
            assert node is not None
            known = keys(node).get(digest_of(b"q", key))
            if known is not None and node.node_id in node.unique.ring.keepers(known.digest, self.copies):
                found.add(known.job_id)
        assert len(found) <= 1


@pytest.mark.parametrize(("nodes", "copies"), [(2, 2), (3, 1), (3, 2), (5, 3)])
@pytest.mark.parametrize("seed", [0, 1, *rarely(*range(2, 8))])
def test_nodes_that_did_not_reach_each_other_agree_in_the_end(seed: int, nodes: int, copies: int) -> None:
    divided = Divided(seed, nodes=nodes, copies=copies, window=3600)
    for _ in range(150):
        divided.step()
    divided.finish()
