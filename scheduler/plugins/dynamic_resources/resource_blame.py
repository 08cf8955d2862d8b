"""Extended resources that no node has and that no DeviceClass stands behind.

Not here: resources that some node has (`room_blame`), devices of a class that stands behind one (`device_causes`).

Cost: O(nodes and their resources).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from allocator import DeviceClass
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import edited_object, likeliest
from scheduler.model.keys import NodeName
from scheduler.model.objects import Container, Pod
from scheduler.model.resources import is_served_resource
from scheduler.model.selector_mistakes import near
from scheduler.plugins.dynamic_resources.extended_resources import class_by_resource
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_NAMES_A_STEP: Final = 10
_NAMED: Final = 3
_NODES_TRIED: Final = 3
_CLASSES_TRIED: Final = 2
_CLASS_SIZE: Final = 8


def blame_unknown(cycle: Cycle, names: Sequence[str], view: ClusterView) -> Sequence[Reason]:
    """A fact for each of the pod's resources that is nowhere; `names` are those that no class stands behind."""
    if not names:
        return ()
    known: dict[str, None] = {}
    for node in view.node_infos.values():
        known |= dict.fromkeys(name for name in node.allocatable if is_served_resource(name))
    cycle.charge(len(view.node_infos) // _NAMES_A_STEP)
    classes = class_by_resource(view.inventory)
    served = {**known, **dict.fromkeys(name for name in classes if not name.startswith("deviceclass."))}
    on = tuple([node.name for node in likeliest(list(view.node_infos.values()), view)][:_NODES_TRIED])
    return [_blame(cycle.pod, name, list(served), on, view) for name in names if name not in known]


def _blame(pod: Pod, name: str, served: list[str], on: tuple[NodeName, ...], view: ClusterView) -> Reason:
    unnamed = _unnamed(name, view)
    meant = near(name, served)
    if meant:
        there = f"; nearest: {meant}"
    elif unnamed:
        there = f"; DeviceClass {unnamed[0].name} has none"
    else:
        there = f"; there are: {', '.join(sorted(served)[:_NAMED])}" if served else ""
    cause = (
        f"resource {name} of pod {pod.key}: no node has it, and no DeviceClass has it as extendedResourceName{there}"
    )
    return plain_reason(
        "extended-resource-unknown", cause, ("resource", name), tuple(_changes(pod, name, meant, unnamed, on))
    )


def _unnamed(name: str, view: ClusterView) -> list[DeviceClass]:
    """Classes without an extendedResourceName, those first that are called like the resource, its domain or end."""
    classes = [one for one in view.inventory.classes.values() if not one.extended_resource_name]
    domain, _, last = name.partition("/")

    def unlike(one: DeviceClass) -> tuple[bool, bool, str]:
        return domain not in one.name, last not in one.name, one.name

    return sorted(classes, key=unlike)[:_CLASSES_TRIED]


def _changes(
    pod: Pod, name: str, meant: str, unnamed: Sequence[DeviceClass], on: tuple[NodeName, ...]
) -> Iterator[Fix]:
    if meant:
        spec = structs.replace(
            pod.spec,
            containers=tuple([_renamed(one, name, meant) for one in pod.spec.containers or ()]),
            init_containers=tuple([_renamed(one, name, meant) for one in pod.spec.init_containers or ()]),
        )
        text = f"write {meant} instead of {name} in the resources of {edited_object(pod)}"
        yield plain_fix(1, text, on, pod=structs.replace(pod, spec=spec))
    for one in unnamed:
        patch = f'{{"spec":{{"extendedResourceName":"{name}"}}}}'
        command = shlex.join(("kubectl", "patch", "deviceclass", one.name, "--type=merge", "-p", patch))
        named = replace(one, extended_resource_name=name)
        yield plain_fix(_CLASS_SIZE, command, on, command=command, classes=(named,), harms=True)


def _renamed(container: Container, name: str, meant: str) -> Container:
    resources = container.resources
    if resources is None:
        return container
    requests = {meant if one == name else one: amount for one, amount in (resources.requests or {}).items()}
    return structs.replace(container, resources=structs.replace(resources, requests=requests))
