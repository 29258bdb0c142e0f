"""METRICS: what prometheus_client reads in it, which queues are shown; hostile names and many queues do no harm."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from disque.core import step
from disque.core.commands import metrics, scan
from tests.conftest import ROOT, examples
from tests.core.support import NOTHING, Bench, Client

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client()


def scraped(client: Client, *words: Any) -> bytes:
    """The reply to METRICS, which may take some ticks."""
    client.send("METRICS", *words)
    while (reply := client.read()) is NOTHING:
        step.tick(client.bench.node, client.bench.now_ms)
    assert isinstance(reply, bytes), reply
    return reply


def samples(client: Client, *words: Any) -> Samples:
    """All samples, by name and labels; each is there once."""
    found: Samples = {}
    names = set()
    for family in text_string_to_metric_families(scraped(client, *words).decode()):
        assert family.name not in names, "all lines of a metric stand together"
        names.add(family.name)
        assert family.documentation
        assert family.type in {"gauge", "counter", "histogram"}
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def of(found: Samples, queue: str) -> dict[str, float]:
    """What there is of a queue, without `disque_` and histograms."""
    return {name[7:]: value for (name, labels), value in found.items() if labels == (("queue", queue),)}


def plain(found: Samples, name: str) -> float:
    return found[f"disque_{name}", ()]


def test_what_is_said_of_a_queue(bench: Bench, client: Client) -> None:
    first = client.add("q")
    client.add("q")
    client.add("q", "b", "DELAY", 100)
    client.get("q")
    client("NACK", first)
    bench.advance(250)
    (second,) = client.get("q")
    bench.advance(1250)
    client("ACKJOB", second)
    client.get("q")
    client.add("q")
    client("CANCEL", client.add("q"))
    client("PAUSE", "q", "out")
    found = samples(client)
    told = of(found, "q")
    assert (told["queue_length"], told["queue_delayed"], told["queue_in_flight"]) == (1, 1, 1)
    assert (told["queue_paused_in"], told["queue_paused_out"], told["queue_consumers_waiting"]) == (0, 1, 0)
    assert [told[f"jobs_{name}_total"] for name in ("added", "delivered", "acked", "nacked")] == [5, 3, 1, 1]
    assert [told[f"jobs_{name}_total"] for name in ("retried", "died", "expired", "cancelled")] == [0, 0, 0, 1]
    assert told["queue_oldest_seconds"] == 0
    assert told["job_run_seconds_count"] == 1
    assert told["job_run_seconds_sum"] == 1.25
    runs = {
        dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("job_run_seconds_bucket")
    }
    assert (runs["1.024"], runs["4.096"], runs["+Inf"]) == (0, 1, 1)
    assert len(runs) == len(metrics.BOUNDS) + 1


def test_the_oldest_job_has_waited_since_it_was_due(bench: Bench, client: Client) -> None:
    client.add("q")
    bench.advance(12_345)
    assert of(samples(client), "q")["queue_oldest_seconds"] == 12.345


def test_what_is_said_of_the_node(bench: Bench, client: Client) -> None:
    client.add("q")
    client("ACKJOB", *client.get("q"))
    client.add("q")
    bench.advance(5000)
    found = samples(client)
    assert plain(found, "uptime_seconds") == 5
    assert plain(found, "node_jobs") == 1
    assert plain(found, "node_queues") == plain(found, "queues_shown") == 1
    assert plain(found, "memory_used_bytes") == bench.node.used
    assert (plain(found, "node_jobs_added_total"), plain(found, "node_jobs_acked_total")) == (2, 1)
    assert plain(found, "connected_clients") == 1
    assert plain(found, "cluster_known_nodes") == 1
    assert plain(found, "journal_enabled") == 1
    assert found["disque_cpu_seconds_total", (("mode", "user"),)] > 0
    assert any(name == "disque_build_info" for name, _ in found)


def test_links_and_commands_have_labels() -> None:
    bench = Bench(peers=2)
    bench.link_down(bench.peers[1])
    bench.node.calls[bench.node.lookup[b"addjob"].index] = 7
    found = samples(bench.client())
    links = [found["disque_cluster_link_up", (("peer", peer.id.decode()),)] for peer in bench.peers]
    assert links == [1, 0]
    assert found["disque_commands_total", (("command", "addjob"),)] == 7
    assert not [name for name, labels in found if "node" in dict(labels)]  # a gateway adds this one


def test_only_queues_that_fit_the_pattern(client: Client) -> None:
    for name in ("mails", "mails:dead", "pictures"):
        client.add(name)
    found = samples(client, "mails*")
    assert {dict(labels)["queue"] for name, labels in found if name == "disque_queue_length"} == {"mails", "mails:dead"}
    assert plain(found, "queues_left_out") == 0


def test_those_that_are_used_most_are_shown_and_the_others_counted(client: Client) -> None:
    for number in range(30):
        for _ in range(2 if number % 10 == 7 else 1):
            client.add(f"q{number}")
    found = samples(client, "COUNT", 3)
    shown = {dict(labels)["queue"] for name, labels in found if name == "disque_queue_length"}
    assert shown == {"q7", "q17", "q27"}
    assert [plain(found, f"queues_{name}") for name in ("shown", "left_out", "left_out_jobs")] == [3, 27, 27]
    assert plain(samples(client, "*", "COUNT", 0), "queues_left_out") == 30


def test_a_queue_all_of_whose_jobs_are_delayed_is_there(client: Client) -> None:
    client.add("later", "b", "DELAY", 100)
    told = of(samples(client, "l*"), "later")
    assert (told["queue_length"], told["queue_delayed"]) == (0, 1)
    assert of(samples(client, "x*"), "later") == {}


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=20), st.text('"\\\n{}=, \r\0é\u2028', max_size=8)), max_size=8))
def test_names_of_any_bytes_do_no_harm(names: list[bytes | str]) -> None:
    bench = Bench(checked=False)
    client = bench.client()
    wanted = {name if isinstance(name, bytes) else name.encode() for name in names}
    for name in wanted:
        client.add(name)
    found = samples(client)
    shown = {dict(labels)["queue"] for name, labels in found if name == "disque_queue_length"}
    assert shown == {name.decode("utf-8", "backslashreplace") for name in wanted}
    assert plain(found, "queues_left_out") == len(wanted) - len(shown)


def test_two_names_that_look_alike_are_shown_once(client: Client) -> None:
    client.add(b"\xff")
    client.add("\\xff")
    found = samples(client)
    assert (plain(found, "queues_shown"), plain(found, "queues_left_out")) == (1, 1)


def test_long_names_are_left_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.add("x" * (metrics.NAME_MOST + 1))
    client.add("x" * metrics.NAME_MOST)
    assert plain(samples(client), "queues_left_out_jobs") == 1
    monkeypatch.setattr(metrics, "LABELS_MOST", 100)
    assert plain(samples(client), "queues_left_out_jobs") == 2


def test_long_names_are_compared_with_no_pattern(bench: Bench, client: Client) -> None:
    client.add("x" * metrics.NAME_MOST + ":dead")
    client.add("x:dead")
    for pattern, left_out in (("*", 1), ("x*", 1), ("*:dead", 0)):
        assert plain(samples(client, pattern), "queues_left_out") == left_out
    walks = [metrics.Metrics(client.session, pattern, 10) for pattern in (b"*", b"*:dead")]
    less, more = [walk._choose(bench.node) for walk in walks]
    assert less < more, "what is compared with a pattern counts"


def test_many_queues_and_jobs_are_done_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOK_MOST", 50)
    monkeypatch.setattr(scan, "TICK_LOOK_MOST", 50)
    bench.checked = False
    client, other = bench.client(), bench.client()
    for number in range(500):
        client.add(f"q{number}")
    client.send("METRICS")
    assert client.read() is NOTHING
    assert other("PING") == b"PONG"
    for number in range(0, 500, 2):
        other("DELJOB", *other.get(f"q{number}"))
    ticks = 0
    while (reply := client.read()) is NOTHING:
        step.tick(bench.node, bench.now_ms)
        ticks += 1
    assert ticks > 20
    assert reply.count(b"disque_queue_length{") == 500
    assert client("PING") == b"PONG"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("COUNT", "x"), "ERR COUNT must be a number from 0 to 10000"),
        (("COUNT", -1), "ERR COUNT must be a number from 0 to 10000"),
        (("COUNT", 10_001), "ERR COUNT must be a number from 0 to 10000"),
        (("a", "b"), "ERR syntax error"),
        (("a", "b", "COUNT", 1), "ERR syntax error"),
    ],
)
def test_what_is_refused(client: Client, words: tuple[str, ...], text: str) -> None:
    assert client.error("METRICS", *words) == text


def test_resp3_gets_it_as_text(client: Client) -> None:
    client("HELLO", 3)
    assert client.raw("METRICS", "COUNT", 0).startswith(b"=")


def test_all_metrics_are_explained(bench: Bench, client: Client) -> None:
    client.add("q")
    client("ACKJOB", *client.get("q"))
    page = (ROOT / "docs/info.md").read_text()
    names = {name.decode() for _, name, _ in metrics.NAMES}
    facts = dict(bench.host.facts())
    facts |= {f"persist:aof_{name}": 0 for name in ("current_size", "segments", "buffer_length")}
    facts |= {"bus:net_input_bytes": 0, "bus:net_output_bytes": 0}
    for section in metrics.SECTIONS:
        names |= {family.name.decode() for family in section(bench.node, facts, bench.now_ms)}
    names |= {"queues_shown", "queues_left_out", "queues_left_out_jobs"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
