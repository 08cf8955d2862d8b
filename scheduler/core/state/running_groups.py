"""What runs of a gang, and how many of its pods can go before too few are left.

A pod that is leaving, or that room is being made of already, does not run any more. A PodGroup's disruptionMode counts
before the number: of `all` none can be spared, of `single` each goes by itself, whatever that leaves.

Not here: which pods there are (`group_members`), placing them (`group_cycles`), removing them (the plugin
DefaultPreemption).

Cost: O(pods of the gang).
"""

from __future__ import annotations

from scheduler.core.state.store import Store
from scheduler.framework.preemption import RunningGroup
from scheduler.model.group import GANG_MEMBERS_MAX, GANG_PODS_MAX, counts, declared_count, key_of_group
from scheduler.model.keys import PodUid
from scheduler.model.objects import Pod
from scheduler.model.pod_group import Disrupted


def running_group(store: Store, pod: Pod) -> RunningGroup | None:
    """The gang of a pod as it runs; None for a pod that goes by itself, and for more pods than are placed together."""
    key = key_of_group(pod)
    if key is None or (size := store.gangs.size(key)).members > GANG_MEMBERS_MAX:
        return None
    group = store.pod_groups.get(key.pod_group)
    disrupted = group.disrupted if group is not None and key.is_pod_group else None
    declared = 0 if disrupted is Disrupted.TOGETHER else declared_count(key, size, group)
    if declared is None or disrupted is Disrupted.ALONE:
        return None
    living = stay = 0
    running: dict[PodUid, Pod] = {}
    for uid in store.gangs.of(key):
        one = store.pods[uid]
        is_placed = one.node_name is not None or store.node_of(uid) is not None
        if not counts(one, is_placed=is_placed):
            continue
        living += 1
        if is_placed and not one.is_deleting and uid not in store.nominations.victims:
            stay += 1
            if not one.is_terminal:
                running[uid] = one
    if disrupted is Disrupted.TOGETHER:
        return RunningGroup(key, running, 0)
    needed = declared or living
    return RunningGroup(key, running, max(0, stay - needed)) if needed <= GANG_PODS_MAX else None
