import pytest

from disque.core.host import HostRefusedError
from disque.core.model.memory import JOB_BYTES
from disque.core.model.user import digest_of
from tests.core.support import NOTHING, Bench, Client

# -- CONFIG -----------------------------------------------------------------------------------------------------------


def test_config_get_is_flat_in_resp2_and_a_map_in_resp3(client: Client) -> None:
    assert client.raw("CONFIG", "GET", "maxmemory-pol*") == b"*2\r\n$16\r\nmaxmemory-policy\r\n$4\r\nacks\r\n"
    assert client.raw("CONFIG", "GET", "nonsense") == b"*0\r\n"
    client("HELLO", 3)
    assert client.raw("CONFIG", "GET", "maxmemory-pol*") == b"%1\r\n$16\r\nmaxmemory-policy\r\n$4\r\nacks\r\n"
    assert client.raw("CONFIG", "GET", "nonsense") == b"%0\r\n"


def test_config_set_takes_effect_at_once(bench: Bench, client: Client) -> None:
    assert client.raw("CONFIG", "SET", "MaxMemory", "1mb") == b"+OK\r\n"
    assert bench.node.limits.max_bytes == 1 << 20
    assert client("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"1048576"]
    assert bench.host.asked == [("configure", "maxmemory")]


READ_AT_THE_START = (
    "CONFIG SET failed (possibly related to argument 'port') - can't set immutable config: "
    "it is read when the server starts"
)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("nonsense", "1", "ERR Unsupported CONFIG parameter: nonsense"),
        ("port", "1", f"ERR {READ_AT_THE_START}"),
        ("maxmemory", "x", "ERR Invalid argument 'x' for CONFIG SET 'maxmemory'"),
        ("maxmemory-policy", "lru", "ERR Invalid argument 'lru' for CONFIG SET 'maxmemory-policy'"),
        ("maxclients", "0", "ERR Invalid argument '0' for CONFIG SET 'maxclients'"),
        ("hz", "a\r\nb", "ERR Invalid argument 'a  b' for CONFIG SET 'hz'"),
    ],
)
def test_config_set_refuses(bench: Bench, client: Client, name: str, value: str, text: str) -> None:
    assert client.error("CONFIG", "SET", name, value) == text
    assert bench.host.asked == []


def test_what_the_host_refuses_is_taken_back(bench: Bench, client: Client) -> None:
    bench.host.refusal = "ERR Changing directory: No such file or directory"
    before = client("CONFIG", "GET", "maxclients")
    assert client.raw("CONFIG", "SET", "maxclients", 5) == b"-ERR Changing directory: No such file or directory\r\n"
    assert client("CONFIG", "GET", "maxclients") == before


def test_several_settings_are_set_at_once(bench: Bench, client: Client) -> None:
    assert client.raw("CONFIG", "SET", "maxmemory", "1mb", "SLOWLOG-MAX-LEN", 7, "requirepass", "x") == b"+OK\r\n"
    assert (client.session.passed, bench.client().session.passed) == (True, False)
    assert bench.host.asked == [("configure", name) for name in ("maxmemory", "slowlog-max-len", "requirepass")]
    assert (bench.node.limits.max_bytes, bench.node.slowlog.max_len) == (1 << 20, 7)
    assert bench.node.users.default.passwords == [digest_of(b"x")]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("maxmemory", "x"), "ERR Invalid argument 'x' for CONFIG SET 'maxmemory'"),
        (("nonsense", "x"), "ERR Unsupported CONFIG parameter: nonsense"),
        (("port", "1"), f"ERR {READ_AT_THE_START}"),
        (("Timeout", "1"), "ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter"),
    ],
)
def test_of_several_settings_all_are_set_or_none(
    bench: Bench, client: Client, words: tuple[str, str], text: str
) -> None:
    assert client.error("CONFIG", "SET", "timeout", 5, *words, "maxclients", 7) == text
    assert client("CONFIG", "GET", "timeout", "maxclients") == [b"timeout", b"0", b"maxclients", b"10000"]
    assert bench.host.asked == []


def test_what_the_host_refuses_takes_the_others_back(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def configure(name: str) -> None:
        asked.append((name, bench.node.config.get_text(name)))
        if asked[-1] == ("maxclients", "9"):
            raise HostRefusedError("ERR not so many")

    monkeypatch.setattr(bench.host, "configure", configure)
    words = ("CONFIG", "SET", "timeout", 5, "maxclients", 9, "maxmemory", 7)
    assert client.error(*words) == "ERR not so many"
    assert client("CONFIG", "GET", "timeout", "maxclients")[1::2] == [b"0", b"10000"]
    assert asked == [("timeout", "5"), ("maxclients", "9"), ("timeout", "0")]
    assert bench.node.limits.max_bytes == 1 << 30


def test_what_goes_wrong_in_the_host_is_taken_back_too(
    bench: Bench, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configure(name: str) -> None:
        raise RuntimeError(name)

    monkeypatch.setattr(bench.host, "configure", configure)
    with pytest.raises(RuntimeError):
        client("CONFIG", "SET", "maxclients", 9)
    assert client("CONFIG", "GET", "maxclients")[1] == b"10000"


def test_config_get_takes_several_patterns(client: Client) -> None:
    assert client("CONFIG", "GET", "maxm*es", "hz", "maxclients") == [
        *(b"maxmemory-samples", b"5", b"hz", b"10", b"maxclients", b"10000")
    ]


@pytest.mark.parametrize("command", ["config", "debug", "cluster", "client", "slowlog", "latency", "command"])
def test_help_of_a_command_with_subcommands(client: Client, command: str) -> None:
    lines = client(command, "Help")
    assert lines[0] == f"{command.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".encode()
    assert lines[-2:] == [b"HELP", b"    Print this help."]
    assert len(lines) % 2 == 1
    assert client.raw("CONFIG", "HELP").startswith(b"*11\r\n+CONFIG <subcommand>")


def test_help_of_debug_is_debug(bench: Bench, client: Client) -> None:
    bench.node.config.put("enable-debug-command", ("no",))
    assert client.error("DEBUG", "HELP").startswith("ERR DEBUG command not allowed")


def test_config_resetstat(bench: Bench, client: Client) -> None:
    bench.node.calls[0] = 5
    bench.node.calls_us[0] = 5.0
    bench.node.stats.commands = 7
    assert client.raw("CONFIG", "RESETSTAT") == b"+OK\r\n"
    assert not any(bench.node.calls)
    assert not any(bench.node.calls_us)
    assert (bench.node.stats.commands, bench.node.stats.connections) == (0, 0)


def test_config_rewrite(bench: Bench, client: Client) -> None:
    assert client.raw("CONFIG", "REWRITE") == b"+OK\r\n"
    bench.host.refusal = "ERR The server is running without a config file"
    assert client.raw("CONFIG", "REWRITE") == b"-ERR The server is running without a config file\r\n"


@pytest.mark.parametrize("words", [("x",), ("HELP", "y")])
def test_config_of_anything_else(client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("CONFIG", *words) == b"-ERR CONFIG subcommand must be one of GET, SET, RESETSTAT, REWRITE\r\n"


@pytest.mark.parametrize(
    "words", [("GET",), ("SET", "a"), ("SET", "a", "b", "c"), ("GET", *"x" * 255), ("Rewrite", "x")]
)
def test_config_with_a_wrong_number_of_words(client: Client, words: tuple[str, ...]) -> None:
    assert client.error("CONFIG", *words) == f"ERR Wrong number of arguments for CONFIG {words[0]}"


# -- DEBUG ------------------------------------------------------------------------------------------------------------


NOT_ALLOWED = (
    'DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    "connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


@pytest.mark.parametrize(
    ("allowed", "local", "runs"),
    [
        ("local", True, True),
        ("local", False, False),
        ("yes", True, True),
        ("yes", False, True),
        ("no", True, False),
        ("no", False, False),
    ],
)
@pytest.mark.parametrize("words", [("FLUSHALL",), ("SLEEP", "0"), ("ERROR", "OK"), ("nonsense",)])
def test_who_may_use_debug(bench: Bench, allowed: str, local: bool, runs: bool, words: tuple[str, ...]) -> None:
    bench.node.config.put("enable-debug-command", (allowed,))
    client = bench.client()
    client.session.local = local
    client.add("q")
    assert (client.raw("DEBUG", *words) == f"-ERR {NOT_ALLOWED}\r\n".encode()) == (not runs)
    assert client("QLEN", "q") == (not runs or words[0] != "FLUSHALL")


def test_flushall_drops_everything(bench: Bench, client: Client) -> None:
    for _ in range(5):
        client.add("q")
    client("PAUSE", "other", "in")
    assert client.raw("DEBUG", "FLUSHALL") == b"+OK\r\n"
    assert (bench.node.jobs_registered(), bench.node.queues, bench.node.used) == (0, {}, 0)
    assert client.get("q") == []
    assert client.add("q")


def test_flushall_is_one_record() -> None:
    bench = Bench(journaling=True)
    client = bench.client()
    for _ in range(5):
        client.add("q")
    bench.records()
    client("DEBUG", "FLUSHALL")
    assert bench.records() == [(9,)]
    assert not any(bench.node.live.values())


def test_loadaof_waits_for_the_host(bench: Bench, client: Client) -> None:
    assert client("DEBUG", "LOADAOF") is NOTHING
    assert client.waiting
    assert bench.host.asked == [("reload_journal", 1)]


@pytest.mark.parametrize(("word", "seconds"), [("0", 0.0), ("0.5", 0.5), ("1e1", 10.0), ("3600", 3600.0)])
def test_sleep(bench: Bench, client: Client, word: str, seconds: float) -> None:
    assert client.raw("DEBUG", "SLEEP", word) == b"+OK\r\n"
    assert bench.host.asked == [("sleep", seconds)]


@pytest.mark.parametrize("word", ["x", "-1", "nan", "inf", "3600.1", ""])
def test_sleep_is_bounded(bench: Bench, client: Client, word: str) -> None:
    assert client.error("DEBUG", "SLEEP", word).startswith("ERR the time to sleep must be")
    assert bench.host.asked == []


def test_error(client: Client) -> None:
    assert client.raw("DEBUG", "ERROR", b"CODE text\r\nmore") == b"-CODE text  more\r\n"


def test_structsize(client: Client) -> None:
    assert client("DEBUG", "STRUCTSIZE").startswith(b"bits:64 job:%d queue:" % JOB_BYTES)


@pytest.mark.parametrize("how", ["SEGFAULT", "assert", "Oom"])
def test_crashes(bench: Bench, client: Client, how: str) -> None:
    assert client("DEBUG", how) is NOTHING
    assert bench.host.asked == [("crash", how.lower())]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("RESTART",), ("restart", 1, 0, True)),
        (("restart", "500"), ("restart", 1, 500, True)),
        (("CRASH-AND-RECOVER", "7"), ("restart", 1, 7, False)),
    ],
)
def test_restarts(bench: Bench, client: Client, words: tuple[str, ...], asked: tuple[object, ...]) -> None:
    assert client("DEBUG", *words) is NOTHING
    assert bench.host.asked == [asked]


def test_restarts_that_cannot_be(bench: Bench, client: Client) -> None:
    assert client.raw("DEBUG", "RESTART", "x") == b"-ERR value is not an integer or out of range\r\n"
    assert client.raw("DEBUG", "RESTART", "-1") == b"-ERR value is not an integer or out of range\r\n"
    bench.host.refusal = "ERR failed to restart the server. Check server logs."
    assert client.raw("DEBUG", "RESTART") == b"-ERR failed to restart the server. Check server logs.\r\n"


@pytest.mark.parametrize("words", [("x\n",), ("FLUSHALL", "x"), ("SLEEP",), ("ERROR",), ("RESTART", "1", "2")])
def test_debug_of_anything_else(client: Client, words: tuple[str, ...]) -> None:
    name = words[0].replace("\n", " ")
    assert client.error("DEBUG", *words) == f"ERR Unknown DEBUG subcommand or wrong number of arguments for '{name}'"


# -- SHUTDOWN, BGREWRITEAOF, LOADJOB ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "rewrite"), [((), False), (("REWRITE-AOF",), True), (("rewrite-aof",), True)])
def test_shutdown(bench: Bench, client: Client, words: tuple[str, ...], rewrite: bool) -> None:
    assert client("SHUTDOWN", *words) is NOTHING
    assert bench.host.asked == [("shutdown", 1, rewrite)]


@pytest.mark.parametrize("words", [("NOSAVE",), ("REWRITE-AOF", "x"), ("",)])
def test_shutdown_of_anything_else(bench: Bench, client: Client, words: tuple[str, ...]) -> None:
    assert client.raw("SHUTDOWN", *words) == b"-ERR syntax error\r\n"
    assert bench.host.asked == []


def test_bgrewriteaof(bench: Bench, client: Client) -> None:
    assert client.raw("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    bench.host.rewriting = True
    assert client.raw("BGREWRITEAOF") == b"-ERR Background append only file rewriting already in progress\r\n"
    bench.host.refusal = "ERR there is no append-only file"
    assert client.raw("BGREWRITEAOF") == b"-ERR there is no append-only file\r\n"


def test_loadjob_is_no_command(client: Client) -> None:
    assert client.raw("LOADJOB", "x") == b"-ERR LOADJOB is a special command only processed from AOF\r\n"
