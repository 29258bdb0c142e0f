"""ACL: replies, errors, the log, and the same words said to a real Redis 7."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest

from disque.core import step
from disque.core.base import resp
from disque.core.commands import ROWS, scan
from disque.core.model.acl_log import SAME_MS
from disque.core.model.catalog import CATEGORIES, Catalog
from disque.core.model.user import digest_of
from tests.conftest import ROOT
from tests.core.support import NOTHING, Bench, Client, words


def user(bench: Bench, client: Client, *rules: str) -> Client:
    client("ACL", "SETUSER", "u", "on", ">p", *rules)
    other = bench.client()
    assert other("AUTH", "u", "p") == b"OK"
    return other


def test_where_there_are_many_users_others_are_served_while_they_are_listed(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10, 30):
        client("ACL", "SETUSER", f"u{number}", *[f"~{queue}" for queue in range(100)])
    lines = client("ACL", "LIST")
    monkeypatch.setattr(scan, "LOOK_MOST", 400)
    monkeypatch.setattr(scan, "TICK_LOOK_MOST", 200)
    client.send("ACL", "LIST")
    assert client.read() is NOTHING
    ticks = 0
    while (reply := client.read()) is NOTHING:
        other = bench.client()
        assert other("PING") == b"PONG"
        other("ACL", "DELUSER", "u29")
        step.tick(bench.node, bench.now_ms)
        ticks += 1
    assert 5 <= ticks <= 20
    assert reply == lines[:-1]


def test_a_user_is_shown(client: Client) -> None:
    assert client("ACL", "LIST") == [b"user default on nopass ~* &* +@all"]
    client("ACL", "SETUSER", "u", "on", ">p", "~a*", "%R~b*", "&x", "+@read", "+config|get")
    assert client("ACL", "GETUSER", "u") == [
        *(b"flags", [b"on"], b"passwords", [digest_of(b"p")], b"commands", b"-@all +@read +config|get"),
        *(b"keys", b"~a* %R~b*", b"channels", b"&x", b"selectors", []),
    ]
    assert client("ACL", "GETUSER", "nobody") is None
    assert client("ACL", "USERS") == [b"default", b"u"]
    client("HELLO", 3)
    assert client.raw("ACL", "GETUSER", "default").startswith(
        b"%6\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$6\r\nnopass\r\n"
    )
    assert client.raw("ACL", "GETUSER", "nobody") == b"_\r\n"


def test_errors(client: Client) -> None:
    assert client.error("ACL") == "ERR wrong number of arguments for 'acl' command"
    assert client.error("ACL", "nope") == "ERR unknown subcommand 'nope'. Try ACL HELP."
    assert client.error("ACL", "SETUSER") == "ERR wrong number of arguments for 'acl|setuser' command"
    assert client.error("ACL", "DRYRUN", "u") == "ERR wrong number of arguments for 'acl|dryrun' command"
    assert client.error("ACL", "SETUSER", "a b", "on") == "ERR Usernames can't contain spaces or null characters"
    assert client.error("ACL", "SAVE").startswith("ERR Users need no ACL file here")
    assert client.error("ACL", "LOAD").startswith("ERR Users need no ACL file here")
    assert client("ACL", "USERS") == [b"default"]


def test_all_rules_or_none(client: Client) -> None:
    wrong = "ERR Error in ACL SETUSER modifier '+nope': Unknown command or category name in ACL"
    assert client.error("ACL", "SETUSER", "u", "on", "+nope") == wrong
    assert client("ACL", "GETUSER", "u") is None
    client("ACL", "SETUSER", "u", "~a")
    assert client.error("ACL", "SETUSER", "u", "~b", "+nope") == wrong
    assert client("ACL", "GETUSER", "u")[7] == b"~a"


def test_passwords_to_choose(client: Client) -> None:
    one, two = client("ACL", "GENPASS"), client("ACL", "GENPASS")
    assert len(one) == 64
    assert one != two
    assert [len(client("ACL", "GENPASS", bits)) for bits in (1, 5, 4096)] == [1, 2, 1024]
    for bits in (0, -1, 4097):
        assert client.error("ACL", "GENPASS", bits).startswith("ERR ACL GENPASS argument must be the number of bits")
    assert client.error("ACL", "GENPASS", "x") == "ERR value is not an integer or out of range"


def test_categories(client: Client) -> None:
    assert client("ACL", "CAT") == list(CATEGORIES)
    assert client("ACL", "CAT", "Produce") == [b"addjob", b"cancel", b"result", b"waitjob"]
    assert client("ACL", "CAT", "consume") == [b"getjob", b"ackjob", b"fastack", b"nack", b"working"]
    assert b"qconfig|get" in client("ACL", "CAT", "inspect")
    assert b"qconfig|set" in client("ACL", "CAT", "dangerous")
    assert b"qconfig" not in client("ACL", "CAT", "dangerous")
    assert client.error("ACL", "CAT", "nope") == "ERR Unknown category 'nope'"
    shown = {unit for name in CATEGORIES for unit in client("ACL", "CAT", name)}
    catalog = Catalog(ROWS)
    assert shown == {unit for unit in catalog.units if catalog.is_shown(unit)}
    for row in ROWS:
        assert (b"fast" in catalog.categories[row.name]) != (b"slow" in catalog.categories[row.name])


def test_the_table_of_commands_shows_categories(client: Client) -> None:
    client("HELLO", 3)
    (row,) = client("COMMAND", "INFO", "addjob")
    assert row[6] == [b"@write", b"@produce", b"@fast"]


def test_a_dry_run_changes_nothing(client: Client) -> None:
    client("ACL", "SETUSER", "u", "on", "~mine", "&x", "+addjob", "+subscribe", "+ackjob")
    foreign = client.add("foreign")
    assert client("ACL", "DRYRUN", "u", "ADDJOB", "mine", "b", 0) == b"OK"
    assert client("ACL", "DRYRUN", "u", "ADDJOB", "q", "b", 0) == (
        b"This user has no permissions to access the 'q' key"
    )
    assert client("ACL", "DRYRUN", "u", "subscribe", "x", "y") == (
        b"This user has no permissions to access the 'y' channel"
    )
    assert client("ACL", "DRYRUN", "u", "config", "get", "x") == (
        b"This user has no permissions to run the 'config|get' command"
    )
    assert client("ACL", "DRYRUN", "u", "ackjob", foreign).endswith(b"key")
    assert client.error("ACL", "DRYRUN", "nobody", "ping") == "ERR User 'nobody' not found"
    assert client.error("ACL", "DRYRUN", "u", "nope") == "ERR Command 'nope' not found"
    assert client.error("ACL", "DRYRUN", "u", "addjob") == "ERR wrong number of arguments for 'addjob' command"
    assert client("QLEN", "mine") == 0


def entries(client: Client, *more: int) -> list[dict[str, Any]]:
    rows = client("ACL", "LOG", *more)
    return [{name.decode(): value for name, value in zip(row[::2], row[1::2], strict=True)} for row in rows]


def test_the_log(bench: Bench, client: Client) -> None:
    other = user(bench, client, "~mine", "&x", "+@all", "-config")
    for _ in range(2):
        other.error("QLEN", "foreign")
    other.error("PUBLISH", "y", "m")
    other.error("CONFIG", "GET", "x")
    other.error("AUTH", "nobody", "secret")
    bench.now_ms += 1500
    found = entries(client)
    assert [(one["reason"], one["object"], one["username"], one["count"]) for one in found] == [
        (b"auth", b"auth", b"nobody", 1),
        (b"command", b"config|get", b"u", 1),
        (b"channel", b"y", b"u", 1),
        (b"key", b"foreign", b"u", 2),
    ]
    assert found[0]["age-seconds"] == b"1.500"
    assert found[0]["context"] == b"toplevel"
    assert b"secret" not in b"".join(one["client-info"] for one in found)
    assert client("ACL", "LOG", 0) == []
    assert len(entries(client, 2)) == 2
    bench.now_ms += SAME_MS
    other("AUTH", "u", "p")
    other.error("QLEN", "foreign")
    assert [one["count"] for one in entries(client, 1)] == [1]
    assert client.error("ACL", "LOG", "x") == "ERR value is not an integer or out of range"
    assert client("ACL", "LOG", "RESET") == b"OK"
    assert client("ACL", "LOG") == []
    assert client("INFO", "stats").count(b"acl_access_denied_rights:5") == 1


def test_the_log_is_bounded(bench: Bench, client: Client) -> None:
    other = user(bench, client, "~mine", "+@all")
    bench.set("acllog-max-len", 3)
    for number in range(5):
        other.error("QLEN", f"{number}" * 1000)
    assert [len(one["object"]) for one in entries(client)] == [256] * 3
    bench.set("acllog-max-len", 1)
    assert len(entries(client)) == 1


def test_the_users_of_the_documentation(bench: Bench, client: Client) -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line.startswith("ACL SETUSER ")]
    assert [line[2] for line in lines] == ["mailer", "shop", "root", "default"]
    for line in lines:
        assert client(*line) == b"OK"
    mailer, shop, root = (bench.client() for _ in range(3))
    for number, (name, one) in enumerate((("mailer", mailer), ("shop", shop), ("root", root)), 1):
        assert one("AUTH", name, f"secret{number}") == b"OK"
        assert one("PING") == b"PONG"
    job_id = shop.add("mails1")
    assert shop("RESULT", job_id)[1] == job_id
    assert shop.error("GETJOB", "NOHANG", "FROM", "mails1").startswith("NOPERM")
    assert mailer.get("mails1") == [job_id]
    assert mailer("ACKJOB", job_id) == 1
    assert mailer.add("mails:log")
    assert mailer.error("ADDJOB", "mails1", "b", 0).startswith("NOPERM")
    assert root("CONFIG", "GET", "timeout")
    assert bench.client().error("PING").startswith("NOAUTH")


def test_nobody_sees_passwords(bench: Bench, client: Client) -> None:
    watcher = bench.client()
    watcher("MONITOR")
    bench.set("slowlog-log-slower-than", 0)
    client("ACL", "SETUSER", "u", ">secret")
    assert b"secret" not in watcher.read_raw()
    assert "secret" not in client.error("ACL", "SETUSER", "u", "<secret2")
    assert "sec" not in client.error("ACL", "SETUSER", "v", "<secret")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[socket.socket]:
    """A connection to a real Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    path = tmp_path / "s"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready to accept connections" in line.lower():
                break
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            yield connection
    finally:
        process.kill()
        process.communicate()


def asked(connection: socket.socket, request: list[bytes]) -> bytes:
    """The bytes of one reply."""
    connection.sendall(resp.bulks(request))
    stream = b""
    reader = hiredis.Reader()
    while True:
        data = connection.recv(1 << 16)
        stream += data
        reader.feed(data)
        if reader.gets() is not False:
            return stream


#: What both must answer alike: rules, then what is asked. Commands are those that both have.
RULES = (
    *("", "on nopass ~* &* +@all", "on >x ~a %R~b* %W~c* %RW~d &x", "nopass >x", ">x nopass", "nopass resetpass"),
    *("~a ~a %R~a", "%R~a %W~a", "%R~* ~a", "allkeys resetkeys ~y", "&a &a &b", "&a &*", "allchannels resetchannels"),
    *("+ping", "+ping -ping", "+@all +ping", "+@all -@dangerous +config|get", "+config -config|get +config|get"),
    *("+config|get +config", "allcommands nocommands +@pubsub", "+@all -ping +ping", "+CONFIG|GET", "+client|id"),
    *("foo", "%X~a", "%~a", "+nope", "-", "+@nope", "+config|nope", "+client|id|x", "#12", "!abc", "allkeys ~b"),
    *("allkeys %R~*", "&* &b", "+@all -@blocking"),
)
REQUESTS = (
    *("acl", "acl nope", "acl setuser", "acl deluser", "acl deluser default", "acl deluser x eve", "acl whoami"),
    *("acl users", "acl getuser nobody", "acl genpass 0", "acl genpass x", "acl cat nope", "acl log 0", "acl log x"),
    *("acl log reset", "acl dryrun nobody ping", "acl dryrun u", "acl dryrun u nope", "acl dryrun u publish y m"),
    *("acl dryrun u ping", "acl dryrun u config get x", "acl dryrun u subscribe x", "auth u y", "auth nobody y"),
    *("hello 3 auth u y", "auth u x", "acl whoami", "subscribe y", "psubscribe x*", "publish y m", "config get x"),
    *("client list", "ping", "acl list", "reset"),
)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_same_words_to_a_real_redis(client: Client, redis: socket.socket, protocol: int) -> None:
    hello = words("HELLO", protocol)
    asked(redis, hello)
    client(*hello)
    for rules in RULES:
        request = words("ACL", "SETUSER", "eve", "reset", *rules.split())
        assert client.raw(*request) == asked(redis, request), rules
        request = words("ACL", "GETUSER", "eve")
        theirs = asked(redis, request).replace(b"$16\r\nsanitize-payload\r\n", b"")
        ours = client.raw(*request)
        for count in (2, 3):  # they show one flag more
            theirs = theirs.replace(b"flags\r\n~%d" % count, b"flags\r\n~%d" % (count - 1), 1)
            theirs = theirs.replace(b"flags\r\n*%d" % count, b"flags\r\n*%d" % (count - 1), 1)
            if theirs == ours:
                break
        assert ours == theirs, rules
    for one in ("eve", "u"):
        for connection in (client.raw, lambda *request: asked(redis, list(request))):
            connection(*words("ACL", "SETUSER", one, "reset", "on", ">x", "&x", "+ping", "+subscribe", "+psubscribe",
                              "+publish", "+acl|whoami"))  # fmt: skip
    for line in REQUESTS:
        request = words(*line.split())
        theirs = asked(redis, request).replace(b" sanitize-payload", b"")
        ours = client.raw(*request)
        if line == "acl list":
            assert ours.startswith(b"-NOPERM")
        assert ours == theirs, line
