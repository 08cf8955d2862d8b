"""Fields that are dropped without an error because their feature gate is off."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.lint.findings import Finding, Severity
from scheduler.lint.published import Published
from tests.lint.texts import claim, find

FEATURES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "features"
TOLERANT = claim("- name: gpu\n  exactly:\n    deviceClassName: gpu\n    tolerations: [{operator: Exists}]\n")


def gated(text: str, *, gates: dict[str, bool] | None = None, kubernetes: str = "1.36") -> list[Finding]:
    published = Published(gates=gates) if gates is not None else None
    return [one for one in find(text, published=published, kubernetes=kubernetes) if one.code == "gate-off"]


def test_a_gate_that_is_off_by_default_is_named_with_release_and_place() -> None:
    (found,) = gated(TOLERANT, kubernetes="1.35")

    assert found.severity is Severity.WARNING
    assert found.field == "spec.devices.requests[0].exactly.tolerations"
    assert "tolerations" in found.line_text
    assert found.message == (
        "the API server drops tolerations without an error: "
        "the feature gate DRADeviceTaints is off by default in Kubernetes 1.35"
    )


@pytest.mark.parametrize(
    ("gates", "kubernetes", "count"),
    [
        pytest.param(None, "1.36", 0, id="on-by-default"),
        pytest.param({"DRADeviceTaints": False}, "1.36", 1, id="off-in-this-cluster"),
        pytest.param({"DRADeviceTaints": True}, "1.35", 0, id="on-in-this-cluster"),
        pytest.param({}, "1.35", 1, id="not-known-of-this-cluster"),
        pytest.param({"DRAConsumableCapacity": False}, "1.36", 0, id="another-gate"),
    ],
)
def test_what_the_cluster_says_wins_over_the_release(
    gates: dict[str, bool] | None, kubernetes: str, count: int
) -> None:
    assert len(gated(TOLERANT, gates=gates, kubernetes=kubernetes)) == count


@pytest.mark.parametrize(
    ("example", "gate", "fields"),
    [
        ("admin-access", "DRAAdminAccess", {"adminAccess"}),
        (
            "binding-conditions-cluster",
            "DRADeviceBindingConditions",
            {"bindsToNode", "bindingConditions", "bindingFailureConditions"},
        ),
        ("consumable-network", "DRAConsumableCapacity", {"capacity", "distinctAttribute"}),
        ("consumable-network-cluster", "DRAConsumableCapacity", {"allowMultipleAllocations", "requestPolicy"}),
        ("device-taints", "DRADeviceTaints", {"tolerations"}),
        ("device-taints-cluster", "DRADeviceTaints", {"taints"}),
        ("extended-resource-cluster", "DRAExtendedResource", {"extendedResourceName"}),
        ("partitionable-devices-cluster", "DRAPartitionableDevices", {"sharedCounters", "consumesCounters"}),
        ("prioritized-alternatives", "DRAPrioritizedList", {"firstAvailable"}),
    ],
)
def test_every_gate_takes_what_its_example_needs(example: str, gate: str, fields: set[str]) -> None:
    text = (FEATURES / f"{example}.yaml").read_text(encoding="utf-8")

    assert {one.field.rpartition(".")[2] for one in gated(text, gates={gate: False})} == fields


def test_a_field_is_named_once_an_object() -> None:
    text = (FEATURES / "partitionable-devices-cluster.yaml").read_text(encoding="utf-8")

    found = gated(text, gates={"DRAPartitionableDevices": False})

    assert [one.field for one in found] == ["spec.sharedCounters", "spec.devices[0].consumesCounters"]
