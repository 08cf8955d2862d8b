"""Each planted cause is named, with its object, its fact and a change that helps: by `explain` of files, and for every
fifth (at night for all) by the live scheduler's event and by `explain` of a server too. Taking the cause away makes the
pod fit, so it is the cause.

What is not said yet stands in `planted.known_misses`, which only ever gets shorter: what is said now has to go there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.explain.planted import ROWS, mended
from tests.explain.planted.judging import Told, faults, fits, live_all, of_files
from tests.explain.planted.known_misses import KNOWN_MISSES
from tests.nightly import fifth

Served = dict[str, tuple[Told, Told]]
CHANNELS = ("event", "files", "online")
SERVED = {name for name in {*fifth([*ROWS]), *KNOWN_MISSES} if not ROWS[name].unserved}


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Served:
    """Events, and what `explain` says of the server, for the rows that are tested here; several clusters at once."""
    tests = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = {str(item.callspec.params.get("name")) for item in tests}
    return asyncio.run(live_all([ROWS[name] for name in ROWS if name in names & SERVED]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_cause_is_named_on_each_channel(name: str, served: Served, tmp_path: Path) -> None:
    row = ROWS[name]
    told = {"files": of_files(row, tmp_path / "objects.json")}
    if name in SERVED:
        event, told["online"] = served[name]
        told |= {} if row.unheard else {"event": event}

    wrong = {channel: " ".join(faults(row, one, channel)) for channel, one in sorted(told.items())}
    said = "; ".join(f"{channel} {text}" for channel, text in wrong.items() if text)

    known = KNOWN_MISSES.get(name, "")
    lines = "\n".join(f"{channel}: {one.lines[0]}\n    {one.lines[1]}" for channel, one in told.items())
    assert said == known, f"{_differ(said, known)}\n{lines}"


def _differ(said: str, known: str) -> str:
    now, before = (set(_single(text)) for text in (said, known))
    better, worse = sorted(before - now), sorted(now - before)
    return f"no longer missed, take it out of known_misses: {better}; missed, and was not: {worse}"


def _single(text: str) -> list[str]:
    parts = [part.split() for part in text.split("; ") if part]
    return [f"{channel} {fault}" for channel, *wrong in parts for fault in wrong]


@pytest.mark.parametrize("name", ROWS)
def test_the_pod_does_not_fit_and_without_the_cause_it_does(name: str) -> None:
    row = ROWS[name]

    assert fits(row, row.objects) == (row.fits or row.kind.startswith("scheduler"))
    assert row.fits or fits(row, mended(row))


def test_known_misses_are_rows_and_each_bullet_is_told_in_two_dresses() -> None:
    bullets = [row.bullet for row in ROWS.values()]

    assert set(KNOWN_MISSES) <= set(ROWS)
    assert len(ROWS) >= 120
    assert {bullet for bullet in bullets if bullets.count(bullet) < 2} == set()
