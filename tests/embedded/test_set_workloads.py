"""StatefulSets and DaemonSets of the embedded cluster: which pods there are, one after the other or on each node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.controllers.owned import PODS_MAX, Owned
from scheduler.embedded.controllers.reactors import ObjectKey, Reactors
from scheduler.embedded.controllers.workloads import Workloads
from scheduler.embedded.kinds.catalog import DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, STATEFUL_SET
from scheduler.embedded.server.served_kinds import ServedKind
from tests.patience import PATIENCE_S

SPEC = {"containers": [{"name": "a", "image": "i"}]}


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Only the two controllers: nobody binds or runs a pod but the test."""
    async with EmbeddedCluster(controllers=False) as started:
        reactors = Reactors(started.api, [Workloads(started.api)])
        reactors.start()
        yield started
        await reactors.close()


def workload(kind: str, name: str = "set", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": SPEC}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def node(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def pods(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    return [stored.obj for stored in cluster.api.store.listed(POD.kind_id)]


def names(cluster: EmbeddedCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(cluster)]


def nodes_of_pods(cluster: EmbeddedCluster) -> list[str]:
    terms = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in pods(cluster)
    ]
    return sorted(term[0]["matchFields"][0]["values"][0] for term in terms)


async def until(cluster: EmbeddedCluster, holds: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    for kind in (POD, STATEFUL_SET, DAEMON_SET):
        cluster.api.store.wake_on_change(kind.kind_id, changed.set)
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            changed.clear()
            await changed.wait()


def make_ready(cluster: EmbeddedCluster, name: str) -> None:
    def change(obj: dict[str, Any]) -> dict[str, Any]:
        obj["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return obj

    cluster.api.update(POD, "default", name, change, sub_resource="status")


async def test_a_stateful_sets_pods_come_one_after_the_other(cluster: EmbeddedCluster) -> None:
    volumes = [{"metadata": {"name": "data"}, "spec": {}}]
    await cluster.apply([workload("StatefulSet", replicas=3, serviceName="svc", volumeClaimTemplates=volumes)])

    for count in (1, 2, 3):
        await until(cluster, lambda count=count: len(pods(cluster)) == count)
        make_ready(cluster, f"set-{count - 1}")
    await until(
        cluster,
        lambda: cluster.api.get(STATEFUL_SET, "default", "set").obj["status"].get("readyReplicas") == 3,
    )

    assert names(cluster) == ["set-0", "set-1", "set-2"]
    spec = pods(cluster)[1]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("set-1", "svc")
    assert spec["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-set-1"}}]


async def test_a_parallel_stateful_set_has_all_at_once_and_shrinks_from_the_end(cluster: EmbeddedCluster) -> None:
    await cluster.apply([workload("StatefulSet", replicas=3, podManagementPolicy="Parallel")])
    await until(cluster, lambda: len(pods(cluster)) == 3)

    await cluster.apply([workload("StatefulSet", replicas=1, podManagementPolicy="Parallel")])
    await until(cluster, lambda: len(pods(cluster)) == 1)

    assert names(cluster) == ["set-0"]


@pytest.mark.parametrize(
    ("kind", "field", "rolling"),
    [
        (DEPLOYMENT, "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),
        (STATEFUL_SET, "updateStrategy", {"partition": 0}),
        (DAEMON_SET, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}),
    ],
    ids=["deployment", "stateful-set", "daemon-set"],
)
async def test_a_rolling_update_has_defaults(
    cluster: EmbeddedCluster, kind: ServedKind, field: str, rolling: dict[str, Any]
) -> None:
    given, one = next(iter(rolling)), 5
    for name, strategy in {"none": {}, "null": {"rollingUpdate": None}, "one": {"rollingUpdate": {given: one}}}.items():
        cluster.api.create(kind, "default", workload(kind.kind, name, **{field: strategy}))
    wanted = {"none": rolling, "null": rolling, "one": {**rolling, given: one}}
    for name, update in wanted.items():
        stored = cluster.api.get(kind, "default", name).obj["spec"][field]
        assert stored == {"type": "RollingUpdate", "rollingUpdate": update}


async def test_a_daemon_set_has_a_pod_for_each_node_that_it_may_use(cluster: EmbeddedCluster) -> None:
    taint = {"key": "example.com/only", "value": "others", "effect": "NoSchedule"}
    pressure = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
    await cluster.apply(
        [
            node("plain"),
            node("tainted", taints=[taint]),
            node("cordoned", unschedulable=True),
            node("full", taints=[pressure]),
        ]
    )
    await cluster.apply([workload("DaemonSet")])
    await until(cluster, lambda: len(pods(cluster)) == 3)
    assert nodes_of_pods(cluster) == ["cordoned", "full", "plain"]

    await cluster.apply([node("late")])
    await until(cluster, lambda: len(pods(cluster)) == 4)
    cluster.api.delete(NODE, "", "plain")
    await until(cluster, lambda: len(pods(cluster)) == 3)

    assert nodes_of_pods(cluster) == ["cordoned", "full", "late"]
    await until(
        cluster,
        lambda: cluster.api.get(DAEMON_SET, "default", "set").obj["status"]["desiredNumberScheduled"] == 3,
    )


async def test_a_daemon_set_obeys_its_templates_selector(cluster: EmbeddedCluster) -> None:
    daemon_set = workload("DaemonSet")
    daemon_set["spec"]["template"]["spec"] = {**SPEC, "nodeSelector": {"gpu": "yes"}}
    await cluster.apply([node("with", {"gpu": "yes"}), node("without")])
    await cluster.apply([daemon_set])
    await until(cluster, lambda: len(pods(cluster)) == 1)

    assert nodes_of_pods(cluster) == ["with"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
async def test_who_asks_for_billions_of_pods_keeps_nobody_waiting(kind: str) -> None:
    """A look makes a bounded number, and the others have their turn in between."""
    async with EmbeddedCluster(controllers=False) as started:
        api = started.api
        reactor = Workloads(api, waits_for_ready=False, pods_per_look=10)
        many = workload(kind, "many", replicas=2**31 - 1, podManagementPolicy="Parallel")
        if kind == "Job":
            template = {"spec": {**SPEC, "restartPolicy": "Never"}}
            many = {"metadata": {"name": "many"}, "spec": {"parallelism": 2**31 - 1, "template": template}}
        due: dict[ObjectKey, None] = {}
        api.store.listen(lambda kind_id, change: due.update(dict.fromkeys(reactor.notice(kind_id, change))))
        api.create({"ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET, "Job": JOB}[kind], "default", many)
        api.create(DEPLOYMENT, "kube-system", workload("Deployment", "few", replicas=3))
        for _ in range(30):
            key = next(iter(due))
            del due[key]
            before = len(api.store.listed(POD.kind_id))
            reactor.look(key)
            assert len(api.store.listed(POD.kind_id)) - before <= 10
        made = [pod.namespace for pod in api.store.listed(POD.kind_id)]
        assert made.count("kube-system") == 3
        assert made.count("default") >= 50, "the next look is due when pods were made"


@pytest.mark.parametrize(
    ("part", "value", "is_looked_at"),
    [
        ("spec", {"nodeName": "one"}, False),
        ("metadata", {"labels": {"app": "set", "other": "label"}}, False),
        ("status", {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}, False),
        ("status", {"conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ("status", {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ("status", {"phase": "Failed"}, True),
        ("metadata", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ("metadata", {"ownerReferences": []}, True),
    ],
)
async def test_an_owner_is_looked_at_again_where_a_pod_counts_otherwise(
    part: str, value: dict[str, Any], is_looked_at: bool
) -> None:
    """A look reads all its pods: one after each binding or claim would cost their square."""
    async with EmbeddedCluster(controllers=False) as started:
        api = started.api
        reactor = Workloads(api)
        noticed: list[ObjectKey] = []
        api.store.listen(lambda kind_id, change: noticed.extend(reactor.notice(kind_id, change)))
        api.create(REPLICA_SET, "default", workload("ReplicaSet", replicas=1))
        owner = noticed[-1]
        reactor.look(owner)
        (pod,) = api.store.listed(POD.kind_id)
        noticed.clear()
        changed = {**pod.obj, "metadata": {**pod.obj["metadata"]}}
        changed[part] = {**changed.get(part, {}), **value}
        api.store.put(POD.kind_id, "default", pod.name, changed)

        assert set(noticed) == ({owner} if is_looked_at else set())


def test_one_owner_has_a_hundred_thousand_pods_at_most() -> None:
    owned = Owned(EmbeddedCluster(controllers=False).api, pods_per_look=10)
    assert [owned.missing(2**31 - 1, there) for there in (0, PODS_MAX - 3, PODS_MAX)] == [10, 3, 0]
