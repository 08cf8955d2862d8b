"""The API's rules, written without any search and without the allocator: is this allocation allowed?

Works on API JSON. `violations` looks at what an allocation says; it does not judge whether a better one
exists. Small amounts of code are worth more here than speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from tests.allocator.derived import value_of

_SUFFIX = {"": 1, "m": Fraction(1, 1000), "k": 1000, "M": 10**6, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
Id = tuple[str, str, str]


def amount(text: str) -> Fraction:
    digits = text.rstrip("".join(set("".join(_SUFFIX))))
    return Fraction(digits) * _SUFFIX[text[len(digits) :]]


def pool_slices(case: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(slice spec, device) of every device."""
    for slice_ in case["slices"]:
        for device in slice_["spec"].get("devices", ()):
            yield slice_["spec"], device


def has_one_generation(case: Mapping[str, Any]) -> bool:
    """Whether no pool is being replaced: which generation counts for a node is not judged here."""
    generations = {
        (slice_["spec"]["driver"], slice_["spec"]["pool"]["name"], slice_["spec"]["pool"]["generation"])
        for slice_ in case["slices"]
    }
    return len(generations) == len({pool[:2] for pool in generations})


def device_of(case: Mapping[str, Any], id_: Id) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Slices of the newest generation that publish the device for the node.

    A newer generation for other nodes only does not count: the API leaves the old one in force until it is
    replaced.
    """
    node = case["node"]["metadata"]
    found = [
        (spec, device)
        for spec, device in pool_slices(case)
        if (spec["driver"], spec["pool"]["name"], device["name"]) == id_
        and selects(device if spec.get("perDeviceNodeSelection") else spec, node)
    ]
    newest = max((spec["pool"]["generation"] for spec, _ in found), default=0)
    return [(spec, device) for spec, device in found if spec["pool"]["generation"] == newest]


def selects(what: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """The node selection of a slice or a device; only what the generators use."""
    if "nodeName" in what:
        return bool(what["nodeName"] == node["name"])
    if what.get("allNodes"):
        return True
    (term,) = what["nodeSelector"]["nodeSelectorTerms"]
    return all(_meets(node["labels"].get(entry["key"]), entry) for entry in term["matchExpressions"])


def _meets(value: str | None, requirement: Mapping[str, Any]) -> bool:
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case "Gt":
            return value is not None and int(value) > int(requirement["values"][0])
        case operator:
            raise ValueError(operator)


def attribute(device: Mapping[str, Any], driver: str, name: str) -> Any:
    attributes = device.get("attributes", {})
    domain, _, bare = name.partition("/")
    return attributes.get(name) or (attributes.get(bare) if domain == driver else None)


def elements(value: Mapping[str, Any]) -> set[tuple[str, Any]]:
    """A scalar as a set of one, a list as a set; kinds are part of the elements, builds of versions are not.

    Releases before 1.38 tell builds apart; no case of theirs has any.
    """
    ((kind, content),) = value.items()
    if kind == "version":
        content = content.partition("+")[0]
    return {(kind.rstrip("s"), item) for item in content} if isinstance(content, list) else {(kind, content)}


def details_of(claim: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    name, _, sub = label.partition("/")
    for request in claim["spec"]["devices"]["requests"]:
        if request["name"] == name:
            if not sub:
                return request["exactly"]
            return next(entry for entry in request["firstAvailable"] if entry["name"] == sub)
    raise KeyError(label)


def violations(case: Mapping[str, Any], allocations: list[Mapping[str, Any]]) -> list[str]:
    """Every rule an allocation breaks; none when it is allowed (selectors and completeness are not judged)."""
    unpublished = [
        f"{id_} is not published"
        for allocation in allocations
        for result in allocation["devices"].get("results", ())
        if not device_of(case, id_ := (result["driver"], result["pool"], result["device"]))
    ]
    if unpublished:
        return unpublished
    broken: list[str] = []
    held = {(held["driver"], held["pool"], held["device"]) for held in case.get("allocated", ())}
    picks: list[tuple[int, Id, Mapping[str, Any], Mapping[str, Any]]] = []
    for index, (claim, allocation) in enumerate(zip(case["claims"], allocations, strict=True)):
        results = allocation["devices"].get("results", [])
        broken += _wrong_counts(claim, results)
        for result in results:
            id_ = (result["driver"], result["pool"], result["device"])
            picks.append((index, id_, device_of(case, id_)[0][1], result))
        broken += _broken_constraints(case, claim, results)
    can_share = (case.get("features") or {}).get("ConsumableCapacity", True)
    is_shareable = {id_: can_share and bool(device.get("allowMultipleAllocations")) for _, id_, device, _ in picks}
    normal = Counter(id_ for _, id_, _, result in picks if not result.get("adminAccess"))
    broken += [f"{id_} given {count} times" for id_, count in normal.items() if count > 1 and not is_shareable[id_]]
    broken += [f"{id_} is in use" for id_ in normal if id_ in held]
    per_claim = Counter((index, id_) for index, id_, _, _ in picks)
    broken += [
        f"{id_} twice in a claim" for (_, id_), count in per_claim.items() if count > 1 and not is_shareable[id_]
    ]
    broken += _tainted(case, picks)
    broken += _exhausted_capacity(case, picks)
    picked = {id_ for _, id_, _, _ in picks}
    broken += _exhausted_counters(case, picked)
    apart = groups_apart(case, held_in(case) | picked)
    broken += [
        f"counter set {key}: no compatibility group in common" for key in apart if apart[key] & (picked - held_in(case))
    ]
    return broken


def _wrong_counts(claim: Mapping[str, Any], results: list[Mapping[str, Any]]) -> list[str]:
    broken = []
    labels = Counter(result["request"] for result in results)
    for request in claim["spec"]["devices"]["requests"]:
        chosen = [label for label in labels if label.partition("/")[0] == request["name"]]
        if len(chosen) != 1:
            broken.append(f"request {request['name']} is served by {chosen}")
            continue
        details = details_of(claim, chosen[0])
        if details["allocationMode"] == "ExactCount" and labels[chosen[0]] != details["count"]:
            broken.append(f"request {chosen[0]} got {labels[chosen[0]]} devices")
    if len(results) > 32:
        broken.append("more than 32 results")
    return broken


def _broken_constraints(
    case: Mapping[str, Any], claim: Mapping[str, Any], results: list[Mapping[str, Any]]
) -> list[str]:
    broken = []
    for constraint in claim["spec"]["devices"].get("constraints", ()):
        names = constraint.get("requests")
        values = []
        for result in results:
            label = result["request"]
            if names and label not in names and label.partition("/")[0] not in names:
                continue
            name = constraint.get("matchAttribute") or constraint["distinctAttribute"]
            device = device_of(case, (result["driver"], result["pool"], result["device"]))[0][1]
            derived = {one["name"]: one["expression"] for one in details_of(claim, label).get("derivedAttributes", ())}
            value = attribute(device, result["driver"], name)
            if name in derived:
                value = value_of(derived[name], device)
            if value is None:
                broken.append(f"{result['device']} lacks {name}")
                continue
            values.append(elements(value))
        # Without lists a value of unknown kind (a derived list) passes as the only device.
        is_compared = len(values) > 1 or (values and (case.get("features") or {}).get("ListTypeAttributes"))
        if "matchAttribute" in constraint and is_compared and not set.intersection(*values):
            broken.append(f"no common {constraint['matchAttribute']}")
        if "distinctAttribute" in constraint:
            counts = Counter(item for value in values for item in value)
            broken += [f"{item} twice in {constraint['distinctAttribute']}" for item, n in counts.items() if n > 1]
    return broken


def _tainted(case: Mapping[str, Any], picks: list[Any]) -> list[str]:
    if not (case.get("features") or {}).get("DeviceTaints", True):
        return []
    broken = []
    for index, id_, device, result in picks:
        tolerations = details_of(case["claims"][index], result["request"]).get("tolerations", ())
        broken += [
            f"{id_} is tainted with {taint['key']}"
            for taint in device.get("taints", ())
            if taint["effect"] in ("NoSchedule", "NoExecute")
            and not any(_tolerates(toleration, taint) for toleration in tolerations)
        ]
    return broken


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    return (
        (not toleration.get("effect") or toleration["effect"] == taint["effect"])
        and (not toleration.get("key") or toleration["key"] == taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    )


def _exhausted_capacity(case: Mapping[str, Any], picks: list[Any]) -> list[str]:
    if not (case.get("features") or {}).get("ConsumableCapacity", True):
        return []
    used: dict[tuple[Id, str], Fraction] = {}
    for share in case.get("allocatedShared", ()):
        for name, text in by_bare_name(share.get("consumedCapacity", {})).items():
            key = ((share["driver"], share["pool"], share["device"]), name)
            used[key] = used.get(key, Fraction(0)) + amount(text)
    for _, id_, _, result in picks:
        for name, text in by_bare_name(result.get("consumedCapacity", {})).items():
            used[id_, name] = used.get((id_, name), Fraction(0)) + amount(text)
    return [
        f"{id_} gives more {name} than it has"
        for id_, device in {id_: device for _, id_, device, _ in picks}.items()
        for name, capacity in by_bare_name(device.get("capacity", {})).items()
        if device.get("allowMultipleAllocations") and used.get((id_, name), Fraction(0)) > amount(capacity["value"])
    ]


def by_bare_name(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """By names without the driver; of a name that is there in both forms the one with the driver counts."""
    return {name.rpartition("/")[2]: amounts[name] for name in sorted(amounts, key=lambda name: "/" in name)}


def _exhausted_counters(case: Mapping[str, Any], picked: set[Id]) -> list[str]:
    in_use = held_in(case)
    left: dict[tuple[str, str, int, str, str], Fraction] = {}
    for slice_ in case["slices"]:
        spec = slice_["spec"]
        for counter_set in spec.get("sharedCounters", ()):
            for name, counter in counter_set["counters"].items():
                key = (spec["driver"], spec["pool"]["name"], spec["pool"]["generation"], counter_set["name"], name)
                left[key] = amount(counter["value"])
    consumers = set()
    for spec, device in pool_slices(case):
        id_ = (spec["driver"], spec["pool"]["name"], device["name"])
        if id_ not in in_use | picked:
            continue
        for consumed in device.get("consumesCounters", ()):
            for name, counter in consumed["counters"].items():
                key = (*id_[:2], spec["pool"]["generation"], consumed["counterSet"], name)
                if key in left:
                    left[key] -= amount(counter["value"])
                    if id_ in picked - in_use:
                        consumers.add(key)
    return [f"counter {key} is exceeded" for key in sorted(consumers) if left[key] < 0]


def held_in(case: Mapping[str, Any]) -> set[Id]:
    """The devices that the case says are held, whole or a share of them."""
    return {
        (held["driver"], held["pool"], held["device"])
        for held in (*case.get("allocated", ()), *case.get("allocatedShared", ()))
    }


def groups_apart(case: Mapping[str, Any], devices: set[Id]) -> dict[tuple[str, str, int, str], set[Id]]:
    """Counter sets on which these devices draw without a compatibility group in common, with those that do."""
    drawing: dict[tuple[str, str, int, str], dict[Id, set[str]]] = {}
    for spec, device in pool_slices(case):
        id_ = (spec["driver"], spec["pool"]["name"], device["name"])
        for consumed in device.get("consumesCounters", ()) if id_ in devices else ():
            key = (*id_[:2], spec["pool"]["generation"], consumed["counterSet"])
            drawing.setdefault(key, {})[id_] = set(consumed.get("compatibilityGroups") or {""})
    return {key: set(groups) for key, groups in drawing.items() if not set.intersection(*groups.values())}
