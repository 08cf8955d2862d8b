"""--feature-gates: one vocabulary for all commands, upstream's names of the gates.

`DRA` may be left out, and upper and lower case are one: DRADeviceTaints=false, DeviceTaints=false. A name alone is on.
"""

from __future__ import annotations

from typing import Final

import click

from scheduler.model.api_rules import FIELD_BY_GATE
from scheduler.model.nearest import near

_GATE_BY_WORD: Final = {gate.lower().removeprefix("dra"): gate for gate in FIELD_BY_GATE}


def gate_named(written: str) -> str:
    """The gate of a name. Raises ValueError with the nearest for a name that is none."""
    word = written.strip().lower().removeprefix("dra")
    gate = _GATE_BY_WORD.get(word)
    if gate is None:
        meant = near(word, _GATE_BY_WORD)
        known = f"did you mean {_GATE_BY_WORD[meant]}?" if meant else f"known are {', '.join(FIELD_BY_GATE)}"
        raise ValueError(f"{written.strip()!r} is not known here; {known}")
    return gate


def parse_gates(text: str) -> dict[str, bool]:
    """`A=true,B=false` by gate. Raises ValueError for what is no gate, or neither true nor false."""
    gates = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        gate = gate_named(name)
        if equals and value.strip().lower() not in ("true", "false"):
            raise ValueError(f"{gate} must be true or false, not {value.strip()!r}")
        gates[gate] = not equals or value.strip().lower() == "true"
    return gates


def _parsed(context: click.Context, parameter: click.Parameter, value: str) -> dict[str, bool]:
    try:
        return parse_gates(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


gates_option: Final = click.option(
    "--feature-gates",
    "feature_gates",
    default="",
    metavar="GATE=true|false,…",
    callback=_parsed,
    help="Gates that differ from the defaults: DRADeviceTaints=false,DRAListTypeAttributes=true.",
)
"""`feature_gates`: a mapping of gate to bool."""
