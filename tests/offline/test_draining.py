"""Draining a device: who holds it is named, each goes where the scheduler puts it, outcomes are never confused."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.offline import draining
from tests.cli.answers import DrainAnswer
from tests.cli.test_room_script import carried_out
from tests.offline.causes import COUNTERS, allocated, claim, counted, device_class, gpu, node, request, slice_, template
from tests.offline.test_making_room import NODES, Obj, big, budget, count_of, fleet, runs, runs_from_template

GROUP = {"podGroupName": "workers"}


def run(folder: Path, world: Sequence[Obj], device: str, *options: str, command: str = "drain-device") -> Result:
    (folder / "world.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(world)}))
    return CliRunner().invoke(cli, [command, "-f", str(folder / "world.json"), *options, device])


def drained(folder: Path, world: Sequence[Obj], device: str = "node-1/gpu-0", *options: str) -> Obj:
    result = run(folder, world, device, *options, "-o", "json")
    assert result.exit_code in (0, 1), result.output
    DrainAnswer.model_validate_json(result.stdout)
    found: Obj = json.loads(result.stdout)
    assert (result.exit_code == 0) == (found["outcome"] in ("free", "plan"))
    return found


def went(found: Obj) -> list[tuple[int, str, str, list[str]]]:
    """Step, pod, node, and the devices there."""
    moves = [one for one in found["holders"] if "to" in one]
    return [(one["step"], one["name"], one["to"], [each["device"] for each in one["given"]]) for one in moves]


def stays(found: Obj) -> dict[str, str]:
    return {one["name"]: one["why"] for one in found["holders"] if "why" in one}


# -- who goes where ---------------------------------------------------------------------------------


def test_nobody_holds_it(tmp_path: Path) -> None:
    found = drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 1)])
    assert (found["outcome"], found["holders"]) == ("free", [])
    (rule,) = found["rules"]
    selector = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    taint = {"key": "dra-scheduler/drained", "effect": "NoSchedule"}
    assert rule["spec"] == {"deviceSelector": selector, "taint": taint}
    assert "nobody holds node-1/gpu-0" in run(tmp_path, [*fleet(*NODES)], "node-1/gpu-0").output


def test_its_holder_goes_to_another_device_and_may_stay_on_its_node(tmp_path: Path) -> None:
    found = drained(tmp_path, [*fleet("node-1"), *runs("a", "node-1", 0), *runs("b", "node-1", 1)])
    assert (found["outcome"], went(found)) == ("plan", [(1, "a", "node-1", ["gpu-2"])])
    assert found["holders"][0]["namedClaims"] == ["a"]


def test_a_holder_of_another_namespace_is_named(tmp_path: Path) -> None:
    held = runs_from_template("a", "node-1", 0)
    for one in held:
        one["metadata"]["namespace"] = "team"
    found = drained(tmp_path, [*fleet(*NODES), template(count_of(1), name="gpu-1", namespace="team"), *held])
    assert [(one["namespace"], one["name"]) for one in found["holders"]] == [("team", "a")]
    assert "/api/v1/namespaces/team/pods/a/eviction" in "\n".join(found["commands"])


def test_who_waits_takes_no_place_and_gets_none(tmp_path: Path) -> None:
    world = [*fleet("node-1"), *runs("a", "node-1", 0, 1), *big(2)]
    assert went(drained(tmp_path, world)) == [(1, "a", "node-1", ["gpu-1", "gpu-2"])]


def test_there_is_no_room(tmp_path: Path) -> None:
    found = drained(tmp_path, [*fleet("node-1", devices=1), *runs("a", "node-1", 0)])
    assert found["outcome"] == "none"
    assert "taint" in stays(found)["a"]
    assert not any("/eviction" in line for line in found["commands"])  # the taint alone
    assert "drain-gpu-0-node-1" in found["commands"][0]
    assert found["text"].startswith("no plan: 1 of the 1 that hold node-1/gpu-0 would not get away")


def shared(*held: Sequence[Obj], where: str = "node-1") -> list[Obj]:
    """The first device of these pods is one that several claims share; beside it there are two."""
    for number, (its_claim, _) in enumerate(held):
        its_claim["status"]["allocation"]["devices"]["results"][0]["shareID"] = f"share-{number}"
    devices = [gpu("gpu-0", allowMultipleAllocations=True), gpu("gpu-1"), gpu("gpu-2")]
    return [device_class(), node(where), slice_(*devices, where=where), *(one for pair in held for one in pair)]


def test_other_orders_are_tried(tmp_path: Path) -> None:
    """The first by name may stay on its node only when the second has left it."""
    first = runs("a", "node-1", 0, 1, nodeSelector={"kubernetes.io/hostname": "node-1"})
    world = shared(first, runs("b", "node-1", 0, 2))
    found = drained(tmp_path, [*world, *fleet("node-2", devices=2)[1:]])
    assert found["outcome"] == "plan"
    assert went(found) == [(1, "b", "node-2", ["gpu-0", "gpu-1"]), (2, "a", "node-1", ["gpu-1", "gpu-2"])]
    found = drained(tmp_path, world)
    assert (found["outcome"], set(stays(found))) == ("none", {"a", "b"})


def test_a_group_goes_at_once(tmp_path: Path) -> None:
    held = [*runs("w-0", "node-1", 0, schedulingGroup=GROUP), *runs("w-1", "node-1", 1, schedulingGroup=GROUP)]
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "workers", "namespace": "default", "uid": "group", "resourceVersion": "3"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    found = drained(tmp_path, [*fleet(*NODES), group, *held])
    assert [(step, name) for step, name, _, _ in went(found)] == [(1, "w-0"), (1, "w-1")]
    lines = found["commands"]
    evicted = [index for index, line in enumerate(lines) if line.startswith("evict /")]
    waited = [index for index, line in enumerate(lines) if line.startswith("kubectl wait")]
    assert max(evicted) < min(waited)
    held[-1]["metadata"]["ownerReferences"] = []
    found = drained(tmp_path, [*fleet(*NODES), group, *held])
    assert found["outcome"] == "none"
    assert stays(found) == {
        "w-0": "goes together with default/w-1, which stays",
        "w-1": "has no controller that would make it again",
    }


def test_who_shares_a_claim_goes_at_once(tmp_path: Path) -> None:
    other = runs("other", "node-1")
    other[0]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "a"}]
    found = drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0, users=["a", "other"]), *other])
    assert [(step, name, to) for step, name, to, _ in went(found)] == [(1, "a", "node-1"), (1, "other", "node-1")]


@pytest.mark.timeout(60)
def test_very_many_are_put_together_soon() -> None:
    """Who holds a device can be as many as tenants like; where each claim looked at all of them it took hours."""
    count = 50_000
    chained = {str(number): {str(number)} for number in range(count)}
    group = {str(number) for number in range(count)}
    grouped = dict.fromkeys(group, group)
    for number in range(1, count):
        draining.join_units(chained, [str(number - 1), str(number)])
        draining.join_units(grouped, [str(number)])
    assert all(one is chained["0"] for one in chained.values())
    assert chained["0"] == grouped["0"] == group


# -- who stays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (runs("a", "node-1", 0, kind=""), "has no controller that would make it again"),
        (
            runs("a", "node-1", 0, annotations={"dra-scheduler/movable": "false"}),
            'has the annotation dra-scheduler/movable: "false"',
        ),
        (runs("b", "node-1", 0, users=["a"])[:1], "has claim b, and is no pod that runs among the objects"),
    ],
)
def test_who_stays(tmp_path: Path, held: list[Obj], why: str) -> None:
    found = drained(tmp_path, [*fleet(*NODES), *held])
    assert (found["outcome"], stays(found)) == ("none", {"a": why})
    assert why in run(tmp_path, [*fleet(*NODES), *held], "node-1/gpu-0").output


def test_a_daemon_sets_pod_goes_where_its_node_has_another_device(tmp_path: Path) -> None:
    assert drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0, kind="DaemonSet")])["outcome"] == "plan"


def test_a_claim_of_nobody_is_told(tmp_path: Path) -> None:
    held = allocated(claim(name="left"), "gpu-0", users=[], pool="node-1")
    found = drained(tmp_path, [*fleet(*NODES), held])
    assert found["outcome"] == "free"
    assert found["notes"] == ["claim default/left has it, and is reserved for nobody"]


def test_who_looks_with_admin_access_is_no_holder(tmp_path: Path) -> None:
    watching = runs("monitor", "node-1", 0, kind="DaemonSet")
    watching[0]["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert drained(tmp_path, [*fleet(*NODES), *watching])["outcome"] == "free"


@pytest.mark.parametrize(("allowed", "outcome"), [(0, "none"), (1, "plan")])
def test_a_budget_that_forbids(tmp_path: Path, allowed: int, outcome: str) -> None:
    labels = {"app": "served"}
    found = drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0, labels=labels), budget(allowed, **labels)])
    assert found["outcome"] == outcome
    if outcome == "plan":
        assert [(one["name"], one["used"], one["allowed"]) for one in found["budgets"]] == [("budget", 1, 1)]
    else:
        assert stays(found) == {"a": "PodDisruptionBudget default/budget allows 0 of its pods to go now"}


def test_a_budget_allows_less_than_go_at_once(tmp_path: Path) -> None:
    labels, other = {"app": "served"}, runs("other", "node-1", labels={"app": "served"})
    other[0]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "a"}]
    world = [*fleet(*NODES), *runs("a", "node-1", 0, users=["a", "other"], labels=labels), *other]
    found = drained(tmp_path, [*world, budget(1, **labels)])
    assert set(stays(found).values()) == {
        "PodDisruptionBudget default/budget allows 1 of its pods to go now, and 2 would go at once"
    }


def test_who_tolerates_the_taint_is_told(tmp_path: Path) -> None:
    held = runs("a", "node-1", 0)
    held[0]["spec"] = claim(request(tolerations=[{"operator": "Exists"}]), name="a")["spec"]
    found = drained(tmp_path, [*fleet("node-1", devices=1), *held])
    assert stays(found) == {"a": "tolerates the taint dra-scheduler/drained, and would be given the device again"}


def test_unknown_is_not_none(tmp_path: Path) -> None:
    world = shared(runs("a", "node-1", 0), runs("b", "node-1", 0))
    assert drained(tmp_path, world)["outcome"] == "plan"
    found = drained(tmp_path, world, "node-1/gpu-0", "--questions-max", "10")
    assert (found["outcome"], "there may be one" in found["text"]) == ("unknown", True)
    assert stays(found) == {"b": "was not asked about: the questions or steps were used up"}


def test_a_group_is_asked_about_whole_or_not(tmp_path: Path) -> None:
    """One of 5,000 pods would be played for a minute, whatever the bound."""
    held = [one for name in ("w-0", "w-1") for one in runs(name, "node-1", int(name[-1]), schedulingGroup=GROUP)]
    found = drained(tmp_path, [*fleet(*NODES), *held], "node-1/gpu-0", "--questions-max", "19")
    assert (found["outcome"], found["questions"]) == ("unknown", 0)


# -- which device -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("node-1/gpu-9", "node-1/gpu-9: there is no such device; did you mean node-1/gpu-"),
        ("node-9/gpu-0", "did you mean node-"),
        ("gpu.example.com/node-1/gpu-7", "did you mean gpu.example.com/node-1/gpu-"),
        ("gpu-0", "there is no such device"),
        ("x", "there are: "),
        ("", "there is no such device"),
    ],
)
def test_no_such_device(tmp_path: Path, device: str, text: str) -> None:
    result = run(tmp_path, fleet(*NODES), device)
    assert (result.exit_code, text in result.output) == (2, True), result.output
    simulated = run(tmp_path, fleet(*NODES), f"--without-device={device}", command="simulate")
    assert (simulated.exit_code, text in simulated.output) == (2, True), simulated.output


def test_drivers_have_equal_names(tmp_path: Path) -> None:
    other = slice_(gpu("gpu-0"), name="other", driver="nic.example.com")
    world = [*fleet(*NODES), {**other, "spec": {**other["spec"], "driver": "nic.example.com"}}]
    result = run(tmp_path, world, "node-1/gpu-0")
    assert result.exit_code == 2
    assert "write gpu.example.com/node-1/gpu-0 or nic.example.com/node-1/gpu-0" in result.output
    assert drained(tmp_path, world, "nic.example.com/node-1/gpu-0")["outcome"] == "free"


@pytest.mark.parametrize(
    ("driver", "pool", "device"),
    [
        ("nic.example.com", "node-1", "gpu-0"),  # of another driver
        ("example.com", "gpu", "gpu-0-node-1"),  # names that read alike when they are joined
        ("gpu.example.com", "node/1", "gpu-0"),
        ("gpu.example.com", "x" * 253, "gpu-0"),
        ("gpu.example.com", f"{'x' * 252}y", "gpu-0"),
    ],
)
def test_a_rule_is_of_one_device_alone(tmp_path: Path, driver: str, pool: str, device: str) -> None:
    """Another device's rule of the same name would be replaced by it, and lose its taint."""
    given = slice_(gpu(device), name="other")
    given["spec"] |= {"driver": driver, "pool": {**given["spec"]["pool"], "name": pool}}
    world = [*fleet(*NODES), given]
    names = [
        drained(tmp_path, world, written)["rules"][0]["metadata"]["name"]
        for written in ("gpu.example.com/node-1/gpu-0", f"{driver}/{pool}/{device}")
    ]
    assert names[0] == "drain-gpu-0-node-1-gpu-example-com-bbf36176"
    assert names[0] != names[1]
    assert all(len(name) <= 253 and re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names)


def test_a_whole_device_goes_with_its_partitions(tmp_path: Path) -> None:
    parts = slice_(
        counted("part-0", "40Gi"), counted("part-1", "40Gi"), counted("gpu-0", "80Gi"), pool={"resourceSliceCount": 2}
    )
    counters = slice_(name="counters", pool={"resourceSliceCount": 2}, sharedCounters=COUNTERS)
    held = allocated(claim(name="a"), "part-1", users=["a"], pool="node-1")
    world = [device_class(), *map(node, NODES), parts, counters, slice_(gpu("gpu-1"), where="node-2")]
    world += [held, *runs("a", "node-1", 0)[1:]]
    found = drained(tmp_path, world)
    assert [one["device"] for one in found["devices"]] == ["gpu-0", "part-0", "part-1"]
    assert went(found) == [(1, "a", "node-2", ["gpu-1"])]
    assert len(found["rules"]) == 3
    # A part goes alone, and its holder may be given the other.
    assert went(drained(tmp_path, world, "node-1/part-1")) == [(1, "a", "node-1", ["part-0"])]


def test_a_device_of_very_many_partitions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets a rule."""
    monkeypatch.setattr(draining, "_PARTS_MAX", 2)
    pool = {"resourceSliceCount": 2}
    parts = slice_(counted("part-0", "40Gi"), counted("part-1", "40Gi"), counted("gpu-0", "80Gi"), pool=pool)
    world = [device_class(), node("node-1"), parts, slice_(name="counters", pool=pool, sharedCounters=COUNTERS)]
    result = run(tmp_path, world, "node-1/gpu-0")
    assert (result.exit_code, "it has 2 partitions, and 1 at most are drained" in result.output) == (2, True)


def test_taints_must_be_on(tmp_path: Path) -> None:
    result = run(tmp_path, fleet(*NODES), "node-1/gpu-0", "--feature-gates", "DRADeviceTaints=false")
    assert (result.exit_code, "DRADeviceTaints is off" in result.output) == (2, True)


def test_the_rule_has_the_version_of_the_release(tmp_path: Path) -> None:
    found = drained(tmp_path, fleet(*NODES), "node-1/gpu-0", "--kubernetes", "1.36")
    assert found["rules"][0]["apiVersion"] == "resource.k8s.io/v1beta2"
    assert "--runtime-config" in found["commands"][0]
    assert drained(tmp_path, fleet(*NODES))["rules"][0]["apiVersion"] == "resource.k8s.io/v1"


# -- the script -------------------------------------------------------------------------------------


def test_the_taint_comes_before_the_evictions(tmp_path: Path) -> None:
    found = drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0)])
    code, told = carried_out(tmp_path, found["commands"])
    assert (code, told) == (0, ["apply -f", "create --raw", "wait --for=delete"])
    code, told = carried_out(tmp_path, found["commands"], fails="apply")
    assert (code, told) == (1, ["apply -f"])


def test_an_eviction_that_a_budget_forbids_is_tried_again(tmp_path: Path) -> None:
    lines = drained(tmp_path, [*fleet(*NODES), *runs("a", "node-1", 0)])["commands"]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        '#!/usr/bin/env bash\ncase "$*" in\n  "get pod -n"*) printf "node-1 uid" ;;\n  "get pods -n"*) echo uid ;;\n'
        '  "create --raw"*) echo x >> "$LOG"; [ "$(wc -l < "$LOG")" -gt 2 ] || { echo "violate the pod\'s disruption '
        'budget" >&2; exit 1; } ;;\nesac\n'
    )
    (tmp_path / "sleep").write_text("#!/usr/bin/env bash\n")
    for file in (kubectl, tmp_path / "sleep"):
        file.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    done = subprocess.run(
        ["bash"], input="\n".join(lines), env=environment, text=True, capture_output=True, check=False
    )
    assert (done.returncode, len((tmp_path / "log").read_text().splitlines())) == (0, 3), done.stderr


def test_a_name_is_never_a_command(tmp_path: Path) -> None:
    name = 'a\'; touch "$LOG.owned" #\ntouch $LOG.owned\n`touch $LOG.owned`'
    world = [*fleet(*NODES), *runs("a", "node-1", 0)]
    for one in world:
        if one["kind"] == "ResourceClaim":
            one["status"]["allocation"]["devices"]["results"][0]["device"] = name
    found = drained(tmp_path, world, f"node-1/{name}")
    carried_out(tmp_path, found["commands"])
    assert not (tmp_path / "log.owned").exists()


# -- simulate --without-device ----------------------------------------------------------------------


def simulated(folder: Path, world: Sequence[Obj], *devices: str) -> tuple[int, dict[str, Any], str]:
    """Exit code; of each pod that is played its devices; what is said besides."""
    options = [f"--without-device={one}" for one in devices]
    result = run(folder, world, options[0], *options[1:], "-o", "json", command="simulate")
    pods = json.loads(result.stdout)["pods"]
    return result.exit_code, {one["name"]: [each["device"] for each in one["devices"]] for one in pods}, result.stderr


def test_without_a_device_its_holder_is_placed_anew(tmp_path: Path) -> None:
    world = [*fleet("node-1", devices=3), *runs("a", "node-1", 0), *runs("b", "node-1", 1)]
    assert simulated(tmp_path, world, "node-1/gpu-0") == (0, {"a": ["gpu-2"]}, "")
    code, pods, _ = simulated(tmp_path, world, "node-1/gpu-0", "gpu.example.com/node-1/gpu-2")
    assert (code, pods) == (1, {"a": []})
    code, pods, _ = simulated(tmp_path, world, "node-1/gpu-0", "node-1/gpu-1")
    assert (code, sorted(pods), sum(map(len, pods.values()))) == (1, ["a", "b"], 1)


def test_without_a_device_who_has_no_controller_is_gone_and_named(tmp_path: Path) -> None:
    world = [*fleet("node-1"), *runs("a", "node-1", 0, kind=""), *runs("d", "node-1", 1, kind="DaemonSet")]
    code, pods, said = simulated(tmp_path, world, "node-1/gpu-0", "node-1/gpu-1")
    assert (code, pods) == (0, {"d": ["gpu-2"]})
    assert "1 pod (default/a) would not be made again" in said
