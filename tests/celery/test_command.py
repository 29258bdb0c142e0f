import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from typing import Any

import pytest
from click.testing import CliRunner
from kombu import Queue
from kombu.utils.imports import symbol_by_name

from disque.celery.command import disque, table
from tests.celery.support import application, consume, publish, url_of
from tests.conftest import ROOT
from tests.end_to_end.node import Node


def run(broker: str) -> Any:
    with application(broker) as app:
        app.conf.task_queues = [Queue("mails"), Queue("pictures")]
        context = type("Context", (), {"app": app})
        return CliRunner().invoke(disque, obj=context)


def test_it_shows_the_queues_of_the_application(node: Node, connection: Any) -> None:
    for number in range(12):
        publish(connection, number, "mails")
    consume(connection, [Queue("mails")])
    node.ask("ADDJOB", "pictures", "later", 0, "DELAY", 60)
    assert run(url_of(node)).output.splitlines() == [
        "queue     waiting  scheduled  in flight  dead",
        "mails          11          0          0     0",
        "pictures        0          1          0     0",
    ]


def test_another_broker_is_an_error() -> None:
    result = run("memory://")
    assert (result.exit_code, result.output) == (1, "Error: the broker of this application is not disque://\n")


def test_columns_stand_below_each_other() -> None:
    assert list(table([["name", "n"], ["a", 100]])) == ["name    n", "a     100"]


def test_celery_finds_it() -> None:
    words = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["celery.commands"]
    assert symbol_by_name(words["disque"]) is disque


@pytest.mark.slow
def test_on_the_command_line_the_transport_is_known_to_all(node: Node) -> None:
    if "disque" not in {one.name for one in entry_points(group="celery.commands")}:
        pytest.skip("installed before there was the entry point: make test installs it anew")
    words = [sys.executable, "-m", "celery", "-b", url_of(node), "disque"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("queue"), done.stderr
