"""A cluster of Spark's own, master and two workers, writes to three nodes and reads from them.

Nobody registers the source there: Spark finds it by itself. Speculation is on: a task that is slow at its first
attempt is started a second time beside it, and both write.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest

from tests.end_to_end.cluster import Cluster
from tests.end_to_end.node import LOOPBACK, ROOT, drain, free_port, until
from tests.spark.conftest import SESSION
from tests.spark.support import hosts_of, texts

CLASSES: Final = "org.apache.spark.deploy"
HOME: Final = Path(pyspark.__file__).parent
JARS: Final = HOME / "jars"
#: Of "spark-core_2.13-4.3.0.jar": workers ask for it.
SCALA: Final = next(JARS.glob("spark-core_*")).name.split("_")[1].split("-")[0]

DRIVER: Final = """
import sys, time
from pyspark.sql import SparkSession

def slow_at_first(batches):
    from pyspark import TaskContext
    context = TaskContext.get()
    for batch in batches:
        yield batch.slice(0, 300)
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            open(folder + "/slow", "a").close()
            time.sleep(8)
        yield batch.slice(300)

master, hosts, folder = sys.argv[1:]
spark = SparkSession.builder.master(master).config(map=CONFIG).getOrCreate()
rows = spark.range(0, 4000, 1, 4).selectExpr("CAST(id AS STRING) AS body").mapInArrow(slow_at_first, "body STRING")
rows.write.format("disque").mode("append").options(hosts=hosts, queue="mails", replicate=2).save()
jobs = spark.read.format("disque").options(hosts=hosts, queue="mails", maxJobs=1000, pollTimeoutMs=500).load()
print("drained", jobs.count())
jobs.select("id").write.format("disque").mode("append").options(hosts=hosts, action="ack").save()
time.sleep(9)  # let the attempt that was overtaken wake up, if it is still there
print("executors", len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)
spark.stop()
"""
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def standalone(environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Run a master and two workers with a core each; their URL."""
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{JARS}/*"]
    place = ["--host", LOOPBACK, "--webui-port", "0"]
    worker = [f"{CLASSES}.worker.Worker", *place, "--cores", "1", "--memory", "768m"]
    commands = [[f"{CLASSES}.master.Master", *place, "--port", str(port)]]
    commands += [[*worker, "--work-dir", str(folder / f"work{number}"), url] for number in range(2)]
    logs = [folder / f"{number}.log" for number in range(3)]
    started = []
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                words: dict[str, Any] = {"env": environment, "stdout": output, "stderr": output}
                started.append(subprocess.Popen([*java, *command], **words))
        until(lambda: logs[0].read_text().count("Registering worker") == 2, "two workers", 0.2)
        yield url
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(30)


@pytest.mark.slow
def test_two_workers_and_speculation(spark_environment: dict[str, str], cluster: Cluster, tmp_path: Path) -> None:
    environment = {
        **spark_environment,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_DIRS": str(tmp_path),
        "SPARK_SCALA_VERSION": SCALA,
    }
    driver, log = tmp_path / "driver.py", tmp_path / "driver.log"
    driver.write_text(DRIVER.replace("CONFIG", repr({**SESSION, **SPECULATION})))
    with standalone(environment, tmp_path) as url, log.open("wb") as output:
        words: dict[str, Any] = {"cwd": ROOT, "env": environment, "stdout": output, "stderr": output}
        command = [sys.executable, str(driver), url, hosts_of(cluster), str(tmp_path)]
        subprocess.run(command, check=True, timeout=180, **words)
    said = log.read_text()
    assert "drained 1000" in said
    assert "executors 2" in said
    assert (tmp_path / "slow").exists()
    left: list[bytes] = []

    def gathered() -> int:
        left.extend(rest(cluster))
        return len(left)

    until(lambda: gathered() >= 3000, lambda: f"what was not drained: {len(left)}")
    assert rest(cluster) == []
    assert len(left) == len(set(left)) == 3000, "each once"
    assert set(left) < set(texts(4000))


def rest(cluster: Cluster) -> list[bytes]:
    """What the nodes have now; some may be on its way from one to another."""
    return [body for node in cluster.members for _, body in drain(node.ask, "mails")]
