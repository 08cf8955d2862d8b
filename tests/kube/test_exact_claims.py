"""A claim in protobuf comes back as it was, but for what is asked."""

from __future__ import annotations

import pytest

from scheduler.kube.exact_claims import ExactClaim
from scheduler.model.api_rules import FINALIZER
from scheduler.model.claim import Consumer
from scheduler.model.protobuf_wire import MalformedError
from tests.kube.claim_bytes import PARAMETERS, field, protobuf_claim, varint


def parts(message: bytes) -> dict[int, list[bytes]]:
    """Fields by number; a reader of its own, for messages of short fields."""
    found: dict[int, list[bytes]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found.setdefault(tag >> 3, []).append(b"%d" % number())
        else:
            assert tag & 7 == 2
            size = number()
            found.setdefault(tag >> 3, []).append(message[at : at + size])
            at += size
    return found


def claim_of(body: bytes) -> dict[int, list[bytes]]:
    (raw,) = parts(body[4:])[2]
    return parts(raw)


def test_what_is_read() -> None:
    claim = ExactClaim(protobuf_claim(uid="u", revision=12345))
    assert (claim.uid, claim.resource_version) == ("u", "12345")


@pytest.mark.parametrize("before", [[], [FINALIZER], ["example.com/mine"]])
def test_finalizers_are_set_and_nothing_else(before: list[str]) -> None:
    body = protobuf_claim(uid="u", revision=7, finalizers=before)
    changed = ExactClaim(body).with_finalizers([*before, "example.com/new"])

    was, now = claim_of(body), claim_of(changed)
    assert parts(body[4:])[1] == parts(changed[4:])[1]
    assert (was[2], was[3]) == (now[2], now[3])
    assert PARAMETERS in now[2][0]
    meta_was, meta_now = parts(was[1][0]), parts(now[1][0])
    assert meta_now.pop(14) == [*(name.encode() for name in before), b"example.com/new"]
    meta_was.pop(14, None)
    assert meta_now == meta_was


@pytest.mark.parametrize("consumers", [[], [("b", "uid-b")], [("a", "uid-a"), ("b", "uid-b")]])
def test_consumers_are_set_and_nothing_else(consumers: list[tuple[str, str]]) -> None:
    body = protobuf_claim(uid="u", revision=7, consumers=[("a", "uid-a")])
    changed = ExactClaim(body).with_reserved_for([Consumer("pods", name, uid) for name, uid in consumers])

    was, now = claim_of(body), claim_of(changed)
    assert (was[1], was[2]) == (now[1], now[2])
    status_was, status_now = parts(was[3][0]), parts(now[3][0])
    want = claim_of(protobuf_claim(uid="u", revision=7, consumers=consumers))
    assert status_now.get(2) == parts(want[3][0]).get(2)
    status_was.pop(2)
    status_now.pop(2, None)
    assert status_now == status_was


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"kind": "ResourceClaim"}', "no Kubernetes protobuf"),
        (b"k8s\x00", "field 2 is there 0 times"),
        (b"k8s\x00" + field(2, b""), "field 1 is there 0 times"),
        (b"k8s\x00" + field(2, field(1, "a")) * 2, "field 2 is there 2 times"),
        (b"k8s\x00" + field(2, "abc")[:-1], "in the middle of a field"),
        (b"k8s\x00" + varint(2 << 3 | 2), "in the middle of a number"),
        (b"k8s\x00" + b"\xff" * 11, "in the middle of a number"),
        (b"k8s\x00" + varint(2 << 3 | 3), "wire type 3"),
    ],
)
def test_what_is_no_claim_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(MalformedError, match=text):
        ExactClaim(body)
