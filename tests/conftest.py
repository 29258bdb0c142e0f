"""What all tests share: tools that may be missing, real nodes, free ports, and how hypothesis searches.

A test that needs a program of another project asks for it by a fixture (`redis_cli`, `redis_server`,
`redis_benchmark`) and is skipped where it is missing; what was skipped is listed before the last line. With CI=true
nothing may be skipped, but for what the system of the machine refuses to everybody: network namespaces.

Helpers of several test files live beside them and are imported by their full name, as `tests.core.support`.
"""

import gc
import os
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.end_to_end.cluster import Cluster
    from tests.end_to_end.node import Node

ROOT: Final = Path(__file__).parent.parent
IN_CI: Final = os.environ.get("CI", "").lower() == "true"
#: What becomes of tests that are slow or rare (marked `slow`, and the long searches of hypothesis): `no`, they are left
#: out and the searches are short; `also`; `only`.
SLOW: Final = os.environ.get("SLOW") or "no"

FORM: Final = os.environ.get("DISQUE_CORE") or "plain"

#: Program and the Debian package that brings it.
TOOLS: Final = {
    "chromium": "chromium",
    "ip": "iproute2",
    "promtool": "prometheus",
    "redis-benchmark": "redis-tools",
    "redis-cli": "redis-tools",
    "redis-server": "redis-server",
}

#: Where tests only compute: they can run beside any others.
COMPUTING: Final = ("tests/core/", "tests/scenarios/", "tests/simulation/")
#: What takes longest begins first: the tests with Java, all in one process, and those with real nodes, file by file.
SPARK: Final = "tests/spark/"
PROCESSES: Final = "tests/end_to_end/"

#: So begin the reasons of the skips that CI allows.
NO_NAMESPACES: Final = "network namespaces cannot be made here"
PLAIN_ONLY: Final = "only where the core is plain"

#: Below the ports that systems give to outgoing connections, those of the bus (port + 10000) included.
PORTS: Final = range(12_000, 22_000)
BUS_PORT_OFFSET: Final = 10_000

# A machine under load is slow, which is no property of the code: no deadlines.
# In CI a failure must be about the change, not about the luck of the search: no randomness.
settings.register_profile("local", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)


def examples(most: int) -> int:
    """How many examples hypothesis tries of a search that is long: a part of them where slow tests are left out."""
    return max(10, most // 8) if SLOW == "no" else most


def rarely(*values: object) -> list[ParameterSet]:
    """Values of a parameter that only `make test-all` tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def pytest_configure(config: pytest.Config) -> None:
    if SLOW not in {"no", "also", "only"}:
        raise pytest.UsageError(f"SLOW is no, also or only, not {SLOW!r}")
    config.addinivalue_line("markers", "plain_only(reason): cannot be tested where the core is compiled")
    config.addinivalue_line("markers", "slow: takes seconds, and what it could find is rare: only in make test-all")
    settings.load_profile("ci" if IN_CI else "local")
    stale = stale_binaries(ROOT)
    if stale:
        names = " ".join(str(path.relative_to(ROOT)) for path in stale)
        raise pytest.UsageError(f"compiled from older sources, remove or build them anew: {names}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_slow_ones(config, items)
    items[:] = mixed(items)
    for item in items:
        mark = item.get_closest_marker("plain_only")
        if mark is not None and FORM != "plain":
            item.add_marker(pytest.mark.skip(reason=f"{PLAIN_ONLY}: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    """What was collected is there to the end: the collector of cycles need not walk through all of it in each test."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Divide the tests among processes."""
    from xdist.scheduler.loadscope import LoadScopeScheduling  # noqa: PLC0415 - it may be missing

    class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # it is untyped
        """The tests of a folder or file that look at clocks stay in one process."""

        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ByFolder(config, log)


def scope_of(nodeid: str) -> str:
    """Tests of one scope run in one process, one after the other."""
    if nodeid.startswith(COMPUTING):
        return nodeid
    path = nodeid.partition("::")[0]
    return path if path.startswith(PROCESSES) else "/".join(path.split("/")[:2])


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put tests that compute between those that wait for something, so that some process always has work to do."""
    computing = [item for item in items if item.nodeid.startswith(COMPUTING)]
    waiting = [item for item in items if not item.nodeid.startswith(COMPUTING)]
    waiting.sort(key=lambda item: (not item.nodeid.startswith(SPARK), not item.nodeid.startswith(PROCESSES)))
    scopes = [list(scope) for _, scope in groupby(waiting, lambda item: scope_of(item.nodeid))]
    order: list[pytest.Item] = []
    for number, scope in enumerate(scopes):
        begin, end = (len(computing) * at // len(scopes) for at in (number, number + 1))
        order += scope + computing[begin:end]
    return order if scopes else computing


def leave_out_slow_ones(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what SLOW says; a test that is named with its file is always wanted."""
    if SLOW == "also" or any("::" in word for word in config.args):
        return
    wanted = [item for item in items if is_slow(item) == (SLOW == "only")]
    if SLOW == "only":
        wanted = [item for item in items if is_slow(item) or is_search(item)]
    left_out = set(items) - set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = wanted


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def is_search(item: pytest.Item) -> bool:
    """Whether hypothesis makes the examples: there are more of them where slow tests run."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def pytest_report_header() -> str:
    return f"core: {FORM}, slow tests: {SLOW}"


def stale_binaries(root: Path) -> list[Path]:
    """Compiled modules of the project that are older than one of its sources, so that they would be tested instead."""
    compiled = [path for place in ("disque", "cluster") for path in (root / place).rglob("*.so")]
    compiled += root.glob("disque__mypyc*.so")
    if not compiled:
        return []
    sources = [path for place in ("disque", "cluster") for path in (root / place).rglob("*.py")]
    newest = max((path.stat().st_mtime_ns for path in sources), default=0)
    return sorted(path for path in compiled if path.stat().st_mtime_ns < newest)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and not may_be_skipped(report):
        report.outcome = "failed"
        report.longrepr = f"{reason_of(report)}; with CI=true nothing may be skipped"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = Counter(reason_of(report) for report in terminalreporter.getreports("skipped"))
    if not skipped:
        return
    terminalreporter.section("not tested")
    for reason, count in sorted(skipped.items()):
        terminalreporter.line(f"{count} skipped: {reason}")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped, without place and prefix."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def may_be_skipped(report: pytest.TestReport) -> bool:
    """Whether a test cannot run whatever is installed: some machines let not even root make a network."""
    return reason_of(report).startswith((NO_NAMESPACES, PLAIN_ONLY))


def path_of(tool: str) -> str:
    """The path of a program of another project; skips the test that asks when it is missing."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is missing: apt-get install {TOOLS[tool]}")
    return path


@pytest.fixture(scope="session")
def redis_cli() -> str:
    return path_of("redis-cli")


@pytest.fixture(scope="session")
def redis_server() -> str:
    return path_of("redis-server")


@pytest.fixture(scope="session")
def redis_benchmark() -> str:
    return path_of("redis-benchmark")


@contextmanager
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Node"]:
    """A real node, for as long as wanted."""
    from tests.end_to_end.node import Node  # noqa: PLC0415 - what it needs may be missing

    one = Node(tmp_path_factory.mktemp("node"))
    try:
        yield one.start()
    finally:
        one.discard()


def emptied(one: "Node") -> Iterator["Node"]:
    """Give a node without the jobs, queues and keys of other tests; settings, users and schedules stay."""
    assert one.ask("DEBUG", "FLUSHALL") == b"OK"
    yield one
    one.hang_up()


@pytest.fixture(scope="session")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Node"]:
    """Give a node that all tests of a process share."""
    with serving(tmp_path_factory) as one:
        yield one


@pytest.fixture
def node(one_node: "Node") -> Iterator["Node"]:
    """Give that node, empty."""
    yield from emptied(one_node)


@pytest.fixture
def cluster(tmp_path: Path) -> "Iterator[Cluster]":
    """Give three nodes."""
    from tests.end_to_end.cluster import Cluster  # noqa: PLC0415 - what it needs may be missing

    three = Cluster(tmp_path, 3)
    try:
        three.start_whole()
        yield three
    finally:
        three.discard()


@pytest.fixture
def free_port(new_port: Callable[[], int]) -> int:
    """A loopback port for one server; the port of its bus is free too."""
    return new_port()


@pytest.fixture(scope="session")
def new_port() -> Callable[[], int]:
    """Give a free port with each call, never one twice."""
    given: set[int] = set()
    random = SystemRandom()  # hypothesis seeds the common one, and several test runs share a machine

    def draw() -> int:
        while True:
            port = random.choice(PORTS)
            if port not in given and is_free(port) and is_free(port + BUS_PORT_OFFSET):
                given.add(port)
                return port

    return draw


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
