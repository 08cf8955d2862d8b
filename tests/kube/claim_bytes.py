"""ResourceClaims in protobuf, as kube-apiserver sends them; written apart from what reads them."""

from __future__ import annotations

from collections.abc import Sequence

PARAMETERS = b'{"mode": "a < b"}'


def field(number: int, value: bytes | str | int) -> bytes:
    """A field: a number as a varint, anything else with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    low, high = value & 127, value >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def protobuf_claim(
    *, uid: str, revision: int, finalizers: Sequence[str] = (), consumers: Sequence[tuple[str, str]] = ()
) -> bytes:
    """`consumers`: name and uid of pods. Its spec has a text that a JSON encoder of Go would change."""
    metadata = field(1, "c") + field(3, "default") + field(5, uid) + field(6, str(revision)) + field(7, 0)
    metadata += field(8, field(1, 1_700_000_000))
    metadata += b"".join(field(14, name) for name in finalizers)
    spec = field(1, field(2, field(1, "gpu.example.com") + field(2, field(1, PARAMETERS))))
    status = field(1, field(1, field(1, "an allocation")))
    status += b"".join(field(2, field(1, "") + field(3, "pods") + field(4, n) + field(5, u)) for n, u in consumers)
    status += field(4, "a device's status")
    claim = field(1, metadata) + field(2, spec) + field(3, status)
    kind = field(1, "resource.k8s.io/v1") + field(2, "ResourceClaim")
    return b"k8s\x00" + field(1, kind) + field(2, claim) + field(3, "") + field(4, "")
