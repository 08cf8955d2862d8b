"""Node selectors from API JSON."""

from __future__ import annotations

from collections.abc import Mapping

from allocator.json_fields import FieldError, Json, child, each, name_of, text_at, texts_at
from allocator.model import DecodeError, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm


def decode_node_selector(obj: Json) -> NodeSelector:
    """Read a core/v1 NodeSelector. Raises DecodeError."""
    try:
        return node_selector(obj)
    except FieldError as error:
        raise DecodeError("NodeSelector", "", error.path or "selector", error.problem) from None


def optional_node_selector(obj: Json) -> NodeSelector | None:
    """The field `nodeSelector` of an object; for decoders."""
    selector = child(obj, "nodeSelector")
    if selector is None:
        return None
    try:
        return node_selector(selector)
    except FieldError as error:
        raise error.below("nodeSelector") from None


def node_selector(obj: Json) -> NodeSelector:
    """A selector; raises FieldError. For decoders."""
    if not isinstance(obj, Mapping):
        raise FieldError("", f"expected an object, got {name_of(obj)}")
    return NodeSelector(each(obj, "nodeSelectorTerms", _term))


def _term(obj: Json) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        each(obj, "matchExpressions", _requirement),
        each(obj, "matchFields", _requirement),
    )


def _requirement(obj: Json) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(text_at(obj, "key"), text_at(obj, "operator"), texts_at(obj, "values"))
