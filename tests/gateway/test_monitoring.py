"""What Grafana and Prometheus are given uses metrics and labels that are really there."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT, path_of
from tests.end_to_end.node import Node
from tests.gateway.support import Gateway

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


def lost(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """Where something that was given is not what was read."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            yield from lost(value, read.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{place}[{number}]")
    elif given != read:
        yield f"{place}: {given!r} was read as {read!r}"


@pytest.mark.slow
def test_the_dashboard_has_nothing_that_grafanas_schema_does_not_know() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is missing: it is in the extra test")
    from grafana_foundation_sdk.cog import encoder, plugins  # noqa: PLC0415 - see above
    from grafana_foundation_sdk.models.dashboard import Dashboard  # noqa: PLC0415 - see above

    plugins.register_default_plugins()
    read = json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert not list(lost(BOARD, read))


@pytest.mark.slow
def test_prometheus_reads_the_alerts() -> None:
    command = [path_of("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(ROOT / "conf" / "alerts.yaml")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("leaving", "reachable", "told"), [(0, 2, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1)])
def test_a_node_that_leaves_is_no_alarm_at_the_others(leaving: int, reachable: int, told: int, tmp_path: Path) -> None:
    """A node does not count as reachable while it leaves, though it answers."""
    samples = {
        'disque_cluster_known_nodes{node="a"}': 3,
        'disque_cluster_reachable_nodes{node="a"}': reachable,
        'disque_cluster_leaving{node="a"}': 0,
        'disque_cluster_leaving{node="b"}': leaving,
    }
    alarm = {
        "exp_labels": {"node": "a", "severity": "warning"},
        "exp_annotations": {"summary": "a does not reach all other nodes"},
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{value}x5"} for name, value in samples.items()],
        "alert_rule_test": [{"eval_time": "4m", "alertname": "DisqueNodesApart", "exp_alerts": [alarm] * told}],
    }
    case = tmp_path / "case.yaml"
    case.write_text(yaml.safe_dump({"rule_files": [str(ROOT / "conf" / "alerts.yaml")], "tests": [test]}))
    said = subprocess.run(
        [path_of("promtool"), "test", "rules", str(case)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.slow
def test_prometheus_finds_nothing_wrong_with_the_metrics(gateway: Gateway, node: Node) -> None:
    job_id = node.ask("ADDJOB", "mails", "x", 1000)
    assert node.ask("GETJOB", "FROM", "mails")
    assert node.ask("ACKJOB", job_id) == 1
    gateway.ask("GET", "/healthz")
    text = gateway.ask("GET", "/metrics").text
    command = [path_of("promtool"), "check", "metrics"]
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


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
