"""What the checker of capabilities lets pass, and what it does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.capabilities import JOBS
from tests.core.support import Bench
from tests.simulation.checks.understood import Understood
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Request
from tests.simulation.options import Options
from tests.simulation.process import Process
from tests.simulation.world import Violation, World


def test_what_the_last_handshake_said_counts() -> None:
    bench = Bench(peers=1)
    peer = bench.peers[0].id
    checker = Understood(Cluster(World(Options(1, 2, mixed=True))))
    process = Process.__new__(Process)
    process.node = bench.node
    process.name = "n0"
    words: Any = SimpleNamespace(verb=b"ADDJOB", args=[b"ADDJOB", b"q", b"b", b"0", b"RETAIN", b"2"])
    request: Request = words
    checker.ran(process, request, b"+OK\r\n")
    checker.learnt(process, peer, JOBS - 1)
    checker.ran(process, request, b"-ERR\r\n")
    with pytest.raises(Violation, match="does not know"):
        checker.ran(process, request, b"+OK\r\n")
    checker.learnt(process, peer, JOBS)
    checker.ran(process, request, b"+OK\r\n")
