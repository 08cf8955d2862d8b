"""What the machine keeps in memory while pods come whose claims each have a selector of their own.

    python -m benchmarks.memory                                  # 20,000 pods on 5,000 nodes: takes minutes
    python -m benchmarks.memory --nodes 500 --pods 1000 --hopeless   # each asks for one device more than a node has
    python -m benchmarks.memory --nodes 300 --pods 800 --terms 600   # 200 KB of pod affinity each
    python -m benchmarks.memory --nodes 300 --pods 200 --terms 600 --running   # the same, but they run already
    python -m benchmarks.memory --nodes 500 --pods 600 --gone        # pods and claims are deleted at the end

The machine alone, with a null shell: what a scheduler keeps beside it (connections, buffers) is some 30 MB. But for
`--gone` nothing is ever deleted, so what grows is what the cluster has, and what is remembered, which is bounded
(`remembered_bytes_max`). The exit code is 0 below 1 GiB, 400 MB with `--terms`, and with 30 MB left after `--gone`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

import orjson

from benchmarks.machine import NullShell, Object, resident_mb
from scheduler import garbage_collector
from scheduler.core.ground.inputs import Deleted
from scheduler.kube.codec import Codec
from scheduler.model.objects import Pod
from tests import builders
from tests.observed import observed

CODEC: Final = Codec()


def gpu(node: int, index: int) -> Object:
    return builders.device_object(f"gpu-{index}", index=index, uuid=f"GPU-{node}-{index}", model="A100")


def many_terms(number: int, count: int, node: str = "") -> Pod:
    """A pod of required pod affinity that it shares with no other pod, read as the scheduler reads it."""
    terms = []
    for index in range(count):
        value = f"{number:05}-{index:05}"
        both = [f"{value}-{'x' * 40}", f"{value}-{'y' * 40}"]
        wanted = [{"key": f"app-{index}", "operator": "In", "values": both}]
        wanted.append({"key": "tier", "operator": "NotIn", "values": [f"{value}-z"]})
        terms.append(
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchExpressions": wanted},
                "namespaces": ["hostile"],
            }
        )
    pod = builders.pod_object(f"terms-{number}", namespace="hostile", requests={"cpu": "1m"})
    pod["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if node:
        pod["spec"]["nodeName"] = node
    return CODEC.decode_pod(orjson.dumps(pod))


def delete_all(shell: NullShell) -> None:
    """Pods and claims, each with what follows from it."""
    revision = shell.revision + 1_000
    for pod in list(shell.pods.values()):
        shell.feed([Deleted("Pod", pod.key, pod.uid, revision)])
    for claim in list(shell.claims.values()):
        shell.feed([Deleted("ResourceClaim", claim.key, claim.uid, revision)])
    shell.pods.clear()
    shell.claims.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--devices", type=int, default=8, help="on each node")
    parser.add_argument("--gone", action="store_true", help="delete all at the end; at most 30 MB more may stay")
    parser.add_argument("--hopeless", action="store_true", help="no pod fits anywhere")
    parser.add_argument("--terms", type=int, default=0, help="pods with so many affinity terms each, instead of claims")
    parser.add_argument("--running", action="store_true", help="pods of terms run already")
    args = parser.parse_args()
    shell = NullShell()
    shell.see_cluster(args.nodes, gpu, args.devices)
    shell.listed()
    garbage_collector.settle()  # as the app does
    before = resident_mb()
    print(f"{args.nodes} nodes, {args.nodes * args.devices} devices: {before} MB resident", flush=True)
    ledger = shell.machine.store.ledger
    largest = 0
    for number in range(args.pods):
        selector = f"device.attributes['gpu.example.com'].uuid != 'job-{number}'"
        count = args.devices + 1 if args.hopeless else 1
        spec = builders.claim_spec_object(builders.request_object(selector=selector, count=count))
        if args.terms:
            pod = many_terms(number, args.terms, f"node-{number % args.nodes:05}" if args.running else "")
            shell.pods[pod.key] = pod
            shell.feed([observed(pod)])
        else:
            shell.feed(shell.add(f"pod-{number}", spec, {"cpu": "1m"}))
        if number % 20 == 19:
            shell.run_until_idle()
        if (number + 1) % max(1, args.pods // 10) == 0:
            resident = resident_mb()
            largest = max(largest, resident)
            print(
                f"{number + 1} pods, {len(shell.bound)} bound: {resident} MB resident, "
                f"{ledger.size >> 20} MB remembered, "
                f"longest input {shell.longest_s * 1000:.1f} ms",
                flush=True,
            )
    print(f"largest: {largest} MB")
    if args.gone:
        delete_all(shell)
        kept = resident_mb() - before
        print(f"all deleted: {kept} MB more than before, {ledger.size >> 20} MB remembered")
        return 0 if kept <= 30 else 1
    return 0 if largest < (400 if args.terms else 1024) else 1


if __name__ == "__main__":
    sys.exit(main())
