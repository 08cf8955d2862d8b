"""docs/support-matrix.md, made from the tables of the API's gates and of the fields that no decoder reads.

Written by `python -m tests.support_matrix > docs/support-matrix.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from scheduler.validation.api_fields import BETA, NEWEST, OLDEST, gates, members_of
from tests.lint.handling import handling

_MINORS: Final = range(OLDEST, BETA + 1)


def _title(minor: int) -> str:
    return f"1.{minor}" + (" (beta)" if minor > NEWEST else "")


_STAGES: Final = {"-": "–", "A": "alpha", "B-": "beta, off", "B": "beta", "GA": "GA"}
_HEAD: Final = f"""# Support matrix

Made from `scheduler/validation/api_gates.txt` and `tests/lint/api_handling.txt` by
`python -m tests.support_matrix > docs/support-matrix.md`.

What Kubernetes' releases have that a scheduler decides by, and what this one does. Alpha is off unless the gate is set;
*beta, off* too. Stages are those of the released gates.

| feature (KEP) | gate | {" | ".join(map(_title, _MINORS))} | here |
|---|---|{"---|" * len(_MINORS)}---|
"""
_FIELDS: Final = """
## Fields

Each field of slices, classes, claims, taint rules, groups, pods and nodes is read, or harmless to ignore, or in this
table. One that is in none (of a release that is newer than this scheduler) is refused as these are: of a slice the
device is left out, or where the field is the slice's all of its devices; a claim, the requests of a class and the pods
of a group wait. Condition, event, `explain` and `devices` name it ([field-unread](reasons.md#field-unread)), and an
answer from files begins with it. Of pods and nodes unknown fields are not looked for.

| field | since | what is done |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_features()) + "\n" + _FIELDS + "\n".join(_fields()) + "\n"


def _features() -> Iterator[str]:
    for name, gate in gates().items():
        if gate.feature:
            stages = " | ".join(_STAGES[gate.stage(minor)] for minor in _MINORS)
            kep = f" ({gate.kep})" if gate.kep else ""
            yield f"| {gate.feature}{kep} | {name} | {stages} | {gate.ours} |"


def _fields() -> Iterator[str]:
    for field, one in handling().items():
        if one.how != "harmless":
            of, _, name = field.partition(".")
            member = members_of(of)[name]
            until = f" to 1.{member.until}" if member.until < BETA else ""
            since = f"1.{member.since}{until}" if (member.since, member.until) != (OLDEST, BETA) else "–"
            yield f"| `{field}` | {since} | {one.why} |"


if __name__ == "__main__":
    sys.stdout.write(page())
