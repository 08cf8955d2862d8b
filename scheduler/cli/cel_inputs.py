"""What the `cel` commands read: devices, environments, and the expressions of API objects.

Everything a person or a program hands in is checked here; what is wrong with it raises `InputError` with
the field and what it should be.

Not here: evaluating and printing (`cel`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel.checker import environments
from cel.checker.environments import Environment
from cel.library.device import DeviceView, decode_attribute, device_view
from cel.quantity import Quantity
from scheduler.cli.manifests import Document, FieldPath
from scheduler.lint.context import expressions
from scheduler.lint.findings import field_text
from scheduler.lint.modernize import modernize_structure
from scheduler.lint.schema import problems
from scheduler.lint.view import View, copy_plain, selector_holders
from scheduler.validation.api_fields import fields_of

_DEVICE: Final = {"driver": "s"} | {
    name: fields_of("Device")[name] for name in ("attributes", "capacity", "allowMultipleAllocations")
}
"""The part of a device that expressions read, and its types."""


class InputError(ValueError):
    """Something handed in that cannot be used; the text names the field and what it should be."""


# Environments.


def find_environment(version: str, kind: str, gates: Mapping[str, bool]) -> Environment:
    """The environment; a gate not given is as that version has it by default."""
    if kind not in ("stored", "new"):
        raise InputError(f"env: must be 'stored' (what a scheduler evaluates) or 'new' (admission), not {kind!r}")
    try:
        minor = environments.minor_of(version)
        return environments.get(
            version,
            kind="new" if kind == "new" else "stored",
            # Alpha and off in 1.34 and 1.35, on since 1.36.
            consumable_capacity=gates.get("DRAConsumableCapacity", minor >= 36),
            list_type_attributes=gates.get("DRAListTypeAttributes", False),
        )
    except ValueError as error:
        raise InputError(str(error)) from None


# Devices.


def read_device(fields: object, environment: Environment, driver: str | None = None) -> DeviceView:
    """A device from `{"driver", "attributes", "capacity", "allowMultipleAllocations"}`, the API's fields.

    Args:
        fields: Plain data. `driver` may be missing where the argument gives it (a ResourceSlice does).
    """
    if not isinstance(fields, Mapping):
        raise InputError("device: must be an object with driver, attributes and capacity")
    if isinstance(fields.get("basic"), Mapping):
        fields = {**fields, **fields["basic"]}  # v1beta1
    given = {name: fields.get(name) for name in _DEVICE}
    if isinstance(given["capacity"], Mapping):  # "80Gi" in the place of {value: 80Gi}
        given["capacity"] = {
            name: value if isinstance(value, Mapping) else {"value": value} for name, value in given["capacity"].items()
        }
    if driver is not None:
        given["driver"] = driver
    device = copy_plain({name: value for name, value in given.items() if value is not None})
    for name, value in device.items():
        for problem in problems(value, _DEVICE[name], path=("device", name)):
            raise InputError(f"{field_text(problem.path)}: {problem.message}")
    is_list_enabled = environment.minor >= 37 or environment.is_list_attributes_enabled
    return device_view(
        device.get("driver", ""),
        {
            name: decode_attribute(value, is_list_enabled=is_list_enabled)
            for name, value in device.get("attributes", {}).items()
        },
        {name: Quantity.parse(str(value["value"])) for name, value in device.get("capacity", {}).items()},
        device.get("allowMultipleAllocations", False),
    )


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device of a ResourceSlice."""

    driver: str
    pool: str
    name: str
    view: DeviceView


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of a cluster, as `devices_of` reads it."""

    origin: str
    obj: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.obj.get("kind"))

    @property
    def name(self) -> str:
        return f"{self.kind} {(self.obj.get('metadata') or {}).get('name')}"

    def place(self, path: FieldPath = ()) -> str:
        return f"{self.origin}: {field_text(path)}" if path else self.origin


def devices_of(documents: Iterable[Document | ListedObject], environment: Environment) -> Iterator[PublishedDevice]:
    """The devices of the ResourceSlices among the objects, in order."""
    for document in documents:
        if document.kind != "ResourceSlice":
            continue
        spec = document.obj.get("spec")
        if not isinstance(spec, Mapping):
            raise InputError(f"{document.place()}: {document.name}: spec is missing")
        driver = spec.get("driver")
        if not isinstance(driver, str):
            raise InputError(f"{document.place(('spec',))}: {document.name}: spec.driver must be a text")
        pool = spec.get("pool")
        pool_name = str(pool.get("name", "")) if isinstance(pool, Mapping) else ""
        devices = spec.get("devices") or []
        if not isinstance(devices, list):
            raise InputError(f"{document.place(('spec', 'devices'))}: {document.name}: spec.devices must be a list")
        for position, fields in enumerate(devices):
            try:
                view = read_device(fields, environment, driver)
            except InputError as error:
                place = document.place(("spec", "devices", position))
                raise InputError(f"{place}: {document.name}: {error}") from None
            yield PublishedDevice(driver, pool_name, str(fields.get("name", "")), view)


# Expressions of API objects.


@dataclass(frozen=True, slots=True)
class FoundSelector:
    """A selector of an API object, and where it stands."""

    document: Document
    path: FieldPath
    expression: str


def selectors_of(documents: Iterable[Document]) -> Iterator[FoundSelector]:
    """Every CEL selector of DeviceClasses, ResourceClaims and ResourceClaimTemplates, in order."""
    for document in documents:
        view = View(document)
        modernize_structure(view)
        for path, holder in selector_holders(view):
            for index, expression in expressions(holder.get("selectors")):
                where = view.origin((*path, "selectors", index, "cel", "expression"))
                yield FoundSelector(document, where, expression)
