"""The overlays and the chart render the same objects; what the chart's values change, and which it refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config import Config
from scheduler.config.file import read_config
from scheduler.config.settings import TOPOLOGY_GATE
from scheduler.kube.feature_gates import METRICS_PATH
from scheduler.kube.permissions import LEASES as LEASE_RIGHTS
from scheduler.kube.permissions import PERMISSIONS
from scheduler.model.api_rules import FIELD_BY_GATE
from tests.manifests.rendering import CHART, Object, chart_text, helm, named, objects, overlay_text, with_image

pytestmark = [pytest.mark.oracle, pytest.mark.helm]

KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OFF_ALREADY = {"disabled": [{"name": "DefaultPreemption"}]}
OVERLAYS = {
    "single": {"replicas": 1},
    "high-availability": {},
    "metrics": {"metrics": {"enabled": True}},
    "observe": {"mode": "observe"},
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
    leases = LEASE_RIGHTS
    here = {("Role", "elsewhere", leases.group, leases.resource, verb) for verb in leases.verbs}

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
    config = read_config(path).config

    assert config.scheduler_names == names
    assert config.leader_election.leader_elect
    assert config.tune_gc
    # `helm test` asks the first of them.
    hook = ("--show-only", "templates/tests/schedules-a-pod.yaml")
    tested = helm("template", "x", str(CHART), *hook, values=with_image(values))
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
        pytest.param(
            {"config": {"nodez": "a"}}, "at '/config': additional properties 'nodez' not allowed", id="config"
        ),
        pytest.param(
            {"config": {"leaderElection": {"leaseDuraton": "15s"}}},
            "at '/config/leaderElection': additional properties 'leaseDuraton' not allowed",
            id="a-section",
        ),
        pytest.param(
            {"config": {"profiles": [{"scheduler": "a"}]}},
            "at '/config/profiles/0': additional properties 'scheduler' not allowed",
            id="a-profile",
        ),
        pytest.param(
            {"config": {"profiles": [{"plugins": {"multipoint": {}}}]}},
            "at '/config/profiles/0/plugins': additional properties 'multipoint' not allowed",
            id="an-extension-point",
        ),
        pytest.param({"config": {"featureGates": {"DRATaints": True}}}, "'DRATaints'", id="a-gate"),
        pytest.param({"preemption": {"enable": False}}, "at '/preemption'", id="preemption"),
        pytest.param({"metrics": {"labels": {"a": 1}}}, "at '/metrics/labels/a': got number, want string", id="label"),
        pytest.param({"priorityClass": {"value": 2000000000}}, "at '/priorityClass/value'", id="a-reserved-priority"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Mapping[str, object], complaint: str) -> None:
    done = helm("template", "dra-scheduler", str(CHART), values=with_image(values))

    assert done.returncode == 1
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "at '/image': missing property 'repository'"),
        ({"image": {"repository": ""}}, "at '/image/repository': minLength: got 0, want 1"),
    ],
)
def test_an_image_that_nobody_can_pull_is_not_rendered(values: Mapping[str, object], complaint: str) -> None:
    done = helm("template", "dra-scheduler", str(CHART), values=values)

    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr


def test_the_chart_knows_every_name_of_the_configuration() -> None:
    """So that it refuses all others: the names, sections and lists are those of the scheduler's own model."""
    shipped, model = json.loads((CHART / "values.schema.json").read_text()), Config.model_json_schema(by_alias=True)
    config = dict(shipped["properties"]["config"])
    gates = config["properties"].pop("featureGates")
    model["properties"].pop("featureGates")

    assert names(config) == names(model)
    known = {section: names(one) for section, one in model["$defs"].items() if "properties" in one}
    assert {section: names(one) for section, one in shipped["definitions"].items()} == known
    assert gates["propertyNames"]["enum"] == sorted((*FIELD_BY_GATE, TOPOLOGY_GATE))


def names(schema: Mapping[str, Any]) -> Any:
    """The names that a JSON schema allows; of another section what it is called, of a value None."""
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            return one["$ref"].rpartition("/")[2]
    if "properties" in schema:
        assert schema["additionalProperties"] is False
        return {name: names(one) for name, one in schema["properties"].items()}
    item = names(schema["items"]) if "items" in schema else None
    return (item,) if item is not None else None


LEASES: Mapping[str, tuple[Mapping[str, object], tuple[str, ...]]] = {
    "defaults": ({}, ("dra-scheduler",)),
    "profiles": ({"config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}}, ("a", "b")),
    "one-for-all": (
        {"config": {"leaderElection": {"resourceName": "l"}, "profiles": [{"schedulerName": "a"}]}},
        ("l",),
    ),
    "kube-schedulers-own": ({"kubeSchedulerConfiguration": {**KUBE, "profiles": [{"schedulerName": "c"}]}}, ("c",)),
    "kube-schedulers-lease": (
        {"kubeSchedulerConfiguration": {**KUBE, "leaderElection": {"resourceName": "k"}}},
        ("k",),
    ),
}


@pytest.mark.parametrize("case", LEASES)
def test_the_role_is_for_the_leases_that_the_configuration_names(case: str, tmp_path: Path) -> None:
    values, leases = LEASES[case]
    items = objects(chart_text(values))
    path = tmp_path / "config.yaml"
    path.write_text(named(items, "ConfigMap")["data"]["config.yaml"])

    assert read_config(path).config.lease_names == leases
    rules = {tuple(rule["verbs"]): rule.get("resourceNames") for rule in named(items, "Role")["rules"]}
    assert rules == {("get", "update"): list(leases), ("create",): None}


def test_leases_that_arguments_name_are_given() -> None:
    values = {"extraArgs": ["--scheduler-name=z"], "leaseNames": ["z"]}
    assert named(objects(chart_text(values)), "Role")["rules"][0]["resourceNames"] == ["z"]


OFF: Mapping[str, object] = {"preemption": {"enabled": False}}
FEWER: Mapping[str, object] = {
    "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}, "multiPoint": {"disabled": [{"name": "NodePorts"}]}}
}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="defaults"),
        pytest.param(
            {"config": {"nodes": "pool=gpu", "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", **FEWER}]}},
            id="profiles",
        ),
        pytest.param(
            {"kubeSchedulerConfiguration": {**KUBE, "profiles": [{"schedulerName": "c", **FEWER}]}}, id="upstream"
        ),
        pytest.param({"config": {"profiles": [{"plugins": {"multiPoint": OFF_ALREADY}}]}}, id="it-was-off"),
    ],
)
def test_without_preemption_nobody_tries_and_no_right_is_given(given: Mapping[str, object], tmp_path: Path) -> None:
    def read(values: Mapping[str, object]) -> Config:
        path = tmp_path / "config.yaml"
        path.write_text(named(objects(chart_text(values)), "ConfigMap")["data"]["config.yaml"])
        return read_config(path).config

    def granted(values: Mapping[str, object]) -> set[tuple[str, str]]:
        rules = named(objects(chart_text(values)), "ClusterRole")["rules"]
        return {(resource, verb) for rule in rules for resource in rule.get("resources", ()) for verb in rule["verbs"]}

    before, after = read(given), read({**given, **OFF})
    assert not after.preempts
    assert granted(given) - granted({**given, **OFF}) == {("pods", "delete")}
    assert granted({**given, **OFF}) < granted(given)
    for one, other in zip(before.profiles, after.profiles, strict=True):
        assert one.scheduler_name == other.scheduler_name
        assert [name for name in one.expanded().names if name != "DefaultPreemption"] == [*other.expanded().names]
    assert after.model_dump(exclude={"profiles"}) == before.model_dump(exclude={"profiles"})


def test_a_profile_that_preempts_is_refused_where_preemption_is_off() -> None:
    profile = {"schedulerName": "a", "plugins": {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}}
    values = with_image({**OFF, "config": {"profiles": [profile]}})
    done = helm("template", "dra-scheduler", str(CHART), values=values)

    assert done.returncode == 1
    assert "preemption.enabled is false, but a profile enables DefaultPreemption (plugins.postFilter)" in done.stderr


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", str(CHART), values=with_image({"metrics": {"enabled": True}}))

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout
