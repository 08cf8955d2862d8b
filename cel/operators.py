"""The names under which operators are functions: cel-go's, for parser, tables and evaluators alike.

Source: cel-go v0.29.2, common/operators.
"""

from __future__ import annotations

from typing import Final

CONDITIONAL: Final = "_?_:_"
LOGICAL_AND: Final = "_&&_"
LOGICAL_OR: Final = "_||_"
LOGICAL_NOT: Final = "!_"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
NEGATE: Final = "-_"
IN: Final = "@in"
INDEX: Final = "_[_]"
OPTIONAL_INDEX: Final = "_[?_]"
OPTIONAL_SELECT: Final = "_?._"
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"
MAP_INSERT: Final = "cel.@mapInsert"
CHAIN: Final = frozenset((INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT))
"""What goes on from a value as a selection does."""
