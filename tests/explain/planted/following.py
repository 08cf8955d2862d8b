"""The objects after an advice was followed to the letter, so that the pod can be asked about again.

Written from what the advice says, not from how it is found: names and amounts that are not in the objects raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from tests.explain.planted.shapes import Obj, slice_of

Objects: TypeAlias = list[Obj]
_NAME: Final = r"([a-z0-9-]+)/([a-z0-9.-]+)"
_REQUEST: Final = rf"request (\S+) of (ResourceClaim|ResourceClaimTemplate) {_NAME}$"


def followed(objects: Objects, change: str) -> Objects | None:
    """What comes of each step, one after another; `None` where one has words that are not known here."""
    made: Objects = json.loads(json.dumps(objects))
    for step in re.sub("^(to make it fit|or): ", "", change).split("; then "):
        found = next(((act, match) for words, act in _ACTS if (match := re.search(words, step))), None)
        if found is None:
            return None
        act, match = found
        made = act(made, match)
    return made


def _end(objects: Objects, match: re.Match[str]) -> Objects:
    ended = set(re.findall(_NAME, match[1]))
    assert ended <= {_key(obj) for obj in objects if obj["kind"] == "Pod"}, ended
    return without_pods(objects, ended)


def without_pods(objects: Objects, ended: set[tuple[str, str]]) -> Objects:
    """The pods go; kube-controller-manager lets go of their claims, also of those users that were gone before."""
    left = [obj for obj in objects if not (obj["kind"] == "Pod" and _key(obj) in ended)]
    running = {obj["metadata"].get("uid") for obj in left if obj["kind"] == "Pod"}
    for claim in left:
        users = claim.get("status", {}).get("reservedFor", ()) if claim["kind"] == "ResourceClaim" else ()
        if any((claim["metadata"]["namespace"], one["name"]) in ended for one in users):
            stay = [one for one in users if one["uid"] in running]
            claim["status"] = {**claim["status"], "reservedFor": stay} if stay else {}
    return left


def _ask_for_fewer(objects: Objects, match: re.Match[str]) -> Objects:
    count, before, name, kind, *key = match.groups()
    request = _request(objects, name, kind, (key[0], key[1]))
    assert request.get("count", 1) == int(before), request
    request["count"] = int(count)
    return objects


def _ask_for_less(objects: Objects, match: re.Match[str]) -> Objects:
    what, amount, before, name, kind, *key = match.groups()
    amounts = _request(objects, name, kind, (key[0], key[1]))["capacity"]["requests"]
    assert amounts[what] == before, amounts
    amounts[what] = amount
    return objects


def _select_another_value(objects: Objects, match: re.Match[str]) -> Objects:
    value, before, name, kind, *key = match.groups()
    request = _request(objects, name, kind, (key[0], key[1]))
    for selector in request["selectors"]:
        selector["cel"]["expression"] = selector["cel"]["expression"].replace(f"'{before}'", f"'{value}'")
    return objects


def _write_selector(objects: Objects, match: re.Match[str]) -> Objects:
    name, kind, namespace, claim, expression = match.groups()
    selectors = _request(objects, name, kind, (namespace, claim))["selectors"]
    assert len(selectors) == 1, selectors
    selectors[0]["cel"]["expression"] = expression
    return objects


def _drop_selector(objects: Objects, match: re.Match[str]) -> Objects:
    what, expression, name, kind, *key = match.groups()
    request = _request(objects, name, kind, (key[0], key[1]))
    for selector in request["selectors"]:
        terms = selector["cel"]["expression"].split(" && ") if what == "term" else [selector["cel"]["expression"]]
        assert expression in terms, (expression, terms)
        selector["cel"]["expression"] = " && ".join(one for one in terms if one != expression) or "true"
    return objects


def _drop_constraint(objects: Objects, match: re.Match[str]) -> Objects:
    field, attribute, kind, *key = match.groups()
    devices = _devices(objects, kind, (key[0], key[1]))
    left = [one for one in devices["constraints"] if one.get(field) != attribute]
    assert len(left) < len(devices["constraints"]), devices
    devices["constraints"] = left
    return objects


def _ask_of_node(objects: Objects, match: re.Match[str]) -> Objects:
    what, amount, before, kind, *key = match.groups()
    for obj in _pods_of(objects, kind, (key[0], key[1])):
        requests = obj["spec"]["containers"][0]["resources"]["requests"]
        assert requests[what] == before, requests
        requests[what] = amount
    return objects


def _take_port(objects: Objects, match: re.Match[str]) -> Objects:
    port, _, kind, *key = match.groups()
    for obj in _pods_of(objects, kind, (key[0], key[1])):
        obj["spec"]["containers"][0]["ports"][0]["hostPort"] = int(port)
    return objects


def _select_node(objects: Objects, match: re.Match[str]) -> Objects:
    label, value, kind, *key = match.groups()
    for obj in _pods_of(objects, kind, (key[0], key[1])):
        obj["spec"]["nodeSelector"][label] = value
    return objects


def _select_no_node(objects: Objects, match: re.Match[str]) -> Objects:
    label, kind, *key = match.groups()
    for obj in _pods_of(objects, kind, (key[0], key[1])):
        del obj["spec"]["nodeSelector"][label]
    return objects


def _uncordon(objects: Objects, match: re.Match[str]) -> Objects:
    for obj in objects:
        if obj["kind"] == "Node" and obj["metadata"]["name"] == match[1]:
            obj["spec"]["unschedulable"] = False
    return objects


def _tolerate(objects: Objects, match: re.Match[str]) -> Objects:
    fields, rest = match.groups()
    toleration = dict(field.split(": ") for field in fields.split(", "))
    of_request = re.match(rf"request (\S+) of (ResourceClaim|ResourceClaimTemplate) {_NAME}", rest)
    of_pod = re.match(rf"(\w+) {_NAME}", rest)
    if of_request:
        name, kind, *key = of_request.groups()
        tolerating = [_request(objects, name, kind, (key[0], key[1]))]
    else:
        assert of_pod, rest
        kind, *key = of_pod.groups()
        tolerating = [obj["spec"] for obj in _pods_of(objects, kind, (key[0], key[1]))]
    assert tolerating, rest
    for at in tolerating:
        at["tolerations"] = [*at.get("tolerations", ()), toleration]
    return objects


def _untaint(objects: Objects, match: re.Match[str]) -> Objects:
    name, key, effect = match.groups()
    spec = _node(objects, name)["spec"]
    left = [one for one in spec["taints"] if (one["key"], one["effect"]) != (key, effect)]
    assert len(left) < len(spec["taints"]), spec
    spec["taints"] = left
    return objects


def _label_node(objects: Objects, match: re.Match[str]) -> Objects:
    name, key, value, overwrites = match.groups()
    labels = _node(objects, name)["metadata"]["labels"]
    assert bool(overwrites) == (key in labels), labels
    labels[key] = value
    return objects


def _remove_gate(objects: Objects, match: re.Match[str]) -> Objects:
    gate, *key = match.groups()
    (obj,) = _pods_of(objects, "pod", (key[0], key[1]))
    assert [{"name": gate}] == obj["spec"].pop("schedulingGates"), gate
    return objects


def _release(objects: Objects, match: re.Match[str]) -> Objects:
    key = match[1], match[2]
    claim = next(obj for obj in objects if obj["kind"] == "ResourceClaim" and _key(obj) == key)
    del claim["status"]
    return objects


def _install_driver(objects: Objects, match: re.Match[str]) -> Objects:
    """Each node has devices; what they have nobody knows, so they are as requests want them."""
    wanted = re.findall(r"device\.attributes\['\S+?'\]\.(\w+) == '(\w+)'", json.dumps(objects))
    attributes = {name: {"string": value} for name, value in wanted}
    devices: Objects = [{"name": f"new-{place}", "attributes": attributes} for place in range(8)]
    assert not any(obj["kind"] == "ResourceSlice" and obj["spec"]["driver"] == match[1] for obj in objects), match[1]
    nodes = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node"]
    return [*objects, *(slice_of(match[1], devices, name, f"new-{name}") for name in nodes)]


def _node(objects: Objects, name: str) -> Obj:
    return next(obj for obj in objects if obj["kind"] == "Node" and obj["metadata"]["name"] == name)


_LABEL: Final = r"([\w./-]+): (\S+)"
_ACTS: Final[list[tuple[str, Callable[[Objects, re.Match[str]], Objects]]]] = [
    (r"^(?:free devices? [^:]+: )?end pods? (.+?)(?: \(priority.*| on node .*)?$", _end),
    (rf"^ask for (\d+) devices? instead of (\d+) in {_REQUEST}", _ask_for_fewer),
    (rf"^ask for (\S+) (\S+) instead of (\S+) in {_REQUEST}", _ask_for_less),
    (rf"^ask for (\S+) (\S+) instead of (\S+) in container main of (\w+) {_NAME}$", _ask_of_node),
    (rf"^ask for another host port, like (\d+) instead of (\d+), in (\w+) {_NAME}$", _take_port),
    (rf"^write '([^']+)' instead of '([^']+)' in the selector of {_REQUEST}", _select_another_value),
    (rf"^write .+ in the selector of {_REQUEST[:-1]}: (.+)$", _write_selector),
    (rf"^drop or relax the (selector|term) `(.+)` of {_REQUEST}", _drop_selector),
    (
        rf"^drop the constraint (matchAttribute|distinctAttribute): (\S+) of (\w+) {_NAME}$",
        _drop_constraint,
    ),
    (rf"^write {_LABEL} instead of \S+ in the nodeSelector of (\w+) {_NAME}$", _select_node),
    (rf"^drop ([\w./-]+): \S+ from the nodeSelector of (\w+) {_NAME}$", _select_no_node),
    (r"^kubectl uncordon (\S+)$", _uncordon),
    (r"^kubectl taint node (\S+) ([\w./-]+):(\w+)-$", _untaint),
    (r"^kubectl label node (\S+) ([\w./-]+)=(\S+)( --overwrite)?$", _label_node),
    (rf"^whoever set (\S+) must remove it from pod {_NAME}$", _remove_gate),
    (rf"^kube-controller-manager's resource claim controller must release ResourceClaim {_NAME}", _release),
    (r"^install the driver (\S+),", _install_driver),
    (r"^add the toleration \{(.+?)\} to (\w+ .+)$", _tolerate),
]


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _pods_of(objects: Objects, kind: str, key: tuple[str, str]) -> Objects:
    """The pod, or the pods of the workload that wait."""
    pods = [obj for obj in objects if obj["kind"] == "Pod" and obj["metadata"]["namespace"] == key[0]]
    if kind == "pod":
        return [obj for obj in pods if obj["metadata"]["name"] == key[1]]
    return [
        obj
        for obj in pods
        if "nodeName" not in obj["spec"]
        and any((kind, key[1]) in _makers(of) for of in obj["metadata"].get("ownerReferences", ()))
    ]


def _makers(owner: Obj) -> list[tuple[str, str]]:
    """A controller, and the Deployment above a ReplicaSet."""
    kind, name = owner["kind"].lower(), owner["name"]
    return [(kind, name), *([("deployment", name.rpartition("-")[0])] if kind == "replicaset" else [])]


def _devices(objects: Objects, kind: str, key: tuple[str, str]) -> Obj:
    spec = next(obj["spec"] for obj in objects if obj["kind"] == kind and _key(obj) == key)
    devices: Obj = spec.get("spec", spec)["devices"]
    return devices


def _request(objects: Objects, name: str, kind: str, key: tuple[str, str]) -> Obj:
    whole, _, alternative = name.partition("/")
    found: Obj = next(one for one in _devices(objects, kind, key)["requests"] if one["name"] == whole)
    if alternative:
        return next(one for one in found["firstAvailable"] if one["name"] == alternative)
    exactly: Obj = found["exactly"]
    return exactly
