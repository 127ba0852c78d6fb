"""How the parts of ``deploy/helm`` find one another: probes, ports, labels, who may reach whom; helm, where it is."""

import inspect
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import status_page.app
from checkback.exceptions import ConfigurationError
from conf import load
from deploy.helm.render import CHART, VALUES, rendered, target
from gateway.http.inner import inner_routes
from streaming.running import _STOP_SECONDS
from tests.deploy.manifests import NAMES, Container, Document, config_map, containers, documents, of_kind, parsed
from tests.deploy.prometheus import DEPLOY, promtool

SERVING = [(name, one.name) for name in NAMES for one in containers(documents(name)) if one.ports]


def container(name: str, which: str) -> Container:
    (found,) = (one for one in containers(documents(name)) if one.name == which)
    return found


def selected(found: list[Document], labels: dict[str, str]) -> set[str]:
    """Names of the containers whose pods have these labels."""
    return {one.name for one in containers(found) if labels.items() <= one.labels.items()}


def served(which: str) -> set[str]:
    """What the program answers at the port that is asked."""
    if which == "gateway":
        return {route.path for route in inner_routes(CollectorRegistry(), lambda: True)}
    if which == "checks":
        return {"/metrics"}  # of prometheus_client
    return set(re.findall(r'Route\("(/\w+)"', inspect.getsource(status_page.app.site_app)))


@pytest.mark.parametrize(("name", "which"), SERVING)
def test_what_serves_is_asked_whether_it_is_well(name: str, which: str) -> None:
    one = container(name, which)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = one.spec[probe]["httpGet"]
        assert asked["path"] in served(which)
        assert asked["port"] == "metrics"
    start = one.spec["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= (600 if which == "job" else 300)


def test_all_but_hook_and_executors_serve() -> None:
    assert {which for _, which in SERVING} == {"job", "checks", "gateway"}
    every = {one.name for name in NAMES for one in containers(documents(name))}
    assert every - {which for _, which in SERVING} == {"topics", "executor"}


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_driver_and_it_has_the_time_to_stop(name: str) -> None:
    drivers = [one for one in containers(documents(name)) if one.spec.get("args", [""])[0] == "run"]
    (job,) = of_kind(documents(name), "StatefulSet")
    assert (len(drivers), job["spec"]["replicas"], job["spec"]["podManagementPolicy"]) == (1, 1, "Parallel")
    assert drivers[0].pod["terminationGracePeriodSeconds"] >= _STOP_SECONDS + 10
    assert drivers[0].pod["restartPolicy"] == "Always"
    memory = drivers[0].spec["resources"]["limits"]["memory"]
    assert int(memory.removesuffix("Gi")) << 30 >= 2 * load().job.driver_memory_bytes


@pytest.mark.parametrize("name", NAMES)
def test_no_pod_gets_variables_of_services(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(one.pod["enableServiceLinks"] is False for one in containers(documents(name)))
    monkeypatch.setenv("CHECKBACK_SERVICE_HOST", "10.1.2.3")  # of a Service that is called checkback
    with pytest.raises(ConfigurationError, match="CHECKBACK_SERVICE_HOST"):
        load()


@pytest.mark.parametrize("name", NAMES)
def test_services_and_budgets_find_their_pods_and_ports(name: str) -> None:
    found = documents(name)
    by_name = {one.name: one for one in containers(found)}
    for service in of_kind(found, "Service"):
        (which,) = selected(found, service["spec"]["selector"])
        for port in service["spec"]["ports"]:
            assert by_name[which].ports[port["targetPort"]] == port["port"]
    budgets = [selected(found, one["spec"]["selector"]["matchLabels"]) for one in of_kind(found, "PodDisruptionBudget")]
    assert budgets == ([{"checks"}] if name == "default" else [{"checks"}, {"gateway"}])
    for one in of_kind(found, "StatefulSet", "Deployment"):
        pod = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= pod.items()
    for one in of_kind(found, "Deployment"):
        (which,) = selected(found, one["spec"]["selector"]["matchLabels"])
        for spread in one["spec"]["template"]["spec"]["topologySpreadConstraints"]:
            assert selected(found, spread["labelSelector"]["matchLabels"]) == {which}


def test_clients_of_a_gateway_do_not_get_to_its_inner_port() -> None:
    found = documents("everything")
    (outside,) = (one for one in of_kind(found, "Service") if one["metadata"]["name"] == "checkback-gateway")
    assert {port["name"] for port in outside["spec"]["ports"]} == {"grpc", "grpc-tls", "http"}
    (policy,) = (one for one in of_kind(found, "NetworkPolicy") if one["metadata"]["name"] == "checkback-gateway")
    inner = [rule for rule in policy["spec"]["ingress"] if {"port": 8083} in rule["ports"]]
    peers = [peer for rule in inner for peer in rule["from"]]
    pods = [selected(found, peer["podSelector"]["matchLabels"]) for peer in peers if "podSelector" in peer]
    assert (pods, len(peers)) == ([{"checks"}], 2), "and those who scrape"


@pytest.mark.parametrize("name", NAMES)
def test_policies_let_in_to_ports_that_are_served_and_no_others(name: str) -> None:
    found = documents(name)
    by_name = {one.name: one for one in containers(found)}
    for policy in of_kind(found, "NetworkPolicy"):
        (which,) = selected(found, policy["spec"]["podSelector"]["matchLabels"])
        let_in = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert let_in == set(by_name[which].ports.values())
        assert all(rule.get("from") for rule in policy["spec"]["ingress"] if {"port": 8081} not in rule["ports"])
    policies = {one["metadata"]["name"] for one in of_kind(found, "NetworkPolicy")}
    assert policies == {f"checkback-{which}" for at, which in SERVING if at == name}


def test_what_is_scraped_has_the_labels_that_alerts_go_by() -> None:
    found = documents("everything")
    (monitor,) = of_kind(found, "ServiceMonitor")
    wanted: dict[str, Any] = monitor["spec"]["selector"]["matchLabels"]
    services = [one for one in of_kind(found, "Service") if wanted.items() <= one["metadata"]["labels"].items()]
    port = monitor["spec"]["endpoints"][0]["port"]
    scraped = [one for one in services if port in {of["name"] for of in one["spec"]["ports"]}]
    roles = [one["metadata"]["labels"]["app.kubernetes.io/component"] for one in scraped]
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert sorted(roles) == sorted(set(re.findall(r'up\{role="(\w+)"\}', alerts)))
    assert monitor["spec"]["jobLabel"] in scraped[0]["metadata"]["labels"]
    limit = f"sample_limit: {monitor['spec']['sampleLimit']}"
    assert limit in (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")


def test_alerts_of_kubernetes_are_about_this_job() -> None:
    found = documents("everything")
    (job,) = of_kind(found, "StatefulSet")
    (rule,) = of_kind(found, "PrometheusRule")
    missing, stopped = (one["expr"] for one in rule["spec"]["groups"][-1]["rules"])
    assert missing == 'absent(up{job="checkback", role="job"})'
    assert stopped.count(f'pod="{job["metadata"]["name"]}-0"') == 2
    assert stopped.count('container="job"') == 2


@pytest.mark.parametrize("status", [1, 75])
def test_somebody_is_called_after_status_1_and_when_there_is_no_pod(status: int, tmp_path: Path) -> None:
    (rule,) = of_kind(documents("everything"), "PrometheusRule")
    groups = {"groups": rule["spec"]["groups"][-1:]}
    (tmp_path / "rules.yml").write_text(json.dumps(groups), encoding="utf-8")
    of_job = '{namespace="shop", pod="checkback-job-0", container="job"}'
    series = {
        f"kube_pod_container_status_last_terminated_exitcode{of_job}": f"{status}x60",
        f"kube_pod_container_status_restarts_total{of_job}": "0x4 1x5 2x60",
        'up{job="checkback", role="job"}': "1x8 0x32 stale",
    }
    stopped = f'{{alertname="CheckbackJobStoppedItself", {of_job[1:].split(", container", maxsplit=1)[0]}}}'
    missing = '{alertname="CheckbackJobMissing", job="checkback", role="job"}'
    firing = {"3m": [], "12m": [stopped] if status == 1 else [], "40m": [], "55m": [missing]}
    one = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'sum by (alertname, namespace, pod, job, role) (ALERTS{alertstate="firing"})',
                "eval_time": at,
                "exp_samples": [{"labels": labels, "value": 1} for labels in alerts],
            }
            for at, alerts in firing.items()
        ],
    }
    test = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [one]}
    (tmp_path / "test.yml").write_text(json.dumps(test), encoding="utf-8")
    promtool("test", "rules", str(tmp_path / "test.yml"))


def test_only_a_driver_that_makes_executors_has_rights() -> None:
    assert of_kind(documents("default"), "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding") == []
    found = documents("everything")
    assert of_kind(found, "ClusterRole", "ClusterRoleBinding") == []
    (role,), (binding,) = of_kind(found, "Role"), of_kind(found, "RoleBinding")
    resources = {resource for one in role["rules"] for resource in one["resources"]}
    assert resources == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (account,) = of_kind(found, "ServiceAccount")
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False


def test_executors_are_made_as_spark_makes_them() -> None:
    driver, executor = container("everything", "job"), container("everything", "executor")
    scratch = driver.environment["SPARK_LOCAL_DIRS"]
    assert executor.mounts[scratch].startswith("spark-local-dir-"), "else Spark adds another one at the same place"
    assert executor.spec["workingDir"] == scratch, "jars are put there"
    script = (CHART / "files" / "executor.sh").read_text(encoding="utf-8")
    assert script == config_map(documents("everything"), "checkback-executor")["executor.sh"]
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed here (go install helm.sh/helm/v3/cmd/helm@v3.20.2, which takes minutes)")
    return subprocess.run(["helm", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_helm_renders_what_is_committed(values: Any) -> None:
    done = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert parsed(rendered(values)) == parsed(target(values).read_text(encoding="utf-8"))


IN_JOB = ("--set", "checks.enabled=false")
GATEWAY = ("--set", "gateway.enabled=true,gateway.secrets.secret=s,access.configMap=policy")
ON_SPARK = ("--set", "job.master=spark://spark:7077,job.checkpoint=hdfs://names/checkback")


@pytest.mark.parametrize("arguments", [IN_JOB, GATEWAY, (*GATEWAY, *IN_JOB), ON_SPARK, ("--set", "job.replicas=0")])
def test_helm_renders_other_values(arguments: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", str(CHART), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    found = parsed(rendered(VALUES[0], *arguments))
    assert ("checks" in {one.name for one in containers(found)}) is (IN_JOB[1] not in arguments)
    assert bool(of_kind(found, "PersistentVolumeClaim")) is (arguments != ON_SPARK)
    (settings,) = (one["data"] for one in of_kind(found, "ConfigMap") if one["metadata"]["name"] == "checkback")
    assert f"in_job = {str(IN_JOB[1] in arguments).lower()}" in settings["checkback.toml"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("job.master=spark://spark:7077", "job.master is not local"),
        ("gateway.enabled=true", "gateway.enabled needs access.policy"),
        ("gateway.enabled=true,access.configMap=policy", "needs gateway.secrets.secret"),
        ("access.job.key=a", "access.job.key needs access.job.secret"),
        ("access.policy=a,access.configMap=b", "give one of them"),
        ("job.replicas=2", "maximum: got 2, want 1"),
        ("settings.http.token=abc", "'/settings/http/token'"),
    ],
)
def test_helm_refuses_what_cannot_be(values: str, said: str) -> None:
    done = helm("template", "checkback", str(CHART), "--kube-version", "1.30.0", "--set", values)
    assert done.returncode == 1
    assert said in done.stderr
