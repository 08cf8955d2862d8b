"""`dra-scheduler explain -o wide`: of each node who would be preempted for a pod, or why that does not help.

Not here: the answer (`scheduler.offline.every_node`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.cli.cluster_question import CommandInput, Key
from scheduler.cli.tables import print_table
from scheduler.cli.terminal import echo
from scheduler.framework.preemption import Preemption
from scheduler.framework.status import Status

if TYPE_CHECKING:
    from scheduler.offline.every_node import PodRuling


def print_preemption(asked: CommandInput, key: Key) -> None:
    """The table, below another answer about this pod; nothing where nobody was looked at for it."""
    from scheduler.config import Config
    from scheduler.offline import OfflineCluster
    from scheduler.offline.one_pod import ask_every_node

    cluster = OfflineCluster(time.time_ns() // 1_000_000)
    cluster.load(asked.given)
    pods = [one for one in cluster.pods() if (one["metadata"]["namespace"], one["metadata"]["name"]) == key]
    if not pods:
        return
    answer = ask_every_node(cluster, pods[0], asked.config or Config(), asked.features)
    if answer is not None and answer.tried:
        echo()
        print_table(("NODE", "PREEMPTION", "WHY, OR WHO WOULD BE REMOVED"), _rows(answer))


def _rows(answer: PodRuling) -> list[Sequence[str]]:
    """The node that is chosen, then those that would do, then the others; each by name."""
    chosen = answer.helped.preemption if answer.helped is not None else None
    rows: tuple[list[Sequence[str]], ...] = ([], [], [])
    for name in sorted(answer.refused):
        tried = answer.tried.get(name)
        if chosen is not None and name == chosen.node:
            rows[0].append((name, "chosen", _cost(chosen)))
        elif isinstance(tried, Preemption):
            rows[1].append((name, "possible", _cost(tried)))
        elif isinstance(tried, Status):
            rows[2].append((name, "no", tried.message))
        elif name in answer.candidates:
            rows[2].append((name, "not tried", "enough other nodes are possible"))
        else:
            rows[2].append((name, "no", "Preemption is not helpful for scheduling"))
    return [row for part in rows for row in part]


def _cost(preemption: Preemption) -> str:
    parts = [", ".join(f"{pod.key} (priority {pod.priority})" for pod in preemption.victims)]
    if preemption.violations:
        parts.append(f"PodDisruptionBudgets do not allow {preemption.violations} of them")
    devices = [str(device) for held in preemption.released for device in held.allocation.device_ids()]
    if devices:
        parts.append(f"releases {', '.join(devices)}")
    return "; ".join(parts)
