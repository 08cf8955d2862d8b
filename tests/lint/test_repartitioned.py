"""Partitions in the place of a device that a claim has: told on the claim, on the slices, and of a cluster alone."""

from __future__ import annotations

import pytest

from scheduler.lint.repartitioned import repartitioned
from tests.lint.texts import dump, find

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: team}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices:
      results:
        - {request: gpu, driver: gpu.example.com, pool: a, device: gpu-1}
        - {request: gpu, driver: gpu.example.com, pool: a, device: gpu-0}
"""
WHOLE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-devices}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
"""
HALVES = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-devices}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 2, resourceSliceCount: 2}
  devices:
    - {name: gpu-1}
    - {name: gpu-0-half, consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: 40Gi}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a-counters}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 2, resourceSliceCount: 2}
  sharedCounters: [{name: gpu-0, counters: {memory: {value: 80Gi}}}]
"""


def told(text, published=None):
    return [(one.object, one.field) for one in find(text, published=published) if one.code == "device-repartitioned"]


RESULT = "status.allocation.devices.results[1].device"


@pytest.mark.parametrize(
    ("files", "cluster", "findings"),
    [
        pytest.param(HALVES, WHOLE + "---\n" + CLAIM, ["spec.devices"], id="new-slices-for-a-cluster"),
        pytest.param(CLAIM, HALVES, [RESULT], id="a-claim-and-the-clusters-slices"),
        pytest.param(CLAIM + "---\n" + HALVES, "", [RESULT, "spec.devices"], id="a-dump-alone"),
        pytest.param(WHOLE, WHOLE + "---\n" + CLAIM, [], id="nothing-changes"),
        pytest.param(HALVES.replace("Count: 2", "Count: 3"), CLAIM, [], id="an-incomplete-pool"),
        pytest.param(
            HALVES,
            CLAIM.replace("device: gpu-0}", "device: gpu-0, adminAccess: true}"),
            [],
            id="admin-access",
        ),
    ],
)
def test_it_is_told_where_the_files_are_concerned(files, cluster, findings) -> None:
    assert [field for _, field in told(files, dump(cluster) if cluster else None)] == findings


def test_it_names_the_claim_and_the_device() -> None:
    (found,) = [one for one in find(HALVES, published=dump(CLAIM)) if one.code == "device-repartitioned"]
    assert "ResourceClaim team/c has device gpu-0, which this pool does not publish any more" in found.message


def test_a_cluster_alone_is_told_too() -> None:
    assert repartitioned(dump(WHOLE + "---\n" + CLAIM)) == []
    (line,) = repartitioned(dump(HALVES + "---\n" + CLAIM))
    assert line.startswith("ResourceClaim team/c: pool a does not publish its device gpu-0 any more")


@pytest.mark.parametrize("broken", ["spec: 7", "spec: {pool: 3}", "status: {allocation: [1]}"])
def test_what_cannot_be_read_is_for_other_rules(broken) -> None:
    for kind in ("ResourceSlice", "ResourceClaim"):
        find(f"apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n{broken}\n")
