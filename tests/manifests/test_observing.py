"""`mode: observe` of the chart, and what the overlay's components add to overlays/observe: the same either way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from scheduler.cli.main import cli
from tests.manifests.rendering import CHART, MANIFESTS, Object, chart_text, helm, named, objects, with_image
from tests.manifests.test_rendering import KUBE, by_identity

pytestmark = [pytest.mark.oracle, pytest.mark.helm]

EVERYTHING = {"mode": "observe", "observe": {"events": True}, "metrics": {"enabled": True}}


def with_components(folder: Path, *components: str) -> list[Object]:
    """overlays/observe as a folder beside a checkout renders it."""
    relative = os.path.relpath(MANIFESTS, folder)
    given = {
        "resources": [f"{relative}/overlays/observe"],
        "components": [f"{relative}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(given))
    command = ["kubectl", "kustomize", str(folder)]
    return objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def arguments(items: list[Object]) -> list[str]:
    (container,) = named(items, "Deployment")["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def verbs(items: list[Object]) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for one in items
        for rule in one.get("rules", ())
        for resource in rule.get("resources", rule.get("nonResourceURLs", ()))
        for verb in rule["verbs"]
    }


def test_components_and_values_render_the_same_objects(tmp_path: Path) -> None:
    from_overlay = by_identity(with_components(tmp_path, "observe-metrics", "observe-events"))
    from_chart = by_identity(objects(chart_text(EVERYTHING)))
    assert from_overlay.pop(("Namespace", "", "dra-scheduler"))

    assert from_chart.keys() == from_overlay.keys()
    for identity, one in from_chart.items():
        assert one == from_overlay[identity], identity


def test_it_may_read_and_nothing_more_unless_events_are_asked_for() -> None:
    assert {verb for _, verb in verbs(objects(chart_text({"mode": "observe"})))} == {"get", "list", "watch"}
    more = verbs(objects(chart_text(EVERYTHING))) - verbs(objects(chart_text({"mode": "observe"})))
    assert more == {("events", "create")}


def test_alerts_are_those_about_the_cluster() -> None:
    (group,) = named(objects(chart_text(EVERYTHING)), "PrometheusRule")["spec"]["groups"]
    assert {rule["alert"] for rule in group["rules"]} == {"DraDevicesInPieces", "DraTaintedDeviceHeld"}


@pytest.mark.parametrize("values", [{"mode": "observe"}, EVERYTHING], ids=["alone", "everything"])
def test_its_arguments_are_ones_that_are_there(values: dict[str, Any]) -> None:
    command, *rest = arguments(objects(chart_text(values)))
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    parsed, left, _ = found.make_parser(click.Context(found)).parse_args(rest)
    assert (left, parsed.get("address")) == ([], None)


def test_one_observes_whatever_the_replicas_and_no_lease_is_held() -> None:
    items = objects(chart_text({"mode": "observe", "replicas": 3}))
    assert named(items, "Deployment")["spec"]["replicas"] == 1
    kinds = {one["kind"] for one in items}
    assert not kinds & {"PodDisruptionBudget", "PriorityClass", "Role", "RoleBinding"}
    tested = ("--show-only", "templates/tests/schedules-a-pod.yaml")
    assert helm("template", "x", str(CHART), *tested, values=with_image({"mode": "observe"})).returncode == 1


def test_the_configuration_of_kube_scheduler_is_that_of_its_pods() -> None:
    theirs = {**KUBE, "profiles": [{"schedulerName": "default-scheduler"}]}
    items = objects(chart_text({"mode": "observe", "kubeSchedulerConfiguration": theirs, "ui": {"enabled": True}}))
    data = named(items, "ConfigMap")["data"]
    option, path = "--kube-scheduler-config", "/etc/dra-scheduler/kube-scheduler.yaml"

    assert yaml.safe_load(data["kube-scheduler.yaml"]) == theirs
    assert yaml.safe_load(data["config.yaml"])["kind"] == "DraSchedulerConfiguration"
    found = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in items
        if one["kind"] == "Deployment"
    }
    assert found["dra-scheduler"][-2:] == [option, path]
    assert f"{option}={path}" in found["dra-scheduler-ui"]


def test_another_mode_is_refused() -> None:
    done = helm("template", "x", str(CHART), values=with_image({"mode": "look"}))
    assert done.returncode == 1
    assert "at '/mode'" in done.stderr
