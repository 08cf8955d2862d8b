"""Pods with claims and volumes, three schedulers, and everything around them that breaks, on the real control plane.

    python -m tests.integration.chaos                                # 10,000 pods in 20 minutes
    python -m tests.integration.chaos --minutes 5 --pods 2500 --seed 7 --logs FOLDER
    python -m tests.integration.chaos --lasting                      # nothing that ends a process: is its memory flat?

What breaks is drawn from the seed (`schedule`): requests and replies are lost, delayed, sent twice, cut off in their
middle, refused (429, 500, 504); watches end, also in the middle of a line, or say nothing; who leads is killed, stopped
or cut off; the API server and etcd are killed and started again, and etcd is compacted; slices are published again, or
are gone for seconds; kube-scheduler takes devices for pods of its own, and is killed too.

All the while the invariant checker reads the whole state of one revision, and every change of a claim is looked at. In
the end nobody may wait for whom there is room, and no process that lived for a quarter of the run, and two minutes, may
hold over 5 % more in the last quarter of its life than in the second. Exit code 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.integration.chaos.run import Settings, run
from tests.integration.chaos.schedule import ENDING


def main() -> int:
    usual = Settings()
    parser = argparse.ArgumentParser(
        prog="python -m tests.integration.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=usual.minutes)
    parser.add_argument(
        "--pods", type=int, default=usual.pods, help="of ours; another scheduler has an eighth of them more"
    )
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--nodes", type=int, default=usual.nodes, help="of eight devices each")
    parser.add_argument("--fault-every", type=float, default=usual.fault_every_s, metavar="SECONDS", help="on average")
    parser.add_argument("--lease", type=float, default=usual.lease_s, metavar="SECONDS", help="the lease's duration")
    parser.add_argument("--logs", type=Path, help="keep the schedulers' logs in this folder")
    parser.add_argument("--lasting", action="store_true", help="without faults that end a process")
    arguments = parser.parse_args()
    settings = Settings(
        minutes=arguments.minutes,
        pods=arguments.pods,
        seed=arguments.seed,
        nodes=arguments.nodes,
        fault_every_s=arguments.fault_every,
        lease_s=arguments.lease,
        without=ENDING if arguments.lasting else (),
    )
    with ExitStack() as stack:
        folder = arguments.logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(run(settings, folder, lambda text: print(text, flush=True)))
    for line in report.lines():
        print(line)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
