"""The fields of Kubernetes' kinds, the kinds there are, and the releases and gates of both.

The tables are `api_types.txt`, `api_kinds.txt` and `api_gates.txt`, for the releases OLDEST to BETA. Lint and the
embedded server ask it, each with words of its own. `tests/lint/test_api_fields.py` compares it with the released Go
types and with the Kubernetes client's models, which take 0.15 s and 40 MiB to load.

Not here: what a value of the right type must be (`claim_refusals`, `slice_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

OLDEST: Final = 34
NEWEST: Final = 37
BETA: Final = 38
"""Minors of Kubernetes; BETA is not out, and followed where it is named only."""
KNOWN: Final = f"1.{OLDEST} to 1.{NEWEST}, and 1.{BETA} as its beta"

# Where a type is not called as its kind, it follows the kind.
_KINDS_WITH_FIELDS: Final[Mapping[str, str]] = {
    "v1": "ConfigMap Event Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController "
    "ResourceQuota Secret Service ServiceAccount",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v1": "HorizontalPodAutoscaler=V1HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "coordination.k8s.io/v1": "Lease",
    "events.k8s.io/v1": "Event=EventsEvent",
    "policy/v1": "PodDisruptionBudget",
    "resource.k8s.io/v1": "DeviceClass DeviceTaintRule ResourceClaim=DRAResourceClaim ResourceClaimTemplate "
    "ResourceSlice",
    "resource.k8s.io/v1beta2": "DeviceTaintRule",
    "scheduling.k8s.io/v1": "PriorityClass",
    "scheduling.k8s.io/v1alpha2": "PodGroup=OldPodGroup Workload=OldWorkload",
    "scheduling.k8s.io/v1alpha3": "CompositePodGroup PodGroup Workload",
    "scheduling.k8s.io/v1beta1": "CompositePodGroup PodGroup Workload",
    "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
}
_TYPE_OF_KIND: Final[Mapping[tuple[str, str], str]] = {
    (version, kind): name or kind
    for version, kinds in _KINDS_WITH_FIELDS.items()
    for kind, _, name in (one.partition("=") for one in kinds.split())
}
_TYPES_OF_KINDS: Final = frozenset(_TYPE_OF_KIND.values())


def type_of(api_version: str, kind: str) -> str | None:
    """The type of a kind's objects; None where its fields are not in the table."""
    return _TYPE_OF_KIND.get((api_version, kind))


class Member(NamedTuple):
    """A field of a type, or a kind of a version.

    Args:
        of: The field's type as the table writes it: `containers` is a `[Container]`.
        since, until: The releases that have it, as minors.
        gate: "" for none, or one that is on in all of them.
    """

    of: str = ""
    since: int = OLDEST
    until: int = BETA
    gate: str = ""
    is_required: bool = False

    def is_in(self, minor: int | None) -> bool:
        """None: in any release."""
        return minor is None or self.since <= minor <= self.until


@cache
def members_of(name: str) -> Mapping[str, Member]:
    """The fields of a type, those of all releases."""
    plain = {"apiVersion": Member("s"), "kind": Member("s")} if name in _TYPES_OF_KINDS else {}
    return plain | _members(_types()[name])


@cache
def fields_of(name: str, minor: int | None = None) -> Mapping[str, str]:
    """The fields of a type in a release, None for any, with their types as the table writes them."""
    return {field: one.of for field, one in members_of(name).items() if one.is_in(minor)}


@cache
def required_of(name: str, minor: int | None = None) -> tuple[str, ...]:
    """The fields that objects of a type must have."""
    return tuple(field for field, one in members_of(name).items() if one.is_required and one.is_in(minor))


def kinds_in(api_version: str, minor: int | None = None) -> frozenset[str]:
    """The kinds of an API version in a release, None for any; empty when it is none of Kubernetes' own."""
    return frozenset(kind for kind, one in _kinds().get(api_version, {}).items() if one.is_in(minor))


def versions_of(kind: str, minor: int | None = None) -> tuple[str, ...]:
    """The API versions that have a kind in a release, None for any; the newest first."""
    return tuple(sorted((version for version in _kinds() if kind in kinds_in(version, minor)), key=_age))


def _age(api_version: str) -> tuple[bool, bool, int]:
    """Kubernetes' order: v2, v1, v1beta2, v1beta1, v1alpha3."""
    version = api_version.rpartition("/")[2]
    return "alpha" in version, "beta" in version, -int("".join(filter(str.isdigit, version)))


class Gate(NamedTuple):
    """A feature gate.

    Args:
        kep: The number of its enhancement proposal, 0 for none.
        stages: In the releases OLDEST to BETA.
        feature, ours: What it is and what we do, for docs/support-matrix.md; "" where nothing is decided by it.
    """

    kep: int
    stages: tuple[str, ...]
    feature: str = ""
    ours: str = ""

    def stage(self, minor: int) -> str:
        """`-` not there, `A` alpha, `B-` beta and off, `B` beta and on, `GA` always there (or there, and on)."""
        return self.stages[minor - OLDEST]

    def is_on(self, minor: int) -> bool:
        """Whether it is on unless somebody turns it off."""
        return self.stage(minor) in ("B", "GA")


@cache
def gates() -> Mapping[str, Gate]:
    """The gates of fields and kinds, and of what else a scheduler decides, by upstream's names."""
    found = {}
    for name, rest in _table("api_gates.txt").items():
        stages, *texts = rest.split(" | ")
        kep, *of_releases = stages.split()
        found[name] = Gate(int(kep), tuple(of_releases), *texts)
    return found


@cache
def _kinds() -> Mapping[str, Mapping[str, Member]]:
    return {name: _members(rest) for name, rest in _table("api_kinds.txt").items()}


@cache
def _types() -> Mapping[str, str]:
    return _table("api_types.txt")


def _members(text: str) -> dict[str, Member]:
    found = {}
    for entry in text.split():
        rest, _, gate = entry.partition("#")
        rest, _, releases = rest.partition("@")
        name, _, of = rest.partition(":")
        since, _, until = releases.partition("-")
        found[name.removesuffix("!")] = Member(
            of, _minor(since, OLDEST), _minor(until, BETA), gate, is_required=name.endswith("!")
        )
    return found


def _minor(release: str, absent: int) -> int:
    return int(release.partition(".")[2]) if release else absent


def _table(file: str) -> dict[str, str]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8").replace("\n  ", " ")
    lines = (line.partition(" = ") for line in text.splitlines() if not line.startswith("#"))
    return {name: rest for name, _, rest in lines}
