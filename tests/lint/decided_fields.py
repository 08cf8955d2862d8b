"""What the decoders make of each field of the objects that decide: read off the decoders, never written down.

Rules of this module
  1. A field that a decoder declares is read, or harmless where it is declared so. Of a decoder that refuses what it
     does not know any other field is refused; else it is ignored.
  2. A field of a type `Unread` is refused: whoever has it waits.
  3. A value without declared parts (an attribute, a driver's parameters) is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec

from allocator.values import decode, decode_claims
from allocator.values.json_fields import Read, parts_of
from scheduler.kube import codec
from scheduler.kube.unread_fields import Harmless
from scheduler.model.objects import Node, Pod, Unread
from scheduler.validation.api_fields import members_of

Fields: TypeAlias = dict[str, str]
"""`Type.field`: "read", "harmless", "refused" or "ignored"."""
READERS: Final[Mapping[str, Read[Any]]] = {
    "ResourceSliceSpec": decode._slice_fields,
    "Device": decode._device_fields,
    "DeviceClassSpec": decode_claims._class_fields,
    "ResourceClaimSpec": decode_claims._claim_spec,
    "AllocationResult": decode_claims._allocation,
}
STRUCTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "ResourceClaimStatus": codec._WireClaimStatus,
    "DeviceTaintRuleSpec": codec._WireTaintRuleSpec,
    "PodGroupSpec": codec._WirePodGroupSpec,
    "OldPodGroupSpec": codec._WirePodGroupSpec,
    "Pod": Pod,
    "Node": Node,
}
_WHOLE: Final = {"ObjectMeta"}
"""Types of which each object has the same, and only names, labels and owners are read."""


def decided() -> Fields:
    """All fields of these types and of the types below them that are looked into."""
    found: Fields = {}
    for name, read in READERS.items():
        _of_reader(name, read, found)
    for name, struct in STRUCTS.items():
        _of_struct(name, struct, found)
    return found


def _of_reader(of: str, read: Read[Any], found: Fields) -> None:
    parts = parts_of(read)
    while parts.items or parts.values:
        parts = parts_of(parts.items or parts.values)
    if parts.fields is None:
        return
    for field, member in members_of(of).items():
        key = f"{of}.{field}"
        if field in parts.fields:
            found[key] = "read"
            if _is_struct(member.of):
                _of_reader(member.of.strip("[]{}"), parts.fields[field], found)
        else:
            found.setdefault(key, "harmless" if field in parts.harmless else "refused")


def _of_struct(of: str, struct: type[msgspec.Struct], found: Fields) -> None:
    fields = {one.encode_name: one.type for one in msgspec.structs.fields(struct)}
    rest = "refused" if struct.__struct_config__.forbid_unknown_fields else "ignored"
    for field, member in members_of(of).items():
        key = f"{of}.{field}"
        if field not in fields:
            found.setdefault(key, rest)
            continue
        below = next(_structs(fields[field]), None)
        found[key] = "harmless" if fields[field] is Harmless else "refused" if below is Unread else "read"
        if below is not None and _is_struct(member.of) and member.of not in _WHOLE:
            _of_struct(member.of.strip("[]{}"), below, found)


def _is_struct(of: str) -> bool:
    return of.strip("[]{}")[:1].isupper()


def _structs(of: Any) -> Iterator[type[msgspec.Struct]]:
    for one in (of, *get_args(of)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield one
        elif one is not of or get_args(one):
            for inner in get_args(one):
                if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                    yield inner
