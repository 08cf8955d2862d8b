"""What somebody could do about a pod that waits, read from the objects alone, and how much each asks of people.

The weights are those of the tables (`scheduler.why.kinds.FIXES`); nothing else of the scheduler is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from scheduler.why.kinds import FIXES
from scheduler.why.reasons import Whom
from tests.explain.law_worlds import DRIVER, NODE_TAINT, SELECTORS, Small, is_asking, is_mate
from tests.explain.planted.advice import comes_back
from tests.explain.planted.following import without_pods
from tests.explain.planted.shapes import Obj

Objects: TypeAlias = list[Obj]
Act: TypeAlias = Callable[[Obj], object]


class Edit(NamedTuple):
    """One change that one person makes at one place."""

    what: str
    weight: tuple[Whom, int]
    act: Callable[[Objects], Objects]

    def made(self, objects: Objects) -> Objects:
        return self.act(copy.deepcopy(objects))


def edits(world: Small, objects: Objects) -> list[Edit]:
    """All that there are, the lightest first."""
    found = [*_of_nodes(objects), *_of_the_pod(world), *_of_the_claim(world), *_of_holders(objects)]
    return sorted(found, key=lambda one: one.weight)


def _of_nodes(objects: Objects) -> Iterator[Edit]:
    for obj in objects:
        if obj["kind"] != "Node":
            continue
        name, spec = obj["metadata"]["name"], obj["spec"]
        is_it = {"Node": name}
        if spec.get("unschedulable"):
            yield _edit("node-uncordoned", name, is_it, lambda one: one["spec"].pop("unschedulable"))
        if spec.get("taints"):
            yield _edit("taint-removed", name, is_it, lambda one: one["spec"].pop("taints"))


def _of_the_pod(world: Small) -> Iterator[Edit]:
    pods = {"Pod": ""}
    if any(host.is_tainted for host in world.hosts):
        tolerations = [{"key": NODE_TAINT, "operator": "Exists"}]
        yield _edit("toleration-added", "", pods, lambda one: one["spec"].update(tolerations=tolerations))
    for cores in range(1, world.cores):

        def ask(one: Obj, cores: int = cores) -> None:
            one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cores)

        yield _edit("amount-lowered", f"cpu {cores}", pods, ask)
    if world.is_gated:
        yield _edit("gate-removed", "", pods, lambda one: one["spec"].pop("schedulingGates", None))
    if world.zone:
        yield _edit("label-dropped", "", pods, lambda one: one["spec"].pop("nodeSelector"))
        for zone in {host.zone for host in world.hosts} - {"", world.zone}:

            def select(one: Obj, zone: str = zone) -> None:
                one["spec"]["nodeSelector"]["zone"] = zone

            yield _edit("written", f"zone {zone}", pods, select, more=2)


def _of_the_claim(world: Small) -> Iterator[Edit]:
    for place, count in enumerate(world.counts):

        def request(change: Callable[[Obj], object], place: int = place) -> Act:
            return lambda one: change(_devices(one)["requests"][place]["exactly"])

        for less in range(1, count):
            yield _edit("ask-for-fewer", f"{place} {less}", CLAIM, request(lambda one, n=less: one.update(count=n)))
        yield _edit("tolerate-device-taint", f"{place}", CLAIM, request(lambda one: one.update(_TOLERATES)))
        for less in (10, 30) if world.shape == "shares" else ():
            memory = {"requests": {"memory": f"{less}Gi"}}
            if less < world.share:
                yield _edit(
                    "ask-for-less", f"{place} {less}", CLAIM, request(lambda one, c=memory: one.update(capacity=c))
                )
        if not world.selector:
            continue
        yield _edit("selector-dropped", f"{place}", CLAIM, request(lambda one: one.pop("selectors")))
        for name, more in _meant(world).items():
            written = [{"cel": {"expression": SELECTORS[name]}}]
            change = request(lambda one, w=written: one.update(selectors=w))
            yield _edit("expression-mended", f"{place} {name}", CLAIM, change, more=more)
    if world.constraint and world.shape == "numa":
        yield _edit("drop-constraint", DRIVER, CLAIM, lambda one: _devices(one).pop("constraints"))


_TOLERATES: Final = {"tolerations": [{"operator": "Exists"}]}
CLAIM: Final = {"ResourceClaim": "gpus", "ResourceClaimTemplate": "gpus"}


def _meant(world: Small) -> dict[str, int]:
    """What a selector that no device matches may have been meant to be, and how much more that asks than a name."""
    if world.selector == "attribute-typo":
        return {"value": 0}
    there = {gpu.model for host in world.hosts for gpu in host.gpus}
    if world.selector == "value-typo" and "A100" in there:
        return {"value": 1}
    wants = {"value": "A100", "other": "H100"}.get(world.selector)
    return {} if wants in there else {name: 3 for name in ("value", "other") if name != world.selector}


def whose(pod: Obj) -> Whom:
    """Whom it concerns that the pod ends; the one that asks has priority 0."""
    if pod["metadata"]["namespace"] != "default":
        return Whom.OTHERS
    return Whom.ABOVE if pod["spec"].get("priority", 0) > 0 else Whom.OWN


def _of_holders(objects: Objects) -> Iterator[Edit]:
    there = {one["metadata"]["uid"] for one in objects if one["kind"] == "Pod" and "uid" in one["metadata"]}
    for obj in objects:
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        if obj["kind"] == "Pod" and "nodeName" in obj["spec"] and not comes_back(obj) and not is_mate(obj):
            weight = whose(obj), FIXES["pods-ended"].size
            yield Edit(f"end {name}", weight, lambda made, key=(namespace, name): without_pods(made, {key}))
        users = obj.get("status", {}).get("reservedFor", ()) if obj["kind"] == "ResourceClaim" else ()
        if users and not any(one["uid"] in there for one in users):
            yield _edit("release-claim", name, {"ResourceClaim": name}, lambda one: one.update(status={}))


def _edit(kind: str, what: str, of: Mapping[str, str], act: Act, *, more: int = 0) -> Edit:
    """Of the objects of these kinds and names; without a name, of the asked pod and its mates."""

    def made(objects: Objects) -> Objects:
        for obj in objects:
            if obj["kind"] in of and (
                obj["metadata"]["name"] == of[obj["kind"]] if of[obj["kind"]] else is_asking(obj)
            ):
                act(obj)
        return objects

    return Edit(f"{kind} {what}".strip(), (Whom.OWN, FIXES[kind].size + more), made)


def _devices(claim: Obj) -> Obj:
    spec = claim["spec"]
    devices: Obj = spec.get("spec", spec)["devices"]
    return devices
