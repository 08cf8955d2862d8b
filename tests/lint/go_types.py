"""The fields of the released Go types, read from a module's `types.go`: for the comparison with our table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from scheduler.validation.api_fields import _TYPE_OF_KIND, fields_of
from tests.controlplane.build import VERSIONS, RegistryUnreachableError, download

KUBERNETES: Final[Mapping[int, str]] = {
    int(minor.partition(".")[2]): version for minor, version in {"1.38": "v1.38.0-beta.0", **VERSIONS}.items()
}
"""k8s.io/kubernetes of each release, by minor: those whose programs are built, and a beta."""
MODULES: Final[Mapping[int, str]] = {34: "v0.34.2", 35: "v0.35.0"} | {
    minor: version.replace("v1.", "v0.", 1) for minor, version in sorted(KUBERNETES.items())
}
"""k8s.io/api of each release, by minor: those and two older ones."""
_START: Final = re.compile(r"^type (\w+) struct \{")
_FIELD: Final = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`json:"([^",]*)')
_GATE: Final = re.compile(r"featureGate=(\w+)")
_IMPORTED: Final = {
    "metav1": "meta/v1",
    "v1": "core/v1",
    "corev1": "core/v1",
    "schedulingv1": "scheduling/v1",
    "schedulingv1alpha3": "scheduling/v1alpha3",
}


class GoField(NamedTuple):
    """A field: the Go type, and the gate that a marker names."""

    of: str
    gate: str


class GoType(NamedTuple):
    """Where a type stands: its package below the module, and its name."""

    package: str
    name: str


def module_or_skip(path: str) -> Path:
    """A module's folder; skips, loudly, only where the module registry does not answer."""
    try:
        return download(path)
    except RegistryUnreachableError as error:
        pytest.skip(f"LEFT OUT, the Go module registry does not answer: {error}")


@cache
def types_in(minor: int, package: str) -> Mapping[str, Mapping[str, GoField]]:
    """The structs of a package, empty where the release has no such package."""
    if package == "meta/v1":
        folder = module_or_skip(f"k8s.io/apimachinery@{MODULES[max(MODULES)]}") / "pkg/apis/meta/v1"
    else:
        folder = module_or_skip(f"k8s.io/api@{MODULES[minor]}") / package
    found: dict[str, dict[str, GoField]] = {}
    for file in sorted(folder.glob("types*.go")):
        name, gate = "", ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if start := _START.match(line):
                name, gate = start[1], ""
                found[name] = {}
            elif line.startswith("}"):
                name = ""
            elif name and (marker := _GATE.search(line)) and line.lstrip().startswith("//"):
                gate = marker[1]
            elif name and (field := _FIELD.match(line)):
                found[name][field[3] or f"inline {field[2]}"] = GoField(field[2], gate)
                gate = ""
    return found


def fields_in(minor: int, of: GoType) -> Mapping[str, GoField] | None:
    """All fields of a type, inlined ones too; None where the release does not have it."""
    types = types_in(minor, of.package)
    if of.name not in types:
        return None
    found: dict[str, GoField] = {}
    for name, field in types[of.name].items():
        inlined = name.removeprefix("inline ").lstrip("*")
        if name.startswith("inline "):
            found |= fields_in(minor, GoType(of.package, inlined)) or {}
        else:
            found[name] = field
    return found


@cache
def types_of_table() -> Mapping[str, tuple[GoType, ...]]:
    """The Go types that each type of our table stands for, found from the kinds down."""
    found: dict[str, set[GoType]] = {}
    pending = [(name, GoType(_package(version), kind)) for (version, kind), name in _TYPE_OF_KIND.items()]
    while pending:
        name, of = pending.pop()
        if of in found.setdefault(name, set()):
            continue
        found[name].add(of)
        for field, written in fields_of(name).items():
            target = written.strip("[]{}")
            if not target[:1].isupper():
                continue
            go_types = {known[field].of for minor in MODULES if (known := fields_in(minor, of)) and field in known}
            pending += ((target, _target(one, of.package)) for one in go_types)
    return {name: tuple(sorted(types)) for name, types in sorted(found.items())}


def _package(version: str) -> str:
    group, _, number = version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}/{number}"


def _target(of: str, package: str) -> GoType:
    """The type behind pointers, lists and maps."""
    plain = re.sub(r"^(?:\*|\[\]|map\[[^\]]*\])+", "", of)
    imported, _, name = plain.rpartition(".")
    return GoType(_IMPORTED[imported] if imported else package, name)
