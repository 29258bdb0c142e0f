from cluster.messages import SURVEY, SURVEYED
from disque.core.replication.repair_by_hand import LOST, Losing
from tests.core.support import Bench


def test_all_nodes_are_told_and_the_reply_counts_those_that_begin() -> None:
    bench = Bench(peers=3)
    one, two, gone = bench.peers
    bench.fail(gone)
    client = bench.client()
    client.send("CLUSTER", "REPAIR", gone.id)
    sent = bench.sent(SURVEY)
    assert [peer_id for peer_id, _ in sent] == [one.id, two.id]
    assert {message[2:] for _, message in sent} == {(LOST, (gone.id,))}
    number = sent[0][1][1]
    bench.hear(one, (SURVEYED, number, (b"1",)))
    bench.hear(two, (SURVEYED, number, (b"0",)))
    assert client.read() == 2
    assert gone.id in bench.node.repairs.gone


def test_the_reply_does_not_wait_for_the_journal() -> None:
    bench = Bench(peers=1, journaling=True)
    bench.fail(bench.peers[0])
    client = bench.client()
    client.session.unsettled = False
    assert client("CLUSTER", "REPAIR", bench.peers[0].id) == 1
    assert not client.session.unsettled


def test_who_is_told_begins_only_if_the_node_fails() -> None:
    bench = Bench(peers=2)
    one, two = bench.peers
    asked: list[tuple[int, tuple[bytes, ...], tuple[bytes, ...]]] = [
        *((1, (two.id,), (b"0",)), (2, (), ()), (3, (b"x",), (b"0",)), (4, (bench.node.node_id,), (b"0",)))
    ]
    for number, words, said in asked:
        bench.hear(one, (SURVEY, number, LOST, words))
        assert bench.sent(SURVEYED) == [(one.id, (SURVEYED, number, said))]
    bench.fail(two)
    bench.hear(one, (SURVEY, 5, LOST, (two.id,)))
    assert bench.sent(SURVEYED) == [(one.id, (SURVEYED, 5, (b"1",)))]
    assert list(bench.node.repairs.urgent) == [two.id]
    bench.fail(two, 0)
    assert not bench.node.repairs.gone
    assert not bench.node.repairs.urgent


def test_what_makes_no_sense_is_no_answer() -> None:
    losing = Losing(b"a" * 40)
    assert losing.take(b"", (b"1",))
    assert not losing.take(b"", (b"2",))
    assert not losing.take(b"", (b"1", b"1"))
    assert losing.reply() == b":1\r\n"
