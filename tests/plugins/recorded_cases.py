"""The recorded answers of kube-scheduler's releases, and how ours are compared with them, part by part.

    python -m tests.plugins.recorded_cases                        # how many rows of each family and part differ
    python -m tests.plugins.recorded_cases ports nodes            # those rows: what is theirs, what is ours
    python -m tests.plugins.recorded_cases --release 1.36 ports   # of another release than the newest
    python -m tests.plugins.recorded_cases --record 1.37          # ask that release's program all of them anew

data/scheduler-cases.jsonl.gz: a case a line, {"name", "family", "cluster", "pod", "config", "answer"}, asked of the
real Scheduler 1.36.3 over a fake clientset. data/scheduler-answers-1.37.json.gz: what 1.37 says, {name: answer};
-1.38: what is said otherwise than by 1.37.
`python -m tests.answers verdicts` answers in the same form. Compared are the parts of `PARTS`.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from allocator import NEWEST_RELEASE, RELEASES, Features
from tests.answers.verdicts import Cases, as_json

FOLDER: Final = Path(__file__).parent / "data"
DATA: Final = FOLDER / "scheduler-cases.jsonl.gz"
PARTS: Final = ("prefilter", "nodes", "scores", "choices", "message", "preemption")
OF_RESIZING: Final = ("nodes", "scores", "choices", "message", "preemption")
"""Parts in which a pod that is resized shows (`has_resized`)."""
_RECORDED: Final = ("preEnqueue", *PARTS)
_BATCH: Final = 100
_RUNS: Final = 5  # some answers are chance, which of several CSIStorageCapacities is found first

Case = Mapping[str, Any]


def _answers(release: str) -> Path:
    return FOLDER / f"scheduler-answers-{release}.json.gz"


@lru_cache(maxsize=len(RELEASES))
def recorded(release: str = RELEASES[0]) -> dict[str, list[Case]]:
    """All cases by family, each with the release's answer; those in which its program ends are left out."""
    answers: dict[str, Any] = {}
    for later in RELEASES[1 : RELEASES.index(release) + 1]:
        with gzip.open(_answers(later)) as file:
            answers |= orjson.loads(file.read())
    families: dict[str, list[Case]] = {}
    with gzip.open(DATA) as file:
        for line in file.read().splitlines():
            case = orjson.loads(line)
            if release != RELEASES[0]:
                case["answer"] = answers.get(case["name"])
            if case["answer"] is not None:
                families.setdefault(case["family"], []).append(case)
    return families


def record(release: str) -> None:
    """Ask the release's kube-scheduler all cases, and keep what it says otherwise than the one before, each time."""
    from tests.oracle.client import Oracle

    before = RELEASES[RELEASES.index(release) - 1]
    known = {} if before == RELEASES[0] else {case["name"]: case["answer"] for case in _all(before)}
    answers: dict[str, Any] = {}
    asked = [{**case, "answer": None} for case in _all(RELEASES[0]) if not ends_upstream(case, release)]
    with Oracle(release) as oracle:
        for _ in range(_RUNS if known else 1):
            answers.clear()
            for begin in range(0, len(asked), _BATCH):
                batch = asked[begin : begin + _BATCH]
                said = oracle.ask({"kind": "scheduler-verdicts", "cases": batch})["answers"]
                for case, answer in zip(batch, said, strict=True):
                    if case["name"] not in known or not _is_as(known[case["name"]], answer):
                        answers[case["name"]] = {part: answer[part] for part in _RECORDED}
            asked = [case for case in asked if case["name"] in answers]
    text = orjson.dumps(answers, option=orjson.OPT_SORT_KEYS)
    _answers(release).write_bytes(gzip.compress(text, mtime=0))


def _all(release: str) -> list[Case]:
    return [case for cases in recorded(release).values() for case in cases]


def _is_as(before: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    theirs, now = expected(before), expected(answer)
    return all(is_equal(part, theirs[part], now[part]) for part in PARTS)


def has_resized(case: Case) -> bool:
    """Whether a pod counts by what its status says: 1.37 adds up each of three, we the largest of each container."""
    return any(
        pod.get("status", {}).get(field)
        for pod in case["cluster"].get("pods", ())
        for field in ("containerStatuses", "initContainerStatuses", "resources")
    )


def counts_for_137(case: Case) -> bool:
    """Whether a pod's status says what 1.37 counts and 1.36 does not; we do, whatever the release."""
    for pod in case["cluster"].get("pods", ()):
        spec, status = pod.get("spec", {}), pod.get("status", {})
        ends = {one["name"] for one in spec.get("initContainers", ()) if one.get("restartPolicy") != "Always"}
        inits = status.get("initContainerStatuses", ())
        if status.get("resources") and status.get("allocatedResources"):
            return True
        if any(one["name"] in ends for one in inits):
            return True
        if any(not one.get("resources") for one in (*inits, *status.get("containerStatuses", ()))):
            return True
    return False


def ends_upstream(case: Case, release: str) -> bool:
    """Whether kube-scheduler ends with a nil pointer: VolumeBinding's Score of 1.37.2, where `capacity` is not set."""
    lefts = case["cluster"].get("csiStorageCapacities") or () if release != RELEASES[0] else ()
    return any(left.get("capacity") is None and left.get("maximumVolumeSize") is not None for left in lefts)


def expected(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The compared parts of a recorded answer."""
    return {
        "prefilter": (answer["preEnqueue"], answer["prefilter"]),
        "nodes": answer["nodes"],
        "scores": _scores(answer["scores"]),
        "choices": sorted(answer["choices"]),
        "message": answer["message"],
        "preemption": _preemption(answer["preemption"]),
    }


def ours(cases: Cases, case: Case) -> dict[str, Any]:
    """The same parts of our answer; a case that we cannot read has an "error" in each."""
    try:
        answer = cases.ask(case)
    except Exception as error:
        return dict.fromkeys(PARTS, f"error: {type(error).__name__}: {error}")
    return expected(as_json(answer))


def _preemption(preemption: Mapping[str, Any] | None) -> Any:
    """What PostFilter says, and for each node that may be nominated its victims."""
    if preemption is None:
        return None
    nominated = {node: preemption["candidates"][node] for node in preemption["anyOf"]}
    message = preemption["message"]
    for node, one in nominated.items():  # 1.37 names the one that is taken by chance
        message = message.replace(f"{node}, preempting {len(one['victims'])} victims", "NODE, preempting VICTIMS")
    return preemption["code"], message, nominated or preemption["nominatedNode"]


_ON_NODE: Final = re.compile(r"(?<=potential placement for pod on node )[^,]+")


def is_equal(part: str, theirs: Any, mine: Any) -> bool:
    """Upstream takes one of several nodes by chance, we one of them.

    1.37 names that node in the message, and no plugin where PreFilter left no node.
    """
    if part == "message" and theirs and mine:
        return _ON_NODE.sub("", theirs) == _ON_NODE.sub("", mine)
    if part == "prefilter" and theirs and mine and theirs[1] and not theirs[1].get("plugin"):
        return bool(theirs[0] == mine[0] and theirs[1] == {**mine[1], "plugin": ""})
    if part != "preemption" or not theirs or not isinstance(theirs[2], dict) or isinstance(mine, str):
        return bool(theirs == mine)
    ours_of = mine[2] if mine else None
    return isinstance(ours_of, dict) and theirs[:2] == mine[:2] and ours_of.items() <= theirs[2].items()


def _scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """A plugin that gives 0 may be left out."""
    return {
        node: ({plugin: score for plugin, score in of_node["plugins"].items() if score}, of_node["total"])
        for node, of_node in scores.items()
    }


def differences(family: str, release: str = RELEASES[0]) -> Iterator[tuple[str, str, Any, Any]]:
    """Of each part of a row that differs: the row's name, the part, theirs, ours.

    Left out is what docs/differences.md names: how releases count pods that are resized.
    """
    cases = Cases(Features(kubernetes=release))
    for case in recorded(release)[family]:
        theirs, answer = expected(case["answer"]), ours(cases, case)
        is_named = counts_for_137(case) if release == RELEASES[0] else has_resized(case)
        named = OF_RESIZING if is_named else ()
        for part in PARTS:
            if part not in named and not is_equal(part, theirs[part], answer[part]):
                yield case["name"], part, theirs[part], answer[part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="?")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--release", choices=RELEASES, default=NEWEST_RELEASE)
    parser.add_argument("--record", choices=RELEASES[1:], metavar="RELEASE")
    given = parser.parse_args()
    if given.record:
        record(given.record)
        return
    for family, rows in recorded(given.release).items():
        if given.family is None:
            counts = Counter(part for _, part, _, _ in differences(family, given.release))
            print(
                f"{family} ({len(rows)} rows):", ", ".join(f"{part} {counts[part]}" for part in PARTS if counts[part])
            )
    for name, part, theirs, answer in differences(given.family, given.release) if given.family else ():
        if part in given.parts or not given.parts:
            print(f"{name} {part}\n  theirs: {theirs}\n  ours:   {answer}")


if __name__ == "__main__":
    main()
