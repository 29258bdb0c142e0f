"""Users as all nodes agree on them, those of the configuration, and what becomes of clients whose user changes."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.capabilities import MINE, USERS
from cluster.messages import ENTRIES, PUBLISHED
from disque.core.auth import users
from disque.core.model.registry import USER, Entry
from disque.core.model.user import digest_of
from tests.core.journal.test_replay import replayed
from tests.core.support import MYSELF, NOTHING, START_MS, Bench, Client

ALICE = b"on #%b ~mails* resetchannels -@all +@all" % digest_of(b"p")


def row(name: bytes, value: bytes, counter: int = START_MS + 1000, *, deleted: int = 0) -> tuple[Any, ...]:
    """A user as an entry of another node."""
    return (USER, name, b"", value, counter, b"b0" * 20, deleted)


def tell(bench: Bench, *rows: tuple[Any, ...]) -> None:
    bench.hear(bench.peers[0], (ENTRIES, rows))


def killed(bench: Bench) -> list[int]:
    return [asked[1] for asked in bench.host.asked if asked[0] == "kill"]


def of_conf(bench: Bench, *lines: str) -> None:
    for line in lines:
        bench.node.config.put("user", tuple(line.split()))
    users.reload(bench.node)


def test_a_user_is_told_to_all_and_taken_from_others(cluster: Bench) -> None:
    client = cluster.client()
    client.send("ACL", "SETUSER", "bob", "on", ">p", "~a*", "+@read")
    told: list[Any] = [message for _, message in cluster.node.messages if message[0] == ENTRIES]
    assert len(told) == 4
    [entry] = told[0][1]
    assert entry[:4] == (USER, b"bob", b"", b"on #%b ~a* resetchannels -@all +@read" % digest_of(b"p"))
    assert client.read() == b"OK"
    tell(cluster, row(b"alice", b"on nopass ~* &* +@all"))
    assert client("ACL", "USERS") == [b"alice", b"bob", b"default"]
    tell(cluster, row(b"alice", b"", START_MS + 2000, deleted=1))
    assert client("ACL", "USERS") == [b"bob", b"default"]


@pytest.mark.parametrize(
    ("name", "value", "deleted"),
    [
        (b"default", b"", 1),
        (b"", b"on", 0),
        (b"a b", b"on", 0),
        (b"alice", b"", 0),
        (b"alice", b"nonsense", 0),
        (b"alice", b"on  off", 0),
        (b"alice", b"#12", 0),
        (b"alice", b"~" + b"x" * 20_000, 0),
        (b"x" * 300, b"on", 0),
    ],
)
def test_lies_of_other_nodes_are_skipped(cluster: Bench, name: bytes, value: bytes, deleted: int) -> None:
    tell(cluster, row(name, value, deleted=deleted))
    assert cluster.node.messages_skipped == 1
    assert list(cluster.node.users.by_name) == [b"default"]
    assert cluster.client()("PING") == b"PONG"


def test_what_newer_nodes_know_is_kept(cluster: Bench) -> None:
    tell(cluster, row(b"alice", b"on nopass ~* &* +@all -@robots"))
    assert cluster.client()("ACL", "GETUSER", "alice")[5] == b"+@all -@robots"


def test_a_start_finds_its_users(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(journaling=True)
    client = bench.client()
    client("ACL", "SETUSER", "alice", "on", ">p", "~*", "&*", "+@all")
    client("ACL", "SETUSER", "default", "off")
    node, _ = replayed(bench.records())
    assert sorted(node.users.by_name) == [b"alice", b"default"]
    assert not node.users.default.is_open()
    assert node.users.by_name[b"alice"].fits(b"p")


def test_new_rights_count_at_once(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", ">p", "~mails", "+@all")
    other = bench.client()
    other("AUTH", "u", "p")
    other.add("mails")
    client("ACL", "SETUSER", "u", "resetkeys", "~other")
    assert other.error("ADDJOB", "mails", "b", 0).startswith("NOPERM")
    client("ACL", "SETUSER", "u", "allkeys", "allchannels")
    assert not other.session.limited
    client("ACL", "SETUSER", "u", "off", ">new")
    assert other("PING") == b"PONG"  # as in Redis: it is logged in
    assert bench.client().error("AUTH", "u", "p").startswith("WRONGPASS")
    assert killed(bench) == []


def test_clients_of_a_deleted_user_are_cut(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
    other = bench.client()
    other("AUTH", "u", "x")
    assert client("ACL", "DELUSER", "u", "nobody", "u") == 1
    assert killed(bench) == [other.session.id]
    assert other("ACL", "WHOAMI") == b"default"
    assert client("ACL", "DELUSER", "u") == 0


def test_who_waits_for_jobs_that_are_not_his_any_more_waits_no_longer(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
    waiting, ending, other = bench.client(), bench.client(), bench.client()
    job_id = client.add("a")
    for one in (waiting, ending, other):
        one("AUTH", "u", "x")
    assert waiting("GETJOB", "FROM", "b", "c") is NOTHING
    assert other("GETJOB", "FROM", "b") is NOTHING
    assert ending("WAITJOB", 0, job_id) is NOTHING
    client("ACL", "SETUSER", "u", "resetkeys", "~b")
    assert str(waiting.read()).startswith("NOPERM")
    assert str(ending.read()).startswith("NOPERM")
    assert other.read() is NOTHING
    assert client.add("c")
    assert waiting.read() is NOTHING
    other.disconnect()


def test_who_may_not_run_the_command_any_more_does_not_wait_in_it(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
    waiting, ending = bench.client(), bench.client()
    job_id = client.add("a")
    for one in (waiting, ending):
        one("AUTH", "u", "x")
    assert waiting("GETJOB", "FROM", "b") is NOTHING
    assert ending("WAITJOB", 0, job_id) is NOTHING
    client("ACL", "SETUSER", "u", "-qlen")
    assert waiting.read() is NOTHING
    client("ACL", "SETUSER", "u", "-getjob", "-waitjob")
    assert str(waiting.read()) == "NOPERM this user has no permissions to run the 'getjob' command"
    assert str(ending.read()) == "NOPERM this user has no permissions to run the 'waitjob' command"
    client.add("b")
    assert waiting.read() is NOTHING


def test_who_waits_for_ends_goes_on_when_his_password_changes(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", ">p", "~a*", "+@all")
    job_id = client.add("a")
    ending = bench.client()
    ending("AUTH", "u", "p")
    assert ending("WAITJOB", 0, job_id) is NOTHING
    client("ACL", "SETUSER", "u", ">new", "<p")
    assert ending.read() is NOTHING
    assert client("ACKJOB", job_id) == 1
    assert ending.read() == [[b"done", None]]


@pytest.mark.parametrize("rule", ["-monitor", "resetkeys"])
def test_who_may_not_monitor_any_more_is_cut(bench: Bench, client: Client, rule: str) -> None:
    client("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all")
    watcher = bench.client()
    watcher("AUTH", "u", "x")
    assert watcher("MONITOR") == b"OK"
    client("ACL", "SETUSER", "u", ">p", "-qlen")
    assert killed(bench) == []
    client("ACL", "SETUSER", "u", rule)
    assert killed(bench) == [watcher.session.id]


def test_who_listens_to_what_is_not_his_any_more_is_cut(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", "nopass", "~*", "&*", "+@all")
    for number, word in enumerate(("a", "b")):
        listener = bench.client()
        listener("AUTH", "u", "x")
        listener("PSUBSCRIBE" if number else "SUBSCRIBE", word)
    client("ACL", "SETUSER", "u", "resetchannels", "&a")
    assert killed(bench) == [listener.session.id]


def test_the_last_user_with_all_rights_stays(client: Client) -> None:
    for rule in ("off", "-@admin", "resetkeys", "resetchannels", "resetpass", "reset"):
        assert client.error("ACL", "SETUSER", "default", rule).startswith("ERR nobody would be left")
    client("ACL", "SETUSER", "root", "on", ">p", "~*", "&*", "+@all")
    assert client("ACL", "SETUSER", "default", "off") == b"OK"
    assert client.error("ACL", "DELUSER", "root").startswith("ERR nobody would be left")
    assert client.error("ACL", "SETUSER", "root", "resetpass").startswith("ERR nobody would be left")
    assert client.error("ACL", "DELUSER", "default") == "ERR The 'default' user cannot be removed"


def test_users_of_the_configuration_are_fixed_at_this_node(cluster: Bench) -> None:
    of_conf(cluster, "alice on >p ~mails* +@all", "default off")
    assert cluster.client().error("PING").startswith("NOAUTH")
    client = cluster.client()
    assert client("AUTH", "alice", "p") == b"OK"
    assert client.error("ACL", "SETUSER", "alice", "allkeys") == (
        "ERR user 'alice' stands in the configuration of this node, so ACL cannot change it here"
    )
    assert client.error("ACL", "DELUSER", "alice").startswith("ERR user 'alice' stands in the configuration")
    tell(cluster, row(b"alice", b"off -@all"), row(b"bob", ALICE))
    assert client("ACL", "USERS") == [b"alice", b"bob", b"default"]
    assert client("AUTH", "alice", "p") == b"OK"


def test_requirepass_is_the_password_of_the_default_user(bench: Bench, client: Client) -> None:
    client("ACL", "SETUSER", "default", ">other")
    bench.set("requirepass", "secret")
    assert client("PING") == b"PONG"  # it was there before
    other = bench.client()
    assert other.error("AUTH", "other") == "ERR invalid password"
    assert other("AUTH", "secret") == b"OK"
    assert client.error("ACL", "SETUSER", "default", ">x").startswith(
        "ERR the password of user 'default' is requirepass"
    )
    client("ACL", "SETUSER", "root", "on", ">p", "~*", "&*", "+@all")
    assert client("ACL", "SETUSER", "default", "-@admin") == b"OK"
    assert other.error("CONFIG", "GET", "x").startswith("NOPERM")
    assert bench.client()("AUTH", "secret") == b"OK"
    root = bench.client()
    root("AUTH", "root", "p")
    root("CONFIG", "SET", "requirepass", "")
    assert bench.client()("AUTH", "default", "other") == b"OK"  # what ACL has set is still there


def test_before_a_reload_nobody_had_to_prove_anything(bench: Bench, client: Client) -> None:
    """A node that loads its journal does not know its users yet: who came in meanwhile must log in then."""
    assert client("PING") == b"PONG"
    bench.node.registry.put(Entry((USER, b"default", b""), b"on #%b ~* &* +@all" % digest_of(b"p"), 5, MYSELF, 0))
    users.reload(bench.node)
    assert client.error("PING").startswith("NOAUTH")
    assert client("AUTH", "p") == b"OK"


def test_a_reset_of_the_node_forgets_users(client: Client) -> None:
    client("ACL", "SETUSER", "u", "on")
    assert client("CLUSTER", "RESET") == b"OK"
    assert client("ACL", "USERS") == [b"default"]


def test_while_a_node_does_not_know_users_there_are_none(cluster: Bench) -> None:
    peer = cluster.peers[2]
    cluster.membership.set_capabilities(peer.id, MINE & ~USERS)
    cluster.link_down(peer)
    cluster.link_up(peer)
    client = cluster.client()
    wrong = f"ERR ACL needs all nodes to know it: node {peer.id.decode()} runs an older version"
    assert client.error("ACL", "SETUSER", "u", "on") == wrong
    cluster.link_down(peer)
    assert client.error("ACL", "DELUSER", "u") == wrong
    assert client("ACL", "LIST") == [b"user default on nopass ~* &* +@all"]


def test_a_full_registry_takes_no_user(bench: Bench, client: Client) -> None:
    bench.set("registry-max-bytes", "1mb")
    bench.node.registry_most = 10
    assert client.error("ACL", "SETUSER", "u", "on").startswith("ERR")
    assert client("ACL", "USERS") == [b"default"]


def test_messages_of_pubsub_are_only_told_to_those_who_listen(cluster: Bench) -> None:
    client = cluster.client()
    client("ACL", "SETUSER", "u", "on", "nopass", "&mine", "+@all")
    client("AUTH", "u", "x")
    client("SUBSCRIBE", "mine")
    cluster.hear(cluster.peers[0], (PUBLISHED, b"other", b"x"), (PUBLISHED, b"mine", b"y"))
    assert client.read() == [b"message", b"mine", b"y"]
