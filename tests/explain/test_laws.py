"""The laws of `explain`, in small worlds of nodes, devices, holders, workloads and groups.

L1  the first advice, made on the objects, removes what was named, and the pod fits
L2  nothing lighter would do, of what somebody could change (`law_edits`)
L3  what is named is true (`cause_checks`, which knows nothing of the scheduler)
L4  the event, the list and `explain NAME` name one kind and one fact, or say that they looked briefly
L5  the first advice ends nobody in vain, and concerns no other tenant where something else helps; it speaks of
    what its cause speaks of (`planted.advice`)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest
from hypothesis import given, note, settings

from allocator import Features
from scheduler.explain import Explanation, explain_pod
from scheduler.explain.asked_objects import Objects
from scheduler.explain.fix_search import Search
from scheduler.explain.object_edits import object_edits
from scheduler.explain.waiting import ask_all
from scheduler.explain.world import World
from scheduler.framework.diagnosis import COMMAND, cause_of
from scheduler.offline import OfflineCluster, SourceObject, decide
from scheduler.offline.siblings import with_made
from scheduler.why.reasons import FIRST_LOOK, MAKING_ROOM, TO_MAKE_IT_FIT, Diagnosis, Whom
from tests.explain.cause_checks import untrue
from tests.explain.law_edits import edits, whose
from tests.explain.law_found import FOUND
from tests.explain.law_worlds import ASKED, WORLDS, Small, objects
from tests.explain.planted.advice import advice_faults
from tests.explain.planted.following import followed
from tests.explain.planted.judging import NOW_MS, as_stored
from tests.explain.planted.shapes import Obj, Planted
from tests.nightly import IS_NIGHT

FEATURES: Final = Features()
SENTENCE_SAYS: Final = {"making-room": "preempting", "scheduling-gate": "scheduling gates"}
"""Kinds of which kube-scheduler's sentence says all, and comes before there is a cause."""


def of_a_group(world: Small, told: Explanation) -> bool:
    """Which change lets several pods of a group in is not looked for (`cause_search`, rule 4)."""
    return world.is_group and told.kind == "group-unmet"


def beside_mates(world: Small) -> bool:
    """Mates that fit are counted on nodes that the objects do not say: of facts beside them only names are judged."""
    return world.is_group or world.replicas > 0


def goes_first(world: Small, told: Explanation) -> bool:
    """Its siblings go first while the pod is gated; as objects without the gate it goes before them."""
    return told.kind == "scheduling-gate" and beside_mates(world)


def given_(made: Sequence[Obj]) -> list[SourceObject]:
    return [SourceObject("file.yaml:1:1", obj) for obj in made]


def explained(made: Sequence[Obj]) -> Explanation:
    return explain_pod(given_(made), ASKED, now_ms=NOW_MS, features=FEATURES)


def beside(made: Sequence[Obj]) -> World:
    """The world as `explain` asks in it."""
    cluster = OfflineCluster(NOW_MS)
    cluster.load(given_(made))
    return World(with_made(given_(made), cluster), ASKED, NOW_MS, FEATURES)


def fits(made: Sequence[Obj]) -> bool:
    return beside(made).ask().fits


def found(made: Sequence[Obj]) -> Diagnosis:
    """What `explain` finds, with weights."""
    world = beside(made)
    search = Search(world, COMMAND.all_steps)
    return search.smallest(world.ask(), object_edits(Objects(world)))


# --- the laws -----------------------------------------------------------------------------------------------------


def advice_helps(world: Small) -> Iterator[str]:
    made = objects(world)
    told = explained(made)
    for number in range(len(told.changes)):
        some = "; then ".join(one.change for one in told.changes[: number + 1])
        edited = followed(made, some)
        if edited is None:
            yield f"words that nobody knows: {some}"
            return
        again = explained(edited)
        if number + 1 < len(told.changes):
            if again.fits and not goes_first(world, told):
                yield f"less is enough: {some}"
        elif not again.fits and again.kind != MAKING_ROOM:
            yield f"does not help: {some}\n  now {again.verdict}"
    for one in told.also:
        edited = followed(made, one.change)
        if edited is None:
            yield f"words that nobody knows: {one.change}"
        elif not explained(edited).fits:
            yield f"does not help: or {one.change}\n  now {explained(edited).verdict}"


def nothing_is_lighter(world: Small) -> Iterator[str]:
    made = objects(world)
    told = explained(made)
    if told.fits or told.kind == MAKING_ROOM or of_a_group(world, told) or goes_first(world, told):
        return
    search = found(made)
    weight = _weight(search, made)
    helping = (one for one in edits(world, made) if fits(one.made(made)))
    best = next(helping, None)
    if best is not None and (weight is None or len(search.fixes) > 1 or best.weight < weight):
        yield f"lighter: {best.what} {best.weight}, told {weight}"
    if best is None and not search.is_exhausted and (IS_NIGHT or sum(len(one.gpus) for one in world.hosts) < 4):
        yield from _no_pair_is_lighter(world, made, weight)


def _no_pair_is_lighter(world: Small, made: list[Obj], weight: tuple[Whom, int] | None) -> Iterator[str]:
    pairs = itertools.combinations(edits(world, made), 2)
    both = sorted(((max(a.weight[0], b.weight[0]), a.weight[1] + b.weight[1]), a, b) for a, b in pairs)
    for sum_, first, second in both:
        if weight is not None and sum_ >= weight:
            return
        if fits(second.made(first.made(made))):
            yield f"lighter: {first.what}, {second.what} {sum_}, told {weight}"
            return


def _weight(search: Diagnosis, made: Sequence[Obj]) -> tuple[Whom, int] | None:
    if not search.fixes:
        return None
    ended = {uid for one in search.fixes for uid in one.removed}
    ending = [whose(obj) for obj in as_stored(made) if obj["metadata"].get("uid") in ended]
    whom = max(Whom.OWN, *ending, *(one.whom for one in search.fixes))
    return whom, sum(one.size for one in search.fixes)


def causes_are_true(world: Small) -> Iterator[str]:
    made = as_stored(objects(world))
    told = explained(made)
    if not told.fits:
        for kind, cause in [(told.kind, told.cause), *((one.kind, one.cause) for one in told.also)]:
            judged = "" if beside_mates(world) and kind != "group-unmet" else kind
            yield from untrue(made, ASKED, judged, cause.partition("; and then ")[0])


def channels_agree(world: Small) -> Iterator[str]:
    made = objects(world)
    told = explained(made)
    listed = next(one for one in ask_all(given_(made), now_ms=NOW_MS, features=FEATURES).pods if one.key == ASKED)
    if not listed.is_first_look and (listed.kind, listed.cause) != (told.kind, "" if told.fits else told.cause):
        yield f"list [{listed.kind}] {listed.cause}"
    sentence = _event(made)
    event = cause_of(sentence)
    if told.fits or FIRST_LOOK in event:
        return
    kind, cause, _ = _parts(event)
    if told.kind in SENTENCE_SAYS:
        if SENTENCE_SAYS[told.kind] not in sentence:
            yield f"event {sentence}"
    elif kind != told.kind or _public(cause) != _public(told.cause):
        yield f"event {event}"


def _event(made: Sequence[Obj]) -> str:
    cluster = OfflineCluster(NOW_MS)
    cluster.load(given_(made))
    answers = decide(cluster, features=FEATURES, budget_steps=200_000, asked={ASKED}, reports_causes=True)
    return next(one for one in answers.verdicts if one.pod == ASKED).reason


def _parts(event: str) -> tuple[str, str, str]:
    match = re.match(r"\[([a-z-]+)\] ", event)
    cause, _, change = event[match.end() if match else 0 :].partition(TO_MAKE_IT_FIT)
    return match[1] if match else "", cause, change


def _public(cause: str) -> list[str]:
    """Nodes, devices and numbers: pods and claims of others are not named in events."""
    shown = re.sub(r"other/\S+|\bpods [^(]*(?= \(priority)|\d+ of other namespaces", "", cause)
    return re.findall(r"node-\d(?:/[\w-]+)?|\b\d+\b", shown)


def advice_harms_nobody(world: Small) -> Iterator[str]:
    made = as_stored(objects(world))
    told = explained(made)
    if told.fits:
        return
    row = Planted(made, ASKED, "", "", ())
    others = "\n".join(f"or: {one.change}" for one in told.also)
    yield from advice_faults(row, told.verdict, told.advice, others)


LAWS: Final[dict[str, Callable[[Small], Iterator[str]]]] = {
    "L1": advice_helps,
    "L2": nothing_is_lighter,
    "L3": causes_are_true,
    "L4": channels_agree,
    "L5": advice_harms_nobody,
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@given(world=WORLDS)
@settings(max_examples=5_000 if IS_NIGHT else 40, derandomize=not IS_NIGHT)
def test_the_law_holds(law: str, world: Small) -> None:
    wrong = list(LAWS[law](world))
    if wrong:
        told = explained(objects(world))
        note(f"{told.verdict}\n{told.advice}")
    assert wrong == []


@pytest.mark.parametrize(("law", "world"), FOUND.values(), ids=FOUND)
def test_the_law_holds_where_it_did_not(law: str, world: Small) -> None:
    """Worlds that were found at night."""
    assert list(LAWS[law](world)) == []
