"""``deploy/helm``: what is committed is of this chart, fits Kubernetes and our settings, and lets nobody do too much.

No cluster has run it: see ``deploy/helm/README.md``.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema.exceptions
import pytest
import typer
from kubernetes_validate.utils import ValidationError, validate
from pydantic import BaseModel, SecretStr
from ruamel.yaml import YAML

from access.policy import doubts, policy_of
from checkback import __version__
from checkback_cli import app
from conf import load
from deploy.helm.render import CHART, COPIES, VALUES, digest, target
from streaming.session import _SOCKET_FOLDER_BYTES
from tests.deploy.manifests import (
    DOCKERFILE,
    IMAGE_ENVIRONMENT,
    NAMES,
    Container,
    config_map,
    containers,
    documents,
    executor_pod,
    of_kind,
    parsed,
    place_files,
)
from tests.deploy.prometheus import DEPLOY, promtool

OF_THE_OPERATOR = ("ServiceMonitor", "PrometheusRule")
"""Their schemas are not Kubernetes's own."""
CHART_FILE: dict[str, Any] = YAML(typ="safe").load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
VALUES_FILE: dict[str, Any] = YAML(typ="safe").load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
EACH = [(name, one.name) for name in NAMES for one in containers(documents(name))]


def container(name: str, which: str) -> Container:
    (found,) = (one for one in containers(documents(name)) if one.name == which)
    return found


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_what_is_committed_was_rendered_of_this_chart(values: Path) -> None:
    head = target(values).read_text(encoding="utf-8").partition("\n")[0]
    assert f"sha256:{digest(values)} " in head, "python -m deploy.helm.render, and commit what it changes"


def test_a_chart_of_other_files_has_another_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "checkback"
    shutil.copytree(CHART, copy)
    values = Path(shutil.copy(VALUES[0], tmp_path))
    monkeypatch.setattr("deploy.helm.render.CHART", copy)
    monkeypatch.setattr("deploy.helm.render.HERE", tmp_path)
    before = digest(values)
    (copy / "templates" / "job.yaml").rename(copy / "templates" / "job2.yaml")
    renamed = digest(values)
    (copy / "templates" / "job2.yaml").write_text("", encoding="utf-8")
    assert len({before, renamed, digest(values)}) == 3


@pytest.mark.parametrize(("copy", "source"), COPIES.items(), ids=[copy.name for copy in COPIES])
def test_alerts_and_dashboard_are_those_of_everybody(copy: Path, source: Path) -> None:
    assert copy.read_bytes() == source.read_bytes(), "python -m deploy.helm.render"


def test_all_of_them_reach_the_cluster(tmp_path: Path) -> None:
    found = documents("everything")
    (rule,) = of_kind(found, "PrometheusRule")
    ours = parsed((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))[0]["groups"]
    assert rule["spec"]["groups"][:-1] == ours
    assert [one["alert"] for one in rule["spec"]["groups"][-1]["rules"]] == [
        "CheckbackJobMissing",
        "CheckbackJobStoppedItself",
    ]
    dashboard = json.loads((DEPLOY / "grafana" / "checkback.json").read_text(encoding="utf-8"))
    assert json.loads(config_map(found, "checkback-dashboard")["checkback.json"]) == dashboard
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps(rule["spec"]), encoding="utf-8")
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(file))


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_knows_every_field(name: str, version: str) -> None:
    assert CHART_FILE["kubeVersion"] == ">=1.25.0-0"
    found = documents(name)
    native = [one for one in found if one["kind"] not in OF_THE_OPERATOR]
    for one in [*native, *executor_pod(found)]:
        validate(one, version, strict=True)
    assert len(native) > 10


def test_an_unknown_field_would_be_noticed() -> None:
    (one,) = of_kind(documents("default"), "StatefulSet")
    with pytest.raises(ValidationError):
        validate(one | {"spec": one["spec"] | {"restart": "never"}}, "1.37", strict=True)


def test_the_chart_is_of_this_version() -> None:
    assert CHART_FILE["appVersion"] == __version__


def keys(tree: Mapping[str, Any], schema: Mapping[str, Any], place: str = "") -> list[str]:
    """Where values and schema differ, below all tables that the schema closes."""
    known = {key: one for key, one in schema["properties"].items() if place or key != "global"}
    wrong = [f"{place}{key}" for key in tree.keys() ^ known.keys()]
    inner = [key for key in tree.keys() & known.keys() if known[key].get("additionalProperties") is False]
    return wrong + [one for key in inner if key != "settings" for one in keys(tree[key], known[key], f"{place}{key}.")]


def test_values_and_their_schema_have_the_same_keys() -> None:
    assert keys(VALUES_FILE, SCHEMA) == []
    assert set(SCHEMA["properties"]["settings"]["properties"]) | {"access"} == set(type(load()).model_fields)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("http", "token", "0123456789abcdef"),
        ("gateway", "secrets", ["0123456789abcdef0123456789abcdef"]),
        ("checks", "keys", {"shop": "0123456789abcdef"}),
        ("kafka", "security", {"password": "x"}),
        ("kafka", "source_options", {"sasl.jaas.config": "x"}),
        ("sinks", "tables", {"lake": {"kind": "postgresql", "password": "x"}}),
        ("job", "master", "yarn"),
        ("checks", "in_job", True),
        ("nonsense", "key", 1),
    ],
)
def test_secrets_and_what_the_chart_writes_are_no_settings(section: str, key: str, value: Any) -> None:
    jsonschema.validate(VALUES_FILE, SCHEMA)
    given = VALUES_FILE["settings"]
    wrong = VALUES_FILE | {"settings": given | {section: given.get(section, {}) | {key: value}}}
    with pytest.raises(jsonschema.exceptions.ValidationError):
        jsonschema.validate(wrong, SCHEMA)


@pytest.mark.parametrize(("name", "which"), EACH)
def test_a_container_can_do_nothing_but_its_work(name: str, which: str) -> None:
    one = container(name, which)
    assert one.spec["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    context = one.pod["securityContext"]
    assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert {context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {10001}
    assert "groupadd --gid 10001 checkback && useradd --uid 10001 --gid 10001 --create-home" in DOCKERFILE
    assert "\nUSER 10001\n" in DOCKERFILE
    assert one.pod["automountServiceAccountToken"] is (which == "job" and name == "everything")
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & one.pod.keys()
    if which != "executor":  # Spark writes these
        assert one.spec["resources"].keys() == {"requests", "limits"}


@pytest.mark.parametrize(("name", "which"), EACH)
def test_what_a_container_writes_to_is_no_part_of_the_image(name: str, which: str) -> None:
    one = container(name, which)
    volumes = {volume["name"]: volume for volume in one.pod["volumes"]}
    assert set(one.mounts.values()) == volumes.keys()
    assert len(one.mounts) == len(one.spec["volumeMounts"]), "no place twice"
    writable = {mount["mountPath"] for mount in one.spec["volumeMounts"] if not mount.get("readOnly")}
    wanted = {"job": {"/tmp", "/scratch"}, "executor": {"/tmp", "/scratch"}}.get(which, {"/tmp"})  # noqa: S108  (of a container)
    assert writable == wanted | ({"/var/lib/checkback"} if (name, which) == ("default", "job") else set())
    assert all("subPath" not in mount for mount in one.spec["volumeMounts"])
    secret = [volume for volume in volumes.values() if "secret" in volume]
    assert all(volume["secret"]["defaultMode"] == 0o440 for volume in secret), "others may not read them"


@pytest.mark.parametrize(("name", "which"), EACH)
def test_settings_and_environment_are_taken(
    name: str, which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, found = container(name, which), documents(name)
    for variable, value in one.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("CHECKBACK_CONFIG", str(place_files(one, found, tmp_path)))
    settings = load()
    assert one.environment["CHECKBACK_CONFIG"] == "/etc/checkback/settings/checkback.toml"
    folders = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert {f"/etc/checkback/{folder}" for folder in folders - {"checkback.toml"}} - {"/etc/checkback/gateway"} <= set(
        one.mounts
    )
    if which == "topics":
        return
    assert settings.checks.in_job is False
    assert (settings.http.host, settings.checks.http_host) == ("0.0.0.0", "0.0.0.0")  # noqa: S104  (of a container)
    assert settings.http.names[:3] == ["checkback-job", "checkback-job.shop", "checkback-job.shop.svc"]
    if settings.access.secrets:
        assert str(Path(settings.access.secrets).parent) in one.mounts
    if which == "gateway":
        assert settings.access.policy
        assert (settings.gateway.advertised, len(settings.gateway.secrets)) == ("10.1.2.3", 1)
        assert str(Path(settings.gateway.tls_key).parent).replace(str(tmp_path), "/etc/checkback") in one.mounts


def test_the_checkpoint_is_on_the_volume_or_where_executors_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = container("default", "job"), container("everything", "job")
    assert "/var/lib/checkback" in here.mounts
    assert here.environment["CHECKBACK_JOB__CHECKPOINT"].startswith("/var/lib/checkback/")
    assert "CHECKBACK_JOB__CHECKPOINT" in IMAGE_ENVIRONMENT, "so a setting in the file would be passed over"
    assert there.environment["CHECKBACK_JOB__CHECKPOINT"] == "hdfs://names:8020/checkback"
    own_folder = len("/checkback-run-") + 12
    assert len(here.environment["SPARK_LOCAL_DIRS"]) + own_folder <= _SOCKET_FOLDER_BYTES
    for variable, value in there.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("CHECKBACK_CONFIG", str(place_files(there, documents("everything"), tmp_path)))
    options = load().job.spark_options
    assert (options["spark.driver.host"], options["spark.kubernetes.namespace"]) == ("10.1.2.3", "shop")
    assert there.ports["driver"] == int(options["spark.driver.port"])
    assert there.ports["blocks"] == int(options["spark.blockManager.port"])
    assert str(Path(options["spark.kubernetes.executor.podTemplateFile"]).parent) in there.mounts


def secrets_in(settings: BaseModel) -> list[str]:
    found = []
    for name, value in settings:
        if isinstance(value, SecretStr) and value.get_secret_value():
            found.append(name)
        elif isinstance(value, BaseModel):
            found += secrets_in(value)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_in_a_manifest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = documents(name)
    assert of_kind(found, "Secret") == []
    for one in containers(found):
        for variable in one.spec["env"]:
            if any(word in variable["name"] for word in ("PASSWORD", "TOKEN", "GATEWAY__SECRETS")):
                assert variable.keys() == {"name", "valueFrom"}, variable
        if one.name == "job":
            monkeypatch.setenv("CHECKBACK_KAFKA__SECURITY__PASSWORD", "" if name == "default" else "a stand-in")
            settings = load(place_files(one, found, tmp_path))
            assert secrets_in(settings) == ([] if name == "default" else ["password"])
            assert (settings.checks.keys, settings.gateway.secrets) == ({}, [])


def test_a_policy_leaves_nothing_open() -> None:
    assert list(doubts(policy_of(config_map(documents("everything"), "checkback-access")["access.toml"]))) == []


@pytest.mark.parametrize(("name", "which"), EACH)
def test_commands_are_ours(name: str, which: str) -> None:
    if which == "executor":
        return
    words = container(name, which).spec["args"]
    known: Any = typer.main.get_command(app)
    while words and words[0] in getattr(known, "commands", {}):
        known, words = known.commands[words[0]], words[1:]
    assert not hasattr(known, "commands")
    known.make_context(which, words)  # raises where an option is none
