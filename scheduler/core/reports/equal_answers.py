"""What was found out for one of equal pods, said of the others: of 134 replicas one is searched for.

Rules of this module
  1. Pods are equal of one namespace, owner, priority and signature, while no node and no pod anywhere has changed.
  2. Keys of the pod and of its claims become those of the other. Where a name of theirs stands alone in a text, as in a
     command, the other pod is searched for itself.
  3. Whoever gets it gets sentences: objects as they would be are not the other's.

Not here: the search (`cause_search`), lists of pods that say a cause once (`explain.waiting`).

Memory: `_ANSWERS_MAX` answers.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, structs

from scheduler.core.state.store import Store, claims_of
from scheduler.framework.diagnosis import Limits
from scheduler.framework.plan import PodSignature
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import Pod
from scheduler.model.owners import controller_of
from scheduler.why.reasons import Diagnosis, Fix, Reason
from scheduler.why.say import Sentence

_ANSWERS_MAX: Final = 256

_KEY: Final = re.compile(r"[-a-z0-9]+/[-a-z0-9.]*[a-z0-9]")
"""NAMESPACE/NAME within a text."""
_Keys: TypeAlias = Sequence[tuple[ObjectKey, ObjectKey]]
"""Of a pod and its claims, and those of another in their place."""


class _TheirsError(Exception):
    """A text has a name of the first pod's, or of its claims."""


class EqualAnswers:
    """Of pods that were searched for last."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._found: Final[OrderedDict[Hashable, tuple[Pod, Diagnosis]]] = OrderedDict()

    def key(self, pod: Pod, signature: PodSignature | None, limits: Limits, *, is_decided: bool) -> Hashable:
        """Equal for equal pods, until anything changes; None where nothing is remembered."""
        if signature is None:
            return None
        at = self._store.changes.position, self._store.population.position
        owner, nominated = controller_of(pod), pod.status.nominated_node_name
        return (
            at,
            pod.metadata.namespace,
            owner and owner.uid,
            pod.spec.priority,
            nominated,
            signature,
            limits,
            is_decided,
        )

    def put(self, key: Hashable, pod: Pod, why: Diagnosis) -> None:
        """What was found for a pod."""
        self._found[key] = pod, why
        if len(self._found) > _ANSWERS_MAX:
            self._found.popitem(last=False)

    def of(self, key: Hashable, pod: Pod) -> Diagnosis | None:
        """What is so of this pod, as it is of an equal one; None where nobody knows."""
        if (known := self._found.get(key)) is None:
            return None
        first, why = known
        if first is pod:
            return why
        mine, theirs = claims_of(pod), claims_of(first)
        if len(mine) != len(theirs):
            return None
        try:
            return _said_of(why, [*zip((first.key, *theirs), (pod.key, *mine), strict=True)])
        except _TheirsError:
            return None


def _said_of(why: Diagnosis, keys: _Keys) -> Diagnosis:
    return structs.replace(
        why,
        reasons=tuple([_reason(one, keys) for one in why.reasons]),
        fixes=tuple([_fix(one, keys) for one in why.fixes]),
        also=tuple([_fix(one, keys) for one in why.also]),
    )


def _reason(reason: Reason, keys: _Keys) -> Reason:
    return structs.replace(reason, fields=_renamed(reason.fields, keys), fixes=())


def _fix(fix: Fix, keys: _Keys) -> Fix:
    reason = _reason(fix.reason, keys) if fix.reason is not None else None
    said = _renamed(fix.said, keys)
    return Fix(fix.kind, said, fix.on, said["command"], fix.more, reason, fix.whom)


def _renamed(value: Any, keys: _Keys) -> Any:
    """The value with the other's keys, however deep they stand."""
    if isinstance(value, str):
        if any(theirs.name in value for theirs, _ in keys):
            texts = {str(theirs): str(mine) for theirs, mine in keys}
            value = _KEY.sub(lambda found: texts.get(found[0], found[0]), value)
            if any(theirs.name in value for theirs, _ in keys):
                raise _TheirsError
        return value
    if isinstance(value, ObjectKey):
        return next((mine for theirs, mine in keys if (type(theirs), theirs) == (type(value), value)), value)
    if isinstance(value, Mapping):
        return {name: _renamed(one, keys) for name, one in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return getattr(value, "_make", type(value))([_renamed(one, keys) for one in value])
    if isinstance(value, Sentence):
        return Sentence(value.template, _renamed(value.fields, keys))
    if isinstance(value, Struct):
        return structs.replace(value, **_renamed(structs.asdict(value), keys))
    return value
