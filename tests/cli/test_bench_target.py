"""What is believed of a server's INFO."""

import os
import time
from types import SimpleNamespace

import psutil
import pytest

from disque.cli.bench_options import Address
from disque.cli.bench_target import Usage, cpu_s_of, is_local, local_process, parse_info, usage_of_info

HERE = Address("127.0.0.1", 7711)


def own_info(uptime_s: float) -> dict[str, str]:
    return {"process_id": str(os.getpid()), "uptime_in_seconds": str(int(uptime_s))}


def own_age_s() -> float:
    return time.time() - psutil.Process().create_time()


def test_a_process_of_this_host_that_is_as_old_as_it_says_is_believed() -> None:
    process = local_process(HERE, own_info(own_age_s()))
    assert process is not None
    assert process.pid == os.getpid()


def test_a_process_of_another_age_is_somebody_else() -> None:
    assert local_process(HERE, own_info(own_age_s() + 1000)) is None


@pytest.mark.parametrize("pid", ["", "x", "-1", "4194305"])
def test_no_process(pid: str) -> None:
    assert local_process(HERE, own_info(own_age_s()) | {"process_id": pid}) is None


def test_a_process_of_another_host_is_not_looked_for() -> None:
    assert local_process(Address("192.0.2.1", 7711), own_info(own_age_s())) is None


@pytest.mark.parametrize("address", [HERE, Address("127.9.9.9", 1), Address("::1", 1), Address(unix_path="/s")])
def test_this_host(address: Address) -> None:
    assert is_local(address)


def test_info_is_read_by_lines() -> None:
    assert parse_info("# Server\r\na:1\r\n\r\nb:x:y\r\nnonsense\r\n") == {"a": "1", "b": "x:y"}


def test_usage_from_info() -> None:
    info = {"used_cpu_sys": "1.5", "used_cpu_user": "2.25", "used_memory_rss": "4096"}
    assert usage_of_info(info) == Usage(3.75, 4096)
    assert usage_of_info({"used_cpu_sys": "nan", "used_memory_rss": "a lot"}) == Usage(0.0, 0)


class Scripted:
    """A process of which psutil says this much, and whose threads are those of this one."""

    def __init__(self, user_s: float) -> None:
        self.pid = os.getpid()
        self._user_s = user_s

    def cpu_times(self) -> SimpleNamespace:
        return SimpleNamespace(user=self._user_s, system=0.0)


def test_the_cpu_of_a_process_is_what_the_system_counts() -> None:
    process = psutil.Process()
    coarse = process.cpu_times()
    assert abs(cpu_s_of(process) - coarse.user - coarse.system) < 0.5


def test_threads_that_have_ended_are_in_the_coarse_sum_only() -> None:
    assert cpu_s_of(Scripted(1e6)) == 1e6  # type: ignore[arg-type]  # it has what is used of a process
