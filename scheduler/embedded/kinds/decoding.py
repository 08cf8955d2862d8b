"""What the API server finds out when it decodes a body, before it looks at any rule."""

from __future__ import annotations

from collections.abc import Iterable

from cel.quantity import Quantity
from scheduler.embedded.server.statuses import bad_request
from scheduler.validation.field_errors import Json


def check_quantities(kind: str, values: Iterable[Json]) -> None:
    """Refuse an object of a kind in v1 that holds a text which is no quantity. Raises ApiError: 400."""
    try:
        for text in {str(value): None for value in values if value is not None}:  # of many devices few amounts
            Quantity.parse(text)
    except ValueError as error:
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error
