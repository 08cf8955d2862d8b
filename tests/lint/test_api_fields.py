"""The table of fields, kinds and gates is what the released Go types say, and the client of its release knows."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client import models

from scheduler.model.api_rules import FIELD_BY_GATE, LOCKED_GATES
from scheduler.validation import api_fields
from scheduler.validation.api_fields import (
    _TYPE_OF_KIND,
    _TYPES_OF_KINDS,
    BETA,
    OLDEST,
    _kinds,
    _types,
    fields_of,
    gates,
    kinds_in,
    members_of,
    type_of,
    versions_of,
)
from tests.lint.go_types import KUBERNETES, MODULES, fields_in, module_or_skip, types_of_table

_HEAD = ("apiV", "kind")

CLIENT = 36
"""The installed client's release."""
ROOTS = {
    name: f"V{'2' if api_version.endswith('v2') else '1'}{kind}"
    for (api_version, kind), name in _TYPE_OF_KIND.items()
    if not api_version.startswith("scheduling.k8s.io/v1") or api_version == "scheduling.k8s.io/v1"
} | {
    "DRAResourceClaim": "ResourceV1ResourceClaim",
    "DeviceTaintRule": "V1beta2DeviceTaintRule",
    "Event": "CoreV1Event",
    "EventsEvent": "EventsV1Event",
    "OldPodGroup": "V1alpha2PodGroup",
    "OldWorkload": "V1alpha2Workload",
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
        fields = fields_of(name, CLIENT)
        for attribute, of in model.openapi_types.items():
            field = model.attribute_map[attribute]
            inner = re.search(r"\w*V\d\w*", of)
            target = fields.get(field, "").strip("[]{}")
            if inner and field in fields and target in _types():
                pending.append((target, getattr(models, inner[0])))
    return sorted(found.items())


@pytest.mark.parametrize(("name", "model"), model_types(), ids=[name for name, _ in model_types()])
def test_a_type_has_the_clients_fields(name: str, model: type[Any]) -> None:
    fields = fields_of(name, CLIENT)

    assert set(fields) == set(model.attribute_map.values())
    for attribute, of in model.openapi_types.items():
        field = fields.get(model.attribute_map[attribute])
        if field is not None:
            assert field.startswith("[") == of.startswith("list["), attribute
            assert field.startswith("{") <= of.startswith("dict("), attribute


def test_the_installed_client_is_of_that_release() -> None:
    assert version("kubernetes_asyncio").startswith(f"{CLIENT}.")


@pytest.mark.parametrize("minor", MODULES)
def test_every_type_has_the_fields_of_the_released_go_types(minor: int) -> None:
    wrong = {}
    for name, go_types in types_of_table().items():
        released = {field for of in go_types for field in fields_in(minor, of) or ()}
        known = {field for field in fields_of(name, minor) if name not in _TYPES_OF_KINDS or field[:4] not in _HEAD}
        if released and released != known:
            wrong[name] = {"missing": sorted(released - known), "too many": sorted(known - released)}
    assert not wrong


def test_every_type_of_the_table_is_one_of_go() -> None:
    assert set(types_of_table()) == set(_types())


@pytest.mark.parametrize("minor", MODULES)
def test_lists_and_maps_are_those_of_go(minor: int) -> None:
    for name, go_types in types_of_table().items():
        for field, of in fields_of(name, minor).items():
            types = {known[field].of for one in go_types if (known := fields_in(minor, one)) and field in known}
            for go_type in types if of != "*" else ():
                assert of.startswith("[") == (go_type.lstrip("*").startswith("[]") and "byte" not in go_type), (
                    name,
                    field,
                )
                assert of.startswith("{") <= go_type.lstrip("*").startswith("map") or go_type.endswith("List"), (
                    name,
                    field,
                )


def test_gates_are_those_of_gos_markers() -> None:
    """Of the newest release that has the field; those of fields that are always there by now may be left out."""
    released, wrong = stages_in(BETA), {}
    for name, go_types in types_of_table().items():
        for field, member in members_of(name).items():
            known = [[fields_in(minor, of) or {} for of in go_types] for minor in sorted(MODULES)]
            newest = next((each for each in reversed(known) if any(field in fields for fields in each)), ())
            marks = {fields[field].gate for fields in newest if field in fields} - {""}
            needed = {gate for gate in marks if released.get(gate, "GA") != "GA"}
            if member.gate not in (marks if needed else {"", *marks}):
                wrong[f"{name}.{field}"] = member.gate, sorted(marks)
    assert not wrong


def specs_in(minor: int) -> list[tuple[str, str]]:
    """Each gate, and the lines that say its stages."""
    folder = module_or_skip(f"k8s.io/kubernetes@{KUBERNETES[minor]}")
    text = (folder / "pkg/features/kube_features.go").read_text(encoding="utf-8")
    return re.findall(r"^\t(?:\w+\.)?(\w+): \{\n((?:\t\t\{Version.*\n)+)", text, re.MULTILINE)


def stages_in(minor: int) -> dict[str, str]:
    """The stage of each gate."""
    found = {}
    for name, specs in specs_in(minor):
        # A line that has more to say holds where the operator has set another compatibility version.
        *_, (is_on, stage) = re.findall(r"Default: (\w+), PreRelease: \S*?(\w+)(?:, LockToDefault: \w+)?}", specs)
        stages = {"Alpha": "A", "Beta": "B" if is_on == "true" else "B-", "GA": "GA"}
        found[name] = stages.get(stage, stage)
    return found


@pytest.mark.parametrize("minor", KUBERNETES)
def test_gates_have_the_stages_of_the_release(minor: int) -> None:
    released = stages_in(minor)
    """A gate that is gone after it was there for good is on."""
    assert {name: gate.stage(minor) for name, gate in gates().items()} == {
        name: released.get(name, "GA" if gate.stage(minor - 1) == "GA" else "-") for name, gate in gates().items()
    }


def test_the_gates_that_nobody_can_turn_off_are_those_of_the_release() -> None:
    locked = {name for name, specs in specs_in(BETA) if "LockToDefault: true}" in specs}
    assert LOCKED_GATES[f"1.{BETA}"] == locked & set(FIELD_BY_GATE)


@pytest.mark.parametrize("minor", KUBERNETES)
def test_each_gate_that_the_released_scheduler_reads_is_in_the_table(minor: int) -> None:
    """And each of DRA. Those that are on for good in all releases need no row."""
    folder = module_or_skip(f"k8s.io/kubernetes@{KUBERNETES[minor]}") / "pkg/scheduler"
    files = [
        file for file in folder.rglob("*.go") if not file.name.endswith("_test.go") and "testing" not in file.parts
    ]
    read = {name for file in files for name in re.findall(r"\bfeatures\.([A-Z]\w+)", file.read_text(encoding="utf-8"))}
    released = stages_in(minor)
    assert len(read) > 30
    read |= {name for name in released if name.startswith("DRA") or name == "DynamicResourceAllocation"}
    assert {name for name in read - set(gates()) if released.get(name) != "GA"} == set()


@pytest.mark.parametrize("minor", KUBERNETES)
def test_kinds_are_those_of_the_release(minor: int) -> None:
    folder = module_or_skip(f"k8s.io/kubernetes@{KUBERNETES[minor]}") / "api/openapi-spec"
    released: dict[str, set[str]] = {}
    for name, definition in json.loads((folder / "swagger.json").read_bytes())["definitions"].items():
        for one in definition.get("x-kubernetes-group-version-kind", ()) if name.startswith("io.k8s.api.") else ():
            if not one["kind"].endswith("List"):
                released.setdefault("/".join(filter(None, (one["group"], one["version"]))), set()).add(one["kind"])
    known = {version: set(kinds_in(version, minor)) for version in _kinds()}
    assert {version: kinds for version, kinds in known.items() if kinds} == released


@pytest.mark.parametrize(
    ("name", "field", "releases"),
    [
        ("ResourceSliceSpec", "skipNodeOperations", [37, 38]),
        ("Device", "nodeAllocatableResourceMappings", [36]),
        ("PodSpec", "workloadRef", [35]),
        ("PodSpec", "schedulingGroup", [36, 37, 38]),
        ("PodSpec", "containers", [34, 35, 36, 37, 38]),
        ("SeccompProfile", "oci", [38]),
    ],
)
def test_a_release_has_its_own_fields(name: str, field: str, releases: list[int]) -> None:
    assert [minor for minor in range(OLDEST, BETA + 1) if field in fields_of(name, minor)] == releases
    assert field in fields_of(name)


def test_a_kind_has_its_fields_and_the_others_have_none() -> None:
    assert type_of("apps/v1", "Deployment") == "Deployment"
    assert set(fields_of("Deployment")) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert type_of("v1", "Endpoints") is None
    assert "Node" in kinds_in("v1")
    assert versions_of("Deployment") == ("apps/v1",)
    assert kinds_in("example.com/v1") == frozenset()


@pytest.mark.parametrize("file", ["api_types.txt", "api_kinds.txt", "api_gates.txt", "api_handling.txt"])
def test_a_table_says_nothing_twice(file: str) -> None:
    """Of two rows with one key the reader would take the last, and lose what the other says."""
    beside = __file__ if file == "api_handling.txt" else api_fields.__file__
    text = Path(beside).with_name(file).read_text(encoding="utf-8")
    keys = [line.partition(" = ")[0] for line in text.splitlines() if line and not line.startswith(("#", "  "))]
    assert keys
    assert [key for key in keys if keys.count(key) > 1] == []
