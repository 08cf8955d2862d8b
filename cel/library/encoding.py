"""Values of expressions as JSON: the encoding of the recorded cases and of `dra-scheduler cel eval -o json`.

`{"int": "1"}`, `{"uint": "1"}`, `{"double": "1.5"}`, `{"string": ...}`, `{"bool": "true"}`,
`{"bytes": "[97 98]"}`, `{"null_type": "NULL_VALUE"}`, `{"list": [...]}`, `{"map": [[k, v], ...]}`,
`{"optional": v}`, `"optional.none"`, `{"type": name}`, and `{"<type name>": text as Go prints it}`.
"""

from __future__ import annotations

from typing import Any

from cel.gotext import format_double
from cel.integers import UInt
from cel.library.timestamp_functions import go_duration, go_time
from cel.library.values import MAP_CLASSES, Duration, Optional, Timestamp, TypeValue, to_text, type_name


def encode_value(value: Any) -> object:
    """A value as plain JSON types; entries of maps are sorted by key."""
    cls = value.__class__
    if cls is bool:
        return {"bool": "true" if value else "false"}
    if cls is int or cls is UInt:
        return {type_name(value): str(int(value))}
    if cls is float:
        return {"double": format_double(value)}
    if cls is str:
        return {"string": value}
    if cls is bytes:
        return {"bytes": f"[{' '.join(map(str, value))}]"}
    if value is None:
        return {"null_type": "NULL_VALUE"}
    if cls is list:
        return {"list": [encode_value(element) for element in value]}
    if cls in MAP_CLASSES:
        entries = sorted(value.items(), key=lambda entry: (type_name(entry[0]), to_text(entry[0])))
        return {"map": [[encode_value(key), encode_value(element)] for key, element in entries]}
    if cls is Optional:
        return {"optional": encode_value(value.value)} if value.has_value else "optional.none"
    if cls is TypeValue:
        return {"type": value.name}
    if cls is Timestamp:
        return {"google.protobuf.Timestamp": go_time(value)}
    if cls is Duration:
        return {"google.protobuf.Duration": go_duration(value)}
    return {type_name(value): str(value)}
