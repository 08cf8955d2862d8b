"""What 1.37 changed: recorded answers of the Go allocator 0.37.2, behind `Features(kubernetes="1.37")`."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from allocator import ALL_SHORTCUTS, Features, Shortcuts
from tests.allocator.build import answer, claim, device, picked, pool, request
from tests.allocator.cases import ask, features_of
from tests.nightly import fifth

DATA = Path(__file__).parent / "data" / "cases-1.37.json.gz"


def recorded() -> list[dict[str, Any]]:
    with gzip.open(DATA) as file:
        cases: list[dict[str, Any]] = json.load(file)["cases"]
        return cases


@pytest.mark.slow
@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, Shortcuts.none()], ids=["shortcuts-on", "shortcuts-off"])
def test_answers_equal_the_recorded_ones(shortcuts: Shortcuts) -> None:
    wrong = {}
    for case in recorded() if shortcuts == ALL_SHORTCUTS else fifth(recorded()):
        got = ask(case, features=features_of(case, kubernetes="1.37"), shortcuts=shortcuts)
        want = case["expect"]
        if any(got.get(key) != want.get(key) for key in ("outcome", "allocations", "error")):
            wrong[case["name"]] = (got, want)

    assert wrong == {}


@pytest.mark.slow
def test_some_answers_are_others_than_those_of_1_36() -> None:
    asked = ((ask(case), case["expect"]) for case in recorded())
    changed = (got for got, want in asked if any(got.get(key) != want.get(key) for key in ("outcome", "allocations")))

    assert len(list(islice(changed, 20))) == 20


def test_slices_with_compatibility_groups_are_left_out_where_the_gate_is_off() -> None:
    consumed = device("a", counters={"memory": 1})
    consumed["consumesCounters"][0]["compatibilityGroups"] = ["x"]
    slices = [pool(counters={"memory": 8}, size=2, slice_name="counters"), pool(consumed, size=2, slice_name="s")]

    assert picked(answer(slices, [claim(request())])) == ["req-0=a"]
    assert picked(answer(slices, [claim(request())], features=Features(compatibility_groups=False))) == ["none"]


def test_all_lists_devices_that_are_too_full_and_fails_on_them() -> None:
    """1.36 leaves a device without room out of "all"; 1.37 counts it in, so the request cannot be served."""
    devices = [device(name, memory={"value": "8Gi"}, allowMultipleAllocations=True) for name in ("full", "free")]
    shared = [
        {
            "driver": "driver-a",
            "pool": "pool-1",
            "device": "full",
            "shareID": "old",
            "consumedCapacity": {"memory": "8Gi"},
        }
    ]
    wanted = [claim(request(count=None, memory="2Gi"))]

    assert picked(answer([pool(*devices)], wanted, allocatedShared=shared)) == ["req-0=free"]
    assert picked(answer([pool(*devices)], wanted, allocatedShared=shared, features=Features(kubernetes="1.37"))) == [
        "none"
    ]


def test_errors_name_the_device_and_give_a_hint() -> None:
    wanted = [claim(request(cel='device.attributes["driver-a"].missing'))]

    assert picked(answer([pool(device("a"))], wanted, features=Features(kubernetes="1.37"))) == [
        "claim default/claim-0: selector #0 on device driver-a/pool-1/a: CEL runtime error: no such key: missing. "
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
        "optional fields"
    ]


def test_other_versions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.35"):
        Features(kubernetes="1.35")
