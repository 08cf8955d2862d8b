"""The types of the page's answers for its scripts, from the forms in `scheduler.ui.answers` and `tests.cli.answers`.

    python -m tests.ui.answer_types    # writes tests/ui/tools/answer_types.d.ts

To what if the page answers as `simulate`, `make-room` and `drain-device` print, and adds something. Only `tsc` reads
the file. Its namespace is there for all scripts without an import, so browsers need no file of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from inspect import getdoc
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct, inspect
from pydantic import BaseModel

from scheduler.ui.answers import About, Answered, Devices, OneDevice, Overview, Pending, PodAnswer
from tests.cli.answers import DrainAnswer, RoomAnswer, SimulateAnswer

PATH: Final = Path(__file__).parent / "tools/answer_types.d.ts"


class _Asked(BaseModel):
    """What the page adds to each: the share of each class that is given out now, and what is wrong or not seen."""

    now: dict[str, float]
    problems: tuple[str, ...]


class Played(_Asked, SimulateAnswer):
    """A question that was played; `more` pods are left out."""

    text: str
    more: int
    evicted: tuple[str, ...]
    notes: tuple[str, ...]


class RoomPlan(_Asked, RoomAnswer):
    """What would have to move for a pod."""


class DrainPlan(_Asked, DrainAnswer):
    """Who holds a device, and where they would go; `more` that stay are left out. The first device was asked about."""

    more: int


_Form: TypeAlias = type[Struct] | type[BaseModel]

ANSWERS: Final[Mapping[str, _Form]] = {
    "about": About,
    "overview": Overview,
    "devices": Devices,
    "device": OneDevice,
    "pending": Pending,
    "pod": PodAnswer,
    "whatif": Played,
    "whatif?room": RoomPlan,
    "whatif?drain": DrainPlan,
}
"""By what is asked for below /api/."""
FOLLOWED: Final = frozenset({Overview, Devices, OneDevice, Pending, PodAnswer})
_NAMES: Final = {
    inspect.AnyType: "unknown",
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.StrType: "string",
}


def declarations() -> str:
    """The whole file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "// Written by `python -m tests.ui.answer_types` from scheduler/ui/answers.py and tests/cli/answers.py."
    yield "declare namespace Api {"
    yield "  /** What each address below /api/ answers. */"
    yield "  interface Answers {"
    left: dict[_Form, None] = {Answered: None}
    for path, form in ANSWERS.items():
        yield f"    {path if path.isidentifier() else json.dumps(path)}: {_text(inspect.type_info(form), left)};"
    yield "  }"
    done: set[_Form] = set()
    while waiting := [form for form in left if form not in done]:
        for form in waiting:
            done.add(form)
            yield ""
            yield from _declared(form, left)
    yield "}"


def _declared(form: _Form, left: dict[_Form, None]) -> Iterator[str]:
    yield f"  /** {(getdoc(form) or '').splitlines()[0]} */"
    yield f"  interface {form.__name__} {'extends Answered ' if form in FOLLOWED else ''}{{"
    if issubclass(form, BaseModel):
        for name, field in form.model_fields.items():
            mark = "" if field.is_required() else "?"
            yield f"    {field.alias or name}{mark}: {_text(inspect.type_info(field.annotation), left)};"
    else:
        info = inspect.type_info(form)
        assert isinstance(info, inspect.StructType)
        for one in info.fields:
            yield f"    {one.encode_name}: {_text(one.type, left)};"
    yield "  }"


def _text(kind: inspect.Type, left: dict[_Form, None]) -> str:
    """The type's name; forms that it names come to `left`."""
    match kind:
        case inspect.StructType() | inspect.CustomType():
            left.setdefault(kind.cls)
            return kind.cls.__name__
        case inspect.ListType() | inspect.VarTupleType():
            item = _text(kind.item_type, left)
            return f"({item})[]" if "|" in item else f"{item}[]"
        case inspect.TupleType():
            return f"[{', '.join(_text(one, left) for one in kind.item_types)}]"
        case inspect.DictType():
            return f"Record<string, {_text(kind.value_type, left)}>"
        case inspect.UnionType():
            return " | ".join(_text(one, left) for one in kind.types)
        case inspect.LiteralType():
            return " | ".join(map(json.dumps, kind.values))
        case inspect.EnumType():
            return " | ".join(json.dumps(one.value) for one in kind.cls)
        case _:
            return _NAMES[type(kind)]


if __name__ == "__main__":
    PATH.write_text(declarations())
