from pyspark.sql.types import StringType, StructField, StructType

from disque.spark.options import ADD, ANSWER
from disque.spark.sink import Writing
from disque.spark.tasks import write_partition
from tests.end_to_end.node import Node
from tests.spark.support import batch, bodies, client_of, options

BODY = StructType([StructField("body", StringType())])
ID = StructType([StructField("id", StringType())])


def write(node: Node, writing: Writing, partition: int = 0, batch_id: str | None = None) -> int:
    query_id = None if batch_id is None else "q"
    with client_of(node) as client:
        return write_partition(client, iter([batch(body=["a", "b"])]), writing, partition, query_id, batch_id).rows


def test_the_same_partition_of_the_same_write_adds_once(node: Node) -> None:
    writing = Writing(BODY, options(), ADD)
    assert [write(node, writing), write(node, writing)] == [2, 2]
    assert bodies(node) == [b"a", b"b"]


def test_another_partition_another_batch_and_another_save_add_their_own(node: Node) -> None:
    writing = Writing(BODY, options(), ADD)
    write(node, writing)
    write(node, writing, partition=1)
    write(node, writing, batch_id="1")
    write(node, writing, batch_id="2")
    write(node, Writing(BODY, options(), ADD))
    assert len(bodies(node)) == 10


def test_a_batch_of_a_query_adds_once_whoever_writes_it(node: Node) -> None:
    for _ in range(2):
        write(node, Writing(BODY, options(), ADD), batch_id="1")
    assert bodies(node) == [b"a", b"b"]


def test_answers(node: Node) -> None:
    job_id = node.ask("ADDJOB", "mails", "a", 0).decode()
    writing = Writing(ID, options(ANSWER, action="ack"), ANSWER)
    with client_of(node) as client:
        assert write_partition(client, iter([batch(id=[job_id])]), writing, 0, None, None).rows == 1
    assert bodies(node) == []
