from typing import Any

import pytest

from disque.client import CommandError, NewJob, TooLongError, UnavailableError
from disque.client.limits import LONG_BYTES, longest, too_long
from disque.client.packing import pack
from tests.client.fake import A, B, FakeNodes, MakeHands, Words, config, job_id, lost, refusal

LONG = b"x" * (2 * LONG_BYTES)
#: So much these nodes take.
MOST = LONG_BYTES


def closing(told: Any, *, name: bytes = b"proto-max-bulk-len") -> FakeNodes:
    """Nodes that close the connection over a long body; of their limits they tell this."""

    def answer(_address: Any, words: Words) -> object:
        if words[0] == b"CONFIG":
            value = {name: told} if isinstance(told, bytes) else told
            return value if isinstance(value, Exception) or words[2] == name else {}
        return lost() if len(words[2]) > MOST else job_id(len(words[2])).encode()

    return FakeNodes(answer)


@pytest.mark.parametrize(
    ("words", "length"), [([b"PING"], 4), ([b"ADDJOB", b"queue", b"b" * 9, b"0"], 9), ([b"A", b"", b"\r\n$9\r\n"], 6)]
)
def test_the_longest_word(words: Words, length: int) -> None:
    assert longest(pack(words)) == length


@pytest.mark.parametrize(
    "told",
    [
        [],
        [{}, []],
        [refusal("NOPERM this user has no permissions to run the 'config' command"), refusal("ERR unknown command")],
        [{b"proto-max-bulk-len": b"9"}, [b"client-query-buffer-limit", b"100"]],
        [{b"proto-max-bulk-len": b"much"}, 7, b"text"],
    ],
)
def test_what_fits_or_is_not_known_to_be_too_long(told: list[object]) -> None:
    assert too_long(pack([b"ADDJOB", b"q", b"123456789", b"0"]), told, "a:1") is None


def test_a_long_body_is_refused_by_its_size_and_the_node_is_well(make: MakeHands) -> None:
    nodes = closing(b"%d" % MOST)
    hands = make(nodes, config(A, B))
    with pytest.raises(CommandError) as caught:
        hands.add("q", LONG)
    assert str(caught.value) == f"too long: {len(LONG)} bytes, and b:2 takes {MOST} at most (proto-max-bulk-len)"
    assert nodes.asked() == [A, A, A, B, B, B], "another node may take it"
    assert hands.add("q", b"short") == job_id(5)


def test_a_node_that_takes_more_gets_it(make: MakeHands) -> None:
    closes = closing(b"%d" % MOST)
    nodes = FakeNodes(lambda address, words: job_id(9).encode() if address == B else closes.answer(address, words))
    assert make(nodes, config(A, B)).add("q", LONG) == job_id(9)


def test_the_reply_of_the_node_is_told_with_the_size(make: MakeHands) -> None:
    told = {b"proto-max-bulk-len": b"1024"}
    wrong = refusal("Protocol error: invalid bulk length")
    nodes = FakeNodes(lambda _address, words: told if words[0] == b"CONFIG" else wrong)
    with pytest.raises(TooLongError, match="too long: 2000 bytes, and a:1 takes 1024 at most"):
        make(nodes, config(A)).add("q", b"x" * 2000)
    with pytest.raises(CommandError, match="invalid bulk length"):
        make(nodes, config(A)).add("q", b"x" * 1000)


def test_the_other_limit_is_of_the_whole_request(make: MakeHands) -> None:
    hands = make(closing(b"%d" % len(LONG), name=b"client-query-buffer-limit"))
    with pytest.raises(CommandError, match=rf"a:1 takes {len(LONG)} at most \(client-query-buffer-limit\)"):
        hands.add("q", LONG)


@pytest.mark.parametrize("told", [b"1000000", refusal("NOPERM no"), lost(), {}])
def test_where_it_is_not_too_long_or_not_told_it_is_a_lost_connection(make: MakeHands, told: Any) -> None:
    hands = make(closing(told), config(A, attempts=2))
    with pytest.raises(UnavailableError, match="a:1: gone"):
        hands.add("q", LONG)


def test_only_the_job_that_is_too_long_is_blamed(make: MakeHands) -> None:
    nodes = closing(b"%d" % MOST)
    hands = make(nodes)
    long = b"x" * (1 << 20)
    came = hands.add_many([("q", b"1"), NewJob("q", b"x" * MOST), ("q", long), ("q", b"222")], errors="return")
    assert [came[0], came[1], came[3]] == [job_id(1), job_id(MOST), job_id(3)]
    assert isinstance(came[2], CommandError)
    assert [len(words[1]) for words in nodes.sent("ADDJOB")] == [1, MOST, len(long), 3], "the others only once"
    pipeline = hands.client.pipeline().add("q", long).add("q", b"1")
    assert isinstance(hands.wait(pipeline.execute(raise_on_error=False))[0], CommandError)


def test_what_was_lost_with_it_is_sent_again(make: MakeHands) -> None:
    nodes = closing(b"%d" % MOST)
    refused, added = make(nodes).add_many([("q", LONG), ("q", b"1")], errors="return")
    assert isinstance(refused, CommandError)
    assert added == job_id(1)


def test_nobody_is_asked_about_what_is_short(make: MakeHands) -> None:
    nodes = FakeNodes(lambda _address, _words: lost())
    with pytest.raises(UnavailableError):
        make(nodes, config(attempts=2)).add("q", b"short")
    assert not nodes.sent("CONFIG")
