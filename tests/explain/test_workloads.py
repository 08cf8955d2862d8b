"""Pods of workloads are asked about as they are: beside the other pods of their owner, from files and from a dump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from allocator import Features
from scheduler.cli.main import cli
from scheduler.explain import Explanation, explain_pod, waiting
from scheduler.explain.explaining import explain_briefly
from scheduler.explain.waiting import alike, ask_all
from scheduler.explain.world import World
from scheduler.offline import OfflineCluster, SourceObject
from scheduler.ui.responses import pending_picture
from tests.explain.planted.others import pvc, storage_class, volume
from tests.explain.planted.shapes import PLAIN
from tests.offline.causes import device_class, gpu, node, pod, slice_, template

Obj = dict[str, Any]
NOW_MS = 1_800_000_000_000
WORLD = [node(), slice_(gpu("gpu-0"), gpu("gpu-1")), device_class(), template()]
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
SHORT = {"Deployment": "deploy", "ReplicaSet": "rs", "StatefulSet": "sts", "Job": "job"}


def workload(kind: str, *entries: str, name: str = "web", replicas: int = 3, **spec: Any) -> Obj:
    labels = {"app": name}
    made = {"metadata": {"labels": labels}, "spec": pod(*entries or ("template:gpu",), **spec)["spec"]}
    of_kind: Obj = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made}
    if kind == "Job":
        made["spec"]["restartPolicy"] = "Never"
        of_kind = {"completions": replicas, "parallelism": replicas, "template": made}
    if kind == "StatefulSet":
        of_kind["serviceName"] = name
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": of_kind}


def owned(number: int, *entries: str, owner: str = "web-abc", **spec: Any) -> Obj:
    """A pod of a dump, of a Deployment's ReplicaSet."""
    obj = pod(*entries or ("template:gpu",), name=f"{owner}-{number}", **spec)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": f"uid-{owner}",
        "controller": True,
    }
    labels = {"pod-template-hash": owner.rpartition("-")[2]}
    obj["metadata"] |= {"uid": f"uid-{owner}-{number}", "resourceVersion": str(5 + number), "labels": labels}
    obj["metadata"]["ownerReferences"] = [reference]
    return obj


def sources(*objects: Obj) -> list[SourceObject]:
    return [SourceObject("file.yaml:1:1", obj) for obj in objects]


def told(name: str, *objects: Obj) -> Explanation:
    return explain_pod(sources(*objects), ("default", name), now_ms=NOW_MS, features=Features())


def made(*objects: Obj) -> list[str]:
    cluster = OfflineCluster(NOW_MS)
    cluster.load(sources(*objects))
    return [one["metadata"]["name"] for one in cluster.pods()]


def run(tmp_path: Path, *arguments: str, objects: list[Obj]) -> Result:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    result = CliRunner().invoke(cli, [*arguments, "-f", str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


# -- beside siblings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_replica_that_has_no_place_beside_the_others_is_explained(kind: str, tmp_path: Path) -> None:
    objects = [*WORLD, workload(kind)]

    explained = run(tmp_path, "explain", f"{SHORT[kind]}/web", objects=objects)
    listed = run(tmp_path, "explain", "-A", objects=objects)
    played = run(tmp_path, "simulate", objects=objects)

    assert explained.exit_code == listed.exit_code == played.exit_code == 1
    assert "does not fit [devices-in-use]: devices node-1/gpu-0 and 1 more are in use by pods" in explained.stdout
    notes = explained.stderr.splitlines()
    assert "3 of its 3 pods wait, 2 of them fit, 1 do not" in notes[0]
    assert "1 pod of them (web-" in notes[1]
    assert "[devices-in-use] this one's cause" in notes[1]
    assert "2 pods of them (web-" in notes[2]
    assert notes[2].endswith("would fit")
    assert "3 pods wait: 2 (fits), 1 [devices-in-use]" in listed.stdout
    assert "2 placed, 1 not" in played.stdout


def test_pods_of_a_dump_are_asked_beside_those_that_fit() -> None:
    objects = [*WORLD, *(owned(number) for number in range(4))]

    answers = [told(f"web-abc-{number}", *objects) for number in range(4)]

    assert [one.fits for one in answers] == [True, True, False, False]
    assert {one.kind for one in answers[2:]} == {"devices-in-use"}
    assert [note for note in answers[3].notes if note.startswith("3 other pods of its owner wait, too")]


def test_a_pod_of_another_owner_is_left_out() -> None:
    answer = told("other", *WORLD, owned(0), owned(1), pod("template:gpu", name="other"))

    assert answer.fits
    assert "2 other pods wait, too, and are left out here: they may be tried first" in answer.notes


def test_whoever_a_sibling_preempts_is_gone() -> None:
    """Each of two has a priority at which one that runs goes; the third of them has nobody to preempt."""
    runs = pod(name="low", requests={"cpu": "8"}, nodeName="node-1", terminationGracePeriodSeconds=0)
    runs["metadata"] |= {"uid": "uid-low", "resourceVersion": "4"}
    siblings = [owned(number, requests={"cpu": "1"}, priority=1000) for number in range(3)]

    answer = told("web-abc-2", *WORLD, runs, *siblings)

    assert (answer.fits, answer.kind) == (False, "devices-in-use"), answer.verdict  # not the cpu that the victim had


def test_a_pod_that_was_not_tried_beside_its_siblings_is_asked_about_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.explain.world._TURNS_BESIDE", 0)

    answer = told("web-abc-3", *WORLD, *(owned(number) for number in range(4)))

    assert answer.fits
    assert "3 other pods wait, too, and are left out here: they may be tried first" in answer.notes


def test_where_a_pod_fits_is_asked_with_its_siblings_on_their_nodes() -> None:
    objects = [device_class(), template()]
    for name in ("node-1", "node-2"):
        objects += [node(name), slice_(gpu(), name=name, where=name)]

    first, second = (told(f"web-abc-{number}", *objects, owned(0), owned(1)) for number in range(2))

    assert {first.node, second.node} == {"node-1", "node-2"}
    for answer in (first, second):
        assert "it is the only one of 2 nodes that fits" in answer.advice, answer.advice


def test_a_volume_that_the_decision_would_bind_keeps_the_pod_from_no_node() -> None:
    d = PLAIN
    objects = [device_class(), template(), storage_class("ssd", "WaitForFirstConsumer"), pvc(d)]
    for name in ("node-1", "node-2", "node-3"):
        objects += [node(name), slice_(gpu(), name=name, where=name), volume(d, f"on-{name}", name, bound=False)]
    data = {"name": "data", "persistentVolumeClaim": {"claimName": objects[3]["metadata"]["name"]}}
    objects[3]["metadata"]["namespace"] = "default"

    answer = told("web-abc-0", *objects, owned(0, volumes=[data]), owned(1))

    assert answer.fits
    assert "of the 3 nodes that fit, none is better" in answer.advice, answer.advice


# -- templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_template_of_a_workload_of_files_is_mended_there(kind: str) -> None:
    objects = [*WORLD, workload(kind, "template:gup")]
    (name, *_) = made(*objects)

    answer = told(name, *objects)

    assert answer.kind == "claim-not-made"
    assert "there are: gpu" in answer.cause
    assert answer.advice.startswith(
        f"to make it fit: write resourceClaimTemplateName: gpu instead of gup in {kind.lower()} default/web"
    )
    assert not [note for note in answer.notes if "default-scheduler" in note]


def test_of_a_pod_of_a_dump_the_deployment_is_named() -> None:
    answer = told("web-abc-0", *WORLD, owned(0, "template:gup"))

    change = "write resourceClaimTemplateName: gpu instead of gup in deployment default/web"
    assert answer.advice.startswith(f"to make it fit: {change}")


# -- equal pods of one owner ------------------------------------------------------------------------------------------


def test_equal_pods_of_one_owner_are_one_line_and_others_never(tmp_path: Path) -> None:
    """The sentence of all of them is the same."""
    short = {"requests": {"cpu": "99"}}
    objects = [*WORLD, *(owned(number, **short) for number in range(3)), owned(0, owner="api-abc", **short)]
    objects += [pod(name="one", **short), pod(name="two", **short)]

    rows = [line.split("\t")[0] for line in run(tmp_path, "explain", "-A", objects=objects).stdout.splitlines()[1:-1]]
    played = [line for line in run(tmp_path, "simulate", objects=objects).stdout.splitlines() if line[:2] != "  "]

    assert rows == ["default/api-abc-0", "default/one", "default/two", "default/web (3 pods)"]
    assert sorted(line.partition(":")[0] for line in played[:-1]) == rows


def test_claims_that_are_named_by_the_pods_make_no_other_cause() -> None:
    objects = [*WORLD, *(owned(number, "template:gone") for number in range(3))]

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    assert [len(pods) for pods in alike(found.pods)] == [3]


# -- groups -----------------------------------------------------------------------------------------------------------


def test_a_pod_group_of_another_api_group_is_not_ours(tmp_path: Path) -> None:
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    group["spec"] = {"minMember": 8}
    objects = [*WORLD, group, workload("Job")]
    note = "note: PodGroup default/g of scheduling.x-k8s.io is not ours: its pods are scheduled one by one"

    for arguments in (["explain", "job/web"], ["explain", "-A"], ["simulate"]):
        result = run(tmp_path, *arguments, objects=objects)
        assert result.output.count("PodGroup") == 1, result.output
        assert note in result.stderr.splitlines()


# -- the list and the pod by itself -----------------------------------------------------------------------------------

TAINTED = {**node("other"), "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}


def test_the_list_says_what_is_said_of_each_pod_by_itself() -> None:
    """A look of the event's limits named the tainted node, and two changes."""
    big = pod(name="big", requests={"cpu": "99"})
    objects = [*WORLD, TAINTED, big, pod("template:gup", name="typo"), *(owned(number) for number in range(3))]
    objects.append(pod(name="held", schedulingGates=[{"name": "example.com/wait"}]))

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    for one in found.pods:
        alone = told(one.key[1], *objects)
        change = alone.advice.removeprefix("to make it fit: ") if alone.changes else ""
        assert (one.kind, one.cause, one.change, one.is_first_look) == (alone.kind, alone.cause, change, False)
    assert {one.kind for one in found.pods} == {
        "",
        "resources-short",
        "claim-not-made",
        "devices-in-use",
        "scheduling-gate",
    }


def test_who_waits_says_whose_pod_it_is_and_since_when_where_the_object_does() -> None:
    created = "2026-01-01T00:00:01Z"
    stored, grouped, labelled = owned(0), owned(1, schedulingGroup={"podGroupName": "g"}), owned(2)
    stored["metadata"]["creationTimestamp"] = created
    labelled["metadata"]["labels"] |= {"dra-scheduler/group": "l", "dra-scheduler/group-min-count": "1"}
    replicas = owned(0, owner="job-1")
    objects = [*WORLD, stored, grouped, labelled, replicas, workload("StatefulSet", name="made", replicas=1)]
    objects.append(pod(name="bare"))

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    said = {one.key[1]: (one.document()["owner"], one.document().get("created")) for one in found.pods}
    assert said == {
        "web-abc-0": ("Deployment/default/web", created),
        "web-abc-1": ("PodGroup/default/g", None),
        "web-abc-2": ("Group/default/l", None),
        "job-1-0": ("Deployment/default/job", None),
        "made-0": ("StatefulSet/default/made", None),
        "bare": ("Pod/default/bare", None),
    }
    assert len({one[0].maker.owner for one in alike(found.pods)}) == len(said)


def test_a_pod_says_how_many_of_its_owner_wait_and_how_many_of_these_fit() -> None:
    answer = told("web-abc-3", *WORLD, *(owned(number) for number in range(4)))
    assert (answer.siblings, answer.siblings_fit) == (3, 2)


def test_a_pod_that_fits_alone_and_not_beside_others_has_their_devices_as_its_cause() -> None:
    objects = [*WORLD, *(pod("template:gpu", name=name) for name in ("a", "b", "c"))]

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    assert [(one.outcome, one.kind) for one in found.pods] == [
        ("fits", ""),
        ("fits", ""),
        ("unschedulable", "devices-in-use"),
    ]
    assert told("c", *objects).fits


def test_a_list_whose_budget_has_ended_says_first_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_STEPS", 1_019_000)  # for one pod of a small cluster
    objects = [*WORLD, TAINTED, *(pod(name=name, requests={"cpu": cpu}) for name, cpu in (("a", "98"), ("b", "99")))]

    rows = run(tmp_path, "explain", "-A", objects=objects).stdout.splitlines()[1:-1]

    assert [row.split("\t")[1] for row in rows] == ["[resources-short]", "[resources-short], first look"]


def test_a_namespace_of_many_pods_leaves_the_budget_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_STEPS", 1_029_000)  # for two pods of a small cluster
    pods = [pod(name=f"p{cpu}", requests={"cpu": f"{cpu}"}) for cpu in range(95, 100)]
    pods[-1]["metadata"]["namespace"] = "team"

    found = ask_all(sources(*WORLD, TAINTED, *pods), now_ms=NOW_MS, features=Features())

    assert [one.key[1] for one in found.pods] == ["p95", "p96", "p97", "p98", "p99"]
    assert [one.key[1] for one in found.pods if not one.is_first_look] == ["p95", "p99"]


def test_equal_pods_that_nothing_makes_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def explained(world: World, *args: int) -> tuple[Explanation, str, int]:
        asked.append(world.pod[1])
        return explain_briefly(world, *args)

    monkeypatch.setattr(waiting, "explain_briefly", explained)
    objects = [*WORLD, TAINTED, *(pod(name=name, requests={"cpu": "99"}) for name in ("a", "b", "c", "d"))]
    objects[-1]["metadata"]["labels"] = {"app": "other"}

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    assert asked == ["a", "d"]
    for one in found.pods:
        alone = told(one.key[1], *objects)
        assert (one.cause, f"to make it fit: {one.change}") == (alone.cause, alone.advice)


def test_equal_pods_are_asked_about_one_by_one_where_texts_name_their_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def explained(world: World, *args: int) -> tuple[Explanation, str, int]:
        asked.append(world.pod[1])
        found, told, left = explain_briefly(world, *args)
        return structs.replace(found, cause=f"claim default/{world.pod[1]}-gpu-abcde is at fault"), told, left

    monkeypatch.setattr(waiting, "explain_briefly", explained)
    objects = [*WORLD, TAINTED, *(pod(name=name, requests={"cpu": "99"}) for name in ("a", "b"))]

    found = ask_all(sources(*objects), now_ms=NOW_MS, features=Features())

    assert asked == ["a", "b"]
    assert [one.cause for one in found.pods] == [f"claim default/{name}-gpu-abcde is at fault" for name in ("a", "b")]


def test_a_group_is_one_line(tmp_path: Path) -> None:
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    objects = [*WORLD, group, workload("Job", schedulingGroup={"podGroupName": "g"})]

    rows = run(tmp_path, "explain", "-A", objects=objects).stdout.splitlines()[1:-1]
    played = run(tmp_path, "simulate", objects=objects).stdout.splitlines()

    assert [row.split("\t")[:2] for row in rows] == [["default/web (3 pods)", "[group-unmet]"]]
    assert [line.partition(":")[0] for line in played[:-1] if line[:2] != "  "] == ["default/web (3 pods)"]


def test_the_pages_list_has_one_row_for_them() -> None:
    objects = [*WORLD, *(owned(number) for number in range(4)), pod(name="big", requests={"cpu": "99"})]

    shown = pending_picture(ask_all(sources(*objects), now_ms=NOW_MS, features=Features()))

    assert [(row.owner, row.kind, len(row.names)) for row in shown.pods] == [
        ("Pod/default/big", "resources-short", 1),
        ("Deployment/default/web", "fits", 2),
        ("Deployment/default/web", "devices-in-use", 2),
    ]
    assert shown.kinds == {"fits": 2, "devices-in-use": 2, "resources-short": 1}


def test_a_gate_is_removed_from_the_pod_that_has_it_whoever_makes_such_pods() -> None:
    """The workload's template need not have it: who sets gates does so on each pod."""
    answer = told("web-abc-0", *WORLD, owned(0, schedulingGates=[{"name": "example.com/wait"}]))

    assert (answer.kind, answer.objects, answer.command) == ("scheduling-gate", ("pod/default/web-abc-0",), "")
    assert answer.advice == ("to make it fit: whoever set example.com/wait must remove it from pod default/web-abc-0")
