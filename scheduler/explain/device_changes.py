"""Changes around devices: who has them, their taints, their pools, what their driver has not done yet.

Rules of this module
  1. What a driver must do is asked as if it had done it: a pool counts as complete with the slices that are there.

Not here: what the pod's claims ask for (`claim_changes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from scheduler.explain.objects import Objects
from scheduler.explain.world import Change, Obj
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL

_USERS_MAX: Final = 256
_NAMED_MAX: Final = 3


def device_changes(objects: Objects) -> Iterator[Change]:
    """All candidates of this module."""
    yield from _taints(objects)
    yield from _taint_rules(objects)
    yield from _pools(objects)
    yield from _binding_conditions(objects)
    yield from _own_claims(objects)
    yield from _admin_access(objects)
    yield from _holders(objects)


def _taints(objects: Objects) -> Iterator[Change]:
    """A toleration for each distinct taint of devices."""
    taints: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for _, _, spec, device in objects.devices():
        for taint in device.get("taints") or ():
            which = str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect"))
            taints[which].append(f"{(spec.get('pool') or {}).get('name')}/{device.get('name')}")
    for (key, value, effect), names in sorted(taints.items()):
        shown = f"{key}{'=' + value if value else ''}:{effect}"
        cause = f"{_some('device', names)} {'has' if len(names) == 1 else 'have'} the taint {shown}"
        yield from _tolerated(objects, key, value, effect, cause)


def _taint_rules(objects: Objects) -> Iterator[Change]:
    for _, rule in objects.of("DeviceTaintRule"):
        taint = (rule.get("spec") or {}).get("taint") or {}
        key, value, effect = str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect"))
        cause = f"DeviceTaintRule {rule['metadata'].get('name')} taints devices with {key}:{effect}"
        yield from _tolerated(objects, key, value, effect, cause)


def _tolerated(objects: Objects, key: str, value: str, effect: str, cause: str) -> Iterator[Change]:
    toleration = {"key": key, "operator": "Equal" if value else "Exists", "effect": effect}
    if value:
        toleration["value"] = value
    for request in objects.requests:

        def edit(obj: Obj, request: Any = request) -> None:
            request.of(obj).setdefault("tolerations", []).append(toleration)

        text = f"add the toleration {toleration_text(toleration)} to {request.label}, or have the taint removed"
        yield Change(
            "device-toleration",
            2,
            f"{cause}, which {request.label} does not tolerate",
            text,
            ((request.source.place, edit),),
        )


def toleration_text(toleration: Mapping[str, Any]) -> str:
    """A toleration as YAML in one line."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in toleration.items()) + "}"


def _pools(objects: Objects) -> Iterator[Change]:
    pools: dict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
    for index, obj in objects.of("ResourceSlice"):
        pool = obj["spec"].get("pool") or {}
        pools[str(obj["spec"].get("driver")), str(pool.get("name"))].append((index, obj))
    for (driver, name), slices in sorted(pools.items()):
        newest = max(int(_pool(obj).get("generation", 0)) for _, obj in slices)
        current = [(index, obj) for index, obj in slices if int(_pool(obj).get("generation", 0)) == newest]
        wanted = max(int(_pool(obj).get("resourceSliceCount", 1)) for _, obj in current)
        if len(current) < wanted:
            yield _incomplete(f"{driver}/{name}", newest, wanted, current)
        old = [(index, obj) for index, obj in slices if int(_pool(obj).get("generation", 0)) < newest]
        if old:
            yield _superseded(f"{driver}/{name}", newest, old, slices)


def _pool(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj["spec"].get("pool") or {}


def _incomplete(pool: str, generation: int, wanted: int, current: list[tuple[int, Mapping[str, Any]]]) -> Change:
    def edit(obj: Obj) -> None:
        obj["spec"]["pool"]["resourceSliceCount"] = len(current)

    names = ", ".join(sorted(str(obj["metadata"].get("name")) for _, obj in current)[:_NAMED_MAX])
    missing = wanted - len(current)
    return Change(
        "incomplete-pool",
        5,
        f"pool {pool} is incomplete: of generation {generation} there are {len(current)} of {wanted} ResourceSlices "
        f"({names})",
        f"the driver must publish the {missing} missing ResourceSlice{'s' if missing > 1 else ''} "
        f"of generation {generation} of pool {pool}; look at its log",
        tuple((index, edit) for index, _ in current),
    )


def _superseded(
    pool: str, newest: int, old: list[tuple[int, Mapping[str, Any]]], slices: list[tuple[int, Mapping[str, Any]]]
) -> Change:
    def edit(obj: Obj) -> None:
        obj["spec"]["pool"] |= {"generation": newest, "resourceSliceCount": len(slices)}

    names = ", ".join(sorted(str(obj["metadata"].get("name")) for _, obj in old)[:_NAMED_MAX])
    return Change(
        "superseded-slice",
        5,
        f"ResourceSlice {names} of pool {pool} is of an older generation: {newest} counts",
        f"the driver must publish the devices of {names} again in generation {newest} of pool {pool}",
        tuple((index, edit) for index, _ in slices),
    )


def _binding_conditions(objects: Objects) -> Iterator[Change]:
    conditions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for index, _, spec, device in objects.devices():
        for condition in device.get("bindingConditions") or ():
            conditions[str(spec.get("driver")), str(condition)].add(index)
    for (driver, condition), indexes in sorted(conditions.items()):

        def edit(obj: Obj, condition: str = condition) -> None:
            for device in obj["spec"]["devices"]:
                left = [one for one in device.get("bindingConditions") or () if one != condition]
                device["bindingConditions"] = left
                if not left:
                    device.pop("bindingConditions")
                    device.pop("bindingFailureConditions", None)

        def edit_claim(obj: Obj, condition: str = condition) -> None:
            for result in obj["status"]["allocation"]["devices"]["results"]:
                result["bindingConditions"] = [one for one in result.get("bindingConditions") or () if one != condition]

        waiting = [index for index, claim in objects.claims() if condition in _awaited(claim)]
        yield Change(
            "binding-condition",
            2,
            f"the driver {driver} has not set the binding condition {condition}, for which its devices wait",
            f"the driver {driver} must set the condition {condition} in the claim's status.devices; look at its log",
            (*((index, edit) for index in sorted(indexes)), *((index, edit_claim) for index in waiting)),
        )


def _awaited(claim: Mapping[str, Any]) -> set[str]:
    """The conditions for which the devices that the claim has wait, or did."""
    results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ()
    return {str(one) for result in results for one in result.get("bindingConditions") or ()}


def _own_claims(objects: Objects) -> Iterator[Change]:
    """Claims of the pod that are full, or were allocated where the pod cannot run."""
    for index, claim in objects.claims():
        status = claim.get("status") or {}
        users, name = status.get("reservedFor") or (), f"{objects.world.pod[0]}/{claim['metadata']['name']}"
        if len(users) >= _USERS_MAX:
            yield Change(
                "full-claim",
                4,
                f"ResourceClaim {name} is full: {len(users)} pods use it, and no claim can have more than {_USERS_MAX}",
                f"give the pod a claim of its own, or wait until one of the {len(users)} pods of {name} ends",
                ((index, lambda obj: obj["status"]["reservedFor"].pop()),),
            )
        if status.get("allocation"):
            where = _pinned_to(status["allocation"])
            yield Change(
                "pinned-claim",
                6,
                f"ResourceClaim {name} is allocated{where}, so the pod can run nowhere else",
                f"release ResourceClaim {name} (used by {_users(objects, claim)}), or give the pod a claim of its own",
                ((index, _released),),
            )


def _pinned_to(allocation: Mapping[str, Any]) -> str:
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    values = [value for term in terms for field in term.get("matchFields") or () for value in field.get("values") or ()]
    return f" on node {', '.join(values)}" if values else ""


def _released(obj: Obj) -> None:
    obj.pop("status", None)


def _admin_access(objects: Objects) -> Iterator[Change]:
    namespace = objects.world.pod[0]
    if not any(request.body.get("adminAccess") for request in objects.requests):
        return
    if found := objects.find("Namespace", namespace):

        def edit(obj: Obj) -> None:
            labels = obj["metadata"].get("labels") or {}
            obj["metadata"]["labels"] = {**labels, ADMIN_ACCESS_LABEL: "true"}

        cause = f"a claim asks for admin access, and Namespace {namespace} has no label {ADMIN_ACCESS_LABEL}"
        yield Change(
            "namespace-label",
            2,
            cause,
            f"kubectl label namespace {namespace} {ADMIN_ACCESS_LABEL}=true",
            ((found[0], edit),),
        )


def _holders(objects: Objects) -> Iterator[Change]:
    """Claims of others that hold devices: those of the least important and youngest pods first."""
    own = {index for index, _ in objects.claims()}
    found = []
    for index, claim in objects.of("ResourceClaim"):
        allocation = (claim.get("status") or {}).get("allocation")
        if index in own or not allocation:
            continue
        results = (allocation.get("devices") or {}).get("results") or ()
        names = [f"{one.get('driver')}/{one.get('pool')}/{one.get('device')}" for one in results]
        pods = _pods_of(objects, claim)
        priority = max((int(pod["spec"].get("priority") or 0) for _, pod in pods), default=-(2**31))
        found.append((priority, -_created(claim), index, claim, names, pods))
    for _, _, index, claim, names, pods in sorted(found, key=lambda one: one[:3]):
        key = f"{claim['metadata'].get('namespace', 'default')}/{claim['metadata']['name']}"
        users = _users(objects, claim)
        edits = [(index, _released), *((place, _ended) for place, _ in pods)]
        verb = "is" if len(names) == 1 else "are"
        cause = f"{_some('device', names)} {verb} in use by ResourceClaim {key} ({users})"
        yield Change(
            "freed-device",
            6,
            cause,
            f"free {_some('device', names)}: end {users}, whose ResourceClaim is {key}",
            tuple(edits),
        )


def _ended(obj: Obj) -> None:
    obj["status"] = {**(obj.get("status") or {}), "phase": "Succeeded"}


def _pods_of(objects: Objects, claim: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    namespace = claim["metadata"].get("namespace", "default")
    names = [str(one.get("name")) for one in (claim.get("status") or {}).get("reservedFor") or ()]
    found = (objects.find("Pod", name, namespace) for name in names)
    return [one for one in found if one is not None]


def _users(objects: Objects, claim: Mapping[str, Any]) -> str:
    """Who uses a claim: pods with their priority and age, as far as they are there."""
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    there = {pod["metadata"]["name"]: pod for _, pod in _pods_of(objects, claim)}
    texts = []
    for one in reserved[:_NAMED_MAX]:
        name = str(one.get("name"))
        texts.append(f"pod {name}{_facts(objects, there[name]) if name in there else ''}")
    if len(reserved) > _NAMED_MAX:
        texts.append(f"{len(reserved) - _NAMED_MAX} more")
    return ", ".join(texts) or "no pod"


def _facts(objects: Objects, pod: Mapping[str, Any]) -> str:
    parts = [f"priority {pod['spec'].get('priority') or 0}"]
    if created := _created(pod):
        seconds = max(0, objects.world.now_ms // 1000 - created)
        unit, size = next((one for one in (("d", 86_400), ("h", 3_600), ("m", 60)) if seconds >= one[1]), ("s", 1))
        parts.append(f"age {seconds // size}{unit}")
    return f" ({', '.join(parts)})"


def _created(obj: Mapping[str, Any]) -> int:
    """Seconds of the Unix epoch, 0 where nothing is said."""
    try:
        return int(datetime.fromisoformat(str(obj["metadata"].get("creationTimestamp"))).timestamp())
    except ValueError:
        return 0


def _some(kind: str, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:_NAMED_MAX])}{more}"
