"""Why a pod waits for which others are preempted: its node is being freed, and who keeps those that should go.

Not here: whom to preempt (the plugin DefaultPreemption), and carrying it out (`core.preempting`).
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.state.store import Store
from scheduler.framework.preemption import Preemption
from scheduler.why.reasons import MAKING_ROOM, Diagnosis, Fix, Reason
from scheduler.why.say import Pods, names


def why_room(rooms: Iterable[Preemption], store: Store, group: str) -> Diagnosis | None:
    """None where all who should go have gone.

    Args:
        group: Of the pods that have these rooms, "" for a pod by itself.
    """
    rooms = [one for one in rooms if one.victims]
    if not rooms:
        return None
    victims = {one.uid: store.pods.get(one.uid) or one for room in rooms for one in room.victims}
    pods = sorted(victims.values(), key=lambda one: (one.spec.priority or 0, one.key))
    kept = [one for one in pods if one.is_deleting and one.metadata.finalizers]
    fields = {
        "nodes": names(sorted({one.node for one in rooms})),
        "victims": Pods.of(pods),
        "kept": tuple([one.key for one in kept]),
        "finalizers": names(dict.fromkeys([name for one in kept for name in one.metadata.finalizers or ()])),
        "group": group,
    }
    reason = Reason(MAKING_ROOM, fields)
    if not kept:
        return Diagnosis((reason,))
    on, released = tuple([one.node for one in rooms]), tuple([held for one in rooms for held in one.released])
    fix = Fix("finalizer-removed", fields, on, reason=reason, removed=tuple(victims), released=released)
    return Diagnosis((reason,), (fix,))
