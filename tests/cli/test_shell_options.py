"""The flags of `disque`."""

from typing import Any

import pytest

from disque.cli.client_tls import Trust
from disque.cli.shell_options import FLAGS, REDIS_ONLY, Options, UsageError, help_page, parse_options
from tests.support import certificates
from tests.support.certificates import AUTHORITY

CERTIFICATE, KEY = certificates.pair("client")


def parse(line: str, **environment: str) -> Options:
    return parse_options(line.split(), environment)


def test_without_flags_a_local_server_is_meant() -> None:
    options = parse("ping x")
    assert options.target.addresses == [("127.0.0.1", 7711)]
    assert (options.command, options.action, options.manner, options.repeat) == ([b"ping", b"x"], "command", None, 1)
    assert (options.target.resp, options.target.password, options.notes) == (2, None, [])


def test_the_environment_says_where_unless_a_flag_does() -> None:
    url = "disque://u:p@h:1,i:2"
    options = parse("-a q cron pause nightly", DISQUE_URL=url)
    assert options.target.addresses == [("h", 1), ("i", 2)]
    assert (options.target.user, options.target.password, options.command[0]) == ("u", "q", b"cron")
    for line in ("-p 7712 ping", "-h 127.0.0.1 -p 7712 ping", "-u disque://127.0.0.1:7712 ping"):
        elsewhere = parse(line, DISQUE_URL=url)
        assert (elsewhere.target.addresses, elsewhere.target.user) == ([("127.0.0.1", 7712)], None)
    assert parse("-s /tmp/s ping", DISQUE_URL=url).target.user is None
    assert parse("--cacert " + AUTHORITY + " ping", DISQUE_URL="disques://h").target.addresses == [("h", 7711)]
    assert parse("--help", DISQUE_URL="nonsense").action == "help"
    with pytest.raises(UsageError, match="DISQUE_URL: Invalid URL 'nonsense'"):
        parse("ping", DISQUE_URL="nonsense")


SETTINGS = [
    ("-h h -p 1", "target.addresses", [("h", 1)]),
    ("-p 1 -h ::1", "target.addresses", [("::1", 1)]),
    ("-h [::1]", "target.addresses", [("::1", 7711)]),
    ("-s /tmp/s", "target.path", "/tmp/s"),
    ("-u disque://h:1", "target.addresses", [("h", 1)]),
    ("-u redis://u:p@h", "target.password", "p"),
    ("-a p", "target.password", "p"),
    ("--pass p", "target.password", "p"),
    ("--user u", "target.user", "u"),
    ("--askpass", "ask_password", True),
    ("-r 3", "repeat", 3),
    ("-r -1", "repeat", -1),
    ("-i 0.5", "interval_s", 0.5),
    ("-t 1.5", "target.timeout_s", 1.5),
    ("-t 0", "target.timeout_s", None),
    ("-d ,", "delimiter", b","),
    ("--raw", "manner", "raw"),
    ("--no-raw", "manner", "pretty"),
    ("--csv", "manner", "csv"),
    ("--json", "manner", "json"),
    ("-2", "target.resp", 2),
    ("-3", "target.resp", 3),
    ("--json", "target.resp", 3),
    ("--json -2", "target.resp", 2),
    ("--json", "target.resp_wish", True),
    ("--json -3", "target.resp_wish", False),
    ("--pipe", "action", "pipe"),
    ("--pipe-timeout 5", "pipe_timeout_s", 5.0),
    ("--stat", "action", "stat"),
    ("--latency", "action", "latency"),
    ("--latency-history", "action", "latency-history"),
    ("--version", "action", "version"),
    ("-v", "action", "version"),
    ("--help", "action", "help"),
    ("-h", "action", "help"),
    ("-c -e -n 0 ping", "command", [b"ping"]),
    ("-c -e -n 0 ping", "notes", []),
    ("-x set", "last_from_stdin", True),
    ("-X B addjob q B 0", "stdin_tag", b"B"),
    ("ping", "target.trust", None),
    ("--tls", "target.trust", Trust()),
    ("-u disques://h", "target.trust", Trust()),
    ("-u rediss://h --insecure", "target.trust", Trust(insecure=True)),
    ("--sni n --tls", "target.trust", Trust(sni="n")),
    (f"--tls --cacert {AUTHORITY}", "target.trust", Trust(cacert=AUTHORITY)),
    ("--tls --cacertdir /tmp", "target.trust", Trust(cacertdir="/tmp")),
    (f"--tls --cert {CERTIFICATE} --key {KEY}", "target.trust", Trust(cert=CERTIFICATE, key=KEY)),
]


@pytest.mark.parametrize(("line", "name", "value"), SETTINGS)
def test_what_a_flag_sets(line: str, name: str, value: Any) -> None:
    found: Any = parse(line)
    for attribute in name.split("."):
        found = getattr(found, attribute)
    assert found == value


def test_flags_end_where_the_command_begins() -> None:
    assert parse("--raw echo -p --json").command == [b"echo", b"-p", b"--json"]
    assert parse("- x").command == [b"-", b"x"]


def test_arguments_keep_their_bytes() -> None:
    assert parse_options(["echo", "\udcff", "é", ""], {}).command == [b"echo", b"\xff", "é".encode(), b""]


def test_the_environment_gives_a_password_and_a_flag_wins() -> None:
    assert parse("ping", DISQUE_AUTH="e").target.password == "e"
    assert parse("ping", DISQUE_AUTH="e").notes == []
    assert parse("-a f ping", DISQUE_AUTH="e").target.password == "f"


def test_a_password_on_the_command_line_is_warned_about() -> None:
    assert "DISQUE_AUTH" in parse("-a p ping").notes[0]
    assert parse("-a p --no-auth-warning ping").notes == []


@pytest.mark.parametrize("line", ["-n 3 ping", "-u redis://h/3 ping"])
def test_other_databases_are_ignored_with_a_note(line: str) -> None:
    assert parse(line).notes == ["Note: there are no numbered databases here, 3 is ignored."]


MISTAKES = [
    ("--nonsense", "Unrecognized option '--nonsense'"),
    ("-p", "Option -p needs a value: -p <port>"),
    ("-p x", "Option -p: Invalid port 'x'"),
    ("-p 0", "Option -p: Invalid port '0'"),
    ("-r many", "Option -r: 'many' is not a number"),
    ("-i soon", "Option -i: 'soon' is not a number"),
    ("-i -1", "Option -i: '-1' is not a number of seconds"),
    ("-t nan", "Option -t: 'nan' is not a number of seconds"),
    ("-u http://h", "Option -u: Invalid URL 'http://h'"),
    ("-X BODY addjob q 0", "-X needs a command with the argument 'BODY' in it"),
    ("-x", "-x needs a command"),
    ("--insecure ping", "--cacert, --cert, --key, --sni and --insecure need --tls or disques://"),
    ("-u disque://h --cert c --key k", "--cacert, --cert, --key, --sni and --insecure need --tls"),
    ("--tls -s /tmp/s", "there is no TLS on a unix socket"),
    ("--tls --cert c", "--cert and --key belong together"),
    ("--tls --cacert /no/such/file", "Cannot use /no/such/file: No such file"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES)
def test_mistakes_are_explained(line: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(line)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("flag", REDIS_ONLY)
def test_flags_of_redis_say_what_to_use_instead(flag: str) -> None:
    with pytest.raises(UsageError, match=rf"{flag} is for Redis: .*"):
        parse(flag)


def test_every_flag_is_in_the_help() -> None:
    page = help_page()
    assert all(name in page for flag in FLAGS for name in flag.names)
    assert "exit code" in page
    assert max(map(len, page.splitlines())) <= 120
