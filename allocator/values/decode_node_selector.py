"""Node selectors from API JSON."""

from __future__ import annotations

from typing import Final

from allocator.values.json_fields import TEXT, TEXTS, FieldError, Json, many, record
from allocator.values.model import DecodeError, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

_requirement: Final = record(NodeSelectorRequirement, key=TEXT, operator=TEXT, values=TEXTS)
_term: Final = record(NodeSelectorTerm, match_expressions=many(_requirement), match_fields=many(_requirement))
read_node_selector: Final = record(NodeSelector, node_selector_terms=many(_term))


def decode_node_selector(obj: Json) -> NodeSelector:
    """Read a core/v1 NodeSelector. Raises DecodeError."""
    try:
        return read_node_selector(obj)
    except FieldError as error:
        raise DecodeError("NodeSelector", "", error.path or "selector", error.problem) from None
