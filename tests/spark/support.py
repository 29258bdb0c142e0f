"""Short words for what many tests of the data source do."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from disque.client import Config, Disque
from disque.spark.options import ADD, Options, parse_options
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import Node, drain, until


def options(use: str = ADD, **given: Any) -> Options:
    """Options as a user gives them, with hosts and a queue unless given."""
    words = {"hosts": "127.0.0.1:7711"} | ({"queue": "mails"} if "action" not in given else {}) | given
    return parse_options({name: str(value) for name, value in words.items()}, use)


def client_of(node: Node, **config: Any) -> Disque:
    return Disque(Config(nodes=(("127.0.0.1", node.port),), discover=False, **config))


def batch(**columns: Sequence[object]) -> pa.RecordBatch:
    """An Arrow batch; text and numbers as Spark gives them."""
    arrays = {name: as_array(list(values)) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def as_array(values: list[object]) -> pa.Array:
    """Text, bytes or 32-bit numbers."""
    kinds = {type(value) for value in values} - {type(None)}
    return pa.array(values, pa.string() if kinds <= {str} else pa.binary() if kinds <= {bytes} else pa.int32())


def limited(node: Node) -> dict[str, Any]:
    """Options of a user who has rights to the queue "mails" alone."""
    node.ask("ACL", "SETUSER", "worker", "on", ">secret", "+@all", "~mails")
    return {"user": "worker", "password": "secret"}


def hosts_of(cluster: Cluster) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in cluster.members)


def numbers(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    """Rows with the bodies "0", "1" and so on."""
    return spark.range(0, count, 1, partitions).selectExpr("CAST(id AS STRING) AS body")


def save(frame: DataFrame, hosts: str, **given: Any) -> None:
    """Write a DataFrame."""
    words = {name: str(value) for name, value in given.items()}
    frame.write.format("disque").option("hosts", hosts).options(**words).mode("append").save()


def bodies(node: Node, queue: str = "mails") -> list[bytes]:
    """Take all jobs out of a queue; their bodies, sorted."""
    return sorted(body for _, body in drain(node.ask, queue))


def texts(count: int) -> list[bytes]:
    """What `bodies` gives for `numbers`."""
    return sorted(b"%d" % number for number in range(count))


@contextmanager
def killed_when(ready: Callable[[], bool], node: Node) -> Iterator[None]:
    """Kill -9 a node as soon as something is so, while the block runs. It must come to be so."""
    done = threading.Event()

    def watch() -> None:
        until(ready, "the moment to kill a node")
        node.kill()
        done.set()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join()
    assert done.is_set()
