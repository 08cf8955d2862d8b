"""The long run beside kube-scheduler, on real control planes: pods that draw from every plugin and from devices.

    python -m tests.integration.long_differential                    # 2,000 pods
    python -m tests.integration.long_differential --pods 300 --seed 7

What CI does with some hundreds (`test_differential.py`) and more seeds: kube-scheduler places the pods of a random
fleet, then ours does, led by it where nodes are equally good (`vocabulary`), and what one leaves pending the other is
asked about. Prints every difference and every broken rule; exit code 1 when there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

from tests.integration.random_fleet import draw
from tests.integration.side_by_side import Outcome, differences, play, reasons, second_thoughts
from tests.integration.vocabulary import add_vocabulary

_PODS_EACH = 25


async def _play(seed: int, pods: int) -> int:
    fleet = draw(seed)
    drawn = sum(len(group.pods) for group in fleet.groups)
    add_vocabulary(fleet, max(-(-(pods - drawn) // _PODS_EACH), 1), _PODS_EACH)
    drawn = sum(len(group.pods) for group in fleet.groups)
    print(f"seed {seed}: {drawn} pods in {len(fleet.groups)} groups, {len(fleet.objects)} other objects", flush=True)
    began = time.monotonic()
    kube = await play(fleet, "kube-scheduler")
    _tell(kube, began)
    began = time.monotonic()
    ours = await play(fleet, "ours", leader=kube)
    _tell(ours, began)
    found = differences(fleet, kube, ours)
    found += [f"what ours left: {text}" for text in second_thoughts(ours)]
    found += [f"what kube-scheduler left: {text}" for text in second_thoughts(kube)]
    found += [f"{outcome.scheduler} broke a rule: {one}" for outcome in (kube, ours) for one in outcome.violations]
    for text in found:
        print(text)
    print(f"{len(found)} differences", flush=True)
    return len(found)


def _tell(outcome: Outcome, began: float) -> None:
    verdicts = [verdict for group in outcome.verdicts.values() for verdict in group.values()]
    bound = sum(bool(verdict.node) for verdict in verdicts)
    texts = Counter(
        part.strip(" .").lstrip("0123456789 ")
        for verdict in verdicts
        if not verdict.node
        if verdict.reason != "refused by the API server"
        for part in reasons(verdict.message).partition(": ")[2].split(",")
    )
    print(
        f"{outcome.scheduler}: {bound} of {len(verdicts)} bound, {time.monotonic() - began:.0f} s; pods with a reason:"
    )
    for text, number in texts.most_common(40):
        print(f"  {number:5} {text[:140]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pods", type=int, default=2000)
    arguments = parser.parse_args()
    return 1 if asyncio.run(_play(arguments.seed, arguments.pods)) else 0


if __name__ == "__main__":
    sys.exit(main())
