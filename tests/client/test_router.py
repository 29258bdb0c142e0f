import threading
from random import Random
from typing import Any

import pytest

from disque.client.config import Address
from disque.client.router import AFFINITY_JOBS, LOOK_S, Router, read_row
from tests.client.fake import ID_A, ID_B, ID_C, A, B, C, config, hello


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def router(*nodes: Address, clock: Clock | None = None, **options: Any) -> Router:
    return Router(config(*nodes, **options), clock or Clock(), Random(1))


class TestChoice:
    def test_a_client_stays_at_one_node(self) -> None:
        nodes = router(A, B, C)
        assert {nodes.choose(()) for _ in range(5)} == {A}

    def test_clients_are_spread(self) -> None:
        first = {Router(config(A, B, C, order="random"), Clock(), Random(seed)).choose(()) for seed in range(30)}
        assert first == {A, B, C}

    def test_what_was_tried_is_not_chosen(self) -> None:
        nodes = router(A, B)
        assert nodes.choose({A}) == B
        assert nodes.choose({A, B}) is None

    def test_a_failed_node_is_left_and_not_returned_to(self) -> None:
        clock = Clock()
        nodes = router(A, B, clock=clock)
        assert nodes.choose(()) == A
        nodes.failed(A)
        assert nodes.choose(()) == B
        clock.now_s += 100
        assert nodes.choose(()) == B

    def test_nodes_of_which_others_know_count_until_one_tells(self) -> None:
        nodes = router(A)
        nodes.hear_of([A, B, C])
        nodes.failed(A)
        assert nodes.choose(()) in {B, C}
        nodes.learned(B, hello(ID_B, (ID_A, *A, 1), (ID_B, *B, 1)))
        assert nodes.addresses() == [A, B]

    def test_a_node_that_failed_of_late_is_better_than_none(self) -> None:
        nodes = router(A)
        nodes.failed(A)
        assert nodes.choose(()) == A

    def test_the_cooldown_ends_with_time_or_success(self) -> None:
        clock = Clock()
        nodes = router(A, B, clock=clock, cooldown_ms=5000)
        nodes.failed(A)
        nodes.failed(B)
        clock.now_s += 1
        nodes.worked(B)
        assert nodes.choose(()) == B
        nodes.failed(B)
        clock.now_s += 4.5
        assert nodes.choose(()) == A

    def test_a_preferred_node_is_asked_if_it_is_known_and_well(self) -> None:
        nodes = router(A, B)
        assert nodes.choose((), prefer=B) == B
        assert nodes.choose(()) == A
        assert nodes.choose({B}, prefer=B) == A
        assert nodes.choose((), prefer=C) == A
        nodes.failed(B)
        assert nodes.choose((), prefer=B) == A

    def test_nodes_that_fail_or_leave_come_last(self) -> None:
        nodes = router(A)
        nodes.learned(A, hello(ID_A, (ID_A, "a", 1, 100), (ID_B, *B, 100), (ID_C, *C, 5)))
        assert nodes.choose(()) == C
        assert nodes.choose({C}) == A


class TestLearning:
    def test_other_nodes_are_learnt(self) -> None:
        nodes = router(A)
        nodes.learned(A, hello(ID_A, (ID_A, "a", 1, 1), (ID_B, *B, 1), (ID_C, *C, 1)))
        assert nodes.addresses() == [A, B, C]
        assert nodes.count() == 3

    def test_unless_that_is_not_wanted(self) -> None:
        nodes = router(A, discover=False)
        nodes.learned(A, hello(ID_A, (ID_B, *B, 1)))
        assert nodes.addresses() == [A]

    def test_with_tls_the_ports_for_plain_text_are_not(self) -> None:
        reply = hello(ID_A, (ID_A, "a", 7711, 1), (ID_B, *B, 1))
        secured, plain = router(A, tls=True), router(A)
        for nodes in (secured, plain):
            nodes.learned(A, reply)
        assert (secured.addresses(), plain.addresses()) == ([A], [A, B])
        secured.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *B, 1)))
        assert secured.addresses() == [A, B]

    def test_given_nodes_are_better_than_learnt_ones(self) -> None:
        nodes = router(A, C)
        nodes.learned(A, hello(ID_A, (ID_B, *B, 1)))
        assert nodes.choose({A}) == C

    def test_a_node_under_two_addresses_is_one_node(self) -> None:
        nodes = router(("localhost", 1))
        nodes.learned(("localhost", 1), hello(ID_A, (ID_A, "127.0.0.1", 1, 1), (ID_B, *B, 1)))
        assert nodes.addresses() == [("localhost", 1), B]

    def test_a_given_node_that_moves_is_found_at_its_new_address(self) -> None:
        nodes = router(A, B)
        nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *B, 1)))
        for _ in range(2):
            nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *C, 1)))
            assert nodes.addresses() == [A, B, C]
        nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *B, 1)))
        assert nodes.addresses() == [A, B]

    def test_also_one_that_was_given_by_name(self) -> None:
        name, old, new = ("name", 2), ("10.0.0.1", 2), ("10.0.0.2", 2)
        nodes = router(A, name)
        nodes.learned(name, hello(ID_B, (ID_A, *A, 1), (ID_B, *old, 1)))
        nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *old, 1)))
        assert nodes.addresses() == [A, name]
        nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *new, 1)))
        assert nodes.addresses() == [A, name, new]
        nodes.learned(name, hello(ID_B, (ID_A, *A, 1), (ID_B, *new, 1)))
        assert nodes.addresses() == [A, name], "the name leads there"

    def test_and_one_whose_address_another_node_has_now(self) -> None:
        nodes = router(A, B)
        nodes.learned(A, hello(ID_A, (ID_A, *A, 1), (ID_B, *B, 1)))
        nodes.learned(A, hello(ID_A, (ID_B, *C, 1), (ID_A, *A, 1), (ID_C, *B, 1)))
        assert nodes.addresses() == [A, B, C]

    def test_odd_addresses_are_ignored(self) -> None:
        nodes = router(A)
        odd = hello(ID_A, (ID_A, "", 1, 1), (ID_B, "", 2, 1), (ID_C, "c", 0, 1))
        nodes.learned(A, [*odd, [b"short"], b"text", [b"id", b"h", b"port", b"1"], [1, b"h", 2, 3]])
        assert nodes.addresses() == [A]

    @pytest.mark.parametrize("reply", [None, 1, [], [1], [1, 2, 3], {}, b"OK"])
    def test_other_replies_are_ignored(self, reply: object) -> None:
        nodes = router(A)
        nodes.learned(A, reply)
        assert nodes.addresses() == [A]

    def test_nodes_that_are_not_told_of_any_more_are_forgotten(self) -> None:
        nodes = router(A)
        nodes.learned(A, hello(ID_A, (ID_B, *B, 1)))
        assert nodes.choose({A}) == B
        nodes.learned(A, hello(ID_A, (ID_C, *C, 1)))
        assert nodes.addresses() == [A, C]
        assert nodes.choose(()) == A

    def test_it_is_asked_for_when_none_has_told_for_long(self) -> None:
        clock = Clock()
        nodes = router(A, clock=clock)
        clock.now_s += LOOK_S - 1
        nodes.learned(A, hello(ID_A))
        clock.now_s += LOOK_S - 1
        assert not nodes.should_look()
        clock.now_s += 1
        assert [nodes.should_look(), nodes.should_look()] == [True, False]

    def test_a_row(self) -> None:
        assert read_row([b"id", b"h", b"7711", b"1"]) == ("id", ("h", 7711), 1)
        assert read_row([b"id", b"h", b"7711", b"-1"]) is None


class TestAffinity:
    def followed(self, *makers: tuple[str, int]) -> Address | None:
        nodes = router(A)
        nodes.learned(A, hello(ID_A, (ID_B, *B, 1), (ID_C, *C, 10)))
        assert nodes.choose(()) == A
        for maker, jobs in makers:
            nodes.saw_jobs([f"D-{maker[:8]}-rest"] * jobs)
        return nodes.choose(())

    def test_a_consumer_moves_to_where_most_jobs_are_made(self) -> None:
        assert self.followed((ID_A, 20), (ID_B, AFFINITY_JOBS - 20)) == B

    def test_only_for_more_than_half_of_enough_jobs(self) -> None:
        assert self.followed((ID_B, AFFINITY_JOBS - 1)) == A
        assert self.followed((ID_A, AFFINITY_JOBS // 2), (ID_B, AFFINITY_JOBS // 2)) == A

    def test_only_to_a_node_that_is_known_and_well(self) -> None:
        assert self.followed((ID_C, AFFINITY_JOBS)) == A
        assert self.followed(("dddddddd", AFFINITY_JOBS)) == A


def test_any_number_of_threads_may_use_one() -> None:
    nodes = router(A, B)
    chosen: list[Address | None] = []

    def use() -> None:
        for _ in range(300):
            nodes.failed(A)
            nodes.learned(B, hello(ID_B, (ID_A, *A, 1), (ID_C, *C, 1)))
            chosen.append(nodes.choose({A}))
            nodes.worked(A)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(chosen) <= {B, C}
    nodes.renew_lock()
    assert nodes.choose(()) is not None
