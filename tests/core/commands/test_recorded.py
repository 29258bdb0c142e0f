"""What Disque 1.0 answers to its own commands, byte for byte, is what is answered here: old clients see nothing new.

Replies of the C server, as they were seen on its socket, with the ID of a job as `<1>`, `<2>` in place of its 40 bytes,
and the ID of the node as `<node>`. What was wrong or random there is left out (docs/differences.md).
"""

import re
from typing import Final

import pytest

from tests.core.support import MYSELF, Bench

SYNTAX: Final = b"-ERR syntax error\r\n"
BAD_ID: Final = b"-BADID Invalid Job ID format.\r\n"
NO_JOBS: Final = b"*-1\r\n"
ONE: Final = b"$1\r\nq\r\n$40\r\n<1>\r\n$1\r\na\r\n"
COUNTERS: Final = b"$5\r\nnacks\r\n:%d\r\n$21\r\nadditional-deliveries\r\n:%d\r\n"
UNKNOWN: Final = b"D-ffffffff-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"
#: The first 18 elements of QSTAT; others stand behind them today.
QSTAT: Final = (
    b"$4\r\nname\r\n$1\r\nq\r\n$3\r\nlen\r\n:1\r\n$3\r\nage\r\n:0\r\n$4\r\nidle\r\n:0\r\n$7\r\nblocked\r\n:0\r\n"
    b"$11\r\nimport-from\r\n*0\r\n$11\r\nimport-rate\r\n:0\r\n$7\r\njobs-in\r\n:1\r\n$8\r\njobs-out\r\n:0\r\n"
    b"$5\r\npause\r\n$4\r\nnone\r\n"
)
SHOW: Final = (
    b"*30\r\n$2\r\nid\r\n$40\r\n<1>\r\n$5\r\nqueue\r\n$1\r\nq\r\n$5\r\nstate\r\n$6\r\nactive\r\n$4\r\nrepl\r\n:1\r\n"
    b"$3\r\nttl\r\n:100\r\n$5\r\nctime\r\n:%d\r\n$5\r\ndelay\r\n:0\r\n$5\r\nretry\r\n:7\r\n$5\r\nnacks\r\n:0\r\n"
    b"$21\r\nadditional-deliveries\r\n:0\r\n$15\r\nnodes-delivered\r\n*1\r\n$40\r\n<node>\r\n"
    b"$15\r\nnodes-confirmed\r\n*0\r\n$19\r\nnext-requeue-within\r\n:7000\r\n$17\r\nnext-awake-within\r\n:%d\r\n"
    b"$4\r\nbody\r\n$1\r\na\r\n"
)

#: Requests, and what was answered; `+<n>` in a reply gives that job its number.
SESSIONS: Final[dict[str, list[tuple[str, bytes]]]] = {
    "life": [
        ("ADDJOB q a 0", b"+<1>\r\n"),
        ("QLEN q", b":1\r\n"),
        ("QSTAT q", QSTAT),
        ("QPEEK q 1", b"*1\r\n*3\r\n" + ONE),
        ("GETJOB FROM q", b"*1\r\n*3\r\n" + ONE),
        ("QLEN q", b":0\r\n"),
        ("WORKING <1>", b":300\r\n"),
        ("ACKJOB <1>", b":1\r\n"),
        ("SHOW <1>", b"$-1\r\n"),
        ("ACKJOB <1>", b":0\r\n"),
    ],
    "counters": [
        ("ADDJOB q a 0 RETRY 5", b"+<1>\r\n"),
        ("GETJOB WITHCOUNTERS FROM q", b"*1\r\n*7\r\n" + ONE + COUNTERS % (0, 0)),
        ("NACK <1>", b":1\r\n"),
        ("GETJOB NOHANG TIMEOUT 5 COUNT 3 WITHCOUNTERS FROM q p", b"*1\r\n*7\r\n" + ONE + COUNTERS % (1, 0)),
        ("GETJOB NOHANG FROM q", NO_JOBS),
        ("ENQUEUE <1> <1>", b":1\r\n"),
        ("DEQUEUE <1>", b":1\r\n"),
        ("QLEN q", b":0\r\n"),
        ("DELJOB <1> <1>", b":1\r\n"),
        ("FASTACK <1>", b":0\r\n"),
    ],
    "turns": [
        ("ADDJOB qa a 0", b"+<1>\r\n"),
        ("ADDJOB qa b 0", b"+<2>\r\n"),
        ("ADDJOB qb c 0", b"+<3>\r\n"),
        (
            "GETJOB COUNT 4 FROM qa qb",
            (
                b"*3\r\n*3\r\n$2\r\nqa\r\n$40\r\n<1>\r\n$1\r\na\r\n*3\r\n$2\r\nqb\r\n$40\r\n<3>\r\n$1\r\nc\r\n"
                b"*3\r\n$2\r\nqa\r\n$40\r\n<2>\r\n$1\r\nb\r\n"
            ),
        ),
        ("FASTACK <1> <2> <3>", b":3\r\n"),
    ],
    "walks": [
        ("ADDJOB q a 0", b"+<1>\r\n"),
        ("QSCAN", b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nq\r\n"),
        ("QSCAN 0 BUSYLOOP MINLEN 2", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("JSCAN 0 BUSYLOOP QUEUE q STATE queued", b"*2\r\n$1\r\n0\r\n*1\r\n+<1>\r\n"),
        ("JSCAN 0 BUSYLOOP STATE acked", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("JSCAN STATE x", b"-ERR Invalid job state name\r\n"),
        ("JSCAN REPLY x", b"-ERR Invalid REPLY type, try ID or ALL\r\n"),
    ],
    "pauses": [
        ("PAUSE q in", b"+in\r\n"),
        ("ADDJOB q a 0", b"-PAUSED Queue paused in input, try later\r\n"),
        ("PAUSE q out", b"+out\r\n"),
        ("ADDJOB q a 0", b"+<1>\r\n"),
        ("GETJOB NOHANG FROM q", NO_JOBS),
        ("PAUSE q state", b"+out\r\n"),
        ("PAUSE q all", b"+all\r\n"),
        ("PAUSE q none", b"+none\r\n"),
        ("GETJOB FROM q", b"*1\r\n*3\r\n" + ONE),
    ],
    "nothing": [
        ("QLEN q", b":0\r\n"),
        ("QSTAT q", b"*-1\r\n"),
        ("QPEEK q 5", b"*0\r\n"),
        (f"SHOW {UNKNOWN.decode()}", b"$-1\r\n"),
        (f"WORKING {UNKNOWN.decode()}", b"-NOJOB Job not known in the context of this node.\r\n"),
        (f"ACKJOB {UNKNOWN.decode()}", b":0\r\n"),
        *[(name, b":0\r\n") for name in ("ACKJOB", "FASTACK", "DELJOB", "ENQUEUE", "NACK", "DEQUEUE")],
    ],
    "errors": [
        ("ADDJOB q a 0 REPLICATE 0", b"-ERR REPLICATE must be between 1 and 65535\r\n"),
        ("ADDJOB q a 0 TTL 0", b"-ERR TTL must be a number > 0\r\n"),
        ("ADDJOB q a 0 RETRY -1", b"-ERR RETRY time must be a non negative number\r\n"),
        ("ADDJOB q a 0 DELAY x", b"-ERR DELAY time must be a non negative number\r\n"),
        ("ADDJOB q a 0 MAXLEN x", b"-ERR MAXLEN must be a positive number\r\n"),
        ("ADDJOB q a x", b"-ERR timeout is not an integer or out of range\r\n"),
        ("ADDJOB q a -1", b"-ERR timeout is negative\r\n"),
        ("ADDJOB q a 0 TTL", SYNTAX),
        ("ADDJOB q a 0 WHAT", SYNTAX),
        (
            "ADDJOB q a 0 REPLICATE 2 RETRY 0",
            b"-ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)\r\n",
        ),
        (
            "ADDJOB q a 0 TTL 5 DELAY 5",
            b"-ERR The specified DELAY is greater than TTL. Job refused since would never be delivered\r\n",
        ),
        ("ADDJOB q a 0 REPLICATE 2", b"-NOREPL Not enough reachable nodes for the requested replication level\r\n"),
        ("GETJOB q", SYNTAX),
        ("GETJOB FROM", SYNTAX),
        ("GETJOB COUNT FROM q", b"-ERR COUNT must be a number greater than zero\r\n"),
        ("ACKJOB x", BAD_ID),
        (f"NACK {UNKNOWN.decode()} x", BAD_ID),
        ("QPEEK q x", b"-ERR value is not an integer or out of range\r\n"),
        ("QLEN", b"-ERR wrong number of arguments for 'qlen' command\r\n"),
        ("NOSUCH", b"-ERR unknown command 'NOSUCH'\r\n"),
    ],
}


class Talk:
    """One client, whose jobs have numbers."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.client = self.bench.client()
        self.ids: dict[bytes, bytes] = {}

    def answer(self, line: str) -> bytes:
        """The bytes of a reply, with numbers in place of IDs."""
        words = [self.ids.get(word.encode(), word.encode()) for word in line.split()]
        reply = self.client.raw(*words)
        if reply.startswith(b"+D-") and words[0] == b"ADDJOB":
            self.ids[b"<%d>" % (len(self.ids) + 1)] = reply[1:-2]
        for number, job_id in self.ids.items():
            reply = reply.replace(job_id, number)
        return reply.replace(MYSELF, b"<node>")


@pytest.mark.parametrize("name", SESSIONS)
def test_the_old_commands_answer_as_ever(name: str) -> None:
    talk = Talk()
    for line, reply in SESSIONS[name]:
        answer = talk.answer(line)
        if reply is QSTAT:
            answer = re.sub(rb"^\*\d+\r\n", b"", answer)[: len(QSTAT)]
        assert answer == reply, line


def test_show_has_its_thirty_elements() -> None:
    talk = Talk()
    talk.answer("ADDJOB q a 0 TTL 100 RETRY 7")
    talk.answer("GETJOB FROM q")
    shown = talk.answer("SHOW <1>")
    (awake,) = re.findall(rb"next-awake-within\r\n:(\d+)", shown)
    assert shown == SHOW % (talk.bench.job(talk.ids[b"<1>"]).ctime, int(awake))
