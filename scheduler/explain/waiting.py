"""All pods that wait, and the cause of each: tried one after the other as the scheduler would, each takes what it gets.

Not here: one pod explained, with what helps (`explaining`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from allocator import Features
from scheduler.config.settings import Config
from scheduler.core.machine import Machine
from scheduler.framework.diagnosis import TO_MAKE_IT_FIT, cause_of, without_cause
from scheduler.offline import OfflineCluster, PodResult, SourceObject, Verdict, decide, is_waiting
from scheduler.offline.alike import Maker, maker_of
from scheduler.offline.verdicts import TURNS_MAX

PODS_MAX: Final = 1_000
"""Pods that are asked about; the others are counted."""
_BUDGET_STEPS: Final = 200_000
_KIND: Final = re.compile(r"\[([a-z0-9-]+)\] ?")

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits.

    Attributes:
        outcome: As `simulate` has it.
        kind: Of its cause (`framework.cause_kinds`), "" where none is known.
        cause: What keeps it out, or the scheduler's sentence; "" where it fits.
        node: Where it would run.
        change: What helps, where the cause says so.
        maker: Who makes it.
    """

    key: Key
    outcome: str
    kind: str
    cause: str
    node: str
    change: str
    maker: Maker

    def document(self) -> dict[str, Any]:
        """For programs."""
        namespace, name = self.key
        shown = {"outcome": self.outcome, "node": self.node or None, "kind": self.kind or None, "cause": self.cause}
        return {"namespace": namespace, "name": name, **shown}


@dataclass(frozen=True, slots=True)
class AllWaiting:
    """The pods that were asked about, by name; how many wait in all; what was wrong with objects, or is of note."""

    pods: Sequence[Waiting]
    count: int
    problems: Sequence[str]
    notes: Sequence[str] = ()


def ask_all(
    given: Sequence[SourceObject],
    *,
    now_ms: int,
    features: Features,
    config: Config | None = None,
    scope: str | None = None,
    only: Collection[Key] | None = None,
    turns_max: int = TURNS_MAX,
) -> AllWaiting:
    """Ask about the pods that wait: all, those of the namespace `scope`, or of `only`.

    Args:
        turns_max: Of the scheduler, some milliseconds each; by default as many as it takes. Long searches take turns
            with other pods, so one that is costly keeps no other from being tried.
    """
    cluster = OfflineCluster(now_ms)
    loaded = cluster.load(given)
    there = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster.pods() if _waits(pod)]
    there += [problem.pod for problem in loaded.problems if problem.pod is not None]
    wanted = [key for key in dict.fromkeys(there) if scope in (None, key[0]) and (only is None or key in only)]
    answers = decide(
        cluster,
        features=features,
        budget_steps=_BUDGET_STEPS,
        config=config,
        asked={*wanted[:PODS_MAX]},
        reports_causes=True,
        turns_max=turns_max,
    )
    tried = [_waiting(one, answers.machine) for one in answers.verdicts]
    problems = [*map(str, loaded.problems), *answers.left_out.texts]
    if answers.run is not None and not answers.run.turns_left:
        untried = sum(one.outcome is PodResult.UNKNOWN for one in answers.verdicts)
        problems.append(f"{untried} pods were not tried: {turns_max} turns of the scheduler went to others")
    return AllWaiting(tried, len(wanted), problems, loaded.foreign_groups)


def alike(pods: Iterable[Waiting]) -> list[list[Waiting]]:
    """Pods of one owner and one cause together, in the order of the first of each."""
    found: dict[Hashable, list[Waiting]] = {}
    for one in pods:
        like = one.maker.edited, one.outcome, one.kind, one.maker.without_names(one.cause)
        found.setdefault(like, []).append(one)
    return list(found.values())


def _waits(pod: Mapping[str, Any]) -> bool:
    return is_waiting(pod) and not pod["spec"].get("nodeName")


def _waiting(verdict: Verdict, machine: Machine) -> Waiting:
    cause, _, change = cause_of(verdict.reason).partition(TO_MAKE_IT_FIT)
    kind = _KIND.match(cause)
    text = cause[kind.end() :] if kind else cause or without_cause(verdict.reason)
    maker = maker_of(verdict.pod, verdict.uid, machine)
    return Waiting(verdict.pod, str(verdict.outcome), kind[1] if kind else "", text, verdict.node, change, maker)
