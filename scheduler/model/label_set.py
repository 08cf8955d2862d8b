"""What selectors see of a pod: pods that look alike to them are counted together.

Equal likenesses are one object while somebody has it, so they are told apart by identity. A number is never used again.

Cost: `likeness_of` O(labels).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from scheduler.model.objects import Pod


class LabelSet:
    """The namespace and labels of pods, and whether they are terminating (have a deletionTimestamp)."""

    __slots__ = ("__weakref__", "is_terminating", "labels", "namespace", "number")

    def __init__(self, namespace: str, labels: Mapping[str, str], *, is_terminating: bool) -> None:
        self.namespace: Final = namespace
        self.labels: Final = labels
        self.is_terminating: Final = is_terminating
        self.number: Final = next(_NUMBERS)


_NUMBERS: Final = count()
_KNOWN: Final[WeakValueDictionary[tuple[str, frozenset[tuple[str, str]], bool], LabelSet]] = WeakValueDictionary()


def likeness_of(pod: Pod) -> LabelSet:
    """The one object for pods like this one."""
    meta = pod.metadata
    labels = meta.labels or {}
    key = (meta.namespace, frozenset(labels.items()), pod.is_deleting)
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = LabelSet(meta.namespace, labels, is_terminating=pod.is_deleting)
    return known


def likenesses_count() -> int:
    """How many there are now."""
    return len(_KNOWN)
