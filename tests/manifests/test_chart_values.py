"""What a cluster's owner adds to the chart: volumes, labels, the page; and the leases that it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from pydantic import ValidationError

from scheduler.cli.main import cli
from scheduler.config.file import read_config
from scheduler.config.sections import LeaderElection
from scheduler.kube.permissions import PERMISSIONS
from tests.manifests.rendering import CHART, Object, chart_text, helm, named, objects, with_image

pytestmark = [pytest.mark.oracle, pytest.mark.helm]

UI = "dra-scheduler-ui"
READING = {"get", "list", "watch"}


def pod_of(items: list[Object], name: str = "dra-scheduler") -> Any:
    return named(items, "Deployment", name)["spec"]["template"]


def test_what_is_added_to_the_pod_is_there() -> None:
    volume = {"name": "certificate", "secret": {"secretName": "dra-scheduler-tls"}}
    mount = {"name": "certificate", "mountPath": "/certs", "readOnly": True}
    spread = {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    values = {
        "config": {"serving": {"tlsCertFile": "/certs/tls.crt", "tlsPrivateKeyFile": "/certs/tls.key"}},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
        "podLabels": {"team": "platform"},
        "serviceAccount": {"annotations": {"example.com/role": "scheduler"}},
        "topologySpreadConstraints": [spread, {**spread, "labelSelector": {"matchLabels": {"tier": "control"}}}],
        "ui": {"enabled": True},
    }
    items = objects(chart_text(values))
    deployment, pod = named(items, "Deployment", "dra-scheduler"), pod_of(items)
    (container,) = pod["spec"]["containers"]

    assert pod["metadata"]["labels"] == {"app": "dra-scheduler", "team": "platform"}
    assert deployment["spec"]["selector"]["matchLabels"] == {"app": "dra-scheduler"}
    assert named(items, "ServiceAccount", "dra-scheduler")["metadata"]["annotations"] == {
        "example.com/role": "scheduler"
    }
    selectors = [one["labelSelector"]["matchLabels"] for one in pod["spec"]["topologySpreadConstraints"]]
    assert selectors == [{"app": "dra-scheduler"}, {"tier": "control"}]
    # The page serves with the same certificate.
    for one in (pod, pod_of(items, UI)):
        (container,) = one["spec"]["containers"]
        assert container["env"] == values["extraEnv"]
        assert container["volumeMounts"][1:] == [mount]
        assert one["spec"]["volumes"][1:] == [volume]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"podLabels": {"app": "other"}}, "invalid propertyName 'app'"),
        ({"extraVolumes": [{"name": "config", "emptyDir": {}}]}, "at '/extraVolumes/0/name'"),
        ({"extraVolumeMounts": [{"name": "a"}]}, "missing property 'mountPath'"),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "missing property 'whenUnsatisfiable'"),
        ({"serviceAccount": {"annotation": {}}}, "additional properties 'annotation' not allowed"),
        ({"ui": {"enable": True}}, "additional properties 'enable' not allowed"),
        ({"ui": {"from": [{}]}}, "at '/ui/from/0'"),
        ({"ui": {"ingress": {"enabled": True}}}, "at '/ui/ingress/host'"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: Mapping[str, object], complaint: str) -> None:
    done = helm("template", "dra-scheduler", str(CHART), values=with_image(values))

    assert done.returncode == 1
    assert complaint in done.stderr


# -- the page -------------------------------------------------------------------------------------------------------


def test_the_page_has_a_pod_of_its_own_that_may_only_read() -> None:
    values = {"ui": {"enabled": True, "hosts": ["gpus.example"]}}
    items = objects(chart_text(values))
    deployment, pod = named(items, "Deployment", UI), pod_of(items, UI)
    role, binding = (named(items, kind, UI) for kind in ("ClusterRole", "ClusterRoleBinding"))
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
    read = {(one.group, one.resource, verb) for one in PERMISSIONS for verb in one.verbs if verb in READING}
    others = {("", "events"), ("", "resourcequotas")}
    others |= {("resource.k8s.io", "resourceclaimtemplates"), ("scheduling.k8s.io", "priorityclasses")}
    reviews = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}

    assert granted == read | {(*one, "list") for one in others} | {(*one, "create") for one in reviews}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": UI, "namespace": "dra-scheduler"}]
    assert named(items, "ServiceAccount", UI)
    assert pod["spec"]["serviceAccountName"] == UI
    # Two would answer one browser by turns.
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    # The scheduler itself has neither the page nor a way to it.
    assert pod_of(items)["spec"]["containers"][0]["args"] == ["run", "--config", "/etc/dra-scheduler/config.yaml"]
    assert "ingress" not in named(items, "NetworkPolicy", "dra-scheduler")["spec"]
    assert {one["kind"] for one in items if one["metadata"]["name"] == UI} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "Service", "NetworkPolicy")
    }


def test_the_pages_command_is_one_and_knows_the_names_that_lead_to_it() -> None:
    values = {"ui": {"enabled": True, "hosts": ["gpus.example"], "ingress": {"enabled": True, "host": "dra.example"}}}
    items = objects(chart_text(values))
    (container,) = pod_of(items, UI)["spec"]["containers"]
    command, *arguments = container["args"]
    hosts = [one.removeprefix("--host=") for one in arguments if one.startswith("--host=")]

    ui = cli.get_command(click.Context(cli), command)
    assert ui is not None
    given, _, _ = ui.make_parser(click.Context(ui)).parse_args(arguments)
    assert (given["address"], given["port"]) == ("::", "10261")
    assert hosts == [UI, f"{UI}.dra-scheduler", f"{UI}.dra-scheduler.svc", "dra.example", "gpus.example"]
    assert container["ports"] == [{"name": "ui", "containerPort": 10261}]
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["scheme"], asked["port"]) == ("HTTPS", "ui")
        assert asked["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_who_may_connect_to_the_page() -> None:
    def ingress(ui: Mapping[str, object]) -> Any:
        items = objects(chart_text({"ui": {"enabled": True, **ui}}))
        spec = named(items, "NetworkPolicy", UI)["spec"]
        assert spec["podSelector"]["matchLabels"].items() <= pod_of(items, UI)["metadata"]["labels"].items()
        assert spec["policyTypes"] == ["Ingress"]
        return spec.get("ingress")

    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    # An empty list of peers would be everybody.
    assert ingress({}) is None
    assert ingress({"from": [peer]}) == [{"from": [peer], "ports": [{"port": "ui"}]}]
    assert all(
        one["metadata"]["name"] != UI or one["kind"] != "NetworkPolicy"
        for one in objects(chart_text({"ui": {"enabled": True}, "networkPolicy": {"enabled": False}}))
    )


def test_service_and_ingress_lead_to_the_page_and_prometheus_asks_it_nothing() -> None:
    ingress = {
        "enabled": True,
        "className": "nginx",
        "host": "dra.example",
        "tlsSecret": "dra-tls",
        "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
    }
    items = objects(chart_text({"ui": {"enabled": True, "ingress": ingress}, "metrics": {"enabled": True}}))
    service, labels = named(items, "Service", UI), pod_of(items, UI)["metadata"]["labels"]
    found = named(items, "Ingress")
    (rule,) = found["spec"]["rules"]
    (path,) = rule["http"]["paths"]

    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": "ui", "appProtocol": "https"}]
    assert path["backend"]["service"] == {"name": UI, "port": {"name": "https"}}
    assert (rule["host"], found["spec"]["ingressClassName"]) == ("dra.example", "nginx")
    assert found["spec"]["tls"] == [{"hosts": ["dra.example"], "secretName": "dra-tls"}]
    assert found["metadata"]["annotations"] == ingress["annotations"]
    wanted = named(items, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert not wanted.items() <= service["metadata"]["labels"].items()
    assert wanted.items() <= named(items, "Service", "dra-scheduler")["metadata"]["labels"].items()
    assert not named(items, "Service", "dra-scheduler")["spec"]["selector"].items() <= labels.items()


def test_in_the_default_schedulers_place_it_shares_that_ones_lease(tmp_path: Path) -> None:
    """As docs/coming-from.md installs it; tests/integration/test_lease.py: of the two one schedules."""
    values = {
        "config": {
            "profiles": [{"schedulerName": "default-scheduler"}],
            "leaderElection": {"resourceName": "kube-scheduler"},
        }
    }
    items = objects(chart_text(values, namespace="kube-system"))
    path = tmp_path / "config.yaml"
    path.write_text(named(items, "ConfigMap")["data"]["config.yaml"])
    config, role = read_config(path).config, named(items, "Role")

    assert (config.scheduler_names, config.lease_names) == (("default-scheduler",), ("kube-scheduler",))
    assert (role["metadata"]["namespace"], role["rules"][0]["resourceNames"]) == ("kube-system", ["kube-scheduler"])


# -- leases ---------------------------------------------------------------------------------------------------------

ELECTIONS = [
    {},
    {"leaseDuration": "5s"},
    {"leaseDuration": "10s"},
    {"leaseDuration": "1m", "renewDeadline": "45s", "retryPeriod": "5s"},
    {"leaseDuration": "1m0.5s", "renewDeadline": "50s"},
    {"leaseDuration": "20s", "renewDeadline": "2400ms"},
    {"leaseDuration": "20s", "renewDeadline": "2.5s"},
    {"leaseDuration": "1h", "renewDeadline": "30m", "retryPeriod": "25m"},
    {"leaseDuration": "1h", "renewDeadline": "30m", "retryPeriod": "24m59s"},
    {"leaseDuration": 60, "renewDeadline": 61},
    {"leaseDuration": "5s", "leaderElect": False},
]


@pytest.mark.parametrize("where", ["config", "kubeSchedulerConfiguration"])
@pytest.mark.parametrize("election", ELECTIONS, ids=str)
def test_the_chart_refuses_the_leases_that_the_scheduler_refuses(election: Mapping[str, object], where: str) -> None:
    """But for what a Lease cannot hold: that is said as the pod starts."""
    if where != "config":  # numbers are no durations there
        election = {name: f"{value}s" if type(value) is int else value for name, value in election.items()}
    try:
        LeaderElection.model_validate(election)
    except ValidationError as error:
        wanted = next((name for name in ("leaseDuration", "renewDeadline") if f"{name}: " in str(error)), "?")
        refuses = "must be whole seconds" not in str(error)
    else:
        wanted, refuses = "", False
    done = helm("template", "dra-scheduler", str(CHART), values=with_image({where: {"leaderElection": election}}))

    assert done.returncode == int(refuses), done.stderr
    if refuses:
        assert f"leaderElection: {wanted} is " in done.stderr


def test_a_duration_that_is_none_is_left_to_the_scheduler() -> None:
    assert chart_text({"config": {"leaderElection": {"leaseDuration": "soon"}}})


# -- helm itself ----------------------------------------------------------------------------------------------------


def test_helm_warns_of_nothing_on_a_checkout(tmp_path: Path) -> None:
    values = with_image({"ui": {"enabled": True}, "metrics": {"enabled": True}})
    for done in (
        helm("template", "dra-scheduler", str(CHART), values=values),
        helm("lint", "--strict", str(CHART), values=values),
        helm("package", str(CHART), "--destination", str(tmp_path)),
    ):
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_values_of_a_chart_that_had_none_of_this_still_render() -> None:
    """`helm upgrade --reuse-values` gives the values of the release before, without the new defaults."""
    kept = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in ("ui", "serviceAccount", "extraEnv", "extraVolumes", "extraVolumeMounts", "podLabels"):
        kept[name] = None  # as helm has a value that is not there
    done = helm("template", "dra-scheduler", str(CHART), values=with_image(kept))
    assert done.returncode == 0, done.stderr
