"""The highest rate of arrivals at which p99 from creation to binding stays below a second, and its picture.

    python -m benchmarks.compare --table arrivals --rounds 1 --out results/arrivals --resume     # the search, by turns
    python -m benchmarks.arrivals results/arrivals                          # results/arrivals.svg of what was found

Half of the devices are taken. Pods come at random (Poisson; each contender gets the same moments), plain ones and such
with one device by turns. Each is deleted 3 s after it was bound, and the garbage collector deletes its claim. At each
rate pods come for 6 s before those that count. A pod's time begins when it is due, so a machine that creates it late
carries no higher rate. What is not bound 10 s after the last came counts as long as it has waited. A rate holds when
all were bound and p99 is below 1 s. The rate doubles until one does not hold; the interval is halved until it is 10 %
wide. At last comes half of the highest rate below all that did not hold. The table has that rate as pods/s, and CPU,
p50 and p99 at half of it.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, repeat, takewhile
from math import log, log2
from pathlib import Path
from typing import Final

from benchmarks.contenders import told
from benchmarks.fleet import NAMESPACE
from benchmarks.loads import FIRST_SECONDS, Measured, Run, stream, warm_up
from benchmarks.report import Record, replace_file
from benchmarks.watching import BoundPods
from tests.integration.api import Api, ApiError

LIMIT_S: Final = 1.0
PRECISION: Final = 0.1
LIVES_S: Final = 3.0
LEAD_S: Final = 6.0
TAIL_S: Final = 10.0


def highest(holds: Mapping[float, bool]) -> tuple[float, float | None]:
    """Of rates that held or not: the highest below all that did not (0: none), and the lowest that did not."""
    failed = min((rate for rate in holds if not holds[rate]), default=None)
    return max((rate for rate in holds if failed is None or rate < failed), default=0.0), failed


def next_rate(holds: Mapping[float, bool], first: float) -> float | None:
    """The rate to try after these; None when all is known."""
    held, failed = highest(holds)
    if failed is None:
        return 2 * held or first
    if failed - held > max(PRECISION * failed, 1):
        return (held + failed) / 2
    return held / 2 if held and held / 2 not in holds else None


@dataclass(frozen=True, slots=True)
class Search:
    """Rate after rate in front of one running contender, each for `seconds`; begins none after `minutes`."""

    first: float
    seconds: float
    minutes: float
    label: str = ", highest rate"

    async def __call__(self, run: Run) -> Measured:
        ends = time.monotonic() + 60 * self.minutes
        claims = len(await run.api.list("resourceclaims", NAMESPACE))
        await run.start()
        async with BoundPods(run.api) as bound:
            await warm_up(run.api, run.fleet, run.one, bound)
        steps: dict[float, Measured] = {}
        holds: dict[float, bool] = {}
        while (rate := next_rate(holds, self.first)) is not None and time.monotonic() < ends:
            await _cleared(run.api, claims)
            run.one.check_alive()
            step = steps[rate] = await self._step(run, rate)
            holds[rate] = not step.failure and step.p99_s < LIMIT_S
            said = f"p50 {step.p50_s:.3f} s, p99 {step.p99_s:.3f} s {step.failure}"
            print(f"{run.one.name} {rate:g}/s: {said}".rstrip(), file=sys.stderr, flush=True)
        held, failed = highest(holds)
        if not held:
            return run.failed(f"no rate held, not even {failed}/s")
        return replace(
            steps[min((rate for rate in steps if holds[rate]), key=lambda rate: abs(rate - held / 2))],
            pods_per_s=held,
            pods=sum(step.pods for step in steps.values()),
            bound=sum(step.bound for step in steps.values()),
            violations=sum(step.violations for step in steps.values()),
            failure="" if rate is None else f"{self.minutes:g} minutes were over when {rate:g}/s was to be tried",
            rates=[[rate, step.p99_s, float(holds[rate])] for rate, step in sorted(steps.items())],
        )

    async def _step(self, run: Run, rate: float) -> Measured:
        moments = poisson(rate, LEAD_S + self.seconds)
        try:
            async with BoundPods(run.api) as bound:
                return await stream(run, bound, moments, lives_s=LIVES_S, lead_s=LEAD_S, tail_s=TAIL_S)
        except (ApiError, ExceptionGroup) as error:  # an API server that cannot any more
            return run.failed(told(error))


def poisson(rate: float, ends_s: float) -> list[float]:
    """Random moments, the same each time; so many a second."""
    drawn = random.Random(1)
    moments = accumulate(repeat(rate), lambda at, rate: at + drawn.expovariate(rate), initial=0.0)
    return list(takewhile(lambda at: at < ends_s, moments))[1:]


async def _cleared(api: Api, claims: int) -> None:
    """All pods go, and the claims that were made for them: as many are left as there were."""
    await api.delete_all("pods", NAMESPACE)
    for resource, count in (("pods", 0), ("resourceclaims", claims)):
        await api.wait_for(resource, lambda found, count=count: len(found) <= count, NAMESPACE, seconds=FIRST_SECONDS)


# -- the picture ----------------------------------------------------------------------------------------------------

_STYLE: Final = """<style>text{font:13px system-ui,sans-serif;fill:#777;stroke:none}path{fill:none;stroke:#999}
.c0{stroke:#d70;fill:#d70}.c1{stroke:#18d;fill:#18d}polyline,.ring{fill:none!important;stroke-width:2}</style>"""
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 20, 600, 300
_TICKS_S: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10)


def picture(runs: Sequence[Measured]) -> str:
    """An SVG: p99 over the rate, both in powers. A ring is a rate that did not hold; a line joins medians of rounds."""
    known = sorted({rate for run in runs for rate, *_ in run.rates})
    low, high = known[0], max(known[-1], 2 * known[0])
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT

    def at(rate: float, p99_s: float) -> tuple[float, float]:
        share = log(min(max(p99_s, _TICKS_S[0]), _TICKS_S[-1]) / _TICKS_S[0]) / log(_TICKS_S[-1] / _TICKS_S[0])
        return round(_LEFT + _WIDTH * log(rate / low) / log(high / low), 1), round(bottom - _HEIGHT * share, 1)

    powers = [low * 2**power for power in range(1 + int(log2(high / low)))]
    texts = [(at(rate, 1)[0] - 8, bottom + 18, f"{rate:g}") for rate in powers]
    texts += [(10, at(low, tick)[1] + 4, f"{tick:g} s") for tick in _TICKS_S]
    texts.append((_LEFT, bottom + 40, "p99 from creation to binding, over pods a second that come"))
    parts = [f'<text x="{x}" y="{y}">{text}</text>' for x, y, text in texts]
    parts.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}M{_LEFT} {at(low, LIMIT_S)[1]}H{right}"/>')
    for number, name in enumerate(dict.fromkeys(run.contender for run in runs)):
        points = [point for run in runs if run.contender == name for point in run.rates if point[1]]
        median = {rate: statistics.median(p99_s for one, p99_s, _ in points if one == rate) for rate, *_ in points}
        line = " ".join("{},{}".format(*at(*point)) for point in sorted(median.items()))
        parts.append(f'<polyline class="c{number}" points="{line}"/>')
        for rate, p99_s, holds in points:
            x, y = at(rate, p99_s)
            parts.append(f'<circle class="c{number}{"" if holds else " ring"}" cx="{x}" cy="{y}" r="4"/>')
        parts.append(f'<g class="c{number}"><circle cx="80" cy="{30 + 18 * number}" r="4"/></g>')
        parts.append(f'<text x="92" y="{34 + 18 * number}">{name}</text>')
    size = f'viewBox="0 0 {right + 30} {bottom + 50}" width="{right + 30}" height="{bottom + 50}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{_STYLE}{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    record = Record(Path(sys.argv[1]), {})
    record.resume()
    replace_file(Path(sys.argv[1]).with_suffix(".svg"), picture(record.runs))
