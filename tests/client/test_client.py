"""Both clients as a whole, against servers on loopback."""

import asyncio
import os
import pickle
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from disque.client import AsyncDisque, Config, Disque, NewJob, UnavailableError, json_body
from disque.client.async_pool import AsyncInterrupt
from disque.client.pool import Interrupt
from tests.client.fake import A, B, Hands, MakeHands, Words, config, job_id, lost
from tests.client.served import Served
from tests.support import certificates


@contextmanager
def hands_on(kind: str, settings: Config) -> Iterator[Hands]:
    """A client with real connections."""
    client: Any = Disque(settings) if kind == "blocking" else AsyncDisque(settings)
    with asyncio.Runner() as runner:
        hands = Hands(client, runner)
        try:
            yield hands
        finally:
            hands.wait(client.close() if kind == "blocking" else client.aclose())


def count(words: Words) -> bytes:
    """Answers with the length of the last word."""
    return b":%d\r\n" % len(words[-1])


def test_a_url_is_enough(kind: str) -> None:
    of_kind = Disque if kind == "blocking" else AsyncDisque
    made = of_kind.from_url("disque://me:hush@a:1,b:2")
    assert of_kind("disque://me:hush@a:1,b:2").config == made.config
    assert made.config == Config(nodes=(("a", 1), ("b", 2)), user="me", password="hush")
    assert "a:1, b:2" in repr(made)
    assert "hush" not in repr(made)


def test_nothing_is_connected_before_it_is_needed(kind: str) -> None:
    with Served(count) as served:
        with hands_on(kind, Config(nodes=(served.address,))):
            pass
        assert served.connections == 0


def test_it_travels_as_its_configuration(kind: str) -> None:
    with Served(count) as served, hands_on(kind, Config(nodes=(served.address,))) as hands:
        assert hands.queue_length("four") == 4
        again = pickle.loads(pickle.dumps(hands.client))
        assert type(again) is type(hands.client)
        assert again.config == hands.client.config
        other = Hands(again, hands.runner)
        assert other.queue_length("five5") == 5
        hands.wait(again.close() if kind == "blocking" else again.aclose())
        assert served.connections == 2


def test_it_can_be_used_again_when_it_was_closed(kind: str) -> None:
    with Served(count) as served, hands_on(kind, Config(nodes=(served.address,))) as hands:
        for _ in range(2):
            hands.inside(hands.client, lambda client: client.queue_length("q"))
        assert served.connections == 2


def test_other_nodes_are_learnt_and_used(kind: str) -> None:
    with Served(count) as one, Served(count) as two, hands_on(kind, config(one.address)) as hands:
        one.tells(two.address)
        assert hands.queue_length("q") == 1
        one.answer = lambda _words: None
        assert hands.queue_length("q") == 1
        assert [words[0] for words in two.requests] == [b"HELLO", b"HELLO", b"QLEN"]


def test_nodes_that_have_joined_are_learnt_when_it_looks(kind: str) -> None:
    with Served(count) as one, hands_on(kind, config(one.address)) as hands:
        hands.look()
        one.tells(A, B)
        assert hands.client.router.addresses() == [one.address]
        hands.look()
        assert hands.client.router.addresses() == [one.address, A, B]
        assert one.connections == 1


def test_a_client_of_one_node_knows_no_other(make: MakeHands) -> None:
    hands = make(lambda _address, _words: 1, config(A, B))
    assert hands.client.at("c", 3).config == config(("c", 3), discover=False)


def test_many_new_jobs(make: MakeHands) -> None:
    hands = make(lambda _address, words: job_id(len(words[2])).encode())
    jobs = [("q", json_body({})), NewJob("q", "four")]
    assert hands.add_many(jobs, pipeline=1, retry=5) == [job_id(2), job_id(4)]
    assert hands.client._pool.nodes.sent("ADDJOB")[0][3:] == [b"RETRY", b"5"]


def test_pauses_are_made(make: MakeHands) -> None:
    hands = make(lambda _address, _words: lost(), config(attempts=3))
    with pytest.raises(UnavailableError):
        hands.ping()
    assert len(hands.client._pool.nodes.log) == 3


def test_a_fetch_that_is_interrupted_is_no_failure(make: MakeHands) -> None:
    hands = make(lambda _address, _words: lost(), config(attempts=3))
    interrupt: Any = AsyncInterrupt() if isinstance(hands.client, AsyncDisque) else Interrupt()
    interrupt.end()
    assert hands.take(["q"], 1, interrupt, None) == []


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        return os.fork()


class TestThreads:
    def test_any_number_may_share_a_client(self) -> None:
        with Served(count) as served, Disque(Config(nodes=(served.address,))) as disque:
            seen: list[int] = []

            def work(length: int) -> None:
                seen.extend(disque.queue_length("x" * length) - length for _ in range(50))

            threads = [threading.Thread(target=work, args=(length,)) for length in range(1, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert seen == [0] * 400
            assert served.connections <= 8

    def test_a_child_process_goes_on_with_connections_of_its_own(self) -> None:
        with Served(count) as served, Disque(Config(nodes=(served.address,))) as disque:
            assert disque.queue_length("four") == 4
            disque.router._lock.acquire()  # as another thread may hold it when the process forks
            child = fork()
            if child == 0:
                length = 0
                try:
                    length = disque.queue_length("four5")
                finally:
                    os._exit(length != 5)
            disque.router._lock.release()
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert disque.queue_length("four") == 4
            assert served.connections == 2


class TestTls:
    def context(self, *, ask: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificates.pair("server"))
        if ask:
            context.load_verify_locations(certificates.AUTHORITY)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def settings(self, served: Served, query: str) -> Config:
        return Config.from_url(f"disques://127.0.0.1:{served.address[1]}?attempts=1&{query}")

    def refused(self, kind: str, query: str, why: str, context: ssl.SSLContext | None) -> None:
        with (
            Served(count, context) as served,
            hands_on(kind, self.settings(served, query)) as hands,
            pytest.raises(UnavailableError, match=why),
        ):
            hands.queue_length("q")

    def test_a_server_of_a_known_authority(self, kind: str) -> None:
        query = f"ca={certificates.AUTHORITY}"
        with Served(count, self.context()) as served, hands_on(kind, self.settings(served, query)) as hands:
            assert hands.queue_length("four") == 4

    def test_a_server_of_an_unknown_authority_is_refused(self, kind: str) -> None:
        self.refused(kind, "verify=yes", "certificate verify failed", self.context())

    def test_unless_nobody_looks(self, kind: str) -> None:
        with Served(count, self.context()) as served, hands_on(kind, self.settings(served, "verify=no")) as hands:
            assert hands.queue_length("four") == 4

    def test_a_server_that_wants_to_know_its_clients(self, kind: str) -> None:
        certificate, key = certificates.pair("client")
        query = f"ca={certificates.AUTHORITY}&cert={certificate}&key={key}"
        with Served(count, self.context(ask=True)) as served, hands_on(kind, self.settings(served, query)) as hands:
            assert hands.queue_length("four") == 4

    def test_a_file_that_is_not_there(self, kind: str) -> None:
        self.refused(kind, "ca=/no/such", "No such file", self.context())

    def test_a_server_without_tls(self, kind: str) -> None:
        self.refused(kind, "timeout_ms=500", "127.0.0.1", None)


def test_a_plain_client_of_redis_py() -> None:
    with Served(count) as served:
        with Disque(Config(nodes=(served.address,), password="p")) as disque:
            for plain in (disque.redis(), disque.redis(*served.address)):
                with plain:
                    assert plain.execute_command("QLEN", "four") == 4
        assert served.requests[0] == [b"HELLO", b"3", b"AUTH", b"default", b"p"]
