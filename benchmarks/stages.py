"""CPU a pod by stage, with kube-scheduler's beside it: pods come in front of a running scheduler, as fast as they can.

    PATH=$PATH:FOLDER python -m benchmarks.compare --table stages --rounds 2 --out results/stages   # FOLDER has py-spy
    python -m benchmarks.stages results/stages                                         # the table of what was found

py-spy (`pip install py-spy`, in an environment of its own) reads our stacks 250 times a second while the clock runs.
Each sample belongs to the first of `STAGES` that fits. That costs us CPU time, so a stage's milliseconds are its share
of the samples, of our CPU a pod in a run that nobody reads.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.contenders import ContenderError, Ours, Sampled
from benchmarks.loads import Arriving, Measured, Run
from benchmarks.report import BASELINE, Record, aligned, summarize

OTHER: Final = "event loop, the rest"
STAGES: Final = (
    ("garbage collector", r"gc_collect"),
    ("TLS", r"libssl|libcrypto|\bSSLObject\."),
    ("watches: reading, decoding", r"\bReflector\.|\bWatchedKind\.decode_event"),
    ("events", r"\bExecutor\._send_event|\bEventSeries\."),
    ("writes: HTTP", r"\bApiClient\.|\(aiohttp/"),
    ("writes: the rest", r"\bExecutor\."),
    ("deciding", r"\bMachineTurns\."),
    ("TLS", r"SSLProtocol"),
)
"""A stack is a line of frames, the innermost last; TLS within them is TLS, whoever reads or writes."""
_IDLE: Final = re.compile(r"epoll_p?wait[^;]*$")


def stages(stacks: Iterable[str]) -> Counter[str]:
    """Samples by stage, of py-spy's raw lines: frames joined by semicolons, and how many samples had them."""
    counts: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if not _IDLE.search(stack):
            counts[next((name for name, frames in STAGES if re.search(frames, stack)), OTHER)] += int(count)
    return counts


class Staged(Arriving):
    """`Arriving`, and our stacks are read meanwhile."""

    @property
    def label(self) -> str:
        return ""

    async def __call__(self, run: Run) -> Measured:
        if not isinstance(run.one, Sampled):
            return await Arriving.__call__(self, run)
        if shutil.which("py-spy") is None:
            raise ContenderError("py-spy is not on the PATH")
        sampled = _SampledRun(run.cluster, run.api, run.fleet, run.one, run.round_number)
        measured = await Arriving.__call__(self, sampled)
        return replace(measured, samples=dict(stages(sampled.stacks.read_text().splitlines())))


@dataclass(slots=True)
class _SampledRun(Run):
    _sampler: subprocess.Popen[bytes] | None = None

    @property
    def stacks(self) -> Path:
        return self.cluster.folder / "stacks"

    def begin(self) -> float:
        assert isinstance(self.one, Ours)
        command = ["py-spy", "record", "--native", "--rate=250", "--format=raw", f"--output={self.stacks}"]
        self._sampler = subprocess.Popen([*command, f"--pid={self.one.pid}"], stdout=subprocess.PIPE)
        assert self._sampler.stdout is not None
        if not self._sampler.stdout.readline():  # that it samples now: it has read the symbols
            raise ContenderError("py-spy could not read the process")
        return Run.begin(self)

    def stop(self) -> None:
        Run.stop(self)
        assert self._sampler is not None
        self._sampler.send_signal(signal.SIGINT)  # it writes its file
        self._sampler.communicate(timeout=60)


def table(runs: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """A line for each stage, a column for each workload: milliseconds of CPU a pod, and of the last line samples."""
    cpu_ms = {(row.workload, row.contender): row.cpu_ms_per_pod for row in summarize(runs)}
    workloads = list(dict.fromkeys(run.workload for run in runs))
    yield "ms of CPU a pod", *workloads
    for name in (BASELINE, Ours().name):
        yield name, *(f"{cpu_ms.get((workload, name), 0):.2f}" for workload in workloads)
    counts = {one: sum((Counter(run.samples) for run in runs if run.workload == one), Counter()) for one in workloads}
    ms = {one: cpu_ms.get((one, Ours().name), 0) / max(counts[one].total(), 1) for one in workloads}
    for stage in (*dict.fromkeys(name for name, _ in STAGES), OTHER):
        yield stage, *(f"{ms[one] * counts[one][stage]:.2f}" for one in workloads)
    yield "samples", *(str(counts[one].total()) for one in workloads)


if __name__ == "__main__":
    record = Record(Path(sys.argv[1]), {})
    record.resume()
    print("\n".join(aligned(list(table(record.runs)), left=(0,))))
