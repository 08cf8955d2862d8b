"""The types of the page's answers for its scripts, from the forms in `scheduler.ui.answers`.

    python -m tests.ui.answer_types    # writes tests/ui/tools/answer_types.d.ts

Only `tsc` reads the file. Its namespace is there for all scripts without an import, so browsers need no file of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from typing import Final

from msgspec import Struct, inspect

from scheduler.ui.answers import ANSWERS

PATH: Final = Path(__file__).parent / "tools/answer_types.d.ts"
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
    yield "// Written by `python -m tests.ui.answer_types` from scheduler/ui/answers.py."
    yield "declare namespace Api {"
    yield "  /** What each address below /api/ answers. */"
    yield "  interface Answers {"
    left: dict[type[Struct], None] = {}
    for path, form in ANSWERS.items():
        yield f"    {path if path.isidentifier() else json.dumps(path)}: {_text(inspect.type_info(form), left)};"
    yield "  }"
    done: set[type[Struct]] = set()
    while waiting := [form for form in left if form not in done]:
        for form in waiting:
            done.add(form)
            yield ""
            yield from _declared(form, left)
    yield "}"


def _declared(form: type[Struct], left: dict[type[Struct], None]) -> Iterator[str]:
    yield f"  /** {(getdoc(form) or '').splitlines()[0]} */"
    yield f"  interface {form.__name__} {{"
    info = inspect.type_info(form)
    assert isinstance(info, inspect.StructType)
    for one in info.fields:
        mark = "?" if form.__struct_config__.omit_defaults and not one.required else ""
        yield f"    {one.encode_name}{mark}: {_text(one.type, left)};"
    yield "  }"


def _text(kind: inspect.Type, left: dict[type[Struct], None]) -> str:
    """The type's name; structs that it names come to `left`."""
    match kind:
        case inspect.StructType():
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
    return _NAMES[type(kind)]


if __name__ == "__main__":
    PATH.write_text(declarations())
