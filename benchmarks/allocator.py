"""The allocator beside the released Go allocator, on the same inputs, both timed inside their process.

    python -m benchmarks.allocator            # the cases of issue 5, with Go where it is installed
    python -m benchmarks.allocator --no-go

Go: NewAllocator and Allocate with selectors compiled before, fastest of several runs. Here: `allocate` with
an inventory that is kept current, as the live scheduler has it; "first" is the first call, with nothing but
decoded objects at hand. Steps are each one's own measure of effort.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from allocator import ALL_SHORTCUTS, Allocated, AllocationRequest, BudgetExhausted, Features, allocate
from tests.allocator.build import DRIVER, NODE, asks, claim, device, device_class, first_of, pool, request
from tests.allocator.cases import claims_of, in_use_of, inventory_of, node_of, share_ids

BUDGET_STEPS = 200_000
SEARCHED = replace(ALL_SHORTCUTS, last_answer=False)
"""The same question again and again is what is timed: it must be searched each time."""
CLASS = device_class()
Case = dict[str, Any]


def gpu(index: int, **more: Any) -> Case:
    attributes = {"model": "a100", "index": index, "numa": index % 2, "uuid": f"gpu-{index:05d}"}
    return device(f"gpu-{index}", **{**attributes, **more})


def of_devices(count: int, *requests: Case) -> Case:
    """One pool of so many devices."""
    return {"slices": [pool(*map(gpu, range(count)))], "claims": [claim(*requests)]}


def one_numa_node() -> Case:
    return {
        "slices": [pool(*map(gpu, range(8)))],
        "claims": [claim(request("gpu", 4), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])],
        "allocated": [{"driver": DRIVER, "pool": "pool-1", "device": "gpu-0"}],
    }


def partitions(sizes: tuple[int, ...], memory: int, *requests: Case) -> Case:
    """Only one combination fits: all but the large partition. It comes first, so it must be given up."""
    devices = [gpu(index, counters={"memory": f"{size}Gi"}) for index, size in enumerate(sizes)]
    counters = pool(slice_name="s-counters", size=2, counters={"memory": f"{memory}Gi"})
    return {"slices": [counters, pool(*devices, slice_name="s-devices", size=2)], "claims": [claim(*requests)]}


def one_too_many(amount: int) -> Case:
    """`amount` devices are asked for where one less exists; each has its own request."""
    return of_devices(amount - 1, *(request(f"r{i}") for i in range(amount)))


def eight_alternatives() -> Case:
    texts = (f'device.attributes["{DRIVER}"].model == "model-{i}"' for i in range(7))
    return of_devices(8, first_of("gpu", *(asks(cel=text) for text in texts), asks()))


def network_attached() -> Case:
    """2,000 pools of 4 devices that every node reaches; the wanted model is in the last ones."""
    slices = [
        pool(
            *(gpu(i, model="rare" if number >= 1990 else "common") for i in range(4)),
            name=f"pool-{number:04d}",
            allNodes=True,
        )
        for number in range(2000)
    ]
    return {
        "slices": slices,
        "claims": [claim(request("gpu", 2, cel=f'device.attributes["{DRIVER}"].model == "rare"'))],
    }


def shared_capacity() -> Case:
    """100 devices that many allocations share; all but the last are full."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "80Gi"}}
    memory = {"value": "80Gi", "requestPolicy": policy}
    full = {"driver": DRIVER, "pool": "pool-1", "consumedCapacity": {"memory": "75Gi"}}
    return {
        "slices": [pool(*(gpu(i, allowMultipleAllocations=True, memory=memory) for i in range(100)))],
        "claims": [claim(request("gpu", memory="10Gi"))],
        "allocatedShared": [{**full, "device": f"gpu-{i}", "shareID": f"old-{i}"} for i in range(99)],
    }


def bin_packing() -> Case:
    """Nine shares of 30Gi on four devices of 80Gi: two fit on each, the ninth does not."""
    devices = [gpu(i, allowMultipleAllocations=True, memory="80Gi") for i in range(4)]
    return {"slices": [pool(*devices)], "claims": [claim(*(request(f"r{i}", memory="30Gi") for i in range(9)))]}


CASES: dict[str, Callable[[], Case]] = {
    "one device of 8": lambda: of_devices(8, request("gpu")),
    "4 of 8 on one NUMA node, one in use": one_numa_node,
    "7 of 8 partitions, one combination fits": lambda: partitions((3, 1, 1, 1, 1, 1, 1, 1), 7, request("gpu", 7)),
    "4 + 3 of 8 partitions, one combination": lambda: partitions(
        (8, 1, 2, 3, 4, 5, 6, 7), 28, request("a", 4), request("b", 3)
    ),
    "16 of 15 devices, one request": lambda: of_devices(15, request("gpu", 16)),
    "8 requests, 7 devices": lambda: one_too_many(8),
    "12 requests, 11 devices": lambda: one_too_many(12),
    "8 of 33 devices, then none fits": lambda: of_devices(
        33, request("many", 8), request("none", 1, cel=f'device.attributes["{DRIVER}"].index > 99')
    ),
    "32 of 128 devices": lambda: of_devices(128, request("gpu", 32)),
    "firstAvailable, the 8th fits": eight_alternatives,
    "2,000 network-attached pools": network_attached,
    "capacity of 100 shared devices": shared_capacity,
    "9 shares of 30Gi on 4 x 80Gi": bin_packing,
}


def prepare(case: Case) -> Callable[[], tuple[str, int]]:
    """Decode the case; what is returned asks it once."""
    case = {"node": NODE, "classes": [CLASS], **case}
    claims, node, inventory, in_use = claims_of(case), node_of(case), inventory_of(case), in_use_of(case)
    features = Features()

    def ask() -> tuple[str, int]:
        outcome = allocate(
            AllocationRequest(
                claims, node, inventory, in_use, features=features, budget_steps=BUDGET_STEPS, share_ids=share_ids()
            ),
            shortcuts=SEARCHED,
        )
        if isinstance(outcome, Allocated):
            return "allocated", outcome.steps
        return ("exhausted" if isinstance(outcome, BudgetExhausted) else "none"), outcome.steps

    return ask


def measure(case: Case, seconds: float = 0.3) -> dict[str, Any]:
    ask = prepare(case)
    started = time.perf_counter_ns()
    outcome, steps = ask()
    first = time.perf_counter_ns() - started
    times = []
    until = time.perf_counter_ns() + seconds * 1e9
    while len(times) < 5 or (time.perf_counter_ns() < until and len(times) < 2000):
        started = time.perf_counter_ns()
        ask()
        times.append(time.perf_counter_ns() - started)
    return {
        "outcome": outcome,
        "steps": steps,
        "first_us": first / 1000,
        "us": min(times) / 1000,
    }


def ask_go(cases: dict[str, Case]) -> dict[str, Case]:
    from tests.oracle.client import Oracle

    answers = {}
    with Oracle() as oracle:
        for name, case in cases.items():
            question = {
                "kind": "allocate",
                "node": NODE,
                "classes": [CLASS],
                "timeout_ms": 10_000,
                **case,
            }
            answer = oracle.ask({**question, "repeat": 1})
            if answer.get("nanos", 0) < 100_000_000:
                answer = oracle.ask({**question, "repeat": 20})
            answers[name] = answer
    return answers


def compare(with_go: bool) -> list[dict[str, Any]]:
    cases = {name: make() for name, make in CASES.items()}
    go = ask_go(cases) if with_go else {}
    rows = []
    for name, case in cases.items():
        row = {"case": name, **measure(case)}
        answer = go.get(name)
        if answer is not None:
            is_late = "deadline" in answer.get("error", "")
            row["go_outcome"] = "none in 10 s" if is_late else answer["outcome"]
            row["go_us"] = None if is_late else answer["nanos"] / 1000
            row["go_steps"] = answer.get("steps")
            row["go_over_ours"] = None if is_late else row["go_us"] / row["us"]
        rows.append(row)
    return rows


def print_rows(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'case':42} {'outcome':>10} {'steps':>7} {'us':>9} {'first us':>9}"
        f" {'Go us':>10} {'Go steps':>9} {'Go/ours':>8}"
    )
    for row in rows:
        go_us = row.get("go_us")
        print(
            f"{row['case']:42} {row['outcome']:>10} {row['steps']:>7} {row['us']:9.1f} {row['first_us']:9.0f} "
            + (f"{go_us:10.1f}" if go_us is not None else f"{row.get('go_outcome', '-'):>10}")
            + f" {row.get('go_steps') or '-':>9} "
            + (f"{row['go_over_ours']:8.2f}" if row.get("go_over_ours") else f"{'-':>8}")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-go", action="store_true", help="leave the Go allocator out")
    print_rows(compare(with_go=not parser.parse_args().no_go))


if __name__ == "__main__":
    main()
