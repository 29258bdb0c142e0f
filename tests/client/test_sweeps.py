from typing import Any

import pytest

from disque.client import IncompleteError, Swept, UnexpectedReplyError
from disque.client.sweeps import SWEEP_MS, flush_queue, swept
from tests.client.fake import A, B, MakeHands, config, lost

DONE = [b"count", 3, b"unreachable", [b"a" * 40]]


@pytest.mark.parametrize(
    ("method", "words", "options", "sent"),
    [
        ("move_queue", ["q", b"r"], {}, "QMOVE q r"),
        ("move_queue", ["q", "r"], {"count": 5}, "QMOVE q r COUNT 5"),
        ("revive_queue", ["q:dead"], {"count": 1}, "REVIVE q:dead COUNT 1"),
        ("flush_queue", ["q"], {}, "QFLUSH q"),
    ],
)
def test_commands(make: MakeHands, method: str, words: Any, options: Any, sent: str) -> None:
    hands = make(lambda _address, _words: DONE)
    assert getattr(hands, method)(*words, **options) == Swept(3, ["a" * 40])
    [(_, request)] = hands.client._pool.nodes.log
    assert b" ".join(request).decode() == sent


def test_the_reply_of_either_protocol() -> None:
    flat = [b"count", 2, b"without-origin", 1, b"unreachable", []]
    assert swept(flat) == swept(dict(zip(flat[::2], flat[1::2], strict=True))) == Swept(2, [], 1)


def test_a_long_queue_takes_long() -> None:
    assert flush_queue(config(), "q").wait_ms == SWEEP_MS


def test_it_is_not_sent_twice(make: MakeHands) -> None:
    hands = make(lambda _address, _words: lost(), config(A, B))
    with pytest.raises(IncompleteError):
        hands.flush_queue("q")
    assert hands.client._pool.nodes.asked() == [A]


@pytest.mark.parametrize("reply", [3, None, [b"count", 1], {b"count": b"x", b"unreachable": []}])
def test_what_no_node_would_answer(make: MakeHands, reply: object) -> None:
    with pytest.raises(UnexpectedReplyError):
        make(lambda _address, _words: reply).flush_queue("q")
