"""Lint against the API server's rules: what the server refuses is an error, and what lint alone calls one is listed."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.embedded.kinds.claim_kinds import ClaimStrategy, ClaimTemplateStrategy
from scheduler.embedded.kinds.slice_kinds import DeviceClassStrategy, DeviceTaintRuleStrategy, SliceStrategy
from scheduler.embedded.server.statuses import ApiError
from scheduler.embedded.server.strategy import Strategy
from scheduler.validation.api_fields import NEWEST
from tests.embedded.spoiled import API_VERSIONS, KINDS, Case, some_cases
from tests.lint.texts import claim, find

CASES = some_cases(every=5)  # with NIGHTLY=1 all 2,900
STRATEGIES: dict[str, Strategy] = {
    "resourceclaims": ClaimStrategy(),
    "resourceclaimtemplates": ClaimTemplateStrategy(),
    "deviceclasses": DeviceClassStrategy(),
    "resourceslices": SliceStrategy(),
    "devicetaintrules": DeviceTaintRuleStrategy(),
}
STRICTER = {
    "invalid-name": "names in capacity.requests, which the server takes as they come",
    "invalid-value": "numbers that 64 bits cannot hold",
    "missing-field": "amounts that are 0 when left out",
    "toleration": "one that tolerates nothing",
    "too-many": "more devices than a claim can have",
    "unknown-field": "fields that the server drops",
}


class AdminNamespace:
    """A cluster in which every namespace allows admin access."""

    minor = NEWEST

    def find(self, kind_id: str, namespace: str, name: str) -> Mapping[str, Any]:
        return {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}

    def now(self) -> str:
        return "2026-01-01T00:00:00Z"


def manifest(case: Case) -> dict[str, Any]:
    version = API_VERSIONS.get(case.resource, "resource.k8s.io/v1")
    return {"apiVersion": version, "kind": KINDS[case.resource], "metadata": {"name": "x"}, "spec": case.spec}


def refusals(case: Case) -> list[str]:
    obj, strategy = copy.deepcopy(manifest(case)), STRATEGIES[case.resource]
    try:
        strategy.default(obj, AdminNamespace())
        strategy.prepare_create(obj, AdminNamespace())
        return [str(error) for error in strategy.validate_create(obj, AdminNamespace())]
    except ApiError as error:
        return [str(error)]


@pytest.mark.slow
def test_what_the_server_refuses_is_an_error_and_the_other_way_round() -> None:
    missed, stricter = [], set()
    for case in CASES:
        refused = refusals(case)
        found = {finding.code for finding in find(json.dumps(manifest(case), ensure_ascii=False)) if finding.is_error}
        if refused and not found:
            missed.append((case.name, refused))
        if found and not refused:
            stricter |= found

    assert missed == []
    assert stricter <= STRICTER.keys()


SLICE = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n  driver: a.b\n"
    "  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
)


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (
            "  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Near}]}]}\n",
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator",
            'Invalid value: "Near": not a valid selector operator',
        ),
        (
            "  nodeName: n\n  devices: [{name: d, allowMultipleAllocations: true, capacity: {m: {value: 4,"
            " requestPolicy: {default: 8, validRange: {min: 1}}, }}}]\n",
            None,
            "",
        ),
        (
            "  nodeName: n\n  devices: [{name: d, allowMultipleAllocations: true, capacity: {m: {value: 4,"
            " requestPolicy: {default: 2, validRange: {min: 1, max: 8}}}}}]\n",
            "spec.devices[0].capacity.m.requestPolicy.validRange.max",
            'Invalid value: "8": max is larger than capacity value: 4',
        ),
    ],
    ids=["node-selector", "a-default-above-the-value-is-legal", "request-policy"],
)
def test_the_server_is_asked_about_what_nothing_else_is_wrong_with(text: str, field: str | None, message: str) -> None:
    found = find(SLICE + text)

    assert [finding.code for finding in found] == (["refused"] if field else [])
    if field:
        assert found[0].message == f"the API server says: {message}"
        assert found[0].field == field


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ResourceClaimTemplate", "{metadata: {labels: {1: a}, annotations: {2: b}}, spec: {}}"),
        ("ResourceClaim", f"{{devices: {{config: [{{opaque: {{driver: a, parameters: {{a: {10**30}}}}}}}]}}}}"),
        ("DeviceClass", f"{{config: [{{opaque: {{driver: a, parameters: {{a: {10**30}}}}}}}]}}"),
    ],
    ids=["keys-that-are-numbers", "a-large-number", "a-large-number-in-a-class"],
)
def test_parts_that_nobody_looks_into_do_not_stop_the_rules(kind: str, spec: str) -> None:
    found = find(f"apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n")

    assert [finding for finding in found if finding.is_error] == []


def test_a_missing_field_hides_nothing_else_of_its_object() -> None:
    found = find(claim("- {name: r, exactly: {count: -1}}"))

    assert [(finding.code, finding.field) for finding in found if finding.is_error] == [
        ("missing-field", "spec.devices.requests[0].exactly"),
        ("refused", "spec.devices.requests[0].exactly.count"),
    ]


def test_a_name_that_is_refused_is_shown_where_it_stands() -> None:
    (finding,) = find(SLICE + "  nodeName: n\n  devices: [{name: d, attributes: {a/b: {int: 1}, A_B/x: {int: 1}}}]\n")

    assert (finding.code, finding.field) == ("refused", "spec.devices[0].attributes[A_B/x]")
    assert finding.line_text[finding.place.column - 1 :].startswith("A_B/x:")
