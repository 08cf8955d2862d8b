"""From the program of an earlier commit to this one and back, amid pods, on the real control plane.

    python -m tests.integration.upgrade --before COMMIT [--pods 60]

The earlier one is ended in order (SIGTERM) while it binds pods, and this one goes on, as in a rollout; then the other
way round. Every pod is bound, no allocation that was stored is another one afterwards, and the invariants hold. Exit
code 1 when a rule was broken. Needs git's history.

Not here: a release that is upgraded with another configuration (`test_install.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.cluster import ControlPlane, die_with_parent
from tests.integration.conftest import real_world, with_manifests
from tests.integration.world import World, devices_of

ROOT: Final = Path(__file__).resolve().parents[2]
_TIMES: Final = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}


async def bound(world: World, least: int) -> dict[str, list[tuple[str, str]]]:
    """Wait until so many pods are bound; the devices of each."""

    def are_bound(pods: dict[str, dict]) -> bool:
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) >= least

    await world.api.wait_for("pods", are_bound, world.namespace, what=f"{least} pods bound")
    state = await world.state()
    names = [pod["metadata"]["name"] for pod in state.pods if pod["spec"].get("nodeName")]
    return {name: devices_of(await world.claim_of(name)) for name in names}


class Program:
    """The scheduler of one tree, as a process."""

    def __init__(self, tree: Path, world: World) -> None:
        self._tree, self._world = tree, world
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        world = self._world
        kubeconfig = world.cluster.scheduler_kubeconfig(world.proxy.url)
        with world.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "scheduler", "run", f"--kubeconfig={kubeconfig}", "--no-health"),
                f"--config={world.configuration(**_TIMES)}",
                cwd=self._tree,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    async def end(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()


async def upgraded(earlier: Path, pods: int) -> list[str]:
    """What was not as it should be."""
    wrong: list[str] = []
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        async with real_world(with_manifests(plane), Path(folder)) as world:
            await world.add_namespace()
            await world.add_nodes(-(-2 * pods // 8), devices=8)
            await world.add_class()
            await world.add_template()
            trees = {"the earlier one": earlier, "this one": ROOT}
            for number, (before, after) in enumerate([tuple(trees), tuple(reversed(trees))]):
                names = [f"pod-{number}-{index:03}" for index in range(pods)]
                first, second = Program(trees[before], world), Program(trees[after], world)
                await first.start()
                await world.add_pods(names[: pods // 3], template="one-gpu")
                await bound(world, number * pods + pods // 3)
                adding = asyncio.create_task(world.add_pods(names[pods // 3 :], template="one-gpu"))
                await bound(world, number * pods + pods // 3 + 1)
                code = await first.end()
                stored = await bound(world, number * pods + pods // 3)
                await second.start()
                await adding
                kept = await bound(world, (number + 1) * pods)
                changed = [name for name, devices in stored.items() if kept[name] != devices]
                print(f"from {before} to {after}: {len(stored)} bound before, {len(kept)} after, exit code {code}")
                wrong += [f"{name} has other devices" for name in changed]
                wrong += [f"{before} ended with {code}"] if code else []
                wrong += [str(one) for one in await world.violations()]
                await second.end()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, metavar="COMMIT", help="the earlier program")
    parser.add_argument("--pods", type=int, default=60, help="in each of the two directions")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "earlier"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), args.before], cwd=ROOT, check=True)
        try:
            wrong = asyncio.run(upgraded(tree, args.pods))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    for one in wrong:
        print(f"WRONG: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
