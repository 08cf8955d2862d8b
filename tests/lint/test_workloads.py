"""Workloads as people write them: what the API refuses is told with a line to paste, and templates become objects."""

from __future__ import annotations

import pytest
import yaml

from scheduler.lint.context import Settings
from scheduler.lint.engine import Converted, Source, convert, lint
from tests.lint.texts import find, pod

CLAIMS = "[{name: gpu, resourceClaimTemplateName: t}]"


def run(text: str, settings: Settings | None = None) -> Converted:
    (converted,) = convert([Source("f.yaml", text)], settings or Settings())
    return converted


def errors(text: str) -> list[tuple[str, str, str]]:
    return [(each.code, each.field, each.fix) for each in find(text) if each.is_error]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "apiVersion: apps/v1\nkind: Deploymint\nmetadata: {name: d}\n",
            ("wrong-kind", "kind", "kind: Deployment"),
            id="a-kind-that-is-none",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Deployment\nmetadata: {name: d}\n",
            ("wrong-api-version", "apiVersion", "apiVersion: apps/v1"),
            id="a-kind-of-another-group",
        ),
        pytest.param(
            "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: d}\n",
            ("wrong-api-version", "apiVersion", "apiVersion: batch/v1"),
            id="a-version-that-is-gone",
        ),
        pytest.param(
            pod(CLAIMS).replace("metadata: {name: p}", "metadata: {labels: {a: b}}"),
            ("missing-field", "metadata", "name: my-pod"),
            id="no-name",
        ),
        pytest.param(
            pod(CLAIMS).replace("metadata: {name: p}\n", ""),
            ("missing-field", "metadata", "metadata: {name: my-pod}"),
            id="no-metadata",
        ),
        pytest.param(
            pod(CLAIMS).replace("    image: x\n", ""),
            ("missing-field", "spec.containers[0]", "image: ..."),
            id="no-image",
        ),
        pytest.param(
            pod(CLAIMS, more="nodeSelektor: {a: b}\n"),
            ("unknown-field", "spec.nodeSelektor", "did you mean nodeSelector?"),
            id="an-unknown-field",
        ),
        pytest.param(
            pod(CLAIMS).replace("  image: x\n", "  image: x\n    env: [{name: A, value: 1}]\n"),
            ("invalid-value", "spec.containers[0].env[0].value", ""),
            id="a-number-for-a-text",
        ),
        pytest.param(
            pod(CLAIMS, more="tolerations: {key: a}\n"),
            ("invalid-value", "spec.tolerations", "put '- ' before it"),
            id="an-object-for-a-list",
        ),
        pytest.param(
            pod(CLAIMS).replace(
                "  image: x\n",
                "  image: x\n    env:\n    - name: GPUS\n"
                "      valueFrom: {resourceFieldRef: {resource: claims.gpu.devices}}\n",
            ),
            (
                "resource-field-ref",
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource",
                "resource: limits.memory",
            ),
            id="devices-in-the-environment",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec:\n  template:\n    spec:\n"
            "      containers: [{name: a, image: x}]\n",
            (
                "missing-field",
                "spec",
                "selector: {matchLabels: {app: w}}, template.metadata: {labels: {app: w}}",
            ),
            id="neither-selector-nor-labels",
        ),
    ],
)
def test_what_the_api_refuses_of_a_workload(text: str, want: tuple[str, str, str]) -> None:
    assert errors(text) == [want]
    assert run(text).text == ""


@pytest.mark.parametrize(
    "text",
    [
        pod(CLAIMS),
        pod(CLAIMS, kind="Deployment"),
        pod(CLAIMS).replace(
            "  image: x\n",
            "  image: x\n    env: [{name: M, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi}}}]\n",
        ),
        "apiVersion: example.com/v1\nkind: Deploymint\nspec: {containers: 5}\n",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
    ],
)
def test_what_is_right_or_not_known_is_passed(text: str) -> None:
    assert errors(text) == []


def test_a_missing_selector_is_what_the_template_is_labelled_with() -> None:
    text = pod(CLAIMS, kind="Deployment").replace("  selector: {matchLabels: {app: w}}\n", "")

    converted = run(text)

    assert yaml.safe_load(converted.text)["spec"]["selector"] == {"matchLabels": {"app": "w"}}
    assert [change.converted for change in converted.changes] == ["selector: {matchLabels: {app: w}}"]


def test_what_drivers_set_themselves_is_left_out_of_the_environment() -> None:
    text = pod(CLAIMS).replace(
        "  image: x\n",
        "  image: x\n    env:\n    - {name: GPU_VISIBLE_DEVICES, valueFrom: "
        "{resourceFieldRef: {resource: claims.gpu.devices}}}\n    - {name: B, value: c}\n",
    )

    converted = run(text)

    (container,) = yaml.safe_load(converted.text)["spec"]["containers"]
    assert container["env"] == [{"name": "B", "value": "c"}]
    assert [change.converted for change in converted.changes] == ["GPU_VISIBLE_DEVICES is left out"]


TEMPLATES = """\
resourceClaimTemplates:
- name: gpu
  spec:
    devices:
      requests:
      - {name: r, deviceClassName: gpu.example.com, count: 2}
"""


def test_templates_in_a_pod_spec_become_objects() -> None:
    text = pod("[]", kind="Deployment").replace("      resourceClaims: []\n", "")
    text = text.replace("    spec:\n", "    spec:\n" + "".join(f"      {line}\n" for line in TEMPLATES.splitlines()))

    converted = run(text)

    template, deployment = yaml.safe_load_all(converted.text)
    assert template == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "w-gpu"},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}
            }
        },
    }
    spec = deployment["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "w-gpu"}]
    assert "resourceClaimTemplates" not in spec
    assert lint([Source("again.yaml", converted.text)]).errors == []
    # The places are those of what was written.
    (flat,) = [change for change in converted.changes if change.code == "flat-request"]
    assert (flat.place.line, flat.field) == (
        14,
        "spec.template.spec.resourceClaimTemplates[0].spec.devices.requests[0].deviceClassName",
    )


def test_a_claims_spec_inside_of_the_pod_becomes_a_template() -> None:
    inner = "{devices: {requests: [{name: r, exactly: {deviceClassName: g}}]}}"
    for written in (
        f"spec: {inner}",
        f"template: {{spec: {inner}}}",
        f"resourceClaimTemplate: {{spec: {{spec: {inner}}}}}",
    ):
        converted = run(pod(f"[{{name: gpu, {written}}}]"))

        template, made = yaml.safe_load_all(converted.text)
        assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "g"}
        assert made["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "p-gpu"}]


def test_a_template_and_its_pod_are_refused_together() -> None:
    text = pod("[]", more=TEMPLATES.replace("count: 2", "count: many")).replace("  resourceClaims: []\n", "")

    assert run(text).text == ""
    assert [refusal.code for refusal in run(text).refusals] == ["invalid-value"]


def test_a_template_that_is_there_already_is_not_written_over() -> None:
    there = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: p-gpu}\n"
    text = pod("[]", more=TEMPLATES).replace("  resourceClaims: []\n", "")

    (converted,) = convert([Source("f.yaml", f"{there}spec: {{spec: {{devices: {{}}}}}}\n---\n{text}")])

    assert "inline-template" in {refusal.code for refusal in converted.refusals}


@pytest.mark.parametrize("name", ["name: c", "name: c\nnamespace: n\nlabels: {a: b}"])
def test_a_name_beside_kind_goes_into_metadata(name: str) -> None:
    text = f"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\n{name}\nspec: {{}}\n"

    converted = run(text)

    assert yaml.safe_load(converted.text)["metadata"] == yaml.safe_load(name)
    assert [change.code for change in converted.changes] == ["metadata-missing"]


# --- drivers and names --------------------------------------------------------------------------------------

MAP = Settings(driver_map={"vendor.example/gpu": "gpu.vendor.example", "old.example.com": "new.example.com"})


def device_class(expression: str, config: str = "") -> str:
    return (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\nspec:\n  selectors:\n  - cel:\n"
        f"      expression: |-\n        {expression}\n{config}"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('device.driver == "vendor.example/gpu"', 'device.driver == "gpu.vendor.example"'),
        ("'old.example.com' == device.driver", "'new.example.com' == device.driver"),
        (
            'device.driver == "vendor.example/gpu" && device.attributes["model"].string() == "A"',
            'device.driver == "gpu.vendor.example" && device.attributes["gpu.vendor.example"].model == "A"',
        ),
        (
            'device.attributes["vendor.example/gpu"].model == "A"',
            'device.attributes["gpu.vendor.example"].model == "A"',
        ),
        (
            'device.driver == "vendor.example/gpu" && device.attributes["nv-link"].bool() == true',
            'device.driver == "gpu.vendor.example" && device.attributes["gpu.vendor.example"].nv_link == true',
        ),
    ],
)
def test_a_driver_is_called_what_the_map_says(written: str, meant: str) -> None:
    converted = run(device_class(written), MAP)

    assert converted.refusals == ()
    assert yaml.safe_load(converted.text)["spec"]["selectors"][0]["cel"]["expression"] == meant


def test_so_is_the_driver_of_opaque_parameters_of_slices_and_of_rules() -> None:
    config = "  config:\n  - opaque:\n      driver: {}\n      parameters: {{apiVersion: a/v1, kind: K}}\n"
    slice_ = (
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n"
        "  driver: vendor.example/gpu\n  nodeName: n\n  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
    )
    converted = run(device_class("true", config.format("vendor.example/gpu")) + slice_, MAP)

    written = list(yaml.safe_load_all(converted.text))
    assert converted.refusals == ()
    assert written[0]["spec"]["config"][0]["opaque"]["driver"] == "gpu.vendor.example"
    assert written[1]["spec"]["driver"] == "gpu.vendor.example"


def test_without_the_map_the_line_to_use_is_given() -> None:
    config = "  config:\n  - opaque:\n      driver: vendor.example/gpu\n      parameters: {apiVersion: a/v1, kind: K}\n"
    converted = run(device_class('device.driver == "vendor.example/gpu"', config))

    assert converted.text == ""
    assert len(converted.refusals) == 2  # the expression, and the opaque parameters
    for refusal in converted.refusals:
        assert "convert --driver-map vendor.example/gpu=gpu.vendor.example writes it" in refusal.fix


def test_names_that_cannot_be_become_the_nearest_that_can() -> None:
    slice_ = (
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n"
        "  driver: d.example.com\n  nodeName: n\n  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
        "  devices:\n  - name: gpu-0\n    basic:\n"
        "      attributes: {d.example.com/cuda-version: {string: '12'}}\n      capacity: {compute-units: '10'}\n"
    )
    converted = run(slice_)

    (device,) = yaml.safe_load(converted.text)["spec"]["devices"]
    assert device["attributes"] == {"d.example.com/cuda_version": {"string": "12"}}
    assert device["capacity"] == {"compute_units": {"value": "10"}}
    assert lint([Source("again.yaml", converted.text)]).errors == []


def test_two_names_that_would_become_one_are_refused() -> None:
    slice_ = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n"
        "  driver: d.example.com\n  nodeName: n\n  pool: {name: n, generation: 1, resourceSliceCount: 1}\n"
        "  devices: [{name: d, attributes: {a-b: {int: 1}, a_b: {int: 2}}}]\n"
    )

    assert "illegal-attribute-name" in {each.code for each in run(slice_).refusals}


def test_the_claims_of_a_group_of_pods_are_not_taken_for_those_of_a_pod() -> None:
    group = (
        "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
        "spec: {schedulingPolicy: {basic: {}}, resourceClaims: [{name: gpus, resourceClaimTemplateName: t}]}\n"
    )

    assert find(group) == []
