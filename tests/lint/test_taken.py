"""What a claim asks of the devices that its requests take: attributes of constraints, capacities; and counters."""

from __future__ import annotations

import pytest

from scheduler.lint import taken
from tests.lint.test_against import cluster
from tests.lint.test_against_names import told
from tests.lint.texts import claim, codes, dump, find

POLICY = "requestPolicy: {default: 10Gi, validValues: [10Gi, 20Gi]}"
NICS = f"""---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: nic}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == "nic.example"'}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: nics}}
spec:
  driver: nic.example
  nodeName: n
  pool: {{name: nics, generation: 2, resourceSliceCount: 1}}
  devices:
  - name: nic-0
    attributes: {{resource.kubernetes.io/pcieRoot: {{string: "0"}}, gpu.nvidia.com/model: {{string: x}}}}
    allowMultipleAllocations: true
    capacity: {{bandwidth: {{value: 40Gi, {POLICY}}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: old-nics}}
spec:
  driver: nic.example
  nodeName: n
  pool: {{name: nics, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: nic-1, attributes: {{old: {{int: 1}}}}}}]
"""
BOTH = "- {name: gpu, exactly: {deviceClassName: gpu}}\n- {name: nic, exactly: {deviceClassName: nic}}\n"
ALTERNATIVES = (
    "- name: any\n  firstAvailable:\n  - {name: gpu, deviceClassName: gpu}\n  - {name: nic, deviceClassName: nic}\n"
)
FIELD = "spec.devices.constraints[0].matchAttribute"
CODE = "constraint-without-attribute"


def constrained(requests: str, constraint: str) -> str:
    return claim(requests, devices=f"constraints: [{{{constraint}}}]\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            constrained(BOTH, "matchAttribute: resource.kubernetes.io/pcieRoot"),
            [(CODE, FIELD, "there are: gpu.nvidia.com/model, nv.example/cc")],
        ),
        (
            constrained(BOTH, "requests: [gpu], matchAttribute: gpu.nvidia.com/modle"),
            [(CODE, FIELD, "did you mean gpu.nvidia.com/model?")],
        ),
        (
            constrained(BOTH, "requests: [gpu], distinctAttribute: other.example/model"),
            [(CODE, FIELD.replace("match", "distinct"), "they have gpu.nvidia.com/model")],
        ),
        (
            constrained(BOTH, "requests: [nic], matchAttribute: nic.example/old"),
            [(CODE, FIELD, "there are: gpu.nvidia.com/model, resource.kubernetes.io/pcieRoot")],
        ),
        (
            constrained(ALTERNATIVES, "requests: [any], matchAttribute: nv.example/cc"),
            [(CODE, FIELD, "there are: gpu.nvidia.com/model, resource.kubernetes.io/pcieRoot")],
        ),
        (constrained(BOTH, "matchAttribute: gpu.nvidia.com/model"), []),
        (constrained(BOTH, "requests: [nic], matchAttribute: resource.kubernetes.io/pcieRoot"), []),
        (constrained(ALTERNATIVES, "requests: [any/gpu], matchAttribute: nv.example/cc"), []),
    ],
)
def test_constraints_on_what_no_device_of_the_request_has(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert told(text, cluster({"n": 1}, claims=NICS)) == expected


def test_of_requests_that_take_nothing_nothing_is_said() -> None:
    request = (
        "- name: gpu\n  exactly:\n    deviceClassName: gpu\n    selectors:\n"
        "    - cel: {expression: 'device.driver == \"nic.example\"'}\n"
    )
    text = constrained(request, "matchAttribute: a.example/b")

    assert CODE not in codes(find(text, published=cluster({"n": 1}, claims=NICS)))


@pytest.mark.parametrize(
    ("device_class", "capacity", "expected"),
    [
        ("gpu", "memory: 40Gi", ""),
        ("gpu", "memory: 96Gi", "no device of request r gives 96Gi of memory: the largest has 80Gi"),
        ("gpu", "memroy: 1Gi", "no device of request r has the capacity memroy: 1 devices match|did you mean memory?"),
        (
            "gpu",
            "gpu.nvidia.com/memory: 1Gi",
            "no device of request r has the capacity gpu.nvidia.com/memory: 1 devices match|they have memory",
        ),
        ("nic", "bandwidth: 5Gi", ""),
        (
            "nic",
            "bandwidth: 30Gi",
            "no device of request r gives 30Gi of bandwidth: their request policies allow no such amount",
        ),
    ],
)
def test_capacities_that_no_device_of_the_request_gives(device_class: str, capacity: str, expected: str) -> None:
    request = (
        f"- name: r\n  exactly:\n    deviceClassName: {device_class}\n    capacity: {{requests: {{{capacity}}}}}\n"
    )
    found = find(claim(request), published=cluster({"n": 1}, claims=NICS))

    assert [f"{each.message}|{each.fix}".rstrip("|") for each in found if each.code == "capacity-unmet"] == (
        [expected] if expected else []
    )


def test_a_file_of_many_requests_asks_a_bounded_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken, "_ASKED_MAX", 5)
    texts = [
        constrained(
            "- name: r\n  exactly:\n    deviceClassName: gpu\n"
            f"    selectors:\n    - cel: {{expression: 'true || {n} > 0'}}\n",
            "matchAttribute: a.example/b",
        ).replace("name: c}", f"name: c{n}}}")
        for n in range(4)
    ]
    found = [each for each in find(*texts, published=cluster({"n": 2})) if each.code == CODE]

    assert len(found) == 2


def test_selectors_that_take_long_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    text = constrained(BOTH, "requests: [gpu], matchAttribute: a.example/b")
    assert CODE in codes(find(text, published=cluster({"n": 2})))

    monkeypatch.setattr(taken, "_STEPS_MAX", 1)
    assert CODE not in codes(find(text, published=cluster({"n": 2})))


COUNTERS = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: counters}\nspec:\n  driver: d.example\n"
    "  nodeName: n\n  pool: {name: p, generation: 1, resourceSliceCount: 2}\n"
    "  sharedCounters: [{name: c, counters: {memory: {value: 80Gi}}}]\n"
)


def partitions(*uses: tuple[str, str, str], node: str = "n", count: int = 2) -> str:
    devices = "".join(
        f"  - name: d{index}\n    consumesCounters:\n"
        f"    - {{counterSet: {counter_set}, counters: {{{counter}: {{value: {amount}}}}}}}\n"
        for index, (counter_set, counter, amount) in enumerate(uses)
    )
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: parts}\nspec:\n  driver: d.example\n"
        f"  nodeName: {node}\n  pool: {{name: p, generation: 1, resourceSliceCount: {count}}}\n  devices:\n{devices}"
    )


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (partitions(("c", "memory", "40Gi")), "", ""),
        (
            partitions(("d", "memory", "40Gi")),
            "unknown-counter",
            "pool p: device d0 consumes counter set d, which no slice of the pool has",
        ),
        (
            partitions(("c", "memroy", "40Gi"), ("c", "cores", "1")),
            "unknown-counter",
            "pool p: device d0 consumes counter memroy, which counter set c has not (and 1 more)",
        ),
        (
            partitions(("c", "memory", "96Gi")),
            "counter-too-small",
            "pool p: device d0 takes 96Gi of counter c.memory, which has 80Gi",
        ),
        (
            partitions(("c", "memory", "1Gi"), count=3),
            "contradicting-slices",
            "pool p: its slices disagree about how many there are: 2 in counters; 3 in parts",
        ),
    ],
)
@pytest.mark.parametrize("is_published", [False, True])
def test_slices_that_contradict_each_other(text: str, code: str, message: str, is_published: bool) -> None:
    """Counters are in the files, or in the cluster already."""
    found = find(text, published=dump(COUNTERS)) if is_published else find(COUNTERS, text)

    expected = [(code, message)] if code else []
    assert [(each.code, each.message) for each in found if each.code != "incomplete-pool"] == expected


def test_a_node_that_is_not_there() -> None:
    found = find(COUNTERS, partitions(("c", "memory", "1Gi"), node="m"), published=cluster({"n": 1}))

    assert [(each.code, each.message) for each in found] == [
        ("unknown-node", "pool p: slice parts names node m, and no Node is called so")
    ]
