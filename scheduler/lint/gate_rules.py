"""Fields that the API server drops, without an error, because their feature gate is off.

Whose gates: the cluster's, where it was read (`Published.gates`); else the defaults of the release that is meant.

Source: k8s.io/kubernetes v1.36.3 pkg/features/kube_features.go, pkg/registry/resource/*/strategy.go (dropDisabled…).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.lint.context import Context
from scheduler.lint.findings import FieldPath
from scheduler.lint.view import V1, View
from scheduler.validation.api_fields import gates, members_of, type_of


def check_gates(view: View, context: Context) -> None:
    """Name each field that is lost, where it is first written."""
    named: set[tuple[str, str]] = set()
    for gate, path in _gated_fields(view, context.settings.minor):
        field = str(path[-1])
        why = _why_off(gate, context)
        if why and (gate, field) not in named:
            named.add((gate, field))
            view.warning(
                "gate-off",
                path,
                f"the API server drops {field} without an error: the feature gate {gate} is off {why}",
                f"--feature-gates={gate}=true for the control plane and the kubelets",
                key=True,
            )


def _why_off(gate: str, context: Context) -> str:
    """Where it is off, empty when it is on."""
    known = context.gate(gate)
    if known is not None:
        given = gate in context.settings.gates
        return "" if known else "as --feature-gates says" if given else "in this cluster"
    kubernetes = context.settings.kubernetes
    return f"by default in Kubernetes {kubernetes}" if not gates()[gate].is_on(context.settings.minor) else ""


def _gated_fields(view: View, minor: int) -> Iterator[tuple[str, FieldPath]]:
    """Gate and path of what is set and needs one."""
    of = type_of(V1, view.kind) if view.is_dra else None
    if of is not None:
        spec = members_of(of)["spec"].of
        yield from _gated(view.obj.get("spec"), spec, ("spec",), minor)


def _gated(value: Any, of: str, path: FieldPath, minor: int) -> Iterator[tuple[str, FieldPath]]:
    """Of a value of a type, as the table of the API writes it."""
    match value:
        case list() if of.startswith("["):
            for index, each in enumerate(value):
                yield from _gated(each, of[1:-1], (*path, index), minor)
        case dict() if of.startswith("{"):
            for name, each in value.items():
                yield from _gated(each, of[1:-1], (*path, name), minor)
        case dict() if of[:1].isupper():
            for name, each in value.items():
                member = members_of(of).get(name)
                if member is not None and each and member.is_in(minor):
                    if member.gate:
                        yield member.gate, (*path, name)
                    yield from _gated(each, member.of, (*path, name), minor)
        case _:
            pass
