"""Scores brought to 0..100, as most Score plugins do it.

Source: pkg/scheduler/framework/plugins/helper/normalize_score.go v1.36.3.
"""

from __future__ import annotations

from typing import Final

from scheduler.model.keys import NodeName

NODE_SCORE_MAX: Final = 100


def normalize(scores: dict[NodeName, int], *, reverse: bool = False) -> None:
    """Scale `scores` (each >= 0) in place so that the largest becomes 100; with `reverse` the smallest wins.

    All zero stays zero, or becomes 100 for all with `reverse`.
    """
    largest = max(scores.values(), default=0)
    for node, score in scores.items():
        scaled = score * NODE_SCORE_MAX // largest if largest else 0
        scores[node] = NODE_SCORE_MAX - scaled if reverse else scaled
