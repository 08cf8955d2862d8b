"""What people read about preemption: on the victims, and on the pod that they make room for.

Source: pkg/scheduler/framework/preemption/executor.go v1.36.3. Differs on purpose: victims learn the name of the pod
that takes their place, and which devices it needs; that pod's condition names the victims. Neither names a pod of
another namespace (`scheduler.why.say`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allocator import DeviceId
from scheduler.core.ground.inputs import WriteRejected
from scheduler.framework.preemption import Preemption
from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod
from scheduler.why.say import Reader, names, told, told_all

_NAMED_MAX: Final = 8
IN_VAIN: Final = "The room that was made for it has been taken."


def announcement(preemptor: Pod) -> str:
    """The message of the victims' condition."""
    return f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"


def given_up(preemptor: Pod, node: NodeName, *, to: str) -> str:
    """Why a victim in namespace `to` that was not bound yet is not."""
    return f"preempted by {told(preemptor.key, 'pod', Reader(to))} on node {node} before it was bound"


def preempted(preemptor: Pod, node: NodeName, devices: Sequence[DeviceId], *, to: str, is_in_memory: bool) -> str:
    """The note of the event on a victim in namespace `to`."""
    who = f": {preemptor.key}" if Reader(to).may_name(preemptor.key) else ""
    wanted = f", which needs its devices {names(devices, _NAMED_MAX)}" if devices else ""
    ending = " (in kube-scheduler memory)." if is_in_memory else ""
    return f"Preempted by pod {preemptor.uid} on node {node}{who}{wanted}{ending}"


def making_room(preemption: Preemption, said: str, *, to: str) -> str:
    """What is added to the condition of the preemptor: what PostFilter has said of it, if anything, and the names.

    Args:
        to: The preemptor's namespace.
    """
    away = sum(pod.node_name not in (None, preemption.node) for pod in preemption.victims)
    of_gangs = f" and {away} of their groups on others" if away else ""
    here = len(preemption.victims) - away
    said = said or f"Preempting {here} pod{'s' * (here != 1)} on node {preemption.node}{of_gangs}"
    return _going(said, [preemption], to)


def making_room_for_group(preemptions: Sequence[Preemption], *, to: str, is_137: bool) -> str:
    """The same for each pod of a group."""
    count = len({pod.uid for one in preemptions for pod in one.victims})
    nodes = names(sorted({one.node for one in preemptions if one.victims}), _NAMED_MAX)
    if is_137:
        said = f"pod group preemption: found a placement for podgroup, preempting {count} victims"
        return _going(said, preemptions, to)
    return _going(f"Preempting {count} pod{'s' * (count != 1)} for the group, on {nodes}", preemptions, to)


def _going(said: str, preemptions: Sequence[Preemption], to: str) -> str:
    pods = dict.fromkeys(pod.key for one in preemptions for pod in one.victims)
    released = {held.claim: held for one in preemptions for held in one.released}
    devices = [str(device) for held in released.values() for device in held.allocation.device_ids()]
    text = f"{said}: {told_all(list(pods), Reader(to), _NAMED_MAX)}"
    return f"{text}; devices {names(devices, _NAMED_MAX)} are released." if devices else f"{text}."


def refused(pod: Pod, what: str, refusal: WriteRejected, *, to: str) -> str:
    """Why a preemption ended. The API server's message names the pod: namespace `to` is not told that of another's."""
    message = f": {refusal.message}" if Reader(to).may_name(pod.key) else ""
    return f"preemption: {told(pod.key, 'pod', Reader(to))} could not be {what}: {refusal.reason}{message}"
