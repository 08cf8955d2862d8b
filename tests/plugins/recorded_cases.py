"""The recorded answers of kube-scheduler 1.36.3, and how ours are compared with them, part by part.

    python -m tests.plugins.recorded_cases                  # how many rows of each family and part differ
    python -m tests.plugins.recorded_cases ports nodes      # those rows: what is theirs, what is ours

data/scheduler-cases.jsonl.gz: a case a line, {"name", "family", "cluster", "pod", "config", "answer"}, asked of the
real Scheduler over a fake clientset. `dra-scheduler verdicts --jsonl` answers in the same form. Compared are the parts
of `PARTS`.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from allocator import Features
from scheduler.offline.cases import Cases, as_json

DATA = Path(__file__).parent / "data" / "scheduler-cases.jsonl.gz"
PARTS: Final = ("prefilter", "nodes", "scores", "choices", "message", "preemption")

Case = Mapping[str, Any]


@lru_cache(maxsize=1)
def recorded() -> dict[str, list[Case]]:
    """All cases by family."""
    families: dict[str, list[Case]] = {}
    with gzip.open(DATA) as file:
        for line in file.read().splitlines():
            case = orjson.loads(line)
            families.setdefault(case["family"], []).append(case)
    return families


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


def differences(family: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Of each part of a row that differs: the row's name, the part, theirs, ours."""
    cases = Cases(Features(kubernetes="1.36"))
    for case in recorded()[family]:
        theirs, answer = expected(case["answer"]), ours(cases, case)
        for part in PARTS:
            if not is_equal(part, theirs[part], answer[part]):
                yield case["name"], part, theirs[part], answer[part]


def main() -> None:
    if len(sys.argv) == 1:
        for family, rows in recorded().items():
            counts = Counter(part for _, part, _, _ in differences(family))
            print(
                f"{family} ({len(rows)} rows):", ", ".join(f"{part} {counts[part]}" for part in PARTS if counts[part])
            )
        return
    for name, part, theirs, answer in differences(sys.argv[1]):
        if part in sys.argv[2:] or len(sys.argv) == 2:
            print(f"{name} {part}\n  theirs: {theirs}\n  ours:   {answer}")


if __name__ == "__main__":
    main()
