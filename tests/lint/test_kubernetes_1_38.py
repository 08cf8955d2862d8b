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
ROWS = [
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
