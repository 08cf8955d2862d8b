"""Where a PodGroup with `schedulingConstraints.topology` may be: all pods on nodes with one value of a label.

Rules of this module
  1. Pods of the group that have a node, and have not ended, fix the value.
  2. Nodes without the label are no place for the group.

Not here: the search in each value (`gang_attempt`).

Cost: O(nodes + pods of the group) for each look.

Source: kube-scheduler pkg/scheduler/framework/plugins/topologyaware (GeneratePlacements); v1.37.2. Upstream tries the
values in no order and takes the one that its scorers prefer; here the first in order of text that all pods fit into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from scheduler.core.state.ground import Ground
from scheduler.core.trying.attempt import Unfit
from scheduler.model.gang import GangKey
from scheduler.model.keys import NodeName, PodUid

_SHOWN_MAX: Final = 4
"""Values of which a message says why the group does not fit there."""

NodesByValue: TypeAlias = Mapping[str, frozenset[NodeName]]


def nodes_by_value(ground: Ground, group: GangKey, key: str, placing: AbstractSet[PodUid]) -> NodesByValue | str:
    """The nodes of each value of the label that the group may have, in order of text; or why there is none.

    Args:
        placing: Pods of the group that are being placed; where they are fixes nothing.
    """
    fixed = _fixed(ground, group, key, placing)
    if isinstance(fixed, str):
        return fixed
    names: dict[str, list[NodeName]] = {}
    for name, info in ground.store.node_infos.items():
        value = (info.node.metadata.labels or {}).get(key)
        if value is not None and (not fixed or value in fixed):
            names.setdefault(value, []).append(name)
    if not names:
        return f"group {group} must be on nodes with one value of label {key}, which no node has"
    return {value: frozenset(names[value]) for value in sorted(names)}


def _fixed(ground: Ground, group: GangKey, key: str, placing: AbstractSet[PodUid]) -> frozenset[str] | str:
    """The value that the group has, none where no pod of it runs; or why it has none."""
    store = ground.store
    found: dict[str, None] = {}
    for uid in store.gangs.of(group):
        pod = store.pods[uid]
        name = store.node_of(uid) or pod.node_name
        if uid in placing or name is None or pod.is_terminal:
            continue
        info = store.node_infos.get(name)
        value = (info.node.metadata.labels or {}).get(key) if info is not None else None
        if value is None:
            return f"pod {pod.key} of group {group} is on node {name}, which has no label {key}"
        found[value] = None
    if len(found) > 1:
        first, second, *_ = sorted(found)
        return f"pods of group {group} are on nodes with more than one value of label {key}: {first}, {second}"
    return frozenset(found)


def why_nowhere(key: str, unfit: Sequence[tuple[str, Unfit]], needed: int) -> str:
    """Why the group fits into none of the values, for the first few of them."""
    shown = "; ".join(
        f"{value}: {one.placed} of {needed}, pod {one.queued.pod.key.name}: {_reason(one)}"
        for value, one in unfit[:_SHOWN_MAX]
    )
    more = f"; and {len(unfit) - _SHOWN_MAX} more values" if len(unfit) > _SHOWN_MAX else ""
    return f"All pods must be on nodes with one value of label {key}: {shown}{more}."


def _reason(unfit: Unfit) -> str:
    if unfit.refusal is not None:
        return unfit.refusal.message
    inside = [text for text in sorted(unfit.reasons) if not text.startswith("node(s) didn't satisfy plugin(s)")]
    return ", ".join(f"{unfit.reasons[text]} {text}" for text in inside) or "no node would do"
