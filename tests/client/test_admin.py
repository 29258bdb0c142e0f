from typing import Any

import pytest

from disque.client import IncompleteError, NodeInfo
from disque.client.admin import any_command
from tests.client.fake import A, B, MakeHands, config, lost


@pytest.mark.parametrize(
    ("method", "words", "options", "sent", "reply", "value"),
    [
        ("queue_length", ["q"], {}, "QLEN q", 3, 3),
        ("queue_stat", ["q"], {}, "QSTAT q", [b"jobs-in", 2], {"jobs_in": 2}),
        ("queue_length", ["q"], {"cluster": True}, "QLEN q CLUSTER", 3, 3),
        (
            *("queue_stat", ["q"], {"cluster": True}),
            *("QSTAT q CLUSTER", [b"unreachable", [b"a" * 40]], {"unreachable": ["a" * 40]}),
        ),
        ("queue_history", ["q", "day"], {}, "QHISTORY q day", None, None),
        ("queue_history", ["q", "minute"], {}, "QHISTORY q minute", {b"died": [0, 2]}, {"died": [0, 2]}),
        (
            *("queue_history", ["q", "hour"], {"cluster": True}, "QHISTORY q hour CLUSTER"),
            *([b"begin", 7200, b"added", [0, 1], b"unreachable", [b"a"]],),
            {"begin": 7200, "added": [0, 1], "unreachable": ["a"]},
        ),
        (
            *("queue_options", ["q"], {}, "QCONFIG GET q"),
            *([b"ttl", [b"5", b"q*"], b"retry", [b"1", b"default"]],),
            {"ttl": ("5", "q*"), "retry": ("1", "default")},
        ),
        (
            *("set_queue_options", ["q*"], {"tries": 3, "dead_ttl": 60}),
            *("QCONFIG SET q* tries 3 dead-ttl 60", b"OK", None),
        ),
        ("publish", ["news", "hi"], {}, "PUBLISH news hi", 2, 2),
        ("unset_queue_options", ["q", "dead_ttl"], {}, "QCONFIG UNSET q dead-ttl", 1, 1),
        ("find", ["q", 7], {}, "FIND q 7", None, None),
        ("find", ["q", b"k"], {}, "FIND q k", b"D-1", "D-1"),
        ("scan_queues", [], {}, "QSCAN 0", [b"0", [b"q"]], (0, ["q"])),
        (
            *("scan_queues", [7], {"count": 1, "busyloop": True, "minlen": 2, "maxlen": 3, "importrate": 4}),
            *("QSCAN 7 COUNT 1 MINLEN 2 MAXLEN 3 IMPORTRATE 4 BUSYLOOP", [b"9", []], (9, [])),
        ),
        (
            *("scan_jobs", [], {"count": 5, "queue": "q", "states": ("queued", "acked")}),
            *("JSCAN 0 COUNT 5 QUEUE q STATE queued STATE acked", [b"0", [b"D-1"]], (0, ["D-1"])),
        ),
        (
            "scan_job_infos",
            [],
            {"busyloop": True},
            "JSCAN 0 BUSYLOOP REPLY ALL",
            [b"0", [[b"ttl", 1]]],
            (0, [{"ttl": 1}]),
        ),
        ("pause", ["q"], {}, "PAUSE q state", b"none", "none"),
        ("pause", ["q", "in", "bcast"], {}, "PAUSE q in bcast", b"in", "in"),
        ("ping", [], {}, "PING", b"PONG", "PONG"),
        ("ping", ["hi"], {}, "PING hi", b"hi", "hi"),
        ("nodes", [], {}, "HELLO", [1, b"i", [b"i", b"h", b"1", b"1"]], [NodeInfo("i", "h", 1, 1)]),
        ("node_time", [], {}, "TIME", [b"1", b"0"], 1.0),
        ("info", [], {}, "INFO", b"a:1\r\n", {"a": 1}),
        ("info", ["jobs"], {}, "INFO jobs", b"", {}),
        ("config_get", ["port"], {}, "CONFIG GET port", [b"port", b"1"], {"port": "1"}),
        ("config_set", ["maxclients", 5], {}, "CONFIG SET maxclients 5", b"OK", None),
        ("cluster_info", [], {}, "CLUSTER INFO", b"cluster_state:ok\r\n", {"cluster_state": "ok"}),
        ("cluster_nodes", [], {}, "CLUSTER NODES", b"line\n", "line\n"),
        ("cluster_id", [], {}, "CLUSTER MYID", b"i", "i"),
        ("cluster_meet", ["h", 7711], {}, "CLUSTER MEET h 7711", b"OK", None),
        ("cluster_forget", ["i"], {}, "CLUSTER FORGET i", b"OK", None),
        ("cluster_repair", ["i"], {}, "CLUSTER REPAIR i", 3, 3),
        ("cluster_leaving", [], {}, "CLUSTER LEAVING", b"no", "no"),
        ("cluster_leaving", [True], {}, "CLUSTER LEAVING yes", b"OK", "OK"),
        ("execute_command", ["CONFIG GET", "port"], {}, "CONFIG GET port", {b"a": 1}, {b"a": 1}),
        ("execute_command", ["ADDJOB", "q", "b", 0], {}, "ADDJOB q b 0", b"D-1", b"D-1"),
    ],
)
def test_commands(
    make: MakeHands, method: str, words: Any, options: Any, sent: str, reply: object, value: object
) -> None:
    hands = make(lambda _address, _words: reply)
    assert getattr(hands, method)(*words, **options) == value
    [(_, request)] = hands.client._pool.nodes.log
    assert b" ".join(request).decode() == sent


@pytest.mark.parametrize("words", [["SHUTDOWN"], ["DEBUG", "FLUSHALL"], ["config set", "a", "b"], ["CLUSTER RESET"]])
def test_what_may_do_harm_twice_is_not_sent_twice(make: MakeHands, words: Any) -> None:
    hands = make(lambda _address, _words: lost(), config(A, B))
    with pytest.raises(IncompleteError):
        hands.execute_command(*words)
    assert hands.client._pool.nodes.asked() == [A]


def test_what_may_be_sent_twice_is(make: MakeHands) -> None:
    hands = make(lambda address, _words: lost() if address == A else 1, config(A, B))
    assert hands.execute_command("qlen", "q") == 1


@pytest.mark.parametrize("words", [["MONITOR"], ["client", "reply", "off"], ["HELLO", 3], ["SELECT 0"], ["quit"]])
def test_what_is_about_one_connection_is_refused(make: MakeHands, words: Any) -> None:
    with pytest.raises(ValueError, match=r"use redis\(\) for it"):
        make(lambda _address, _words: b"OK").execute_command(*words)


@pytest.mark.parametrize(
    ("words", "wait_ms"),
    [
        ("ADDJOB q b 500", 500),
        ("ADDJOB q b 0", None),
        ("ADDJOB q b nonsense", 0),
        ("GETJOB FROM q", None),
        ("GETJOB TIMEOUT 700 FROM q", 700),
        ("GETJOB NOHANG FROM timeout 5", 0),
        ("GETJOB TIMEOUT", None),
        ("QLEN q", 0),
        ("QLEN q CLUSTER", 5000),
        ("FIND q k", 5000),
        ("WAITJOB 700 x", 700),
        ("WAITJOB 0 x", None),
        ("WAITJOB", 0),
        ("QFLUSH q", 600_000),
        ("cron run s", 10_000),
        ("CRON LIST", 0),
    ],
)
def test_how_long_the_server_may_wait(words: str, wait_ms: int | None) -> None:
    assert any_command(config(), *words.split()).wait_ms == wait_ms
