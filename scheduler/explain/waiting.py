"""All pods that wait, and the cause of each: tried one after the other as the scheduler would, each takes what it gets.

Not here: one pod explained, with what helps (`explaining`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from allocator import Features
from scheduler.config.settings import Config
from scheduler.explain.explaining import explain_briefly, nearest_served, served_in
from scheduler.explain.fix_search import steps_of
from scheduler.explain.wording import kind_of, unserved
from scheduler.explain.world import World
from scheduler.framework.diagnosis import EVENT, without_cause
from scheduler.model.keys import PodUid
from scheduler.model.pod_group import group_key
from scheduler.offline import Answers, OfflineCluster, PodResult, SourceObject, Verdict, decide
from scheduler.offline.alike import Maker, maker_of
from scheduler.offline.offline_cluster import created_at, key_of, waits_for_a_node
from scheduler.offline.siblings import with_made
from scheduler.offline.verdicts import BUDGET_STEPS, TURNS_MAX
from scheduler.why.say import EVERYBODY, Reader

PODS_MAX: Final = 1_000
"""Pods that are asked about, of namespaces by turns; the others are counted."""
_STEPS: Final = 2_500_000
"""For all pods together, as `fix_search` counts them: some 10 s."""
_FOR_BRIEF_LOOKS: Final = 1_000_000
"""What of these is kept for pods that come late; and no pod gets more."""

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that waits.

    Attributes:
        outcome: As `simulate` has it.
        maker: Who makes it.
        kind: Of its cause (`why.kinds`), "" where it fits.
        cause: What keeps it out, or the scheduler's sentence; "" where it fits.
        change: What helps, where the cause says so.
        told: The cause as readers of the pod's namespace may know it: it names no pod or claim of another one.
        node: Where it would run.
        objects: What the change is about, `KIND/NAMESPACE/NAME`.
        is_first_look: The budget ended before all was asked: the pod asked about by itself may have a better cause.
        created: When it was, as the server writes times; "" where nobody has said it.
    """

    key: Key
    outcome: str
    maker: Maker
    kind: str = ""
    cause: str = ""
    change: str = ""
    told: str = ""
    node: str = ""
    is_first_look: bool = False
    objects: Sequence[str] = ()
    created: str = ""

    def document(self) -> dict[str, Any]:
        """For programs."""
        namespace, name = self.key
        shown: dict[str, Any] = {
            "outcome": self.outcome,
            "node": self.node or None,
            "kind": self.kind or None,
            "cause": self.cause,
        }
        if self.change:
            shown["change"] = self.change
        if self.is_first_look:
            shown["firstLook"] = True
        if self.created:
            shown["created"] = self.created
        return {"namespace": namespace, "name": name, "owner": self.maker.owner, **shown}


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
    world = World(given, ("", ""), now_ms, features, config)
    cluster = OfflineCluster(now_ms, world.checked, world.decoded)
    loaded = cluster.load(given)
    world = replace(world, objects=with_made(given, cluster))
    wanted = [key for key in waiting_in(cluster) if scope in (None, key[0]) and (only is None or key in only)]
    served = served_in(cluster.pods())
    answers = decide(
        cluster,
        features=features,
        budget_steps=BUDGET_STEPS,
        config=config,
        asked={*islice(by_turns(wanted, lambda key: key[0]), PODS_MAX)},
        turns_max=turns_max,
    )
    created = {key_of(one.obj): created_at(one.obj) for one in given if one.obj.get("kind") == "Pod"}
    explained = {one.key: one for one in _explained(answers, world, served)}
    tried = [replace(explained[one.pod], created=created.get(one.pod, "")) for one in answers.verdicts]
    problems = [*map(str, loaded.problems), *answers.left_out.texts]
    if answers.run is not None and not answers.run.turns_left:
        untried = sum(one.outcome is PodResult.UNKNOWN for one in answers.verdicts)
        problems.append(f"{untried} pods were not tried: {turns_max} turns of the scheduler went to others")
    return AllWaiting(tried, len(wanted), problems, loaded.foreign_groups)


def waiting_in(cluster: OfflineCluster) -> Iterable[Key]:
    """The pods that wait for a node, and those that an API server would refuse."""
    there = [key_of(pod) for pod in cluster.pods() if waits_for_a_node(pod)]
    there += [problem.pod for problem in cluster.loaded.problems if problem.pod is not None]
    return dict.fromkeys(there)


def by_turns(rows: Iterable[T], namespace: Callable[[T], str]) -> Iterator[T]:
    """A row of each namespace, then the second of each: whoever has thousands keeps nobody out. No row is empty."""
    by_namespace: dict[str, list[T]] = {}
    for row in rows:
        by_namespace.setdefault(namespace(row), []).append(row)
    return filter(None, chain.from_iterable(zip_longest(*by_namespace.values())))


def alike(pods: Iterable[Waiting]) -> list[list[Waiting]]:
    """Pods of one owner and one cause together, in the order of the first of each."""
    found: dict[Hashable, list[Waiting]] = {}
    for one in pods:
        like = one.maker.edited, one.maker.owner, one.outcome, one.kind, one.maker.without_names(one.cause)
        found.setdefault(like, []).append(one)
    return list(found.values())


def as_own(first: Waiting, key: Key, maker: Maker) -> Waiting:
    """What is so of one pod, of another like it."""
    own = partial(re.sub, rf"(?<![-\w.]){re.escape(first.key[1])}(?![-\w]|\.\w)", key[1])
    cause, change, told = own(first.cause), own(first.change), own(first.told)
    return replace(first, key=key, cause=cause, change=change, told=told, maker=maker)


def _explained(answers: Answers, world: World, served: Collection[str]) -> Iterator[Waiting]:
    """Each pod, with the cause that the first of its like has; namespaces take turns at the budget.

    Args:
        served: The schedulers that are known to run.
    """
    known: dict[Hashable, Waiting] = {}
    looks = _Looks(answers, world)
    pods = {key_of(pod): pod for pod in answers.cluster.pods()}
    for verdict in by_turns(answers.verdicts, lambda one: one.pod[0]):
        maker = maker_of(verdict.pod, verdict.uid, answers.machine)
        if verdict.outcome is PodResult.UNKNOWN:
            yield Waiting(verdict.pod, "unknown", maker, kind_of(verdict.outcome), verdict.reason)
            continue
        if verdict.outcome is PodResult.FITS:
            pod = pods.get(verdict.pod, {})
            if meant := nearest_served(pod, served):
                step = unserved(pod["spec"]["schedulerName"], meant)
                yield Waiting(verdict.pod, "unserved", maker, step.kind, step.cause, step.change, step.cause)
            else:
                yield Waiting(verdict.pod, "fits", maker, node=verdict.node)
            continue
        like = _shape(verdict, maker, answers), verdict.outcome, maker.without_names(verdict.reason)
        first = known.get(like)
        # Claims that were made for the first pod have its name; those of a workload's pods share the workload's.
        if first is None or (first.maker != maker and f"{first.maker.stem}-" in first.cause + first.change):
            known[like] = looks.at(verdict, maker)
            yield known[like]
            continue
        yield as_own(first, verdict.pod, maker)


def _shape(verdict: Verdict, maker: Maker, answers: Answers) -> Hashable:
    """What pods with one cause have in common: the pod of their group that has no place, or what makes them, or that
    nothing does and they are written alike."""
    pod = answers.machine.store.pods.get(PodUid(verdict.uid))
    if pod is not None and (found := answers.machine.causes.unplaced(pod.uid)) is not None:
        return found[0].key
    if pod is None or group_key(pod) is not None or maker.edited != f"pod {pod.key}":
        return maker.edited
    return verdict.pod[0], msgspec.json.encode((pod.spec, pod.metadata.labels))


class _Looks:
    """Looks at pods, as thoroughly as one that is explained by itself, until the budget is used up."""

    def __init__(self, answers: Answers, world: World) -> None:
        self._answers: Final = answers
        self._world: Final = world
        self._steps = _STEPS

    def at(self, verdict: Verdict, maker: Maker) -> Waiting:
        """The pod with its cause."""
        waiting = partial(Waiting, verdict.pod, str(verdict.outcome), maker, node=verdict.node)
        least = steps_of(self._world)
        given = min(_FOR_BRIEF_LOOKS, self._steps - least - _FOR_BRIEF_LOOKS)
        if is_close := given > 0:
            # What is edited for one pod lives no longer, so it may not stay there under its id.
            world = replace(self._world, pod=verdict.pod, checked=dict(self._world.checked))
            found, told, left = explain_briefly(world, given)
            self._steps -= least + given - left
            if not found.fits:
                change = found.advice.removeprefix("to make it fit: ") if found.changes else ""
                first = found.exhausted
                return waiting(found.kind, found.cause, change, told, is_first_look=first, objects=found.objects)
        # It fits when only its own kind is there, or there is no time for more than a look at what is.
        why, steps = self._answers.machine.causes.why(PodUid(verdict.uid), EVENT) if self._steps > 0 else (None, 0)
        self._steps -= steps
        if why is None:
            said = without_cause(verdict.reason)
            return waiting(kind_of(verdict.outcome), said, told=said, is_first_look=not is_close)
        told = why.cause(Reader(verdict.pod[0]))
        return waiting(why.kind, why.cause(EVERYBODY), why.advice(EVERYBODY), told, is_first_look=not is_close)
