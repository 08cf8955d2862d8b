"""Making room: plans are the smallest, do what they promise, and outcomes are never confused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cli.main import cli
from tests.cli.answers import RoomAnswer
from tests.offline.causes import CLASS, allocated, claim, device_class, gpu, node, pod, request, slice_, template

Obj = dict[str, Any]
NODES = ("node-1", "node-2")


def count_of(count: int) -> Obj:
    return request(allocationMode="ExactCount", count=count)


def fleet(*nodes: str, devices: int = 4, **of_node: Any) -> list[Obj]:
    """Nodes with so many devices each."""
    slices = [slice_(*(gpu(f"gpu-{number}") for number in range(devices)), where=name) for name in nodes]
    return [device_class(), *(node(name, **of_node) for name in nodes), *slices]


def runs(
    name: str, where: str, *devices: int, kind: str = "ReplicaSet", users: Sequence[str] = (), **more: Any
) -> list[Obj]:
    """A running pod as a dump has it, with a claim of its own for these devices of its node."""
    annotations, labels = more.pop("annotations", {}), more.pop("labels", {"app": name})
    wanted = claim(count_of(len(devices)), name=name)
    held = [allocated(wanted, *(f"gpu-{one}" for one in devices), where=where, users=users or [name], pool=where)]
    found = {**pod(*([name] if devices else ()), name=name, nodeName=where, **more), "status": {"phase": "Running"}}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "owner", "controller": True}
    found["metadata"] |= {"labels": labels, "annotations": annotations, "ownerReferences": [owner] if kind else []}
    for number, one in enumerate(objects := [*(held if devices else ()), found]):
        one["metadata"] |= {
            "uid": f"uid-{name}" if one is found else f"claim-{name}",
            "resourceVersion": str(number + 4),
        }
        one["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return objects


def big(count: int, **more: Any) -> list[Obj]:
    return [claim(count_of(count), name="big"), pod("big", name="big", **more)]


def budget(allowed: int, **labels: str) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": "default", "uid": "budget", "resourceVersion": "9"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def run(folder: Path, world: Sequence[Obj], asked: Sequence[Obj], *options: str) -> Result:
    for name, objects in (("world.json", world), ("asked.json", asked)):
        (folder / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    room = (str(folder / "asked.json"),) if asked else ()
    return CliRunner().invoke(cli, ["make-room", "-f", str(folder / "world.json"), *room, *options])


def plan(folder: Path, world: Sequence[Obj], asked: Sequence[Obj], *options: str) -> Obj:
    result = run(folder, world, asked, *options, "-o", "json")
    assert result.exit_code in (0, 1), result.output
    RoomAnswer.model_validate_json(result.stdout)
    found: Obj = json.loads(result.stdout)
    assert (result.exit_code == 0) == (found["outcome"] in ("fits", "plan"))
    return found


def moved(found: Obj) -> list[tuple[str, str, str]]:
    return [(move["name"], move["from"], move["to"]) for move in found["moves"]]


# -- plans ------------------------------------------------------------------------------------------


def test_nothing_moves_where_the_pod_fits(tmp_path: Path) -> None:
    found = plan(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0)], big(4))
    assert (found["outcome"], moved(found), found["pod"]["node"], found["commands"]) == ("fits", [], "node-2", [])


def test_one_pod_moves(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", 0, 1), *runs("b", "node-2", 0)]
    found = plan(tmp_path, world, big(4))
    assert (found["outcome"], moved(found)) == ("plan", [("b", "node-2", "node-1")])  # the fewer devices
    assert found["pod"]["node"] == "node-2"
    assert {one["device"] for one in found["pod"]["devices"]} == {f"gpu-{number}" for number in range(4)}
    assert found["moves"][0]["given"][0]["device"] == "gpu-2"


def test_the_pod_may_wait_in_the_cluster_already(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0, 1), *big(4)]
    assert moved(plan(tmp_path, world, big(4))) == [("a", "node-1", "node-2")]


def test_two_pods_move_where_one_does_not_help(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-1", 1), *runs("c", "node-2", 0, 1)]
    found = plan(tmp_path, world, big(4), "--moves-max", "2")
    # c alone would fit beside a and b: one move of two devices comes before two moves of one.
    assert moved(found) == [("c", "node-2", "node-1")]
    world += runs("d", "node-1", 2)
    found = plan(tmp_path, world, big(4), "--moves-max", "2")
    assert (found["outcome"], found["cannotMove"]) == ("none", {})
    assert found["nodes"] == 2  # either would do without its pods, and neither set has room elsewhere
    world = [*fleet("node-1", "node-2", "node-3"), *runs("a", "node-1", 0), *runs("b", "node-1", 1)]
    world += [*runs("c", "node-2", 0, 1, 2), *runs("d", "node-3", 0, 1, 2)]
    found = plan(tmp_path, world, big(4))
    assert sorted(moved(found)) == [("a", "node-1", "node-2"), ("b", "node-1", "node-3")]


def runs_from_template(name: str, where: str, *devices: int, **more: Any) -> list[Obj]:
    """The same, its claim made from the template of so many devices, `gpu-1`, `gpu-2`."""
    held = runs(name, where, *devices, **more)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    held[0]["metadata"] |= {
        "name": f"{name}-gpu-x",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [owner],
    }
    held[1]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"gpu-{len(devices)}"}]
    held[1]["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu-x"}]
    return held


def test_claims_from_a_template_are_made_anew(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs_from_template("a", "node-1", 0), *runs("b", "node-2", 0, 1)]
    found = plan(tmp_path, [template(count_of(1), name="gpu-1"), *world], big(4))
    assert moved(found) == [("a", "node-1", "node-2")]
    assert found["moves"][0]["namedClaims"] == []
    found = plan(tmp_path, world, big(4))
    assert moved(found) == [("b", "node-2", "node-1")]  # the other's claim could not be made


def test_what_was_tried_in_vain_before_leaves_nothing_in_the_plan(tmp_path: Path) -> None:
    seven = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "seven"}, "value": 7}
    world = [
        seven,
        *fleet(*NODES),
        template(count_of(1), name="gpu-1"),
        *runs("c", "node-2", requests={"cpu": "3"}, kind=""),
    ]
    world += runs_from_template("b", "node-2", 0, requests={"cpu": "1"}, priority=1)
    asked = big(4, priorityClassName="seven")
    # `a` is asked first, but finds no room elsewhere: it was made again for nothing, with a claim of a new name.
    found = plan(tmp_path, [*world, *runs_from_template("a", "node-1", 0, requests={"cpu": "6"})], asked)
    assert moved(found) == [("b", "node-2", "node-1")]
    stays = runs_from_template("a", "node-1", 0, requests={"cpu": "6"}, kind="")
    again = plan(tmp_path, [*world, *stays], asked)
    assert (again["moves"], again["pod"]) == (found["moves"], found["pod"])  # to the names
    assert again["questions"] < found["questions"]


def test_cpu_is_made_room_for_as_devices_are(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", requests={"cpu": "6"}), *runs("b", "node-2", 0, 1)]
    found = plan(tmp_path, world, big(4, requests={"cpu": "4"}))
    assert moved(found) == [("a", "node-1", "node-2")]  # it has no devices, b has two
    world += runs("c", "node-2", requests={"cpu": "3"})
    found = plan(tmp_path, world, big(4, requests={"cpu": "4"}))
    assert moved(found) == [("b", "node-2", "node-1")]  # there is no room for a any more
    assert plan(tmp_path, world, big(4, requests={"cpu": "6"}))["outcome"] == "none"


# -- who stays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (runs("a", "node-1", 0, kind=""), "has no controller that would make it again"),
        (runs("a", "node-1", 0, kind="DaemonSet"), "is a DaemonSet's, and stays on its node"),
        (runs("a", "node-1", 0, kind="Node"), "is a static pod"),
        (runs("a", "node-1", 0, priority=1), "has a higher priority"),
        (
            runs("a", "node-1", 0, annotations={"dra-scheduler/movable": "false"}),
            'has the annotation dra-scheduler/movable: "false"',
        ),
        (
            runs("a", "node-1", 0, annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
            'has the annotation cluster-autoscaler.kubernetes.io/safe-to-evict: "false"',
        ),
    ],
)
def test_who_stays(tmp_path: Path, held: list[Obj], why: str) -> None:
    world = [*fleet(*NODES), *held, *runs("b", "node-2", 0, kind="")]
    found = plan(tmp_path, world, big(4))
    assert found["outcome"] == "none"
    assert found["cannotMove"].pop(why)
    assert why in run(tmp_path, world, big(4)).output


def test_a_pod_that_shares_its_claim_stays(tmp_path: Path) -> None:
    held = runs("a", "node-1", 0, users=["a", "other"])
    other = runs("other", "node-1")
    other[0]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "a"}]
    found = plan(tmp_path, [*fleet(*NODES), *held, *other, *runs("b", "node-2", 0, kind="")], big(4))
    assert found["cannotMove"]["shares a claim with other pods"] == 2


def test_of_equal_priority_pods_move(tmp_path: Path) -> None:
    seven = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "seven"}, "value": 7}
    world = [seven, *fleet(*NODES), *runs("a", "node-1", 0, priority=7), *runs("b", "node-2", 0, kind="")]
    assert plan(tmp_path, world, big(4, priorityClassName="seven"))["outcome"] == "plan"
    assert plan(tmp_path, world, big(4))["outcome"] == "none"


@pytest.mark.parametrize(("allowed", "outcome"), [(0, "none"), (1, "none"), (2, "plan")])
def test_a_budget_is_never_exceeded(tmp_path: Path, allowed: int, outcome: str) -> None:
    labels = {"app": "served"}
    held = [*runs("a", "node-1", 0, labels=labels), *runs("b", "node-1", 1, labels=labels)]
    world = [*fleet(*NODES), *held, *runs("c", "node-2", 0, kind=""), budget(allowed, **labels)]
    found = plan(tmp_path, world, big(4))
    assert found["outcome"] == outcome
    if outcome == "plan":
        assert [(one["name"], one["used"], one["allowed"]) for one in found["budgets"]] == [("budget", 2, 2)]
        assert "allows 2 of its pods to go now, and 2 would\n" in run(tmp_path, world, big(4)).output


# -- outcomes ---------------------------------------------------------------------------------------


def test_unknown_is_not_none(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0)]
    found = plan(tmp_path, world, big(4), "--questions-max", "2")
    assert found["outcome"] == "unknown"
    assert "there may be one" in found["text"]
    assert plan(tmp_path, world, big(5))["outcome"] == "none"


def test_more_moves_than_allowed_are_no_plan(tmp_path: Path) -> None:
    world = [*fleet("node-1", "node-2"), *(one for number in range(2) for one in runs(f"a-{number}", "node-1", number))]
    world += runs("c", "node-2", 0, kind="")
    assert plan(tmp_path, world, big(4), "--moves-max", "1")["outcome"] == "none"
    assert len(plan(tmp_path, world, big(4), "--moves-max", "2")["moves"]) == 2


def test_free_asks_for_devices_without_a_pod(tmp_path: Path) -> None:
    world = [*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0, 1)]
    assert moved(plan(tmp_path, world, (), "--free", f"4 {CLASS} on one node")) == [("a", "node-1", "node-2")]
    assert plan(tmp_path, world, (), "--free", f"3 {CLASS}")["outcome"] == "fits"
    result = run(tmp_path, world, (), "--free", "four gpus")
    assert (result.exit_code, "write a number and a DeviceClass" in result.output) == (2, True)
    result = run(tmp_path, world, (), "--free", "4 H100 on one node")
    assert result.exit_code == 2
    assert f"DeviceClass H100 does not exist; there are: {CLASS}" in result.output


def test_free_profile_asks_for_a_device_with_it(tmp_path: Path) -> None:
    world = fleet(*NODES, devices=2)
    for one in world:
        for number, device in enumerate(one["spec"].get("devices") or ()):
            device["attributes"] = {"profile": {"string": ("1g.10gb", "4g.40gb")[number]}}
    world += [*runs("a", "node-1", 1), *runs("b", "node-2", 1)]
    assert plan(tmp_path, world, (), "--free-profile", "1g.10gb")["outcome"] == "fits"
    assert plan(tmp_path, world, (), "--free-profile", "4g.40gb")["outcome"] == "plan"  # the pod takes any device
    result = run(tmp_path, world, (), "--free-profile", "3g.20gb")
    assert (result.exit_code, "there are: 1g.10gb, 4g.40gb" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ([claim()], "no pod to make room for"),
        ([pod(name="x"), pod(name="y")], "room is made for one pod; there are 2"),
        ([pod(name="x", schedulingGates=[{"name": "wait"}])], "the pod has schedulingGates"),
        ([{**pod(name="x"), "spec": {}}], "containers"),
    ],
)
def test_room_is_made_for_one_pod(tmp_path: Path, asked: list[Obj], text: str) -> None:
    result = run(tmp_path, fleet(*NODES), asked)
    assert (result.exit_code, text in result.output) == (2, True), result.output


# -- against brute force ----------------------------------------------------------------------------


class Model:
    """Nodes with four devices, and pods with some of them, which somebody places by hand."""

    def __init__(self, pods: Mapping[str, tuple[str, int, bool]], nodes: Sequence[str]) -> None:
        self.pods, self.nodes = pods, nodes

    def free(self, at: Mapping[str, str]) -> dict[str, int]:
        free = dict.fromkeys(self.nodes, 4)
        for name, where in at.items():
            free[where] -= self.pods[name][1]
        return free

    def least(self, wanted: int, moves_max: int) -> int | None:
        """The fewest pods off one node after which so many devices are free there, wherever the others go."""
        at = {name: where for name, (where, _, _) in self.pods.items()}
        for count in range(moves_max + 1):
            for source in self.nodes:
                own = [name for name, (where, _, movable) in self.pods.items() if where == source and movable]
                for chosen in itertools.combinations(own, count):
                    if self.free(at)[source] + sum(self.pods[name][1] for name in chosen) >= wanted:
                        others = [one for one in self.nodes if one != source]
                        for targets in itertools.product(others, repeat=count):
                            after = {**at, **dict(zip(chosen, targets, strict=True))}
                            if all(amount >= 0 for amount in self.free(after).values()):
                                return count
        return None


@st.composite
def placed_pods(draw: st.DrawFn) -> dict[str, tuple[str, int, bool]]:
    pods: dict[str, tuple[str, int, bool]] = {}
    for where in ("node-1", "node-2", "node-3"):
        left = 4
        while left and draw(st.booleans()):
            devices = draw(st.integers(1, min(2, left)))
            left -= devices
            pods[f"pod-{len(pods)}"] = where, devices, draw(st.integers(0, 4)) > 0
    return pods


@pytest.mark.slow
@settings(max_examples=40)
@given(pods=placed_pods(), wanted=st.integers(2, 4), data=st.data())
def test_a_plan_is_the_smallest_and_does_what_it_promises(
    tmp_path_factory: pytest.TempPathFactory, pods: dict[str, tuple[str, int, bool]], wanted: int, data: st.DataObject
) -> None:
    nodes = ("node-1", "node-2", "node-3")
    world, used = (
        [*fleet(*nodes), *(template(count_of(one), name=f"gpu-{one}") for one in (1, 2))],
        dict.fromkeys(nodes, 0),
    )
    for name, (where, devices, movable) in pods.items():
        numbers = range(used[where], used[where] + devices)
        used[where] += devices
        make = runs if data.draw(st.booleans()) else runs_from_template
        world += make(name, where, *numbers, kind="ReplicaSet" if movable else "")
    found = plan(tmp_path_factory.mktemp("room"), data.draw(st.permutations(world)), big(wanted))
    least = Model(pods, nodes).least(wanted, 3)
    promised = {"fits": 0, "plan": len(found["moves"]), "none": None}[found["outcome"]]
    # The scheduler places each moved pod by itself, so it can need more moves than somebody who places them by hand.
    assert promised == least or (least is not None and least > 1 and (promised is None or promised > least))
    held = {name: {(where, f"gpu-{number}") for number in _numbers(pods, name)} for name, (where, _, _) in pods.items()}
    for move in found["moves"]:
        assert pods[move["name"]][2]
        before = held.pop(move["name"])
        assert {(one["pool"], one["device"]) for one in move["devices"]} == before
        given_devices = {(one["pool"], one["device"]) for one in move["given"]}
        assert len(given_devices) == len(before) == pods[move["name"]][1]
        assert {where for where, _ in given_devices} == {move["to"]} != {move["from"]}
        assert not any(given_devices & others for others in held.values())
        held[move["name"]] = given_devices
    if found["outcome"] != "none":
        final = {(one["pool"], one["device"]) for one in found["pod"]["devices"]}
        assert len(final) == wanted
        assert {where for where, _ in final} == {found["pod"]["node"]}
        assert not any(final & others for others in held.values())


def _numbers(pods: Mapping[str, tuple[str, int, bool]], name: str) -> range:
    where, devices, _ = pods[name]
    before = [other for other in pods if pods[other][0] == where]
    start = sum(pods[other][1] for other in before[: before.index(name)])
    return range(start, start + devices)


def test_a_dump_that_no_server_would_store_is_planned_with_as_it_is(tmp_path: Path) -> None:
    """Its names and labels may be anything; those of others keep nobody from an answer."""
    world = [*fleet(*NODES), *runs("a", "node-1", 0), *runs("b", "node-2", 0, 1), *big(4)]
    for number, one in enumerate(world):
        one["metadata"].setdefault("uid", f"u{number}")
        one["metadata"].setdefault("resourceVersion", str(number + 50))
        if one["kind"] in ("Node", "Pod"):
            one["metadata"]["labels"] = {"no label": "-"}
    world[-1]["metadata"]["name"] = "a pod; touch x"
    result = run(tmp_path, world, (), "pod/a pod; touch x", "-o", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, moved(found)) == (0, [("a", "node-1", "node-2")])
