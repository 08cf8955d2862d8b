"""The form of an explanation for programs; docs/schemas/explain.json is its schema.

It says what each field means.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from scheduler.offline.reasons import NodeGroup, RequestFunnel


class Step(Struct, frozen=True, kw_only=True):
    """One change."""

    kind: str
    cause: str
    change: str
    command: str = ""
    objects: tuple[str, ...] = ()


class NodeScore(Struct, frozen=True, kw_only=True):
    """A node on which the pod fits."""

    node: str
    total: int
    plugins: dict[str, int]


class Device(Struct, frozen=True, kw_only=True):
    """A device that the pod has, or would get."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str


class SelectorFailure(Struct, frozen=True, kw_only=True):
    """A CEL selector that fails for a device instead of answering."""

    of: str
    expression: str
    device: str
    message: str
    offset: int
    shown: str


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a pod does not fit, or where it does."""

    subject: str
    fits: bool
    outcome: Literal["bound", "fits", "waits", "unschedulable", "error", "gated", "refused", "unknown", "unserved"]
    node: str | None = None
    message: str = ""
    kind: str = ""
    cause: str = ""
    objects: tuple[str, ...] = ()
    verdict: str
    advice: str
    command: str = ""
    changes: tuple[Step, ...] = ()
    also: tuple[Step, ...] = ()
    questions: int = 0
    exhausted: bool = False
    siblings: int = 0
    siblings_fit: int = 0
    devices: tuple[Device, ...] = ()
    nodes: tuple[NodeGroup, ...] = ()
    scores: tuple[NodeScore, ...] = ()
    funnels: tuple[RequestFunnel, ...] = ()
    failures: tuple[SelectorFailure, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
