"""Where a PodGroup with `schedulingConstraints.topology` may be: all pods on nodes with one value of a label.

Rules of this module
  1. Pods of the group that have a node, and have not ended, fix the value.
  2. Nodes without the label are no place for the group; since 1.38 those where it is empty neither.
  3. All groups with one label share its values. They are read again when a node has another value (`looked_at`).

Not here: the search in each value (`group_attempt`).

Cost: O(pods of the group, and nodes changed since the last look) for each look, O(nodes) where a value has changed.

Source: kube-scheduler pkg/scheduler/framework/plugins/topologyaware (GeneratePlacements); v1.37.2. Upstream tries the
values in no order and takes the one that its scorers prefer; here the first in order of text that all pods fit into.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from msgspec import Struct

from scheduler.core.state.ground import Ground, Part
from scheduler.core.trying.attempt import Unfit
from scheduler.model.group import GroupKey
from scheduler.model.keys import NodeName, PodUid
from scheduler.why.reasons import Reason

_SHOWN_MAX: Final = 4
"""Values of which a message says why the group does not fit there."""

_KEYS_MAX: Final = 16
"""Labels whose values are kept."""

NodesByValue: TypeAlias = Mapping[str, frozenset[NodeName]]


class _Kept(Struct):
    """The values of one label.

    Args:
        position: In the log of pods and labels, up to which they hold.
    """

    by_node: Mapping[NodeName, str]
    by_value: NodesByValue
    position: int


class LabelValues(Part):
    """The nodes of each value of a label.

    Attributes:
        looked_at: Nodes and pods that were looked at for it, over all calls.
    """

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._by_key: Final[OrderedDict[str, _Kept]] = OrderedDict()
        self.looked_at = 0

    def of_group(self, group: GroupKey, key: str, placing: AbstractSet[PodUid]) -> NodesByValue | Reason:
        """The nodes of each value of the label that the group may have, in order of text; or why there is none.

        Args:
            placing: Pods of the group that are being placed; where they are fixes nothing.
        """
        self.looked_at += len(self._store.gangs.of(group))
        fixed = _fixed(self._ground, group, key, placing)
        if isinstance(fixed, Reason):
            return fixed
        nodes = self._of(key)
        if fixed:
            nodes = {value: nodes[value] for value in fixed if value in nodes}
        if not nodes:
            return Reason("group-unmet", {"group": str(group), "topology": key}, "label-nowhere")
        return nodes

    def _of(self, key: str) -> NodesByValue:
        kept = self._by_key.pop(key, None)
        if kept is None or not self._holds(kept, key):
            kept = self._read(key)
        kept.position = self._store.population.position
        self._by_key[key] = kept
        if len(self._by_key) > _KEYS_MAX:
            self._by_key.popitem(last=False)
        return kept.by_value

    def _holds(self, kept: _Kept, key: str) -> bool:
        changed = self._store.population.since(kept.position)
        if changed is None:
            return False
        names = tuple(changed)
        self.looked_at += len(names)
        return all(_value_of(self._ground, name, key) == kept.by_node.get(name) for name in names)

    def _read(self, key: str) -> _Kept:
        names = self._store.node_order
        self.looked_at += len(names)
        by_node = {name: value for name in names if (value := _value_of(self._ground, name, key)) is not None}
        by_value: dict[str, list[NodeName]] = {}
        for name, value in by_node.items():
            by_value.setdefault(value, []).append(name)
        return _Kept(by_node, {value: frozenset(by_value[value]) for value in sorted(by_value)}, 0)


def _value_of(ground: Ground, name: NodeName, key: str) -> str | None:
    info = ground.store.node_infos.get(name)
    value = (info.node.metadata.labels or {}).get(key) if info is not None else None
    return value or None if ground.view.features.has_138_semantics else value


def _fixed(ground: Ground, group: GroupKey, key: str, placing: AbstractSet[PodUid]) -> frozenset[str] | Reason:
    """The value that the group has, none where no pod of it runs; or why it has none."""
    store = ground.store
    found: dict[str, None] = {}
    for uid in store.gangs.of(group):
        pod = store.pods[uid]
        name = store.node_of(uid) or pod.node_name
        if uid in placing or name is None or pod.is_terminal:
            continue
        value = _value_of(ground, name, key)
        if value is None:
            fields = {"group": str(group), "topology": key, "pod": pod.key, "node": name}
            return Reason("group-unmet", fields, "label-lacks")
        found[value] = None
    if len(found) > 1:
        fields = {"group": str(group), "topology": key, "values": tuple(sorted(found)[:2])}
        return Reason("group-unmet", fields, "label-values")
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
