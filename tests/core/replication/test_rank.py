from base64 import b64encode
from collections import Counter
from random import Random

from disque.core.replication.rank import rank

RANDOM = Random(7)
NODES = [b"%040x" % RANDOM.getrandbits(160) for _ in range(5)]
IDS = [b"D-%08x-%b-05a1" % (RANDOM.getrandbits(32), b64encode(RANDOM.randbytes(18))) for _ in range(2000)]


def test_all_nodes_come_first_about_as_often() -> None:
    firsts = Counter(max(NODES, key=lambda node_id: rank(node_id, job_id)) for job_id in IDS)
    assert min(firsts.values()) > 300


def test_a_node_that_is_gone_changes_nothing_for_the_others() -> None:
    for job_id in IDS[:100]:
        order = sorted(NODES, key=lambda node_id: rank(node_id, job_id))
        rest = sorted(NODES[1:], key=lambda node_id: rank(node_id, job_id))
        assert [node_id for node_id in order if node_id != NODES[0]] == rest
