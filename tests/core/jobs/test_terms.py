import pytest

from cluster.capabilities import MINE, SIZES
from cluster.member import HANDSHAKE, Member
from disque.core import links
from tests.core.support import NOTHING, UNKNOWN_ID, Bench, Client, foreign_id

TWICE = "ERR {} can be said once"
TRIES = "ERR TRIES must be a number between 0 and 65535"
BACKOFF = "ERR BACKOFF must be kind:base"
ONCE = "ERR with RETRY 0 a job is delivered once: it has no TRIES, BACKOFF or DEADLETTER"
HEADER = "ERR the name of a HEADER must have 1 to 128 printable characters, and its value no control characters"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("TRIES", "-1"), TRIES),
        (("TRIES", "65536"), TRIES),
        (("TRIES", "x"), TRIES),
        (("TRIES", "1.5"), TRIES),
        (("TRIES",), "ERR syntax error"),
        (("PRIORITY", 2, "priority", 2), TWICE.format("PRIORITY")),
        (("AT", 2, "AT", 2), TWICE.format("AT")),
        (("TRIES", 2, "tries", 2), TWICE.format("TRIES")),
        (("BACKOFF", "cubic:1"), BACKOFF),
        (("BACKOFF", "fixed:0"), BACKOFF),
        (("BACKOFF", "fixed:1", "BACKOFF", "fixed:1"), TWICE.format("BACKOFF")),
        (("DEADLETTER", "x" * 513), "ERR DEADLETTER must be the name of a queue with at most 512 bytes, or empty"),
        (("DEADLETTER", "a", "DEADLETTER", "b"), TWICE.format("DEADLETTER")),
        (("RETRY", 0, "REPLICATE", 1, "TRIES", 2), ONCE),
        (("RETRY", 0, "REPLICATE", 1, "BACKOFF", "fixed:1"), ONCE),
        (("RETRY", 0, "REPLICATE", 1, "DEADLETTER", "d"), ONCE),
        (("HEADER", "name"), "ERR syntax error"),
        (("HEADER", "", "v"), HEADER),
        (("HEADER", "a b", "v"), HEADER),
        (("HEADER", "a\n", "v"), HEADER),
        (("HEADER", "x" * 129, "v"), HEADER),
        (("HEADER", "a", "line\nline"), HEADER),
        (("HEADER", "a", b"\x7f"), HEADER),
        (("HEADER", "a", "1", "HEADER", "a", "2"), "ERR a job can have one HEADER of each name"),
        (("HEADER", "a", "x" * 65536), "ERR a job can have at most 64 headers, 65536 bytes together"),
        (
            tuple(word for number in range(65) for word in ("HEADER", f"h{number}", "v")),
            "ERR a job can have at most 64 headers, 65536 bytes together",
        ),
    ],
)
def test_wrong_options(client: Client, words: tuple[str | int | bytes, ...], text: str) -> None:
    assert client.error("ADDJOB", "q", "body", 0, *words).startswith(text)
    assert client("QLEN", "q") == 0


def test_at_most_once_jobs_can_have_headers(client: Client) -> None:
    job = client.add("q", "body", "RETRY", 0, "REPLICATE", 1, "HEADER", "a", "b")
    assert client.show(job)["headers"] == [b"a", b"b"]


def test_as_many_headers_as_there_can_be(client: Client) -> None:
    words = [word for number in range(64) for word in ("HEADER", f"h{number}", "v" * 1000)]
    job = client.add("q", "body", *words)
    assert len(client.show(job)["headers"]) == 128


OPTIONS = "ERR ADDJOB with these options needs all nodes to know it: node "


def test_an_older_node_is_named_whether_or_not_it_is_there() -> None:
    bench = Bench(peers=2)
    one = bench.peers[0]
    client = bench.client()
    bench.membership.set_capabilities(one.id, SIZES)
    links.review(bench.node, bench.now_ms)
    wrong = f"{OPTIONS}{one.id.decode()} runs an older version"
    assert client.error("ADDJOB", "q", "body", 0, "TRIES", 2) == wrong
    bench.link_down(one)
    assert client.error("ADDJOB", "q", "body", 0, "TRIES", 2) == wrong
    client.add("q", "body", "REPLICATE", 1)
    bench.client()("CLUSTER", "FORGET", one.id)
    client.add("q", "body", "TRIES", 2, "REPLICATE", 1)


def test_what_a_handshake_has_said_counts_from_that_moment() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    bench.membership.set_capabilities(bench.peers[0].id, SIZES)  # by the link of the other one: all else comes later
    assert client.error("ADDJOB", "q", "b", 0, "TRIES", 3).endswith("runs an older version")
    bench.membership.set_capabilities(bench.peers[0].id, MINE)
    client.add("q", "b", "TRIES", 3, "REPLICATE", 1)


def test_a_node_of_this_version_that_is_away_is_no_trouble() -> None:
    bench = Bench(peers=1)
    bench.link_down(bench.peers[0], refused=True)
    bench.client().add("q", "body", "TRIES", 2, "REPLICATE", 1)


def test_an_older_node_that_is_being_met_counts_when_there_is_a_link_to_it() -> None:
    bench = Bench(peers=1)
    client = bench.client()
    newcomer = Member(b"f" * 40, b"127.0.0.1", 7799, 0, HANDSHAKE)
    bench.membership.add(newcomer)
    client.add("q", "b", "TRIES", 3, "REPLICATE", 1)  # whatever is at that address
    bench.membership.set_capabilities(newcomer.id, SIZES)
    bench.link_up(newcomer)
    assert newcomer.flags & HANDSHAKE, "it has said nothing over a link of its own yet"
    assert client.error("ADDJOB", "q", "b", 0, "TRIES", 3) == f"{OPTIONS}{'f' * 40} runs an older version"


def test_a_node_of_which_nothing_is_known_is_named() -> None:
    bench = Bench(peers=1)
    stranger = Member(b"f" * 40, b"127.0.0.1", 7799)
    bench.membership.add(stranger)
    links.review(bench.node, bench.now_ms)
    client = bench.client()
    text = client.error("MOVE", "r", foreign_id())
    assert (
        text == f"ERR MOVE needs all nodes to know it: node {'f' * 40} is away, and nobody knows which version it runs"
    )
    bench.membership.set_capabilities(stranger.id, MINE)
    links.review(bench.node, bench.now_ms)
    assert client("MOVE", "r", UNKNOWN_ID) is NOTHING
