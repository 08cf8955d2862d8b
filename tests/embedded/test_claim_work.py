"""What the claim controller and an offline cluster take back from a claim."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.embedded.controllers.claim_work import Release, is_protected, release, reserved_status
from scheduler.model.api_rules import FINALIZER, RESERVED_FOR_MAX
from tests.embedded.rest_client import consumer

P, Q = consumer("p", "1"), consumer("q", "2")
ALLOCATED = {"allocation": {"devices": {}}}


def claim(*reserved: Any, protected: bool = True, deleted: bool = False, allocated: bool = True) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "c", **({"finalizers": [FINALIZER]} if protected else {})}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {**(ALLOCATED if allocated else {}), **({"reservedFor": list(reserved)} if reserved else {})}
    return {"metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("given", "remaining", "wanted"),
    [
        (claim(P, Q), [Q], Release({**ALLOCATED, "reservedFor": [Q]}, drops_finalizer=False)),
        (claim(P), [], Release({}, drops_finalizer=True)),
        (claim(P, protected=False), [], Release(ALLOCATED, drops_finalizer=False)),
        (claim(P), [P], Release(None, drops_finalizer=False)),
        # A scheduler is about to allocate it, or has.
        (claim(allocated=False), [], Release(None, drops_finalizer=False)),
        (claim(), [], Release(None, drops_finalizer=False)),
        (claim(deleted=True), [], Release({}, drops_finalizer=True)),
        (claim(deleted=True, allocated=False), [], Release(None, drops_finalizer=True)),
        (claim(P, deleted=True), [P], Release(None, drops_finalizer=False)),
    ],
)
def test_an_allocation_goes_with_its_last_reservation(given: Any, remaining: list[Any], wanted: Release) -> None:
    assert release(given, remaining, protected=is_protected(given)) == wanted


def test_a_bound_pod_is_reserved_once_and_where_there_is_room() -> None:
    pod = {"metadata": {"name": "p", "uid": "1"}}

    assert reserved_status(claim(Q), pod) == {**ALLOCATED, "reservedFor": [Q, P]}
    assert reserved_status(claim(Q, P), pod) is None
    assert reserved_status(claim(allocated=False), pod) is None
    full = [consumer(str(number), str(number)) for number in range(10, 10 + RESERVED_FOR_MAX)]
    assert reserved_status(claim(*full), pod) is None
