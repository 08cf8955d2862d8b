"""Every example with a cluster of its own (docs/examples/shapes, features and nvidia) does what its README says, and
those beside them (docs/examples) work on what the public dra-example-driver publishes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.integration.api import Object
from tests.integration.public_driver import gpus
from tests.integration.world import ROOT, World, condition_of, devices_of

EXAMPLES = ROOT / "docs" / "examples"
SHAPES = EXAMPLES / "shapes"
FEATURES = EXAMPLES / "features"
NVIDIA = EXAMPLES / "nvidia"

# Examples with a test of their own below, or elsewhere (binding conditions need a driver that answers, PodGroups an API
# server that serves them: test_pod_groups.py).
TOLD_ELSEWHERE = {"binding-conditions", "gang", "inference-partitions", "podgroup", "preemption"}


@dataclass(frozen=True)
class Outcome:
    """What becomes of an example's pods.

    Args:
        devices: For each beginning of a pod's name, the devices of each of its pods, as "pool/device …".
        refused: For each beginning of a pod's name, a part of what each of its pods is told.
    """

    devices: Mapping[str, list[str]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


OUTCOMES = {
    # shapes
    "containers-shared": Outcome({"media": ["media-0/gpu-0"]}),
    "development-shared": Outcome({"dev-": ["dev-0/gpu-0"] * 3}),
    "large-or-two-small": Outcome({"flexible-0": ["large-0/gpu-0"], "flexible-1": ["small-0/gpu-0 small-0/gpu-1"]}),
    "training-linked": Outcome({"train-linked": [" ".join(f"train-0/gpu-{number}" for number in range(3, 7))]}),
    "training-near": Outcome({"train-near": ["near-0/gpu-1 near-0/gpu-2 near-0/nic-1"]}),
    "training-workers": Outcome(
        {"train-workers": [f"worker-{number}/gpu-0 worker-{number}/gpu-1" for number in range(3)]}
    ),
    "two-on-one-node": Outcome({}, {"wants-two": "0/3 nodes are available: 3 cannot allocate all claims"}),
    # features
    "admin-access": Outcome({"worker": ["admin-0/gpu-0 admin-0/gpu-1"], "monitor": ["admin-0/gpu-0 admin-0/gpu-1"]}),
    "cel-selectors": Outcome(
        {
            "by-version": ["mixed-0/gpu-1"],
            "by-memory": ["mixed-0/gpu-2"],
            "by-model": ["mixed-0/gpu-0"],
            "by-optional-attribute": ["mixed-0/gpu-3"],
        }
    ),
    "consumable-network": Outcome(
        {"redundant": ["net-0/nic-0 net-0/nic-1"], "modest": ["net-0/nic-0"]}, {"greedy": "cannot allocate all claims"}
    ),
    "device-taint-rule": Outcome(
        {"careful": ["ruled-0/gpu-1"], "technician": ["ruled-0/gpu-0"]}, {"unlucky": "cannot allocate all claims"}
    ),
    "device-taints": Outcome(
        {
            "informed": ["tainted-0/gpu-1"],
            "technician": ["tainted-0/gpu-2"],
            "short-lived": ["tainted-0/gpu-3"],
            "tolerates-all": ["tainted-0/gpu-4"],
            "careful": ["tainted-0/gpu-0"],
        },
        {"unlucky": "cannot allocate all claims"},
    ),
    "extended-resource": Outcome(
        {"explicit": ["new-0/gpu-0 new-0/gpu-1"], "implicit": ["new-0/gpu-2"], "plugin": [""]},
        {"waits": "1 Insufficient example.com/gpu, 1 cannot allocate all claims"},
    ),
    "partitionable-devices": Outcome(
        {
            "half": ["parts-0/gpu-0-half-0"],
            "quarter-0": ["parts-0/gpu-0-quarter-2"],
            "quarter-1": ["parts-0/gpu-0-quarter-3"],
        },
        {"whole": "cannot allocate all claims"},
    ),
    "prioritized-alternatives": Outcome(
        {
            "flexible-0": ["new-0/gpu-0"],
            "flexible-1": ["old-0/gpu-0"],
            "flexible-2": ["old-0/gpu-1 old-0/gpu-2"],
        },
        {"flexible-3": "0/2 nodes are available: 2 cannot allocate all claims"},
    ),
    "shared-claim": Outcome({"studio-": ["shared-0/gpu-0 shared-0/gpu-1"] * 2}),
    "shared-partitions": Outcome(
        {
            "large-0": ["shares-0/gpu-0-half-0"],
            "large-1": ["shares-0/gpu-0-half-1"],
            "small": ["shares-0/gpu-0-half-0"],
        },
        {"whole": "cannot allocate all claims"},
    ),
    # nvidia
    "mig": Outcome(
        {
            "tune": ["h100-mig/gpu-0-mig-3g40gb-9-0"],
            "pair": ["h100-mig/gpu-0-mig-1g10gb-19-4 h100-mig/gpu-0-mig-1g10gb-19-5"],
            "as-before": ["h100-mig/gpu-0-mig-1g10gb-19-6"],
            "chat": [f"h100-mig/gpu-1-mig-1g10gb-19-{place}" for place in range(3)],
        }
    ),
    "time-slices": Outcome({"dev-": ["h100-dev/gpu-0"] * 2}),
}


def workloads() -> list[Path]:
    files = [path for folder in (SHAPES, FEATURES, NVIDIA) for path in folder.glob("*.yaml")]
    return sorted(path for path in files if not path.stem.endswith("-cluster"))


def cluster_of(workload: Path) -> Path:
    return workload.with_name(f"{workload.stem}-cluster.yaml")


async def run_example(world: World, workload: Path) -> None:
    await world.apply(cluster_of(workload))
    await world.start_scheduler()
    await world.apply(workload)


async def used_devices(world: World, pod: Object) -> str:
    """The devices of all its claims, sorted, as "pool/device …"."""
    names = [entry["resourceClaimName"] for entry in pod["status"].get("resourceClaimStatuses") or ()]
    names += [
        entry["resourceClaimName"] for entry in pod["spec"].get("resourceClaims") or () if "resourceClaimName" in entry
    ]
    if extended := pod["status"].get("extendedResourceClaimStatus"):
        names.append(extended["resourceClaimName"])
    claims = [await world.api.get("resourceclaims", name, world.namespace) for name in names]
    return " ".join(sorted(f"{pool}/{device}" for claim in claims for pool, device in devices_of(claim)))


def test_every_example_has_its_outcome_here_and_its_line_in_a_readme() -> None:
    stems = {path.stem for path in workloads()}

    assert stems == {*OUTCOMES, *TOLD_ELSEWHERE}
    for path in workloads():
        assert cluster_of(path).is_file()
        assert f"`{path.name}`" in (path.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "workload", [path for path in workloads() if path.stem in OUTCOMES], ids=lambda path: path.stem
)
async def test_an_example_ends_as_it_says(world: World, workload: Path) -> None:
    wanted = OUTCOMES[workload.stem]
    pods_count = sum(len(devices) for devices in wanted.devices.values()) + len(wanted.refused)

    def decided(pods: dict[str, Object]) -> bool:
        states = [bool(pod["spec"].get("nodeName")) or condition_of(pod) is not None for pod in pods.values()]
        return len(states) >= pods_count and all(states)

    await run_example(world, workload)
    pods = await world.wait_for("pods", decided, what=f"{pods_count} pods bound or refused")

    found: dict[str, list[str]] = defaultdict(list)
    refused: dict[str, str] = {}
    for name, pod in sorted(pods.items()):
        beginning = next((one for one in [*wanted.devices, *wanted.refused] if name.startswith(one)), name)
        if pod["spec"].get("nodeName"):
            found[beginning].append(await used_devices(world, pod))
        else:
            refused[beginning] = str((condition_of(pod) or {})["message"])
    assert {name: Counter(devices) for name, devices in found.items()} == {
        name: Counter(devices) for name, devices in wanted.devices.items()
    }, refused
    assert refused.keys() == wanted.refused.keys()
    for name, part in wanted.refused.items():
        assert part in refused[name]
    assert await world.violations() == []


async def test_partitions_for_an_inference_deployment_go_as_far_as_its_autoscaler(world: World) -> None:
    """Three replicas, then fourteen as the autoscaler would have it at most; a fifteenth does not fit."""
    workload = SHAPES / "inference-partitions.yaml"
    await run_example(world, workload)
    for replicas in (3, 14):
        await world.api.merge_patch("deployments", "answers", {"spec": {"replicas": replicas}}, world.namespace)
        pods = await world.wait_for(
            "pods",
            lambda pods, replicas=replicas: sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == replicas,
            what=f"{replicas} replicas bound",
        )
        devices = [await used_devices(world, pod) for pod in pods.values()]
        assert len(set(devices)) == replicas
        assert all("-1g-" in device for device in devices)
        assert await world.violations() == []

    await world.api.merge_patch("deployments", "answers", {"spec": {"replicas": 15}}, world.namespace)
    pods = await world.wait_for(
        "pods", lambda pods: any(condition_of(pod) for pod in pods.values()), what="the fifteenth refused"
    )
    assert sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 14
    assert await world.violations() == []


async def test_pods_of_a_group_are_bound_together_or_not_at_all(world: World) -> None:
    """One group fits jointly; the other one says how many of its pods did, and holds nothing."""
    await run_example(world, FEATURES / "gang.yaml")
    pods = await world.wait_for(
        "pods",
        lambda pods: are_bound(pods) == 2 and all("fit together" in told(pods, f"too-big-{one}") for one in (0, 1)),
        what="one group bound, and the other told why not",
    )
    assert await used_devices(world, pods["helper"]) == "gang-1/gpu-0"
    assert await used_devices(world, pods["trainer"]) == "gang-0/gpu-0 gang-0/gpu-1"
    claims = await world.api.list("resourceclaims", world.namespace)
    assert sum("allocation" in claim.get("status", {}) for claim in claims) == 2
    assert await world.violations() == []


def told(pods: dict[str, Object], name: str) -> str:
    return str((condition_of(pods[name]) or {}).get("message", "")) if name in pods else ""


async def test_the_urgent_pod_takes_the_gpu_of_an_experiment(world: World) -> None:
    """The other experiment goes on, and the pod that comes in place of the first one waits."""
    workload = FEATURES / "preemption.yaml"
    await world.apply(cluster_of(workload))
    await world.start_scheduler()
    before = await world.wait_for("pods", lambda pods: len(pods) == 2 == are_bound(pods), what="two experiments bound")

    await world.apply(workload)
    pods = await world.wait_bound("training")
    if len(pods) < 3:
        pods = await world.wait_for("pods", lambda pods: len(pods) == 3, what="an experiment in place of the first one")
    assert pods["training"]["spec"]["nodeName"] == "busy-0"
    (stays,) = before.keys() & pods.keys()
    devices = [await used_devices(world, pods[name]) for name in ("training", stays)]
    assert sorted(devices) == ["busy-0/gpu-0", "busy-0/gpu-1"]
    assert await world.violations() == []


def are_bound(pods: dict[str, Object]) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values())


FITS_NOWHERE = "cannot-fit"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
async def test_an_example_works_with_the_public_driver(world: World, path: Path) -> None:
    """Each on a node of that driver, as the README says: all its pods run, but the one that shows what does not."""
    (name,) = await world.add_nodes(1)
    for item in gpus(world.driver, name):
        await world.create("resourceslices", item)
    await world.start_scheduler()
    await world.apply(EXAMPLES / "gpu-class.yaml")
    if path.stem == "gpu-class":
        return
    await world.apply(path)
    if path.stem == FITS_NOWHERE:
        await world.wait_unschedulable("wants-nine")
        return

    def all_bound(pods: dict[str, Object]) -> bool:
        return len(pods) >= pods_of(path) and all(pod["spec"].get("nodeName") for pod in pods.values())

    await world.wait_for("pods", all_bound, what=f"{path.name}: {pods_of(path)} pods bound")
    assert await world.violations() == []


def pods_of(path: Path) -> int:
    specs = [body.get("spec") or {} for body in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    return sum(int(spec.get("replicas", 1)) for spec in specs if "containers" in spec or "template" in spec)
