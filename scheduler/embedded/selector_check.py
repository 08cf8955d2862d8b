"""CEL selectors at the API's border: an expression that does not compile is refused when it is written.

The compiler is this project's own (`cel`); it is imported when the first selector comes in.
"""

from typing import Final

from scheduler.embedded.statuses import FieldError, forbidden, invalid, required

COST_LIMIT: Final = 1_000_000


def check_selector(expression: str, path: str) -> list[FieldError]:
    """Compile one selector; empty when it is fine."""
    if not expression.strip():
        return [required(path)]
    import cel  # noqa: PLC0415 - the compiler is not needed before the first selector

    compile_selector = getattr(cel, "compile_selector", None)
    if compile_selector is None:
        return []
    try:
        compile_selector(expression)
    except Exception as error:
        text = str(error)
        if "cost" in text:
            return [forbidden(path, "too complex, exceeds cost limit")]
        return [invalid(path, expression, text)]
    return []
