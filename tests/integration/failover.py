"""Three processes of one name on the real control plane; who schedules is killed, stopped or cut off, amid pods.

    python -m tests.integration.failover --times 10         # killed ten times, 500 pods each; then stopped, cut off
    python -m tests.integration.failover --times 1 --pods 100

After each: every pod is bound, with a device of its own (`invariants`); the API server's audit log has no write of
who scheduled before that came after another had taken the lease. Prints how long nobody bound a pod, as the audit log
says; exit code 1 when a rule was broken or that was longer than the lease's duration and two seconds.

The short form is `test_failover.py`. Who has ended is started again, as a Deployment would. Lease times are short: on a
machine that is busy with other things who schedules may lose its lease without our doing; that is said.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.audit import AuditLog, Write, token_id
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_proxy import FaultProxy
from tests.integration.conftest import RealCluster, real_world, with_manifests
from tests.integration.world import World, devices_of
from tests.patience import PATIENCE_S

TIMES: Final = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
GAP_S_MAX: Final = 3.0 + 2.0
LOSSES: Final = ("killed", "stopped", "cut off")
INSTANCES: Final = 3
PODS_ON_A_NODE: Final = 100
_FOR_EVER_S: Final = 86_400.0


@dataclass(slots=True)
class Instance:
    """One process after the other, and their way to the server.

    Attributes:
        token: Id of the token of the one that runs.
        exits: Exit codes of those that have ended, by token.
    """

    world: World
    token: str = ""
    exits: dict[str, int] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        world = self.world
        await world.start_scheduler(f"--config={world.configuration(**TIMES)}")
        assert isinstance(world.cluster, RealCluster)
        written = yaml.safe_load(world.cluster.kubeconfig_of(world.proxy.url).read_text())
        self.token = token_id(written["users"][0]["user"]["token"])
        self.tokens.add(self.token)

    async def keep(self) -> None:
        """Start it again whenever it ends."""
        while True:
            self.exits[self.token] = await self.world.scheduler_ended(seconds=_FOR_EVER_S)
            self.world.proxy.accept()
            await self.start()
            self.has_ended.set()

    async def ended(self, token: str) -> int:
        """Wait until the process of that token has ended and another has begun; its exit code."""
        while token not in self.exits or self.token == token:
            self.has_ended.clear()
            await self.has_ended.wait()
        return self.exits[token]


@dataclass(slots=True)
class Loss:
    """What was seen of one."""

    what: str
    bound_before: int
    gap_s: float  # from the loss to the first binding by another process
    lease_s: float  # from the loss until another process had the lease
    late_s: float  # from the last renewal to the last write of who was lost
    writes_after: list[Write] = field(default_factory=list)  # of who was lost, after another had the lease
    unasked: int = 0  # processes that ended without our doing


class Failover:
    """Three instances in one world, and the audit log."""

    def __init__(self, instances: list[Instance], log: AuditLog) -> None:
        self.instances = instances
        self.world = instances[0].world
        self._log = log
        self._pods = 0
        self._exits = 0

    async def leader(self) -> Instance:
        """Wait until one that runs holds the lease; that one."""
        await self.world.api.wait_for("leases", lambda _: self._holder() is not None, self._lease_namespace)
        found = self._holder()
        assert found is not None
        return found

    async def lose(self, what: str, pods: int) -> Loss:
        """Half of the pods come, some are bound, who schedules is lost, the rest of them come; all are bound."""
        names = [f"pod-{number:05}" for number in range(self._pods, self._pods + pods)]
        before, self._pods = self._pods, self._pods + pods
        creating = asyncio.create_task(self.world.add_pods(names[: pods // 2], template="one-gpu"))
        await self._bound(before + pods // 5)
        lost = await self.leader()
        token = lost.token
        bound_before = self._bindings() - before
        lost_s = time.time()
        match what:
            case "killed":
                lost.world.signal_scheduler(signal.SIGKILL)
            case "stopped":
                lost.world.signal_scheduler(signal.SIGSTOP)
            case "cut off":
                lost.world.proxy.refuse()
        await creating
        await self.world.add_pods(names[pods // 2 :], template="one-gpu")
        await self._bound(before + pods)
        if what == "stopped":
            lost.world.signal_scheduler(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            assert await lost.ended(token) == (-signal.SIGKILL if what == "killed" else 1)
        seen = self._seen(what, token, lost_s, bound_before)
        exits = sum(len(one.exits) for one in self.instances)
        seen.unasked, self._exits = exits - self._exits - 1, exits
        return seen

    async def broken_rules(self) -> list[str]:
        """What must not be: by the invariants, and a device that two pods have."""
        state = await self.world.state()
        found = [str(one) for one in await self.world.violations()]
        used = [device for claim in state.claims for device in devices_of(claim)]
        if not len(set(used)) == len(used) == self._pods:
            found.append(f"{self._pods} pods have {len(used)} devices, {len(set(used))} different ones")
        if unbound := [pod["metadata"]["name"] for pod in state.pods if not pod["spec"].get("nodeName")]:
            found.append(f"not bound: {unbound}")
        return found

    @property
    def _lease_namespace(self) -> str:
        return self.world.cluster.lease_namespace

    def _holder(self) -> Instance | None:
        """Who has written the lease last."""
        leases = [one for one in self._ours() if one.what == "leases" and one.is_accepted]
        return next((one for one in self.instances if leases and one.token == leases[-1].token), None)

    def _ours(self) -> list[Write]:
        tokens = set[str]().union(*(one.tokens for one in self.instances))
        return [one for one in self._log.read() if one.token in tokens]

    def _bindings(self) -> int:
        return sum(one.what == "pods/binding" and one.is_accepted for one in self._ours())

    async def _bound(self, count: int) -> None:
        def are_bound(pods: dict[str, dict[str, object]]) -> bool:
            return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) >= count  # type: ignore[attr-defined]

        what = f"{count} pods bound"
        await self.world.api.wait_for("pods", are_bound, self.world.namespace, what=what)

    def _seen(self, what: str, token: str, lost_s: float, bound_before: int) -> Loss:
        writes = self._ours()
        others = [one for one in writes if one.token != token and one.is_accepted and one.done_s > lost_s]
        taken_s = min(one.done_s for one in others if one.what == "leases")
        bound_s = min(one.done_s for one in others if one.what == "pods/binding")
        own = [one for one in writes if one.token == token]
        renewed_s = max(one.came_s for one in own if one.what == "leases" and one.is_accepted)
        late_s = max(one.came_s for one in own if one.what != "leases") - renewed_s
        after = [one for one in own if one.came_s >= taken_s and one.what != "leases"]
        return Loss(what, bound_before, bound_s - lost_s, taken_s - lost_s, late_s, after)


@asynccontextmanager
async def three_instances(folder: Path, devices: int) -> AsyncIterator[Failover]:
    """On a control plane of their own."""
    with ControlPlane(audits=True) as plane:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(real_world(with_manifests(plane), folder))
            await first.add_namespace()
            await first.add_nodes(-(-devices // PODS_ON_A_NODE), devices=PODS_ON_A_NODE)
            await first.add_class()
            await first.add_template()
            instances: list[Instance] = []
            for number in range(INSTANCES):
                proxy = await stack.enter_async_context(
                    FaultProxy(plane.url, plane.ssl_context(), (plane.ca_file, plane.key_file))
                )
                world = replace(first, proxy=proxy, log=folder / f"scheduler-{number}.log", _scheduler=None)
                stack.push_async_callback(world.stop_scheduler, kill=True)
                instances.append(Instance(world))
                await instances[-1].start()
            keeping = [asyncio.create_task(one.keep()) for one in instances]
            try:
                yield Failover(instances, AuditLog(plane.audit_log))
            finally:
                for task in keeping:
                    task.cancel()
                await asyncio.gather(*keeping, return_exceptions=True)


async def run(times: int, pods: int, say: Callable[[str], None]) -> list[str]:
    """All losses one after the other; what was wrong."""
    wrong: list[str] = []
    losses = ["killed"] * times + list(LOSSES[1:])
    with tempfile.TemporaryDirectory() as folder:
        async with three_instances(Path(folder), devices=pods * len(losses)) as failover:
            for what in losses:
                seen = await failover.lose(what, pods)
                broken = await failover.broken_rules()
                wrong += broken
                if seen.gap_s > GAP_S_MAX and not seen.unasked:
                    wrong.append(f"{what}: nobody bound a pod for {seen.gap_s:.2f} s")
                wrong += [f"{what}: written after another had the lease: {one}" for one in seen.writes_after]
                say(
                    f"{what:8} after {seen.bound_before:3} of {pods} pods: another has the lease after "
                    f"{seen.lease_s:.2f} s, binds after {seen.gap_s:.2f} s; last write "
                    f"{seen.late_s:+.2f} s from the last renewal, {len(seen.writes_after)} after another's; "
                    f"{len(broken)} rules broken" + f", {seen.unasked} ended without our doing" * bool(seen.unasked)
                )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="how often who schedules is killed")
    parser.add_argument("--pods", type=int, default=500, help="each time")
    arguments = parser.parse_args()
    wrong = asyncio.run(run(arguments.times, arguments.pods, lambda text: print(text, flush=True)))
    for text in wrong:
        print(text)
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
