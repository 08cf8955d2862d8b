"""The invariant checker: reads what the API server holds and reports everything that must never be so.

    violations = check(State(pods=…, claims=…, slices=…, nodes=…))     # API objects as decoded JSON
    python -m tests.integration.invariants --kubeconfig FILE            # the same for a running cluster

It knows the API's rules only and shares no code with the scheduler: a rule misread there should show here.

Reported
    device-in-two-claims   a device allocated twice, whether to two claims or within one, not counting adminAccess
                           results and shares (shareID) of a device that allows several allocations
    share-not-allowed      a share of a device that does not allow several allocations, or a share id used twice
    capacity-exceeded      the shares of a device together consume more than it has, whether they name a capacity with
                           the driver's domain or without; what is below zero makes room for nobody
    counter-exceeded       the allocated devices of a pool together consume more of a shared counter than there is;
                           a device counts once however many shares it has, and never makes room for others
    device-not-published   an allocation names a device that no current slice (newest generation of its pool) has
    pod-not-reserved       a bound pod whose claim is missing, unallocated, or does not list the pod (its group, if that
                           owns the claim) in reservedFor
    foreign-claim          a bound pod uses a claim that was generated for another pod, or for a PodGroup it is not of
    resource-unserved      a bound pod's container asks for an extended resource that its node has none of, and no
                           devices of a claim named in the pod's status stand for it
    wrong-node             a bound pod runs on a node outside its claim's allocation, or where the device is not
    no-finalizer           an allocated claim without the finalizer that protects the allocation
    reserved-unallocated   consumers in reservedFor of a claim that has no allocation
    too-many-consumers     more than 256 of them
    node-overcommitted     the pods bound to a node request more than it offers, with what the devices of their claims
                           take of it (nodeAllocatableResources, 1.36: …Mappings)
    taking-untold          a bound pod's status does not say what the devices of one of its claims take of its node
    equal-preempted        a pod was preempted by one that is not more important (`check_preemptions`, with a witness)

Not here: whether a different placement would have been better, or whether a pending pod should run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

Object = Mapping[str, Any]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
CONSUMERS_MAX: Final = 256
_PREEMPTED_BY: Final = re.compile(r"Preempted by pod (\S+) on node ")
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class DeviceKey(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolKey(NamedTuple):
    driver: str
    pool: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: `kind` as listed above, the object it shows at, and what is wrong in words."""

    kind: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class State:
    """What the API server holds at one moment; each a sequence of API objects."""

    pods: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    nodes: Sequence[Object] = ()


@dataclass(slots=True)
class _Published:
    """Current slices, by what the rules ask for."""

    devices: dict[DeviceKey, Object] = field(default_factory=dict)
    slice_of: dict[DeviceKey, Object] = field(default_factory=dict)
    counters: dict[tuple[PoolKey, str, str], Fraction] = field(default_factory=dict)


class _Use(NamedTuple):
    claim: str
    result: Object


def check(state: State) -> list[Violation]:
    """Every broken rule in `state`, in a stable order; empty when all is well."""
    published = _published(state.slices)
    uses = _uses(state.claims)
    return [
        *_check_devices(uses, published),
        *_check_counters(uses, published),
        *_check_claims(state.claims),
        *_check_pods(state, published),
        *_check_nodes(state, published),
    ]


def check_preemptions(pods: Mapping[str, Object], events: Iterable[Object]) -> Iterator[Violation]:
    """Every pod that was preempted by one that is not more important.

    Args:
        pods: By uid, those that are gone too, as they were last seen.
        events: Of events.k8s.io.
    """
    for event in events:
        if event.get("reason") == "Preempted":
            victim, preemptor = pods.get(event["regarding"]["uid"]), pods.get(preemptor_uid(event))
            if victim is None or preemptor is None:
                continue  # it was there and gone between two looks
            of_victim, of_preemptor = (pod["spec"].get("priority") or 0 for pod in (victim, preemptor))
            if of_victim >= of_preemptor:
                text = f"has priority {of_victim}, and {_name(preemptor)} for which it went has {of_preemptor}"
                yield Violation("equal-preempted", _name(victim), text)


def preemptor_uid(event: Object) -> str:
    """For whom a pod was preempted: kube-scheduler says it in the note alone."""
    found = _PREEMPTED_BY.match(event.get("note") or "")
    related: str = (event.get("related") or {}).get("uid") or ""
    return related or (found[1] if found else "")


def _published(slices: Iterable[Object]) -> _Published:
    newest: dict[PoolKey, int] = defaultdict(lambda: -1)
    for item in slices:
        key, generation = _pool_of(item)
        newest[key] = max(newest[key], generation)
    published = _Published()
    for item in slices:
        pool, generation = _pool_of(item)
        if generation < newest[pool]:
            continue
        for device in item["spec"].get("devices") or ():
            key = DeviceKey(pool.driver, pool.pool, device["name"])
            published.devices[key] = device
            published.slice_of[key] = item
        for counter_set in item["spec"].get("sharedCounters") or ():
            for name, counter in counter_set["counters"].items():
                published.counters[pool, counter_set["name"], name] = quantity(counter["value"])
    return published


def _pool_of(item: Object) -> tuple[PoolKey, int]:
    pool = item["spec"]["pool"]
    return PoolKey(item["spec"]["driver"], pool["name"]), pool["generation"]


def _results(claim: Object) -> Iterator[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    yield from (allocation.get("devices") or {}).get("results") or ()


def _device_of(result: Object) -> DeviceKey:
    return DeviceKey(result["driver"], result["pool"], result["device"])


def _uses(claims: Iterable[Object]) -> dict[DeviceKey, list[_Use]]:
    """Who has which device, adminAccess left out: it takes nothing from anyone."""
    uses: dict[DeviceKey, list[_Use]] = defaultdict(list)
    for claim in claims:
        for result in _results(claim):
            if not result.get("adminAccess"):
                uses[_device_of(result)].append(_Use(_name(claim), result))
    return dict(sorted(uses.items()))


def _check_devices(uses: Mapping[DeviceKey, Sequence[_Use]], published: _Published) -> Iterator[Violation]:
    for key, of_device in uses.items():
        device = published.devices.get(key)
        owners = ", ".join(sorted({use.claim for use in of_device}))
        dedicated = [use for use in of_device if "shareID" not in use.result]
        shares = [use for use in of_device if "shareID" in use.result]
        if dedicated and len(of_device) > 1:
            yield Violation("device-in-two-claims", str(key), f"allocated {len(of_device)} times: {owners}")
        if device is None:
            yield Violation("device-not-published", str(key), f"no current slice has it; allocated to {owners}")
            continue
        if shares and not device.get("allowMultipleAllocations"):
            yield Violation("share-not-allowed", str(key), f"does not allow several allocations; shared by {owners}")
        twice = [name for name, count in Counter(use.result["shareID"] for use in shares).items() if count > 1]
        if twice:
            yield Violation("share-not-allowed", str(key), f"share ids used twice: {', '.join(sorted(twice))}")
        yield from _check_capacity(key, device, shares)


def _check_capacity(key: DeviceKey, device: Object, shares: Sequence[_Use]) -> Iterator[Violation]:
    consumed: dict[str, Fraction] = defaultdict(Fraction)
    for use in shares:
        for name, amount in _own_names(key.driver, use.result.get("consumedCapacity") or {}).items():
            consumed[name] += max(Fraction(0), quantity(amount))
    available = {
        name: quantity(entry["value"]) for name, entry in _own_names(key.driver, device.get("capacity") or {}).items()
    }
    for name, total in sorted(consumed.items()):
        if total > (there := max(Fraction(0), available.get(name, Fraction(0)))):
            yield Violation("capacity-exceeded", str(key), f"{name}: its shares consume {total}, it has {there}")


def _own_names(driver: str, amounts: Mapping[str, Any]) -> dict[str, Any]:
    """A name with the driver's domain and one without mean the same capacity; written twice, the first one counts."""
    short = {name: amount for name, amount in amounts.items() if not name.startswith(f"{driver}/")}
    return short | {name.removeprefix(f"{driver}/"): one for name, one in amounts.items() if name not in short}


def _check_counters(uses: Mapping[DeviceKey, Sequence[_Use]], published: _Published) -> Iterator[Violation]:
    consumed: dict[tuple[PoolKey, str, str], Fraction] = defaultdict(Fraction)
    consumers: dict[tuple[PoolKey, str, str], list[str]] = defaultdict(list)
    for key in uses:
        for consumption in published.devices.get(key, {}).get("consumesCounters") or ():
            for name, counter in consumption["counters"].items():
                counter_key = (PoolKey(key.driver, key.pool), consumption["counterSet"], name)
                consumed[counter_key] += max(Fraction(0), quantity(counter["value"]))
                consumers[counter_key].append(key.device)
    for counter_key, total in sorted(consumed.items()):
        available = published.counters.get(counter_key, Fraction(0))
        if total > available:
            pool, counter_set, name = counter_key
            devices = ", ".join(consumers[counter_key])
            yield Violation(
                "counter-exceeded",
                "/".join(pool),
                f"{counter_set}/{name}: {devices} together consume {total}, there is {available}",
            )


def _check_claims(claims: Iterable[Object]) -> Iterator[Violation]:
    for claim in claims:
        status = claim.get("status") or {}
        consumers = status.get("reservedFor") or ()
        if status.get("allocation"):
            if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
                yield Violation("no-finalizer", _name(claim), f"allocated without the finalizer {FINALIZER}")
        elif consumers:
            names = ", ".join(consumer["name"] for consumer in consumers)
            yield Violation("reserved-unallocated", _name(claim), f"reserved for {names} but not allocated")
        if len(consumers) > CONSUMERS_MAX:
            yield Violation("too-many-consumers", _name(claim), f"{len(consumers)} consumers, at most {CONSUMERS_MAX}")


def _check_pods(state: State, published: _Published) -> Iterator[Violation]:
    claim_by_name = {(c["metadata"]["namespace"], c["metadata"]["name"]): c for c in state.claims}
    node_by_name = {node["metadata"]["name"]: node for node in state.nodes}
    reserved_for: dict[str, set[str]] = {}
    for claim in state.claims:
        for consumer in (claim.get("status") or {}).get("reservedFor") or ():
            reserved_for.setdefault(consumer["uid"], set()).add(claim["metadata"]["name"])
    for pod in state.pods:
        node_name = pod["spec"].get("nodeName")
        # A finished pod gives its claims back; the controller takes its reservation away.
        if not node_name or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for claim_name, generated in _claim_names(pod):
            if claim_name is None:
                yield Violation("pod-not-reserved", _name(pod), "bound before its claims were generated")
                continue
            claim = claim_by_name.get((pod["metadata"]["namespace"], claim_name))
            if claim is None:
                yield Violation("pod-not-reserved", _name(pod), f"bound, but its claim {claim_name} does not exist")
                continue
            if taken := _taken_of_node(pod, claim, published):
                yield from _check_told(pod, claim_name, taken)
            unnamed = reserved_for.get(pod["metadata"]["uid"], set()) - {name for name, _ in _claim_names(pod) if name}
            for found in _check_pod_claim(pod, claim, generated, node_by_name.get(node_name), published):
                # https://github.com/kubernetes/kubernetes/issues/140217
                is_replaced = generated and unnamed and found.kind == "pod-not-reserved"
                cause = f"; {', '.join(sorted(unnamed))} is: did the claim controller replace it after the binding?"
                yield replace(found, text=found.text + cause) if is_replaced else found
        if node_name in node_by_name:
            yield from _check_extended_resources(pod, node_by_name[node_name], claim_by_name)


def _check_extended_resources(
    pod: Object, node: Object, claim_by_name: Mapping[tuple[str, str], Object]
) -> Iterator[Violation]:
    told = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    claim = claim_by_name.get((pod["metadata"]["namespace"], told.get("resourceClaimName", "")))
    given = {result["request"] for result in _results(claim)} if claim is not None else set()
    served = {
        (mapping["containerName"], mapping["resourceName"])
        for mapping in told.get("requestMappings") or ()
        if mapping["requestName"] in given
    }
    offer = (node.get("status") or {}).get("allocatable") or {}
    for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            is_plain = "/" not in name or ("kubernetes.io/" in name and not name.startswith(IMPLICIT_PREFIX))
            if is_plain or str(amount) == "0" or str(offer.get(name, "0")) != "0":
                continue
            if (container["name"], name) not in served:
                text = f"container {container['name']} asks for {name}: {amount}, which nothing serves on its node"
                yield Violation("resource-unserved", _name(pod), text)


def _claim_names(pod: Object) -> Iterator[tuple[str | None, bool]]:
    """Names of the pod's claims, and whether each was generated for it; None: not generated yet."""
    status = pod.get("status") or {}
    generated = {entry["name"]: entry for entry in status.get("resourceClaimStatuses") or ()}
    for reference in pod["spec"].get("resourceClaims") or ():
        if reference.get("resourceClaimName"):
            yield reference["resourceClaimName"], False
        elif reference["name"] not in generated:
            yield None, True
        elif generated[reference["name"]].get("resourceClaimName"):
            yield generated[reference["name"]]["resourceClaimName"], True
        # An entry without a name says that this pod needs no such claim.
    extended = status.get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"], True


def _consumer_uids(pod: Object, claim: Object) -> set[str]:
    """Who may own and use the claim for this pod: the pod, and the PodGroup it is of where that owns the claim."""
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    owners = claim["metadata"].get("ownerReferences") or ()
    groups = {owner["uid"] for owner in owners if owner.get("kind") == "PodGroup" and owner.get("name") == group}
    return {pod["metadata"]["uid"], *groups}


def _check_pod_claim(
    pod: Object, claim: Object, generated: bool, node: Object | None, published: _Published
) -> Iterator[Violation]:
    uids = _consumer_uids(pod, claim)
    status = claim.get("status") or {}
    if generated and all(owner["uid"] not in uids for owner in claim["metadata"].get("ownerReferences") or ()):
        yield Violation("foreign-claim", _name(pod), f"{_name(claim)} was not created for it")
    if not status.get("allocation"):
        yield Violation("pod-not-reserved", _name(pod), f"bound, but {_name(claim)} is not allocated")
        return
    if all(consumer["uid"] not in uids for consumer in status.get("reservedFor") or ()):
        yield Violation("pod-not-reserved", _name(pod), f"bound, but {_name(claim)} is not reserved for it")
    if node is None:
        return  # nodes come and go; nothing to compare with
    if not _selector_matches(status["allocation"].get("nodeSelector"), node):
        yield Violation("wrong-node", _name(pod), f"{_name(claim)} is not available on {node['metadata']['name']}")
    for result in _results(claim):
        key = _device_of(result)
        if key in published.devices and not _device_on(key, published, node):
            yield Violation("wrong-node", _name(pod), f"device {key} is not on {node['metadata']['name']}")


def _device_on(key: DeviceKey, published: _Published, node: Object) -> bool:
    place: Mapping[str, Any] = published.slice_of[key]["spec"]
    if place.get("perDeviceNodeSelection"):
        place = published.devices[key]
    if place.get("allNodes"):
        return True
    if place.get("nodeName"):
        return bool(place["nodeName"] == node["metadata"]["name"])
    return _selector_matches(place.get("nodeSelector"), node)


def _selector_matches(selector: Object | None, node: Object) -> bool:
    """v1.NodeSelector: any term, all requirements of a term; no selector means every node."""
    if not selector:
        return True
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_requirement_holds(rule, labels) for rule in term.get("matchExpressions") or ())
        and all(_requirement_holds(rule, fields) for rule in term.get("matchFields") or ())
        for term in selector["nodeSelectorTerms"]
    )


def _requirement_holds(rule: Object, labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and int(value) < int(wanted[0])
        case unknown:
            raise ValueError(f"node selector: unknown operator {unknown!r}")


def _taken_of_node(pod: Object, claim: Object, published: _Published) -> dict[str, Fraction]:
    """What the claim's devices take of their node for the pod, by what is published of them."""
    taken: dict[str, Fraction] = defaultdict(Fraction)
    users = _containers_using(pod, claim["metadata"]["name"])
    for result in _results(claim):
        device = published.devices.get(_device_of(result)) or {}
        for resource, said in (device.get("nodeAllocatableResources") or {}).items():
            mapping, overhead = said.get("mapping") or {}, said.get("overhead") or {}
            if key := mapping.get("capacityKey"):
                consumed = quantity((result.get("consumedCapacity") or {}).get(key, "0"))
                taken[resource] += consumed * quantity(mapping["capacityMultiplier"])
            else:
                taken[resource] += quantity(mapping.get("deviceMultiplier", "0"))
            taken[resource] += _overhead(overhead, users)
        for resource, mapping in (device.get("nodeAllocatableResourceMappings") or {}).items():
            amount = quantity(mapping.get("allocationMultiplier", "1"))
            if key := mapping.get("capacityKey"):
                amount *= quantity((result.get("consumedCapacity") or {}).get(key, "0"))
            if amount:
                taken[resource] += amount
    return dict(taken)


def _containers_using(pod: Object, claim_name: str) -> int:
    spec, status = pod["spec"], pod.get("status") or {}
    named = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    named |= {
        one["name"]: one["resourceClaimName"] for one in spec.get("resourceClaims") or () if "resourceClaimName" in one
    }
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    used = [((one.get("resources") or {}).get("claims")) or () for one in containers]
    return sum(any(named.get(entry["name"]) == claim_name for entry in entries) for entries in used)


def _overhead(overhead: Object, containers: int) -> Fraction:
    return quantity(overhead.get("perPod", "0")) + containers * quantity(overhead.get("perContainer", "0"))


def _said(note: Object) -> dict[str, Fraction]:
    """What a pod's status says that a claim takes, in the form of 1.36 or of 1.37."""
    amounts: dict[str, Fraction] = defaultdict(Fraction)
    for name, text in (note.get("resources") or {}).items():
        amounts[name] += quantity(text)
    for one in note.get("mapping") or ():
        amounts[one["name"]] += quantity(one["quantity"])
    for one in note.get("overhead") or ():
        amounts[one["name"]] += _overhead(one, len(note.get("containers") or ()))
    return dict(amounts)


def _check_told(pod: Object, claim_name: str, taken: Mapping[str, Fraction]) -> Iterator[Violation]:
    told = (pod.get("status") or {}).get("nodeAllocatableResourceClaimStatuses") or ()
    said = [one for one in told if one["resourceClaimName"] == claim_name]
    amounts = [_said(one) for one in said]
    if amounts != [{name: amount for name, amount in taken.items() if amount}]:
        text = f"its claim {claim_name} takes {dict(taken)} of its node, its status says {amounts}"
        yield Violation("taking-untold", _name(pod), text)


def _check_nodes(state: State, published: _Published) -> Iterator[Violation]:
    claim_by_name = {(c["metadata"]["namespace"], c["metadata"]["name"]): c for c in state.claims}
    pods_by_node: dict[str, list[Object]] = defaultdict(list)
    for pod in state.pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            pods_by_node[pod["spec"].get("nodeName") or ""].append(pod)
    for node in state.nodes:
        pods = pods_by_node[node["metadata"]["name"]]
        requested: dict[str, Fraction] = defaultdict(Fraction, {"pods": Fraction(len(pods))})
        for pod in pods:
            names = [(pod["metadata"]["namespace"], name) for name, _ in _claim_names(pod)]
            claims = [claim_by_name[name] for name in names if name in claim_by_name]
            for resource, amount in pod_requests(
                pod, [_taken_of_node(pod, claim, published) for claim in claims]
            ).items():
                requested[resource] += amount
        for resource, text in ((node.get("status") or {}).get("allocatable") or {}).items():
            if requested[resource] > quantity(text):
                yield Violation(
                    "node-overcommitted",
                    node["metadata"]["name"],
                    f"{resource}: {len(pods)} pods request {requested[resource]}, it offers {text}",
                )


def pod_requests(pod: Object, taken: Iterable[Mapping[str, Fraction]] = ()) -> dict[str, Fraction]:
    """What a pod asks of its node: containers and sidecars together, or its largest init step, plus its claims.

    Requests at the pod's level take the place of all these. Overhead comes on top.
    """
    spec = pod["spec"]
    running: dict[str, Fraction] = defaultdict(Fraction)
    peak: dict[str, Fraction] = defaultdict(Fraction)
    for container in spec.get("initContainers") or ():
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            for resource, amount in wanted.items():
                running[resource] += amount
            wanted = {}
        for resource in {*wanted, *running}:
            peak[resource] = max(peak[resource], running[resource] + wanted.get(resource, Fraction(0)))
    for container in spec.get("containers") or ():
        for resource, amount in _requests(container).items():
            running[resource] += amount
    total = {resource: max(running[resource], peak[resource]) for resource in {*running, *peak}}
    for of_claim in taken:
        for resource, amount in of_claim.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    total |= {name: amount for name, amount in _requests(spec).items() if name in total or name in ("cpu", "memory")}
    for resource, text in (spec.get("overhead") or {}).items():
        total[resource] = total.get(resource, Fraction(0)) + quantity(text)
    return total


def _requests(container: Object) -> dict[str, Fraction]:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {resource: quantity(text) for resource, text in requests.items()}


_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIX: Final = {
    None: Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def quantity(text: str | int) -> Fraction:
    """A Kubernetes quantity, exactly: "80Gi", "1500m", "2.5e3"."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"quantity {text!r}: want a number with an optional suffix such as m, k, Gi or e3")
    number, exponent, suffix = found.groups()
    return Fraction(number) * (Fraction(f"1{exponent}") if exponent else _SUFFIX[suffix])


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def main() -> int:
    """Check a running cluster, by kubectl; exit code 1 when a rule is broken."""
    import argparse
    import json
    import subprocess

    parser = argparse.ArgumentParser(description=check.__doc__)
    parser.add_argument("--kubeconfig", required=True)
    arguments = parser.parse_args()

    def listed(resource: str) -> list[Object]:
        command = ["kubectl", f"--kubeconfig={arguments.kubeconfig}", "get", resource, "--all-namespaces", "-o=json"]
        items: list[Object] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["items"]
        return items

    violations = check(State(*(listed(name) for name in ("pods", "resourceclaims", "resourceslices", "nodes"))))
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
