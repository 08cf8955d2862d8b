"""Random cases, answered by us and by the released kube-scheduler, compared part by part.

python -m tests.plugins.differential --cases 50000 --seed 1     # a long run; prints what differs
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from allocator import Features
from tests.answers.verdicts import Cases
from tests.controlplane.build import BETAS, MINOR, VERSIONS
from tests.oracle.client import Oracle
from tests.plugins.random_cases import Generator
from tests.plugins.recorded_cases import (
    OF_RESIZING,
    PARTS,
    counts_for_137,
    ends_upstream,
    expected,
    has_resized,
    is_equal,
    ours,
)

BATCH: Final = 200
RESIZED: Final = "resized"
"""A difference that docs/differences.md names."""
Found = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]


def compare(theirs: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """ "equal", or the first part that differs. Nothing is listed: every difference is a bug or must be decided on."""
    return next((part for part in PARTS if not is_equal(part, theirs[part], answer[part])), "equal")


def run(oracle: Oracle, seed: int, cases: int) -> Iterator[Found]:
    """Of each case the verdict of `compare`, the case, Go's answer and ours."""
    generator, reader = Generator(), Cases(Features(kubernetes=oracle.minor))
    for begin in range(seed, seed + cases, BATCH):
        made = [generator.case(number) for number in range(begin, min(begin + BATCH, seed + cases))]
        batch = [case for case in made if not ends_upstream(case, oracle.minor)]
        answers = oracle.ask({"kind": "scheduler-verdicts", "cases": batch})["answers"]
        for case, answer in zip(batch, answers, strict=True):
            if answer.get("error"):
                yield "refused", case, answer, {}
                continue
            theirs, mine = expected(answer), ours(reader, case)
            verdict = compare(theirs, mine)
            named = counts_for_137 if oracle.minor == "1.36" else has_resized
            if verdict in OF_RESIZING and named(case):
                verdict = RESIZED
            yield verdict, case, theirs, mine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--release", choices=VERSIONS | BETAS, default=MINOR)
    parser.add_argument("--show", type=int, default=3, help="Examples of each difference.")
    parser.add_argument("--write", help="A folder for the cases that differ.")
    given = parser.parse_args()
    counts, begin = Counter[str](), time.monotonic()
    with Oracle(given.release) as oracle:
        for verdict, case, theirs, mine in run(oracle, given.seed, given.cases):
            counts[verdict] += 1
            if verdict != "equal" and counts[verdict] <= given.show:
                print(
                    f"{case['name']} {verdict}\n  theirs: {theirs.get(verdict, theirs)}\n  ours:   {mine.get(verdict)}"
                )
                if given.write:
                    with open(f"{given.write}/{case['name']}.json", "w") as file:
                        json.dump(case, file)
    print(f"{dict(counts)} in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
