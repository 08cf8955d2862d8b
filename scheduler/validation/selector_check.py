"""CEL selectors at the API's border: an expression that does not compile is refused when it is written.

The compiler is this project's own (`cel`), in the environment of new expressions; it is imported when the first
selector comes in, because few clusters' first moments need it.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/resource/validation/validation.go (validateCELSelector).
"""

from functools import lru_cache
from typing import Final

from scheduler.validation.field_errors import FieldError, forbidden, invalid

_REMEMBERED: Final = 1024


def check_selector(expression: str, path: str) -> list[FieldError]:
    """Compile one selector and estimate its cost; empty when it is fine."""
    problem = _problem(expression)
    if problem is None:
        return []
    text, is_cost = problem
    return [forbidden(path, text) if is_cost else invalid(path, expression, text)]


@lru_cache(maxsize=_REMEMBERED)
def _problem(expression: str) -> tuple[str, bool] | None:
    """What is wrong, and whether it is the cost. The claims of one template ask the same again and again."""
    from cel import CompileError, compile_selector  # noqa: PLC0415
    from cel.checker import environments  # noqa: PLC0415
    from cel.cost.estimate import LIMIT, estimate  # noqa: PLC0415
    from cel.program import check_expression  # noqa: PLC0415

    environment = environments.get(kind="new")
    try:
        compile_selector(expression, environment)
        cost = estimate(check_expression(expression, environment))
    except CompileError as error:
        return str(error), False
    return ("too complex, exceeds cost limit", True) if cost.max > LIMIT else None
