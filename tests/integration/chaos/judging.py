"""What must not be at the end of a chaos run: a pod that waits and could run, and memory that grows.

Pure, and without a line of the scheduler's: what is free is counted from the API objects. It knows the shapes of pods
and claims that `workload` makes, and no others: one that it does not know is an error, not a pod that fits nowhere.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.integration.api import Object
from tests.integration.chaos.ledger import devices_of

CONSUMERS_MAX: Final = 256
NUMA_SELECTOR: Final = ".numa == 0"
GROWTH_MAX: Final = 1.05


@dataclass(frozen=True, slots=True)
class Stock:
    """API objects of one moment, of all schedulers."""

    pods: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    volume_claims: Sequence[Object] = ()


def could_run(stock: Stock, namespace: str) -> dict[str, str]:
    """Pods of that namespace that wait though there is room: by name the first node that has it.

    Each pod by itself: of two that want the last device both are named.
    """
    free = _free_devices(stock)
    claims = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in stock.claims}
    found = {}
    for pod in stock.pods:
        metadata = pod["metadata"]
        if metadata["namespace"] != namespace or pod["spec"].get("nodeName") or metadata.get("deletionTimestamp"):
            continue
        nodes = _nodes_of_volumes(pod, stock)
        for node in stock.nodes:
            name = node["metadata"]["name"]
            if node["spec"].get("unschedulable") or (nodes is not None and name not in nodes):
                continue
            if _claims_fit(pod, name, free[name], claims):
                found[metadata["name"]] = name
                break
    return found


def free_devices(stock: Stock) -> int:
    """How many published devices no claim has."""
    return sum(len(devices) for devices in _free_devices(stock).values())


def _free_devices(stock: Stock) -> dict[str, list[Object]]:
    taken = {device for claim in stock.claims for device in devices_of(claim)}
    free: dict[str, list[Object]] = defaultdict(list)
    for one in stock.slices:
        spec = one["spec"]
        for device in spec.get("devices") or ():
            if (spec["driver"], spec["pool"]["name"], device["name"]) not in taken:
                free[spec["nodeName"]].append(device)
    return free


def _claims_fit(pod: Object, node: str, free: Sequence[Object], claims: dict[tuple[str, str], Object]) -> bool:
    left = list(free)
    generated = {
        entry["name"]: entry["resourceClaimName"]
        for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for reference in pod["spec"].get("resourceClaims") or ():
        name = reference.get("resourceClaimName") or generated.get(reference["name"])
        claim = claims.get((pod["metadata"]["namespace"], name or ""))
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return False  # it waits for its claim, which is no scheduler's work
        status = claim.get("status") or {}
        if status.get("allocation"):
            if len(status.get("reservedFor") or ()) >= CONSUMERS_MAX:
                return False
            if any(pool != node for _, pool, _ in devices_of(claim)):
                return False
        elif not _take(claim, left):
            return False
    return True


def _take(claim: Object, left: list[Object]) -> bool:
    """Whether the claim's requests find their devices among those left; they are taken from them."""
    for request in claim["spec"]["devices"]["requests"]:
        wanted = request["exactly"]
        expressions = [selector["cel"]["expression"] for selector in wanted.get("selectors") or ()]
        assert all(text.endswith(NUMA_SELECTOR) for text in expressions), (
            f"a selector of somebody else's: {expressions}"
        )
        fitting = [one for one in left if not expressions or one["attributes"]["numa"] == {"int": 0}]
        count = wanted.get("count") or 1
        if len(fitting) < count:
            return False
        for device in fitting[:count]:
            left.remove(device)
    return True


def _nodes_of_volumes(pod: Object, stock: Stock) -> set[str] | None:
    """Nodes from which its volume claims reach a volume that is theirs or free; None: it has none."""
    nodes: set[str] | None = None
    for volume in pod["spec"].get("volumes") or ():
        name, namespace = volume["persistentVolumeClaim"]["claimName"], pod["metadata"]["namespace"]
        found = set()
        for claim in stock.volume_claims:
            if (claim["metadata"]["namespace"], claim["metadata"]["name"]) == (namespace, name):
                found = {_node_of(one) for one in stock.volumes if _serves(one, claim)}
        nodes = found if nodes is None else nodes & found
    return nodes


def _serves(volume: Object, claim: Object) -> bool:
    if claim["spec"].get("volumeName"):
        return bool(volume["metadata"]["name"] == claim["spec"]["volumeName"])
    owner = volume["spec"].get("claimRef")
    if owner:
        # Promised to it, and not yet bound.
        return bool(owner.get("uid") == claim["metadata"]["uid"])
    is_deleted = volume["metadata"].get("deletionTimestamp")
    return not is_deleted and bool(volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"])


def _node_of(volume: Object) -> str:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    name: str = term["matchExpressions"][0]["values"][0]
    return name


@dataclass(frozen=True, slots=True)
class Quarters:
    """Median of resident bytes in each quarter of a process's life."""

    process: str
    lived_s: float
    medians: tuple[float, ...]

    @property
    def growth(self) -> float:
        """The last quarter as a multiple of the second."""
        return self.medians[3] / self.medians[1]

    def __str__(self) -> str:
        sizes = ", ".join(f"{one / 2**20:.1f}" for one in self.medians)
        return f"{self.process}, {self.lived_s:.0f} s: {sizes} MiB by quarter, {100 * (self.growth - 1):+.1f} %"


def quarters(process: str, samples: Sequence[tuple[float, float]]) -> Quarters | None:
    """Of (second, resident bytes); None with fewer than two samples in a quarter."""
    if not samples:
        return None
    begin, end = samples[0][0], samples[-1][0]
    parts: list[list[float]] = [[], [], [], []]
    for at_s, size in samples:
        parts[min(int(4 * (at_s - begin) / max(end - begin, 1e-9)), 3)].append(size)
    if min(map(len, parts)) < 2:
        return None
    return Quarters(process, end - begin, tuple(map(statistics.median, parts)))


def growing(lives: Iterable[Quarters]) -> list[str]:
    """Processes whose memory is not flat: the last quarter of a life is more than 5 % above the second."""
    return [f"memory grows: {one}" for one in lives if one.growth > GROWTH_MAX]
