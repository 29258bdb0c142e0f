"""What may still be typed, and help, from the command table."""

import pytest

from disque.cli.shell_help import CommandRow, Table, advice, help_text, hint, next_words, parse_usage, usage_of
from disque.core.commands import COMMANDS

HINTS = [
    ("addjob", "queue body ms-timeout [REPLICATE n] [UNIQUE key seconds] [ASYNC]"),
    ("ADDJOB q", "body ms-timeout [REPLICATE n] [UNIQUE key seconds] [ASYNC]"),
    ("addjob replicate b", "ms-timeout [REPLICATE n] [UNIQUE key seconds] [ASYNC]"),
    ("addjob q b 0 ASYNC", "[REPLICATE n] [UNIQUE key seconds]"),
    ("addjob q b 0 unique", "key seconds [REPLICATE n] [ASYNC]"),
    ("addjob q b 0 UNIQUE k", "seconds [REPLICATE n] [ASYNC]"),
    ("addjob q b 0 UNIQUE async 1 REPLICATE 2", "[ASYNC]"),
    ("addjob q b 0 nonsense", ""),
    ("getjob", "[NOHANG] [TIMEOUT ms] [COUNT n] FROM queue [queue ...]"),
    ("getjob COUNT 3 nohang", "[TIMEOUT ms] FROM queue [queue ...]"),
    ("getjob from", "queue [queue ...]"),
    ("getjob COUNT 1 FROM count", "[queue ...]"),
    ("getjob FROM a b c", "[queue ...]"),
    ("ackjob id", "[id ...]"),
    ("qscan", "[cursor] [COUNT n] [BUSYLOOP]"),
    ("qscan count", "n [cursor] [BUSYLOOP]"),
    ("qscan 0 COUNT 5", "[BUSYLOOP]"),
    ("pause", "queue in|out|all [in|out|all ...]"),
    ("pause q in", "[in|out|all ...]"),
    ("client kill 127.0.0.1:1 id", "id [SKIPME yes|no]"),
    ("client kill ID", "id ip:port | [SKIPME yes|no]"),
    ("hello 3", "[AUTH user password] [SETNAME name]"),
    ("hello 3 AUTH u", "password [SETNAME name]"),
    ("client", "subcommand [argument ...]"),
    ("client reply", "ON|OFF|SKIP"),
    ("client reply off", ""),
    ("CLIENT LIST", ""),
    ("ping x", ""),
    ("help", "[command|@group]"),
    ("unknown", ""),
    ("", ""),
]


@pytest.mark.parametrize(("line", "left"), HINTS)
def test_the_hint_is_what_is_left_of_the_usage(table: Table, line: str, left: str) -> None:
    assert hint(table, line.split()) == left


NEXT = [
    ("addjob q b 0", ["REPLICATE", "UNIQUE", "ASYNC"]),
    ("addjob q b 0 ASYNC", ["REPLICATE", "UNIQUE"]),
    ("addjob q b 0 UNIQUE k", []),
    ("addjob", []),
    ("getjob COUNT 2", ["NOHANG", "TIMEOUT", "FROM"]),
    ("getjob FROM", []),
    ("client", ["LIST", "KILL", "REPLY"]),
    ("client reply", ["ON", "OFF", "SKIP"]),
    ("client kill x SKIPME", ["yes", "no"]),
    ("pause", []),
    ("pause q", ["in", "out", "all"]),
    ("pause q in", ["in", "out", "all"]),
    ("hello", ["2", "3"]),
    ("hello 3", ["AUTH", "SETNAME"]),
    ("unknown", []),
]


@pytest.mark.parametrize(("line", "words"), NEXT)
def test_next_words_are_the_literal_ones(table: Table, line: str, words: list[str]) -> None:
    assert list(next_words(table, line.split())) == words


def test_options_that_the_row_lists_have_their_summaries(table: Table) -> None:
    assert next_words(table, ["pause", "q"])["in"] == "Take no jobs."


def test_a_line_begins_with_a_command_of_the_table_or_the_shell(table: Table) -> None:
    words = next_words(table, [])
    assert words["ADDJOB"] == "Add a job."
    assert {"help", "connect", "quit", "exit", "clear"} < set(words)


def test_help_is_for_commands_and_groups(table: Table) -> None:
    assert {"@jobs", "@queues", "ADDJOB"} < set(next_words(table, ["help"]))


def test_usages_keep_their_text() -> None:
    usage = "id [id ...] [A|B x [C y]] ..."
    assert " ".join(part.text for part in parse_usage(usage)) == usage


def test_unbalanced_brackets_are_forgiven() -> None:
    assert [part.text for part in parse_usage("a [B c")] == ["a", "[B c]"]
    assert [part.text for part in parse_usage("a ] b")] == ["a"]


def test_help_alone_names_the_groups(table: Table) -> None:
    assert "@connection @jobs @queues @server" in (help_text(table, []) or "")


def test_help_for_a_command(table: Table) -> None:
    text = help_text(table, ["ACKJOB"])
    meaning = "    id  ID of a job, as ADDJOB and GETJOB give it\n"
    assert text == "\n  ACKJOB id [id ...]\n  summary: Acknowledge jobs.\n  group: jobs\n" + meaning


def test_help_for_a_command_explains_each_option(table: Table) -> None:
    lines = (help_text(table, ["addjob"]) or "").splitlines()
    assert "    queue               name of the queue, which need not exist before" in lines
    assert "    REPLICATE n         how many nodes have the job before its ID is answered" in lines
    assert "    in     take no jobs" in (help_text(table, ["pause"]) or "").splitlines()
    assert "    AUTH user password  log in as well" in (help_text(table, ["hello"]) or "").splitlines()


def test_help_for_a_tool_says_where_it_is(table: Table) -> None:
    assert "disque bench --help" in (help_text(table, ["bench"]) or "")


def test_help_for_a_command_lists_its_subcommands(table: Table) -> None:
    text = help_text(table, ["client"]) or ""
    assert "  CLIENT LIST\n  summary: List the connections.\n" in text
    assert help_text(table, ["client", "Reply"]) == (
        "\n  CLIENT REPLY ON|OFF|SKIP\n  summary: Choose whether to be answered.\n"
        "    ON|OFF|SKIP  always, never, or not the next time\n"
    )


def test_help_for_a_group(table: Table) -> None:
    text = help_text(table, ["@queues"]) or ""
    assert "QSCAN" in text
    assert "PAUSE" in text
    assert "ADDJOB" not in text


@pytest.mark.parametrize("topic", ["nonsense", "@nonsense", "client nonsense"])
def test_there_is_no_help_for_what_is_unknown(table: Table, topic: str) -> None:
    assert help_text(table, topic.split()) is None


def test_help_for_what_the_shell_does_itself(table: Table) -> None:
    assert help_text(table, ["connect"]) == "\n  connect host port\n  summary: Connect to another server\n"


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name.decode())
def test_every_usage_of_the_command_table_can_be_read(row: CommandRow) -> None:
    for words in [[row.name.decode()], *([row.name.decode(), name] for name, _usage, _summary in row.subcommands)]:
        found = usage_of(COMMANDS, words)
        assert found is not None
        assert " ".join(part.text for part in parse_usage(found[0])) == found[0]
        assert help_text(COMMANDS, words) is not None


@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        ("gejob FROM q", "ERR unknown command 'gejob'", "Did you mean GETJOB?"),
        ("hepl", "ERR unknown command 'hepl'", "Did you mean help?"),
        ("bench", "ERR unknown command 'bench'", "bench is a tool of the command line: disque bench --help"),
        ("benhc", "ERR unknown command 'benhc'", "Did you mean bench, a tool of the command line? disque bench --help"),
        ("xyzzy", "ERR unknown command 'xyzzy'", ""),
        ("x" * 99_999, "ERR unknown command 'xx'", ""),
        ("client lits", "ERR Unknown subcommand", "Did you mean CLIENT LIST? `help client` lists all."),
        ("client xyzzy", "ERR Unknown subcommand", ""),
        ("addjob q b", "ERR wrong number of arguments for 'addjob' command", "Usage: ADDJOB queue body ms-timeout"),
        ("client reply maybe", "ERR syntax error", "Usage: CLIENT REPLY ON|OFF|SKIP"),
        ("addjob q b 0", "ERR timeout is negative", ""),
        ("addjob q b 0", "NOREPL Timeout reached", ""),
    ],
)
def test_advice_is_for_what_the_server_did_not_understand(table: Table, line: str, error: str, said: str) -> None:
    given = advice(table, line.split(), error)
    assert given.startswith(said)
    assert bool(given) == bool(said)
