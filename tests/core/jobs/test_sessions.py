from disque.core.jobs import sessions
from disque.core.model.memory import JOB_BYTES, KEY_BYTES, QUEUE_BYTES
from tests.core.support import NOTHING, Bench, Client


def test_sessions_come_and_go(bench: Bench) -> None:
    one, two = bench.client(), bench.client()
    assert bench.node.stats.connections == 2
    assert (one.session.address, two.session.id) == (b"127.0.0.1:50001", 2)
    one.disconnect()
    assert list(bench.node.sessions) == [2]
    assert one.session.closing


def test_a_session_that_is_gone_leaves_nothing_behind(cluster: Bench) -> None:
    waiting, adding, watching = cluster.client(), cluster.client(), cluster.client()
    waiting("GETJOB", "TIMEOUT", 5000, "FROM", "a", "b")
    adding("ADDJOB", "q", "b", 5000, "REPLICATE", 3)
    watching("MONITOR")
    for client in (waiting, adding, watching):
        client.disconnect()
    node = cluster.node
    assert (node.sessions, node.monitors, node.copies.wanted, node.jobs_registered()) == ({}, {}, {}, 0)
    assert all(queue.waiters is None for queue in node.queues.values())
    cluster.advance(10_000)


def test_a_flush_ends_all_waits(bench: Bench, client: Client) -> None:
    for protocol, nothing in ((2, b"*-1\r\n"), (3, b"_\r\n")):
        waiting = bench.client()
        waiting("HELLO", protocol)
        waiting("GETJOB", "TIMEOUT", 5000, "FROM", "q")
        client("DEBUG", "FLUSHALL")
        assert waiting.read_raw() == nothing
        assert not waiting.waiting


def test_what_was_handed_out_before_a_flush_does_not_come_back(bench: Bench, client: Client) -> None:
    dead = bench.client()
    client.add("q")
    dead.choked = True
    dead.send("GETJOB", "FROM", "q")
    client("DEBUG", "FLUSHALL")
    dead.disconnect()
    assert bench.node.jobs_registered() == 0


def test_after_a_flush_old_timers_do_nothing(bench: Bench, client: Client) -> None:
    client.add("q", "b", "DELAY", 1)
    client.add("q", "b", "RETRY", 1)
    client.get("q")
    client("PAUSE", "p", "in")
    client("DEBUG", "FLUSHALL")
    bench.advance(1_000_000)
    assert client.read() is NOTHING
    assert bench.node.used == 0


def test_ctimes_go_on_after_a_flush(bench: Bench, client: Client) -> None:
    before = bench.job(client.add("q")).ctime
    client("DEBUG", "FLUSHALL")
    assert bench.job(client.add("q")).ctime > before


def test_struct_sizes() -> None:
    assert sessions.struct_sizes() == b"bits:64 job:%d queue:%d key:%d" % (JOB_BYTES, QUEUE_BYTES, KEY_BYTES)


def test_what_a_schedule_was_about_to_try_again_is_forgotten_with_all_the_rest(cluster: Bench) -> None:
    """Its ADDJOB is of no client, so nobody has answered it before."""
    adding = cluster.client()
    adding("ADDJOB", "q", "b", 5000, "REPLICATE", 3)
    (pending,) = adding.session.adds
    node = cluster.node
    del node.sessions[adding.session.id]
    node.retries.append(pending)
    sessions.flush_all(node, cluster.now_ms)
    assert not node.retries
    cluster.live(100)
    assert not node.copies.wanted
