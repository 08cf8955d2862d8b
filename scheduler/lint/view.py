"""A document as it reads in v1: what every check looks at, with the way back to what was written.

Rules of this module
  1. `obj` is a copy; the document stays as it was read.
  2. Whoever moves a part of `obj` says so with `moved`, so that findings name places in the file.
  3. Paths given to `report` are paths in `obj`; with `written=True` they are paths in the file's object.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, TypedDict, Unpack

from scheduler.lint.documents import Document
from scheduler.lint.findings import NEVER_VALID, FieldPath, Finding, Severity, field_text

GROUP: Final = "resource.k8s.io"
V1: Final = f"{GROUP}/v1"
_OF_POD_SPECS: Final = ("containers", "resourceClaims", "resourceClaimTemplates")


class More(TypedDict, total=False):
    """What a finding may say besides.

    Attributes:
        served: Since and until which Kubernetes release the shape was served.
        converted: What was done in `obj` about it; empty when nothing was.
        written: `path` is one in the file's object.
        key: The field's name is meant, not its value.
        offset: The character meant of the text at `path`.
    """

    served: str
    converted: str
    written: bool
    key: bool
    offset: int | None


class View:
    """One document, being looked at.

    Attributes:
        obj: The object in v1; changed by `modernize` and `selector_rules`.
        findings: In the order of discovery.
        is_changed: Whether `obj` differs from the document in meaning or spelling.
        is_left_out: Whether `convert` writes nothing for it, because another object took its content.
    """

    def __init__(self, document: Document) -> None:
        self.document: Final = document
        self.obj: dict[str, Any] = copy_plain(document.obj)
        self.findings: Final[list[Finding]] = []
        self.is_changed = False
        self.is_left_out = False
        self._moved: Final[dict[FieldPath, FieldPath]] = {}

    @property
    def kind(self) -> str:
        return text(self.obj.get("kind"))

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = text(self.obj.get("apiVersion")).partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """The version of the document, as written."""
        return self.document.api_version.rpartition("/")[2]

    @property
    def is_dra(self) -> bool:
        return self.group == GROUP

    @property
    def namespace(self) -> str:
        return text(mapping(self.obj.get("metadata")).get("namespace")) or "default"

    @property
    def object_name(self) -> str:
        return text(mapping(self.obj.get("metadata")).get("name"))

    @cached_property
    def pod_specs(self) -> list[tuple[FieldPath, dict[str, Any]]]:
        """Path and value of the pod specs of a workload: whatever has containers or claims, in a kind of any group.

        They are looked for once: who changes an object leaves them where they are.
        """
        found: list[tuple[FieldPath, dict[str, Any]]] = []
        pending: list[tuple[FieldPath, Any]] = [((), self.obj)]
        while pending:
            path, value = pending.pop()
            if isinstance(value, list):
                pending += (((*path, index), child) for index, child in enumerate(value))
            elif isinstance(value, dict):
                if path and any(isinstance(value.get(name), list) for name in _OF_POD_SPECS):
                    found.append((path, value))
                pending += (((*path, name), child) for name, child in value.items() if isinstance(child, dict | list))
        return found

    def moved(self, new: FieldPath, old: FieldPath) -> None:
        """What is at `new` in `obj` was written at `old` of the file's object."""
        self._moved[new] = old

    def origin(self, path: FieldPath) -> FieldPath:
        """Where the value at a path of `obj` was written."""
        for length in range(len(path), 0, -1):
            old = self._moved.get(path[:length])
            if old is not None:
                return (*old, *path[length:])
        return path

    def error(self, code: str, path: FieldPath, message: str, fix: str = "", **more: Unpack[More]) -> None:
        """Add an error; see `report`."""
        self.report(code, Severity.ERROR, path, message, fix, **more)

    def never_valid(self, code: str, path: FieldPath, message: str, fix: str = "", **more: Unpack[More]) -> None:
        """Add an error about what no release has ever served; see `report`."""
        more["served"] = NEVER_VALID
        self.error(code, path, message, fix, **more)

    def warning(self, code: str, path: FieldPath, message: str, fix: str = "", **more: Unpack[More]) -> None:
        """Add a warning; see `report`."""
        self.report(code, Severity.WARNING, path, message, fix, **more)

    def report(
        self, code: str, severity: Severity, path: FieldPath, message: str, fix: str = "", **more: Unpack[More]
    ) -> None:
        """Add a finding about the value at `path`."""
        converted, key, offset = more.get("converted", ""), more.get("key", False), more.get("offset")
        old = path if more.get("written") else self.origin(path)
        place = self.document.place(old, key=key) if offset is None else self.document.text_place(old, offset)
        if converted:
            self.is_changed = True
        self.findings.append(
            Finding(
                code=code,
                severity=severity,
                place=place,
                object=self.document.name,
                field=field_text(old),
                message=message,
                fix=fix,
                served=more.get("served", ""),
                converted=converted,
                line_text=self.document.line_text(place.line),
            )
        )


def copy_plain(value: Any) -> Any:
    """A deep copy in which nothing is shared, with text for every key; what JSON does not know becomes text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _key(key): copy_plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(child) for child in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _key(key: object) -> str:
    return "true" if key is True else "false" if key is False else str(key)


def mapping(value: Any) -> dict[str, Any]:
    """The value, or an empty mapping when it is none."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value, or an empty list when it is none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value, or an empty text when it is none."""
    return value if isinstance(value, str) else ""


def mappings(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and entry of the entries of a list that are mappings."""
    for index, entry in enumerate(sequence(value)):
        if isinstance(entry, dict):
            yield index, entry


def claim_spec_path(kind: str) -> FieldPath | None:
    """Where an object of this kind has its ResourceClaimSpec."""
    return {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}.get(kind)


def at(obj: Any, path: FieldPath) -> Any:
    """The value at a path, None when there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(obj, dict):
            obj = obj.get(step)
        elif isinstance(step, int) and isinstance(obj, list) and 0 <= step < len(obj):
            obj = obj[step]
        else:
            return None
    return obj


def claim_specs(view: View) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """Path and value of the claim spec, when the view is a claim or a template of today."""
    path = claim_spec_path(view.kind) if view.is_dra else None
    spec = at(view.obj, path) if path is not None else None
    if path is not None and isinstance(spec, dict):
        yield path, spec


def request_parts(path: FieldPath, spec: dict[str, Any]) -> Iterator[tuple[FieldPath, str, dict[str, Any]]]:
    """Path, reference (`req` or `req/sub`) and value of everything that names a device class."""
    for index, request in mappings(mapping(spec.get("devices")).get("requests")):
        here: FieldPath = (*path, "devices", "requests", index)
        name = text(request.get("name"))
        if isinstance(request.get("exactly"), dict):
            yield (*here, "exactly"), name, request["exactly"]
        for position, alternative in mappings(request.get("firstAvailable")):
            yield (*here, "firstAvailable", position), f"{name}/{text(alternative.get('name'))}", alternative


def selector_holders(view: View) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """Path and value of what has selectors: a class, or the parts of a claim's requests."""
    if view.is_dra and view.kind == "DeviceClass":
        yield ("spec",), mapping(view.obj.get("spec"))
    for path, spec in claim_specs(view):
        for here, _, part in request_parts(path, spec):
            yield here, part
