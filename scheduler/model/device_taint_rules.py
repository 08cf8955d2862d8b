"""DeviceTaintRules: taints that an administrator puts on published devices, without their driver.

Rules of this module
  1. A rule matches a device when every field its selector sets is equal; an empty selector matches every device, a
     missing one matches none.
  2. Taints of rules come after the driver's own, in the order of rule names.
  3. A slice that no rule matches is returned unchanged, so results computed from it stay valid.

Not here: eviction of running pods (the cluster's device taint eviction controller), and which API version serves rules.

Source: k8s.io/dynamic-resource-allocation resourceslice/tracker/tracker.go v0.36.3. Differs on purpose: there a missing
selector taints every device, while the API's text says none; the rules' order is random there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec import Struct

from allocator import DeviceId, DeviceTaint, ResourceSlice


class DeviceSelector(Struct, frozen=True):
    """Which devices a rule is about; None in a field stands for any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def matches(self, device: DeviceId) -> bool:
        return (
            (self.driver is None or self.driver == device.driver)
            and (self.pool is None or self.pool == device.pool)
            and (self.device is None or self.device == device.device)
        )


class DeviceTaintRule(Struct, frozen=True):
    """One rule as observed. `selector` None selects nothing."""

    name: str
    selector: DeviceSelector | None
    taint: DeviceTaint

    def matches(self, device: DeviceId) -> bool:
        return self.selector is not None and self.selector.matches(device)


def with_rule_taints(published: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """`published` with the taints of all matching rules added to its devices; the same object when none matches."""
    ordered = sorted(
        (rule for rule in rules if _may_match(rule, published)),
        key=lambda rule: rule.name,
    )
    if not ordered:
        return published
    devices = tuple(
        replace(device, taints=device.taints + added)
        if (added := tuple(rule.taint for rule in ordered if rule.matches(device.id)))
        else device
        for device in published.devices
    )
    if all(one is other for one, other in zip(devices, published.devices, strict=True)):
        return published
    return replace(published, devices=devices)


def _may_match(rule: DeviceTaintRule, published: ResourceSlice) -> bool:
    selector = rule.selector
    return (
        selector is not None and selector.driver in (None, published.driver) and selector.pool in (None, published.pool)
    )
