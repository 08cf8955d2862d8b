"""Extended resources that no node has and that no DeviceClass stands behind.

Not here: resources that some node has (`room_reasons`), devices of a class that stands behind one (`device_causes`).

Cost: O(nodes and their resources).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import structs

from allocator import AllocationError, DeviceClass, PausedError, free_devices
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import likeliest, with_spec
from scheduler.framework.steps import within_steps
from scheduler.model.keys import NodeName
from scheduler.model.nearest import near
from scheduler.model.objects import Container, Pod
from scheduler.model.resources import is_served_resource
from scheduler.model.selector_mistakes import named_drivers
from scheduler.plugins.dynamic_resources.extended_resources import class_by_resource
from scheduler.plugins.dynamic_resources.survey import NODES_TRIED
from scheduler.why.reasons import Fix, Reason, Whom

_NAMES_A_STEP: Final = 10
_CLASSES_TRIED: Final = 2
_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


def diagnose_unknown(cycle: Cycle, names: Sequence[str], view: ClusterView) -> Sequence[Reason]:
    """A fact for each of the pod's resources that is nowhere; `names` are those that no class stands behind."""
    if not names:
        return ()
    known: dict[str, None] = {}
    for node in view.node_infos.values():
        known |= dict.fromkeys(name for name in node.allocatable if is_served_resource(name))
    cycle.charge(len(view.node_infos) // _NAMES_A_STEP)
    classes = class_by_resource(view.inventory)
    served = sorted({*known, *(name for name in classes if not name.startswith(_CLASS_PREFIX))})
    on = tuple([node.name for node in likeliest(list(view.node_infos.values()), view)][:NODES_TRIED])
    return [_diagnose(cycle, name, served, on, view) for name in names if name not in known]


def _diagnose(cycle: Cycle, name: str, served: list[str], on: tuple[NodeName, ...], view: ClusterView) -> Reason:
    """A name that the API server makes of a class's can be no other's; every other may be some class's."""
    pod = cycle.pod
    wrong = name.removeprefix(_CLASS_PREFIX) if name.startswith(_CLASS_PREFIX) else ""
    known = sorted(view.inventory.classes) if wrong else served
    meant, unnamed = near(wrong or name, known), _unnamed(name, view)
    fields = {
        "resource": name,
        "pod": pod.key,
        "class": wrong,
        "meant": f"{_CLASS_PREFIX * bool(wrong)}{meant}" if meant else "",
        "unnamed": unnamed[0].name if unnamed and not meant else "",
        "free": _free(cycle, unnamed[0], on, view) if unnamed and not meant else 0,
        "known": () if meant or unnamed else tuple(known),
    }
    changes = tuple(_changes(pod, name, str(fields["meant"]), unnamed, on))
    return Reason("extended-resource-unknown", fields, "class" if wrong else "", changes)


def _free(cycle: Cycle, device_class: DeviceClass, on: tuple[NodeName, ...], view: ClusterView) -> int:
    """Free devices of the class on the nodes that are looked at; 0 where that cannot be said."""
    look = partial(free_devices, inventory=view.inventory, in_use=view.in_use, features=view.features)
    with suppress(AllocationError, PausedError), within_steps(cycle, view):
        return sum(look(device_class.name, view.node_infos[name].host).free.bit_count() for name in on)
    return 0


def _unnamed(name: str, view: ClusterView) -> list[DeviceClass]:
    """Classes without an extendedResourceName which the resource's domain or end names, or their driver's name has."""
    domain, _, last = name.partition("/")
    if f".{domain}".endswith(".kubernetes.io"):
        return []  # the API server takes no such name
    found = []
    for one in view.inventory.classes.values():
        drivers = [driver for selector in one.selectors for driver in named_drivers(selector.expression or "")]
        if not one.extended_resource_name and any(domain in text or last in text for text in (one.name, *drivers)):
            found.append((last not in one.name, domain not in one.name, one.name, one))
    return [one for *_, one in sorted(found, key=lambda one: one[:3])[:_CLASSES_TRIED]]


def _changes(
    pod: Pod, name: str, meant: str, unnamed: Sequence[DeviceClass], on: tuple[NodeName, ...]
) -> Iterator[Fix]:
    if meant:
        renamed = with_spec(
            pod,
            containers=tuple([_renamed(one, name, meant) for one in pod.spec.containers or ()]),
            init_containers=tuple([_renamed(one, name, meant) for one in pod.spec.init_containers or ()]),
        )
        yield Fix("resource-name", {"meant": meant, "name": name}, on, pod=renamed)
    for one in unnamed:
        patch = f'{{"spec":{{"extendedResourceName":"{name}"}}}}'
        command = shlex.join(("kubectl", "patch", "deviceclass", one.name, "--type=merge", "-p", patch))
        named = replace(one, extended_resource_name=name)
        yield Fix("class-resource", {}, on, command, classes=(named,), whom=Whom.OTHERS)


def _renamed(container: Container, name: str, meant: str) -> Container:
    resources = container.resources
    if resources is None:
        return container
    requests = {meant if one == name else one: amount for one, amount in (resources.requests or {}).items()}
    return structs.replace(container, resources=structs.replace(resources, requests=requests))
