"""`placement`: a rank chooses among solutions and changes no verdict; off, it changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from allocator.placement.ranks import Strategy
from scheduler.config.profile_config import ProfileConfig
from tests import builders
from tests.core.rig import Rig

SHARED = {"default": "100", "validRange": {"min": "10", "step": "10"}}
RANKED = [one for one in Strategy if one is not Strategy.FIRST_FIT]


def profile(placement: str, **plugins: Any) -> Any:
    entry = {"name": "DynamicResources", "args": {"placement": placement}}
    given = {"schedulerName": builders.SCHEDULER, "pluginConfig": [entry], **plugins}
    return ProfileConfig.model_validate(given).profile()


def rig_with(placement: str) -> Rig:
    return Rig(*profile(placement).plugins)


def device(name: str, *, is_shared: bool) -> dict[str, Any]:
    found = builders.device_object(name)
    if is_shared:
        memory = {"value": "100", "requestPolicy": SHARED}
        found |= {"allowMultipleAllocations": True, "capacity": {"memory": memory}}
    return found


def fill(rig: Rig, seed: int) -> list[str]:
    """A small cluster and pods that come one by one; the names of those that were bound."""
    draw = random.Random(seed)
    names = [f"n{number}" for number in range(draw.randint(1, 4))]
    is_shared = draw.random() < 0.5
    rig.server.put_class(builders.device_class())
    for name in names:
        rig.add_nodes(name)
        devices = tuple(device(f"gpu-{index}", is_shared=is_shared) for index in range(draw.randint(1, 3)))
        rig.server.put_slice(builders.resource_slice(f"s-{name}", node=name, devices=devices))
    bound = []
    for number in range(8):
        exactly: dict[str, Any] = {
            "deviceClassName": builders.CLASS,
            "allocationMode": "ExactCount",
            "count": draw.randint(1, 2),
        }
        if is_shared:
            exactly["capacity"] = {"requests": {"memory": str(10 * draw.randint(1, 10))}}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        rig.server.put_claim(builders.claim(f"c{number}", spec=spec))
        rig.add_pod(f"p{number}", claims=(f"c{number}",))
        rig.settle()
        if rig.node_of(f"p{number}") is not None:
            bound.append(f"p{number}")
    return bound


@pytest.mark.parametrize("seed", range(12))
def test_the_first_pod_that_does_not_fit_fits_nowhere_else_either(seed: int) -> None:
    """What a rank has led to is judged by first fit, too: both find a place for a pod, or neither does."""
    for strategy in RANKED:
        ranked = rig_with(strategy.value)
        bound = fill(ranked, seed)
        assert bound, strategy
        again = rig_with("firstFit")  # observes the state that the rank has led to, and tries all that waits
        again.server = ranked.server
        again.settle()
        assert [f"p{number}" for number in range(8) if again.node_of(f"p{number}") is not None] == bound, strategy


def test_off_it_scores_and_orders_nothing() -> None:
    plain, written = ProfileConfig.model_validate({"schedulerName": "a"}).profile(), profile("firstFit")
    assert [one.name for one in plain.plugins] == [one.name for one in written.plugins]
    assert plain.order == written.order


def test_what_spreads_does_not_score_unless_it_is_weighed() -> None:
    score = profile("fragmentation").order["Score"]
    assert "DynamicResources" in score
    assert "NodeAffinity" in score
    assert not {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} & {*score}
    weighed = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}]}}
    assert "NodeResourcesFit" in profile("fragmentation", plugins=weighed).order["Score"]


def test_an_unknown_placement_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="firstFit"):
        profile("tetris")
