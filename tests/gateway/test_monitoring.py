"""What Grafana and Prometheus are given uses metrics and labels that are really there."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT
from tests.end_to_end.node import Node

BOARD: Final = json.loads((ROOT / "conf" / "grafana.json").read_text())
ALERTS: Final = yaml.safe_load((ROOT / "conf" / "alerts.yaml").read_text())
#: What Prometheus adds by itself, and what histograms have.
LABELS: Final = frozenset({"instance", "job", "le"})
#: What Grafana puts into expressions.
VARIABLES: Final = frozenset({"$__rate_interval", "$queue"})


def panels() -> list[Any]:
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def rules() -> list[Any]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


EXPRESSIONS: Final = [
    *[target["expr"] for panel in panels() for target in panel["targets"]],
    *[rule["expr"] for rule in rules()],
]


@pytest.fixture(scope="module")
def labels(one_node: Node) -> Iterator[dict[str, set[str]]]:
    """The names of samples that there are, with their labels, once there was some traffic."""
    from disque.gateway.settings import Settings  # noqa: PLC0415 - the extra may be missing
    from tests.gateway.support import Gateway  # noqa: PLC0415

    gateway = Gateway(Settings(nodes=(("127.0.0.1", one_node.port),)))
    job_id = one_node.ask("ADDJOB", "mails", "x", 1000)
    assert one_node.ask("GETJOB", "FROM", "mails")
    assert one_node.ask("ACKJOB", job_id) == 1
    gateway.ask("GET", "/healthz")
    text = gateway.ask("GET", "/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    yield found
    gateway.close()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_what_is_there(expression: str, labels: dict[str, set[str]]) -> None:
    names = set(re.findall(r"\bdisque_[a-z_]+", expression))
    assert names <= set(labels)
    known = LABELS.union(*[labels[name] for name in names])
    used = {word for words in re.findall(r"by \(([^)]*)\)", expression) for word in re.split(r", *", words)}
    used |= set(re.findall(r'[{,]\s*(\w+)\s*=~?"', expression))
    assert used <= known
    assert expression.count("(") == expression.count(")")
    assert set(re.findall(r"\$\w+", expression)) <= VARIABLES


def test_the_dashboard_is_one() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        legends = [target["legendFormat"] for target in panel.get("targets", ())]
        for target, legend in zip(panel.get("targets", ()), legends, strict=True):
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= set(re.findall(r"\w+", target["expr"]))


def test_alerts_say_what_is_wrong_and_how_bad_it_is() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert re.fullmatch(r"\d+[sm]", rule["for"])
        shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert shown <= set(re.findall(r"\w+", rule["expr"]))


def test_a_page_of_documentation_names_what_is_there(labels: dict[str, set[str]]) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert set(re.findall(r"`(disque_\w+)`", page)) <= set(labels)
