from pathlib import Path

import pytest

from disque.core.commands import COMMANDS
from disque.core.commands.info import human
from tests.core.support import Bench, Client

SECTIONS = {
    "Server": (
        "disque_version disque_git_sha1 disque_git_dirty disque_build_id os arch_bits multiplexing_api gcc_version "
        "process_id run_id tcp_port uptime_in_seconds uptime_in_days hz executable config_file"
    ),
    "Clients": "connected_clients client_longest_output_list client_biggest_input_buf blocked_clients",
    "Memory": (
        "used_memory used_memory_human used_memory_rss used_memory_peak used_memory_peak_human mem_fragmentation_ratio "
        "mem_allocator"
    ),
    "Jobs": "registered_jobs",
    "Queues": "registered_queues",
    "Cluster": (
        "cluster_known_nodes cluster_reachable_nodes cluster_linked_nodes cluster_leaving acknowledgements_to_tell "
        "acknowledgements_of_unknown_jobs ids_remembered_as_gone questions_before_requeue"
    ),
    "Persistence": "loading aof_enabled aof_state",
    "Stats": (
        "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes "
        "total_net_output_bytes instantaneous_input_kbps instantaneous_output_kbps rejected_connections "
        "latest_fork_usec"
    ),
    "CPU": "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children",
    "Commandstats": "",
}


def read(client: Client, *words: str) -> dict[str, dict[str, str]]:
    """INFO as sections of fields."""
    text = client("INFO", *words).decode()
    assert not text or text.endswith("\r\n")
    sections = {}
    for part in text.split("\r\n\r\n"):
        title, *lines = part.rstrip("\r\n").split("\r\n")
        sections[title.removeprefix("# ")] = dict(line.split(":", 1) for line in lines)
    return sections


def test_by_default_all_sections_but_commandstats_in_order(client: Client) -> None:
    assert list(read(client)) == list(SECTIONS)[:-1]
    assert list(read(client, "default")) == list(SECTIONS)[:-1]
    assert list(read(client, "ALL")) == list(SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_the_fields_of_disque(client: Client, name: str) -> None:
    ((title, fields),) = read(client, name.upper()).items()
    assert title == name
    assert set(SECTIONS[name].split()) <= set(fields)


def test_an_unknown_section_is_empty(client: Client) -> None:
    assert client.raw("INFO", "nonsense") == b"$0\r\n\r\n"
    assert client.raw("INFO", b"\xff") == b"$0\r\n\r\n"
    client("HELLO", 3)
    assert client.raw("INFO", "nonsense") == b"=4\r\ntxt:\r\n"


def test_more_than_one_section_is_a_syntax_error(client: Client) -> None:
    assert client.raw("INFO", "server", "clients") == b"-ERR syntax error\r\n"


def test_in_resp3_info_is_verbatim_text(client: Client) -> None:
    client("HELLO", 3)
    assert client.raw("INFO", "queues") == b"=35\r\ntxt:# Queues\r\nregistered_queues:0\r\n\r\n"


def test_figures_follow_the_node(bench: Bench, client: Client) -> None:
    bench.client()("GETJOB", "FROM", "other")
    client.add("q", "b", "UNIQUE", "k", 9)
    client.add("q", "b", "DELAY", 5)
    bench.advance(90_000)
    info = read(client)
    assert info["Jobs"]["registered_jobs"] == "2"
    assert info["Queues"]["registered_queues"] == "2"
    assert info["Clients"] == {**info["Clients"], "connected_clients": "2", "blocked_clients": "1"}
    assert info["Memory"]["used_memory"] == str(bench.node.used)
    assert info["Server"]["uptime_in_seconds"] == "90"


def test_the_peak_is_remembered(bench: Bench, client: Client) -> None:
    client.add("q", "x" * 10_000)
    peak = bench.node.used
    client("INFO")
    client("DEBUG", "FLUSHALL")
    memory = read(client, "memory")["Memory"]
    assert (memory["used_memory"], memory["used_memory_peak"]) == ("0", str(peak))


def test_commandstats_tell_what_was_called(bench: Bench, client: Client) -> None:
    bench.node.calls[COMMANDS[b"addjob"].index] = 2
    bench.node.calls_us[COMMANDS[b"addjob"].index] = 19.0
    assert read(client, "commandstats") == {"Commandstats": {"cmdstat_addjob": "calls=2,usec=19,usec_per_call=9.50"}}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.00K"),
        (828969, "809.54K"),
        (1 << 20, "1.00M"),
        (1 << 30, "1.00G"),
        (1 << 41, "2.00T"),
    ],
)
def test_bytes_as_people_read_them(size: int, text: str) -> None:
    assert human(size) == text


def totals(client: Client) -> dict[str, int]:
    """The totals of jobs, those that are not 0."""
    stats = read(client, "stats")["Stats"]
    names = ("added", "delivered", "acknowledged", "nacked", "requeued", "expired")
    return {name: int(stats[f"total_jobs_{name}"]) for name in names if stats[f"total_jobs_{name}"] != "0"}


def test_totals_follow_the_jobs(bench: Bench, client: Client) -> None:
    assert totals(client) == {}
    first, second = client.add("q"), client.add("q", "b", "RETRY", 1, "TTL", 10)
    client.add("q", "b", "DELAY", 5)
    assert totals(client) == {"added": 3}
    client("GETJOB", "FROM", "q")
    client("ACKJOB", first, first)
    client("GETJOB", "COUNT", 5, "FROM", "q")
    client("NACK", second)
    client("GETJOB", "COUNT", 5, "FROM", "q")
    assert totals(client) == {"added": 3, "delivered": 3, "acknowledged": 1, "nacked": 1}
    bench.advance(2000)
    assert totals(client)["requeued"] == 1
    bench.advance(60_000)
    assert totals(client)["expired"] == 1
    third = client.add("q")
    client("FASTACK", third)
    assert totals(client)["acknowledged"] == 2
    client("CONFIG", "RESETSTAT")
    assert totals(client) == {}


def test_every_field_is_in_the_reference(client: Client) -> None:
    text = (Path(__file__).parents[3] / "docs" / "info.md").read_text(encoding="utf-8")
    for title, fields in read(client).items():
        missing = [name for name in fields if f"`{name}`" not in text]
        assert f"## {title}" in text
        assert not missing, title


def test_schedules_are_counted_and_what_has_become_of_their_times() -> None:
    bench = Bench()
    client = bench.client()
    client("CRON", "SET", "s", "@hourly", "q", "b")
    bench.node.stats.cron_fired, bench.node.stats.cron_failed = 7, 2
    stats = read(client, "stats")["Stats"]
    assert (stats["cron_schedules"], stats["cron_fired"], stats["cron_failed"]) == ("1", "7", "2")
