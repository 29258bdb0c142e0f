"""INFO: what there is to know of a node, in sections of ``key:value`` lines."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from disque import VERSION
from disque.core.base import errors, resp
from disque.core.model.command import DANGEROUS, LOADING, READONLY, Command
from disque.core.model.session import NOT_WAITING, Session

if TYPE_CHECKING:
    from disque.core.node import Node

Fact = int | float | str
Facts = dict[str, Fact]
Lines = list[tuple[str, Fact]]


def human(size: int) -> str:
    """Bytes as people read them: ``809.54K``."""
    value = float(size)
    for unit in ("B", "K", "M", "G"):
        if value < 1024:
            return f"{size}B" if unit == "B" else f"{value:.2f}{unit}"
        value /= 1024
    return f"{value:.2f}T"


def server(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """Who this is."""
    uptime_s = max(0, now_ms - node.stats.started_ms) // 1000
    return [
        ("disque_version", VERSION),
        ("disque_git_sha1", "00000000"),
        ("disque_git_dirty", 0),
        ("disque_build_id", facts["build_id"]),
        ("disque_core", facts["core"]),
        ("os", facts["os"]),
        ("arch_bits", facts["arch_bits"]),
        ("multiplexing_api", facts["multiplexing_api"]),
        ("gcc_version", facts["compiler"]),
        ("python_version", facts["python"]),
        ("process_id", facts["pid"]),
        ("run_id", facts["run_id"]),
        ("tcp_port", facts["tcp_port"]),
        ("uptime_in_seconds", uptime_s),
        ("uptime_in_days", uptime_s // 86400),
        ("hz", node.config.number("hz")),
        ("executable", facts["executable"]),
        ("config_file", facts["config_file"]),
    ]


def clients(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """Who is connected."""
    del now_ms
    waiting = sum(session.waiting != NOT_WAITING for session in node.sessions.values())
    return [
        ("connected_clients", len(node.sessions)),
        ("client_longest_output_list", facts["longest_output"]),
        ("client_biggest_input_buf", facts["biggest_input"]),
        ("blocked_clients", waiting),
        ("blocked_clients_places", node.places),
        ("pubsub_clients", sum(session.subscriptions is not None for session in node.sessions.values())),
    ]


def memory(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """What jobs, queues and keys are counted for, beside what the system says of the process."""
    del now_ms
    rss = int(facts["rss_bytes"])
    node.peak = max(node.peak, node.used)
    return [
        ("used_memory", node.used),
        ("used_memory_human", human(node.used)),
        ("used_memory_rss", rss),
        ("used_memory_rss_human", human(rss)),
        ("used_memory_peak", node.peak),
        ("used_memory_peak_human", human(node.peak)),
        ("maxmemory", node.limits.max_bytes),
        ("maxmemory_human", human(node.limits.max_bytes)),
        ("mem_fragmentation_ratio", f"{rss / max(node.used, 1):.2f}"),
        ("mem_allocator", facts["allocator"]),
        ("evicted_jobs", node.evicted),
        ("kept_ends", len(node.ends.by_id)),
    ]


def jobs(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """How many jobs, in any state."""
    del facts, now_ms
    return [
        ("registered_jobs", node.jobs_registered()),
        ("unique_keys", len(node.unique.table) + node.unique.store.count),
        ("waiting_for_copies", len(node.copies.wanted)),
    ]


def queues(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """How many queues."""
    del facts, now_ms
    return [("registered_queues", len(node.queues))]


def cluster(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """The other nodes, what is still to be told them, and the bus: the host knows that."""
    del now_ms
    membership = node.membership
    return [
        ("cluster_known_nodes", membership.known),
        ("cluster_reachable_nodes", len(membership.reachable())),
        ("cluster_linked_nodes", len(node.linked)),
        ("cluster_leaving", int(membership.leaving)),
        ("acknowledgements_to_tell", len(node.acks.by_id)),
        ("acknowledgements_of_unknown_jobs", len(node.acks.dummies)),
        ("ids_remembered_as_gone", len(node.tombstones)),
        ("questions_before_requeue", len(node.votes.by_id)),
        ("registry_entries", node.registry.count),
        ("registry_bytes", node.registry.size),
        *[(f"bus_{key[4:]}", value) for key, value in facts.items() if key.startswith("bus:")],
    ]


def persistence(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """How the journal does: the host knows."""
    del node, now_ms
    return [(key[8:], value) for key, value in facts.items() if key.startswith("persist:")]


def stats(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """Counters since the start or CONFIG RESETSTAT."""
    del now_ms
    counted = node.stats
    return [
        ("total_connections_received", counted.connections),
        ("total_commands_processed", counted.commands),
        ("instantaneous_ops_per_sec", facts["ops_per_s"]),
        ("total_net_input_bytes", counted.net_in),
        ("total_net_output_bytes", counted.net_out),
        ("instantaneous_input_kbps", facts["input_kbps"]),
        ("instantaneous_output_kbps", facts["output_kbps"]),
        ("rejected_connections", counted.rejected),
        ("total_jobs_added", counted.jobs_added),
        ("total_jobs_delivered", counted.jobs_delivered),
        ("total_jobs_acknowledged", counted.jobs_acknowledged),
        ("total_jobs_nacked", counted.jobs_nacked),
        ("total_jobs_requeued", counted.jobs_requeued),
        ("total_jobs_expired", counted.jobs_expired),
        ("total_jobs_died", counted.jobs_died),
        ("total_jobs_dropped", counted.jobs_dropped),
        ("cron_schedules", len(node.schedules.by_name)),
        ("cron_fired", counted.cron_fired),
        ("cron_failed", counted.cron_failed),
        ("evicted_ends", counted.ends_evicted),
        ("acl_access_denied_auth", counted.auths_denied),
        ("pubsub_channels", len(node.pubsub.channels)),
        ("pubsub_patterns", len(node.pubsub.patterns)),
        ("pubsub_missed", node.pubsub.missed),
        ("acl_access_denied_tls_cert", counted.certificates_denied),
        ("acl_access_denied_rights", counted.acl_denied),
        ("latest_fork_usec", 0),
        ("longest_turn_usec", int(counted.longest_turn_s * 1e6)),
        ("unknown_messages_skipped", node.messages_skipped),
    ]


def cpu(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """Processor time of the process, in seconds."""
    del node, now_ms
    return [
        ("used_cpu_sys", f"{facts['cpu_sys_s']:.6f}"),
        ("used_cpu_user", f"{facts['cpu_user_s']:.6f}"),
        ("used_cpu_sys_children", f"{facts['cpu_sys_children_s']:.6f}"),
        ("used_cpu_user_children", f"{facts['cpu_user_children_s']:.6f}"),
    ]


def commandstats(node: "Node", facts: Facts, now_ms: int) -> Lines:
    """Calls and time of each command that was called."""
    del facts, now_ms
    lines: Lines = []
    for row in node.table:
        calls, spent_us = node.calls[row.index], node.calls_us[row.index]
        if calls:
            text = f"calls={calls},usec={int(spent_us)},usec_per_call={spent_us / calls:.2f}"
            lines.append((f"cmdstat_{row.name.decode()}", text))
    return lines


Section = Callable[["Node", Facts, int], Lines]

SECTIONS: Final[dict[str, tuple[str, Section]]] = {
    "server": ("Server", server),
    "clients": ("Clients", clients),
    "memory": ("Memory", memory),
    "jobs": ("Jobs", jobs),
    "queues": ("Queues", queues),
    "cluster": ("Cluster", cluster),
    "persistence": ("Persistence", persistence),
    "stats": ("Stats", stats),
    "cpu": ("CPU", cpu),
    "commandstats": ("Commandstats", commandstats),
}


def info(node: "Node", session: Session, args: list[bytes], now_ms: int) -> None:
    """INFO [section]: one section, `all`, or by default all but commandstats."""
    if len(args) > 2:
        session.out.append(resp.error(errors.SYNTAX))
        return
    wanted = args[1].lower().decode("latin-1") if len(args) == 2 else "default"
    if wanted in {"all", "everything"}:
        names = list(SECTIONS)
    elif wanted == "default":
        names = [name for name in SECTIONS if name != "commandstats"]
    else:
        names = [wanted] if wanted in SECTIONS else []
    facts = node.host.facts()
    parts = [render(*SECTIONS[name], node, facts, now_ms) for name in names]
    session.out.append(resp.text("\r\n".join(parts).encode("utf-8", "surrogateescape"), session.protocol))


def render(title: str, section: Section, node: "Node", facts: Facts, now_ms: int) -> str:
    """One section as text."""
    lines = [f"# {title}", *[f"{key}:{value}" for key, value in section(node, facts, now_ms)]]
    return "\r\n".join(lines) + "\r\n"


COMMANDS: Final = (
    Command("info", -1, READONLY | LOADING | DANGEROUS, info, "server", "[section]", "Facts and figures of this node."),
)
