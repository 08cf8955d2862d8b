"""Fields and kinds of the release that is meant: what 1.37 has as released, and what 1.36 has."""

from __future__ import annotations

import pytest

from scheduler.lint.findings import Finding
from tests.lint.texts import find

SLICE = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.example.com
  nodeName: n
  pool: {name: n, generation: 1, resourceSliceCount: 1}
"""
DEVICE = f"{SLICE}  devices:\n  - name: a\n    "
COUNTERS = (
    f"{SLICE}  devices: [{{name: a, consumesCounters: [{{counterSet: c, counters: {{m: {{value: 1}}}}, "
    "compatibilityGroups: [vgpu]}]}]\n"
)
CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
        derivedAttributes: [{name: d.example.com/x, expression: "1"}]
    constraints: [{matchAttribute: d.example.com/x}]
"""
GROUP = (
    "apiVersion: scheduling.k8s.io/{0}\nkind: PodGroup\nmetadata: {{name: g}}\n"
    "spec: {{schedulingPolicy: {{basic: {{}}}}{1}}}\n"
)
NODE_OPERATIONS = SLICE.replace("{", "{{").replace("}", "}}") + "  devices: [{{name: a}}]\n  skipNodeOperations: {}\n"


def errors(text: str, kubernetes: str) -> list[Finding]:
    return [one for one in find(text, kubernetes=kubernetes) if one.is_error]


@pytest.mark.parametrize(
    ("text", "field", "release"),
    [
        (NODE_OPERATIONS.format('["*"]'), "skipNodeOperations", "1.37"),
        (
            f"{DEVICE}nodeAllocatableResources: {{cpu: {{overhead: {{perPod: 1}}}}}}\n",
            "nodeAllocatableResources",
            "1.37",
        ),
        (f"{DEVICE}nodeAllocatableResourceMappings: {{cpu: {{}}}}\n", "nodeAllocatableResourceMappings", "1.36"),
        (COUNTERS, "compatibilityGroups", "1.37"),
        (CLAIM, "derivedAttributes", "1.37"),
    ],
)
def test_a_field_of_one_release_is_unknown_in_the_other_which_is_named(text: str, field: str, release: str) -> None:
    other = "1.36" if release == "1.37" else "1.37"
    (found,) = errors(text, other)

    assert found.code == "unknown-field"
    assert found.field.endswith(field)
    assert found.fix.endswith(f"lint --kubernetes {release}")
    assert errors(text, release) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NODE_OPERATIONS.format("true"), "must be a list, not true or false"),
        (f"{DEVICE}nodeAllocatableResources: {{cpu: {{mapping: 1}}}}\n", "must be an object, not a number"),
    ],
)
def test_types_are_those_of_the_release(text: str, words: str) -> None:
    (found,) = errors(text, "1.37")
    assert found.message.endswith(words)


@pytest.mark.parametrize(
    ("version", "kubernetes", "fix"),
    [
        ("v1alpha2", "1.36", ""),
        ("v1alpha2", "1.37", "apiVersion: scheduling.k8s.io/v1beta1"),
        ("v1beta1", "1.36", "apiVersion: scheduling.k8s.io/v1alpha2"),
        ("v1beta1", "1.37", ""),
        ("v1alpha3", "1.37", ""),
    ],
)
def test_groups_are_in_the_versions_of_the_release(version: str, kubernetes: str, fix: str) -> None:
    assert [one.fix for one in errors(GROUP.format(version, ""), kubernetes)] == [fix] * bool(fix)


def test_a_groups_fields_are_looked_at() -> None:
    (found,) = errors(GROUP.format("v1beta1", ", disruptionMod: {}"), "1.37")
    assert (found.code, found.fix) == ("unknown-field", "did you mean disruptionMode?")


def test_a_gate_that_is_off_in_1_37_is_named() -> None:
    (found,) = [one for one in find(CLAIM, kubernetes="1.37") if one.code == "gate-off"]
    assert "DRADerivedAttributes is off by default in Kubernetes 1.37" in found.message
