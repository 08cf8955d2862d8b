"""The cluster in short: what is free, who has it, what is wrong; of a list of devices that is there, and of objects.

Lists have an end, so that no cluster makes the answer long; counts are of all.

Not here: why pods wait (`scheduler.explain.waiting`), which is asked for by itself since it takes longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby, islice
from typing import Final

from allocator import Device, DeviceId, DeviceTaint, Features, prevent_allocation
from scheduler.core.machine import Machine
from scheduler.framework.diagnosis import taint_text
from scheduler.inventory import DeviceList
from scheduler.model.api_rules import FIELD_BY_GATE
from scheduler.model.nearest import some
from scheduler.ui.answers import Finding, Holder, Overview, OwnerShare
from scheduler.ui.responses import first_notes, full_names, owners_of, published_devices

_ROWS_MAX: Final = 20
_OWNERS_MAX: Final = 5
_FINDINGS_MAX: Final = 100
_NAMES_MAX: Final = 3
_DEVICES_MAX: Final = 4
_NOTES_MAX: Final = 100
_RARE: Final = 10
"""An attribute is rare that at most one device in so many has."""


def overview_picture(machine: Machine, found: DeviceList, waiting: int, read_at: str = "") -> Overview:
    """The whole; `found` has all devices of the machine.

    Args:
        waiting: How many pods wait.
        read_at: The time of taints of which nobody has said since when they are there.
    """
    published = published_devices(machine)
    taints = [*_taints(machine, published, read_at)]
    warnings = [
        *_faults(found),
        *_two_stacks(found),
        *(one for one in taints if one.kind == "untolerated-taint"),
        *_given_twice(machine),
        *_published_no_more(machine, published),
        *_unreserved(machine),
    ]
    remarks = (*(one for one in taints if one.kind != "untolerated-taint"), *_rare(found, published), *_gates(machine))
    holders = _holders(machine)
    classes = sorted(found.classes, key=lambda one: (-one.devices, one.name))
    return Overview(
        waiting=waiting,
        count=len(found.devices),
        nodes=len(machine.store.node_infos),
        states=found.states,
        classes=tuple(classes[:_ROWS_MAX]),
        classes_count=len(classes),
        profiles=found.profiles[:_ROWS_MAX],
        profiles_count=len(found.profiles),
        held=sum(one.devices for one in holders),
        holders=tuple(holders[:_ROWS_MAX]),
        holders_count=len(holders),
        warnings=tuple(warnings[:_FINDINGS_MAX]),
        warnings_count=len(warnings),
        remarks=remarks[:_FINDINGS_MAX],
        notes=first_notes(found.notes, _NOTES_MAX),
    )


def _holders(machine: Machine) -> list[Holder]:
    """Namespaces by what their claims have, most first; administrators' looks at devices take none."""
    counts: dict[str, Counter[str]] = {}
    pods: dict[str, str] = {}
    for claim in machine.store.claims.values():
        results = claim.allocation.results if claim.allocation is not None else ()
        if not (count := sum(not one.admin_access for one in results)):
            continue
        owner, pod = next(owners_of(machine, claim), (f"claim {claim.key}", ""))
        pods.setdefault(owner, pod)
        counts.setdefault(claim.key.namespace, Counter())[owner] += count
    by_namespace = sorted(counts.items(), key=lambda one: (-one[1].total(), one[0]))
    return [
        Holder(
            namespace=namespace,
            devices=of_owners.total(),
            owners=tuple(
                OwnerShare(owner=owner, devices=count, pod=pods[owner])
                for owner, count in sorted(of_owners.items(), key=lambda one: (-one[1], one[0]))[:_OWNERS_MAX]
            ),
        )
        for namespace, of_owners in by_namespace
    ]


def _faults(found: DeviceList) -> Iterator[Finding]:
    for one in found.faults:
        yield Finding(kind=one.kind, text=f"pool {one.driver}/{one.pool}: {one.text}")


def _two_stacks(found: DeviceList) -> Iterator[Finding]:
    """Device plugins that serve what a driver publishes."""
    served: dict[str, list[DeviceId]] = {}
    for one in found.devices:
        for blocker in one.blocked_by:
            if blocker.kind == "plugin":
                served.setdefault(blocker.text, []).append(DeviceId(one.driver, one.pool, one.device))
    for text, devices in served.items():
        are = "1 device is" if len(devices) == 1 else f"{len(devices)} devices are"
        yield _about(devices, "two-stacks", f"{are} published by a driver, and left to {text}")


def _given_twice(machine: Machine) -> Iterator[Finding]:
    """Devices that several claims have of which one should have it alone."""
    holders = machine.overlay.double_allocations.holders
    for device in sorted([one for one, claims in holders.items() if len(claims) > 1 and any(claims.values())]):
        keys = sorted(str(machine.store.claims[uid].key) for uid in holders[device] if uid in machine.store.claims)
        text = f"device {device.pool}/{device.device} was given to several claims: {some(keys, _NAMES_MAX)}"
        yield _about([device], "given-twice", text)


def _published_no_more(machine: Machine, published: Collection[DeviceId]) -> Iterator[Finding]:
    gone = sorted(machine.overlay.double_allocations.holders.keys() - published)
    for driver, devices in groupby(gone, key=lambda one: one.driver):
        names = [f"{one.pool}/{one.device}" for one in devices]
        text = f"{driver} does not publish devices that claims have: {some(names, _NAMES_MAX)}"
        yield Finding(kind="not-published", text=text, count=len(names))


def _unreserved(machine: Machine) -> Iterator[Finding]:
    """Claims that have devices, and that no pod may use."""
    for claim in sorted(machine.store.claims.values(), key=lambda one: one.key):
        if claim.allocation is not None and claim.allocation.results and not claim.reserved_for:
            text = f"claim {claim.key.namespace}/{claim.key.name} has devices and is reserved for nobody"
            devices = sorted(claim.allocation.device_ids())
            yield _about(devices, "unreserved", text, claim.allocation.allocation_timestamp)


def _taints(machine: Machine, published: Mapping[DeviceId, Device], read_at: str) -> Iterator[Finding]:
    """Taints that keep claims off devices, those of most devices first; looks of administrators tolerate for nobody."""
    devices: dict[str, list[DeviceId]] = {}
    taints: dict[str, DeviceTaint] = {}
    since: dict[str, str] = {}
    for one in published.values():
        for taint in one.taints:
            if prevent_allocation((taint,), ()):
                text = taint_text(taint)
                devices.setdefault(text, []).append(one.id)
                taints.setdefault(text, taint)
                if taint.time_added and taint.time_added != read_at:
                    since[text] = min(since.get(text, taint.time_added), taint.time_added)
    known = {
        alternative.tolerations
        for claim in machine.store.claims.values()
        if claim.spec is not None
        for request in claim.spec.requests
        for alternative in request.alternatives
        if not alternative.admin_access
    }
    for text, named in sorted(devices.items(), key=lambda one: (-len(one[1]), one[0]))[:_ROWS_MAX]:
        is_tolerated = any(not prevent_allocation((taints[text],), tolerations) for tolerations in known)
        have = "1 device has" if len(named) == 1 else f"{len(named)} devices have"
        which = ", which some claim tolerates" if is_tolerated else ", which no claim tolerates"
        kind = "taint" if is_tolerated else "untolerated-taint"
        yield _about(named, kind, f"{have} the taint {text}{which}", since.get(text))
    if (more := len(devices) - _ROWS_MAX) > 0:
        text = f"{more} more taints, each on no more devices than those, were not looked at"
        yield Finding(kind="taint", text=text, count=more)


def _rare(found: DeviceList, published: Mapping[DeviceId, Device]) -> Iterator[Finding]:
    """Attributes that few of the devices of the driver have that publishes them."""
    devices: Counter[str] = Counter(one.driver for one in found.devices)
    having: Counter[tuple[str, str]] = Counter()
    for one in found.devices:
        if (device := published.get(DeviceId(one.driver, one.pool, one.device))) is not None:
            having.update((one.driver, name) for name in full_names(device))
    for (driver, name), count in sorted(having.items()):
        if count * _RARE <= devices[driver]:
            have = "has" if count == 1 else "have"
            text = f"{count} of {devices[driver]} devices of {driver} {have} the attribute {name}"
            yield Finding(kind="rare-attribute", text=text, count=count)


def _gates(machine: Machine) -> Iterator[Finding]:
    """Features that are on by default, and here off."""
    features, usual = machine.store.features, Features()
    for gate, name in sorted(FIELD_BY_GATE.items()):
        if getattr(usual, name) and not getattr(features, name):
            text = f"the feature gate {gate} is off: fields that need it have no effect"
            yield Finding(kind="gate-off", text=text)


def _about(devices: list[DeviceId], kind: str, text: str, since: str | None = None) -> Finding:
    named = tuple(" ".join(one) for one in islice(devices, _DEVICES_MAX))
    return Finding(kind=kind, text=text, since=since, count=len(devices), devices=named)
