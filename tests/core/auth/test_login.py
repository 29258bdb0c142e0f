"""How clients log in, and what slows down those who guess passwords."""

import pytest

from disque.core.auth import login
from disque.core.host import FAILED_AUTH, GUESSING
from tests.core.support import NOTHING, Bench, Client, assert_still_waiting


@pytest.fixture
def guarded(bench: Bench, client: Client) -> Bench:
    client("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all")
    bench.set("requirepass", "secret")
    return bench


def guess(bench: Bench, times: int) -> None:
    for _ in range(times):
        client = bench.client()
        assert str(client("AUTH", "u", "wrong")).startswith("WRONGPASS")
        client.disconnect()


def suspected(bench: Bench) -> list[str]:
    return [asked[2] for asked in bench.host.asked if asked[0] == "suspect"]


def test_in_both_ways(guarded: Bench) -> None:
    for words in (("AUTH", "u", "p"), ("HELLO", "2", "AUTH", "u", "p"), ("HELLO", "3", "AUTH", "default", "secret")):
        client = guarded.client()
        assert client.error("PING").startswith("NOAUTH")
        client(*words)
        assert client("PING") == b"PONG"
    assert client("ACL", "WHOAMI") == b"default"


@pytest.mark.parametrize("words", [("u", "q"), ("u", ""), ("nobody", "p"), ("default", "p"), ("u", "x" * 5000)])
def test_wrong_ones(guarded: Bench, words: tuple[str, str]) -> None:
    client = guarded.client()
    assert client.error("AUTH", *words) == "WRONGPASS invalid username-password pair or user is disabled."
    assert client.error("HELLO", 3, "AUTH", *words).startswith("WRONGPASS")
    assert client.error("PING").startswith("NOAUTH")


def test_a_wrong_password_logs_out(guarded: Bench) -> None:
    client = guarded.client()
    client("AUTH", "u", "p")
    assert client.error("AUTH", "u", "q").startswith("WRONGPASS")
    assert client.error("PING").startswith("NOAUTH")


def test_after_ten_wrong_passwords_answers_come_late(guarded: Bench) -> None:
    guess(guarded, login.WRONG_MOST)
    assert suspected(guarded) == [FAILED_AUTH] * 10 + [GUESSING]
    good, bad, other = guarded.client(), guarded.client(), guarded.client()
    other.session.address = b"10.0.0.9:1234"
    assert good("AUTH", "u", "p") is NOTHING
    assert bad("HELLO", 3, "AUTH", "u", "q") is NOTHING
    assert other("AUTH", "u", "p") == b"OK"
    guarded.now_ms += login.LATE_MS - 1
    guarded.tick()
    assert good.read() is NOTHING
    guarded.now_ms += 1
    guarded.tick()
    assert good.read() == b"OK"
    assert str(bad.read()).startswith("WRONGPASS")
    assert good("PING") == b"PONG"
    guarded.now_ms += login.WINDOW_MS
    assert guarded.client()("AUTH", "u", "p") == b"OK"
    assert not guarded.node.users.late
    assert not guarded.node.users.waited


def test_nine_wrong_ones_are_none_too_many(guarded: Bench) -> None:
    guess(guarded, login.WRONG_MOST - 1)
    assert guarded.client()("AUTH", "u", "p") == b"OK"
    guarded.now_ms += login.WINDOW_MS
    guess(guarded, login.WRONG_MOST - 1)
    assert GUESSING not in suspected(guarded)


def test_who_waits_may_go(guarded: Bench) -> None:
    guess(guarded, login.WRONG_MOST)
    client = guarded.client()
    assert client("AUTH", "u", "p") is NOTHING
    client.disconnect()
    assert not guarded.node.users.late
    guarded.now_ms += login.LATE_MS
    guarded.tick()


def test_everything_is_flushed_meanwhile(guarded: Bench, client: Client) -> None:
    guess(guarded, login.WRONG_MOST)
    waiting = guarded.client()
    assert waiting("AUTH", "u", "p") is NOTHING
    assert client("DEBUG", "FLUSHALL") == b"OK"
    guarded.now_ms += login.LATE_MS
    guarded.tick()
    assert waiting.read() == b"OK"


def test_in_silence(guarded: Bench) -> None:
    guess(guarded, login.WRONG_MOST)
    client = guarded.client()
    client.session.log_in(guarded.node.users.by_name[b"u"], passed=True)
    client.send("CLIENT", "REPLY", "OFF")
    client.send("AUTH", "u", "p")
    guarded.now_ms += login.LATE_MS
    guarded.tick()
    assert client.read() is NOTHING
    client.send("CLIENT", "REPLY", "ON")
    assert client.read() == b"OK"


def test_the_memory_for_addresses_is_bounded(guarded: Bench) -> None:
    client = guarded.client()
    for number in range(login.ADDRESSES_MOST + 5):
        client.session.address = b"10.0.%d.%d:9" % divmod(number, 256)
        login.denied(guarded.node, client.session, b"u", b"auth", guarded.now_ms)
    assert len(guarded.node.users.wrong) == login.ADDRESSES_MOST
    assert b"10.0.0.4" not in guarded.node.users.wrong


def test_a_certificate_names_a_user(guarded: Bench) -> None:
    client = guarded.client()
    login.by_certificate(guarded.node, client.session, b"nobody")
    assert client.error("PING").startswith("NOAUTH")
    login.by_certificate(guarded.node, client.session, b"u")
    assert client("ACL", "WHOAMI") == b"u"
    guarded.node.users.by_name[b"u"].enabled = False
    client = guarded.client()
    login.by_certificate(guarded.node, client.session, b"u")
    assert client.error("PING").startswith("NOAUTH")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_certificate_names_a_user_that_this_node_does_not_know_yet(bench: Bench, *, is_open: bool) -> None:
    admin, client, other, reset = bench.client(), bench.client(), bench.client(), bench.client()
    if not is_open:
        admin("ACL", "SETUSER", "default", "off")
    for one in (client, other, reset):
        login.by_certificate(bench.node, one.session, b"alice")
    assert not is_open or client("ACL", "WHOAMI") == b"default"
    admin("ACL", "SETUSER", "bob", "on", ">p", "~*", "+@all")
    other("AUTH", "bob", "p")
    admin("ACL", "SETUSER", "alice", "on", "~a", "+@all")
    assert client("ACL", "WHOAMI") == b"alice"
    assert client.error("QLEN", "b").startswith("NOPERM")
    assert other("ACL", "WHOAMI") == b"bob"
    assert reset("ACL", "WHOAMI") == b"alice"
    assert reset("RESET") == b"RESET"
    assert reset("ACL", "WHOAMI") == b"alice"
    assert bench.node.stats.certificates_denied == 3
    assert other("RESET") == b"RESET"
    assert other("ACL", "WHOAMI") == b"alice"
    admin("ACL", "DELUSER", "alice")
    assert not is_open or reset("ACL", "WHOAMI") == b"default"


def test_who_waits_or_watches_when_its_user_appears_may_do_what_that_may(bench: Bench) -> None:
    admin, waiting, watching = bench.client(), bench.client(), bench.client()
    for one in (waiting, watching):
        login.by_certificate(bench.node, one.session, b"alice")
    waiting.send("GETJOB", "FROM", "b")
    watching("MONITOR")
    admin("ACL", "SETUSER", "alice", "off", "~a", "+@all", "-monitor")
    assert_still_waiting(waiting)
    admin("ACL", "SETUSER", "alice", "on")
    assert str(waiting.read()).startswith("NOPERM")
    assert [asked for asked in bench.host.asked if asked[0] == "kill"] == [("kill", watching.session.id)]


def test_a_certificate_can_name_the_default_user(guarded: Bench) -> None:
    client = guarded.client()
    login.by_certificate(guarded.node, client.session, b"default")
    assert client("ACL", "WHOAMI") == b"default"
    assert not client.session.limited
    assert guarded.node.stats.certificates_denied == 0
