"""Several processes of one scheduler name on both clusters: one schedules; who slept or was cut off writes nothing.

Each process has a proxy of its own, which counts what it sends. Lease times are short, or so long that only what the
test is about can end the lease. Not here: its rules, in time that passes at once (`tests/kube/test_lease.py`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.controlplane.fault_proxy import Fault, FaultProxy
from tests.integration.api import ApiError, Object
from tests.integration.conftest import RealCluster
from tests.integration.world import SCHEDULER_NAME, UNDER_TEST, World, devices_of

pytestmark = pytest.mark.skipif(UNDER_TEST != "ours", reason="kube-scheduler has its own tests")

SHORT = {"leaseDuration": "20s", "renewDeadline": "15s", "retryPeriod": "1s"}  # less, and a busy machine loses it
LONG = {"leaseDuration": "2h", "renewDeadline": "1h", "retryPeriod": "500ms"}
NODES, DEVICES = 10, 20
PODS = NODES * DEVICES
WRITES = r"/(pods|resourceclaims|events)\b"
LEASES = r"/leases\b"


@asynccontextmanager
async def second_process(world: World) -> AsyncIterator[World]:
    """The same cluster and the same names, through a proxy of its own."""
    first = world.proxy
    async with FaultProxy(first.upstream, first.upstream_ssl, first.tls) as proxy:
        second = replace(world, proxy=proxy, log=world.log.with_name("second.log"), _scheduler=None)
        try:
            yield second
        finally:
            await second.stop_scheduler(kill=True)


async def lease_of(world: World) -> Object:
    spec: Object = (await world.api.get("leases", SCHEDULER_NAME, world.cluster.lease_namespace))["spec"]
    return spec


async def holder_changes(world: World, old: str = "") -> str:
    """Wait until somebody other than `old` holds the lease."""

    def is_held(leases: dict[str, Object]) -> bool:
        spec = leases.get(SCHEDULER_NAME, {}).get("spec", {})
        return spec.get("holderIdentity", "") not in ("", old)

    await world.api.wait_for("leases", is_held, world.cluster.lease_namespace, what=f"another holder than {old!r}")
    holder: str = (await lease_of(world))["holderIdentity"]
    return holder


async def start(world: World, times: dict[str, str]) -> None:
    await world.start_scheduler(f"--config={world.configuration(**times)}")


def sent(world: World) -> int:
    """Requests of its scheduler that could change something."""
    return sum(count for (method, _), count in world.proxy.seen.items() if method != "GET")


def times_of_writes(world: World) -> list[float]:
    """From now on, when each write of its scheduler (the lease's are none) came to its proxy."""
    loop, times = asyncio.get_running_loop(), list[float]()

    async def note(path: str) -> None:
        times.append(loop.time())

    for method in ("POST", "PATCH", "PUT", "DELETE"):
        world.proxy.add(Fault("before", method, WRITES, times=-1, action=note))
    return times


async def two_hundred(world: World) -> list[str]:
    """As many pods as there are devices, none of them created yet; their names."""
    await world.add_nodes(NODES, devices=DEVICES)
    await world.add_class()
    await world.add_template()
    return [f"pod-{number:03}" for number in range(PODS)]


async def some_bound(world: World, count: int) -> None:
    def bound(pods: dict[str, Object]) -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) >= count

    await world.wait_for("pods", bound, what=f"{count} pods bound")


async def all_have_what_is_theirs(world: World, pods: list[str]) -> None:
    """Every pod is bound with its own device."""
    assert await world.violations() == []
    state = await world.state()
    assert sorted(pod["metadata"]["name"] for pod in state.pods if pod["spec"].get("nodeName")) == pods
    used = [device for claim in state.claims for device in devices_of(claim)]
    assert len(used) == len(set(used)) == len(pods)


async def test_the_lease_is_as_client_go_writes_it(world: World) -> None:
    await start(world, LONG)
    await world.add_pod("pod")
    await world.add_nodes(1)
    await world.wait_bound("pod")
    spec = await lease_of(world)

    assert set(spec) == {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}
    assert spec["leaseDurationSeconds"] == 7200
    assert len(spec["renewTime"]) == len("2026-01-31T12:00:00.000000Z")
    assert spec["holderIdentity"].count("_") == 1


async def test_a_process_that_ends_in_order_hands_over_at_once(world: World) -> None:
    """The lease lasts for two hours: what the second one waits for is its release."""
    await world.add_nodes(1)
    await start(world, LONG)
    first = await holder_changes(world)
    async with second_process(world) as second:
        await start(second, LONG)
        await world.add_pod("first")
        await world.wait_bound("first")
        assert sent(second) == (await reviews(second))
        await world.stop_scheduler()
        await holder_changes(world, first)
        await world.add_pod("second")
        await second.wait_bound("second")
        assert (await lease_of(world))["leaseTransitions"] == 1


async def reviews(world: World) -> int:
    """What a process asks about its rights, which changes nothing."""
    return world.proxy.seen["POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]


@pytest.mark.parametrize("stopped_at", [25, 80, 160])
async def test_a_process_that_slept_writes_nothing_when_it_wakes_up(world: World, stopped_at: int) -> None:
    pods = await two_hundred(world)
    await start(world, SHORT)
    first = await holder_changes(world)
    async with second_process(world) as second:
        await start(second, SHORT)
        creating = asyncio.create_task(world.add_pods(pods, template="one-gpu"))
        await some_bound(world, stopped_at)
        world.signal_scheduler(signal.SIGSTOP)
        await creating
        await holder_changes(world, first)
        await second.wait_bound(*pods)
        before = sent(world)
        world.signal_scheduler(signal.SIGCONT)

        assert await world.scheduler_ended() == 1
        assert sent(world) == before
        assert "the lease was lost while this process was stopped" in world.log_tail()
        await all_have_what_is_theirs(world, pods)


async def test_a_process_that_cannot_renew_stops_before_the_next_one_begins(world: World) -> None:
    """Only its lease is out of reach: it could go on writing, and must not."""
    pods = await two_hundred(world)
    await start(world, SHORT)
    first = await holder_changes(world)
    ours = times_of_writes(world)
    async with second_process(world) as second:
        theirs = times_of_writes(second)
        await start(second, SHORT)
        await world.add_pods(pods[:50], template="one-gpu")
        await some_bound(world, 25)
        world.proxy._faults.insert(0, Fault("lose-request", "*", LEASES, times=-1))
        creating = asyncio.create_task(world.add_pods(pods[50:150], template="one-gpu"))
        assert await world.scheduler_ended() == 1
        last = ours[-1]
        await creating
        await holder_changes(world, first)
        await world.add_pods(pods[150:], template="one-gpu")  # the first may have been done with all before it ended
        await second.wait_bound(*pods)

        assert ours[-1] == last < theirs[0]
        assert (
            f"the lease {world.cluster.lease_namespace}/{SCHEDULER_NAME} was lost: not renewed for" in world.log_tail()
        )
        await all_have_what_is_theirs(world, pods)


async def test_a_process_that_is_cut_off_is_replaced(world: World) -> None:
    pods = await two_hundred(world)
    await start(world, SHORT)
    first = await holder_changes(world)
    async with second_process(world) as second:
        await start(second, SHORT)
        creating = asyncio.create_task(world.add_pods(pods, template="one-gpu"))
        await some_bound(world, 60)
        world.proxy.refuse()
        await creating
        await holder_changes(world, first)
        assert await world.scheduler_ended() == 1
        world.proxy.accept()
        await second.wait_bound(*pods)
        await all_have_what_is_theirs(world, pods)


# kube-scheduler needs more kinds than the embedded cluster has.
@pytest.mark.parametrize("world", [pytest.param("controlplane", marks=pytest.mark.controlplane)], indirect=True)
async def test_kube_scheduler_and_ours_exclude_each_other(world: World) -> None:
    """Under one lease and one scheduler name; kube-scheduler does not go through the proxy."""
    cluster = world.cluster
    assert isinstance(cluster, RealCluster)
    await let_kube_scheduler_have_the_lease(world)
    election = {
        **{"leaderElect": True, "resourceLock": "leases", "resourceName": SCHEDULER_NAME, **SHORT},
        "resourceNamespace": cluster.lease_namespace,
    }
    await world.add_nodes(1)
    await start(world, SHORT)
    ours = await holder_changes(world)
    cluster.control_plane.start_kube_scheduler(SCHEDULER_NAME, election=election)
    try:
        await world.add_pod("first")
        await world.wait_bound("first")
        assert (await lease_of(world))["holderIdentity"] == ours

        await world.stop_scheduler()
        theirs = await holder_changes(world, ours)
        bound_by_us = world.proxy.seen["POST", "/api/v1/namespaces/*/pods/*/binding"]
        assert bound_by_us == 1
        await start(world, SHORT)
        await world.add_pod("second")
        await world.wait_bound("second")
        assert (await lease_of(world))["holderIdentity"] == theirs
        assert world.proxy.seen["POST", "/api/v1/namespaces/*/pods/*/binding"] == bound_by_us
    finally:
        cluster.control_plane.stop_kube_scheduler()  # killed: its lease runs out
    await holder_changes(world, theirs)
    await world.add_pod("third")
    await world.wait_bound("third")
    assert world.proxy.seen["POST", "/api/v1/namespaces/*/pods/*/binding"] == bound_by_us + 1
    assert (await lease_of(world))["leaseTransitions"] == 2


async def let_kube_scheduler_have_the_lease(world: World) -> None:
    name = {"name": "kube-scheduler-has-the-lease", "namespace": world.cluster.lease_namespace}
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
    await world.api.create("roles", {"metadata": name, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:kube-scheduler"}],
    }
    await world.api.create("rolebindings", binding)


@pytest.mark.parametrize(("field", "value"), [("leaseDurationSeconds", 0), ("leaseTransitions", -1)])
async def test_a_lease_that_no_server_takes(world: World, field: str, value: int) -> None:
    with pytest.raises(ApiError, match=rf"422 .*spec\.{field}: Invalid value: {value}: must be greater than "):
        await world.api.create("leases", {"metadata": world.meta("wrong"), "spec": {field: value}})


async def test_what_belongs_to_coordinated_election_is_dropped(world: World) -> None:
    """Its gate is off in 1.36."""
    spec = {"holderIdentity": "a", "strategy": "OldestEmulationVersion", "preferredHolder": "b"}
    created = await world.api.create("leases", {"metadata": world.meta("lease"), "spec": spec})
    assert created["spec"] == {"holderIdentity": "a"}


async def test_a_lease_is_updated_only_with_the_revision_that_was_seen(world: World) -> None:
    created = await world.api.create("leases", {"metadata": world.meta("lease"), "spec": {"holderIdentity": "a"}})
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/lease"
    taken = await world.api.request("PUT", path, {**created, "spec": {"holderIdentity": "b"}})
    with pytest.raises(ApiError, match="409"):
        await world.api.request("PUT", path, {**created, "spec": {"holderIdentity": "c"}})
    without = {**taken, "metadata": {key: taken["metadata"][key] for key in ("name", "namespace")}}
    with pytest.raises(ApiError, match="422"):
        await world.api.request("PUT", path, without)
    released = await world.api.request("PUT", path, {**taken, "spec": {"holderIdentity": ""}})
    assert released["spec"] == {"holderIdentity": ""}
