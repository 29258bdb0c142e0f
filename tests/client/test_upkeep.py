from typing import Any

import pytest

from disque.client.upkeep import Latency, SlowCommand
from tests.client.fake import A, B, MakeHands, config, lost, refusal


@pytest.mark.parametrize(
    ("method", "words", "options", "sent", "reply", "value"),
    [
        ("echo", ["hi"], {}, "ECHO hi", b"hi", "hi"),
        ("commands", [], {}, "COMMAND LIST", [b"addjob"], ["addjob"]),
        ("compact", [], {}, "BGREWRITEAOF", b"started", "started"),
        ("flush_all", [], {}, "DEBUG FLUSHALL", b"OK", None),
        ("config_rewrite", [], {}, "CONFIG REWRITE", b"OK", None),
        ("config_resetstat", [], {}, "CONFIG RESETSTAT", b"OK", None),
        ("cluster_reset", [], {"hard": True}, "CLUSTER RESET HARD", b"OK", None),
        ("cluster_reset", [], {}, "CLUSTER RESET SOFT", b"OK", None),
        ("cluster_save", [], {}, "CLUSTER SAVECONFIG", b"OK", None),
        ("slowlog", [], {}, "SLOWLOG GET 10", [[1, 2, 3, [b"a"]]], [SlowCommand(1, 2, 3, ["a"])]),
        ("slowlog_length", [], {}, "SLOWLOG LEN", 4, 4),
        ("slowlog_reset", [], {}, "SLOWLOG RESET", b"OK", None),
        ("latency_latest", [], {}, "LATENCY LATEST", [[b"e", 1, 2, 3]], [Latency("e", 1, 2, 3)]),
        ("latency_history", ["e"], {}, "LATENCY HISTORY e", [[1, 2]], [(1, 2)]),
        ("latency_graph", ["e"], {}, "LATENCY GRAPH e", b"_#", "_#"),
        ("latency_doctor", [], {}, "LATENCY DOCTOR", b"well", "well"),
        ("latency_reset", ["e"], {}, "LATENCY RESET e", 1, 1),
        ("client_list", [], {}, "CLIENT LIST", b"id=1 name=\nid=2\n", [{"id": "1", "name": ""}, {"id": "2"}]),
        ("client_kill", [], {"number": 7, "address": "a:1"}, "CLIENT KILL SKIPME yes ID 7 ADDR a:1", 1, 1),
        ("client_kill", [], {"skip_me": False}, "CLIENT KILL SKIPME no", 1, 1),
        ("client_pause", [0.5], {}, "CLIENT PAUSE 500", b"OK", None),
        ("client_unpause", [], {}, "CLIENT UNPAUSE", b"OK", None),
    ],
)
def test_commands(
    make: MakeHands, method: str, words: Any, options: Any, sent: str, reply: object, value: object
) -> None:
    hands = make(lambda _address, _words: reply)
    assert getattr(hands, method)(*words, **options) == value
    [(_, request)] = hands.client._pool.nodes.log
    assert b" ".join(request).decode() == sent


def test_a_node_that_stops_has_no_reply_and_no_other_is_stopped_for_it(make: MakeHands) -> None:
    hands = make(lambda _address, _words: lost(), config(A))
    hands.shutdown(compact=True)
    assert hands.client._pool.nodes.log == [(A, [b"SHUTDOWN", b"REWRITE-AOF"])]


def test_what_would_do_harm_to_a_wrong_node_must_be_told_which(make: MakeHands) -> None:
    hands = make(lambda _address, _words: b"OK", config(A, B))
    for call in (hands.shutdown, hands.flush_all, hands.cluster_reset, lambda: hands.cluster_leaving(leaving=True)):
        with pytest.raises(ValueError, match=r"several are known: say which with at\(host, port\)"):
            call()
    assert hands.cluster_leaving() == "OK"
    assert len(hands.client._pool.nodes.log) == 1


def test_a_node_that_cannot_stop_says_why(make: MakeHands) -> None:
    hands = make(lambda _address, _words: refusal("ERR Errors trying to SHUTDOWN. Check logs."))
    with pytest.raises(Exception, match="Check logs"):
        hands.shutdown()
