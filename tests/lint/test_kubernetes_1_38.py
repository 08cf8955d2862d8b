"""What lint says of Kubernetes 1.38 and did not of 1.37, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.model.api_rules import LOCKED_GATES
from scheduler.validation.api_fields import gates
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


def tolerating(effect: str) -> str:
    toleration = f"{{key: k, operator: Exists, {effect}tolerationSeconds: 9}}"
    return CLAIM.format("v1", f"exactly: {{deviceClassName: gpu, tolerations: [{toleration}]}}")


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
    pytest.param(tolerating(""), "W toleration", "", id="5-toleration-without-effect"),
    pytest.param(tolerating("effect: NoExecute, "), "", "", id="5-toleration-of-eviction"),
    pytest.param(tolerating("effect: NoSchedule, "), "W toleration", "W toleration", id="5-toleration-of-another"),
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


GATES = {
    "DRAPartitionableDevices": "B GA",
    "DRADeviceBindingConditions": "B GA",
    "DRAConsumableCapacity": "B GA",
    "DRAFractionalCapacityRange": "B- GA",
    "SchedulerPreQueueingHints": "A B",
    "CompositePodGroup": "A B-",
    "TopologyAwareWorkloadScheduling": "A B-",
    "GenericWorkload": "B- B-",
    "DRAWorkloadResourceClaims": "B- B-",
    "PodGroupPreemptionPolicy": "A -",
    "DRANodeAllocatableResources": "A A",
    "DRAListTypeAttributes": "A A",
    "DRADerivedAttributes": "A A",
    "DRADeviceCompatibilityGroups": "A A",
    "DRAOptionalNodeOperations": "A A",
    "DRAPartitionableDevicesType": "A A",
    "DRAResourcePoolStatus": "A A",
    "DynamicResourceAllocation": "GA GA",
    "InPlacePodVerticalScaling": "GA GA",
    "PodCertificateMLDSA": "- B-",
    "SecurityProfileOCI": "- A",
    "AtomicWriteVolumeUserFields": "A B",
    "StorageCapacityScoring": "B B",
    "VolumeLimitScaling": "B B",
    "OpportunisticBatching": "B B",
    "SchedulerAsyncAPICalls": "B- B-",
    "WorkloadWithJob": "A A",
}


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_has_its_stage(gate: str) -> None:
    assert " ".join(gates()[gate].stage(minor) for minor in (37, 38)) == GATES[gate]


SHARED = device("allowMultipleAllocations: true")


def test_a_gate_that_is_there_for_good_and_not_locked_takes_its_field_where_it_is_off() -> None:
    found = find(SHARED, kubernetes="1.38", gates={"DRAConsumableCapacity": False})
    assert [one.code for one in found] == ["gate-off"]


@pytest.mark.parametrize("gate", sorted(LOCKED_GATES["1.38"]))
def test_a_locked_gate_cannot_be_turned_off(gate: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(SHARED)
    for release, code in (("1.37", 0), ("1.38", 2)):
        command = ["lint", "-f", str(tmp_path / "x.yaml"), "--kubernetes", release, "--feature-gates", f"{gate}=false"]
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == code, done.output
        assert ("locked to true since Kubernetes 1.38" in done.output) == (code == 2)


@pytest.mark.parametrize("gate", ["DynamicResourceAllocation", "PodGroupPreemptionPolicy", "InPlacePodVerticalScaling"])
def test_a_gate_that_is_gone_is_none(gate: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(SHARED)
    file = str(tmp_path / "x.yaml")
    done = CliRunner().invoke(cli, ["lint", "-f", file, "--kubernetes", "1.38", "--feature-gates", f"{gate}=true"])
    assert done.exit_code == 2
    assert "is not known here" in done.output
