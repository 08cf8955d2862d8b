"""The whole app against an API server that serves PodGroups: the way from the wire to one reservation for all."""

from __future__ import annotations

from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.embedded.kinds.catalog import KINDS
from scheduler.embedded.server.served_kinds import Registry, ServedKind
from tests.kube.test_app import CLASS, RESOURCE, bound, claim, node, pod, resource_slice, running, wait_for

POD_GROUP = ServedKind("scheduling.k8s.io/v1alpha2", "PodGroup")


def member(name: str, group: str) -> dict:
    made = pod(name)
    made["spec"]["resourceClaims"][0]["resourceClaimName"] = "shared"
    made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


async def test_pods_of_a_group_share_the_reservation_and_others_have_their_own():
    registry = Registry((*KINDS, POD_GROUP))
    async with (
        EmbeddedCluster(controllers=False, registry=registry) as cluster,
        running(cluster) as app,
    ):
        await cluster.apply([node("node-1"), resource_slice("node-1", 1), CLASS, claim("shared")])
        group, _ = await cluster.apply(
            [
                {
                    "apiVersion": "scheduling.k8s.io/v1alpha2",
                    "kind": "PodGroup",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"resourceClaims": claims},
                }
                for name, claims in (("group", [{"name": "gpu", "resourceClaimName": "shared"}]), ("another", []))
            ]
        )
        await app.synced()
        await cluster.apply([member(name, "group") for name in ("a", "b", "c")])
        await bound(cluster, 3)
        await cluster.apply([member("stranger", "another")])
        pods = {one["metadata"]["name"]: one for one in await bound(cluster, 4)}
        (held,) = await wait_for(cluster, f"/apis/{RESOURCE}/resourceclaims", len)

        uid = pods["stranger"]["metadata"]["uid"]
        assert held["status"]["reservedFor"] == [
            {
                "apiGroup": "scheduling.k8s.io",
                "resource": "podgroups",
                "name": "group",
                "uid": group["metadata"]["uid"],
            },
            {"resource": "pods", "name": "stranger", "uid": uid},
        ]
        served = {reflector.kind.name: reflector.stats.version for reflector in app.running.reflectors}
        assert served["PodGroup"] == "v1alpha2"
        assert served["DeviceTaintRule"] == "v1"
