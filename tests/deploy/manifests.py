"""What Kubernetes is given: the manifests of ``deploy/helm/rendered``, and the containers in them."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from deploy.helm.render import VALUES, target
from tests.deploy.prometheus import DEPLOY

Document = dict[str, Any]

NAMES = [values.stem for values in VALUES]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
IMAGE_ENVIRONMENT = {
    name: value
    for lines in re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    for name, value in re.findall(r"(\w+)=(\S+)", lines)
}
"""What each container has beside the variables of its own."""
_STAND_INS = {
    "CHECKBACK_GATEWAY__SECRETS": '["0123456789abcdef0123456789abcdef"]',
    "CHECKBACK_HTTP__TOKEN": "0123456789abcdef",
}


def parsed(text: str) -> list[Document]:
    """The documents of a file."""
    return [one for one in YAML(typ="safe").load_all(text) if one]


@functools.cache
def documents(name: str) -> list[Document]:
    """What is committed for these values: to parse it takes a third of a second, and no test changes it."""
    (values,) = (one for one in VALUES if one.stem == name)
    return parsed(target(values).read_text(encoding="utf-8"))


def of_kind(found: list[Document], *kinds: str) -> list[Document]:
    return [one for one in found if one["kind"] in kinds]


def config_map(found: list[Document], name: str) -> dict[str, str]:
    (one,) = (one for one in of_kind(found, "ConfigMap") if one["metadata"]["name"] == name)
    return dict(one["data"])


def executor_pod(found: list[Document]) -> list[Document]:
    """What Spark makes executors' pods of: it stands in a ConfigMap."""
    maps = of_kind(found, "ConfigMap")
    return [pod for one in maps if "pod.yaml" in one["data"] for pod in parsed(one["data"]["pod.yaml"])]


@dataclass(frozen=True)
class Container:
    """One, and the pod around it."""

    name: str
    spec: Document
    pod: Document
    labels: dict[str, str]

    @property
    def settings(self) -> str:
        """Name of the ConfigMap with its settings."""
        (volume,) = (one for one in self.pod["volumes"] if one["name"] == "settings")
        return str(volume["configMap"]["name"])

    @property
    def environment(self) -> dict[str, str]:
        """As in a cluster, with stand-ins for secrets and for the pod's address."""
        found: dict[str, str] = dict(IMAGE_ENVIRONMENT)
        for one in self.spec["env"]:
            given = (
                _STAND_INS.get(one["name"], "a stand-in") if "secretKeyRef" in one.get("valueFrom", {}) else "10.1.2.3"
            )
            value = one.get("value", given)
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], value)
        return found

    @property
    def ports(self) -> dict[str, int]:
        return {one["name"]: one["containerPort"] for one in self.spec.get("ports", ())}

    @property
    def mounts(self) -> dict[str, str]:
        """Names of volumes by where they are."""
        return {one["mountPath"]: one["name"] for one in self.spec["volumeMounts"]}


def containers(found: list[Document]) -> Iterator[Container]:
    """All of them, executors' as well."""
    templates = [one["spec"]["template"] for one in of_kind(found, "StatefulSet", "Deployment", "Job")]
    for pod in [*templates, *executor_pod(found)]:
        for spec in pod["spec"]["containers"]:
            yield Container(spec["name"], spec, pod["spec"], pod["metadata"]["labels"])


def place_files(container: Container, found: list[Document], folder: Path) -> Path:
    """Its settings, with the files that they name, in ``folder`` instead of ``/etc/checkback``."""
    text = config_map(found, container.settings)["checkback.toml"].replace("/etc/checkback", str(folder))
    for file in re.findall(rf'"({re.escape(str(folder))}/[^"]+)"', text):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).touch()
    settings = folder / "checkback.toml"
    settings.write_text(text, encoding="utf-8")
    return settings
