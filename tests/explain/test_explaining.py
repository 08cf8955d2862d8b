"""The first two lines name the cause and what to do; what is proposed makes the pod fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import Features
from benchmarks.pools import packed_devices, packed_shares
from scheduler.cli.explain import explain
from scheduler.cli.terminal import wrapped
from scheduler.core.reports.causes import Causes
from scheduler.explain import Explanation, NotThereError, explain_claim, explain_pod
from scheduler.explain.world import Ruling
from scheduler.framework.diagnosis import COMMAND, Limits
from scheduler.model.keys import PodUid
from scheduler.offline import Answers, OfflineCluster, Reasons, SourceObject
from scheduler.why.kinds import KINDS
from scheduler.why.reasons import Diagnosis
from tests.explain.answer_schema import Explanation as ExplainAnswer
from tests.offline.causes import (
    CAUSES,
    DRIVER,
    TAINT,
    TEAM_OF_ADMINS,
    TWO,
    WORLD,
    Obj,
    allocated,
    claim,
    device_class,
    gpu,
    node,
    pod,
    request,
    running,
    slice_,
    template,
)

NOW_MS = 1_800_000_000_000
ALONE = ("another-pod-is-first", "another-pod-is-more-important")
"""Here the pod is asked about alone, so it fits."""
MODEL = f"device.attributes['{DRIVER}'].model"


def told(*objects: Obj, namespace: str = "default", **bounds: int) -> Explanation:
    given_ = [SourceObject("file.yaml:1:1", obj) for obj in objects]
    return explain_pod(given_, (namespace, "asked"), now_ms=NOW_MS, features=Features(), **bounds)


ASKABLE = [cause for cause in CAUSES if not (cause.gates or cause.deleted or cause.has_history)]


@pytest.mark.parametrize("cause", ASKABLE, ids=lambda cause: cause.name)
def test_what_fits_is_said_to_fit_and_nothing_else_is(cause) -> None:
    asked = next(obj for obj in cause.objects if obj["kind"] == "Pod" and obj["metadata"]["name"] == "asked")

    answer = told(*cause.objects, namespace=asked["metadata"]["namespace"])

    assert answer.fits == (cause.want == "fits" or cause.name in ALONE)
    assert answer.fits or answer.outcome == cause.want


def holder(**spec: object) -> list[Obj]:
    """The pod `runs` with the only device, by its claim `theirs`, as an API server stores them."""
    runs = {**pod("theirs", name="runs", nodeName="node-1", **spec), "status": {"phase": "Running"}}
    runs["metadata"] = {**runs["metadata"], "uid": "uid-runs", "resourceVersion": "5"}
    theirs = allocated(claim(name="theirs"), "gpu-0")
    theirs["metadata"] = {**theirs["metadata"], "uid": "uid-theirs", "resourceVersion": "6"}
    theirs["spec"]["devices"]["requests"][0]["exactly"] |= {"allocationMode": "ExactCount", "count": 1}
    return [runs, theirs]


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
VERSIONED = gpu()
VERSIONED["attributes"] = {"driverVersion": {"version": "1.2.3"}}
DRIVER_CLASS = {**device_class(), "metadata": {"name": "gpus"}}
GPUS = {"name": "gpu", "exactly": {"deviceClassName": "gpus"}}
TYPOS = [
    ("class", [*WORLD, claim({"name": "gpu", "exactly": {"deviceClassName": "gpu.exmaple.com"}}), pod("gpu")]),
    (
        "class-in-template",
        [*WORLD, template({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}), pod("template:gpu")],
    ),
]

PLANTED: list[tuple[str, list[Obj], list[str], list[str]]] = [
    # name, objects, words of the first line, words of the second
    ("class-typo", TYPOS[0][1], ["DeviceClass gpu.exmaple.com", "does not exist", "default/gpu"], ["gpu.example.com"]),
    (
        "class-typo-in-template",
        TYPOS[1][1],
        ["ResourceClaimTemplate default/gpu", "does not exist"],
        ["gpu.example.com"],
    ),
    ("claim-typo", [*WORLD, claim(name="gpus"), pod("gpu")], ["ResourceClaim default/gpu", "not exist"], ["gpus"]),
    ("template-typo", [*WORLD, template(), pod("template:gpuu")], ["ResourceClaimTemplate default/gpuu"], ["gpu"]),
    (
        "attribute-typo",
        [*WORLD, claim(request(f"device.attributes['{DRIVER}'].modle == 'A100'")), pod("gpu")],
        [f"request gpu: no device of its class has attributes {DRIVER}/modle", f"1 have {DRIVER}/model"],
        ["write model in the selector of request gpu of ResourceClaim default/gpu"],
    ),
    (
        "attribute-typo-in-class",
        [*WORLD[:2], device_class(f"device.attributes['{DRIVER}'].modell == 'A100'"), claim(), pod("gpu")],
        [f"DeviceClass {DRIVER}: no device has attributes {DRIVER}/modell", f"1 have {DRIVER}/model"],
        [f"write model in the selector of DeviceClass {DRIVER}", f"kubectl edit deviceclass {DRIVER}"],
    ),
    (
        "domain-typo",
        [*WORLD, claim(request("device.attributes['gpu.exmaple.com'].model == 'A100'")), pod("gpu")],
        ["gpu.exmaple.com/model", f"1 have {DRIVER}/model"],
        [DRIVER],
    ),
    (
        "driver-typo",
        [*WORLD, claim(request("device.driver == 'gpu.exmaple.com'")), pod("gpu")],
        ["has the driver gpu.exmaple.com", f"{DRIVER} publishes 1"],
        [DRIVER],
    ),
    (
        "value-typo",
        [*WORLD, claim(request(f"{MODEL} == 'a100'")), pod("gpu")],
        ["'a100'", "1 have 'A100'"],
        ["write 'A100'"],
    ),
    (
        "string-for-version",
        [
            node(),
            slice_(VERSIONED),
            device_class(),
            claim(request(f"device.attributes['{DRIVER}'].driverVersion == '1.2.3'")),
            pod("gpu"),
        ],
        ["is a version", "with a string"],
        ["semver('1.2.3')"],
    ),
    ("cordon", [node(unschedulable=True), *WORLD[1:], claim(), pod("gpu")], ["node node-1 is cordoned"], ["uncordon"]),
    ("taint", [node(taints=[TAINT]), *WORLD[1:], claim(), pod("gpu")], ["node-1", TAINT["key"]], ["toleration"]),
    (
        "cpu",
        [*WORLD, claim(), pod("gpu", requests={"cpu": "9"})],
        ["node node-1 has 8 cpu free", "asks for 9"],
        ["cpu 8 instead of 9"],
    ),
    (
        "count",
        [*TWO, claim(request(count=5)), pod("gpu")],
        ["node node-1 has 2 devices", "asks for 5"],
        ["2 devices instead of 5"],
    ),
    (
        "held",
        [*WORLD, *holder(), claim(), pod("gpu")],
        ["device node-1/gpu-0", "in use by ResourceClaim default/theirs", "pod default/runs", "priority 0"],
        ["end pod default/runs"],
    ),
    (
        "admin-label",
        [
            *WORLD,
            {**TEAM_OF_ADMINS, "metadata": {"name": "default"}},
            claim(request(adminAccess=True)),
            pod("gpu"),
        ],
        ["admin access", "Namespace default has no label"],
        ["kubectl label namespace default"],
    ),
    (
        "taint-and-count",
        [node(taints=[TAINT]), *TWO[1:], claim(request(count=3)), pod("gpu")],
        [TAINT["key"], "has 2 devices", "and then"],
        ["toleration", "2 devices instead of 3"],
    ),
    (
        "class-and-cordon",
        [node(unschedulable=True), *TYPOS[0][1][1:]],
        ["gpu.exmaple.com", "and then", "cordoned"],
        ["then kubectl uncordon node-1"],
    ),
    (
        "gate-and-selector",
        [*WORLD, claim(request(f"{MODEL} == 'A10O'")), pod("gpu", schedulingGates=[{"name": "example.com/wait"}])],
        ["scheduling gate example.com/wait", "and then", "'A10O'"],
        ["'A100'"],
    ),
]


HOT = {"key": "example.com/hot", "effect": "NoExecute", "value": "yes"}
H100 = gpu("gpu-1", attributes={"model": {"string": "H100"}})
PORT = [{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
THREE = [node("node-1", unschedulable=True), node("node-2", cpu="1"), node("node-3", taints=[TAINT])]
NEAR_A_DATABASE = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}
OTHERWISE: list[tuple[str, list[Obj], list[str], list[str]]] = [
    # The same kinds in another dressing, and some more
    (
        "taint-beside-a-cordon-and-a-small-node",
        [
            *THREE,
            *(slice_(gpu(), where=f"node-{n}") for n in (1, 2, 3)),
            device_class(),
            claim(),
            pod("gpu", requests={"cpu": "2"}),
        ],
        ["node node-3 has the taint", TAINT["key"]],
        ["toleration"],
    ),
    (
        "taint-no-execute",
        [node(taints=[{**TAINT, "effect": "NoExecute"}]), *WORLD[1:], template(), pod("template:gpu")],
        [":NoExecute", "does not tolerate"],
        ["effect: NoExecute"],
    ),
    (
        "memory-of-two-containers",
        [
            *WORLD,
            claim(),
            pod(
                "gpu",
                containers=[
                    {"name": name, "image": "i", "resources": {"requests": {"memory": "10Gi"}}} for name in ("a", "b")
                ],
            ),
        ],
        ["node node-1 has 16Gi memory free", "asks for 20Gi"],
        ["memory 6Gi instead of 10Gi in container a"],
    ),
    (
        "count-in-template",
        [*TWO, template(request(count=4)), pod("template:gpu")],
        ["node node-1 has 2 devices", "asks for 4"],
        ["2 devices instead of 4 in request gpu of ResourceClaimTemplate default/gpu"],
    ),
    (
        "held-by-somebody-more-important",
        [HIGH, *WORLD, *holder(priority=1000, priorityClassName="high"), claim(), pod("gpu")],
        ["in use by ResourceClaim default/theirs", "priority 1000"],
        ["end pod default/runs (priority 1000"],
    ),
    (
        "two-gates",
        [*WORLD, claim(), pod("gpu", schedulingGates=[{"name": "example.com/one"}, {"name": "example.com/two"}])],
        ["scheduling gates example.com/one, example.com/two"],
        ["example.com/two must remove"],
    ),
    (
        "device-taint-no-execute",
        [node(), slice_(gpu(taints=[HOT])), device_class(), template(), pod("template:gpu")],
        ["device node-1/gpu-0 has the taint example.com/hot=yes:NoExecute", "request gpu"],
        ["key: example.com/hot"],
    ),
    (
        "string-for-version-in-class",
        [
            node(),
            slice_(VERSIONED),
            claim(),
            pod("gpu"),
            device_class(f"device.attributes['{DRIVER}'].driverVersion == '1.2.3'"),
        ],
        [f"DeviceClass {DRIVER}", "is a version", "with a string"],
        ["semver('1.2.3')"],
    ),
    (
        "attribute-typo-in-an-alternative",
        [
            *WORLD,
            pod("gpu"),
            claim(
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {
                            "name": "a",
                            "deviceClassName": DRIVER,
                            "selectors": [{"cel": {"expression": f"{MODEL.replace('model', 'modle')} == 'A100'"}}],
                        }
                    ],
                }
            ),
        ],
        [f"request gpu/a: no device of its class has attributes {DRIVER}/modle", f"1 have {DRIVER}/model"],
        ["write model in the selector of request gpu/a of ResourceClaim default/gpu"],
    ),
    (
        "constraint-with-two-models",
        [
            node(),
            slice_(gpu(), H100),
            device_class(),
            pod("gpu"),
            claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/model", "requests": ["gpu"]}]),
        ],
        [f"2 devices with the same {DRIVER}/model are needed", "node node-1 is 1"],
        ["ask for 1 device"],
    ),
    (
        "constraint-that-nobody-publishes",
        [*TWO, claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]), pod("gpu")],
        [f"no device of request gpu on node node-1 has {DRIVER}/numa"],
        ["drop the constraint"],
    ),
    (
        "node-selector-without-a-node",
        [*WORLD, claim(), pod("gpu", nodeSelector={"kubernetes.io/hostname": "node-11"})],
        ["no node has kubernetes.io/hostname=node-11", "there is node-1"],
        ["nodeSelector of pod default/asked"],
    ),
    (
        "node-selector-of-a-node-without-devices",
        [
            node(),
            node("node-2"),
            slice_(gpu(), where="node-2"),
            device_class(),
            claim(),
            pod("gpu", nodeSelector={"kubernetes.io/hostname": "node-1"}),
        ],
        ["node node-1 has no devices"],
        ["write kubernetes.io/hostname: node-2 instead of node-1"],
    ),
    (
        "host-port",
        [
            *WORLD,
            {**running(), "spec": {**running()["spec"], "containers": PORT}},
            claim(),
            pod("gpu", containers=PORT),
        ],
        ["pod default/runs (priority 0) has the host port 80/TCP of node node-1"],
        ["81 instead of 80"],
    ),
    (
        "spread-without-the-key",
        [
            *WORLD,
            claim(),
            pod(
                "gpu",
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
                ],
            ),
        ],
        ["node node-1 has no label rack"],
        ["relax the topologySpreadConstraints"],
    ),
    (
        "pod-affinity",
        [*WORLD, claim(), pod("gpu", affinity=NEAR_A_DATABASE)],
        ["no pod with app=db", "the podAffinity of pod default/asked"],
        ["relax"],
    ),
    (
        "driver-of-class",
        [
            node(),
            slice_(gpu(), driver="gpu.other.com"),
            device_class(f"device.driver == '{DRIVER}'"),
            claim(),
            pod("gpu"),
        ],
        [f"no device has the driver {DRIVER}", "gpu.other.com (1)"],
        [f"install the driver {DRIVER}"],
    ),
    (
        "claim-of-another-namespace",
        [*WORLD, claim(namespace="team"), pod("gpu")],
        ["ResourceClaim gpu is in namespace team", "in namespace default"],
        ["make ResourceClaim gpu in namespace default"],
    ),
    (
        "template-of-another-namespace",
        [*WORLD, template(namespace="team"), pod("template:gpu")],
        ["ResourceClaimTemplate gpu is in namespace team"],
        ["make ResourceClaimTemplate gpu in namespace default"],
    ),
    (
        "extended-resource-count",
        [
            node(),
            slice_(gpu()),
            device_class(extendedResourceName="example.com/gpu"),
            pod(requests={"example.com/gpu": "3"}),
        ],
        ["node node-1 has 1 device", "example.com/gpu", "asks for 3"],
        ["ask for example.com/gpu 1 instead of 3", "(requests and limits)"],
    ),
    (
        "scheduler-typo",
        [*WORLD, claim(), pod("gpu", schedulerName="dra-schduler")],
        ["fits on node node-1", "no pod that has a node names the scheduler dra-schduler"],
        ["schedulerName: dra-scheduler instead of dra-schduler"],
    ),
    (
        "scheduler-typo-of-another",
        [
            *WORLD,
            {**running(), "spec": {**running()["spec"], "schedulerName": "volcano"}},
            claim(),
            pod("gpu", schedulerName="volcno"),
        ],
        ["names the scheduler volcno", "volcano is one that is known"],
        ["schedulerName: volcano"],
    ),
]


@pytest.mark.parametrize(
    ("objects", "first", "second"),
    [one[1:] for one in (*PLANTED, *OTHERWISE)],
    ids=[one[0] for one in (*PLANTED, *OTHERWISE)],
)
def test_two_lines_name_the_cause_and_the_change(objects, first, second) -> None:
    answer = told(*objects)

    assert not answer.fits
    assert [word for word in first if word not in f"{answer.cause} {answer.verdict}"] == [], answer.verdict
    assert [word for word in second if word not in answer.advice] == [], answer.advice
    assert_form(answer)


def assert_form(answer: Explanation) -> None:
    """Who, the kind of the cause, and at most 160 characters of the cause, whole words."""
    begin = rf"pod \S+ (does not fit|does not start yet|waits though it fits on node \S+) \[{answer.kind}\]: "
    found = re.match(begin, answer.verdict)
    assert found, answer.verdict
    assert answer.kind in KINDS
    assert len(answer.verdict[found.end() :]) <= 160
    shown = answer.verdict[found.end() :].removesuffix("…")
    assert answer.cause.startswith(shown)
    assert not answer.cause[len(shown) :][:1].isalnum()
    assert answer.advice.startswith(("to make it fit: ", "to make it start: ")) == bool(answer.changes)
    assert {step.kind for step in (*answer.changes, *answer.also)} <= KINDS.keys()
    assert answer.cause.count(answer.message or "…") == 0, "the scheduler's sentence stands there once"


IN_USE = "device node-1/gpu-0 is in use by ResourceClaim default/theirs (pod default/runs (priority 0))"
EXPECTED = {
    "cordon": "cordoned",
    "node-selector": "zone=a",
    "node-affinity": "nodeAffinity",
    "memory": "node node-1 has 16Gi memory free",
    "cpu-of-running-pods": "node node-1 has 50m cpu free",
    "limits-count-as-requests": "node node-1 has 8 cpu free",
    "too-many-pods": "node node-1 has room for 1 pods, and has 1",
    "each-node-for-another-reason": "node node-1 has 8 cpu free",
    "claim-missing": "ResourceClaim default/gpu, which pod default/asked names, does not exist",
    "claim-full": "ResourceClaim default/gpu is full: 256 pods",
    "claim-pinned-to-a-cordoned-node": "node node-1 is cordoned",
    "template-missing": 'template "nowhere": not found',
    "class-missing": "DeviceClass gpu.example.com, which does not exist; there are: none",
    "class-selector-false": "DeviceClass gpu.example.com: no device has the driver x",
    "cel-error": "has attributes gpu.example.com/nothing",
    "all-mode-with-one-in-use": f"{IN_USE}; request gpu asks for all 2",
    "shared-capacity-too-small": "device node-1/gpu-0 has memory 80Gi",
    "shared-capacity-consumed": "device node-1/gpu-0 has memory 30Gi left of 80Gi, request gpu takes 40Gi",
    "counters": "counter set all has no room for device node-1/part-1 (memory 60Gi needed, 20Gi left)",
    "incomplete-pool": "of generation 1 there are 1 of 2 ResourceSlices",
    "older-generation": "is of an older generation (1): 2 counts",
    "device-taint": "device node-1/gpu-0 has the taint example.com/hot:NoSchedule",
    "device-taint-rule": "DeviceTaintRule rule",
    "binding-conditions": "waits for example.com/ready to be set",
    "extended-resource-in-use": IN_USE,
    "scheduling-gate": "scheduling gate example.com/wait",
    "pod-anti-affinity": "podAntiAffinity",
    "priority-class-missing": "PriorityClass nowhere",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_first_line_of_known_causes(name: str) -> None:
    cause = next(cause for cause in CAUSES if cause.name == name)

    answer = told(*cause.objects)
    assert EXPECTED[name] in answer.cause
    assert_form(answer)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    taint=st.booleans(), cordon=st.booleans(), gate=st.booleans(), count=st.integers(1, 4), devices=st.integers(1, 3)
)
def test_changes_found_are_as_few_as_can_be(taint: bool, cordon: bool, gate: bool, count: int, devices: int) -> None:
    """Each planted cause needs a change of its own, so their number is known without asking anybody."""
    obstacles = [taint, cordon, gate, count > devices]
    answer = told(
        node(**({"taints": [TAINT]} if taint else {}), **({"unschedulable": True} if cordon else {})),
        slice_(*(gpu(f"gpu-{number}") for number in range(devices))),
        device_class(),
        claim(request(count=count)),
        pod("gpu", **({"schedulingGates": [{"name": "example.com/wait"}]} if gate else {})),
    )

    assert answer.fits == (not any(obstacles))
    assert len(answer.changes) == (sum(obstacles) if sum(obstacles) <= 2 else 0)
    assert not answer.exhausted


def test_when_the_budget_is_used_up_that_is_said() -> None:
    answer = told(*WORLD, template(), pod("template:gup"), steps_max=9_000)  # templates only explain sees

    assert answer.exhausted
    assert answer.changes == ()
    assert "the budget is used up after 0 changes" in answer.advice


def test_a_pod_for_which_others_are_preempted_needs_nobody() -> None:
    """It said which other pod to end, though the scheduler had chosen one already."""
    running = {**pod("held", name="experiment", nodeName="node-1"), "status": {"phase": "Running"}}
    waits = pod("gpu", priority=100)
    for number, one in enumerate((running, waits)):
        one["metadata"] |= {"uid": f"uid-{one['metadata']['name']}", "resourceVersion": str(number + 5)}
    held = allocated(claim(name="held"), "gpu-0", users=["experiment"])
    answer = told(node(), slice_(gpu()), device_class(), claim(), held, running, waits)

    assert (answer.fits, answer.kind) == (False, "making-room")
    assert "node node-1 is being freed" in answer.verdict
    assert "when the scheduler has preempted pod default/experiment (priority 0)" in answer.verdict
    assert answer.advice == "nothing needs to be done"


@pytest.mark.parametrize(("priority", "fits"), [(100, False), (0, False), (-1, True)])
def test_room_that_is_kept_for_a_pod_at_least_as_important_is_not_free(priority: int, fits: bool) -> None:
    """It was said to fit: pods that wait were left out, and with them the one that is nominated for the node."""
    boss = {**pod("boss", name="boss", priority=priority), "status": {"nominatedNodeName": "node-1"}}
    boss["metadata"] |= {"uid": "uid-boss", "resourceVersion": "5"}
    answer = told(node(), slice_(gpu()), device_class(), claim(), claim(name="boss"), boss, pod("gpu", priority=0))

    assert answer.fits == fits
    kept = "pod default/boss was tried, too: node node-1 is kept for it (nominatedNodeName)"
    assert (kept in answer.notes) == (not fits)


def two_misspelt() -> list[Obj]:
    """A pod whose templates are both written wrong, on a cordoned node: three questions, and nothing helps."""
    wants = pod("gpu", "nic")
    named = (("gpu", "gpuu"), ("nic", "nicc"))
    wants["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": of} for name, of in named]
    templates = [template(name="gpu"), template(name="nic")]
    return [node(unschedulable=True), slice_(gpu()), device_class(), *templates, wants]


@pytest.mark.parametrize(("steps_max", "asked"), [(9_000, [9_000]), (45_000, [45_000, 25_000, 5_000])])
def test_what_each_edit_leaves_to_look_for_comes_out_of_the_same_steps(
    monkeypatch: pytest.MonkeyPatch, steps_max: int, asked: list[int]
) -> None:
    limits: list[int] = []

    def why(_: Ruling, steps_left: int) -> tuple[Diagnosis | None, int]:
        limits.append(steps_left)
        return None, 10_000

    monkeypatch.setattr(Ruling, "why", why)
    answer = told(*two_misspelt(), steps_max=steps_max)

    assert limits == asked
    assert answer.exhausted


def test_turns_of_the_scheduler_use_up_the_budget_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with costly selectors takes seconds for each question, however few objects there are."""
    objects = two_misspelt()
    before = told(*objects)
    assert (before.exhausted, before.questions) == (False, 3)

    monkeypatch.setattr(Ruling, "turns", property(lambda _: 1_000))
    assert told(*objects) == before
    answer = told(*objects, steps_max=1_000_000)
    assert (answer.exhausted, answer.questions) == (True, 1)
    assert "the budget is used up after 1 change" in answer.advice


@pytest.mark.slow
def test_looking_at_all_nodes_ends_in_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 200,000 steps for each of a thousand nodes it would take an hour."""
    bounds: list[int] = []

    def reasons(answers: Answers, *, budget_steps: int, steps_max: int) -> Reasons:
        bounds.append(steps_max)
        return Reasons(answers, budget_steps=budget_steps, steps_max=20_000)

    monkeypatch.setattr("scheduler.explain.explaining.Reasons", reasons)
    answer = told(*packed(1))

    assert bounds == [COMMAND.all_steps]
    assert any("explain -o wide looks at all nodes" in one.reason for one in answer.nodes)


def packed(nodes: int, **spec: object) -> list[Obj]:
    """Nodes, and a pod whose claim has a place on each that no search finds soon."""
    shares = [
        {**request(capacity={"requests": {"memory": share}}), "name": f"share-{number}"}
        for number, share in enumerate(packed_shares(0))
    ]
    made = [device_class(), claim(*shares), pod("gpu")]
    for number in range(nodes):
        where = f"node-{number}"
        made += [node(where, **spec), slice_(*packed_devices(number), where=where)]
    return made


@pytest.mark.slow
@pytest.mark.parametrize("bound", [20_000, 40_000])
@pytest.mark.parametrize("spec", [{"unschedulable": True}, {}], ids=["changes", "nodes"])
def test_what_would_help_is_looked_for_within_one_number_of_steps(
    monkeypatch: pytest.MonkeyPatch, bound: int, spec: dict[str, object]
) -> None:
    """However many nodes are asked anew, and changes tried: each time the scheduler looks for what it does not find."""
    spent: list[int] = []
    real = Causes.why

    def why(self: Causes, uid: PodUid, limits: Limits) -> tuple[Diagnosis | None, int]:
        found = real(self, uid, limits)
        spent.append(found[1])
        return found

    monkeypatch.setattr(Causes, "why", why)
    answer = told(*packed(8, **spec), steps_max=bound)

    assert answer.exhausted
    assert "the budget is used up after" in answer.advice
    assert bound / 2 < sum(spent) < bound + 1_000


def test_where_a_smaller_amount_helps_no_still_smaller_one_is_said() -> None:
    """The pods that could end are worth saying; "one device less" again is not."""
    answer = told(
        node(),
        slice_(*(gpu(f"gpu-{index}") for index in range(4))),
        device_class(),
        *bound("one", "node-1", "gpu-0"),
        claim(request(count=4), name="mine"),
        pod("mine"),
    )

    told_ = [step.change for step in (*answer.changes, *answer.also)]
    assert [text.partition(" ")[0] for text in told_] == ["ask", "free"]
    assert told_[0].startswith("ask for 3 devices instead of 4")


def test_a_claim_is_told_by_the_pod_that_waits_or_by_one_of_its_own() -> None:
    objects = [SourceObject("", obj) for obj in (*TWO, claim(request(count=3)))]
    question = {"now_ms": NOW_MS, "features": Features()}

    alone = explain_claim(objects, ("default", "gpu"), **question)
    used = explain_claim([*objects, SourceObject("", pod("gpu"))], ("default", "gpu"), **question)

    assert "pod default/only-gpu does not fit" in alone.verdict
    assert "no pod waits" in alone.notes[0]
    assert "pod default/asked does not fit" in used.verdict
    held = explain_claim([SourceObject("", allocated(claim(), "gpu-0"))], ("default", "gpu"), **question)
    assert held.verdict == f"claim default/gpu is allocated: {DRIVER}/node-1/gpu-0"
    with pytest.raises(NotThereError, match="there are: gpu"):
        explain_claim(objects, ("default", "cpu"), **question)


@pytest.mark.parametrize(
    ("objects", "subject", "code", "words"),
    [
        ([*WORLD, claim(), pod("gpu")], "pod/asked", 0, "fits: it would run on node node-1"),
        ([*TWO, claim(request(count=3)), pod("gpu")], "pod/asked", 1, "2 devices instead of 3"),
        ([*TWO, claim(request(count=3))], "claim/gpu", 1, "2 devices instead of 3"),
        ([*WORLD, claim(), pod("gpu")], "pod/nobody", 2, "no pod is named nobody; known: default/asked"),
        ([*WORLD], "node/node-1", 2, "give NAME or pod/NAME, claim/NAME"),
    ],
)
def test_command_says_it_with_its_exit_code(objects, subject: str, code: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    result = CliRunner().invoke(explain, [subject, "-f", str(path)])

    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_broken_files_are_wrong_input_and_json_has_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text("a: [")
    assert CliRunner().invoke(explain, ["pod/asked", "-f", str(path)]).exit_code == 2

    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*TWO, claim(request(count=3)), pod("gpu")]})
    )
    result = CliRunner().invoke(explain, ["pod/asked", "-f", str(path), "-o", "json"])
    assert ExplainAnswer.model_validate_json(result.stdout).changes[0].kind == "devices-short"


def test_published_schema_is_that_of_the_model() -> None:
    """Written by: json.dumps(ExplainAnswer.model_json_schema(mode="serialization"), indent=2)."""
    path = Path(__file__).parents[2] / "docs" / "schemas" / "explain.json"

    assert json.loads(path.read_text()) == ExplainAnswer.model_json_schema(mode="serialization")


def stored(obj: Obj, number: int = 1, **metadata: object) -> Obj:
    """As a dump has it."""
    obj["metadata"] = {**obj["metadata"], "uid": f"uid-{number}", "resourceVersion": str(number), **metadata}
    return obj


def test_what_cannot_be_edited_in_place_is_to_be_made_anew() -> None:
    """The API server refuses an edit of a claim's spec, and of most of a pod's."""
    wanted = stored(claim(request(count=3, allocationMode="ExactCount")))
    large = stored(pod("gpu", requests={"cpu": "9"}), 2)
    assert "make the claim anew, as its spec cannot be edited" in told(*TWO, wanted, pod("gpu")).advice
    assert "make the pod anew, as this field cannot be edited" in told(*WORLD, claim(), large).advice
    assert "anew" not in told(*TWO, claim(request(count=3)), pod("gpu")).advice
    assert "anew" not in told(node(taints=[TAINT]), *WORLD[1:], claim(), stored(pod("gpu"), 2)).advice


def test_what_a_controller_made_is_edited_where_it_was_made() -> None:
    def owned(kind: str, name: str, **labels: str) -> Obj:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "uid-9", "controller": True}
        return stored(pod("gpu", requests={"cpu": "9"}), 2, labels=labels, ownerReferences=[owner])

    web = told(*WORLD, claim(), owned("ReplicaSet", "web-5d4f8", **{"pod-template-hash": "5d4f8"}))
    assert web.command == "kubectl edit deployment/web -n default"
    assert web.objects == ("deployment/default/web",)
    assert web.advice.endswith(web.command)
    train = told(*WORLD, claim(), owned("Job", "train"))
    assert train.advice.endswith("make the job anew, as its template cannot be edited")
    made = stored(claim(request(count=3, allocationMode="ExactCount"), name="made"), 1)
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "asked", "uid": "uid-2", "controller": True}
    ]
    asked = stored(pod("template:gpu"), 2)
    asked["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}
    by_template = told(*TWO, template(request(count=3)), made, asked)
    assert by_template.command == "kubectl edit resourceclaimtemplate/gpu -n default"
    assert by_template.objects == ("resourceclaimtemplate/default/gpu",)
    assert "in request gpu of ResourceClaimTemplate default/gpu" in by_template.advice


def bound(name: str, node_name: str, *devices: str) -> list[Obj]:
    """A pod that runs with these devices, as a dump has it."""
    held = allocated(claim(request(count=len(devices))), *devices, where=node_name, users=[name], pool=node_name)
    runs = pod("gpu", name=name, nodeName=node_name)
    for index, one in enumerate((held, runs)):
        one["metadata"] = {**one["metadata"], "uid": f"uid-{name}-{index}", "resourceVersion": str(index + 5)}
    held["status"]["reservedFor"][0]["uid"] = runs["metadata"]["uid"]
    held["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = "ExactCount"
    return [held, runs]


def test_of_a_bound_pod_is_said_why_this_node() -> None:
    two = [node("node-1"), node("node-2"), *(slice_(gpu(), where=f"node-{n}") for n in (1, 2)), device_class()]
    alike = told(*two, *bound("asked", "node-1", "gpu-0"))
    assert alike.verdict == "pod default/asked is bound to node node-1"
    assert f"devices: {DRIVER}/node-1/gpu-0" in alike.advice
    assert "of the 2 nodes that fit, none is better; node-2 would do as well" in alike.advice
    assert [one.node for one in alike.scores] == ["node-1", "node-2"]

    only = told(*two[:1], node("node-2", unschedulable=True), *two[2:], *bound("asked", "node-1", "gpu-0"))
    assert "it is the only one of 2 nodes that fits" in only.advice
    assert [(group.plugin, group.nodes) for group in only.nodes] == [("NodeUnschedulable", ("node-2",))]

    busy = [running("other", "node-1", cpu="6")]
    best = told(*two, *busy, *bound("asked", "node-2", "gpu-0"))
    assert "of the 2 nodes that fit it is the best: " in best.advice
    assert "of node-1, most by Node" in best.advice
    worse = told(*two, *busy, *bound("asked", "node-1", "gpu-0"))
    assert "node-2 would be preferred now" in worse.advice


def test_who_else_waits_is_nothing_to_a_pod_that_is_bound() -> None:
    others = [pod(name="one", requests={"cpu": "1"}), pod(name="two", requests={"cpu": "1"})]
    waits = told(*WORLD, claim(), pod("gpu"), *others)
    assert [note for note in waits.notes if "other pods wait" in note]
    assert told(*WORLD, *bound("asked", "node-1", "gpu-0"), *others).notes == ()


def test_of_a_pod_that_no_node_would_take_any_more_that_is_said() -> None:
    now_cordoned = told(node(unschedulable=True), *WORLD[1:], *bound("asked", "node-1", "gpu-0"))
    assert now_cordoned.fits
    assert (
        "asked again now, without the pod, the node would be refused: node(s) were unschedulable" in now_cordoned.advice
    )


def test_a_pod_of_kube_scheduler_is_explained_by_the_same_plugins() -> None:
    answer = told(*TWO, claim(request(count=3)), pod("gpu", schedulerName="default-scheduler"))
    assert "2 devices instead of 3" in answer.advice
    assert "the pod's scheduler is default-scheduler: answered as kube-scheduler 1.37 would" in answer.notes[0]


def test_a_selector_that_fails_is_shown_with_its_device_and_the_place() -> None:
    broken = f"device.driver == '{DRIVER}' && {MODEL}.startsWith('A') && device.attributes['{DRIVER}'].nothing == 'x'"
    answer = told(*WORLD, claim(request(broken)), pod("gpu"))

    (failure,) = answer.failures
    assert (failure.of, failure.device) == ("request gpu of ResourceClaim default/gpu", f"{DRIVER}/node-1/gpu-0")
    assert (failure.message, failure.offset) == ("no such key: nothing", broken.index(".nothing"))
    caret, line = (failure.shown.splitlines()[place].removeprefix(" | ") for place in (-1, -2))
    assert line[caret.index("^") :] == ".nothing == 'x'"
    assert f"has attributes {DRIVER}/nothing" in answer.cause
    assert told(*TWO, claim(request(count=5)), pod("gpu")).failures == ()


def test_a_cluster_is_loaded_once_however_many_changes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cluster for each question 1,500 cordoned nodes took 2.6 GiB, and nothing was found."""
    loads: list[int] = []
    load = OfflineCluster.load
    monkeypatch.setattr(OfflineCluster, "load", lambda self, given: loads.append(1) or load(self, given))
    drained = [
        obj
        for number in range(80)
        for obj in (
            node(f"node-{number:02}", unschedulable=True),
            slice_(gpu("gpu-0"), gpu("gpu-1"), where=f"node-{number:02}"),
        )
    ]
    answer = told(*drained, device_class(), claim(request(count=3)), pod("gpu"))

    assert "kubectl uncordon node-00; then ask for 2 devices instead of 3" in answer.advice
    assert answer.kind == "node-cordoned"
    assert answer.questions < 200
    assert len(loads) == 1


def test_lines_break_between_words_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    line = " ".join(["kubectl-label_node/very-long-name"] * 6)
    assert wrapped(line) == [line]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = wrapped(line)
    assert all(len(one) <= 80 for one in shown)
    assert " ".join(shown).split() == line.split()


@pytest.mark.parametrize("more", [{}, {"spec": None}, {"spec": {}}, {"spec": 7}], ids=str)
def test_a_pod_that_lacks_its_spec_is_refused_and_not_an_error_of_ours(more: Obj) -> None:
    found = told({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked"}, **more})
    assert (found.outcome, found.kind) == ("refused", "pod-refused")
    assert found.cause.startswith("the API server refuses the pod")
