"""The overlays and the chart render the same objects; what the chart's values change, and which it refuses."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config import load_config
from scheduler.kube.feature_gates import METRICS_PATH
from scheduler.kube.permissions import LEASES, PERMISSIONS
from tests.manifests.rendering import CHART, Object, chart_text, helm, named, objects, overlay_text

pytestmark = [pytest.mark.oracle, pytest.mark.helm]

OVERLAYS = {
    "single": {"replicas": 1},
    "high-availability": {},
    "metrics": {"metrics": {"enabled": True}},
}


def by_identity(items: list[Object]) -> dict[tuple[str, str, str], Object]:
    found = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): comparable(one) for one in items
    }
    assert len(found) == len(items), "an object is there twice"
    return found


def comparable(given: Object) -> Object:
    """The object as it means the same: the chart notes the configuration's digest, and writes YAML its own way."""
    one = copy.deepcopy(given)
    if one["kind"] == "ConfigMap":
        one["data"] = {name: yaml.safe_load(text) for name, text in one["data"].items()}
    if one["kind"] == "Deployment":
        template = one["spec"]["template"]["metadata"]
        template.get("annotations", {}).pop("checksum/config", None)
        if not template.get("annotations"):
            template.pop("annotations", None)
    return one


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlay_and_chart_render_the_same_objects(overlay: str) -> None:
    from_chart = by_identity(objects(chart_text(OVERLAYS[overlay])))
    from_overlay = by_identity(objects(overlay_text(overlay)))
    # helm makes the namespace (--create-namespace) or takes the one that is there.
    assert from_overlay.pop(("Namespace", "", "dra-scheduler"))

    assert from_chart.keys() == from_overlay.keys()
    for identity, one in from_chart.items():
        assert one == from_overlay[identity], identity


def test_the_highly_available_ones_are_on_two_nodes_and_elect_a_leader() -> None:
    items = objects(overlay_text("high-availability"))
    spec = named(items, "Deployment")["spec"]
    pod = spec["template"]
    (apart,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert spec["replicas"] == 2
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    for selector in (spec["selector"], apart["labelSelector"], named(items, "PodDisruptionBudget")["spec"]["selector"]):
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
    config = yaml.safe_load(named(items, "ConfigMap")["data"]["config.yaml"])
    assert config["leaderElection"] == {"leaderElect": True}


@pytest.mark.parametrize("render", [lambda: overlay_text("metrics"), lambda: chart_text(OVERLAYS["metrics"])])
def test_names_that_refer_to_something_find_it(render: Any) -> None:
    items = objects(render())
    pod = named(items, "Deployment")["spec"]["template"]
    container = pod["spec"]["containers"][0]

    assert named(items, "PriorityClass", pod["spec"]["priorityClassName"])
    assert named(items, "ServiceAccount", pod["spec"]["serviceAccountName"])
    assert named(items, "ConfigMap", pod["spec"]["volumes"][0]["configMap"]["name"])["data"].keys() == {"config.yaml"}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {probe: container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {
        "livenessProbe": "health",
        "readinessProbe": "health",
    }
    assert ports == {"health": 10259}
    service, monitor = named(items, "Service"), named(items, "ServiceMonitor")
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] in ports
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["bearerTokenFile"].rpartition("/")[2]) == ("https", "token")
    reader = named(items, "ClusterRole", "dra-scheduler-metrics-reader")
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    # Alerts and dashboard ask for this job.
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "dra-scheduler"
    policy = named(items, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        bound = named(items, binding)
        assert named(items, bound["roleRef"]["kind"], bound["roleRef"]["name"])
        (subject,) = bound["subjects"]
        assert (subject["name"], subject["namespace"]) == (pod["spec"]["serviceAccountName"], "dra-scheduler")


def test_the_chart_grants_exactly_the_rights_that_are_used() -> None:
    items = objects(chart_text(release="other", namespace="elsewhere"))
    granted = {
        (one["kind"], one["metadata"].get("namespace"), group, resource, verb)
        for one in items
        for rule in one.get("rules", [])
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    }
    everywhere = {("ClusterRole", None, one.group, one.resource, verb) for one in PERMISSIONS for verb in one.verbs}
    here = {("Role", "elsewhere", LEASES.group, LEASES.resource, verb) for verb in LEASES.verbs}

    assert granted == everywhere | here
    urls = [rule for one in items for rule in one.get("rules", []) if "nonResourceURLs" in rule]
    assert urls == [{"nonResourceURLs": [METRICS_PATH], "verbs": ["get"]}]


def test_two_releases_share_no_object() -> None:
    values = {"metrics": {"enabled": True}}
    first = by_identity(objects(chart_text(values, release="one", namespace="a")))
    second = by_identity(objects(chart_text(values, release="two", namespace="a")))

    assert not first.keys() & second.keys()
    assert {name.startswith("one-dra-scheduler") for _, _, name in first} == {True}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        pytest.param({}, ("dra-scheduler",), id="defaults"),
        pytest.param({"config": {"profiles": [{"schedulerName": "gpus"}]}}, ("gpus",), id="another-name"),
        pytest.param(
            {
                "config": {"nodes": "pool=gpu"},
                "kubeSchedulerConfiguration": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}],
                },
            },
            ("a", "b"),
            id="kube-schedulers-own",
        ),
    ],
)
def test_the_charts_configuration_is_accepted(
    values: Mapping[str, object], names: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(named(objects(chart_text(values)), "ConfigMap")["data"]["config.yaml"])
    config = load_config(path)

    assert config.scheduler_names == names
    assert config.leader_election.leader_elect
    assert config.tune_gc
    # `helm test` asks the first of them.
    tested = helm("template", "x", str(CHART), "--show-only", "templates/tests/schedules-a-pod.yaml", values=values)
    assert yaml.safe_load(tested.stdout)["spec"]["schedulerName"] == names[0]


def test_another_configuration_makes_new_pods() -> None:
    def digest(values: Mapping[str, object]) -> str:
        deployment = named(objects(chart_text(values)), "Deployment")
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert digest({}) == digest({"image": {"tag": "0.2.0"}})
    assert digest({}) != digest({"config": {"nodes": "pool=gpu"}})


def test_values_reach_the_pod() -> None:
    values = {
        "replicas": 3,
        "image": {"repository": "mirror.example/dra", "digest": f"sha256:{'a' * 64}", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "config": {"healthPort": 12345},
        "extraArgs": ["--log-level", "debug"],
        "priorityClass": {"create": False, "name": "system-cluster-critical"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
        "networkPolicy": {"enabled": False},
    }
    items = objects(chart_text(values))
    deployment = named(items, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert deployment["spec"]["replicas"] == 3
    assert container["image"] == f"mirror.example/dra@sha256:{'a' * 64}"
    assert container["imagePullPolicy"] == "Always"
    assert container["ports"] == [{"name": "health", "containerPort": 12345}]
    assert container["args"] == ["run", "--config", "/etc/dra-scheduler/config.yaml", "--log-level", "debug"]
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert (pod["nodeSelector"], pod["affinity"]) == ({"kubernetes.io/os": "linux"}, {"nodeAffinity": {}})
    assert deployment["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
    assert {"PriorityClass", "NetworkPolicy"}.isdisjoint(one["kind"] for one in items)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param({"replica": 2}, "additional properties 'replica' not allowed", id="misspelt"),
        pytest.param({"replicas": 0}, "at '/replicas': minimum: got 0, want 1", id="no-replicas"),
        pytest.param({"replicas": "2"}, "at '/replicas': got string, want integer", id="a-text"),
        pytest.param({"image": {"digest": "abc"}}, "at '/image/digest': 'abc' does not match pattern", id="digest"),
        pytest.param({"config": {"kind": "Konfig"}}, "at '/config/kind'", id="another-kind"),
        pytest.param({"metrics": {"labels": {"a": 1}}}, "at '/metrics/labels/a': got number, want string", id="label"),
        pytest.param({"priorityClass": {"value": 2000000000}}, "at '/priorityClass/value'", id="a-reserved-priority"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Mapping[str, object], complaint: str) -> None:
    done = helm("template", "dra-scheduler", str(CHART), values=values)

    assert done.returncode == 1
    assert complaint in done.stderr


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", str(CHART), values={"metrics": {"enabled": True}})

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout
