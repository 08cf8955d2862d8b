"""One random fleet under one scheduler after another, and what became of its pods in a form that can be compared.

Each scheduler gets a control plane of its own, so that nothing but the scheduler differs. Afterwards the *other* one
takes over what is still pending (`hand over`): two schedulers that keep the same rules agree that nothing more fits,
and why, whatever the order was in which the first one placed its pods.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import yaml

from scheduler.framework.diagnosis import without_cause
from tests.controlplane.cluster import CONTROLLERS, ControlPlane, die_with_parent
from tests.integration.api import Api, ApiError, Object, connected
from tests.integration.invariants import State, Violation, check
from tests.integration.random_fleet import GROUP, Fleet, Group
from tests.integration.vocabulary import PLUGIN_CONFIG
from tests.integration.world import MORE_ARGUMENTS, ROOT, SCHEDULER_NAME

SchedulerKind = Literal["kube-scheduler", "ours"]
OTHER: Final[dict[SchedulerKind, SchedulerKind]] = {"kube-scheduler": "ours", "ours": "kube-scheduler"}

# kube-scheduler can miss the claim it waits for, and looks at such a pod again after five minutes or later.
_SECONDS: Final = 400.0
_MISSED_SECONDS: Final = 60.0
_ONE_BY_ONE: Final = ("one-by-one", "led")
_MISSED: Final = "ResourceClaim not created yet"


class Verdict(NamedTuple):
    """What became of a pod: its node, or why not; and its claims' allocations by entry, without random values."""

    node: str
    reason: str
    message: str
    allocations: dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """What one scheduler made of a fleet.

    Attributes:
        refused: objects that the API server did not accept (no scheduler's business, but equal in both runs).
        verdicts: by group and pod.
        final: reasons of pending pods when the scheduler was asked once more, in the final state.
        handed_over: the same reasons by the other scheduler; "bound to …" where it found a place.
        violations: of the invariants, at the end and after handing over.
    """

    scheduler: SchedulerKind
    refused: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    final: dict[str, str] = field(default_factory=dict)
    handed_over: dict[str, str] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)


async def play(fleet: Fleet, scheduler: SchedulerKind, leader: Outcome | None = None) -> Outcome:
    """The whole fleet on a control plane of its own, where nobody evicts what a scheduler has placed.

    In groups that are `led` what another scheduler decided is put in the place of what this one did, pod after pod.

    A toleration without an effect lets a device with a NoExecute taint be allocated, but the eviction controller counts
    only those with effect NoExecute: the pod goes again at once, and what the next one finds free is a matter of luck.
    """
    controllers = [name for name in CONTROLLERS if name != "device-taint-eviction-controller"]
    controllers.append("persistentvolume-binder-controller")
    with ControlPlane(controllers=controllers) as plane:
        async with connected(plane.url, plane.admin_token, plane.ssl_context()) as api:
            return await _Play(fleet, plane, api, Outcome(scheduler), leader).run()


@dataclass(slots=True)
class _Play:
    fleet: Fleet
    plane: ControlPlane
    api: Api
    outcome: Outcome
    leader: Outcome | None = None
    _process: subprocess.Popen[bytes] | None = None

    async def run(self) -> Outcome:
        await self._create_objects()
        at_once = [group for group in self.fleet.groups if group.kind not in _ONE_BY_ONE]
        for group in at_once:
            for pod in group.pods:
                await self.api.create("pods", pod)
        await asyncio.gather(*(self._wait_claims(group) for group in at_once if group.kind != "waiting"))
        try:
            self._start(self.outcome.scheduler)
            async with asyncio.TaskGroup() as tasks:
                for group in self.fleet.groups:
                    tasks.create_task(self._one_by_one(group) if group.kind in _ONE_BY_ONE else self._settle(group))
            self._stop()
            await self._check()
            # Once more, and with a fresh process: every reason is now about the final state.
            self.outcome.final = await self._ask_again(self.outcome.scheduler)
            for group in at_once:
                await self._note(group)
            self.outcome.handed_over = await self._ask_again(OTHER[self.outcome.scheduler])
            await self._check()
        finally:
            self._stop()
        return self.outcome

    # -- objects ----------------------------------------------------------------------------------------------

    async def _create_objects(self) -> None:
        for group in self.fleet.groups:
            labels = {"resource.kubernetes.io/admin-access": "true", GROUP: group.name}
            await self.api.create("namespaces", {"metadata": {"name": group.name, "labels": labels}})
        for resource, item in self.fleet.objects:
            try:
                await self.api.create(resource, item)
            except ApiError as error:
                if error.status != 422:
                    raise
                self.outcome.refused[f"{resource} {item['metadata']['name']}: {error}"] += 1
        await asyncio.gather(*(self._wait_volumes(group) for group in self.fleet.groups if group.kind == "led"))

    async def _wait_volumes(self, group: Group) -> None:
        """Until the controller has bound each claim that names its volume."""

        def bound(claims: dict[str, Object]) -> bool:
            named = [claim for claim in claims.values() if claim["spec"].get("volumeName")]
            return all((claim.get("status") or {}).get("phase") == "Bound" for claim in named)

        what = f"volumes of {group.name}"
        await self.api.wait_for("persistentvolumeclaims", bound, group.name, seconds=_SECONDS, what=what)

    async def _wait_claims(self, group: Group) -> None:
        """Until the controller has made every claim: pods wait for the scheduler, all at the same line."""

        def generated(pods: dict[str, Object]) -> bool:
            return all(
                len((pod.get("status") or {}).get("resourceClaimStatuses") or ())
                == sum("resourceClaimTemplateName" in entry for entry in pod["spec"].get("resourceClaims") or ())
                for pod in pods.values()
            )

        await self.api.wait_for("pods", generated, group.name, seconds=_SECONDS, what=f"claims of {group.name}")

    # -- schedulers -------------------------------------------------------------------------------------------

    def _start(self, scheduler: SchedulerKind) -> None:
        if scheduler == "kube-scheduler":
            self.plane.start_kube_scheduler(SCHEDULER_NAME, plugin_config=PLUGIN_CONFIG)
            return
        config = self.plane.folder / "dra-scheduler.yaml"
        profile = {"schedulerName": SCHEDULER_NAME, "pluginConfig": PLUGIN_CONFIG}
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config.write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
        kubeconfig = self.plane.kubeconfig("kube-scheduler")
        with (self.plane.folder / "dra-scheduler.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "scheduler", "run", f"--kubeconfig={kubeconfig}", "--no-health"),
                    *(f"--config={config}", "--leader-elect=false", *MORE_ARGUMENTS),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                preexec_fn=die_with_parent,  # noqa: PLW1509 one system call, no lock of Python's
            )

    def _stop(self) -> None:
        """A polite end where it matters: what is in flight is finished."""
        if self._process is None:
            with suppress(KeyError):
                self.plane.stop_kube_scheduler()
            return
        process, self._process = self._process, None
        if process.poll() is not None:
            log = (self.plane.folder / "dra-scheduler.log").read_text(errors="replace")
            raise AssertionError(f"the scheduler ended by itself; its log ends:\n{log[-4000:]}")
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    # -- groups -----------------------------------------------------------------------------------------------

    async def _one_by_one(self, group: Group) -> None:
        verdicts = self.outcome.verdicts.setdefault(group.name, {})
        for pod in group.pods:
            name = pod["metadata"]["name"]
            try:
                verdicts[name] = await self._verdict(await self._settled(pod))
            except ApiError as error:
                if error.status != 422:
                    raise
                verdicts[name] = Verdict("", "refused by the API server", str(error), {})
                continue
            node = self.leader.verdicts[group.name][name].node if self.leader is not None else verdicts[name].node
            if not node or (group.kind == "led" and node != verdicts[name].node):
                await self.api.delete("pods", name, group.name)
                if group.kind == "led" and node:
                    await self.api.create("pods", {**pod, "spec": {**pod["spec"], "nodeName": node}})

    async def _settled(self, pod: Object) -> Object:
        """The pod, created, when it is bound or refused; created anew when kube-scheduler has missed its claim."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

        def settled(pods: dict[str, Object]) -> bool:
            return name in pods and is_settled(pods[name])

        await self.api.create("pods", pod)
        if self.outcome.scheduler == "kube-scheduler":
            with suppress(TimeoutError):
                return (await self.api.wait_for("pods", settled, namespace, seconds=_MISSED_SECONDS, what=name))[name]
            if _MISSED in (_refusal(await self.api.get("pods", name, namespace)) or {}).get("message", ""):
                await self.api.delete("pods", name, namespace)
                await self.api.create("pods", pod)
        return (await self.api.wait_for("pods", settled, namespace, seconds=_SECONDS, what=name))[name]

    async def _settle(self, group: Group) -> None:
        if group.kind != "waiting":
            await self.api.wait_for("pods", _all_settled, group.name, seconds=_SECONDS, what=f"group {group.name}")

    async def _note(self, group: Group) -> None:
        pods = await self.api.list("pods", group.name)
        self.outcome.verdicts[group.name] = {pod["metadata"]["name"]: await self._verdict(pod) for pod in pods}

    async def _verdict(self, pod: Object) -> Verdict:
        listed = await self.api.list("resourceclaims", pod["metadata"]["namespace"])
        claims = {claim["metadata"]["name"]: claim for claim in listed}
        allocations = {
            entry: comparable(claims[name])
            for entry, name in _claims_of(pod)
            if (claims.get(name, {}).get("status") or {}).get("allocation")
        }
        condition = _refusal(pod) or {}
        return Verdict(
            pod["spec"].get("nodeName") or "",
            condition.get("reason", ""),
            condition.get("message", ""),
            allocations,
        )

    # -- the final state --------------------------------------------------------------------------------------

    async def _ask_again(self, scheduler: SchedulerKind) -> dict[str, str]:
        """What a fresh process of `scheduler` says about every pod that is still pending."""
        groups = [group for group in self.fleet.groups if group.kind not in (*_ONE_BY_ONE, "waiting")]
        pending = []
        for group in groups:
            for pod in await self.api.list("pods", group.name):
                if not pod["spec"].get("nodeName"):
                    name = pod["metadata"]["name"]
                    await self.api.merge_patch("pods", name, {"status": {"conditions": None}}, group.name, "status")
                    pending.append((group.name, name))
        self._start(scheduler)
        answers: dict[str, str] = {}
        for group in groups:
            pods = await self.api.wait_for("pods", _all_settled, group.name, seconds=_SECONDS, what=group.name)
            for namespace, name in pending:
                if namespace == group.name:
                    node = pods[name]["spec"].get("nodeName")
                    condition = _refusal(pods[name]) or {}
                    answers[f"{namespace}/{name}"] = (
                        f"bound to {node}" if node else f"{condition['reason']}: {reasons(condition['message'])}"
                    )
        self._stop()
        return answers

    async def _check(self) -> None:
        listed = await asyncio.gather(
            *(self.api.list(resource) for resource in ("pods", "resourceclaims", "resourceslices", "nodes"))
        )
        self.outcome.violations += check(State(*listed))


def _all_settled(pods: dict[str, Object]) -> bool:
    return all(is_settled(pod) for pod in pods.values())


def is_settled(pod: Object) -> bool:
    """Bound, or refused for something that does not pass by itself."""
    if pod["spec"].get("nodeName"):
        return True
    refusal = _refusal(pod)
    return refusal is not None and not any(text in refusal.get("message", "") for text in _PASSING)


_PASSING: Final = (
    *(_MISSED, "is in the process of being allocated", "waiting for volumes on node"),
    "fails since",  # a write of ours whose outcome is not known yet, as on a busy machine
)


def _refusal(pod: Object) -> Object | None:
    """The pod's condition; its message without the cause, which only ours says."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return {**condition, "message": without_cause(condition.get("message", ""))}
    return None


def _claims_of(pod: Object) -> Iterator[tuple[str, str]]:
    generated = {entry["name"]: entry for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    for reference in pod["spec"].get("resourceClaims") or ():
        name = reference.get("resourceClaimName") or generated.get(reference["name"], {}).get("resourceClaimName")
        if name:
            yield reference["name"], name
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if extended:
        yield "by extended resource", extended["resourceClaimName"]


def comparable(claim: Object) -> Any:
    """An allocated claim's result without what is random (share ids, time)."""
    allocation = claim["status"]["allocation"]
    devices = allocation.get("devices") or {}
    return {
        "results": [
            {**result, **({"shareID": "a share"} if "shareID" in result else {})}
            for result in devices.get("results") or ()
        ],
        "config": devices.get("config") or [],
        "nodeSelector": allocation.get("nodeSelector"),
        "consumers": len(claim["status"].get("reservedFor") or ()),
        "finalizers": claim["metadata"].get("finalizers"),
    }


def reasons(message: str) -> str:
    """A refusal without what PostFilter adds about preemption, which is not ours, and random names of claims."""
    text = message.partition(" preemption: ")[0].rstrip(", ")
    # Said of claims by kube-scheduler 1.36 also where no node was looked at; 1.37 does not say it at all.
    text = text.removesuffix(" no new claims to deallocate")
    # Said by its DynamicResources where an earlier plugin's PreFilter rejected, so that it did not get to its own.
    if text.endswith(". not found"):
        text = text.removesuffix(" not found")
    return _GENERATED.sub(r"\1", text)


# g00/g00-09-claim-0-555gd; the alphabet of Kubernetes' random names has no vowels
_GENERATED = re.compile(r"(claim \w+/[\w-]+-(?:claim-\d|gpu))-[b-df-hj-np-tv-xz2456789]{5}\b")


def differences(fleet: Fleet, one: Outcome, other: Outcome) -> list[str]:
    """Where two schedulers disagree in what each group promises to be equal; empty when all is well."""
    found: list[str] = []
    if one.refused != other.refused:
        found.append(f"objects refused: {one.refused} and {other.refused}")
    for group in fleet.groups:
        mine, theirs = one.verdicts[group.name], other.verdicts[group.name]
        if set(mine) != set(theirs):
            found.append(f"{group.name}: pods {sorted(set(mine) ^ set(theirs))} are missing")
        elif group.kind in _ONE_BY_ONE:
            for pod, verdict in mine.items():
                if _cannot_be_compared(verdict.message, theirs[pod].message):
                    # No answer cannot be compared. Where the other one found a place, all that follows differs.
                    if verdict.node or theirs[pod].node:
                        break
                elif (here := _exactly(verdict, group)) != (there := _exactly(theirs[pod], group)):
                    found.append(f"{group.name}/{pod}:\n  {one.scheduler}: {here}\n  {other.scheduler}: {there}")
        elif (here := _summary(group, mine)) != (there := _summary(group, theirs)):
            found.append(f"{group.name} ({group.kind}): {one.scheduler} {here}, {other.scheduler} {there}")
    return found


def second_thoughts(outcome: Outcome) -> list[str]:
    """Pods that the other scheduler could place after all, or refuses for other reasons, in the same final state."""
    return [
        f"{pod}: {outcome.scheduler} says {said!r}, {OTHER[outcome.scheduler]} {outcome.handed_over.get(pod)!r}"
        for pod, said in outcome.final.items()
        if said != outcome.handed_over.get(pod) and not _cannot_be_compared(said)
    ]


def _cannot_be_compared(*messages: str) -> bool:
    """kube-scheduler searches a node for at most 10 s, ours a number of steps; where a node's pool is not whole and all
    of its devices are asked for, it gives the pod up, and ours refuses that node (docs/differences.md)."""
    return any("timed out trying to allocate devices" in one or _NOT_WHOLE.search(one) for one in messages)


_NOT_WHOLE = re.compile(r"asks for all devices, but resource pool \S+ is currently (being updated|invalid)")


def _exactly(verdict: Verdict, group: Group) -> Verdict:
    node = "some node" if verdict.node and group.kind == "led" else verdict.node
    return verdict._replace(node=node, message=reasons(verdict.message))


def _summary(group: Group, verdicts: dict[str, Verdict]) -> Any:
    bound = {pod: verdict for pod, verdict in verdicts.items() if verdict.node}
    match group.kind:
        case "by-priority":
            priority = {pod["metadata"]["name"]: pod["spec"]["priorityClassName"] for pod in group.pods}
            return Counter(priority[pod] for pod in bound)
        case "alike":
            return Counter(
                tuple(result["request"] for result in allocation["results"])
                for verdict in bound.values()
                for allocation in verdict.allocations.values()
            )
        case "waiting":
            return sorted(bound)
        case _:
            return None  # rules only
