"""Fields, types and limits of v1, and rules across fields."""

from __future__ import annotations

import pytest

from scheduler.lint.findings import Finding, Severity
from tests.lint.texts import claim, find, selecting

SELECTOR = "{cel: {expression: 'true'}}"
PLAIN = "- name: gpu\n  exactly:\n    deviceClassName: gpu\n"
SLICE = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n  driver: a.b\n  nodeName: n\n"
    "  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
)


def device_class(spec: str) -> str:
    return f"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {{name: c}}\nspec: {spec}\n"


def errors(text: str) -> list[Finding]:
    return [finding for finding in find(text) if finding.is_error]


@pytest.mark.parametrize(
    ("text", "field", "fix"),
    [
        pytest.param(
            claim("- name: gpu\n  exactly: {deviceClass: gpu}\n"),
            "spec.devices.requests[0].exactly.deviceClass",
            "did you mean deviceClassName?",
            id="another-name",
        ),
        pytest.param(
            claim("- name: gpu\n  exactly: {deviceclassname: gpu}\n"),
            "spec.devices.requests[0].exactly.deviceclassname",
            "did you mean deviceClassName?",
            id="another-case",
        ),
        pytest.param(
            claim("- name: gpu\n  exactly: {deviceClassName: gpu, cuont: 2}\n"),
            "spec.devices.requests[0].exactly.cuont",
            "did you mean count?",
            id="a-typing-error",
        ),
        pytest.param(
            claim(PLAIN, spec="requests: []"), "spec.requests", "spec.devices.requests", id="a-field-too-far-out"
        ),
        pytest.param(
            claim(PLAIN, version="v1beta1").replace("kind: ResourceClaim", "kind: ResourceClaim\nspecs: {}"),
            "specs",
            "did you mean spec?",
            id="at-the-top",
        ),
        pytest.param(device_class("{selector: []}"), "spec.selector", "did you mean selectors?", id="in-a-class"),
    ],
)
def test_an_unknown_field_gets_the_name_that_was_meant(text: str, field: str, fix: str) -> None:
    found = [finding for finding in errors(text) if finding.code == "unknown-field"]

    assert [(finding.field, fix in finding.fix) for finding in found] == [(field, True)]


def many(count: int, item: str) -> str:
    return f"[{', '.join([item] * count)}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            claim("".join(f"- {{name: r{number}, exactly: {{deviceClassName: g}}}}\n" for number in range(33))),
            "Too many: 33: must have at most 32 items",
            id="requests",
        ),
        pytest.param(
            claim(
                f"- {{name: r, firstAvailable: [{', '.join(f'{{name: s{i}, deviceClassName: g}}' for i in range(9))}]}}"
            ),
            "Too many: 9: must have at most 8 items",
            id="alternatives",
        ),
        pytest.param(device_class(f"{{selectors: {many(33, SELECTOR)}}}"), "at most 32 items", id="selectors"),
        pytest.param(
            claim(PLAIN, devices=f"constraints: {many(33, '{matchAttribute: a.b/c}')}"),
            "must have at most 32 items",
            id="constraints",
        ),
        pytest.param(
            device_class(f"{{config: [{{opaque: {{driver: a.b, parameters: {{a: {'x' * 10300}}}}}}}]}}"),
            "longer than 10240 bytes",
            id="parameters",
        ),
        pytest.param(selecting(f'"{"x" * 10300}" != ""'), "longer than 10240 bytes", id="expression"),
        pytest.param(
            SLICE + f"  devices: [{', '.join(f'{{name: d{i}}}' for i in range(129))}]\n",
            "must have at most 128 items",
            id="devices",
        ),
        pytest.param(
            SLICE
            + f"  devices: [{', '.join(f'{{name: d{i}, taints: [{{key: k, effect: None}}]}}' for i in range(65))}]\n",
            "Too many: 65: must have at most 64 items",
            id="devices-with-taints",
        ),
        pytest.param(
            SLICE + f"  devices: [{{name: d, attributes: {{{', '.join(f'a{i}: {{int: 1}}' for i in range(33))}}}}}]\n",
            "the total number of attributes and capacities must not exceed 32",
            id="attributes",
        ),
    ],
)
def test_a_limit_is_told(text: str, message: str) -> None:
    assert message in " ".join(finding.message for finding in errors(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            claim("- {name: GPU, exactly: {deviceClassName: g}}"), "a lowercase RFC 1123 label must", id="request-name"
        ),
        pytest.param(claim("- {name: r}"), "exactly one of `exactly` or `firstAvailable` is required", id="neither"),
        pytest.param(claim("- {name: r, exactly: {count: 1}}"), "deviceClassName is missing", id="no-class"),
        pytest.param(claim("- {name: r, exactly: {deviceClassName: g, count: '2'}}"), "not a text", id="count-as-text"),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g, allocationMode: Exact}}"),
            'supported values: "All", "ExactCount"',
            id="mode",
        ),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g, allocationMode: All, count: 2}}"),
            "must not be specified when allocationMode is 'All'",
            id="all-with-count",
        ),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g, count: 40}}"), "at most 32", id="count-too-large"
        ),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g}}\n- {name: r, exactly: {deviceClassName: g}}"),
            'Duplicate value: "r"',
            id="same-name",
        ),
        pytest.param(
            claim(PLAIN, devices="constraints: [{requests: [gpus], matchAttribute: a.b/c}]"),
            "no request gpus",
            id="reference",
        ),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g, tolerations: [{key: a, operator: Exists, value: b}]}}"),
            "must be empty for operator `Exists`",
            id="exists-with-value",
        ),
        pytest.param(
            claim("- {name: r, exactly: {deviceClassName: g, capacity: {requests: {m: lots}}}}"),
            "must be a quantity",
            id="quantity",
        ),
        pytest.param(
            claim("{name: r}").replace("requests:\n    ", "requests:\n      "), "must be a list", id="no-list"
        ),
        pytest.param(
            SLICE + "  allNodes: true\n",
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`",
            id="two-node-selections",
        ),
        pytest.param(
            SLICE + "  devices: [{name: d, attributes: {v: {version: '1.0'}}}]\n",
            "compatible with semver.org",
            id="version",
        ),
        pytest.param(
            SLICE + "  devices: [{name: d, attributes: {a-b: {int: 1}}}]\n",
            "names are C identifiers",
            id="attribute-name",
        ),
        pytest.param(
            SLICE + "  devices: [{name: d, bindingConditions: [a]}]\n",
            "bindingFailureConditions are required to use bindingConditions",
            id="conditions",
        ),
        pytest.param(
            SLICE + "  devices: [{name: d, capacity: {m: {value: 1, requestPolicy: {default: 1}}}}]\n",
            "allowMultipleAllocations must be true",
            id="policy",
        ),
    ],
)
def test_what_the_api_refuses_is_an_error(text: str, message: str) -> None:
    assert message in " ".join(finding.message for finding in errors(text))


@pytest.mark.parametrize(
    "text",
    [
        claim(PLAIN),
        claim("- {name: r, firstAvailable: [{name: a, deviceClassName: g}, {name: b, deviceClassName: g, count: 2}]}"),
        claim("- {name: r, exactly: {deviceClassName: g, allocationMode: All, adminAccess: true}}"),
        claim("- {name: r, exactly: {deviceClassName: g, capacity: {requests: {m: 1Gi}}}}"),
        device_class("{extendedResourceName: example.com/gpu}"),
        (SLICE + "  sharedCounters: [{name: c, counters: {memory: {value: 80Gi}}}]\n---\n" + SLICE)
        .replace("resourceSliceCount: 1", "resourceSliceCount: 2")
        .replace("{name: s}", "{name: counters}", 1)
        + "  devices: [{name: d, consumesCounters: [{counterSet: c, counters: {memory: {value: 10Gi}}}],"
        + " attributes: {resource.kubernetes.io/pcieRoot: {string: 'pci0000:01'}}}]\n",
    ],
)
def test_valid_objects_have_no_findings(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    ("expression", "code", "column"),
    [
        ("device.drivr == 'a'", "expression-refused", 21),
        ("device.driver = 'a'", "expression-refused", 29),
        (
            "".join(f'device.attributes["a.b"].all({name}, ' for name in "wxyz") + "w + x != y + z))))",
            "expression-too-complex",
            15,
        ),
        ('device.attributes["gpu.example.com"].v == "1.2.3"', "version-compared-with-text", 54),
        ('has(device.attributes.domain) && device.driver != ""', "has-on-domain", 18),
    ],
)
def test_expressions_have_carets(expression: str, code: str, column: int) -> None:
    found = [finding for finding in find(selecting(expression)) if finding.code == code]

    assert [(finding.place.line, finding.place.column) for finding in found] == [(16, column)]
    shown = found[0].as_text().splitlines()
    assert shown[2].index("^") - len("  | ") == column - 1


def test_what_stands_in_a_flat_request_keeps_its_place() -> None:
    text = claim(
        "- name: gpu\n  deviceClassName: gpu\n  count: x\n  selectors:\n  - cel: {expression: device.drivr == 'a'}\n",
        version="v1beta1",
    )

    found = [(finding.code, finding.field, finding.place.line, finding.place.column) for finding in errors(text)]

    assert found == [
        ("invalid-value", "spec.devices.requests[0].count", 9, 14),
        ("expression-refused", "spec.devices.requests[0].selectors[0].cel.expression", 11, 33),
    ]


@pytest.mark.parametrize(("count", "messages"), [(2**63 - 1, []), (2**63, ["must fit into 64 bits"])])
def test_a_number_fits_into_64_bits(count: int, messages: list[str]) -> None:
    text = claim(f"- name: gpu\n  exactly: {{deviceClassName: gpu, count: {count}}}\n")

    assert [one.message.split(": ")[-1] for one in errors(text) if one.code == "invalid-value"] == messages


def test_a_read_that_the_class_does_not_guard_is_told_only_where_the_class_is_known() -> None:
    text = selecting('device.attributes["a.b"].model == "x"', before="")
    broad = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\nspec: {}\n"

    assert [finding.code for finding in find(text)] == []
    assert [finding.code for finding in find(text, broad)] == ["unguarded-read"]


def test_list_attributes_need_a_feature_gate() -> None:
    (finding,) = find(selecting('device.attributes["gpu.example.com"].features.includes("cuda")'))

    assert (finding.code, finding.severity) == ("needs-newer-cluster", Severity.WARNING)
    assert "DRAListTypeAttributes" in finding.message


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("apiVersion: v1\nkind: Node\nmetadata: {name: n}\nspec: 7\n", ["spec"]),
        ("apiVersion: v1\nkind: Node\nmetadata: [n]\nspec: {}\nstatus: ready\n", ["metadata", "status"]),
        ("apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: n}\nspec: text\n", ["spec"]),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: n}\nspec:\nstatus: {}\n", []),
        ("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: 7\n", []),
    ],
)
def test_what_all_objects_have_in_common_is_checked_of_kinds_that_are_not_known(text: str, fields: list[str]) -> None:
    assert [one.field for one in errors(text) if one.code == "invalid-value"] == fields
