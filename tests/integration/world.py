"""The world a test acts in: a cluster (embedded or real), a faulty network before it, and the scheduler.

Both clusters offer the same, so every test of this folder runs on both. The test speaks to the API server
directly, as admin; the scheduler, in a process of its own with its ServiceAccount's token, speaks to it
through a `FaultProxy`.

Each test has names of its own (`world.tag`): on the real control plane, which lives as long as the
session, tests do not see each other's objects.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from tests.controlplane.fault_proxy import Fault, FaultProxy
from tests.integration import prepared
from tests.integration.api import Api, ApiError, Object, is_namespaced
from tests.integration.invariants import State, Violation, check
from tests.patience import PATIENCE_S

SCHEDULER_NAME: Final = "dra-scheduler"
DRIVER: Final = "gpu.example.com"
ROOT: Final = Path(__file__).resolve().parents[2]

# Which scheduler the tests judge: ours, or kube-scheduler under our name, to see that the tests themselves
# ask for no more than Kubernetes does (real control plane only).
UNDER_TEST: Final = os.environ.get("DRA_TEST_SCHEDULER", "ours")

# More options for it, such as --paranoid.
MORE_ARGUMENTS: Final = os.environ.get("DRA_TEST_SCHEDULER_ARGUMENTS", "").split()

# Every scheduler is recorded, and what it did is decided once more when it has ended.

# Of a lease, for tests that are not about it.
PATIENT: Final = {"leaseDuration": "5m", "renewDeadline": "4m", "retryPeriod": "2s"}

_EXAMPLE_DRIVERS: Final = re.compile(r"\b(gpu|nic)\.example\.com\b")


class Cluster(Protocol):
    """What a cluster must offer beside its API."""

    kind: str

    @property
    def lease_namespace(self) -> str:
        """Where the scheduler may have its lease."""

    async def restart_apiserver(self) -> None:
        """Cut every connection, lose what only memory held, come back at the same address."""

    def scheduler_kubeconfig(self, server: str) -> Path:
        """A kubeconfig of the scheduler's ServiceAccount, for that address."""

    def allow_lease(self, name: str) -> None:
        """The shipped Role is for the lease of the shipped scheduler name: the same rights for another one."""

    def signal_claim_controllers(self, number: signal.Signals) -> None:
        """To the process that runs the controllers of claims."""

    def start_kube_scheduler(self, server: str, scheduler_name: str = SCHEDULER_NAME) -> Callable[[], None]:
        """Start kube-scheduler under that name; returns what stops it."""


@dataclass(slots=True)
class World:
    """One test's cluster.

    Attributes:
        api: requests as admin, past the proxy.
        proxy: what the scheduler's requests go through.
        namespace: of this test; also its tag in the names of cluster-scoped objects.
    """

    cluster: Cluster
    api: Api
    proxy: FaultProxy
    namespace: str
    log: Path
    _scheduler: prepared.PreparedProcess | None = None
    _scheduler_name: str = SCHEDULER_NAME
    _stop_other: Callable[[], None] | None = None
    _made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def tag(self) -> str:
        return self.namespace

    @property
    def class_name(self) -> str:
        return f"gpu.{self.tag}.example.com"

    # -- the scheduler ----------------------------------------------------------------------------------------

    async def start_scheduler(self, *arguments: str, name: str = SCHEDULER_NAME) -> None:
        """Start it for pods that name `name`; it may still be reading the cluster when this returns.

        It elects, with times that outlast what tests do to the API server; `arguments` may name another configuration.
        """
        if UNDER_TEST == "kube-scheduler":
            self._stop_other = self.cluster.start_kube_scheduler(self.proxy.url)
            return
        kubeconfig = self.cluster.scheduler_kubeconfig(self.proxy.url)
        if name != SCHEDULER_NAME:
            await asyncio.to_thread(self.cluster.allow_lease, name)
        self._scheduler_name = name
        with self.log.open("ab") as output:
            self._scheduler = await prepared.start_scheduler(
                [
                    *("run", f"--kubeconfig={kubeconfig}", f"--config={self.configuration(**PATIENT)}"),
                    *(f"--scheduler-name={name}", "--no-health"),
                    *(*MORE_ARGUMENTS, *arguments),
                ],
                output.fileno(),
            )

    def configuration(self, **times: str) -> Path:
        """A configuration file with the lease where the scheduler may have it, and these times."""
        head = {"apiVersion": "dra-scheduler/v1alpha1", "kind": "DraSchedulerConfiguration"}
        election = {"resourceNamespace": self.cluster.lease_namespace, **times}
        path = self.log.with_name(f"election-{'-'.join(times.values())}.yaml")
        path.write_text(yaml.safe_dump({**head, "leaderElection": election}))
        return path

    async def stop_scheduler(self, *, kill: bool = False) -> None:
        """End it, politely (SIGTERM) or as a crash (`kill`); either way the next one need not wait for its lease."""
        if self._stop_other is not None:
            self._stop_other()
            self._stop_other = None
        process, self._scheduler = self._scheduler, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(
                f"the scheduler did not end within 10 s of SIGTERM; its log ends:\n{self.log_tail()}"
            ) from None
        if kill:  # as if the lease had run out; that it does is a matter of `test_lease`
            await self.api.delete("leases", self._scheduler_name, self.cluster.lease_namespace)

    def signal_scheduler(self, number: signal.Signals) -> None:
        assert self._scheduler is not None, "not started"
        self._scheduler.send_signal(number)

    async def scheduler_ended(self, *, seconds: float = PATIENCE_S) -> int:
        """Wait until it has ended by itself; its exit code."""
        assert self._scheduler is not None, "not started"
        async with asyncio.timeout(seconds):
            code = await self._scheduler.wait()
        self._scheduler = None
        return code

    def log_tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    # -- objects ----------------------------------------------------------------------------------------------

    async def add_namespace(self) -> None:
        await self.api.create("namespaces", {"metadata": {"name": self.namespace}})

    async def create(self, resource: str, body: Object) -> Object:
        """Create it; cluster-scoped objects are removed at the end of the test."""
        created = await self.api.create(resource, body)
        if "namespace" not in created["metadata"]:
            self._made.append((resource, created["metadata"]["name"]))
        return created

    async def add_class(self, *selectors: str, name: str | None = None) -> str:
        """A DeviceClass of this test's devices."""
        expressions = [f"device.driver == '{self.driver}'", *selectors]
        name = name or self.class_name
        spec = {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}
        await self.create("deviceclasses", {"metadata": {"name": name}, "spec": spec})
        return name

    @property
    def driver(self) -> str:
        """A driver of this test's own: no other test's class can select its devices."""
        return f"{self.tag}.{DRIVER}"

    def node_name(self, number: int) -> str:
        return f"{self.tag}-node-{number:03}"

    async def add_nodes(self, count: int, *, devices: int = 0, cpu: str = "64", first: int = 0) -> list[str]:
        """Nodes first..first+count-1, each with a slice of that many GPUs."""
        names = [self.node_name(number) for number in range(first, first + count)]
        for name in names:
            await self.create("nodes", node(name, cpu=cpu))
            if devices:
                await self.publish(name, [gpu(index) for index in range(devices)])
        return names

    async def publish(
        self, pool: str, devices: Sequence[Object], *, generation: int = 1, slices: int = 1, suffix: str = "first"
    ) -> str:
        """One of `slices` slices of a node's pool (named like the node); returns the slice's name."""
        name = f"{pool}-{generation}-{suffix}"
        spec = {
            "driver": self.driver,
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": slices},
            "devices": list(devices),
        }
        await self.create("resourceslices", {"metadata": {"name": name}, "spec": spec})
        return name

    async def cordon(self, name: str, unschedulable: bool = True) -> None:
        await self.api.merge_patch("nodes", name, {"spec": {"unschedulable": unschedulable}})

    async def add_template(self, name: str = "one-gpu", *requests: Object, **devices: Any) -> str:
        """A ResourceClaimTemplate; without requests, of one device of this test's class."""
        spec = {"spec": self.claim_spec(*requests, **devices)}
        await self.create("resourceclaimtemplates", {"metadata": self.meta(name), "spec": spec})
        return name

    async def add_claim(self, name: str, *requests: Object, **devices: Any) -> Object:
        claim = {"metadata": self.meta(name), "spec": self.claim_spec(*requests, **devices)}
        return await self.create("resourceclaims", claim)

    def claim_spec(self, *requests: Object, **devices: Any) -> Object:
        return {"devices": {"requests": list(requests) or [self.request()], **devices}}

    def request(self, name: str = "gpu", count: int = 1, **more: Any) -> Object:
        return {"name": name, "exactly": {"deviceClassName": self.class_name, "count": count, **more}}

    def meta(self, name: str) -> Object:
        return {"namespace": self.namespace, "name": name}

    async def add_pod(self, name: str, *, template: str | None = None, claim: str | None = None, **spec: Any) -> Object:
        """A pending pod for our scheduler, with at most one claim."""
        return await self.create("pods", self.pod(name, template=template, claim=claim, **spec))

    def pod(self, name: str, *, template: str | None = None, claim: str | None = None, **spec: Any) -> Object:
        container: Object = {"name": "main", "image": "registry.example.com/work:1"}
        if template or claim:
            source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
            spec["resourceClaims"] = [{"name": "gpu", **source}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        return {
            "metadata": self.meta(name),
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }

    async def add_pods(self, names: Iterable[str], *, template: str | None = None) -> None:
        """Many pods at once."""
        slots = asyncio.Semaphore(16)

        async def add(name: str) -> None:
            async with slots:
                await self.add_pod(name, template=template)

        await asyncio.gather(*(add(name) for name in names))

    async def apply(self, *sources: Path | str, one_by_one: bool = True) -> None:
        """Create what is in these files or texts, as a user would, but for names that another test could have used.

        Drivers, and classes called like them, get this test's tag; the test's namespace takes the place of the files'.

        Args:
            one_by_one: After each pod wait until it is bound or refused, so that who comes first is no accident.
        """
        for source in sources:
            text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
            for body in yaml.safe_load_all(_EXAMPLE_DRIVERS.sub(lambda found: f"{self.tag}.{found[0]}", text)):
                await self._apply(body)
                if one_by_one and body["kind"] == "Pod":
                    await self.wait_decided(body["metadata"]["name"])

    async def _apply(self, body: Object) -> None:
        kind = body["kind"]
        if kind == "HorizontalPodAutoscaler" and self.cluster.kind == "embedded":
            return  # not served there, and nothing would measure what it reads
        if kind == "Namespace":
            labels = {"metadata": {"labels": body["metadata"].get("labels") or {}}}
            await self.api.merge_patch("namespaces", self.namespace, labels)
            return
        resource = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
        if is_namespaced(resource):
            body["metadata"]["namespace"] = self.namespace
        await self.create(resource, body)

    # -- waiting and judging ----------------------------------------------------------------------------------

    async def wait_for(
        self, resource: str, until: Callable[[dict[str, Object]], bool], *, seconds: float = PATIENCE_S, what: str = ""
    ) -> dict[str, Object]:
        """As `Api.wait_for`; ends at once when the scheduler has ended."""
        waiting = asyncio.create_task(self.api.wait_for(resource, until, self.namespace, seconds=seconds, what=what))
        watched: set[asyncio.Task[Any]] = {waiting}
        if self._scheduler is not None:
            watched.add(asyncio.create_task(self._scheduler.wait()))
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise AssertionError(f"the scheduler ended by itself; its log ends:\n{self.log_tail()}")
            return waiting.result()
        except TimeoutError as error:
            raise AssertionError(f"{error}\n--- the scheduler's log ends:\n{self.log_tail()}") from None
        finally:
            for task in watched:
                task.cancel()
            await asyncio.wait(watched)

    async def wait_bound(self, *names: str, seconds: float = PATIENCE_S) -> dict[str, Object]:
        """Until all of these pods are bound; returns the pods."""

        def bound(pods: dict[str, Object]) -> bool:
            return all(name in pods and pods[name]["spec"].get("nodeName") for name in names)

        return await self.wait_for("pods", bound, seconds=seconds, what=f"{len(names)} pods bound: {names[:4]}")

    async def wait_decided(self, name: str) -> None:
        """Until the pod is bound, or refused."""

        def decided(pods: dict[str, Object]) -> bool:
            pod = pods.get(name)
            return pod is not None and (bool(pod["spec"].get("nodeName")) or condition_of(pod) is not None)

        await self.wait_for("pods", decided, what=f"pod {name} bound or refused")

    async def wait_unschedulable(self, name: str) -> Object:
        """Until the pod has PodScheduled=False, Unschedulable; returns that condition."""

        def refused(pods: dict[str, Object]) -> bool:
            return condition_of(pods.get(name)) is not None

        pods = await self.wait_for("pods", refused, what=f"pod {name} unschedulable")
        found = condition_of(pods[name])
        assert found is not None
        return found

    async def wait_fault(self, fault: Fault) -> None:
        """Until the fault has had its first request."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await fault.happened.wait()
        except TimeoutError:
            raise AssertionError(
                f"no request like {fault.method} {fault.path} within {PATIENCE_S:g} s; seen: {dict(self.proxy.seen)}\n"
                f"--- the scheduler's log ends:\n{self.log_tail()}"
            ) from None

    async def claim_of(self, pod_name: str) -> Object:
        """The claim of a pod made by `add_pod`."""
        pod = await self.api.get("pods", pod_name, self.namespace)
        (reference,) = pod["spec"]["resourceClaims"]
        name = reference.get("resourceClaimName")
        if name is None:
            (status,) = pod["status"]["resourceClaimStatuses"]
            name = status["resourceClaimName"]
        return await self.api.get("resourceclaims", name, self.namespace)

    async def state(self) -> State:
        pods, claims, slices, nodes = await asyncio.gather(
            self.api.list("pods", self.namespace),
            self.api.list("resourceclaims", self.namespace),
            self.api.list("resourceslices"),
            self.api.list("nodes"),
        )
        return State(pods=pods, claims=claims, slices=slices, nodes=nodes)

    async def violations(self) -> list[Violation]:
        """What the invariant checker says now."""
        return check(await self.state())

    async def clean_up(self) -> None:
        """Leave nothing behind that another test could see; used where the cluster outlives the test."""
        for workloads in ("deployments", "jobs"):  # they would make new pods
            await self.api.delete_all(workloads, self.namespace)
        await self.api.delete_all("pods", self.namespace)
        for resource, name in reversed(self._made):
            await self.api.delete(resource, name)
        with suppress(ApiError):
            await self.api.delete("namespaces", self.namespace, force=False)

    # -- faults -----------------------------------------------------------------------------------------------

    def fault(self, kind: str, request: str, **more: Any) -> Fault:
        """Arm a fault for the scheduler's next write of that sort: "claim status", "claim", "binding", …"""
        method, path = WRITES[request]
        return self.proxy.add(Fault(kind, method, path, **more))

    def conflict_next_status_write(self) -> Fault:
        """Somebody else changes the claim just before the scheduler's write arrives: a true conflict."""

        async def touch(path: str) -> None:
            await self._annotate(path)

        return self.fault("before", "claim status", action=touch)

    async def _annotate(self, path: str) -> None:
        name = path.partition("?")[0].rsplit("/", 2)[-2]
        await self.api.merge_patch(
            "resourceclaims", name, {"metadata": {"annotations": {"touched-by": os.urandom(4).hex()}}}, self.namespace
        )


# The scheduler's writes; PATCH or PUT, as it likes.
WRITES: Final = {
    "claim create": ("POST", r"/resourceclaims(\?|$)"),
    "claim": ("*", r"/resourceclaims/[^/?]+(/status)?(\?|$)(?<!watch=true)"),
    "claim status": ("*", r"/resourceclaims/[^/?]+/status(\?|$)"),
    "binding": ("POST", r"/pods/[^/?]+/binding(\?|$)"),
    "pod status": ("*", r"/pods/[^/?]+/status(\?|$)"),
    "event": ("POST", r"/events(\?|$)"),
}


def node(name: str, *, cpu: str = "64", labels: Object | None = None, **spec: Any) -> Object:
    offer = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": offer, "capacity": offer, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def gpu(number: int, **attributes: Any) -> Object:
    """A device like the dra-example-driver's; two GPUs a PCIe root, four a NUMA node."""
    values = {
        "index": {"int": number},
        "uuid": {"string": f"gpu-{number}"},
        "model": {"string": "LATEST-GPU-MODEL"},
        "driverVersion": {"version": "1.0.0"},
        "numa": {"int": number // 4},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02x}"},
        **attributes,
    }
    return {"name": f"gpu-{number}", "attributes": values, "capacity": {"memory": {"value": "80Gi"}}}


def condition_of(pod: Object | None) -> Object | None:
    """PodScheduled=False, Unschedulable."""
    for condition in ((pod or {}).get("status") or {}).get("conditions") or ():
        if (
            condition["type"] == "PodScheduled"
            and condition["status"] == "False"
            and condition.get("reason") == "Unschedulable"
        ):
            return dict(condition)
    return None


def devices_of(claim: Object) -> list[tuple[str, str]]:
    """(pool, device) of its allocation, in order."""
    results = claim["status"]["allocation"]["devices"]["results"]
    return [(result["pool"], result["device"]) for result in results]


def dumped(item: Object) -> str:
    return json.dumps(item, indent=1)
