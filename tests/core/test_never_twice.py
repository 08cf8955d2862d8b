"""No more is given out than is published, on the live machine and in `simulate`, whatever slices and statuses say.

The world: a node whose devices spell and sign their capacities and counters in odd ways, claims that hold some of them
by statuses as odd, and pods that ask for more. `tests.integration.invariants` judges, which shares no code with the
scheduler. tests/allocator/test_never_twice.py has the same law of the allocator alone, and the rules one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from allocator import DeviceResult, Features
from scheduler.embedded.kinds.catalog import CLAIM
from scheduler.kube.codec import Codec
from scheduler.model.claim import ResourceClaim
from scheduler.offline import OfflineCluster, SourceObject
from scheduler.offline.playing import play, profiles_with
from scheduler.plugins import default_plugins
from tests.core.rig import Rig
from tests.integration.invariants import FINALIZER, State, Violation, check
from tests.nightly import IS_NIGHT

DRIVER, NODE, NAMESPACE = "gpu.example.com", "node-1", "default"
CODEC = Codec()
Obj = dict[str, Any]

NAMES = st.sampled_from(("memory", f"{DRIVER}/memory"))
ODD = ("-0", "-8", "5.5", "500m", "1e1", "1e99", "9223372036854775808", "1Ei")
PUBLISHED = st.sampled_from(("10", "10", "10", "10", "12", "0", *ODD))
TAKEN = st.sampled_from(("8", "6", "4", "-8", "-8", *ODD))
COUNTED = st.sampled_from(("8", "15", "-8", "-8"))


def by_name(amounts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    """Nearly always one spelling; both are odd, and so is none."""
    one = st.dictionaries(NAMES, amounts, min_size=1, max_size=1)
    return one | one | st.dictionaries(NAMES, amounts, max_size=2)


@dataclass(frozen=True)
class Device:
    is_shared: bool
    capacity: Mapping[str, str]
    counter: str | None


@dataclass(frozen=True)
class Holder:
    device: int
    is_share: bool
    consumed: Mapping[str, str]


@dataclass(frozen=True)
class Wish:
    count: int
    capacity: Mapping[str, str]


@dataclass(frozen=True)
class World:
    devices: tuple[Device, ...]
    counter: str
    holders: tuple[Holder, ...]
    wishes: tuple[Wish, ...]


def worlds() -> st.SearchStrategy[World]:
    devices = st.builds(Device, st.sampled_from((True, True, False)), by_name(PUBLISHED), st.none() | COUNTED)
    holders = st.builds(Holder, st.integers(0, 1), st.sampled_from((True, True, False)), by_name(TAKEN))
    wishes = st.builds(Wish, st.sampled_from((1, 1, 1, 2)), by_name(TAKEN) | st.just({}))
    return st.builds(
        World,
        st.lists(devices, min_size=1, max_size=2).map(tuple),
        PUBLISHED,
        st.lists(holders, max_size=2).map(tuple),
        st.lists(wishes, min_size=1, max_size=4).map(tuple),
    )


def objects(world: World) -> Iterator[Obj]:
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    yield _object("v1", "Node", NODE, status={"allocatable": allocatable, "capacity": allocatable})
    selector = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    yield _object("resource.k8s.io/v1", "DeviceClass", "gpu", spec={"selectors": selector})
    of_pool = {"driver": DRIVER, "nodeName": NODE, "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 2}}
    counters = [{"name": "set", "counters": {"memory": {"value": world.counter}}}]
    yield _object("resource.k8s.io/v1", "ResourceSlice", "counters", spec={**of_pool, "sharedCounters": counters})
    devices = [_device(number, device) for number, device in enumerate(world.devices)]
    yield _object("resource.k8s.io/v1", "ResourceSlice", "devices", spec={**of_pool, "devices": devices})
    for number, holder in enumerate(world.holders):
        yield _held(number, holder)
    for number, wish in enumerate(world.wishes):
        yield from _asking(number, wish)


def _object(version: str, kind: str, name: str, **parts: Any) -> Obj:
    namespaced = {"namespace": NAMESPACE} if kind in ("Pod", "ResourceClaim") else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **namespaced},
        **parts,
    }


def _device(number: int, device: Device) -> Obj:
    made: Obj = {"name": f"gpu-{number}", "capacity": {name: {"value": one} for name, one in device.capacity.items()}}
    if device.is_shared:
        made["allowMultipleAllocations"] = True
    if device.counter is not None:
        made["consumesCounters"] = [{"counterSet": "set", "counters": {"memory": {"value": device.counter}}}]
    return made


def _held(number: int, holder: Holder) -> Obj:
    result: Obj = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": f"gpu-{holder.device}"}
    if holder.is_share:
        result |= {"shareID": f"00000000-0000-4000-8000-{number:012}", "consumedCapacity": dict(holder.consumed)}
    made = _object("resource.k8s.io/v1", "ResourceClaim", f"held-{number}", spec=_spec(Wish(1, {})))
    made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return made


def _asking(number: int, wish: Wish) -> Iterator[Obj]:
    name = f"asks-{number}"
    yield _object("resource.k8s.io/v1", "ResourceClaim", name, spec=_spec(wish))
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "schedulerName": "dra-scheduler",
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    yield _object("v1", "Pod", name, spec=spec)


def _spec(wish: Wish) -> Obj:
    exactly: Obj = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": wish.count}
    if wish.capacity:
        exactly["capacity"] = {"requests": dict(wish.capacity)}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def live(made: Iterable[Obj]) -> list[Obj]:
    """The claims, once the machine that observed these objects has come to rest."""
    rig = Rig(*default_plugins(), is_paranoid=False)
    put = {
        "Node": (CODEC.nodes, rig.server.put_node),
        "DeviceClass": (CODEC.classes, rig.server.put_class),
        "ResourceSlice": (CODEC.slices, rig.server.put_slice),
        "ResourceClaim": (CODEC.claims, rig.server.put_claim),
        "Pod": (CODEC.pods, rig.server.put_pod),
    }
    for one in made:
        kind, store = put[one["kind"]]
        seen = kind.decode_object(json.dumps(one).encode())
        if observed := getattr(getattr(seen, "input", None), "object", None):
            store(observed)
    rig.settle()
    return [_claim(claim, claim.allocation.results) for claim in rig.server.claims.values() if claim.allocation]


def _claim(claim: ResourceClaim, given: Iterable[DeviceResult]) -> Obj:
    results = [
        {
            **{"driver": one.driver, "pool": one.pool, "device": one.device},
            **({"shareID": one.share_id} if one.share_id else {}),
            "consumedCapacity": {name: str(amount) for name, amount in one.consumed_capacity},
        }
        for one in given
    ]
    metadata = {"namespace": NAMESPACE, "name": claim.key.name, "finalizers": [FINALIZER]}
    return {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}


def simulated(made: Iterable[Obj]) -> list[Obj]:
    """As `live`, of the objects that `simulate` leaves behind; its API server takes no amount that is none."""
    clusters: list[OfflineCluster] = []
    play(
        [SourceObject("file.yaml", one) for one in made],
        [],
        features=Features(),
        profile=profiles_with(None, Features(), {}, preempts=True),
        only=clusters.append,
    )
    return list(clusters[0].api.listed(CLAIM.kind_id))


def broken(made: Iterable[Obj], claims: Iterable[Obj]) -> list[Violation]:
    slices = [one for one in made if one["kind"] == "ResourceSlice"]
    allocated = [one for one in claims if (one.get("status") or {}).get("allocation")]
    return check(State(claims=sorted(allocated, key=lambda one: str(one["metadata"]["name"])), slices=slices))


@pytest.mark.parametrize("answer", [live, simulated])
@settings(max_examples=5_000 if IS_NIGHT else 250)
@given(world=worlds())
def test_no_more_is_given_out_than_is_published(answer: Callable[[list[Obj]], list[Obj]], world: World) -> None:
    made = list(objects(world))
    held = [one for one in made if one["kind"] == "ResourceClaim" and "status" in one]
    names = {one["metadata"]["name"] for one in held}

    given_out = [one for one in answer(made) if one["metadata"]["name"] not in names]

    new = set(broken(made, [*held, *given_out])) - set(broken(made, held))
    event(f"{sum(bool((one.get('status') or {}).get('allocation')) for one in given_out)} claims got devices")
    assert not new, "\n".join(map(str, new))
