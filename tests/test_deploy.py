"""What conf/ and docker-compose.yml say to Docker, Kubernetes and systemd, as far as it can be tried without them."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster.member import is_host, is_zone
from disque import VERSION
from tests.conftest import ROOT

CONF: Final = ROOT / "conf"
ENTRYPOINT: Final = CONF / "entrypoint"
IMAGE: Final = f"disque:{VERSION}"
#: A program that writes how it was called, and what comes on standard input where it is to read that.
SHOWS_HOW: Final = """#!/bin/sh
echo "$(basename "$0")" "$@" "auth=${DISQUE_AUTH-}"
if [ "${1-}" = - ]; then cat; fi
"""


def objects(kind: str) -> dict[str, Any]:
    """The objects of a kind in kubernetes.yaml, by name."""
    documents = yaml.safe_load_all((CONF / "kubernetes.yaml").read_text())
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


class TestKubernetes:
    def test_nodes_find_each_other_before_they_are_ready_and_clients_only_get_ready_ones(self) -> None:
        services = {name: service["spec"] for name, service in objects("Service").items()}
        assert set(services) == {"disque", "disque-nodes"}
        assert services["disque-nodes"]["clusterIP"] == "None"
        assert services["disque-nodes"]["publishNotReadyAddresses"] is True
        assert {port["port"] for port in services["disque-nodes"]["ports"]} == {7711, 17711}
        assert "publishNotReadyAddresses" not in services["disque"]
        assert "clusterIP" not in services["disque"]
        assert [port["port"] for port in services["disque"]["ports"]] == [7711]

    def test_everybody_means_the_same_pods(self) -> None:
        labels = self.template()["metadata"]["labels"]
        assert objects("StatefulSet")["disque"]["spec"]["selector"]["matchLabels"] == labels
        assert objects("PodDisruptionBudget")["disque"]["spec"]["selector"]["matchLabels"] == labels
        assert [service["spec"]["selector"] for service in objects("Service").values()] == [labels, labels]

    def test_pods_are_allowed_where_the_restricted_standard_is_enforced(self) -> None:
        pod = self.template()["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert self.container()["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert {"name": "data", "mountPath": "/data"} in self.container()["volumeMounts"]

    def test_the_user_is_that_of_the_image(self) -> None:
        context = self.template()["spec"]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (7711, 7711, 7711)
        assert "USER 7711:7711" in (CONF / "Dockerfile").read_text()

    def test_nodes_call_each_other_by_names_of_the_headless_service(self) -> None:
        state = objects("StatefulSet")["disque"]["spec"]
        assert state["serviceName"] == "disque-nodes"
        args = self.container()["args"]
        seeds = [word for word in args if word.endswith(":7711")]
        assert seeds == [f"disque-{number}.disque-nodes:7711" for number in range(state["replicas"])]
        announced = args[args.index("--cluster-announce-ip") + 1]
        assert announced == "$(POD).disque-nodes.$(NAMESPACE).svc"
        assert is_host(announced.replace("$(POD)", "disque-2").replace("$(NAMESPACE)", "x" * 63).encode())
        assert {"POD", "NAMESPACE"} < set(self.environment())

    def test_the_zone_is_that_of_the_machine_of_the_pod(self) -> None:
        field = self.environment()["DISQUE_ZONE"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert field == "metadata.labels['topology.kubernetes.io/zone']"
        assert self.environment()["DISQUE_HOST"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"

    def test_the_image_has_the_tag_of_this_version(self) -> None:
        assert self.container()["image"] == IMAGE

    @staticmethod
    def template() -> Any:
        return objects("StatefulSet")["disque"]["spec"]["template"]

    def container(self) -> Any:
        (container,) = self.template()["spec"]["containers"]
        return container

    def environment(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.container()["env"]}


class TestGateway:
    """The gateway beside the nodes."""

    PODS = tuple(yaml.safe_load_all((CONF / "kubernetes-gateway.yaml").read_text()))

    @staticmethod
    def parsed(words: list[str]) -> Any:
        settings = pytest.importorskip("disque.gateway.settings", reason="the extra gateway is missing")
        assert words[:2] == ["disque", "gateway"]
        at = words.index("--secret-file") if "--secret-file" in words else len(words)
        return settings.parse(words[2:at], {})

    def test_in_kubernetes_it_knows_all_nodes_and_is_asked_whether_it_is_ready(self) -> None:
        service, deployment = self.PODS
        template = deployment["spec"]["template"]
        assert service["spec"]["selector"] == template["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
        (container,) = template["spec"]["containers"]
        settings = self.parsed(container["args"])
        seeds = [f"{host}:{port}" for host, port in settings.nodes]
        assert seeds == [word for word in TestKubernetes().container()["args"] if word.endswith(":7711")]
        assert settings.listen == ("0.0.0.0", service["spec"]["ports"][0]["port"])
        assert container["image"] == IMAGE
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True

    def test_in_compose_it_knows_all_nodes(self) -> None:
        service = TestCompose.FILE["services"]["gateway"]
        settings = self.parsed(service["command"])
        assert settings.nodes == (("disque-1", 7711), ("disque-2", 7712), ("disque-3", 7713))
        assert service["image"] == IMAGE
        assert service["ports"] == [f"127.0.0.1:{settings.listen[1]}:{settings.listen[1]}"]


class TestCompose:
    TEXT = (ROOT / "docker-compose.yml").read_text()
    FILE = yaml.safe_load(TEXT)
    NODES = {name: one for name, one in FILE["services"].items() if name != "gateway"}  # noqa: RUF012 - only read

    def test_what_hello_says_is_true_on_this_machine_with_the_line_that_the_comment_gives(self) -> None:
        names = self.NODES
        assert re.search(r"^#     127\.0\.0\.1 (.*)$", self.TEXT, re.MULTILINE)[1].split() == list(names)  # type: ignore[index]  # it is there
        for name, service in names.items():
            port = service["environment"]["DISQUE_PORT"]
            assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
            assert service["command"][service["command"].index("--cluster-announce-ip") + 1] == name
            assert f"{name}:{port}" in service["command"]
            assert f"127.0.0.1:{port}" in self.TEXT.split("\nname:")[0]

    def test_all_nodes_have_all_seeds_and_a_volume_and_the_image_of_this_version(self) -> None:
        for service in self.NODES.values():
            seeds = [word for word in service["command"] if ":" in word]
            assert seeds == ["disque-1:7711", "disque-2:7712", "disque-3:7713"]
            assert service["image"] == IMAGE
            assert service["volumes"][0].partition(":")[0] in self.FILE["volumes"]
            assert set(service["secrets"]) == set(self.FILE["secrets"])


class TestDockerfile:
    TEXT = (CONF / "Dockerfile").read_text().replace("\\\n", " ")

    def test_what_is_copied_is_there(self) -> None:
        for line in self.TEXT.splitlines():
            if line.startswith("COPY ") and "--from=" not in line:
                *sources, _target = [word for word in shlex.split(line)[1:] if not word.startswith("--")]
                assert [source for source in sources if not (ROOT / source).exists()] == []

    def test_all_that_is_installed_is_copied(self) -> None:
        copied = " ".join(line for line in self.TEXT.splitlines() if line.startswith("COPY "))
        for source in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pyspark_disque.py", "cluster", "disque"):
            assert f" {source} " in copied

    def test_labels_say_which_version_it_is(self) -> None:
        labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', self.TEXT))
        assert labels["version"] == VERSION
        assert labels["licenses"] == "BSD-3-Clause"
        assert {"title", "description"} < set(labels)
        assert f"-t {IMAGE} ." in self.TEXT

    def test_no_node_is_root(self) -> None:
        users = re.findall(r"^USER (.*)$", self.TEXT, re.MULTILINE)
        assert users == ["7711:7711"]


class TestEntrypoint:
    @pytest.fixture
    def programs(self, tmp_path: Path) -> Path:
        """A folder with programs that show how they were called."""
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("disque", "disque-server"):
            program = folder / name
            program.write_text(SHOWS_HOW)
            program.chmod(0o755)
        return folder

    def run(self, folder: Path, *words: str, **environment: str) -> list[str]:
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "DISQUE_SECRETS": str(folder.parent), **environment}
        done = subprocess.run(["sh", str(ENTRYPOINT), *words], env=environment, capture_output=True, check=True)
        return done.stdout.decode().splitlines()

    def test_a_node_gets_its_secrets_as_a_file(self, programs: Path, tmp_path: Path) -> None:
        (tmp_path / "requirepass").write_text('a "quoted" \\ one')
        shown = self.run(programs, "--maxmemory", "1gb")
        assert shown[0] == "disque-server - --port 7711 --dir /data --appendonly yes --maxmemory 1gb auth="
        assert shown[1] == 'requirepass "a \\"quoted\\" \\\\ one"'

    @pytest.mark.parametrize("word", ["--version", "-v", "--help", "-h"])
    def test_what_is_only_asked_is_answered(self, word: str, programs: Path) -> None:
        assert self.run(programs, word, DISQUE_ZONE="a") == [f"disque-server {word} auth="]

    def test_the_shell_asks_this_node(self, programs: Path, tmp_path: Path) -> None:
        (tmp_path / "requirepass").write_text("secret\n")
        assert self.run(programs, "disque", "PING", DISQUE_PORT="7712") == ["disque -p 7712 PING auth=secret"]

    @pytest.mark.parametrize(
        ("zone", "host", "given"),
        [("eu-1a", "node-7", "eu-1a"), ("", "node-7", "node-7"), ("", "n" * 90, "n" * 64), ("", "", "")],
    )
    def test_the_zone_is_the_label_or_the_machine(self, zone: str, host: str, given: str, programs: Path) -> None:
        shown = self.run(programs, "--hz", "10", DISQUE_ZONE=zone, DISQUE_HOST=host)[0]
        assert (f"--cluster-zone {given} --hz 10" in shown) == bool(given)
        assert ("--cluster-zone" in shown) == bool(given)
        assert is_zone(given.encode())


class TestSystemd:
    UNIT = CONF / "disque.service"
    LINES = tuple(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))

    def test_it_serves_what_the_file_says_in_a_directory_of_its_own(self) -> None:
        values = dict(self.LINES)
        assert values["Type"] == "exec"
        assert values["ExecStart"].split()[:2] == ["/opt/disque/bin/disque-server", "/etc/disque/disque.conf"]
        assert "--dir /var/lib/disque" in values["ExecStart"]
        assert values["StateDirectory"] == "disque"
        assert values["Restart"] == "on-failure"
        assert int(values["LimitNOFILE"]) > 10_000
        assert values["WantedBy"] == "multi-user.target"

    def test_nothing_is_said_twice_but_filters(self) -> None:
        names = [name for name, _value in self.LINES]
        assert sorted(set(names)) == sorted(names)

    def test_systemd_understands_it(self, tmp_path: Path) -> None:
        unit = tmp_path / "disque.service"
        unit.write_text(re.sub("(?m)^ExecStart=.*$", "ExecStart=/bin/true", self.UNIT.read_text()))
        if shutil.which("systemd-analyze"):
            done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, check=False)
            assert str(unit) not in done.stderr.decode()
            assert done.returncode == 0, done.stderr
