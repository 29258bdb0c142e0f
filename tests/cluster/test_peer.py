from random import Random

import pytest

from cluster.peer import Peer


def delays(count: int) -> list[float]:
    peer, random = Peer(b"a" * 40, "host", 1), Random(1)
    found = []
    for peer.failures in range(1, count + 1):
        found.append(peer.delay_s(random))
    return found


def test_the_pause_between_attempts_doubles_from_a_tenth_of_a_second_to_three() -> None:
    for delay_s, middle_s in zip(delays(7), [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0], strict=True):
        assert middle_s * 0.75 <= delay_s <= middle_s * 1.25


def test_no_number_of_failures_is_too_large() -> None:
    peer = Peer(b"a" * 40, "host", 1)
    peer.failures = 10**9
    assert peer.delay_s(Random(1)) < 4


def test_nodes_do_not_try_all_at_once() -> None:
    assert len(set(delays(20))) == 20


@pytest.mark.parametrize(("host", "port", "there"), [("host", 1, True), ("", 1, False), ("host", 0, False)])
def test_only_an_address_can_be_connected_to(host: str, port: int, *, there: bool) -> None:
    assert Peer(b"a" * 40, host, port).has_address == there


def test_a_place_is_host_and_port_and_an_ipv6_address_stands_in_brackets() -> None:
    assert Peer(b"a" * 40, "disque-1", 17711).place == "disque-1:17711"
    assert Peer(b"a" * 40, "::1", 17711).place == "[::1]:17711"
