"""What the `cel` commands read: devices, environments, and the expressions of API objects.

Everything a person or a program hands in is checked here; what is wrong with it raises `InputError` with
the field and what it should be.

Not here: evaluating (`cel_answers`), printing (`cel`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel.checker import environments
from cel.checker.environments import Environment
from cel.library.device import DeviceView, decode_attribute, device_view
from cel.quantity import Quantity
from scheduler.cli import gates
from scheduler.cli.manifests import Document, FieldPath
from scheduler.lint.context import expressions
from scheduler.lint.modernize import modernize_structure
from scheduler.lint.view import View, selector_holders

_CLASSES: Final[Mapping[str, type]] = {"int": int, "bool": bool, "string": str, "version": str}


class InputError(ValueError):
    """Something handed in that cannot be used; the text names the field and what it should be."""


# Environments.


def parse_gates(given: object) -> dict[str, bool]:
    """Feature gates as a mapping, a list of names that are on, or `A=true,B=false`.

    Names are those of Kubernetes, with or without `DRA`, in any case.
    """
    pairs: Iterable[tuple[str, object]]
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            return gates.parse_gates(given)
        except ValueError as error:
            raise InputError(f"gates: {error}") from None
    if isinstance(given, Mapping):
        pairs = [(str(name), value) for name, value in given.items()]
    elif isinstance(given, list) and all(isinstance(name, str) for name in given):
        pairs = [(name, True) for name in given]
    else:
        raise InputError('gates: must be an object like {"listTypeAttributes": true} or a list of gates that are on')
    found: dict[str, bool] = {}
    for name, value in pairs:
        try:
            key = gates.gate_named(name)
        except ValueError as error:
            raise InputError(f"gates: {error}") from None
        if not isinstance(value, bool):
            raise InputError(f"gates: {name} must be true or false, not {value!r}")
        found[key] = value
    return found


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
    if driver is None:
        driver = fields.get("driver", "")
    if not isinstance(driver, str):
        raise InputError(f"device.driver: must be a text, not {driver!r}")
    multiple = fields.get("allowMultipleAllocations")
    if multiple is not None and not isinstance(multiple, bool):
        raise InputError(f"device.allowMultipleAllocations: must be true or false, not {multiple!r}")
    is_list_enabled = environment.minor >= 37 or environment.is_list_attributes_enabled
    attributes = {
        name: decode_attribute(_check_attribute(name, value), is_list_enabled=is_list_enabled)
        for name, value in _mapping(fields, "attributes").items()
    }
    capacity = {name: _read_capacity(name, value) for name, value in _mapping(fields, "capacity").items()}
    return device_view(driver, attributes, capacity, bool(multiple))


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"device.{name}: must be an object with names as keys")
    return value


def _check_attribute(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(
            f"device.attributes[{name!r}]: must be an object with one of int, bool, string, version, ints, bools, "
            f'strings, versions, like {{"string": "A100"}}; not {value!r}'
        )
    for field, content in value.items():
        if content is None:
            continue
        scalar = field.removesuffix("s") if field != "s" else field
        wanted = _CLASSES.get(scalar)
        if wanted is None:
            raise InputError(f"device.attributes[{name!r}].{field}: no such field of an attribute")
        contents = [content]
        if scalar != field:
            if not isinstance(content, list):
                raise InputError(f"device.attributes[{name!r}].{field}: must be a list")
            contents = content
        for item in contents:
            if type(item) is not wanted:
                raise InputError(
                    f"device.attributes[{name!r}].{field}: must be of type {wanted.__name__}, not {item!r}"
                )
            if isinstance(item, int) and not -(1 << 63) <= item < 1 << 63:
                raise InputError(f"device.attributes[{name!r}].{field}: {item} does not fit 64 bits")
    return value


def _read_capacity(name: str, value: object) -> Quantity:
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f'device.capacity[{name!r}]: must be a quantity like "80Gi", not {value!r}')
    try:
        return Quantity.parse(value)
    except ValueError as error:
        raise InputError(f"device.capacity[{name!r}]: {value!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device of a ResourceSlice."""

    driver: str
    pool: str
    name: str
    view: DeviceView


def devices_of(documents: Iterable[Document], environment: Environment) -> Iterator[PublishedDevice]:
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
class Selector:
    """A selector of an API object, and where it stands."""

    document: Document
    path: FieldPath
    expression: str


def selectors_of(documents: Iterable[Document]) -> Iterator[Selector]:
    """Every CEL selector of DeviceClasses, ResourceClaims and ResourceClaimTemplates, in order."""
    for document in documents:
        view = View(document)
        modernize_structure(view)
        for path, holder in selector_holders(view):
            for index, expression in expressions(holder.get("selectors")):
                where = view.origin((*path, "selectors", index, "cel", "expression"))
                yield Selector(document, where, expression)
