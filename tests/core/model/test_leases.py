from disque.core.model.leases import Leases
from disque.core.model.memory import LEASE_BYTES


def test_each_lease_counts_once() -> None:
    leases = Leases()
    assert leases.begin(b"a", 250) == LEASE_BYTES
    assert leases.begin(b"a", 500) == 0
    assert leases.begin(b"b", 1) == LEASE_BYTES
    assert leases.by_id == {b"a": 500, b"b": 1}
    assert leases.cost() == 2 * LEASE_BYTES
    assert leases.drop(b"a") == LEASE_BYTES
    assert leases.drop(b"a") == 0
    leases.clear()
    assert leases.cost() == 0
