"""What upstream's allocator did wrong in 1.36 and has mended in 1.37.x: worlds that show it, asked of both releases.

docs/differences.md has the list, with what shows those that are not the allocator's.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.allocator.build import DRIVER, asks, case, claim, device, first_of, picked, pool, request
from tests.allocator.cases import ask, features_of
from tests.oracle.client import Oracle
from tests.oracle.fixture import each_oracle  # noqa: F401 - a fixture

BEYOND = 2**63 - 1
TOO_MANY = (
    f"claim default/claim-0, request r0: adding {BEYOND} devices exceeds the claim limit of 32, with 0 already "
    "accounted for"
)
TOO_MANY_136 = f"claim default/claim-0: number of requested devices {2 * BEYOND} exceeds the claim limit of 32"


def share(name: str) -> dict[str, Any]:
    return device(name, memory={"value": "8"}, allowMultipleAllocations=True)


def held(consumed: str) -> dict[str, Any]:
    one = {
        "driver": DRIVER,
        "pool": "pool-1",
        "device": "a",
        "shareID": "old",
        "consumedCapacity": {"memory": consumed},
    }
    return {"allocatedShared": [one]}


TWO_DRIVERS = [
    pool(counters={"memory": 8}, driver="driver-a", size=2, slice_name="a-counters"),
    pool(device("a", counters={"memory": 8}), driver="driver-a", size=2, slice_name="a-devices"),
    pool(counters={"memory": 8}, driver="driver-b", size=2, slice_name="b-counters"),
    pool(device("b", counters={"memory": 8}), driver="driver-b", size=2, slice_name="b-devices"),
]
FOUR_SLOTS = [pool(device("a", slot=1), device("b", slot=2), device("c", slot=1), device("d", slot=3))]
DISTINCT = [{"distinctAttribute": "driver-a/slot"}]
# slices, claim, what is held; what 1.36 says, what 1.37 says; what we say where the release is 1.36
WORLDS = {
    "counts beyond an int (kubernetes/kubernetes#141922)": (
        [pool(device("a"))],
        claim(request("r0", BEYOND), request("r1", BEYOND)),
        {},
        ["panic"],
        [TOO_MANY],
        [TOO_MANY_136],
    ),
    "the same among alternatives": (
        [pool(device("a"))],
        claim(first_of("r0", asks(BEYOND), asks(BEYOND)), request("r1", BEYOND)),
        {},
        ["panic"],
        [TOO_MANY],
        [TOO_MANY_136],
    ),
    "All devices, of which one has too little left (#140769)": (
        [pool(share("a"), share("b"))],
        claim(request("r0", None, memory="4")),
        held("6"),
        ["r0=b"],
        ["none"],
        ["r0=b"],
    ),
    "two drivers with pools of one name (#140435)": (
        TWO_DRIVERS,
        claim(request("r0", cls="class-a"), request("r1", cls="class-b")),
        {},
        ["none"],
        ["r0=a", "r1=b"],
        ["r0=a", "r1=b"],
    ),
    "a value that is not the last device's (#140600)": (
        FOUR_SLOTS,
        claim(request("r0", 3), constraints=DISTINCT),
        {},
        ["r0=a", "r0=b", "r0=c"],
        ["r0=a", "r0=b", "r0=d"],
        ["r0=a", "r0=b", "r0=d"],
    ),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.oracle
def test_both_releases_and_ours(each_oracle: Oracle, world: str) -> None:  # noqa: F811
    slices, wanted, more, of_136, of_137, ours_136 = WORLDS[world]
    question = case(slices, [wanted], **more)
    theirs = each_oracle.ask_all([{**question, "kind": "allocate", "timeout_ms": 5_000}])[0]
    is_136 = each_oracle.minor == "1.36"
    assert said(theirs) == (of_136 if is_136 else of_137)
    assert said(ask(question, features=features_of(question, kubernetes=each_oracle.minor))) == (
        ours_136 if is_136 else of_137
    )


@pytest.mark.parametrize("world", WORLDS)
def test_ours(world: str) -> None:
    slices, wanted, more, _, of_137, _ = WORLDS[world]
    question = case(slices, [wanted], **more)
    assert said(ask(question, features=features_of(question, kubernetes="1.37"))) == of_137


def said(reply: dict[str, Any]) -> list[str]:
    return [reply["error"]] if reply.get("error") and reply["outcome"] != "panic" else picked(reply)
