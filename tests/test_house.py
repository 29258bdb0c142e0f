"""The rules of the house: who may import whom, what is pure, what must be written down, how long things may be."""

import ast
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from cluster import messages
from disque.core import step
from disque.core.config.settings import SETTINGS
from tests.conftest import BUS_PORT_OFFSET, ROOT, is_free, stale_binaries

PACKAGES: Final = ("cluster", "disque")

#: The files of `cluster` without input and output. What is in them counts as a part of the core.
PURE_CLUSTER: Final = tuple(
    f"cluster.{name}"
    for name in ("capabilities", "gossip", "large", "member", "membership", "messages", "nodesfile", "table")
)

#: Which modules of the project each part may import: these, and what is below them.
MAY_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "cluster": ("cluster",),
    **dict.fromkeys(PURE_CLUSTER, PURE_CLUSTER),
    "disque.core": ("disque.core", *PURE_CLUSTER),
    "disque.server": ("disque.core", "disque.server", "cluster"),
    "disque.client": ("disque.client",),
    "disque.gateway": ("disque.client", "disque.gateway"),
    "disque.spark": ("disque.client", "disque.spark"),
    "disque.celery": ("disque.client", "disque.celery"),
    "disque.django": ("disque.client", "disque.django"),
    "disque.taskiq": ("disque.client", "disque.taskiq"),
    "disque.tasks": ("disque.client", "disque.tasks"),
    "disque.cli": PACKAGES,
}

#: The rooms of the core from the bottom up: each imports those of its storey and below. A module has the storey of the
#: longest name here that it is below.
STOREYS: Final[tuple[tuple[str, ...], ...]] = (
    ("disque.core", "disque.core.base", "disque.core.schedule.ticks"),
    ("disque.core.config",),
    ("disque.core.model",),
    ("disque.core.host", "disque.core.journal.outbox", "disque.core.journal.schema"),
    ("disque.core.node",),
    ("disque.core.journal",),
    ("disque.core.pubsub", "disque.core.replication"),
    ("disque.core.dedup",),
    ("disque.core.jobs", "disque.core.federation", "disque.core.schedule"),
    ("disque.core.auth",),
    ("disque.core.journal.kinds", "disque.core.journal.replay"),
    (
        "disque.core.entries",
        "disque.core.handover",
        "disque.core.links",
        "disque.core.questions",
        "disque.core.sizes",
        "disque.core.schedule.firing",
    ),
    ("disque.core.commands",),
    ("disque.core.step",),
)

#: Modules outside of the core that know each other, and why. All others import one another without cycles.
TOGETHER: Final[dict[tuple[str, ...], str]] = {
    ("cluster.bus", "cluster.link", "cluster.peer"): "a link tells the bus each frame: a Protocol would cost a lookup",
    ("disque.server.connection", "disque.server.mesh", "disque.server.pump"): "compiled: each request passes all three",
    ("disque.server.host", "disque.server.server"): "the host is the server as the core sees it",
    ("disque.client.client", "disque.client.job", "disque.client.stream", "disque.client.heartbeat",
     "disque.client.async_client", "disque.client.async_job", "disque.client.async_stream",
     "disque.client.async_heartbeat", "disque.client.pipeline", "disque.client.listening",
     "disque.client.async_listening"): "a client gives jobs, and a job acts by its client",
    ("disque.celery.transport", "disque.celery.channel", "disque.celery.poller", "disque.celery.batch"):
        "a transport makes channels, which share what it has and are told what came",
    ("disque.spark.sink", "disque.spark.tasks"): "a writer begins a task in another process, which gets the writer",
}  # fmt: skip

#: What a pure module may import from outside of the project. Nothing in here reads, writes, waits or asks the time.
PURE_LIBRARIES: Final = frozenset({
    *("abc", "array", "base64", "binascii", "bisect", "collections", "difflib", "enum", "functools", "hashlib"),
    *("heapq", "hmac", "ipaddress", "itertools", "math", "operator", "re", "string", "struct", "textwrap"),
    *("types", "typing", "zlib"),
    *("cronsim", "msgpack", "mypy_extensions", "sortedcontainers"),
})  # fmt: skip

#: Libraries that are pure but for some names: what may be taken from them.
PURE_NAMES: Final = {
    "datetime": {"UTC", "datetime", "tzinfo"},  # that nobody asks it for the time is looked at below
    "random": {"Random"},
    "zoneinfo": {"ZoneInfo"},  # reads the rules of a zone once, which are the same wherever and whenever it is asked
}

#: Built-in functions that reach outside, or hide what is reached.
IMPURE_BUILTINS: Final = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})

#: Modules whose tests are not in the file that mirrors them, and where they are.
TESTED_ELSEWHERE: Final[dict[str, str]] = {
    "disque.celery.batch": "tests/celery/test_channel.py",  # with real nodes, as kombu uses them
    "disque.celery.poller": "tests/celery/test_transport.py",
    "disque.celery.qos": "tests/celery/test_channel.py",
    "disque.cli.bench_crew": "tests/cli/test_bench.py",  # only as a whole: processes that measure together
    "disque.cli.bench_load": "tests/cli/test_bench.py",
    "disque.cli.bench_resp": "tests/cli/test_bench_lane.py",  # replies at any chunking, as a lane counts them
    "disque.cli.bench_run": "tests/cli/test_bench.py",
    "disque.cli.bench_station": "tests/cli/test_bench.py",
    "disque.cli.bench_sweep": "tests/cli/test_bench.py",
    "disque.cli.bench_tally": "tests/cli/test_bench_report.py",  # what a report is made of
    "disque.client.async_client": "tests/client/test_client.py",  # both kinds in the same scenes
    "disque.client.async_heartbeat": "tests/client/test_heartbeat.py",
    "disque.client.async_job": "tests/client/test_job.py",
    "disque.client.async_listening": "tests/client/test_listening.py",
    "disque.client.async_pool": "tests/client/test_pool.py",
    "disque.client.async_stream": "tests/client/test_stream.py",
    "disque.core.commands.helped": "tests/core/commands/test_server.py",
    "disque.core.dedup.outcomes": "tests/core/dedup/test_acquire.py",
    "disque.core.jobs.defaults": "tests/core/commands/test_qconfig.py",  # what ADDJOB makes of what was set
    "disque.core.replication.queue_options": "tests/core/commands/test_qconfig.py",
    "disque.core.jobs.restore": "tests/core/journal/test_kinds.py",  # with all that a start finds
    "disque.core.journal.checks": "tests/core/journal/test_replay.py",  # nonsense of every kind, replayed
    "disque.core.journal.codec": "tests/core/journal/test_replay.py",  # written, and read again
    "disque.core.journal.recovery": "tests/core/journal/test_replay.py",
    "disque.core.model.ack_batch": "tests/core/replication/test_ack_batches.py",  # plain data, and what is done with it
    "disque.core.model.acl_log": "tests/core/commands/test_acl.py",
    "disque.core.model.catalog": "tests/core/commands/test_acl.py",
    "disque.core.model.claims": "tests/core/auth/test_access.py",  # what each command claims
    "disque.core.model.patterns": "tests/core/auth/test_rules.py",
    "disque.core.model.user": "tests/core/auth/test_rules.py",
    "disque.core.model.acks": "tests/core/replication/test_acks.py",
    "disque.core.jobs.relocate": "tests/core/commands/test_relocate.py",
    "disque.core.model.moves": "tests/core/replication/test_moves.py",
    "disque.core.model.copies": "tests/core/replication/test_coordinator.py",
    "disque.core.model.flow": "tests/core/model/test_demand.py",
    "disque.core.model.waiter": "tests/core/model/test_queue.py",
    "disque.core.model.key": "tests/core/dedup/test_keys.py",
    "disque.core.model.request": "tests/core/jobs/test_add.py",
    "disque.core.model.unique": "tests/core/dedup/test_keys.py",
    "disque.core.model.outcome": "tests/core/dedup/test_acquire.py",
    "disque.core.model.part": "tests/core/support.py",  # counted anew after every step of every test
    "disque.core.model.votes": "tests/core/replication/test_arbitration.py",
    "disque.core.model.sliced": "tests/core/jobs/test_bulk.py",
    "disque.core.model.vote": "tests/core/replication/test_arbitration.py",
    "disque.core.model.zones": "tests/core/replication/test_zoning.py",
    "disque.gateway.guard": "tests/gateway/test_pages.py",  # who may do what, tried where it is asked
    "disque.gateway.health": "tests/gateway/test_app.py",
    "disque.gateway.hub": "tests/gateway/test_app.py",
    "disque.gateway.lmstfy.call": "tests/gateway/lmstfy/test_api.py",  # what is answered, to the byte
    "disque.gateway.rest.operation": "tests/gateway/rest/test_api.py",
    "disque.gateway.rest.shapes": "tests/gateway/rest/test_jobs.py",  # jobs as they are shown
    "disque.gateway.options": "tests/gateway/test_settings.py",
    "disque.tasks.chains": "tests/tasks/test_testing.py",  # whole chains, in memory
    "disque.tasks.context": "tests/tasks/test_execute.py",
    "disque.tasks.cpu_child": "tests/tasks/test_cpu.py",  # both ends of the pipe
    "disque.tasks.door": "tests/tasks/test_app.py",  # both doors, to a node
    "disque.tasks.handle": "tests/tasks/test_testing.py",
    "disque.tasks.held": "tests/tasks/test_execute.py",
    "disque.tasks.middleware": "tests/tasks/test_app.py",
    "disque.tasks.task": "tests/tasks/test_app.py",
    "disque.django.management.commands.disque_worker": "tests/django/test_worker.py",  # as a process, too
    "disque.server.background": "tests/server/test_journal.py",  # the journal with a fake of each of these four
    "disque.server.disk": "tests/server/test_journal.py",
    "disque.server.pending": "tests/server/test_journal.py",
    "disque.server.segment_file": "tests/server/test_journal.py",
}

#: A bound against files that nobody can hold in the head. Splits follow concepts, not lengths: tables may be long.
LINES_OF_MODULE: Final = 700
LINES_OF_FUNCTION: Final = 60
#: Functions that are long on purpose: the whole state of a node, each part said once.
LONG_ON_PURPOSE: Final = {("disque.core.node", "__init__")}


class Import(NamedTuple):
    """One imported module or name. `module` is as deep as it names a module of the project."""

    module: str
    name: str
    line: int
    when_checking_types: bool

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]


class Module(NamedTuple):
    """One source file."""

    name: str
    path: Path
    tree: ast.Module

    @cache  # noqa: B019 - modules() keeps them all
    def imports(self) -> list[Import]:
        found = Imports()
        found.visit(self.tree)
        return found.found

    @cache  # noqa: B019 - modules() keeps them all
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def is_below(self, *parts: str) -> bool:
        return is_below(self.name, *parts)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.nodes() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


class Imports(ast.NodeVisitor):
    """Collects imports at any depth."""

    def __init__(self) -> None:
        self.found: list[Import] = []
        self._when_checking_types = False

    def visit_If(self, node: ast.If) -> None:
        before = self._when_checking_types
        self._when_checking_types = before or ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for child in node.body:
            self.visit(child)
        self._when_checking_types = before
        for child in node.orelse:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.found.append(Import(alias.name, "", node.lineno, self._when_checking_types))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            module = node.module or ""
            deeper = f"{module}.{alias.name}"
            target = deeper if deeper in module_names() else module
            self.found.append(Import(target, alias.name, node.lineno, self._when_checking_types))


def is_below(name: str, *parts: str) -> bool:
    """Whether a module is one of the parts or inside one of them."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def paths() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def module_names() -> frozenset[str]:
    return frozenset(name_of(path) for path in paths())


@cache
def modules() -> list[Module]:
    return [Module(name_of(path), path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths()]


def pure_modules() -> list[Module]:
    return [module for module in modules() if module.is_below("disque.core", *PURE_CLUSTER)]


def allowed_for(module: str) -> tuple[str, ...]:
    """What the innermost part that a module belongs to may import of the project."""
    parts = [part for part in MAY_IMPORT if is_below(module, part)]
    return MAY_IMPORT[max(parts, key=len)] if parts else ()


def none_of(wrong: list[str]) -> None:
    """Fail with one line for each thing that breaks the rule."""
    assert not wrong, "\n" + "\n".join(sorted(wrong))


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


class TestDirections:
    def test_imports_go_one_way(self) -> None:
        wrong = [
            f"{module.name}:{one.line} imports {one.module}"
            for module in modules()
            for one in module.imports()
            if one.library in {*PACKAGES, "tests"}
            and one.module != "disque"  # the version
            and not is_below(one.module, *allowed_for(module.name))
        ]
        none_of(wrong)

    def test_the_package_itself_imports_nothing(self) -> None:
        imported = {one.library for module in modules() if module.name in PACKAGES for one in module.imports()}
        assert imported <= {"typing"}, "whoever imports any module of a package pays for what its __init__ imports"

    def test_the_modules_of_the_core_import_each_other_without_cycles_not_even_of_types(self) -> None:
        graph = {
            module.name: {one.module for one in module.imports()} & module_names() - {module.name}
            for module in pure_modules()
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(" imports ".join(reversed(error.args[1])))

    def test_all_others_do_too_but_for_those_that_belong_together(self) -> None:
        group = {name: names[0] for names in TOGETHER for name in names}
        graph: dict[str, set[str]] = {}
        for module in modules():
            name = group.get(module.name, module.name)
            others = {group.get(one.module, one.module) for one in module.imports() if one.module in module_names()}
            graph.setdefault(name, set()).update(others - {name})
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(" imports ".join(reversed(error.args[1])))

    @pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
    def test_those_that_belong_together_are_a_circle(self, names: tuple[str, ...]) -> None:
        graph = {
            module.name: {one.module for one in module.imports()} & set(names) - {module.name}
            for module in modules()
            if module.name in names
        }
        for name in names:
            reached, ahead = {name}, [name]
            while ahead:
                found = graph[ahead.pop()] - reached
                reached |= found
                ahead += found
            assert reached == set(names), f"{name} does not need them any more"

    def test_each_room_of_the_core_imports_what_is_below_it_only(self) -> None:
        wrong = [
            f"{module.name}:{one.line} imports {one.module}, which is above it"
            for module in pure_modules()
            if module.is_below("disque.core")
            for one in module.imports()
            if is_below(one.module, "disque.core") and storey(one.module) > storey(module.name)
        ]
        none_of(wrong)

    def test_what_everybody_points_at_knows_nothing_of_the_node(self) -> None:
        wrong = [
            f"{module.name}:{node.lineno} names Node"
            for module in pure_modules()
            if module.is_below("disque.core.base", "disque.core.config", "disque.core.model")
            for node in module.nodes()
            if (isinstance(node, ast.Name) and node.id == "Node")
            or (isinstance(node, ast.Constant) and node.value == "Node")
        ]
        none_of(wrong)


class TestPurity:
    def test_a_pure_module_imports_only_pure_libraries(self) -> None:
        wrong = [
            f"{module.name}:{one.line} imports {one.name or one.module} of {one.module}"
            for module in pure_modules()
            for one in module.imports()
            if one.library not in PACKAGES
            and one.library not in PURE_LIBRARIES
            and one.name not in PURE_NAMES.get(one.module, set())
        ]
        none_of(wrong)

    def test_a_pure_module_calls_nothing_that_reaches_outside(self) -> None:
        wrong = [
            f"{module.name}:{node.lineno} uses {node.id}"
            for module in pure_modules()
            for node in module.nodes()
            if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS
        ]
        none_of(wrong)

    def test_a_pure_module_does_not_ask_the_calendar_for_the_time(self) -> None:
        wrong = [
            f"{module.name}:{node.lineno} uses {node.attr}"
            for module in pure_modules()
            if any(one.library == "datetime" for one in module.imports())
            for node in module.nodes()
            if isinstance(node, ast.Attribute) and node.attr in {"now", "today", "utcnow"}
        ]
        none_of(wrong)


class TestWrittenDown:
    def test_every_setting_is_in_the_configuration_file(self) -> None:
        text = document("conf/disque.conf")
        names = set(re.findall(r"^#?([a-z-]+) ", text, re.MULTILINE))
        assert {setting.name for setting in SETTINGS} - names == set()

    def test_every_message_is_handled(self) -> None:
        assert set(step.MESSAGES) | step.OF_MEMBERSHIP == set(messages.KINDS)
        assert not set(step.MESSAGES) & step.OF_MEMBERSHIP

    def test_each_part_that_knows_jobs_is_asked_to_forget_one(self) -> None:
        """`Node._part_with` names them, so that a plain job is not looked for in all."""
        text = (ROOT / "disque/core/node.py").read_text()
        (parts,) = re.findall(r"self\.parts: .*?= \(\s*\*\((.*?)\)", text)
        (body,) = re.findall(r"def _part_with\(.*?(?=\n    def )", text, re.DOTALL)
        assert sorted(re.findall(r"self\.(\w+)\.drop_job\(job\)", body)) == sorted(re.findall(r"self\.(\w+)", parts))

    def test_the_map_of_the_code_is_complete(self) -> None:
        written = set(re.findall(r"[\w*]+(?:\.py|/)", document("docs/architecture.md")))
        names = [
            path.name + "/" * path.is_dir()
            for package in PACKAGES
            for path in (ROOT / package).rglob("*")
            if (path.suffix == ".py" and path.stem != "__init__") or (path.is_dir() and any(path.rglob("*.py")))
        ]
        none_of([name for name in names if not any(fnmatch(name, word) for word in written)])

    def test_every_module_says_what_it_is(self) -> None:
        none_of([module.name for module in modules() if not ast.get_docstring(module.tree)])


class TestTested:
    def test_every_module_that_does_something_has_a_test_that_mirrors_it(self) -> None:
        wrong = [
            f"{module.name}: no {test}"
            for module in modules()
            if any(map(does_something, module.functions())) and not (ROOT / (test := file_of(module))).exists()
        ]
        none_of(wrong)

    def test_what_is_tested_elsewhere_exists_and_has_no_mirror(self) -> None:
        assert set(TESTED_ELSEWHERE) <= module_names()
        mirrored = [name for name in TESTED_ELSEWHERE if (ROOT / mirror_of(name)).exists()]
        assert mirrored == [], "take them off the list"

    def test_a_stale_binary_is_found(self, tmp_path: Path) -> None:
        source, binary = tmp_path / "disque" / "core" / "job.py", tmp_path / "disque__mypyc.so"
        source.parent.mkdir(parents=True)
        source.touch()
        assert stale_binaries(tmp_path) == []
        binary.touch()
        os.utime(source, ns=(2000, 2000))
        os.utime(binary, ns=(1000, 1000))
        assert stale_binaries(tmp_path) == [binary]
        os.utime(binary, ns=(3000, 3000))
        assert stale_binaries(tmp_path) == []

    def test_a_free_port_has_room_for_the_bus(self, free_port: int) -> None:
        assert is_free(free_port)
        assert is_free(free_port + BUS_PORT_OFFSET)


def storey(name: str) -> int:
    """How high a module of the core stands."""
    return max((len(room), at) for at, rooms in enumerate(STOREYS) for room in rooms if is_below(name, room))[1]


def does_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is more in a function than its docstring: a protocol has nothing that could be tested."""
    return len(function.body) > 1 or not isinstance(function.body[0], ast.Expr)


def file_of(module: Module) -> str:
    return TESTED_ELSEWHERE.get(module.name) or mirror_of(module.name)


def mirror_of(name: str) -> str:
    """The test file of a module: `disque.core.model.job` is tested in tests/core/model/test_job.py."""
    folders, _, last = name.removeprefix("disque.").rpartition(".")
    return str(Path("tests", *folders.split("."), f"test_{last}.py"))


class TestCompiled:
    def test_no_test_changes_what_the_compiled_core_has_built_in(self) -> None:
        texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
        changed = {
            pair for text in texts for pair in re.findall(r"setattr\(\"?[\w.]*?(\w+)(?:, \"|\.)([A-Z_]+)\"", text)
        }
        assert ("deliver", "SERVE_MOST") in changed
        wrong = [
            f"{module.name}:{node.lineno} {node.target.id} is Final: a test can change it where the core is plain only"
            for module in pure_modules()
            for node in module.tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            if (module.name.rpartition(".")[2], node.target.id) in changed
        ]
        none_of(wrong)


class TestLength:
    def test_no_module_is_long(self) -> None:
        lengths = {module.name: len(module.path.read_bytes().splitlines()) for module in modules()}
        none_of([f"{name}: {lines} lines" for name, lines in lengths.items() if lines > LINES_OF_MODULE])

    def test_no_function_is_long(self) -> None:
        wrong = [
            f"{module.name}:{function.lineno} {function.name}: {lines} lines"
            for module in modules()
            for function in module.functions()
            if (lines := (function.end_lineno or 0) - function.lineno + 1) > LINES_OF_FUNCTION
            and (module.name, function.name) not in LONG_ON_PURPOSE
        ]
        none_of(wrong)
