from typing import Any, cast

import pytest

from cluster.messages import ENQUEUE, GOTJOB
from disque.core.base.timers import NEVER
from disque.core.journal.schema import DELETE
from disque.core.model.pubsub import ADDED
from disque.server.pump import TELL_EVERY_S, loopback, shown
from tests.server.shell import Shell, Writer

ADD = b"ADDJOB q body 0\r\n"
PING = b"PING\r\n"


@pytest.mark.parametrize(
    "peer", [("127.0.0.1", 1), ("127.8.8.8", 1), ("::1", 1, 0, 0), ("::ffff:127.0.0.1", 1, 0, 0), None, "", ()]
)
def test_this_machine_itself(peer: object) -> None:
    assert loopback(peer)


@pytest.mark.parametrize(
    "peer", [("10.0.0.1", 1), ("0.0.0.0", 1), ("fe80::1", 1, 0, 2), ("::ffff:10.0.0.1", 1, 0, 0), ("1.127.0.1", 1)]
)
def test_other_machines(peer: object) -> None:
    assert not loopback(peer)


@pytest.mark.parametrize(
    ("address", "text"),
    [(("127.0.0.1", 50), b"127.0.0.1:50"), (("::1", 50, 0, 0), b"[::1]:50"), (None, b"?:0"), ("", b"?:0")],
)
def test_addresses_as_they_are_shown(address: object, text: bytes) -> None:
    assert shown(address, b"?:0") == text


def test_protected_mode_lets_only_this_machine_in() -> None:
    shell = Shell()
    _, transport = shell.connect(("10.0.0.1", 1))
    assert transport.take().startswith(b"-DENIED Disque runs in protected mode")
    assert transport.closed
    assert shell.node.stats.rejected == 1
    assert shell.node.sessions == {}


@pytest.mark.parametrize("options", [{"requirepass": "secret"}, {"protected_mode": "no"}])
def test_a_password_or_a_setting_lets_others_in(options: dict[str, str]) -> None:
    _, transport = Shell(**options).connect(("10.0.0.1", 1))
    assert not transport.closed


def test_a_unix_socket_is_this_machine() -> None:
    shell = Shell()
    client, transport = shell.connect("", "/run/disque.sock")
    assert not transport.closed
    assert client.session.address == b"/run/disque.sock:0"


@pytest.mark.parametrize(
    ("peer", "path", "local"),
    [(("127.0.0.1", 1), "", True), (("::1", 1, 0, 0), "", True), ("", "s", True), (("10.0.0.1", 1), "", False)],
)
def test_the_core_knows_who_is_on_this_machine(peer: object, path: str, local: bool) -> None:
    client, _ = Shell(protected_mode="no").connect(peer, path)
    assert client.session.local == local


def test_one_client_too_many() -> None:
    shell = Shell()
    shell.pump.maxclients = 1
    first, _ = shell.connect()
    _, late = shell.connect()
    assert late.take() == b"-ERR max number of clients reached\r\n"
    first.connection_lost(None)
    _, again = shell.connect()
    assert not again.closed


def test_the_journal_is_written_before_replies_leave() -> None:
    shell = Shell()
    writer = shell.journal()
    client, _ = shell.connect()
    assert shell.ask(client, ADD * 5).count(b"-05a1\r\n") == 5
    assert len(writer.payloads) == 1, "one record for what came together"


def test_a_reply_waits_until_its_record_is_safe_and_others_do_not() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    producer, held = shell.connect()
    reader, _ = shell.connect()
    assert shell.ask(producer, ADD) == b""
    assert shell.ask(reader, PING) == b"+PONG\r\n"
    assert shell.ask(producer, PING) == b"", "replies stay in order"
    writer.safe = writer.sequence
    shell.pump.release()
    assert held.take().endswith(b"+PONG\r\n")


def test_who_needs_no_password_may_send_large_requests_after_a_wrong_one() -> None:
    shell = Shell()
    client, _ = shell.connect()
    assert shell.ask(client, b"AUTH somebody wrong\r\n").startswith(b"-WRONGPASS")
    large = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$20000\r\n" + b"x" * 20_000 + b"\r\n$1\r\n0\r\n"
    assert shell.ask(client, large).startswith(b"+D-")


def add(timeout_ms: int) -> bytes:
    return b"ADDJOB q body %d\r\n" % timeout_ms


LATE = (
    b"-NOREPL Timeout reached before the journal could be written (No space left on device). "
    b"The job may still be delivered\r\n"
)


class TestFullDisk:
    """The journal takes nothing and says so, from the first record on."""

    @pytest.fixture
    def shell(self) -> Shell:
        shell = Shell()
        writer = self.writer = shell.journal()
        writer.hold = True
        writer.failing = "No space left on device"
        shell.pump.look_at_health = lambda: self.look(shell)
        return shell

    def look(self, shell: Shell) -> None:
        """What the owner of the journal does."""
        failing = self.writer.failing.encode()
        shell.node.misconf = failing and b"MISCONF " + failing
        if failing:
            shell.pump.journal_fails()

    def fire_until(self, shell: Shell, after_ms: int) -> None:
        """Let time pass, and the timer fire, due or not."""
        shell.clock.ms += after_ms
        for handle in shell.loop.waiting():
            handle.cancel()
        shell.pump.on_timer()
        shell.loop.settle()

    def test_an_addjob_gets_an_error_when_its_timeout_is_over(self, shell: Shell) -> None:
        client, transport = shell.connect()
        assert shell.ask(client, add(5000)) == b""
        self.fire_until(shell, 4000)
        assert transport.take() == b""
        shell.clock.ms += 1000
        assert shell.fire() == pytest.approx(1.0)
        assert transport.take() == LATE
        assert shell.ask(client, b"QLEN q\r\n") == b":1\r\n", "the job is there, and may be delivered"
        assert shell.ask(client, add(5000)) == b"-MISCONF No space left on device\r\n"

    def test_what_becomes_safe_before_is_answered_as_ever_and_later_nothing_more(self, shell: Shell) -> None:
        (early, one), (late, two) = shell.connect(), shell.connect()
        early.data_received(add(5000))
        late.data_received(add(1000))
        shell.loop.settle()
        self.fire_until(shell, 1000)
        assert (one.take(), two.take()) == (b"", LATE)
        self.writer.failing, self.writer.hold = "", False
        self.writer.safe = self.writer.sequence
        self.look(shell)
        shell.pump.release()
        assert one.take().startswith(b"+D-")
        self.fire_until(shell, 9000)
        assert (one.take(), two.take()) == (b"", b"")
        assert shell.ask(late, add(1000)).startswith(b"+D-")

    def test_pipelined_addjobs_are_answered_in_order_with_the_errors_behind_them(self, shell: Shell) -> None:
        client, transport = shell.connect()
        shell.ask(client, add(3000) + add(2000) + add(0))
        assert shell.ask(client, add(1000)) == b"", "it is refused, behind those"
        self.fire_until(shell, 2000)
        assert transport.take() == LATE * 3 + b"-MISCONF No space left on device\r\n"
        assert not client.session.out

    def test_other_replies_wait_for_the_journal_and_what_is_behind_them_waits_too(self, shell: Shell) -> None:
        client, transport = shell.connect()
        shell.ask(client, add(1000) + b"GETJOB FROM q\r\n" + add(1000))
        self.fire_until(shell, 1000)
        assert transport.take() == LATE
        self.fire_until(shell, 1000)
        assert transport.take() == b""
        self.writer.safe = self.writer.sequence
        shell.pump.release()
        answer = transport.take()
        assert answer.startswith(b"*1\r\n*3\r\n$1\r\nq\r\n")
        assert answer.count(b"-05a1\r\n") == 2

    def test_without_a_timeout_it_waits(self, shell: Shell) -> None:
        client, transport = shell.connect()
        shell.ask(client, add(0))
        assert not shell.pump._late_ms < NEVER
        self.fire_until(shell, 10_000_000)
        assert transport.take() == b""

    def test_the_timeout_of_an_earlier_one_counts_no_more(self, shell: Shell) -> None:
        client, transport = shell.connect()
        self.writer.hold, failing, self.writer.failing = False, self.writer.failing, ""
        assert shell.ask(client, add(1000)).startswith(b"+D-")
        shell.clock.ms += 2000
        self.writer.hold, self.writer.failing = True, failing
        shell.ask(client, PING + add(5000))
        self.fire_until(shell, 4999)
        assert transport.take() == b""
        assert client.session.answer_by_ms == shell.clock.ms + 1

    def test_a_write_that_fails_later_counts_as_well(self, shell: Shell) -> None:
        failing, self.writer.failing = self.writer.failing, ""
        client, transport = shell.connect()
        shell.ask(client, add(1000))
        self.fire_until(shell, 2000)
        assert transport.take() == b"", "a disk that is slow and says nothing is waited for"
        self.writer.failing = failing
        self.look(shell)
        shell.pump.flush()
        assert shell.fire() <= 0
        assert transport.take() == LATE

    def test_who_does_not_read_is_answered_when_it_does(self, shell: Shell) -> None:
        client, transport = shell.connect()
        shell.ask(client, add(1000))
        client.pause_writing()
        self.fire_until(shell, 1000)
        assert transport.take() == b""
        client.resume_writing()
        shell.loop.settle()
        self.fire_until(shell, 0)
        assert transport.take() == LATE

    def test_who_has_sent_all_is_answered_and_closed(self, shell: Shell) -> None:
        client, transport = shell.connect()
        shell.ask(client, add(1000))
        client.eof_received()
        shell.loop.settle()
        assert not transport.closed
        self.fire_until(shell, 1000)
        assert transport.take() == LATE
        assert transport.closed


def test_jobs_of_several_clients_in_one_record_all_wait_for_it() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    (first, one), (second, two) = shell.connect(), shell.connect()
    first.data_received(ADD)
    second.data_received(ADD)
    shell.loop.settle()
    assert len(writer.payloads) == 1
    assert one.take() == two.take() == b""
    writer.safe = writer.sequence
    shell.pump.release()
    assert one.take().startswith(b"+D-")
    assert two.take().startswith(b"+D-")


def test_what_was_written_is_kept_no_longer() -> None:
    shell = Shell()
    shell.journal()
    client, _ = shell.connect()
    shell.ask(client, ADD)
    assert shell.node.outbox._filed is None


def test_who_listens_hears_what_has_happened_when_its_record_is_safe() -> None:
    shell = Shell()
    writer = shell.journal()
    listener, ears = shell.connect()
    producer, _ = shell.connect()
    assert shell.ask(listener, b"PSUBSCRIBE job:added:*\r\n").startswith(b"*3\r\n$10\r\npsubscribe")
    shell.ask(producer, ADD)
    assert ears.take().count(b"job:added:q") == 1
    writer.hold = True
    shell.ask(producer, ADD)
    shell.ask(producer, PING)
    assert ears.take() == b""
    shell.pump.release()
    shell.loop.settle()
    assert ears.take() == b""
    writer.safe = writer.sequence
    shell.pump.release()
    shell.loop.settle()
    assert ears.take().count(b"job:added:q") == 1


def test_who_listens_hears_all_when_there_is_no_journal_any_more() -> None:
    shell = Shell()
    shell.journal().hold = True
    listener, ears = shell.connect()
    producer, _ = shell.connect()
    shell.ask(listener, b"PSUBSCRIBE job:added:*\r\n")
    ears.take()
    shell.ask(producer, ADD)
    shell.pump.journal = None
    shell.pump.release_all()
    shell.pump.schedule()
    shell.loop.settle()
    assert ears.take().count(b"job:added:q") == 1


def test_a_safe_record_of_one_does_not_free_the_reply_of_another() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    (first, one), (second, two) = shell.connect(), shell.connect()
    shell.ask(first, ADD)
    shell.ask(second, ADD)
    writer.safe = 1
    shell.pump.release()
    assert one.take()
    assert two.take() == b""


def test_without_a_journal_nothing_has_to_wait_and_the_next_one_counts_anew() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    (client, transport), (quiet, _) = shell.connect(), shell.connect()
    for _ in range(3):
        shell.ask(client, ADD)
        quiet.ticket = writer.sequence
    shell.pump.journal = None
    shell.pump.release_all()
    assert transport.take().count(b"-05a1\r\n") == 3
    shell.journal()
    assert shell.ask(quiet, ADD).count(b"-05a1\r\n") == 1


def test_nothing_is_flushed_twice_in_a_turn() -> None:
    shell = Shell()
    clients = [shell.connect()[0] for _ in range(10)]
    shell.loop.settle()
    for client in clients:
        client.data_received(PING)
    assert len(shell.loop.calls) == 1


def test_the_timer_is_armed_for_what_is_due_next() -> None:
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, b"GETJOB TIMEOUT 500 FROM q\r\n")
    assert armed_s(shell) == pytest.approx(0.5, abs=0.01)
    shell.clock.ms += 510
    shell.fire()
    assert transport.take() == b"*-1\r\n"


def test_an_earlier_due_time_replaces_a_later_one() -> None:
    shell = Shell()
    (one, _), (two, _) = shell.connect(), shell.connect()
    shell.ask(one, b"GETJOB TIMEOUT 5000 FROM q\r\n")
    shell.ask(two, b"GETJOB TIMEOUT 50 FROM q\r\n")
    assert armed_s(shell) == pytest.approx(0.05, abs=0.01)


def armed_s(shell: Shell) -> float:
    """For how long the timer is armed, after the node has looked at what comes in the next second."""
    while not (delay_s := shell.loop.waiting()[0].delay_s):
        shell.fire()
    return delay_s


def test_while_clients_are_paused_requests_wait_and_then_go_on() -> None:
    shell = Shell()
    (one, _), (two, transport) = shell.connect(), shell.connect()
    assert shell.ask(one, b"CLIENT PAUSE 1000\r\n") == b"+OK\r\n"
    assert shell.ask(two, PING) == b""
    shell.clock.ms += 1001
    shell.fire()
    assert transport.take() == b"+PONG\r\n"


def test_a_node_that_stops_looks_at_no_requests() -> None:
    shell = Shell()
    client, _ = shell.connect()
    shell.pump.stopping = True
    assert shell.ask(client, PING) == b""


def test_the_mark_for_slow_commands_is_the_lower_of_two() -> None:
    shell = Shell(slowlog_log_slower_than="20000", latency_monitor_threshold="5")
    assert shell.pump.slow_us == 5000
    shell.node.config.set_text("latency-monitor-threshold", "0")
    shell.pump.configure()
    assert shell.pump.slow_us == 20000
    shell.node.config.set_text("slowlog-log-slower-than", "-1")
    shell.pump.configure()
    assert shell.pump.slow_us == float("inf")


class Told:
    """Stands where the other nodes would be told."""

    def __init__(self) -> None:
        self.messages: list[object] = []

    def send(self, outbox: list[object]) -> None:
        self.messages += outbox

    def reconcile(self) -> None:
        """Nobody comes or goes."""


def test_what_was_to_be_said_of_jobs_before_a_reset_is_not_said_after_it() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    told = shell.pump.mesh = Told()  # type: ignore[assignment]  # two methods of it are all that the pump needs
    admin, _ = shell.connect()
    shell.node.messages.append((b"b0" * 20, (GOTJOB, (b"one",))))
    shell.ask(admin, ADD)
    shell.ask(admin, b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nRESET\r\n")
    shell.node.messages.append((b"b0" * 20, (GOTJOB, (b"two",))))
    shell.ask(admin, ADD)
    writer.safe = writer.sequence
    shell.pump.release()
    assert told.messages == [(b"b0" * 20, (GOTJOB, (b"two",)))]


def test_each_held_reply_waits_for_its_own_record() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    for _ in range(3):
        shell.ask(client, ADD)
    for safe in (1, 2, 3):
        writer.safe = safe
        shell.pump.release()
        assert transport.take().count(b"-05a1\r\n") == 1


def test_a_reply_that_joins_held_ones_does_not_leave_before_its_record_is_written() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    shell.ask(client, ADD)
    client.data_received(ADD)
    assert len(writer.payloads) == 1
    writer.safe = 1
    shell.pump.release()
    assert transport.take().count(b"-05a1\r\n") == 1
    shell.loop.settle()
    assert transport.take() == b""
    writer.safe = writer.sequence
    shell.pump.release()
    assert transport.take().count(b"-05a1\r\n") == 1


def test_a_client_that_goes_on_asking_gets_what_is_safe_meanwhile() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    shell.ask(client, ADD)
    for _ in range(10):
        shell.ask(client, ADD)
        writer.safe = writer.sequence - 1
        shell.pump.release()
        assert transport.take().count(b"-05a1\r\n") == 1


def test_jobs_in_the_replies_that_did_not_leave_go_back_and_the_others_do_not() -> None:
    shell = Shell()
    producer, _ = shell.connect()
    shell.ask(producer, b"ADDJOB q a 0 RETRY 0\r\n" + b"ADDJOB q b 0 RETRY 0\r\n")
    writer = shell.journal()
    writer.hold = True
    client, transport = shell.connect()
    shell.ask(client, b"GETJOB FROM q\r\n")
    shell.ask(client, b"GETJOB FROM q\r\n")
    writer.safe = 1
    shell.pump.release()
    assert transport.take().endswith(b"$1\r\na\r\n")
    client.connection_lost(None)
    [back] = shell.node.queues[b"q"].jobs()
    assert back.body == b"b"


def test_a_command_that_writes_the_journal_does_not_free_the_replies_behind_it() -> None:
    shell = Shell()
    writer = shell.journal()
    writer.hold = True

    def rewrite_journal() -> bool:
        shell.pump.write_journal(shell.clock.ms)
        return True

    shell.host.rewrite_journal = rewrite_journal  # type: ignore[method-assign]  # a host that does what a server does
    client, _ = shell.connect()
    assert shell.ask(client, b"BGREWRITEAOF\r\n" + ADD) == b""


def fail(_step: int) -> None:
    raise RuntimeError("a mistake")


def test_a_line_that_cannot_be_served_holds_back_nobody_else() -> None:
    shell = Shell()
    (waiting, _), (other, _) = shell.connect(), shell.connect()
    shell.ask(waiting, b"GETJOB FROM q\r\n")
    shell.node.retries.append(cast("Any", "no ADDJOB"))
    assert shell.ask(other, ADD).startswith(b"+D-")
    assert "Could not serve waiting consumers\nTraceback" in shell.log.lines[-1]
    assert not shell.node.ready


def test_what_is_due_later_happens_though_something_due_has_failed() -> None:
    shell = Shell()
    client, transport = shell.connect()
    shell.ask(client, b"GETJOB TIMEOUT 60000 FROM q\r\n")
    shell.node.chores.append(map(fail, range(1)))
    shell.fire()
    assert "RuntimeError: a mistake" in shell.log.lines[-1]
    shell.clock.ms += 60_000
    shell.fire()
    shell.fire()
    assert transport.take() == b"*-1\r\n"


class TestOtherNodes:
    """What the flush lets go to other nodes, and when."""

    PEER = b"b" * 40

    def tell(self, shell: Shell, number: int) -> None:
        """Something that depends on a record of this turn."""
        shell.node.outbox.add((DELETE, b"j" * 40))
        shell.node.messages.append((self.PEER, (ENQUEUE, b"j" * 40, number)))

    def sent(self, shell: Shell) -> list[object]:
        sent = [message[2] for _, message in cast("Any", shell.pump.mesh).sent]
        cast("Any", shell.pump.mesh).sent.clear()
        return sent

    def meshed(self) -> tuple[Shell, Writer]:
        shell = Shell()
        shell.pump.mesh = cast("Any", FakeMesh())
        return shell, shell.journal()

    def test_messages_leave_behind_the_journal_and_before_replies(self) -> None:
        shell, writer = self.meshed()
        order: list[str] = []
        client, transport = shell.connect()
        cast("Any", writer).flush = lambda: order.append("journal")
        cast("Any", shell.pump.mesh).send = lambda _: order.append("frames")
        cast("Any", transport).write = lambda _: order.append("reply")
        client.data_received(PING)
        shell.node.outbox.add((DELETE, b"j" * 40))
        shell.node.early.append((self.PEER, (ENQUEUE, b"j" * 40, 1)))
        shell.loop.settle()
        assert order == ["journal", "frames", "reply"]

    def test_a_message_waits_until_its_record_is_safe_and_a_question_does_not(self) -> None:
        shell, writer = self.meshed()
        writer.hold = True
        self.tell(shell, 1)
        shell.node.early.append((self.PEER, (ENQUEUE, b"j" * 40, 2)))
        shell.node.membership.messages.append((self.PEER, (ENQUEUE, b"j" * 40, 3)))
        shell.pump.flush()
        assert self.sent(shell) == [3, 2]
        self.tell(shell, 4)
        shell.pump.flush()
        writer.safe = 1
        shell.pump.release()
        assert self.sent(shell) == [1]
        writer.safe = 2
        shell.pump.release()
        assert self.sent(shell) == [4]

    def test_a_message_without_a_record_does_not_overtake_one_that_waits(self) -> None:
        shell, writer = self.meshed()
        writer.hold = True
        self.tell(shell, 1)
        shell.pump.flush()
        shell.node.messages.append((self.PEER, (ENQUEUE, b"j" * 40, 2)))
        shell.pump.flush()
        assert self.sent(shell) == []
        writer.safe = 1
        shell.node.messages.append((self.PEER, (ENQUEUE, b"j" * 40, 3)))
        shell.pump.flush()
        assert self.sent(shell) == [1, 2, 3]

    def test_when_there_is_no_journal_any_more_nothing_waits(self) -> None:
        shell, writer = self.meshed()
        writer.hold = True
        self.tell(shell, 1)
        shell.pump.flush()
        shell.pump.journal = None
        shell.pump.release_all()
        assert self.sent(shell) == [1]

    def test_a_node_that_talks_to_no_others_keeps_nothing_for_them(self) -> None:
        shell = Shell()
        self.tell(shell, 1)
        shell.node.early.append((self.PEER, (ENQUEUE, b"j" * 40, 2)))
        shell.pump.flush()
        assert shell.node.messages == shell.node.early == []


class FakeMesh:
    def __init__(self) -> None:
        self.sent: list[tuple[bytes, tuple[object, ...]]] = []

    def send(self, outbox: list[tuple[bytes, tuple[object, ...]]]) -> None:
        self.sent += outbox

    def reconcile(self) -> None:
        pass


def test_a_turn_that_is_long_puts_the_other_connections_off_and_they_come_first_in_the_next_one() -> None:
    shell = Shell()
    shell.pump.turn_most_s = -1.0  # every turn is long enough from its beginning on: one command each
    clients = [shell.connect() for _ in range(3)]
    for connection, _ in clients:
        connection.data_received(PING + PING)
    assert shell.pump.crowded
    served = []
    while shell.loop.calls:
        shell.loop.turn()
        served += [at for at, (_, transport) in enumerate(clients) for _ in range(transport.take().count(b"PONG"))]
    assert served == [0, 1, 2, 0, 1, 2]
    assert not shell.pump.crowded


def test_whoever_comes_while_others_are_put_off_goes_behind_them() -> None:
    shell = Shell()
    shell.pump.turn_most_s = -1.0
    (first, before), (second, behind) = shell.connect(), shell.connect()
    first.data_received(PING)
    shell.pump.turn_most_s = 60.0
    second.data_received(PING)
    assert not behind.take()
    shell.loop.settle()
    assert (before.take(), behind.take()) == (b"+PONG\r\n", b"+PONG\r\n")
    second.data_received(PING)
    assert not shell.pump.crowded, "nobody waits any more"


def test_a_long_turn_is_shown_by_info_and_latency() -> None:
    shell = Shell(latency_monitor_threshold="1")
    shell.pump.begin_turn()
    shell.pump.turn_s -= 2.0  # it began two seconds ago
    shell.pump.flush()
    assert shell.node.stats.longest_turn_s > 2.0
    [(event, _, last_ms, _)] = shell.node.latency.latest()
    assert (event, last_ms >= 2000) == (b"event-loop", True)
    assert shell.pump.turn_s == 0.0


def test_work_that_asks_for_a_flush_belongs_to_one_turn_with_it() -> None:
    shell = Shell()
    shell.pump.begin_turn()
    began = shell.pump.turn_s
    shell.pump.schedule()
    shell.pump.begin_turn()
    shell.pump.end_turn()
    assert shell.pump.turn_s == began
    shell.loop.settle()
    assert shell.pump.turn_s == 0.0


class TestListeners:
    """Those who listen are served for a short time in each turn, and none of them copies what all hear."""

    SUBSCRIBE = b"SUBSCRIBE news\r\n"

    @pytest.fixture
    def shell(self) -> Shell:
        return Shell()

    def say(self, shell: Shell, text: bytes, times: int = 1) -> None:
        for _ in range(times):
            shell.node.pubsub.say(b"news", text)
            shell.pump.flush()

    def later(self, shell: Shell) -> None:
        """The time has come at which more news are told."""
        (timer,) = [one for one in shell.loop.waiting() if one.delay_s == TELL_EVERY_S]
        timer.cancelled = True
        timer.call()
        shell.loop.settle()

    def test_who_does_not_come_in_one_turn_has_his_turn_in_the_next(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ears = [shell.connect() for _ in range(5)]
        for client, transport in ears:
            shell.ask(client, self.SUBSCRIBE)
            transport.take()
        moments = iter(range(1000))
        monkeypatch.setattr("disque.server.pump.perf_counter", lambda: float(next(moments)))
        self.say(shell, b"hi")
        assert sum(transport.written != b"" for _, transport in ears) == 1
        assert len(shell.pump.listeners) == 4
        shell.loop.turn()
        assert sum(transport.written != b"" for _, transport in ears) == 2
        shell.loop.settle()
        assert [transport.take().count(b"hi") for _, transport in ears] == [1] * 5
        assert not shell.pump.listeners

    def test_news_are_held_against_patterns_for_a_short_time_in_each_turn(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watcher, transport = shell.connect()
        shell.ask(watcher, b"PSUBSCRIBE *\r\n")
        transport.take()
        news = shell.node.pubsub
        moments = iter(range(1000))
        monkeypatch.setattr("disque.server.pump.perf_counter", lambda: float(next(moments)))
        for number in range(3):
            news.happened(ADDED, b"q%d" % number, b"D" * 40)
        news.published(b"news", b"hi")
        shell.pump.flush()
        assert (len(news.said), len(news.pending)) == (0, 3)
        for left in (2, 1, 0):
            shell.pump.flush()
            assert len(news.pending) == left + 1, "it is not the time yet"
            self.later(shell)
            assert len(news.pending) == left
        assert transport.take().count(b"job:added:q") == 3

    def test_that_listeners_miss_news_is_logged_once_a_minute(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("disque.server.pump.LISTENERS_MANY", 0)
        shell.ask(shell.connect()[0], b"PSUBSCRIBE *\r\n")
        news = shell.node.pubsub
        for after_ms in (0, 1000, 60_000):
            shell.clock.ms += after_ms
            news.missed += 7
            news.happened(ADDED, b"q", b"D" * 40)
            shell.pump.flush()
            self.later(shell)
        missed = [line for line in shell.log.lines if "missed" in line]
        assert [line.split()[2] for line in missed] == ["7", "14"]

    def test_nobody_looks_again_and_again_at_what_the_journal_holds_back(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("disque.server.pump.LISTENERS_MANY", 0)
        shell.ask(shell.connect()[0], b"PSUBSCRIBE *\r\n")
        shell.journal().hold = True
        shell.ask(shell.connect()[0], ADD)
        assert shell.node.pubsub.pending
        assert [one for one in shell.loop.waiting() if one.delay_s == TELL_EVERY_S] == []

    def test_much_leaves_in_pieces_between_which_others_have_their_turn(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("disque.server.connection.SOME_BYTES", 100)
        client, transport = shell.connect()
        shell.ask(client, self.SUBSCRIBE)
        transport.take()
        client.pause_writing()
        self.say(shell, b"x" * 60, 10)
        assert client.output_bytes() == sum(map(len, client.session.out))
        client.choked = False
        shell.pump.choked.clear()
        assert client.write_some()
        assert transport.take().count(b"x" * 60) == 2
        assert client.output_bytes() == sum(map(len, client.session.out))
        self.say(shell, b"y")
        assert client.output_bytes() == sum(map(len, client.session.out))
        shell.loop.settle()
        assert transport.take().count(b"x" * 60) == 8
        assert client.output_bytes() == 0

    def test_what_waits_for_a_client_that_does_not_read_is_shared_with_others(self, shell: Shell) -> None:
        ears = [shell.connect()[0] for _ in range(2)]
        for client in ears:
            shell.ask(client, self.SUBSCRIBE)
            client.pause_writing()
        self.say(shell, b"x" * 1000, 200)
        for client in ears:
            client.join_output()
        one, other = [client.session.out for client in ears]
        assert len(one) == 200
        assert all(mine is its for mine, its in zip(one, other, strict=True))
        assert ears[0].output_bytes() == ears[1].output_bytes() == sum(map(len, one))

    def test_replies_of_a_client_that_listens_wait_for_the_journal(self, shell: Shell) -> None:
        writer = shell.journal()
        client, transport = shell.connect()
        shell.ask(client, b"HELLO 3\r\n")
        shell.ask(client, self.SUBSCRIBE)
        transport.take()
        writer.hold = True
        self.say(shell, b"before")
        assert b"before" in transport.take()
        shell.ask(client, ADD)
        self.say(shell, b"behind")
        assert transport.take() == b""
        writer.safe = writer.sequence
        shell.pump.release()
        shell.loop.settle()
        assert b"behind" in transport.take()

    def test_where_many_listen_events_are_gathered(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("disque.server.pump.LISTENERS_MANY", 0)
        client, transport = shell.connect()
        producer, _ = shell.connect()
        shell.ask(client, b"PSUBSCRIBE job:added:*\r\n")
        transport.take()
        shell.ask(producer, ADD)
        assert transport.take().count(b"job:added:q") == 1
        shell.ask(producer, ADD)
        shell.ask(producer, ADD)
        assert transport.take() == b""
        self.later(shell)
        assert transport.take().count(b"job:added:q") == 2

    def test_who_is_gone_is_not_served(self, shell: Shell) -> None:
        client, _ = shell.connect()
        shell.ask(client, self.SUBSCRIBE)
        shell.pump.listeners[client] = None
        client.connection_lost(None)
        assert not shell.pump.listeners
