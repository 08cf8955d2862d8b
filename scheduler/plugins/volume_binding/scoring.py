"""Scores of nodes by how full their storage would be (gate StorageCapacityScoring: on from 1.37 on, off before).

Rules of this module
  1. Of each storage class: what the pod asks for of what its volumes hold; the mean over its classes is the score.
  2. Only volumes that exist count where there is one; else those to be made, of drivers that say what is left.

Source: volumebinding/volume_binding.go (Score), scorer.go v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.model.resources import parse_nano
from scheduler.plugins.scoring_strategies import ShapePoint, score_on_shape
from scheduler.plugins.volume_binding.volume_matching import NodeVolumes

EMPTIEST_FIRST: Final = (ShapePoint(0, 10), ShapePoint(100, 0))
_NANO: Final = 10**9


def score_volumes(found: NodeVolumes, shape: Sequence[ShapePoint]) -> int:
    """0..100; 0 where nothing counts."""
    asked: dict[str, int] = {}
    there: dict[str, int] = {}
    for one in found.chosen:
        name = one.volume.spec.storage_class_name
        asked[name] = asked.get(name, 0) + _bytes(one.claim.requested_nano or 0)
        there[name] = there.get(name, 0) + _bytes(one.volume.capacity_nano)
    for made in found.made if not found.chosen else ():
        if made.room is None:
            continue
        name = made.claim.class_name
        asked[name] = asked.get(name, 0) + _bytes(made.claim.requested_nano or 0)
        there[name] = _bytes(parse_nano(made.room.capacity or 0) or 0)
    if not asked:
        return 0
    total = sum(score_on_shape(shape, _percent(amount, there[name])) for name, amount in asked.items())
    return (2 * total + len(asked)) // (2 * len(asked))


def _percent(asked: int, there: int) -> int:
    return 100 if not there or asked > there else asked * 100 // there


def _bytes(nano: int) -> int:
    return -(-nano // _NANO)
