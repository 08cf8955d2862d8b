"""The table of fields and kinds is what the client of the same release knows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kubernetes_asyncio.client import models

from scheduler.lint.shapes import Anything, ListOf, MapOf, Object, shape_of, shape_of_type
from scheduler.validation.api_fields import _TYPE_OF_KIND, _types, fields_of, kinds_in, versions_of

ROOTS = {
    name: f"V{'2' if api_version.endswith('v2') else '1'}{kind}" for (api_version, kind), name in _TYPE_OF_KIND.items()
} | {
    "DRAResourceClaim": "ResourceV1ResourceClaim",
    "DeviceTaintRule": "V1beta2DeviceTaintRule",
    "Event": "CoreV1Event",
    "EventsEvent": "EventsV1Event",
}
SINCE_137 = {
    "ResourceSliceSpec": {"skipNodeOperations", "partitionTypeAttribute"},
    "Device": {"nodeAllocatableResources"},
    "DeviceCounterConsumption": {"compatibilityGroups"},
}


def model_types() -> list[tuple[str, type[Any]]]:
    """Every type of the table with the client's model, found from the kinds down."""
    found: dict[str, type[Any]] = {}
    pending = [(name, getattr(models, model)) for name, model in ROOTS.items()]
    while pending:
        name, model = pending.pop()
        if name in found:
            continue
        found[name] = model
        fields = shape_of_type(name).fields
        for attribute, of in model.openapi_types.items():
            field = model.attribute_map[attribute]
            inner = re.search(r"\w*V\d\w*", of)
            written = fields_of(name).get(field, "")
            target = written.strip("[]{}")
            if inner and field in fields and target in _types():
                pending.append((target, getattr(models, inner[0])))
    return sorted(found.items())


@pytest.mark.parametrize(("name", "model"), model_types(), ids=[name for name, _ in model_types()])
def test_a_type_has_the_clients_fields(name: str, model: type[Any]) -> None:
    shape = shape_of_type(name)

    assert set(shape.fields) == set(model.attribute_map.values()) | SINCE_137.get(name, set())
    for attribute, of in model.openapi_types.items():
        field = shape.fields.get(model.attribute_map[attribute])
        if field is not None:
            assert isinstance(field, ListOf) == of.startswith("list["), attribute
            assert isinstance(field, MapOf) <= of.startswith("dict("), attribute


def test_every_type_of_the_table_is_reached() -> None:
    assert {name for name, _ in model_types()} == set(_types())


def test_a_kind_has_its_fields_and_the_others_have_none() -> None:
    deployment = shape_of("apps/v1", "Deployment")

    assert isinstance(deployment, Object)
    assert set(deployment.fields) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert deployment.fields["status"] == MapOf(Anything())
    assert shape_of("v1", "Endpoints") is None
    assert "Node" in kinds_in("v1")
    assert versions_of("Deployment") == ("apps/v1",)
    assert kinds_in("example.com/v1") == frozenset()
