import pytest

from cluster.membership import FAIL, LEAVING, PFAIL
from disque import VERSION
from disque.core.model.session import REPLY_ON
from tests.core.support import MYSELF, Bench, Client

PASSWORD = "open sesame"
NOAUTH = b"-NOAUTH Authentication required.\r\n"


def locked(bench: Bench) -> Client:
    bench.set("requirepass", PASSWORD)
    return bench.client()


# -- PING, ECHO, SELECT, QUIT -----------------------------------------------------------------------------------------


def test_ping(client: Client) -> None:
    assert client.raw("PING") == b"+PONG\r\n"
    assert client.raw("PING", b"\r\n\0") == b"$3\r\n\r\n\0\r\n"
    assert client.raw("PING", "") == b"$0\r\n\r\n"
    assert client.raw("PING", "a", "b") == b"-ERR wrong number of arguments for 'ping' command\r\n"


def test_echo(client: Client) -> None:
    assert client.raw("ECHO", "x") == b"$1\r\nx\r\n"


def test_select_knows_0_only(client: Client) -> None:
    assert client.raw("SELECT", "0") == b"+OK\r\n"
    assert client.raw("SELECT", "1") == b"-ERR DB index is out of range\r\n"
    assert client.raw("SELECT", "x") == b"-ERR value is not an integer or out of range\r\n"


@pytest.mark.parametrize("words", [("QUIT",), ("quit", "a", "b")])
def test_quit_closes_behind_its_reply(bench: Bench, words: tuple[str, ...]) -> None:
    client = locked(bench)
    assert client.raw(*words) == b"+OK\r\n"
    assert client.session.closing


# -- AUTH -------------------------------------------------------------------------------------------------------------


def test_auth_without_a_password_set(client: Client) -> None:
    assert client.raw("AUTH", "x") == b"-ERR Client sent AUTH, but no password is set\r\n"


def test_auth(bench: Bench) -> None:
    client = locked(bench)
    assert client.raw("PING") == NOAUTH
    assert client.raw("AUTH", "wrong") == b"-ERR invalid password\r\n"
    assert client.raw("AUTH", PASSWORD) == b"+OK\r\n"
    assert client.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    "request_words",
    [
        ("AUTH", "wrong"),
        ("AUTH", "default", "wrong"),
        ("AUTH", "somebody", PASSWORD),
        ("HELLO", 3, "AUTH", "default", "wrong"),
        ("HELLO", 2, "AUTH", "somebody", PASSWORD),
    ],
)
def test_a_failed_login_is_counted_and_told_to_the_host(bench: Bench, request_words: tuple[str | int, ...]) -> None:
    client = locked(bench)
    client(*request_words)
    assert bench.host.asked == [("suspect", client.session.id, "failed-auth")]
    assert bench.node.stats.auths_denied == 1
    client("AUTH", PASSWORD)
    client("HELLO", 2, "AUTH", "default", PASSWORD)
    assert "acl_access_denied_auth:1\r\n" in client("INFO", "stats").decode()
    client("CONFIG", "RESETSTAT")
    assert bench.node.stats.auths_denied == 0


def test_a_wrong_password_logs_out(bench: Bench) -> None:
    client = locked(bench)
    client("AUTH", PASSWORD)
    for wrong in (("x",), ("default", "x"), ("nobody", PASSWORD)):
        client("AUTH", PASSWORD)
        client("AUTH", *wrong)
        assert client.raw("PING") == NOAUTH


def test_auth_with_a_user_as_redis_does_it(bench: Bench) -> None:
    client = locked(bench)
    wrong = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    assert client.raw("AUTH", "nobody", PASSWORD) == wrong
    assert client.raw("AUTH", "default", "x") == wrong
    assert client.raw("AUTH", "default", PASSWORD) == b"+OK\r\n"
    assert client.raw("AUTH", "a", "b", "c") == b"-ERR syntax error\r\n"


def test_auth_with_a_user_needs_no_password_while_none_is_set(bench: Bench, client: Client) -> None:
    assert client.raw("AUTH", "default", "any") == b"+OK\r\n"
    assert client.error("AUTH", "nobody", "any").startswith("WRONGPASS")
    client("AUTH", "default", "any")
    bench.set("requirepass", PASSWORD)
    assert client.raw("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("given", ["", PASSWORD[:-1], PASSWORD + "x", "x" * 100_000])
def test_passwords_are_compared_as_a_whole(bench: Bench, given: str) -> None:
    assert locked(bench).raw("AUTH", given) == b"-ERR invalid password\r\n"


def test_the_longest_password_is_compared_to_its_end(bench: Bench) -> None:
    bench.set("requirepass", "x" * 512)
    client = bench.client()
    assert client.error("AUTH", "x" * 513) == "ERR invalid password"
    assert client("AUTH", "x" * 512) == b"OK"


def test_a_password_that_is_set_does_not_lock_out_who_is_connected(bench: Bench, client: Client) -> None:
    client("CONFIG", "SET", "requirepass", PASSWORD)
    assert client.raw("PING") == b"+PONG\r\n"
    late = bench.client()
    assert late.raw("PING") == NOAUTH
    client("CONFIG", "SET", "requirepass", "")
    assert late.raw("PING") == bench.client().raw("PING") == b"+PONG\r\n"
    client("CONFIG", "SET", "requirepass", "another")
    assert client.raw("PING") == b"+PONG\r\n"
    assert late.raw("PING") == NOAUTH, "it came while there was a password, and never gave one"


def test_reset_logs_out_only_where_there_is_a_password(client: Client) -> None:
    client("RESET")
    client("CONFIG", "SET", "requirepass", PASSWORD)
    assert client.raw("PING") == b"+PONG\r\n"
    client("RESET")
    assert client.raw("PING") == NOAUTH


# -- HELLO as Disque has it -------------------------------------------------------------------------------------------


def test_hello_alone_lists_the_nodes(client: Client) -> None:
    assert client.raw("HELLO") == (
        b"*3\r\n:1\r\n$40\r\n%b\r\n*4\r\n$40\r\n%b\r\n$9\r\n127.0.0.1\r\n$4\r\n7711\r\n$1\r\n1\r\n" % (MYSELF, MYSELF)
    )


@pytest.mark.parametrize("protocol", [2, 3])
def test_hello_tells_which_node_to_prefer(cluster: Bench, protocol: int) -> None:
    suspect, failing, leaving, unlinked = cluster.peers
    cluster.membership.set_flags(suspect, PFAIL)
    cluster.membership.set_flags(failing, FAIL)
    cluster.membership.set_flags(leaving, LEAVING)
    unlinked.linked = False
    client = cluster.client()
    client("HELLO", protocol)
    version, myself, *nodes = client("HELLO")
    assert (version, myself) == (1, MYSELF)
    assert [(node[0], node[3]) for node in nodes] == [
        (MYSELF, b"1"),
        (suspect.id, b"10"),
        (failing.id, b"100"),
        (leaving.id, b"100"),
        (unlinked.id, b"5"),
    ]


def test_hello_alone_needs_a_login(bench: Bench) -> None:
    assert locked(bench).raw("HELLO") == NOAUTH


# -- HELLO as Redis has it --------------------------------------------------------------------------------------------


def handshake(protocol: int) -> bytes:
    version = VERSION.encode()
    opening = b"%7\r\n" if protocol == 3 else b"*14\r\n"
    return opening + (
        b"$6\r\nserver\r\n$6\r\ndisque\r\n$7\r\nversion\r\n$%d\r\n%b\r\n$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:1\r\n"
        b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
        % (len(version), version, protocol)
    )


def test_hello_with_a_version_chooses_the_protocol(client: Client) -> None:
    assert client.raw("HELLO", 3) == handshake(3)
    assert client.raw("GETJOB", "NOHANG", "FROM", "q") == b"_\r\n"
    assert client.raw("HELLO", 2) == handshake(2)
    assert client.raw("GETJOB", "NOHANG", "FROM", "q") == b"*-1\r\n"


@pytest.mark.parametrize("version", ["1", "4", "0", "-3", "99"])
def test_other_versions_are_refused(client: Client, version: str) -> None:
    assert client.raw("HELLO", version) == b"-NOPROTO unsupported protocol version\r\n"
    assert client.session.protocol == 2


def test_a_version_is_a_number(client: Client) -> None:
    assert client.raw("HELLO", "x") == b"-ERR Protocol version is not an integer or out of range\r\n"


def test_hello_logs_in_and_takes_a_name(bench: Bench) -> None:
    client = locked(bench)
    assert client.raw("HELLO", 3, "setname", "me", "auth", "default", PASSWORD)[:1] == b"%"
    assert client("CLIENT", "GETNAME") == b"me"


def test_hello_without_login_is_refused_and_changes_nothing(bench: Bench) -> None:
    client = locked(bench)
    assert client.error("HELLO", 3, "SETNAME", "me").startswith(
        "NOAUTH HELLO must be called with the client already auth"
    )
    assert client.error("HELLO", 3, "AUTH", "default", "x", "SETNAME", "me").startswith("WRONGPASS")
    assert client.error("HELLO", 3, "AUTH", "nobody", PASSWORD).startswith("WRONGPASS")
    assert (client.session.protocol, client.session.name, client.session.passed) == (2, b"", False)


def test_without_a_password_the_default_user_takes_any(client: Client) -> None:
    assert client.raw("HELLO", 2, "AUTH", "default", "anything") == handshake(2)
    assert client.error("HELLO", 2, "AUTH", "nobody", "anything").startswith("WRONGPASS")


@pytest.mark.parametrize(
    ("words", "option"),
    [(("NONSENSE",), "NONSENSE"), (("AUTH", "default"), "AUTH"), (("SETNAME",), "SETNAME"), (("a\r\nb",), "a  b")],
)
def test_an_unknown_option_of_hello_is_named(client: Client, words: tuple[str, ...], option: str) -> None:
    assert client.error("HELLO", 3, *words) == f"ERR Syntax error in HELLO option '{option}'"
    assert client.session.protocol == 2


def test_hello_takes_only_clean_names(client: Client) -> None:
    assert client.error("HELLO", 3, "SETNAME", "a b").startswith("ERR Client names cannot contain spaces")
    assert client.session.protocol == 2


# -- RESET ------------------------------------------------------------------------------------------------------------


def test_reset_brings_the_connection_back_to_its_start(bench: Bench) -> None:
    client = locked(bench)
    client("HELLO", 3, "AUTH", "default", PASSWORD, "SETNAME", "me")
    client("MONITOR")
    client.read_all()
    assert client.raw("RESET").endswith(b"+RESET\r\n")
    session = client.session
    assert (session.protocol, session.name, session.passed, session.monitoring) == (2, b"", False, False)
    assert session.reply_mode == REPLY_ON
    assert bench.node.monitors == {}
    assert client.raw("PING") == NOAUTH
