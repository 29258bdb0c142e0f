import pytest

from tests.core.support import START_MS, Bench, Client

SYNTAX = b"-ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME | SETNAME connection-name)\r\n"
BAD_NAME = b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n"


@pytest.mark.parametrize(
    "words", [("x",), ("LIST2",), ("GETNAME", "x"), ("SETNAME",), ("KILL",), ("PAUSE",), ("REPLY",), ("ID", "x")]
)
def test_other_words_are_answered_with_what_there_is(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("CLIENT", *words) == SYNTAX


def test_a_line_of_client_list(bench: Bench, client: Client) -> None:
    client("CLIENT", "SETNAME", "me")
    client("CLIENT", "SETINFO", "LIB-NAME", "lib")
    client("CLIENT", "SETINFO", "lib-ver", "1.2")
    client.session.active_ms = START_MS + 3000
    bench.advance(5000)
    line = (
        b"id=1 addr=127.0.0.1:50001 fd=7 name=me age=5 idle=2 flags=N qbuf=0 qbuf-free=32768 obl=0 oll=0 omem=0"
        b" events=r cmd=client laddr=127.0.0.1:7711 sub=0 psub=0 ssub=0 resp=2 lib-name=lib lib-ver=1.2 user=default\n"
    )
    assert client.raw("CLIENT", "LIST") == b"$%d\r\n%b\r\n" % (len(line), line)
    assert client("CLIENT", "INFO") == line


def test_in_resp3_a_list_is_verbatim_text(client: Client) -> None:
    client("HELLO", 3)
    for word in ("LIST", "INFO"):
        raw = client.raw("CLIENT", word)
        assert raw.startswith(b"=")
        assert raw.split(b"\r\n")[1].startswith(b"txt:id=1 ")


def test_flags_tell_who_waits_monitors_and_closes(bench: Bench, client: Client) -> None:
    waiting, watching, closing = bench.client(), bench.client(), bench.client()
    waiting("GETJOB", "FROM", "q")
    watching("MONITOR")
    closing("QUIT")
    flags = [line.split(b" flags=")[1].split()[0] for line in client("CLIENT", "LIST").splitlines()]
    assert flags == [b"N", b"b", b"O", b"c"]


def test_a_list_can_be_of_some_ids_or_of_a_type(bench: Bench, client: Client) -> None:
    bench.client()
    third = bench.client()
    assert client("CLIENT", "LIST", "ID", 3, 1, 99).count(b"\n") == 2
    assert client("CLIENT", "LIST", "TYPE", "NORMAL").count(b"\n") == 3
    third.disconnect()
    assert client("CLIENT", "LIST").count(b"\n") == 2


@pytest.mark.parametrize("words", [("ID",), ("ID", "x"), ("TYPE",), ("x", "y"), ("TYPE", "normal", "x")])
def test_a_list_of_anything_else_is_a_syntax_error(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("CLIENT", "LIST", *words) == b"-ERR syntax error\r\n"


def test_there_are_no_other_types(client: Client) -> None:
    assert client.raw("CLIENT", "LIST", "TYPE", "slave") == b"-ERR Unknown client type 'slave'\r\n"


def test_those_that_have_subscribed_are_a_type(bench: Bench, client: Client) -> None:
    listener = bench.client()
    listener.send("SUBSCRIBE", "a", "b")
    listener.send("PSUBSCRIBE", "c*")
    line = client("CLIENT", "LIST", "TYPE", "pubsub")
    assert line.count(b"\n") == 1
    assert b" flags=P " in line
    assert b" cmd=psubscribe laddr=127.0.0.1:7711 sub=2 psub=1 ssub=0 " in line
    assert client("CLIENT", "LIST", "TYPE", "normal").count(b"\n") == 1
    assert client("INFO", "clients").endswith(b"\r\npubsub_clients:1\r\n")
    assert client("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert bench.host.asked == [("kill", 2)]


def test_names(client: Client) -> None:
    assert client.raw("CLIENT", "GETNAME") == b"$-1\r\n"
    assert client.raw("CLIENT", "SETNAME", "a!~") == b"+OK\r\n"
    assert client.raw("client", "getname") == b"$3\r\na!~\r\n"
    for wrong in ("a b", "a\n", "\x7f", "é"):
        assert client.raw("CLIENT", "SETNAME", wrong) == BAD_NAME
    assert client.raw("CLIENT", "SETNAME", "") == b"+OK\r\n"
    client("HELLO", 3)
    assert client.raw("CLIENT", "GETNAME") == b"_\r\n"


def test_set_info(client: Client) -> None:
    assert client.raw("CLIENT", "SETINFO", "LIB-NAME", "x") == b"+OK\r\n"
    assert client.error("CLIENT", "SETINFO", "LIB-NAME", "x y").startswith("ERR LIB-NAME cannot contain spaces")
    assert client.raw("CLIENT", "SETINFO", "other", "x") == b"-ERR Unrecognized option 'other'\r\n"
    assert client.raw("CLIENT", "SETINFO", "a\r\nb", "x") == b"-ERR Unrecognized option 'a  b'\r\n"


def test_id(bench: Bench) -> None:
    bench.client()
    assert bench.client().raw("CLIENT", "ID") == b":2\r\n"


def test_a_pause_is_extended_never_shortened(bench: Bench, client: Client) -> None:
    assert client.raw("CLIENT", "PAUSE", 500) == b"+OK\r\n"
    client("CLIENT", "PAUSE", 100)
    assert bench.node.clients_paused_until_ms == START_MS + 500
    client("CLIENT", "PAUSE", 900)
    assert bench.node.clients_paused_until_ms == START_MS + 900
    assert client.raw("CLIENT", "PAUSE", "x") == b"-ERR timeout is not an integer or out of range\r\n"
    assert client.raw("CLIENT", "PAUSE", "-1") == b"-ERR timeout is negative\r\n"
    assert client.raw("CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert bench.node.clients_paused_until_ms == 0


def test_a_reply_mode_that_does_not_exist(client: Client) -> None:
    assert client.raw("CLIENT", "REPLY", "MAYBE") == b"-ERR syntax error\r\n"
    assert client.raw("CLIENT", "REPLY", "on") == b"+OK\r\n"


@pytest.mark.parametrize("word", ["NO-EVICT", "NO-TOUCH"])
def test_switches_of_redis_are_accepted(client: Client, word: str) -> None:
    assert client.raw("CLIENT", word, "on") == client.raw("CLIENT", word, "OFF") == b"+OK\r\n"
    assert client.raw("CLIENT", word, "x") == b"-ERR syntax error\r\n"


# -- KILL -------------------------------------------------------------------------------------------------------------


def test_kill_by_address(bench: Bench, client: Client) -> None:
    bench.client()
    assert client.raw("CLIENT", "KILL", "127.0.0.1:50002") == b"+OK\r\n"
    assert client.raw("CLIENT", "KILL", "127.0.0.1:1") == b"-ERR No such client\r\n"
    assert client.raw("CLIENT", "KILL", "127.0.0.1:50001") == b"+OK\r\n", "itself too"
    assert bench.host.asked == [("kill", 2), ("kill", 1)]


@pytest.mark.parametrize(
    ("filters", "killed"),
    [
        (("ID", "2"), [2]),
        (("ID", "1"), []),
        (("ID", "1", "SKIPME", "no"), [1]),
        (("ADDR", "127.0.0.1:50003"), [3]),
        (("LADDR", "127.0.0.1:7711"), [2, 3]),
        (("TYPE", "normal", "SKIPME", "no"), [1, 2, 3]),
        (("type", "NORMAL", "skipme", "YES"), [2, 3]),
        (("ID", "2", "ADDR", "127.0.0.1:50003"), []),
        (("ID", "99"), []),
    ],
)
def test_kill_by_filters_counts(bench: Bench, client: Client, filters: tuple[str, ...], killed: list[int]) -> None:
    bench.client()
    bench.client()
    assert client.raw("CLIENT", "KILL", *filters) == b":%d\r\n" % len(killed)
    assert bench.host.asked == [("kill", number) for number in killed]


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        (("ID", "0"), "ERR client-id should be greater than 0"),
        (("ID", "x"), "ERR client-id should be greater than 0"),
        (("TYPE", "slave"), "ERR Unknown client type 'slave'"),
        (("SKIPME", "maybe"), "ERR syntax error"),
        (("NONSENSE", "x"), "ERR syntax error"),
        (("ID", "1", "ADDR"), "ERR syntax error"),
    ],
)
def test_wrong_filters_kill_nobody(bench: Bench, client: Client, filters: tuple[str, ...], text: str) -> None:
    bench.client()
    assert client.error("CLIENT", "KILL", *filters) == text
    assert bench.host.asked == []


def test_names_are_short(client: Client) -> None:
    assert client("CLIENT", "SETNAME", "n" * 1024) == b"OK"
    for words in (
        ("CLIENT", "SETNAME", "n" * 1025),
        ("CLIENT", "SETINFO", "LIB-NAME", "n" * 1025),
        ("HELLO", 3, "SETNAME", "n" * 1025),
    ):
        assert "1024 bytes" in client.error(*words)
    assert client("CLIENT", "GETNAME") == b"n" * 1024
