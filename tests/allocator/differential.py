"""Random cases, answered by us and by the released Go allocator, compared.

    python -m tests.allocator.differential --cases 200000 --seed 1     # a long run; prints what differs
    python -m tests.allocator.differential --cases 50000 --histories   # one inventory, many nodes, changing
    python -m tests.allocator.differential --release 1.36              # another release than the newest

`compare` says what a pair of answers means:
  equal            the same outcome, error text and allocations
  go-late          Go did not answer in time
  budget           our budget of steps ended; Go took more steps than that
  distinct-forgets, intersection-not-restored
                   a listed difference (docs/differences.md): the case can show it, and ours
                   breaks no rule of the API
  groups-contradict
                   another listed difference: held devices have no compatibility group in common
  unread-value     another: until 1.37 a value that nobody can read fails each selector that looks at its device
  shared-no-more   another: Go evaluates selectors for a device of which a share lives and that is shared no more
  empty-list       another: a derived list of nothing is a value for 1.38, which nothing has in common
  not-a-candidate  Go allocates on a node that `candidate_nodes` left out (histories)
  unsound          our allocation breaks a rule of the API, whatever Go says
  different        anything else: a bug here, or a difference that must be decided on
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allocator import ALL_SHORTCUTS, Shortcuts
from cel.library.values import COST_EXCEEDED, LIMIT_EXCEEDED
from tests.allocator.cases import ask, features_of
from tests.allocator.generator import Generator
from tests.allocator.histories import BUDGET, LENGTH, History
from tests.allocator.rules import groups_apart, has_one_generation, held_in, violations

BATCH = 200
GO_TIMEOUT_MS = 400
UNREAD_VALUE = re.compile(r"attribute [^ ]+: (unsupported attribute value$|parse semantic version: )")

OF_REQUEST = re.compile(r"^claim [^ ]+, request [^ ]+: (?=device )")
"""1.38 leaves this out with alpha gates on."""


def compare(case: Mapping[str, Any], ours: Mapping[str, Any], go: Mapping[str, Any]) -> str:
    if ours["outcome"] == "allocated" and has_one_generation(case) and violations(case, ours["allocations"]):
        return "unsound"
    if "deadline" in go.get("error", ""):
        return "go-late"
    error = ours.get("error")
    same_error = error if error is None else error.replace(LIMIT_EXCEEDED, COST_EXCEEDED)
    if same_error and go.get("error", "").startswith("device "):
        same_error = OF_REQUEST.sub("", same_error)
    if go.get("nodeOnly") and not ours.get("nodeOnly"):
        return "different"
    if all(ours.get(key) == go.get(key) for key in ("outcome", "allocations")) and same_error == go.get("error"):
        return "equal"
    if ours["outcome"] == "exhausted" and go.get("steps", 0) >= BUDGET:
        return "budget"
    if ours["outcome"] == "exhausted" and not (go["outcome"] == "allocated" and violations(case, go["allocations"])):
        return "different"
    if groups_apart(case, held_in(case)):
        return "groups-contradict"
    if any(
        " {driver}/{pool}/{device}: ".format(**share) in go.get("error", "")
        for share in case.get("allocatedShared", ())
    ):
        return "shared-no-more"
    if "unsupported attribute value" in (error or "") and '"expression": "[]"' in json.dumps(case["claims"]):
        return "empty-list"
    if UNREAD_VALUE.search(go.get("error", "")):
        return "unread-value"
    if case.get("differs"):
        return str(case["differs"][0])
    return "different"


def run(
    oracle: Any, seed: int, cases: int, shortcuts: Shortcuts = ALL_SHORTCUTS
) -> Iterator[tuple[str, Any, Any, Any]]:
    """(what `compare` says, case, our answer, Go's) for random cases of the oracle's release."""
    done = 0
    while done < cases:
        generator = Generator(seed, oracle.minor)
        batch = [generator.case() for _ in range(min(BATCH, cases - done))]
        answers: Sequence[Any] = oracle.ask_all(
            [{**case, "kind": "allocate", "timeout_ms": GO_TIMEOUT_MS} for case in batch]
        )
        for case, go in zip(batch, answers, strict=True):
            features = features_of(case, kubernetes=oracle.minor)
            ours = ask(case, features=features, shortcuts=shortcuts, budget_steps=BUDGET)
            yield compare(case, ours, go), case, ours, go
        done += len(batch)
        seed += 1


def run_histories(
    oracle: Any, seed: int, cases: int, shortcuts: Shortcuts = ALL_SHORTCUTS
) -> Iterator[tuple[str, Any, Any, Any]]:
    """As `run`, but each inventory answers LENGTH questions, for several nodes, while it changes."""
    done = 0
    while done < cases:
        batch = [
            step
            for number in range(BATCH // LENGTH)
            for step in History(seed + number, shortcuts, oracle.minor).steps()
        ]
        answers: Sequence[Any] = oracle.ask_all(
            [{**case, "kind": "allocate", "timeout_ms": GO_TIMEOUT_MS} for case, _ in batch]
        )
        for (case, ours), go in zip(batch, answers, strict=True):
            verdict = compare(case, ours, go)
            if go["outcome"] == "allocated" and not ours["is_candidate"]:
                verdict = "not-a-candidate"
            yield verdict, case, ours, go
        done += len(batch)
        seed += BATCH // LENGTH


def main() -> None:
    from tests.controlplane.build import BETAS, MINOR, VERSIONS
    from tests.oracle.client import Oracle

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--plain", action="store_true", help="all shortcuts off")
    parser.add_argument("--histories", action="store_true", help="ask one inventory again and again while it changes")
    parser.add_argument("--keep", type=Path, help="folder for cases that differ")
    parser.add_argument("--release", choices=list(VERSIONS | BETAS), default=MINOR, help="of Kubernetes")
    options = parser.parse_args()
    started = time.monotonic()
    verdicts: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    with Oracle(options.release) as oracle:
        shortcuts = Shortcuts.none() if options.plain else ALL_SHORTCUTS
        questions = run_histories if options.histories else run
        for verdict, case, ours, go in questions(oracle, options.seed, options.cases, shortcuts):
            verdicts[verdict] += 1
            outcomes[str(go["outcome"])] += 1
            if verdict in ("different", "unsound", "not-a-candidate"):
                print(json.dumps({"case": case["name"], "ours": ours, "go": go})[:2000], flush=True)
                if options.keep is not None:
                    (options.keep / f"{case['name']}.json").write_text(json.dumps({**case, "expect": go}))
            if sum(verdicts.values()) % 10_000 == 0:
                print(dict(verdicts), f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "cases": sum(verdicts.values()),
                "verdicts": verdicts,
                "go_outcomes": outcomes,
                "first_seed": options.seed,
                "seconds": round(time.monotonic() - started),
            }
        )
    )


if __name__ == "__main__":
    main()
