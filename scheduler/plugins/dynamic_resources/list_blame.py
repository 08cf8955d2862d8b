"""A prioritized list of which no alternative fits: why each fails, in a few words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from allocator import Funnel, Stage
from allocator.requests.selectors import OPTIONAL_HINT
from scheduler.plugins.dynamic_resources.near_node import NearNode, ids_of
from scheduler.why.reasons import Reason, plain_reason

_TEXT_MAX: Final = 150
"""Characters, beyond which reasons are counted."""


def blame_alternatives(
    found: NearNode, funnels: Sequence[Funnel], of_one: Callable[[NearNode, Funnel], Reason]
) -> Reason:
    """What keeps all alternatives of one request from the node.

    Args:
        of_one: What is blamed for one of them.
    """
    changes = tuple([change for funnel in funnels for change in of_one(found, funnel).fixes])
    slot = funnels[0].slot
    about = ("alternatives", funnels[0].claim, slot.base, tuple(tuple(one.removed) for one in funnels))
    taken = 0
    if all(one.end is not None and one.end.stage is Stage.IN_USE for one in funnels):
        for funnel in funnels:
            taken |= funnel.step(Stage.IN_USE).removed
        devices = ids_of(funnels[0].devices(taken))
        what = f"{'all ' if not any(one.left for one in funnels) else ''}{len(devices)} devices"
        start = f"request {slot.base}: {what} of its {len(funnels)} alternatives are in use by "
        cause = found.briefly(lambda pods: f"{start}{pods or 'other claims'}", found.holding(devices))
        return plain_reason("alternatives-unmet", cause, about, changes)
    reasons: dict[str, list[str]] = {}
    for funnel in funnels:
        reasons.setdefault(_in_short(found, funnel), []).append(funnel.slot.name)
    text = f"request {slot.base}: no alternative fits on node {found.node.name}"
    for number, (reason, names) in enumerate(reasons.items()):
        more = f"{'; ' if number else ': '}{', '.join(names)}: {reason}"
        if number and len(text) + len(more) > _TEXT_MAX:
            rest = [name for others in list(reasons.values())[number:] for name in others]
            text += f"; {', '.join(rest)}: for other reasons"
            break
        text += more
    return plain_reason("alternatives-unmet", text, about, changes)


def _in_short(found: NearNode, funnel: Funnel) -> str:
    """Why an alternative fails."""
    end, slot = funnel.end, funnel.slot
    if end is None:
        return f"{funnel.step(Stage.SIZE).left.bit_count()} of {funnel.needed} devices are there"
    of = f"{end.removed.bit_count()} of {funnel.before(end.stage).bit_count()}"
    match end.stage:
        case Stage.CLASS_SELECTOR if not end.left:
            return f"no device of class {slot.device_class.name}"
        case Stage.REQUEST_SELECTOR if not end.left:
            return "no device matches its selectors"
        case Stage.UNDECIDED:
            failure = found.explanation.failure_of(funnel)
            return f"its selector fails: {failure.rpartition('error: ')[2].removesuffix(OPTIONAL_HINT)}"
        case Stage.SIZE | Stage.CAPACITY:
            return f"too little {' and '.join(slot.capacity) or 'capacity'}"
        case Stage.UNREAD:
            return f"{of} with a field that this scheduler does not know"
        case Stage.TAINT:
            return f"{of} tainted"
        case Stage.IN_USE:
            holders = found.holding(ids_of(funnel.devices(end.removed)))
            return f"{of} in use by {found.pods(holders, 1) or 'other claims'}"
        case Stage.GROUPS:
            return f"{of} of no compatibility group of the partitions in use"
        case Stage.COUNTERS:
            return f"{of} blocked by partitions in use"
        case Stage.CONSTRAINT:
            return "its constraints leave no device"
        case _:
            return f"{funnel.step(Stage.SIZE).left.bit_count()} of {funnel.needed} devices are there"
