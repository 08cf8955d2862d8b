"""CEL at the API's border: an expression that does not compile is refused when it is written.

The compiler is this project's own (`cel`), in the environment of new expressions; it is imported when the first
selector comes in, because few clusters' first moments need it.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go (validateCELSelector), v1.37.2
(validateDeviceDerivedAttribute).
"""

from functools import lru_cache
from typing import Final, NamedTuple

from scheduler.validation.field_errors import FieldError, forbidden, invalid

_REMEMBERED: Final = 1024


def check_selector(expression: str, path: str) -> list[FieldError]:
    """Compile one selector and estimate its cost; empty when it is fine."""
    return _errors(_problem(expression), expression, path)


def check_derived(expression: str, path: str) -> tuple[list[FieldError], int]:
    """As `check_selector`, for an expression of `derivedAttributes`; and its cost at most, 0 where it is wrong."""
    found = _problem(expression, is_derived=True)
    return _errors(found, expression, path), found.cost


def is_too_complex(costs: int) -> bool:
    """Whether that is more than what a claim may derive costs together."""
    from cel.cost.estimate import LIMIT  # noqa: PLC0415

    return costs > LIMIT


class _Found(NamedTuple):
    cost: int
    problem: str = ""
    is_cost: bool = False


def _errors(found: _Found, expression: str, path: str) -> list[FieldError]:
    if not found.problem:
        return []
    return [forbidden(path, found.problem) if found.is_cost else invalid(path, expression, found.problem)]


@lru_cache(maxsize=_REMEMBERED)
def _problem(expression: str, *, is_derived: bool = False) -> _Found:
    """The claims of one template ask the same again and again."""
    from cel import CompileError, compile_derived, compile_selector  # noqa: PLC0415
    from cel.checker import environments  # noqa: PLC0415
    from cel.cost.estimate import LIMIT, estimate  # noqa: PLC0415
    from cel.program import check_expression  # noqa: PLC0415

    environment = environments.get(kind="new")
    try:
        (compile_derived if is_derived else compile_selector)(expression, environment)
        cost = estimate(check_expression(expression, environment)).max
    except CompileError as error:
        return _Found(0, str(error))
    return _Found(cost, "too complex, exceeds cost limit", is_cost=True) if cost > LIMIT else _Found(cost)
