"""Whether what is named as a cause is a true statement about the objects, found anew from the manifests alone.

Nothing of the scheduler is used: devices are read from slices, what is held from claims, amounts from quantities. Each
kind has a checker, which says what is false: names that are not there, facts that are not so, numbers that are others.
Text that no checker understands is judged by the names and numbers in it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

Obj: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Pool and device: the worlds that are checked have one driver with one pool of a name."""

_SUFFIXES: Final = {"": 1, "m": Fraction(1, 1000), "k": 10**3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NUMBER: Final = re.compile(r"(?<![\w./-])(\d+)(?![\w/-]|\.\d)")
_AMOUNT: Final = r"(\d+(?:\.\d+)?(?:m|k|Ki|Mi|Gi|Ti)?)"


def amount(text: str) -> Fraction:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(\D*)", text)
    assert found, text
    return Fraction(found[1]) * _SUFFIXES[found[2]]


@dataclass
class Device:
    """A device of the newest generation of its pool."""

    key: Key
    node: str
    attributes: dict[str, Any]
    capacity: dict[str, Fraction]
    taints: list[Obj]
    takes: list[tuple[str, str, Fraction]]
    """Counter set, counter, amount."""
    is_shared: bool
    holders: list[Obj] = field(default_factory=list)
    left: dict[str, Fraction] = field(default_factory=dict)
    """Of a shared device's capacity."""

    @property
    def is_free(self) -> bool:
        return self.is_shared or not self.holders


@dataclass
class Facts:
    """What the objects say."""

    objects: Sequence[Obj]
    asked: Key

    def __post_init__(self) -> None:
        self.by_kind: dict[str, dict[str, Obj]] = defaultdict(dict)
        for obj in self.objects:
            namespace = obj["metadata"].get("namespace", "")
            self.by_kind[obj["kind"]][f"{namespace}/" * bool(namespace) + obj["metadata"]["name"]] = obj
        self.newest: dict[str, int] = defaultdict(int)
        for one in self.slices:
            pool = one["spec"]["pool"]
            self.newest[pool["name"]] = max(self.newest[pool["name"]], pool["generation"])
        self.devices: dict[Key, Device] = {}
        self.sets: dict[tuple[str, str, str], Fraction] = {}
        for one in self.slices:
            self._read(one["spec"])
        self._hold()
        self.pod = self.by_kind["Pod"]["/".join(self.asked)]
        made = {
            one["name"]: one["resourceClaimName"] for one in self.pod.get("status", {}).get("resourceClaimStatuses", ())
        }
        entries = self.pod["spec"].get("resourceClaims", ())
        names = [entry.get("resourceClaimName") or made[entry["name"]] for entry in entries]
        claims = [self.by_kind["ResourceClaim"][f"{self.asked[0]}/{name}"]["spec"]["devices"] for name in names]
        self.requests: dict[str, Obj] = {one["name"]: one["exactly"] for claim in claims for one in claim["requests"]}
        self.constraints: list[Obj] = [one for claim in claims for one in claim.get("constraints", ())]

    @property
    def slices(self) -> list[Obj]:
        return list(self.by_kind["ResourceSlice"].values())

    def _read(self, spec: Obj) -> None:
        pool = spec["pool"]["name"]
        if spec["pool"]["generation"] < self.newest[pool]:
            return
        for one in spec.get("sharedCounters", ()):
            for name, counter in one["counters"].items():
                self.sets[pool, one["name"], name] = amount(counter["value"])
        for one in spec.get("devices", ()):
            attributes = {
                name if "/" in name else f"{spec['driver']}/{name}": next(iter(value.items()))
                for name, value in one.get("attributes", {}).items()
            }
            takes = [
                (uses["counterSet"], name, amount(counter["value"]))
                for uses in one.get("consumesCounters", ())
                for name, counter in uses["counters"].items()
            ]
            capacity = {name: amount(value["value"]) for name, value in one.get("capacity", {}).items()}
            is_shared = one.get("allowMultipleAllocations", False)
            made = Device((pool, one["name"]), spec["nodeName"], attributes, capacity, [], takes, is_shared)
            made.taints = list(one.get("taints", ()))
            made.left = dict(capacity)
            self.devices[made.key] = made

    def _hold(self) -> None:
        for claim in self.by_kind["ResourceClaim"].values():
            for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                held = self.devices.get((one["pool"], one["device"]))
                if held is not None:
                    held.holders.append(claim)
                    for name, value in one.get("consumedCapacity", {}).items():
                        held.left[name] -= amount(value)

    def counter_left(self, device: Device, counter_set: str, name: str) -> Fraction:
        pool = device.key[0]
        used = [
            value
            for other in self.devices.values()
            if other.key[0] == pool and other.holders
            for set_, counter, value in other.takes
            if (set_, counter) == (counter_set, name)
        ]
        return self.sets[pool, counter_set, name] - sum(used, Fraction(0))

    def is_blocked(self, device: Device) -> bool:
        return any(self.counter_left(device, set_, name) < value for set_, name, value in device.takes)

    def is_selected(self, device: Device) -> bool:
        """By the selectors of all requests, each of which compares one attribute with a string."""
        for one in self.requests.values():
            for selector in one.get("selectors", ()):
                found = re.fullmatch(r"device\.attributes\['(.+)'\]\.(\w+) == '(.+)'", selector["cel"]["expression"])
                assert found, selector
                if device.attributes.get(f"{found[1]}/{found[2]}") != ("string", found[3]):
                    return False
        return True

    def together(self, devices: Sequence[Device]) -> int:
        """How many of them their counter sets let somebody have; the smallest first."""
        left: dict[tuple[str, str, str], Fraction] = {}
        count = 0
        for one in sorted(devices, key=lambda device: sum((value for *_, value in device.takes), Fraction(0))):
            needs = {(one.key[0], set_, name): value for set_, name, value in one.takes}
            rest = {key: left.get(key, self.counter_left(one, *key[1:])) - value for key, value in needs.items()}
            if all(value >= 0 for value in rest.values()):
                left |= rest
                count += 1
        return count

    def of_node(self, node: str) -> list[Device]:
        return [one for one in self.devices.values() if one.node == node]

    def free_of(self, node: str, resource: str) -> Fraction:
        used = Fraction(0)
        for pod in self.by_kind["Pod"].values():
            if pod["spec"].get("nodeName") == node:
                for container in pod["spec"]["containers"]:
                    used += amount(container["resources"].get("requests", {}).get(resource, "0"))
        return amount(self.by_kind["Node"][node]["status"]["allocatable"][resource]) - used

    def wanted(self, resource: str) -> Fraction:
        containers = self.pod["spec"]["containers"]
        return sum((amount(one["resources"]["requests"].get(resource, "0")) for one in containers), Fraction(0))


# --- names --------------------------------------------------------------------------------------------------------


def named_nodes(text: str) -> list[str]:
    return [
        name for part in re.findall(r"\bnodes? ((?:node-\d+(?:, | and )?)+)", text) for name in _each("node-\\d+", part)
    ]


def named_devices(text: str) -> list[Key]:
    return [(pool, name) for pool, name in re.findall(r"\b(node-\d+)/([a-z]+-\d+(?:-half-\d)?)\b", text)]


def named_pods(text: str) -> list[str]:
    return re.findall(r"\bpod (?:\w+/)?([a-z]+(?:-\d+)*)\b(?! of)", text)


def first_of(text: str) -> str:
    """Without the facts about other nodes that are told beside it."""
    return text.partition("; ")[0]


def _each(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, text)


def numbers(text: str) -> set[int]:
    return {int(one) for one in _NUMBER.findall(text)}


def false_names(facts: Facts, text: str) -> Iterator[str]:
    """Names of what is not there, whatever the kind."""
    for name in named_nodes(text):
        if name not in facts.by_kind["Node"]:
            yield f"there is no node {name}"
    for key in named_devices(text):
        if key not in facts.devices:
            yield f"there is no device {key}"
    for request in re.findall(r"\brequests? ([a-z]+(?:-\d+)?)\b", text):
        if request not in facts.requests:
            yield f"there is no request {request}"
    for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass"):
        for name in re.findall(rf"\b{kind} ([\w./-]+)", text):
            if name not in facts.by_kind[kind]:
                yield f"there is no {kind} {name}"
    pods = {name.rpartition("/")[2] for name in facts.by_kind["Pod"]}
    for name in named_pods(text):
        if name not in pods and "exist" not in text:
            yield f"there is no pod {name}"
    for name in re.findall(r"\bcounter set ([\w-]+)", text):
        if name not in {set_ for _, set_, _ in facts.sets}:
            yield f"there is no counter set {name}"


# --- kinds --------------------------------------------------------------------------------------------------------


def _nodes_are(text: str, facts: Facts, is_so: Callable[[Obj], bool], what: str) -> Iterator[str]:
    names = named_nodes(first_of(text))
    if not names:
        yield f"names no node that is {what}"
    for name in names:
        if name in facts.by_kind["Node"] and not is_so(facts.by_kind["Node"][name]):
            yield f"node {name} is not {what}"


def _cordoned(facts: Facts, text: str) -> Iterator[str]:
    yield from _nodes_are(text, facts, lambda node: bool(node["spec"].get("unschedulable")), "cordoned")


def _taint(taint: Obj) -> str:
    return f"{taint['key']}{'=' + taint['value'] if taint.get('value') else ''}:{taint['effect']}"


def _node_tainted(facts: Facts, text: str) -> Iterator[str]:
    said = re.findall(r"taints? (\S+:No\w+)", text)
    if not said:
        yield "names no taint"
    for one in said:
        yield from _nodes_are(
            text, facts, lambda node, one=one: one in map(_taint, node["spec"].get("taints", ())), one
        )


def _device_tainted(facts: Facts, text: str) -> Iterator[str]:
    said, keys = re.findall(r"taints? (\S+:No\w+)", text), named_devices(text)
    if not said or not keys:
        yield "names no taint, or no device"
    for key in keys:
        if key in facts.devices and not set(said) & set(map(_taint, facts.devices[key].taints)):
            yield f"device {key} has none of the taints {said}"


def _in_use(facts: Facts, text: str) -> Iterator[str]:
    if (mates := re.search(r"node (node-\d+): (\d+) of the (\d+) devices", text)) is not None:
        own = [one for one in facts.of_node(mates[1]) if facts.is_selected(one)]
        if len(own) != int(mates[3]) or not int(mates[2]) <= sum(not one.is_free for one in own):
            yield f"{mates[1]} has {len(own)}, of which {sum(not one.is_free for one in own)} are in use"
        return
    if (few := re.match(r"devices? (.+) (?:is the only|are all) (free )?ones? on node", text)) is not None:
        keys, needed = named_devices(few[1]), int(re.findall(r"which need (\d+)", text)[0])
        if any(not facts.devices[key].is_free for key in keys) or len(keys) >= needed:
            yield f"not all of {keys} are free, or they are enough for {needed}"
        return
    keys, pods = named_devices(text), named_pods(text)
    if not keys:
        yield "names no device"
    for key in keys:
        users = {user["name"] for claim in _holders(facts, key) for user in claim["status"].get("reservedFor", ())}
        if not users:
            yield f"device {key} is not in use"
        elif pods and not users & set(pods) and "more" not in text:
            yield f"device {key} is used by {users}, not by {pods}"


def _holders(facts: Facts, key: Key) -> list[Obj]:
    return facts.devices[key].holders if key in facts.devices else []


def _resources(facts: Facts, text: str) -> Iterator[str]:
    found = re.search(rf"node (node-\d+) has {_AMOUNT} (cpu|memory) free.* asks for {_AMOUNT}", text)
    if not found:
        yield "not understood"
        return
    node, free, resource, wants = found.groups()
    if amount(free) != facts.free_of(node, resource):
        yield f"{node} has {facts.free_of(node, resource)} free"
    if amount(wants) != facts.wanted(resource):
        yield f"the pod asks for {facts.wanted(resource)}"
    if facts.wanted(resource) <= facts.free_of(node, resource):
        yield "that would be enough"


def _constraint(facts: Facts, text: str) -> Iterator[str]:
    spoken = {one.get("matchAttribute") or one["distinctAttribute"]: one for one in facts.constraints}
    key = next((name for name in spoken if name in text), None)
    nodes = named_nodes(text)
    if key is None:
        yield "names no attribute of a constraint"
        return
    if not nodes:
        return
    own = facts.of_node(nodes[0])
    free = [one for one in own if one.is_free and not facts.is_blocked(one)]
    allowed = [one for one in free if not one.taints]
    choices = [free, allowed] if re.search("free|usable", text) else [own, free, allowed]
    of = spoken[key].get("requests") or list(facts.requests)
    needed = sum(facts.requests[name].get("count", 1) for name in of)
    is_match = "matchAttribute" in spoken[key]
    most = {_most(devices, key) if is_match else _different(devices, key) for devices in choices}
    if min(most) >= needed:
        yield f"of {key} on {nodes[0]} there are {most} with what is needed, and {needed} are"
    if not most & numbers(text) and not re.search(r"\bno\b|\bnone\b", text):
        yield f"the number is {most}"


def _most(devices: Sequence[Device], key: str) -> int:
    return max(Counter(one.attributes[key] for one in devices if key in one.attributes).values(), default=0)


def _different(devices: Sequence[Device], key: str) -> int:
    return len({one.attributes[key] for one in devices if key in one.attributes})


def _attribute_missing(facts: Facts, text: str) -> Iterator[str]:
    spoken = [one.get("matchAttribute") or one["distinctAttribute"] for one in facts.constraints]
    key = next((name for name in spoken if name in text), None)
    if key is None:
        yield "names no attribute of a constraint"
        return
    places = [one for name in named_nodes(text) for one in facts.of_node(name)] or list(facts.devices.values())
    if re.search("no (free|usable) device", text):
        places = [one for one in places if one.is_free and not ("usable" in text and one.taints)]
    have = [one.key for one in places if key in one.attributes]
    if have:
        yield f"{have} have {key}"


def _short(facts: Facts, text: str) -> Iterator[str]:
    nodes = named_nodes(text)
    if not nodes:
        yield "names no node"
        return
    own = [one for one in facts.of_node(nodes[0]) if facts.is_selected(one)]
    free = [one for one in own if one.is_free]
    usable = [one for one in free if not one.taints]
    counts = {len(own), len(free), len(usable), len([one for one in usable if not facts.is_blocked(one)])}
    for one in facts.constraints:  # how many of them it lets somebody have together
        key, is_match = one.get("matchAttribute") or one["distinctAttribute"], "matchAttribute" in one
        counts |= {_most(devices, key) if is_match else _different(devices, key) for devices in (free, usable)}
    needed = sum(one.get("count", 1) for one in facts.requests.values())
    if facts.together(free) >= needed:
        yield f"node {nodes[0]} has {counts} devices, and {needed} are needed"
    if not counts & (numbers(text) | ({0} if "no devices" in text else set())):
        yield f"the number is one of {counts}"


def _capacity(facts: Facts, text: str) -> Iterator[str]:
    wants = max(amount(one["capacity"]["requests"]["memory"]) for one in facts.requests.values() if "capacity" in one)
    said = {amount(one) for one in re.findall(rf"\b{_AMOUNT}\b", text) if one[-1] == "i"}
    keys = named_devices(text)
    if text.endswith(" together"):
        shares = sum(one.get("count", 1) for one in facts.requests.values())
        there = [one for one in facts.of_node(named_nodes(text)[0]) if facts.is_selected(one) and not one.taints]
        if sum(one.left["memory"] // wants for one in there) >= shares:
            yield f"there is room for {shares}"
        return
    if wants not in said:
        yield f"what is asked for is {wants}"
    if not keys:
        yield "names no device"
    for key in keys:
        if key in facts.devices:
            one = facts.devices[key]
            if one.left["memory"] >= wants:
                yield f"device {key} has {one.left['memory']} left"
            if not {one.left["memory"], one.capacity["memory"]} & said:
                yield f"device {key} has {one.left['memory']} of {one.capacity['memory']} left"


def _blocked(facts: Facts, text: str) -> Iterator[str]:
    keys = named_devices(text)
    if not keys or keys[0] not in facts.devices:
        yield "names no device"
        return
    first = facts.devices[keys[0]]
    if first.holders:
        yield f"{first.key} is in use itself"
    if not facts.is_blocked(first):
        yield f"{first.key} is not blocked"
    said = {amount(one) for one in re.findall(rf"\b{_AMOUNT}\b", text)}
    for set_, name, value in first.takes:
        if set_ in text and not {value, max(facts.counter_left(first, set_, name), Fraction(0))} <= said:
            yield f"it takes {value}, and {facts.counter_left(first, set_, name)} is left"
    for key in keys[1:]:
        if not _holders(facts, key):
            yield f"{key} is not in use"


def _counters(facts: Facts, text: str) -> Iterator[str]:
    alone = re.search(rf"takes {_AMOUNT} of counter (\S+), and counter set (\S+) has {_AMOUNT}", text)
    many = re.search(r"at most (\d+) of (\d+) devices fit together on node (node-\d+)", text)
    if alone:
        takes, name, set_, whole = alone.groups()
        device = facts.devices[named_devices(text)[0]]
        if (set_, name, amount(takes)) not in device.takes or facts.sets[device.key[0], set_, name] != amount(whole):
            yield f"{device.key} takes {device.takes} of {facts.sets}"
        if amount(takes) <= amount(whole):
            yield "that would be enough"
    elif many:
        own = [one for one in facts.of_node(many[3]) if facts.is_selected(one) and one.is_free and not one.taints]
        if facts.together(own) != int(many[1]):
            yield f"{facts.together(own)} fit together"
        left = re.search(rf"counter set (\S+) has (\S+) {_AMOUNT} left", text)
        if not left or not any(
            facts.counter_left(one, left[1], left[2]) == amount(left[3])
            for one in own
            if left[1] in {set_ for set_, *_ in one.takes}
        ):
            yield "names no counter set of the devices with what is left of it"
    else:
        yield "not understood"


def _superseded(facts: Facts, text: str) -> Iterator[str]:
    names = re.findall(r"\bResourceSlices? ([\w-]+)|\bslices? ([\w-]+)", text)
    found = [facts.by_kind["ResourceSlice"].get(one or other) for one, other in names]
    pools = [one["spec"]["pool"] for one in found if one]
    if not pools:
        yield "names no slice"
    for pool in pools:
        if pool["generation"] >= facts.newest[pool["name"]]:
            yield f"{pool} is the newest generation"
        elif facts.newest[pool["name"]] not in numbers(text):
            yield f"the newest generation is {facts.newest[pool['name']]}"


def _holder_gone(facts: Facts, text: str) -> Iterator[str]:
    names = re.findall(r"\bResourceClaims? (\S+?)[,:;]?(?= |$)", text)
    claims = [facts.by_kind["ResourceClaim"].get(name) for name in names]
    pods = {name.rpartition("/")[2] for name in facts.by_kind["Pod"]}
    for claim in filter(None, claims):
        users = {user["name"] for user in claim.get("status", {}).get("reservedFor", ())}
        if users & pods:
            yield f"the pods {users & pods} are there"
        if "allocation" not in claim.get("status", {}):
            yield f"{claim['metadata']['name']} has no devices"
    if not any(claims):
        yield "names no claim"


def _group(facts: Facts, text: str) -> Iterator[str]:
    needed = int(facts.pod["metadata"]["labels"]["dra-scheduler/group-min-count"])
    if needed not in numbers(text):
        yield f"{needed} are needed"
    found = re.match(r"(?:group \S+ has )?(\d+) of (?:the )?(\d+) pods", text)
    if found and int(found[1]) >= int(found[2]):
        yield "that would be enough"


CHECKERS: Final[dict[str, Callable[[Facts, str], Iterator[str]]]] = {
    "node-cordoned": _cordoned,
    "node-tainted": _node_tainted,
    "device-tainted": _device_tainted,
    "devices-in-use": _in_use,
    "resources-short": _resources,
    "constraint-unmet": _constraint,
    "constraint-attribute-missing": _attribute_missing,
    "devices-short": _short,
    "capacity-short": _capacity,
    "partition-blocked": _blocked,
    "counters-short": _counters,
    "slice-superseded": _superseded,
    "holder-gone": _holder_gone,
    "group-unmet": _group,
}


def untrue(objects: Sequence[Obj], asked: Key, kind: str, cause: str) -> list[str]:
    """What is false in a cause of this kind; empty where all of it is so."""
    facts = Facts(objects, asked)
    wrong = list(false_names(facts, cause))
    return wrong if kind not in CHECKERS else [*wrong, *CHECKERS[kind](facts, cause)]
