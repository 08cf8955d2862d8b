"""Closed feature gates: what is left of the features, and what an accepted write has lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allocator import Allocation, DeviceResult, DeviceToleration, Features
from cel.quantity import Quantity
from scheduler.kube.feature_gates import LOST_BY_GATE, dropped_fields, features_left

PLAIN = DeviceResult("gpu", "gpu.example.com", "node-0", "gpu-0")
FULL = replace(
    PLAIN,
    admin_access=True,
    tolerations=(DeviceToleration(key="", operator="Exists", value="", effect="", toleration_seconds=None),),
    binding_conditions=("a",),
    binding_failure_conditions=("b",),
    share_id="c",
    consumed_capacity=(("memory", Quantity.parse("1Gi")),),
)


def test_only_features_whose_allocations_would_not_be_stored_are_left_out() -> None:
    """Taints of slices that were there before are still honoured, whatever the gate says now."""
    left = features_left(Features(), dict.fromkeys(LOST_BY_GATE, False))

    assert left == Features(admin_access=False, consumable_capacity=False, device_binding_and_status=False)
    assert features_left(Features(), {"DRADeviceTaints": False, "DRAConsumableCapacity": True}) == Features()


@pytest.mark.parametrize(
    ("stored", "lost"),
    [
        pytest.param(FULL, (), id="nothing"),
        pytest.param(
            replace(FULL, share_id=None, consumed_capacity=()),
            (
                "consumedCapacity (feature gate DRAConsumableCapacity)",
                "shareID (feature gate DRAConsumableCapacity)",
            ),
            id="consumable-capacity",
        ),
        pytest.param(
            replace(FULL, binding_conditions=(), binding_failure_conditions=()),
            (
                "bindingConditions (feature gate DRADeviceBindingConditions)",
                "bindingFailureConditions (feature gate DRADeviceBindingConditions)",
            ),
            id="binding-conditions",
        ),
        pytest.param(
            replace(FULL, admin_access=None, tolerations=()),
            ("adminAccess (feature gate DRAAdminAccess)", "tolerations (feature gate DRADeviceTaints)"),
            id="admin-access-and-taints",
        ),
    ],
)
def test_what_an_accepted_write_has_lost_is_named(stored: DeviceResult, lost: tuple[str, ...]) -> None:
    assert dropped_fields(Allocation((PLAIN, FULL)), Allocation((PLAIN, stored))) == lost


@pytest.mark.parametrize("configured", [True, False])
@pytest.mark.parametrize("said", [None, True, False])
def test_how_shares_are_rounded_is_what_the_server_says(configured: bool, said: bool | None) -> None:
    gates = {} if said is None else {"DRAFractionalCapacityRange": said}
    left = features_left(Features(fractional_capacity_range=configured), gates)

    assert left.counts_fractions == (configured if said is None else said)
    assert not features_left(Features(kubernetes="1.36"), gates).counts_fractions
