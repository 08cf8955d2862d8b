"""Pods of kube-scheduler are answered as kube-scheduler would: what only this scheduler does is never their cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from allocator import Features
from scheduler.cli.explain import explain
from scheduler.config.settings import Config
from scheduler.explain.waiting import Waiting, ask_all
from scheduler.kube.feature_gates import features_left
from scheduler.offline import SourceObject
from tests.explain.test_explaining import HIGH, NOW_MS, holder, told
from tests.offline.causes import WORLD, Obj, allocated, claim, device_class, node, pod, request, running, slice_
from tests.offline.causes import gpu as device

THEIRS: Final = "default-scheduler"
OURS: Final = "dra-scheduler"
FEATURES: Final = Features()


def contended(scheduler: str, **spec: Any) -> list[Obj]:
    """An important pod asks for the only device, which a pod without priority has."""
    asked = pod("gpu", schedulerName=scheduler, priorityClassName="high", **spec)
    return [*WORLD, HIGH, *holder(), claim(), asked]


def listed(*objects: Obj, config: Config | None = None, features: Features = FEATURES) -> dict[str, Waiting]:
    given = [SourceObject("file.yaml:1:1", obj) for obj in objects]
    return {one.key[1]: one for one in ask_all(given, now_ms=NOW_MS, features=features, config=config).pods}


def notes_about(scheduler: str, **spec: Any) -> list[str]:
    return [note for note in told(*contended(scheduler, **spec)).notes if note.startswith("dra-scheduler would")]


def test_nobody_is_preempted_for_their_devices_and_a_note_says_what_this_scheduler_would_do() -> None:
    theirs, ours = told(*contended(THEIRS)), told(*contended(OURS))

    assert (theirs.kind, ours.kind) == ("devices-in-use", "making-room")
    assert "default/runs" in theirs.cause
    assert listed(*contended(THEIRS))["asked"].kind == "devices-in-use"
    assert "answered as kube-scheduler 1.37 would, with its default plugins" in " ".join(theirs.notes)
    # Also one that ends at once.
    for grace in (30, 0):
        objects = contended(THEIRS)
        for one in objects:
            if one["kind"] == "Pod":
                one["spec"]["terminationGracePeriodSeconds"] = grace
        assert told(*objects).notes[-1] == "dra-scheduler would preempt for it: default/runs"


def test_where_this_scheduler_would_not_help_either_nothing_is_said_of_it() -> None:
    assert notes_about(OURS) == []
    assert notes_about(THEIRS, preemptionPolicy="Never") == []
    assert notes_about(THEIRS, nodeSelector={"a": "b"}) == []


def test_they_preempt_for_cpu_as_before() -> None:
    asked = pod(schedulerName=THEIRS, priorityClassName="high", requests={"cpu": "8"})
    assert told(*WORLD, HIGH, *holder(), asked).kind == "making-room"


def test_labels_make_no_group_of_their_pods() -> None:
    def grouped(scheduler: str) -> Obj:
        one = pod("gpu", schedulerName=scheduler)
        one["metadata"]["labels"] = {"dra-scheduler/group": "g", "dra-scheduler/group-min-count": "3"}
        return one

    assert told(*WORLD, claim(), grouped(THEIRS)).fits
    assert told(*WORLD, claim(), grouped(OURS)).kind == "group-incomplete"
    # A label that a selector means stays what it is.
    spread = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    alike = grouped(THEIRS)
    alike["metadata"]["labels"]["app"] = "a"
    alike["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}}
    assert told(*WORLD, claim(), alike).fits


def pod_group(scheduler: str, needed: int = 2) -> list[Obj]:
    """Two devices, and a PodGroup's pods: any would do for the first that is tried, one only for the second."""
    policy = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": policy}
    named: Obj = {"schedulingGroup": {"podGroupName": "g"}, "schedulerName": scheduler}
    only = request('device.attributes["gpu.example.com"].name == "gpu-0"')
    both = (device(name, attributes={"name": {"string": name}}) for name in ("gpu-0", "gpu-1"))
    world = [node(), slice_(*both), device_class()]
    claims = [claim(name="any"), claim(only, name="one")]
    return [*world, group, *claims, pod("any", **named), pod("one", name="picky", **named)]


def test_pods_of_a_pod_group_are_placed_in_order_all_or_none_and_a_note_says_what_a_joint_search_finds() -> None:
    """As podGroupSchedulingDefaultAlgorithm of kube-scheduler does: no pod's place is looked for anew."""
    theirs, ours = told(*pod_group(THEIRS)), told(*pod_group(OURS))

    assert ours.fits
    assert (theirs.fits, theirs.kind) == (False, "group-unmet")
    assert "1 of the 2 pods of group default/g that are needed fit together" in theirs.message
    assert theirs.notes[-1] == "dra-scheduler would place group default/g together"
    assert not [note for note in ours.notes if note.startswith("dra-scheduler would")]
    assert {name: one.kind for name, one in listed(*pod_group(THEIRS)).items()} == dict.fromkeys(
        ("asked", "picky"), "group-unmet"
    )
    # Whoever does not fit is passed over, as long as enough do.
    enough = listed(*pod_group(THEIRS, needed=1))
    assert (enough["asked"].outcome, enough["picky"].kind) == ("fits", "devices-in-use")


def test_without_the_servers_gate_each_pod_of_a_pod_group_is_placed_by_itself() -> None:
    """A pod keeps the field that it was stored with, and nothing reads it any more."""
    off = features_left(Features(), {"GenericWorkload": False})
    objects = [one for one in pod_group(THEIRS, needed=3) if one["kind"] != "PodGroup"]

    assert listed(*objects)["asked"].kind == "group-missing"
    assert listed(*objects, features=off)["asked"].outcome == "fits"
    assert listed(*objects, features=off)["picky"].kind == "devices-in-use"


def test_devices_of_two_stacks_are_given_to_both_as_they_do() -> None:
    both = node()
    both["status"]["allocatable"] = both["status"]["allocatable"] | {"example.com/gpu": "1"}
    world = [both, slice_(device()), device_class(extendedResourceName="example.com/gpu"), claim()]

    assert told(*world, pod("gpu", schedulerName=THEIRS)).fits
    assert told(*world, pod("gpu", schedulerName=OURS)).kind == "two-stacks"
    # Each has its own answer where pods of both wait.
    mixed = listed(
        *world, claim(name="own"), pod("own", schedulerName=OURS, name="a"), pod("gpu", schedulerName=THEIRS)
    )
    assert (mixed["a"].kind, mixed["asked"].outcome) == ("two-stacks", "fits")
    # Also for the plugin's devices: those that a claim holds are served.
    held = allocated(claim(), "gpu-0")
    asked = [pod(name=name, schedulerName=name, requests={"example.com/gpu": "1"}) for name in (OURS, THEIRS)]
    mixed = listed(*world[:3], held, running("runs", uses=["gpu"]), *asked)
    assert (mixed[OURS].kind, mixed[THEIRS].outcome) == ("two-stacks", "fits")


KUBE: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
  - schedulerName: batch
    plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}
"""
UNNAMED: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]
"""
OWN: Final = """
apiVersion: dra-scheduler/v1alpha1
kind: DraSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}]
"""


@pytest.mark.parametrize(
    ("scheduler", "options", "fits"),
    [
        (THEIRS, (), False),
        (THEIRS, ("kube",), True),
        (THEIRS, ("unnamed",), True),  # a profile without a name is kube-scheduler's
        (OURS, ("kube",), False),
        ("batch", ("kube",), False),
        (THEIRS, ("kube", "own"), False),  # a configuration of ours that has the name answers
    ],
)
def test_its_configuration_says_which_plugins_are_asked(
    tmp_path: Path, scheduler: str, options: tuple[str, ...], fits: bool
) -> None:
    (tmp_path / "kube.yaml").write_text(KUBE)
    (tmp_path / "unnamed.yaml").write_text(UNNAMED)
    (tmp_path / "own.yaml").write_text(OWN)
    (tmp_path / "world.yaml").write_text(
        yaml.safe_dump_all([*WORLD, pod(schedulerName=scheduler, requests={"cpu": "64"})])
    )
    files = dict.fromkeys(("kube", "unnamed"), "--kube-scheduler-config") | {"own": "--config"}
    given = [text for one in options for text in (files[one], str(tmp_path / f"{one}.yaml"))]

    result = CliRunner().invoke(explain, ["asked", "-f", str(tmp_path / "world.yaml"), *given])

    assert result.exit_code == (0 if fits else 1), result.output
    if scheduler == THEIRS and "own" not in options:
        whose = "the plugins of its configuration" if options else "its default plugins"
        assert whose in result.stderr.replace("\n", " ")


def test_with_a_configuration_of_ours_that_has_their_name_they_are_ours() -> None:
    config = Config.model_validate({"profiles": [{"schedulerName": THEIRS}]})
    assert listed(*contended(THEIRS), config=config)["asked"].kind == "making-room"


def test_what_readers_of_its_namespace_are_told_names_nobody_of_others() -> None:
    """The list is for who may read all; an event is not."""
    asked = pod("gpu", namespace="team", schedulerName=THEIRS)
    found = listed(*WORLD, *holder(), claim(namespace="team"), asked)["asked"]

    assert "default/runs" in found.cause
    assert "default/" not in found.told
    assert "of another namespace" in found.told
