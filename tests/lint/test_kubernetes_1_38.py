"""What lint says of Kubernetes 1.38 and did not of 1.37, row by row."""

from __future__ import annotations

import pytest

from tests.lint.texts import find

CLAIM = """apiVersion: resource.k8s.io/{0}
kind: ResourceClaim
metadata: {{name: c}}
spec: {{devices: {{requests: [{{name: r, {1}}}]}}}}
"""
FLAT = CLAIM.format("v1beta1", "deviceClassName: gpu")
SECCOMP = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  securityContext: {seccompProfile: {type: OCI, oci: {ref: r.example.com/p}}}
  containers: [{name: c, image: i}]
"""
COMPOSITE = """apiVersion: scheduling.k8s.io/v1beta1
kind: CompositePodGroup
metadata: {name: g}
spec: {schedulingPolicy: {basic: {}}}
"""
SLICE = """apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s}}
spec:
  driver: d.example.com
  pool: {{name: n, generation: 1, resourceSliceCount: 1}}
  {0}
  devices: [{{name: a, {1}}}]
"""
TERMS = "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: z, operator: Exists}]}, {matchFields: []}]}"
RULE = """apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {{name: r}}
spec: {{taint: {{key: k, effect: NoSchedule}}{0}}}
"""


def amounts(text: str) -> str:
    return CLAIM.format("v1", f"exactly: {{deviceClassName: gpu, capacity: {{requests: {{{text}}}}}}}")


def device(text: str, nodes: str = "nodeName: n") -> str:
    return SLICE.format(nodes, text)


def version(text: str) -> str:
    return device(f'attributes: {{v: {{version: "{text}"}}}}')


ROWS = [
    pytest.param(amounts(", ".join(f"c{n}: 1" for n in range(33))), "", "E refused", id="5-33-capacities"),
    pytest.param(amounts('c: "-1"'), "", "E refused", id="5-below-zero"),
    pytest.param(amounts("c: 1, a.b/d: 0"), "", "", id="5-amounts"),
    pytest.param(device("attributes: {a.b/c/d: {int: 1}}"), "", "E refused", id="5-one-slash"),
    pytest.param(version(f"1.{'9' * 19}.0"), "", "E refused", id="5-18-digits"),
    pytest.param(device(TERMS, "perDeviceNodeSelection: true"), "", "E refused", id="5-one-term"),
    pytest.param(
        device("attributes: {d.example.com/a: {int: 1}, e.example.com/a: {int: 1}}"),
        "W own-domain",
        "W own-domain",
        id="5-own-domain",
    ),
    pytest.param(RULE.format(", deviceSelector: {}"), "W taint-rule-everything", "W taint-rule-everything", id="5-all"),
    pytest.param(RULE.format(""), "", "", id="5-without-a-selector"),
    # what is said in 1.37 and in 1.38: codes, with the severity's first letter
    pytest.param(FLAT, "W flat-request, W old-api-version", "E old-api-version, W flat-request", id="5-v1beta1"),
    pytest.param(SECCOMP, "E unknown-field", "", id="5-seccomp-oci"),
    pytest.param(COMPOSITE, "E wrong-api-version", "", id="4-composite-pod-group"),
]


@pytest.mark.parametrize(("text", "before", "now"), ROWS)
def test_a_release_has_its_findings(text: str, before: str, now: str) -> None:
    for kubernetes, expected in (("1.37", before), ("1.38", now)):
        found = find(text, kubernetes=kubernetes)
        said = sorted(f"{'E' if one.is_error else 'W'} {one.code}" for one in found)
        assert said == sorted(filter(None, expected.split(", "))), (kubernetes, [one.message for one in found])
