import pytest

from disque.core.commands import COMMANDS, ROWS
from tests.core.support import Bench, Client

#: The table of Disque 1.0: arity and flags; what it had too answers the same. Here QLEN and QSTAT may have one word
#: more.
DISQUE = {
    "ping": (-1, "readonly fast"),
    "info": (-1, "readonly loading"),
    "shutdown": (-1, "readonly admin loading"),
    "monitor": (1, "readonly admin"),
    "debug": (-2, "admin"),
    "config": (-2, "readonly admin"),
    "cluster": (-2, "readonly admin"),
    "client": (-2, "readonly admin"),
    "slowlog": (-2, "readonly"),
    "time": (1, "readonly fast"),
    "command": (0, "readonly loading"),
    "latency": (-2, "readonly admin loading"),
    "addjob": (-4, "write denyoom fast"),
    "getjob": (-2, "write fast"),
    "ackjob": (-1, "write fast"),
    "fastack": (-1, "write fast"),
    "deljob": (-1, "write fast"),
    "show": (2, "readonly fast"),
    "loadjob": (2, "write"),
    "bgrewriteaof": (1, "readonly admin"),
    "qlen": (-2, "readonly fast"),
    "qpeek": (3, "readonly"),
    "qstat": (-2, "readonly fast"),
    "qscan": (-1, "readonly"),
    "jscan": (-1, "readonly"),
    "enqueue": (-1, "write denyoom fast"),
    "nack": (-1, "write denyoom fast"),
    "dequeue": (-1, "write fast"),
    "pause": (-3, "readonly fast"),
}


def test_every_command_of_disque_is_there() -> None:
    assert {*DISQUE, "auth", "hello", "working"} <= {row.name.decode() for row in ROWS}


@pytest.mark.parametrize("name", DISQUE)
def test_command_info_answers_as_disque_does(client: Client, name: str) -> None:
    arity, flags = DISQUE[name]
    shown = b"".join(b"+%b\r\n" % flag.encode() for flag in flags.split())
    count = len(flags.split())
    row = b"*6\r\n$%d\r\n%b\r\n:%d\r\n*%d\r\n%b:0\r\n:0\r\n:0\r\n" % (len(name), name.encode(), arity, count, shown)
    assert client.raw("COMMAND", "INFO", name.upper()) == b"*1\r\n" + row


@pytest.mark.parametrize(("protocol", "nothing"), [(2, b"$-1\r\n"), (3, b"_\r\n")])
def test_command_info_of_an_unknown_command(client: Client, protocol: int, nothing: bytes) -> None:
    client("HELLO", protocol)
    assert client.raw("COMMAND", "INFO", "nonsense") == b"*1\r\n" + nothing


def test_in_resp3_flags_are_a_set(client: Client) -> None:
    client("HELLO", 3)
    assert b"~2\r\n+readonly\r\n+fast\r\n" in client.raw("COMMAND", "INFO", "qlen")


def test_command_lists_all(client: Client) -> None:
    names = [row.name for row in ROWS]
    assert [row[0] for row in client("COMMAND")] == names
    assert [row[0] for row in client("COMMAND", "INFO")] == names
    assert client("COMMAND", "LIST") == names
    assert client("COMMAND", "COUNT") == len(names)


@pytest.mark.parametrize("words", [("x",), ("COUNT", "x"), ("LIST", "x")])
def test_wrong_words(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("COMMAND", *words) == b"-ERR Unknown subcommand or wrong number of arguments.\r\n"


def test_docs_tell_what_a_command_does(client: Client) -> None:
    client("HELLO", 3)
    docs = client("COMMAND", "DOCS", "addjob", "PAUSE")
    assert set(docs) == {b"addjob", b"pause"}
    assert docs[b"addjob"][b"summary"] == COMMANDS[b"addjob"].summary.encode()
    assert docs[b"addjob"][b"group"] == b"jobs"
    assert docs[b"addjob"][b"syntax"].startswith(b"ADDJOB queue body ms-timeout")
    assert docs[b"pause"][b"subcommands"][b"pause|in"][b"syntax"] == b"PAUSE in"


def test_docs_in_resp2_are_flat(client: Client) -> None:
    name, facts = client("COMMAND", "DOCS", "qlen")
    assert name == b"qlen"
    assert facts[::2] == [b"summary", b"since", b"group", b"syntax"]


def test_docs_of_all(bench: Bench, client: Client) -> None:
    assert len(client("COMMAND", "DOCS")) == 2 * len(bench.node.table)


def test_each_row_knows_its_place() -> None:
    assert [row.index for row in ROWS] == list(range(len(ROWS)))
    assert len(COMMANDS) == len(ROWS)
