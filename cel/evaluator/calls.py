"""Which function a call of an expression calls: one for all types, or an overload chosen by its arguments.

Source: cel-go v0.26.0 and v0.29.2, interpreter/planner.go (`planCall`), interpreter/dispatcher.go.
"""

from __future__ import annotations

from typing import Any

from cel.checker.checker import Checked
from cel.checker.declarations import DYN_KIND, LIST_KIND, MAP_KIND, PARAM_KIND, Overload, Type
from cel.library.kube_library import implementations
from cel.library.stdlib import SINGLETONS, Implementation
from cel.library.values import no_such_overload, type_name
from cel.parser.syntax import Call


def implementation_of(checked: Checked, node: Call, count: int) -> Implementation:
    """What to call with `count` operands: one function for all types, or the first overload the arguments fit."""
    singleton = SINGLETONS.get(node.function)
    if singleton is not None:
        return singleton
    table = implementations(checked.environment.minor)
    chosen = checked.references.get(node.id, ())
    overloads: tuple[Overload, ...] = checked.environment.functions(node.function) or ()
    candidates = [
        (overload.arguments, table[overload.id])
        for overload in overloads
        if len(overload.arguments) == count and overload.id in table and (len(chosen) != 1 or overload.id in chosen)
    ]
    return _dispatcher(node.function, candidates, count)


def _is_instance(type_: Type, value: Any) -> bool:
    """Whether a run-time value passes for a declared type: its name, and the first element's."""
    kind = type_.kind
    if kind in (DYN_KIND, PARAM_KIND):
        return True
    if type_.name != type_name(value):
        return False
    if kind == LIST_KIND:
        return len(value) == 0 or _is_instance(type_.parameters[0], value[0])
    if kind == MAP_KIND and len(value):
        key, element = next(iter(value.items()))
        return _is_instance(type_.parameters[0], key) and _is_instance(type_.parameters[1], element)
    return True


def _dispatcher(function: str, candidates: list[tuple[tuple[Type, ...], Implementation]], count: int) -> Implementation:
    """Calls the first overload the arguments fit."""
    # Without lists and maps among the types, the classes of the arguments decide.
    known: dict[Any, Implementation] | None = None
    if not any(type_.kind in (LIST_KIND, MAP_KIND) for types, _ in candidates for type_ in types):
        known = {}

    def dispatch(*values: Any) -> Any:
        for types, implementation in candidates:
            if all(map(_is_instance, types, values)):
                if known is not None:
                    known[values[0].__class__ if count == 1 else tuple([value.__class__ for value in values])] = (
                        implementation
                    )
                return implementation(*values)
        no_such_overload(function, values)

    if known is not None and count == 1:

        def dispatch_one(value: Any) -> Any:
            implementation = known.get(value.__class__)
            return implementation(value) if implementation is not None else dispatch(value)

        return dispatch_one
    if known is not None and count == 2:

        def dispatch_two(first: Any, second: Any) -> Any:
            implementation = known.get((first.__class__, second.__class__))
            return implementation(first, second) if implementation is not None else dispatch(first, second)

        return dispatch_two
    return dispatch
