"""The shipped RBAC rules on the API server's own authorizer: each right is needed, named when it is missing, and used.

Each right of the manifests is taken away in turn: the API server then refuses the request that needs it, and the
preflight names it and no other, which is what `/readyz` says. What a scheduler does with all of them, by the audit log,
is what is granted, but for `ELSEWHERE`.

Rights are read from manifests/base/rbac.yaml; that they are those of `scheduler/kube/permissions.py` is tested in
`tests/kube/test_preflight.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import yaml

from scheduler.app import SchedulerApp
from scheduler.config import Config, LeaderElection
from scheduler.kube.api_requests import ApiClient
from scheduler.kube.credentials import Connection
from scheduler.kube.outcomes import Accepted, Rejected
from scheduler.kube.preflight import PreflightError, check
from tests.controlplane.build import built_or_skip
from tests.controlplane.cluster import CONTROLLERS, ControlPlane
from tests.integration.conftest import MANIFESTS, RealCluster, real_world, with_manifests
from tests.integration.preempting import add_pod, add_priorities
from tests.integration.test_pod_groups import GATES
from tests.integration.world import SCHEDULER_NAME, UNDER_TEST, World
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(UNDER_TEST != "ours", reason="these are the rights of ours"),
]
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
METHODS: Final = {
    **dict.fromkeys(("get", "list", "watch"), "GET"),
    **{"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"},
}
# What ServiceAccounts ask, but for what they may do: everybody may ask that.
READS_TOO: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "authorization.k8s.io"}]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


class Right(NamedTuple):
    """One verb of one resource, by a ClusterRole or, in the scheduler's own namespace, by a Role."""

    kind: str
    group: str
    resource: str
    verb: str
    name: str = ""  # of the one object that it is for

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"

    def path(self, namespace: str) -> str:
        """Of a request that needs it; whether there is such an object is looked at later than the right."""
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
        resource, _, sub = self.resource.partition("/")
        within = f"/namespaces/{namespace}" if self.kind == "Role" else ""
        one = (
            ""
            if self.verb in ("list", "watch") or (self.verb == "create" and not sub)
            else f"/{self.name or 'no-such-object'}"
        )
        return f"{root}{within}/{resource}{one}{f'/{sub}' * bool(sub)}{'?watch=true' * (self.verb == 'watch')}"


def rights_of(role: dict[str, Any]) -> list[Right]:
    return [
        Right(role["kind"], group, resource, verb, name)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


ROLES: Final = [
    one for one in yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text()) if one["kind"] in ("ClusterRole", "Role")
]
RIGHTS: Final = [right for role in ROLES for right in rights_of(role)]

# Rights that the scenario below need not use: tests that do. Those of tests/integration run on the real server, with
# these manifests; those of tests/kube do not, so there it is known of the request alone that it needs the right.
ELSEWHERE: Final = {
    "get resourceclaims.resource.k8s.io": "tests/integration/test_faults.py",
    "delete resourceclaims.resource.k8s.io": "tests/integration/test_extended_resources.py",
    "update resourceclaims.resource.k8s.io": "tests/kube/test_exact_claims.py",
    "update resourceclaims/status.resource.k8s.io": "tests/kube/test_exact_claims.py",
    "patch persistentvolumes": "tests/integration/test_volumes.py",
    "patch persistentvolumeclaims": "tests/integration/test_volumes.py",
    "patch events.events.k8s.io": "tests/kube/test_event_records.py",
    "patch podgroups/status.scheduling.k8s.io": "tests/integration/test_pod_groups.py",
    "create tokenreviews.authentication.k8s.io": "tests/integration/test_readers.py",
    "create subjectaccessreviews.authorization.k8s.io": "tests/integration/test_readers.py",
    # Asked by the API server itself within a write of resourceclaims/status: no request names it.
    "patch resourceclaims/binding.resource.k8s.io": "test_devices_cannot_be_given_without_the_right_to_bind_claims",
    "update resourceclaims/binding.resource.k8s.io": "test_devices_cannot_be_given_without_the_right_to_bind_claims",
}


@dataclass(slots=True)
class Guarded:
    """The control plane with the shipped manifests, and their ServiceAccount's token."""

    cluster: RealCluster
    kubeconfig: Path

    @property
    def plane(self) -> ControlPlane:
        return self.cluster.control_plane

    @property
    def namespace(self) -> str:
        return self.cluster.service_account[0]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        async with ApiClient(await Connection(kubeconfig=self.kubeconfig).open()) as client:
            yield client

    async def grant(self, client: ApiClient, *, without: Right | None = None) -> None:
        """All that the manifests grant but for one right; returns when the authorizer says so."""
        for role in ROLES:
            rules = [rule for rule in role["rules"] if "nonResourceURLs" in rule]
            rules += [
                {"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]}
                | ({"resourceNames": [one.name]} if one.name else {})
                for one in rights_of(role)
                if one != without
            ]
            where = f"/namespaces/{self.namespace}" if role["kind"] == "Role" else ""
            path = f"{RBAC}{where}/{role['kind'].lower()}s/{role['metadata']['name']}"
            body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": role["kind"], "metadata": role["metadata"]}
            await asyncio.to_thread(self.plane.request, "PUT", path, {**body, "rules": rules})
        async with asyncio.timeout(PATIENCE_S):
            for one in [without] if without is not None else RIGHTS:
                while await self.is_refused(client, one) != (one == without):
                    pass

    async def is_refused(self, client: ApiClient, right: Right) -> bool:
        """Whether the API server lets a request through that needs this right."""
        if right.verb == "watch":
            # It would stay open: the authorizer is asked instead.
            return not await self.is_allowed(client, right)
        body = None if right.verb in ("get", "list", "delete") else b"{}"
        content = "application/merge-patch+json" if right.verb == "patch" else "application/json"
        outcome = await client.send(METHODS[right.verb], right.path(self.namespace), body, content)
        return isinstance(outcome, Rejected) and outcome.code == 403

    async def is_allowed(self, client: ApiClient, right: Right) -> bool:
        resource, _, sub = right.resource.partition("/")
        asked = {"group": right.group, "resource": resource, "subresource": sub, "verb": right.verb}
        if right.kind == "Role":
            asked |= {"namespace": self.namespace, "name": right.name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        outcome = await client.send("POST", path, json.dumps(review).encode())
        assert isinstance(outcome, Accepted)
        allowed: bool = json.loads(outcome.body)["status"]["allowed"]
        return allowed


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """Without streamed lists: where a server has them, `list` is used at a takeover only."""
    built_or_skip("controlplane")
    controllers = tuple(one for one in CONTROLLERS if one != "device-taint-eviction-controller")
    gates = {**GATES, "WatchList": False}
    served = ["scheduling.k8s.io/v1beta1"]
    with ControlPlane(controllers, gates, runtime_config=served, audits=READS_TOO) as plane:
        cluster = with_manifests(plane)
        yield Guarded(cluster, plane.service_account_kubeconfig(*cluster.service_account))


async def test_each_right_is_needed_and_named_when_it_is_missing(guarded: Guarded) -> None:
    """One after the other, in one test: the roles belong to the whole server."""
    wrong = []
    async with guarded.client() as client:
        await guarded.grant(client)
        leases = Config().lease_names
        assert (await check(client, lease_namespace=guarded.namespace, leases=leases)).warnings == ()
        for right in RIGHTS:
            await guarded.grant(client, without=right)
            try:
                found = (await check(client, lease_namespace=guarded.namespace, leases=leases)).warnings
            except PreflightError as error:
                found = tuple(str(error).splitlines()[:-1])
            if len(found) != 1 or not found[0].startswith(f"not permitted: {right}"):
                wrong.append(f"without {right}: {found}")
        await guarded.grant(client)
    assert wrong == []


async def test_other_leases_of_its_namespace_are_not_its_to_read_or_write(guarded: Guarded) -> None:
    other = [Right("Role", "coordination.k8s.io", "leases", verb, "somebody-elses") for verb in ("get", "update")]
    async with guarded.client() as client:
        await guarded.grant(client)
        assert [await guarded.is_refused(client, one) for one in other] == [True, True]


async def readyz(app: SchedulerApp) -> tuple[int, str]:
    assert app.health is not None
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{app.health.port}/readyz") as answer,
    ):
        return answer.status, await answer.text()


def app_of(guarded: Guarded) -> SchedulerApp:
    """As in a pod: what may pass is waited for."""
    election = LeaderElection(resource_namespace=guarded.namespace)
    config = Config(health_port=0, leader_election=election)
    return SchedulerApp(Connection(kubeconfig=guarded.kubeconfig), config, is_patient=True)


async def test_a_missing_right_is_named_by_readyz_until_it_is_granted(guarded: Guarded) -> None:
    right = Right("ClusterRole", "", "pods/binding", "create")
    async with guarded.client() as client:
        await guarded.grant(client, without=right)
        app = app_of(guarded)
        entering = asyncio.create_task(app.__aenter__())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await app.serves_health.wait()
                while "not permitted" not in (answer := await readyz(app))[1]:
                    pass
                assert answer[0] == 503
                assert answer[1].startswith(f"not permitted: {right} (in all namespaces)\n")
                await guarded.grant(client)
                await entering
                await app.synced()
            assert await readyz(app) == (200, "ok\n")
        finally:
            entering.cancel()
            await asyncio.gather(entering, return_exceptions=True)
            await app.__aexit__()


async def test_a_right_that_can_be_missed_is_named_by_readyz_with_what_that_costs(guarded: Guarded) -> None:
    right = Right("ClusterRole", "", "pods", "delete")
    async with guarded.client() as client:
        await guarded.grant(client, without=right)
        try:
            async with asyncio.timeout(PATIENCE_S), app_of(guarded) as app:
                await app.synced()
                status, text = await readyz(app)
        finally:
            await guarded.grant(client)
    assert status == 200
    assert f"not permitted: {right}; pods of lower priority make no room for others: nobody is preempted" in text


async def test_a_right_that_is_lost_while_it_runs_is_named_by_readyz(guarded: Guarded, tmp_path: Path) -> None:
    right = Right("ClusterRole", "", "pods/binding", "create")
    async with real_world(guarded.cluster, tmp_path) as world, guarded.client() as client:
        await world.add_namespace()
        await world.add_nodes(1)
        try:
            async with app_of(guarded) as app:
                await app.synced()
                await guarded.grant(client, without=right)
                await world.add_pod("pod")
                async with asyncio.timeout(PATIENCE_S):
                    while "refused" not in (answer := await readyz(app))[1]:
                        pass
                assert answer[0] == 503
                assert f"refused by the API server: {right}" in answer[1]
        finally:
            await guarded.grant(client)
            await world.clean_up()


async def live(world: World) -> None:
    """A life of a scheduler: most of what it ever sends."""
    await add_priorities(world)
    (node,) = await world.add_nodes(1, devices=4, cpu="4")
    await world.add_class()
    await world.add_template()
    selector = {"cel": {"expression": f"device.driver == '{world.driver}'"}}
    extended = {"selectors": [selector], "extendedResourceName": "example.com/gpu"}
    await world.create("deviceclasses", {"metadata": {"name": f"extended.{world.tag}.example.com"}, "spec": extended})
    await world.start_scheduler()
    for write in ("claim status", "binding"):
        lost = world.fault("lose-request", write)  # what became of it is read
        await world.add_pod(write.replace(" ", "-"), template="one-gpu")
        await world.wait_fault(lost)
        await world.wait_bound(write.replace(" ", "-"))
    body = world.pod("extended")
    body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}, "requests": {}}
    await world.create("pods", body)
    await world.wait_bound("extended")
    await add_pod(world, "low", "low", cpu="3", on=node)
    await add_pod(world, "high", "high", cpu="3")
    await world.wait_bound("high")
    await add_pod(world, "too-large", "low", cpu="5")
    await world.wait_unschedulable("too-large")
    await world.stop_scheduler()  # the lease is given back


def used_by(log: Path, user: str) -> dict[str, set[int]]:
    """HTTP codes by what was asked, of that user."""
    used: dict[str, set[int]] = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] != user:
            continue
        of = event.get("objectRef")
        if of is None:
            asked = f"{event['verb']} {event['requestURI']}"
        else:
            sub = f"/{of['subresource']}" if "subresource" in of else ""
            asked = f"{event['verb']} {of['resource']}{sub}{'.' + of['apiGroup'] if of.get('apiGroup') else ''}"
        used.setdefault(asked, set()).add(event["responseStatus"]["code"])
    return used


async def test_the_rights_are_those_that_are_used(guarded: Guarded, tmp_path: Path) -> None:
    log = guarded.plane.audit_log
    log.write_text("")  # what other tests were refused; the server appends
    async with real_world(guarded.cluster, tmp_path) as world:
        await world.add_namespace()
        await world.api.delete("leases", SCHEDULER_NAME, guarded.namespace)  # another test's
        try:
            await live(world)
            assert await world.violations() == []
        finally:
            await world.stop_scheduler(kill=True)
    used = used_by(log, f"system:serviceaccount:{':'.join(guarded.cluster.service_account)}")
    open_to_all = {one for one in used if one.partition(" ")[2].startswith(("/version", "/api"))}

    assert ELSEWHERE.keys() <= {str(right) for right in RIGHTS}
    assert [one for one, codes in used.items() if 403 in codes] == []
    asked = used.keys() - open_to_all - {"get /metrics"} - ELSEWHERE.keys()
    assert asked == {str(right) for right in RIGHTS} - ELSEWHERE.keys()
    assert "get /metrics" in used


async def test_devices_cannot_be_given_without_the_right_to_bind_claims(guarded: Guarded, tmp_path: Path) -> None:
    """The API server asks for it within the write of the status: the request itself names another right."""
    async with real_world(guarded.cluster, tmp_path) as world, guarded.client() as client:
        await world.add_namespace()
        await world.add_class()
        allocation = {"devices": {"results": [{"request": "gpu", "driver": world.driver, "pool": "p", "device": "d"}]}}
        for verb, method, content in (
            ("patch", "PATCH", "application/merge-patch+json"),
            ("update", "PUT", "application/json"),
        ):
            claim = await world.add_claim(verb)
            path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims/{verb}/status"
            whole = {**claim, "status": {"allocation": allocation}}
            body = json.dumps(whole if method == "PUT" else {"status": whole["status"]}).encode()
            await guarded.grant(client, without=Right("ClusterRole", "resource.k8s.io", "resourceclaims/binding", verb))
            refused = await client.send(method, path, body, content)
            assert isinstance(refused, Rejected)
            assert "resourceclaims/binding" in refused.message
            await guarded.grant(client)
            assert isinstance(await client.send(method, path, body, content), Accepted)
