"""UNIQUE between several nodes, case by case. Random interleavings are in test_unique_walk.py."""

import pytest

from cluster.member import LEAVING
from disque.core.jobs import sessions
from disque.core.model.key import COMMITTED, SETTLED, TENTATIVE
from tests.conftest import rarely
from tests.core.support import Bench
from tests.support.keys import K, keys
from tests.support.net import Net, added, ask, keepers, others, who_has
from tests.support.nodes import node_id

#: So long after the last change every node has the keys that it must keep.
SURE_MS = 20_000

# -- hits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_every_node_answers_the_same_id(copies: int) -> None:
    net = Net(4)
    first = added(net, 1, 3600, copies)
    assert {added(net, number, 3600, copies) for number in (1, 2, 3, 4)} == {first}
    assert who_has(net) == {1, *keepers(net, copies=copies)}


@pytest.mark.parametrize("trouble", ["maxlen", "paused", "full", "leaving"])
def test_a_hit_on_another_node_is_answered_whatever_the_state_of_the_queue_and_the_node(trouble: str) -> None:
    net = Net(4)
    first = added(net, 1)
    other = next(number for number in others(net) if number != 1)
    node = net.node(other)
    if trouble == "paused":
        net.run(other, "PAUSE", "q", "all")
    elif trouble == "full":
        node.config.set_text("maxmemory", "1")
        node.apply_settings()
    elif trouble == "leaving":
        node.membership.leaving = True
    options = ("MAXLEN", 1) if trouble == "maxlen" else ()
    assert added(net, other, 3600, 2, *options) == first
    assert len([place for place in net.up() if place.node and place.node.find(first)]) == 2


def test_who_finds_the_key_taken_sends_no_body() -> None:
    net = Net(3)
    added(net, 1, 3600, 3)
    ask(net, 2, 3600, 3)
    assert net.busy() == [], "a keeper knows by itself"


def test_a_key_that_is_free_does_not_help_a_queue_that_is_paused() -> None:
    net = Net(3)
    net.run(1, "PAUSE", "q", "all")
    asker = ask(net, 1)
    net.calm()
    assert str(asker.reply).startswith("PAUSED")
    assert all(not keys(place.node) and not place.node.unique.acquisitions for place in net.up() if place.node)


def test_full_and_leaving_nodes_keep_keys() -> None:
    net = Net(3)
    for number in keepers(net):
        net.node(number).membership.leaving = True
    for place in net.up():
        for number in keepers(net):
            if place.node and place.number != number:
                members = place.node.membership
                members.set_flags(members.nodes[node_id(number)], LEAVING)
    asker = ask(net, others(net)[0], 3600, 1)
    net.calm()
    assert isinstance(asker.reply, bytes)
    assert set(keepers(net, copies=1)) < who_has(net)


def test_a_node_alone_sends_nothing() -> None:
    bench = Bench()
    bench.client().add("q", "b", "UNIQUE", "k", 60)
    assert bench.sent() == []


def test_a_single_copy_whose_keeper_is_this_node_is_answered_at_once() -> None:
    net = Net(3)
    net.advance(SURE_MS)
    asker = ask(net, keepers(net, copies=1)[0], 60, 1)
    assert isinstance(asker.reply, bytes)


# -- two at once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_all_who_ask_at_once_are_answered_the_same(nodes: int) -> None:
    net = Net(nodes)
    askers = [ask(net, number) for number in range(1, nodes + 1) for _ in range(2)]
    net.calm()
    net.advance(3000, calm=True)
    assert len({asker.reply for asker in askers}) == 1
    assert isinstance(askers[0].reply, bytes)


def test_who_waits_for_somebody_elses_key_is_answered_within_its_timeout() -> None:
    net = Net(3)
    ask(net, 1)
    for source, target in net.busy():
        net.deliver(source, target)
    late = ask(net, 2, timeout=100)
    net.advance(100)
    assert str(late.reply).startswith("NOREPL Timeout")


def test_a_client_that_goes_away_frees_the_key() -> None:
    net = Net(3)
    asker = ask(net, others(net)[0])
    for ends in net.busy():
        net.deliver(*ends)
    assert who_has(net, TENTATIVE) == set(keepers(net))
    sessions.disconnect(net.node(others(net)[0]), asker.session, net.now_ms)
    net.flush(net.place(others(net)[0]))
    net.calm()
    assert who_has(net, TENTATIVE) == set()


# -- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("window", [0, 3600])
@pytest.mark.parametrize("delivered", [*range(0, 14, 4), *rarely(*(step for step in range(14) if step % 4))])
def test_a_coordinator_that_crashes_at_any_step_blocks_nobody_and_parts_nobody(
    delivered: int, window: int, copies: int
) -> None:
    net = Net(4)
    asker = ask(net, 1, window, copies)
    for _ in range(delivered):
        if net.busy():
            net.deliver(*net.busy()[0])
    told = asker.reply
    net.crash(1)
    for number in (2, 3, 4):
        net.fail(number, 1)
    hit = [ask(net, number, window, copies) for number in (2, 3, 4)]
    net.calm()
    net.advance(4000, calm=True)
    assert len({one.reply for one in hit}) == 1
    assert isinstance(hit[0].reply, bytes)
    assert told is None or copies == 1 or hit[0].reply == told
    assert who_has(net, TENTATIVE) == who_has(net, COMMITTED) == set()


def test_a_note_of_an_owner_that_has_restarted_is_dropped_within_seconds() -> None:
    net = Net(3)
    ask(net, others(net)[0])
    for ends in net.busy():
        net.deliver(*ends)
    assert who_has(net, TENTATIVE)
    net.crash(others(net)[0])
    net.start(others(net)[0])
    net.advance(2500, calm=True)
    assert who_has(net, TENTATIVE) == set()


def test_a_keeper_that_restarts_has_what_is_certain_and_forgets_what_is_not() -> None:
    net = Net(3)
    first = added(net, 1)
    number = next(one for one in keepers(net) if one != 1)
    net.crash(number)
    net.start(number)
    key = keys(net.node(number))[K]
    assert (key.job_id, key.state, key.repl) == (first, COMMITTED, 2)
    assert added(net, 3) == first
    assert keys(net.node(number))[K].state == SETTLED


def test_a_keeper_that_lost_its_disk_is_told_again() -> None:
    net = Net(3)
    added(net, 1)
    number = next(one for one in keepers(net) if one != 1)
    net.crash(number)
    net.start(number, empty=True)
    net.advance(100, calm=True)
    assert number in who_has(net)


# -- the end of a key -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("end", ["ACKJOB", "FASTACK"])
def test_a_key_without_a_window_is_free_everywhere_when_its_job_is_done(end: str, copies: int) -> None:
    net = Net(4)
    first = added(net, 1, 0, copies)
    where = next(place.number for place in net.up() if place.node and place.node.find(first))
    assert net.run(where, end, first) == 1
    net.calm()
    assert who_has(net) == set()
    assert added(net, 3, 0, copies) != first


@pytest.mark.parametrize("end", ["ACKJOB", "FASTACK", "DELJOB"])
def test_a_key_with_a_window_outlives_its_job_everywhere(end: str) -> None:
    net = Net(4)
    first = added(net, 1)
    net.run(1, end, first)
    net.calm()
    assert {added(net, number) for number in (1, 2, 3, 4)} == {first}


def test_a_key_of_a_job_that_is_delivered_at_most_once_is_free_when_it_is_acknowledged() -> None:
    net = Net(4)
    net.advance(SURE_MS)
    first = added(net, 1, 0, 1, "RETRY", 0)
    assert net.run(1, "GETJOB", "FROM", "q")[0][1] == first
    assert added(net, 2, 0, 1, "RETRY", 0) == first
    assert net.run(1, "ACKJOB", first) == 1
    net.calm()
    assert added(net, 2, 0, 1, "RETRY", 0) != first


def test_a_delayed_job_that_is_delivered_at_most_once_comes_though_another_node_keeps_its_key() -> None:
    net = Net(4)
    number = others(net, copies=1)[0]
    first = added(net, number, 0, 1, "RETRY", 0, "DELAY", 2)
    net.advance(2000, calm=True)
    assert net.run(number, "GETJOB", "FROM", "q")[0][1] == first


@pytest.mark.parametrize("window", [0, 5])
def test_keys_end_everywhere_with_the_life_of_the_job_or_the_window(window: int) -> None:
    net = Net(4)
    added(net, 1, window, 2, "TTL", 5 if not window else 60)
    net.advance(5001, calm=True)
    assert who_has(net) == set()


def test_a_job_that_is_deleted_before_its_key_is_settled_is_answered() -> None:
    net = Net(3)
    asker = ask(net, others(net)[0], 0, 1)
    while not net.node(others(net)[0]).unique.by_job:
        net.deliver(*net.busy()[0])
    (job_id,) = net.node(others(net)[0]).unique.by_job
    net.run(others(net)[0], "DELJOB", job_id)
    assert asker.reply == job_id
    net.calm()


def test_a_flush_frees_the_keys_of_this_node() -> None:
    net = Net(3)
    added(net, 1)
    waiting = ask(net, 2, 3600, 2)
    net.run(1, "DEBUG", "FLUSHALL")
    assert keys(net.node(1)) == {}
    net.calm()
    assert waiting.reply is not None
