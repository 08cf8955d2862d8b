"""`dra-scheduler simulate --plot`: what was given out, who waited and how scattered the rest was, over time.

Equal input gives an equal file, to the byte, with one version of matplotlib, which is loaded for this only.

Not here: the moments that are drawn (`scheduler.offline.simulation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.input_errors import WrongInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scheduler.offline.simulation import Sample
    from scheduler.offline.utilization import Utilization

SAMPLES: Final = 200
_FORMS: Final = (".png", ".svg")
_UNITS: Final = ((2 * 86_400, 86_400, "days"), (2 * 3_600, 3_600, "hours"), (2 * 60, 60, "minutes"), (0, 1, "seconds"))
_WITHOUT_DATE: Final[dict[str, dict[str, Any]]] = {".png": {"Software": None}, ".svg": {"Date": None}}


def check_plot(path: str | None) -> int:
    """How many moments to keep for the picture; 0 for no picture.

    Before any work it refuses a form that there is none of, a folder that is not there, plotting without matplotlib.

    Raises:
        click.UsageError, WrongInputError
    """
    if path is None:
        return 0
    if Path(path).suffix not in _FORMS:
        raise click.UsageError(f"--plot {path}: its name must end in {' or '.join(_FORMS)}")
    if not Path(path).parent.is_dir():
        raise WrongInputError(f"--plot {path}: there is no folder {Path(path).parent}")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        text = "--plot needs matplotlib, which is not installed: pip install 'dra-scheduler[plot]'"
        raise WrongInputError(text) from None
    return SAMPLES


def plot(samples: Sequence[Sample], path: str | None) -> None:
    """Write the picture, if one is wanted.

    Raises:
        WrongInputError: The file cannot be written.
    """
    if path is None:
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "dra-scheduler"  # ids in the file are drawn from it
    figure = Figure(figsize=(9, 8), layout="constrained")
    given_out, waiting, scattered = figure.subplots(3, 1, sharex=True)
    size, unit = next((size, unit) for least, size, unit in _UNITS if samples[-1].at_s >= least)
    times = [float(one.at_s / size) for one in samples]
    _shares(given_out, times, samples, "given out, %", lambda one: float(100 * one.share))
    waiting.plot(times, [one.waiting for one in samples], drawstyle="steps-post", color="black")
    waiting.set_ylabel("pods that wait")
    waiting.set_ylim(bottom=0)
    _shares(scattered, times, samples, "free on nodes in use, %", lambda one: float(100 * one.fragmentation))
    scattered.set_xlabel(unit)
    given_out.legend(loc="lower right")
    suffix = Path(path).suffix
    try:
        figure.savefig(path, metadata=_WITHOUT_DATE[suffix])
    except OSError as error:
        raise WrongInputError(f"--plot {path}: {error.strerror}") from error


def _shares(
    axes: Axes,
    times: Sequence[float],
    samples: Sequence[Sample],
    label: str,
    share: Callable[[Utilization], float],
) -> None:
    """A line for each class that has devices."""
    for name in samples[-1].allocated:
        if any(one.allocated[name].devices for one in samples if name in one.allocated):
            values = [share(one.allocated[name]) if name in one.allocated else 0.0 for one in samples]
            axes.plot(times, values, drawstyle="steps-post", label=name)
    axes.set_ylabel(label)
    axes.set_ylim(0, 102)
