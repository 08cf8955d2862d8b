"""Selectors that name what no device of a node has: mistyped names, drivers and values.

Not here: what is a mistake (`model.selector_mistakes`), asking as if it were mended (`core.causes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allocator.values.model import DeviceSelector
from scheduler.framework.blame import Change
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.model.claim import ResourceClaim
from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Pod
from scheduler.model.selector_mistakes import PublishedNames
from scheduler.plugins.dynamic_resources.changed_claims import alternative_of, label_of, requests_of, with_request

_DEVICES_A_STEP: Final = 2
_DEVICES_MAX: Final = 512


def mistaken_selectors(
    claims: Iterable[ResourceClaim], cycle: Cycle, node: NodeInfo, view: ClusterView
) -> tuple[list[str], list[Change]]:
    """What classes' selectors name that the node's devices do not have, and changes to selectors of the claims."""
    names = _published_on(node, cycle, view)
    causes: dict[str, None] = {}
    changes: list[Change] = []
    for claim in claims:
        for request in requests_of(claim):
            asked = alternative_of(claim, request)
            if asked is None:
                continue
            changes += _in_request(claim, request, asked.selectors, cycle.pod, node, names)
            device_class = view.inventory.classes.get(asked.device_class_name)
            for selector in device_class.selectors if device_class is not None else ():
                for found in names.mistakes(selector.expression or ""):
                    causes[f"DeviceClass {asked.device_class_name}: {found.cause}"] = None
    return list(causes), changes


def _in_request(  # noqa: PLR0917
    claim: ResourceClaim,
    request: str,
    selectors: tuple[DeviceSelector, ...],
    pod: Pod,
    node: NodeInfo,
    names: PublishedNames,
) -> Iterator[Change]:
    label = f"request {request} of {label_of(claim, pod)}"
    for place, selector in enumerate(selectors):
        for found in names.mistakes(selector.expression or ""):
            mended = (*selectors[:place], DeviceSelector(found.expression), *selectors[place + 1 :])
            yield Change(
                found.size,
                f"write {found.instead} in the selector of {label}: {found.expression}",
                (node.name,),
                cause=f"{label}: {found.cause}",
                claims=(with_request(claim, request, selectors=mended),),
            )


def _published_on(node: NodeInfo, cycle: Cycle, view: ClusterView) -> PublishedNames:
    names = PublishedNames(f" of node {node.name}")
    pools = view.inventory.node_pools(node.host, view.features)
    devices = [device for pool, _ in pools.usable for device in pool.devices][:_DEVICES_MAX]
    cycle.charge(len(devices) // _DEVICES_A_STEP)
    for device in devices:
        attributes = [(name, one.kind, str(one.value)) for name, one in device.attributes.items()]
        names.add(device.id.driver, attributes, device.capacity)
    return names
