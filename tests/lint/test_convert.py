"""What convert writes: the same meaning in v1, told change by change, or a refusal; never half of either."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler.lint.context import Settings
from scheduler.lint.emit import join_files
from scheduler.lint.engine import Converted, Source, convert, lint
from scheduler.lint.findings import Severity
from tests.lint.test_rows import CLASS, CLASSIC_CLAIM, CONFIG, PLAIN, SLICE
from tests.lint.texts import claim, find, pod, selecting

DRIVER = "gpu.example.com"


def run(text: str, name: str = "f.yaml", **settings: str) -> Converted:
    (converted,) = convert([Source(name, text)], Settings(**settings))
    return converted


def objects(text: str) -> list[Any]:
    return [obj for obj in yaml.safe_load_all(text) if obj is not None]


def spec_of(text: str) -> Any:
    return objects(text)[0]["spec"]


def expression_of(converted: Converted) -> str:
    selectors = spec_of(converted.text)["devices"]["requests"][0]["exactly"]["selectors"]
    return str(selectors[-1]["cel"]["expression"])


EXACTLY = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
CASES = [
    pytest.param(
        CLASS + "structuredParameters: true\n",
        {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        id="1-class",
    ),
    pytest.param(
        CLASSIC_CLAIM + "  allocationMode: WaitForFirstConsumer\n",
        {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "gpu"}}]}},
        id="1-claim",
    ),
    pytest.param(
        claim("- {name: gpu, deviceClassName: gpu, count: 2}\n", version="v1alpha3"),
        {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
        id="3-flat-alpha",
    ),
    pytest.param(claim(PLAIN, version="v1beta2"), {"devices": {"requests": [EXACTLY]}}, id="3-beta2"),
    pytest.param(
        claim("- {name: gpu, firstAvailable: [{name: a, deviceClassName: gpu}]}\n", version="v1beta1"),
        {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}]}},
        id="3-prioritized-list-stays",
    ),
    pytest.param(
        SLICE.format(version="v1alpha3", device="    basic: {attributes: {m: {int: 1}}, capacity: {memory: 80Gi}}\n"),
        {
            "driver": DRIVER,
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"m": {"int": 1}}, "capacity": {"memory": {"value": "80Gi"}}}],
        },
        id="3-slice",
    ),
    pytest.param(
        claim(PLAIN, spec="allocationMode: Immediate", version="v1beta1"),
        {"devices": {"requests": [EXACTLY]}},
        id="4-mode",
    ),
    pytest.param(
        claim(PLAIN + "  constraints: [{matchAttribute: a.b/c}]\n"),
        {
            "devices": {
                "requests": [EXACTLY],
                "constraints": [{"requests": ["gpu"], "matchAttribute": "a.b/c"}],
            }
        },
        id="5-in-request",
    ),
    pytest.param(
        claim(PLAIN, devices="constraints: [{requests: [gpu], matchAttributes: [a.b/c, a.b/d]}]\n"),
        {
            "devices": {
                "requests": [EXACTLY],
                "constraints": [
                    {"requests": ["gpu"], "matchAttribute": "a.b/c"},
                    {"requests": ["gpu"], "matchAttribute": "a.b/d"},
                ],
            }
        },
        id="5-match-attributes",
    ),
    pytest.param(
        claim(PLAIN, devices="constraints: [{requests: [gpu], attributes: {a.b/model: A100, a.b/n: 2}}]\n"),
        {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [
                                {"cel": {"expression": 'device.attributes["a.b"].model == "A100"'}},
                                {"cel": {"expression": 'device.attributes["a.b"].n == 2'}},
                            ],
                        },
                    }
                ]
            }
        },
        id="5-attributes",
    ),
    pytest.param(
        claim(PLAIN, devices="constraints: [{cel: {expression: 'device.driver == \"x.y\"'}}]\n"),
        {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [{"cel": {"expression": 'device.driver == "x.y"'}}],
                        },
                    }
                ]
            }
        },
        id="5-expression",
    ),
]


@pytest.mark.parametrize(("text", "want"), CASES)
def test_a_shape_becomes_its_equivalent(text: str, want: dict[str, Any]) -> None:
    converted = run(text)

    assert not converted.refusals
    assert spec_of(converted.text) == want
    assert objects(converted.text)[0]["apiVersion"] == "resource.k8s.io/v1"
    assert converted.changes, "a change is never silent"


def test_a_pods_claims_are_lifted_out_of_source() -> None:
    converted = run(pod("[{name: gpu, source: {resourceClaimTemplateName: t}}]", kind="Deployment"))

    claims = spec_of(converted.text)["template"]["spec"]["resourceClaims"]
    assert claims == [{"name": "gpu", "resourceClaimTemplateName": "t"}]


def test_a_scheduler_configuration_keeps_its_fields() -> None:
    config = CONFIG.replace("scoringStrategy: {type: MostAllocated}", "filterTimeout: 5s")
    (before,), (after,) = objects(config), objects(run(config).text)

    assert after == {**before, "apiVersion": "kubescheduler.config.k8s.io/v1"}


TAINT_RULE = (
    "apiVersion: resource.k8s.io/{version}\nkind: DeviceTaintRule\nmetadata: {{name: t}}\n"
    "spec: {{deviceSelector: {{{selector}}}, taint: {{key: a, effect: NoExecute}}}}\n"
)


@pytest.mark.parametrize(
    ("version", "kubernetes", "want"),
    [
        ("v1alpha3", "1.36", "v1beta2"),
        ("v1alpha3", "1.37", "v1"),
        ("v1beta2", "1.37", "v1"),
        ("v1beta2", "1.36", "v1beta2"),
    ],
)
def test_a_taint_rule_gets_the_version_of_the_release(version: str, kubernetes: str, want: str) -> None:
    converted = run(TAINT_RULE.format(version=version, selector="driver: a.b"), kubernetes=kubernetes)

    assert not converted.refusals
    assert objects(converted.text)[0]["apiVersion"] == f"resource.k8s.io/{want}"


def test_a_taint_rule_that_selects_by_class_has_no_equivalent() -> None:
    (refusal,) = run(TAINT_RULE.format(version="v1alpha3", selector="deviceClassName: gpu")).refusals

    assert refusal.code == "taint-rule-selector"


REF = 'device.attributes["gpu.example.com"].'
CAP = 'device.capacity["gpu.example.com"].'


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ('device.attributes["model"].string() == "A100"', f'{REF}model == "A100"'),
        ('"A100" == device.attributes["model"].string()', f'"A100" == {REF}model'),
        ('device.attributes["gpu.example.com"].model.string() == "A100"', f'{REF}model == "A100"'),
        ('device.attributes["gpu.example.com/model"].string() == "A100"', f'{REF}model == "A100"'),
        ('device.attributes["nvlink"].bool() == true', f"{REF}nvlink == true"),
        ('device.attributes["nvlink"].bool()', f"{REF}nvlink"),
        ('!device.attributes["mig"].bool()', f"!{REF}mig"),
        ('device.attributes["index"].int() in [1, 2]', f"{REF}index in [1, 2]"),
        (
            'device.attributes["memory"].quantity() >= quantity("40Gi")',
            f'{CAP}memory.compareTo(quantity("40Gi")) >= 0',
        ),
        (
            'quantity("40Gi") <= device.capacity["memory"].quantity()',
            f'{CAP}memory.compareTo(quantity("40Gi")) >= 0',
        ),
        ('device.capacity["memory"] >= quantity("40Gi")', f'{CAP}memory.compareTo(quantity("40Gi")) >= 0'),
        (
            'device.capacity["gpu.example.com"].memory >= quantity("40Gi")',
            f'{CAP}memory.compareTo(quantity("40Gi")) >= 0',
        ),
        (
            'device.attributes["memory"].quantity().compareTo(quantity("40Gi")) >= 0',
            f'{CAP}memory.compareTo(quantity("40Gi")) >= 0',
        ),
        ('device.attributes["cc"].version() > semver("7.0.0")', f'{REF}cc.compareTo(semver("7.0.0")) > 0'),
        ('device.attributes["cc"].version() >= "7.0"', f'{REF}cc.compareTo(semver("7.0.0")) >= 0'),
        ('device.attributes["cc"].string() >= "7.0"', f'{REF}cc.compareTo(semver("7.0.0")) >= 0'),
        (
            f'{REF}driverVersion >= semver("550.0.0")',
            f'{REF}driverVersion.compareTo(semver("550.0.0")) >= 0',
        ),
        ('device.attributes["features"].list().contains("cuda")', f'{REF}features.includes("cuda")'),
        ('"cuda" in device.attributes["features"].list()', f'"cuda" in {REF}features'),
        ('device.attributes["model"] == "A100"', f'{REF}model == "A100"'),
        ('device.attributes.model == "A100"', f'{REF}model == "A100"'),
        ('device.attributes["gpu.example.com/model"] == "A100"', f'{REF}model == "A100"'),
        ('device.attributes["in"].string() == "x"', 'device.attributes["gpu.example.com"]["in"] == "x"'),
        (
            '(device.attributes["model"].string() == "A100" || device.attributes["model"].string() == "H100")',
            f'({REF}model == "A100" || {REF}model == "H100")',
        ),
        (
            '["A100", "H100"].exists(m, device.attributes["model"].string() == m)',
            f'["A100", "H100"].exists(m, {REF}model == m)',
        ),
        ('(device.attributes["model"]).string() == "A"', f'{REF}model == "A"'),
        ('device.attributes["m"].string().startsWith("A")', f'{REF}m.startsWith("A")'),
        (
            'device.attributes["a"].string() == device.attributes["b"].string()',
            f"{REF}a == {REF}b",
        ),
        (
            f'{CAP}memory == quantity("64Gi") && device.attributes["a"].string() == "x"',
            f'{CAP}memory == quantity("64Gi") && {REF}a == "x"',
        ),
    ],
)
def test_an_expression_says_what_was_meant(expression: str, want: str) -> None:
    converted = run(selecting(expression))

    assert not [refusal.message for refusal in converted.refusals]
    assert expression_of(converted) == want


@pytest.mark.parametrize(
    "expression",
    [
        f'{CAP}memory == quantity("64Gi")',  # the page of Kubernetes' documentation on DRA
        f'quantity("64Gi") == {CAP}memory && device.driver != "x"',
        f'["1Gi", "2Gi"].exists(m, {CAP}memory == quantity(m))',
        f'cel.bind(m, quantity("1Gi"), {CAP}memory == m)',
        f'!({CAP}memory == quantity("64Gi"))',
        f'{REF}version == semver("1.2.3")',
        f'device.capacity["{DRIVER}"] == device.capacity["{DRIVER}"]',
        f'device.attributes["model"] == device.attributes["{DRIVER}"]',
    ],
)
def test_what_is_valid_is_no_error_and_stays_as_it_is(expression: str) -> None:
    converted = run(selecting(expression))

    assert expression_of(converted) == expression
    assert not [str(found) for found in find(selecting(expression)) if found.severity is Severity.ERROR or found.served]


def test_a_quantity_that_an_attribute_cannot_be_is_valid_and_never_equal() -> None:
    (finding,) = find(selecting(f'{REF}memory == quantity("64Gi")'))

    assert (finding.code, finding.severity, finding.served) == ("compared-by-operator", Severity.WARNING, "")
    assert "quantities are capacities, not attributes" in finding.message


def test_an_expression_that_needs_a_feature_gate_says_so() -> None:
    converted = run(selecting('device.attributes["features"].list().contains("cuda")'))

    assert "lists need Kubernetes 1.36 with the feature gate DRAListTypeAttributes" in str(converted.changes)


def test_an_expression_of_several_lines_keeps_its_lines() -> None:
    converted = run(selecting('device.attributes["a"].string() == "x" &&\n  device.attributes["b"].int() > 1 // two'))

    assert expression_of(converted) == f'{REF}a == "x" &&\n  {REF}b > 1 // two'


def test_the_domain_of_an_attribute_is_the_driver_of_the_class() -> None:
    device_class = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'other.example'}}]}\n---\n"
    )

    converted = run(device_class + selecting('device.attributes["model"].string() == "A"', before=""))

    assert 'device.attributes["other.example"].model == "A"' in converted.text


def test_the_domain_of_an_attribute_is_that_of_the_option() -> None:
    converted = run(selecting('device.attributes["model"].string() == "A"', before=""), driver="third.example")

    assert 'device.attributes["third.example"].model == "A"' in converted.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(CLASSIC_CLAIM + "  allocationMode: Immediate\n", "nothing allocates", id="1-immediate"),
        pytest.param(CLASS + "suitableNodes: {}\n", "does not choose nodes", id="1-suitable-nodes"),
        pytest.param(
            CLASSIC_CLAIM + "  parametersRef: {apiGroup: a.b, kind: K, name: n}\n",
            "only the driver knows",
            id="1-vendor-parameters",
        ),
        pytest.param(
            CLASSIC_CLAIM + "  parametersRef: {apiGroup: resource.k8s.io, kind: ResourceClaimParameters, name: n}\n",
            "is not in these files",
            id="1-parameters-elsewhere",
        ),
        pytest.param(
            "apiVersion: resource.k8s.io/v1alpha2\nkind: PodSchedulingContext\nmetadata: {name: p}\nspec: {}\n",
            "is gone",
            id="1-scheduling-context",
        ),
        pytest.param(
            claim(PLAIN, version="v1alpha3", spec="controller: x.y"), "control-plane controller", id="3-controller"
        ),
        pytest.param(
            SLICE.format(version="v1beta1", device="  sharedCounters: [{name: c, counters: {a: {value: 1}}}]\n"),
            "a slice of their own",
            id="3-counters-beside-devices",
        ),
        pytest.param(claim(PLAIN, devices="constraints: [{matchAttribute: numa}]\n"), "which domain", id="5-no-domain"),
        pytest.param(
            claim(PLAIN, devices="constraints: [{attributes: {model: A}}]\n"), "which domain", id="5-test-no-domain"
        ),
        pytest.param(
            claim(PLAIN, devices="constraints: [{requests: [other], attributes: {a.b/model: A}}]\n"),
            "is a selector of the request",
            id="5-test-of-a-request-that-is-not-there",
        ),
        pytest.param(
            selecting('device.attributes["model"].string() == "A"', before=""), "which domain", id="6-no-domain"
        ),
        pytest.param(
            selecting('device.attributes["a.example/b/vram-gb"] > 20'),
            "a domain has no slash",
            id="7-domain-with-slash",
        ),
        pytest.param(selecting('device.driver == "nvidia.com/gpu"', before=""), "extended resource", id="8-slash"),
        pytest.param(pod("[]"), "no claim 'gpu'", id="13-undeclared"),
        pytest.param("a: [\n", "no valid YAML", id="14-broken"),
        pytest.param(claim(PLAIN, version="v1beta1") + "  status: {}\nkind: Pod\n", "there twice", id="duplicate-key"),
    ],
)
def test_what_has_no_equivalent_is_refused_with_the_reason(text: str, why: str) -> None:
    converted = run(text)

    assert why in " ".join(refusal.message for refusal in converted.refusals)
    assert not objects(converted.text)


def test_a_refused_object_does_not_stop_the_others() -> None:
    converted = run(pod("[]") + "---\n" + claim(PLAIN, version="v1beta1"))

    assert [obj["kind"] for obj in objects(converted.text)] == ["ResourceClaim"]
    assert converted.refusals


PARAMETERS = """\
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimParameters
metadata: {name: p}
driverRequests:
- driverName: gpu.example.com
  vendorParameters: {apiVersion: gpu.example.com/v1, kind: Settings, x: 1}
  requests: [{namedResources: {selector: SELECTOR}}]
"""
WITH_PARAMETERS = (
    CLASSIC_CLAIM + "  parametersRef: {apiGroup: resource.k8s.io, kind: ResourceClaimParameters, name: p}\n"
)


def test_parameters_for_the_driver_become_opaque_configuration() -> None:
    converted = run(PARAMETERS.replace("SELECTOR", "'true'") + "---\n" + WITH_PARAMETERS)

    assert not converted.refusals
    (only,) = objects(converted.text)
    parameters = {"apiVersion": "gpu.example.com/v1", "kind": "Settings", "x": 1}
    want = {"requests": ["device"], "opaque": {"driver": DRIVER, "parameters": parameters}}
    assert only["spec"]["devices"]["config"] == [want]


def test_parameters_that_are_there_twice_are_refused_twice() -> None:
    refusals = run(PARAMETERS + "---\n" + PARAMETERS).refusals

    assert [refusal.code for refusal in refusals] == ["classic-dra", "classic-dra"]


def test_selectors_of_1_30_have_no_equivalent() -> None:
    converted = run(PARAMETERS.replace("SELECTOR", "'attributes.int.x > 1'") + "---\n" + WITH_PARAMETERS)

    assert "another expression language" in " ".join(refusal.message for refusal in converted.refusals)
    assert not objects(converted.text)


V1 = (
    "# what it is for\n"
    + claim(PLAIN)
    + "---\n# a pod, with its comments\n"
    + pod("[{name: gpu, resourceClaimName: c}]")
    + "--- # the end\n"
)


def test_v1_stays_as_it_is_to_the_byte() -> None:
    assert run(V1).text == V1
    assert not run(V1).is_changed


@pytest.mark.parametrize(("text", "want"), CASES)
def test_a_second_conversion_changes_nothing(text: str, want: dict[str, Any]) -> None:
    once = run(text).text

    assert run(once).text == once
    assert not run(once).changes


@pytest.mark.parametrize(("text", "want"), CASES)
def test_what_was_converted_lints_without_errors(text: str, want: dict[str, Any]) -> None:
    assert lint([Source("f.yaml", run(text).text)]).errors == []


def test_untouched_documents_keep_their_bytes_beside_changed_ones() -> None:
    old = claim("- {name: gpu, deviceClassName: gpu}\n", version="v1beta1")
    text = (
        f"# head\n{claim(PLAIN)}---\n# of the old one\n{old}---\n# tail\n{pod('[{name: gpu, resourceClaimName: c}]')}"
    )

    converted = run(text)

    before, changed, after = converted.text.split("---\n")
    assert before == f"# head\n{claim(PLAIN)}"
    assert changed.startswith("# of the old one\n")
    assert after == text.split("---\n")[2]


def test_lost_comments_are_told() -> None:
    (note,) = run(claim("- {name: gpu, deviceClassName: gpu} # mine\n", version="v1beta1")).notes

    assert "comments inside ResourceClaim c are lost" in note


def test_values_that_readers_take_for_something_else_keep_their_meaning() -> None:
    text = claim(PLAIN, version="v1beta1").replace(
        "metadata: {name: c}",
        "metadata: {name: c, annotations: "
        "{a: 'yes', b: '1e3', c: '0o7', d: 12:30:45, e: 2020-01-01, f: 'null', g: '1_0'}}",
    )

    (after,) = objects(run(text).text)

    want = {"a": "yes", "b": "1e3", "c": "0o7", "d": "12:30:45", "e": "2020-01-01", "f": "null", "g": "1_0"}
    got = yaml.load(run(text).text, Loader=yaml.BaseLoader)["metadata"]["annotations"]
    assert got == want
    assert after["metadata"]["annotations"]["d"] == "12:30:45"


def test_json_stays_json() -> None:
    text = '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "resource.k8s.io/v1beta1", "kind": '
    text += '"DeviceClass", "metadata": {"name": "a"}, "spec": {}}]}'

    converted = run(text, "f.json")

    assert converted.text.startswith("{")
    assert '"resource.k8s.io/v1"' in converted.text


def test_files_are_joined_as_documents() -> None:
    joined = join_files(["a: 1\n", "---\nb: 2", "", "c: 3\n"])

    assert objects(joined) == [{"a": 1}, {"b": 2}, {"c": 3}]
