"""Every shape that circulates is recognized where it stands; what only looks like it is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.embedded.controllers.owned import PODS_MAX
from tests.lint.texts import claim, codes, find, pod, selecting

CLASS = (
    "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClass\nmetadata: {name: gpu}\ndriverName: gpu.example.com\n"
)
CLASSIC_CLAIM = (
    "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  resourceClassName: gpu\n"
)
PLAIN = "- name: gpu\n  exactly:\n    deviceClassName: gpu\n"
TEMPLATE_CLAIMS = "[{name: gpu, resourceClaimTemplateName: t}]"
SLICE = (
    "apiVersion: resource.k8s.io/{version}\nkind: ResourceSlice\nmetadata: {{name: s}}\nspec:\n"
    "  driver: gpu.example.com\n  nodeName: n\n  pool: {{name: n, generation: 1, resourceSliceCount: 1}}\n"
    "  devices:\n  - name: gpu-0\n{device}"
)
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: x
  pluginConfig:
  - name: DynamicResources
    args:
      scoringStrategy: {type: MostAllocated}
"""
OPAQUE = PLAIN + "config:\n- opaque:\n    driver: gpu.example.com\n    parameters: "


def rows() -> list[Any]:
    def row(name: str, text: str, code: str, line: int, served: str = "") -> Any:
        return pytest.param(text, code, line, served, id=name)

    return [
        row("1-class", CLASS, "classic-dra", 1, "1.27 to 1.30"),
        row("1-driver-name", CLASS, "classic-driver-name", 4, "1.27 to 1.30"),
        row("1-class-parameters", CLASS + "parametersRef: {kind: X, name: x}\n", "classic-parameters", 5, "1.30"),
        row("1-structured", CLASS + "structuredParameters: true\n", "classic-structured-parameters", 5, "1.30"),
        row("1-claim", CLASSIC_CLAIM, "classic-claim", 5, "1.27 to 1.30"),
        row("1-first-alpha", CLASSIC_CLAIM.replace("v1alpha2", "v1alpha1"), "classic-dra", 1, "1.26"),
        row("1-waits", CLASSIC_CLAIM + "  allocationMode: WaitForFirstConsumer\n", "classic-allocation-mode", 6),
        row("1-immediate", CLASSIC_CLAIM + "  allocationMode: Immediate\n", "classic-allocation-mode", 6, "1.30"),
        row(
            "1-scheduling-context",
            "apiVersion: resource.k8s.io/v1alpha2\nkind: PodSchedulingContext\nmetadata: {name: p}\nspec: {}\n",
            "classic-dra",
            2,
            "1.30",
        ),
        row(
            "1-claim-parameters",
            "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaimParameters\nmetadata: {name: p}\n",
            "classic-dra",
            2,
            "1.30",
        ),
        row(
            "1-vendor-parameters",
            "apiVersion: gpu.resource.example.com/v1alpha1\nkind: GpuClaimParameters\nmetadata: {name: p}\n",
            "vendor-parameters",
            2,
            "1.30",
        ),
        row("2-pod", pod("[{name: gpu, source: {resourceClaimName: c}}]"), "pod-claim-source", 9, "1.26 to 1.30"),
        row(
            "2-deployment",
            pod("[{name: gpu, source: {resourceClaimTemplateName: t}}]", kind="Deployment"),
            "pod-claim-source",
            13,
            "1.30",
        ),
        row("3-alpha", claim(PLAIN, version="v1alpha3"), "old-api-version", 1, "1.31 to 1.33"),
        row("3-beta1", claim(PLAIN, version="v1beta1"), "old-api-version", 1, "since 1.32"),
        row("3-beta2", claim(PLAIN, version="v1beta2"), "old-api-version", 1, "since 1.33"),
        row("3-flat", claim("- name: gpu\n  deviceClassName: gpu\n", version="v1beta1"), "flat-request", 8, "v1beta1"),
        row("3-flat-in-v1", claim("- name: gpu\n  deviceClassName: gpu\n"), "flat-request", 8, "v1beta1"),
        row(
            "3-basic",
            SLICE.format(version="v1beta1", device="    basic:\n      attributes: {model: {string: A100}}\n"),
            "basic-device",
            10,
            "v1beta1",
        ),
        row(
            "3-plain-capacity",
            SLICE.format(version="v1alpha3", device="    basic:\n      capacity: {memory: 80Gi}\n"),
            "plain-capacity",
            11,
            "v1alpha3",
        ),
        row(
            "4-mode-beside-devices",
            claim(PLAIN, version="v1beta1", spec="allocationMode: WaitForFirstConsumer"),
            "claim-allocation-mode",
            5,
            "never",
        ),
        row("5-in-request", claim(PLAIN + "  constraints: [{matchAttribute: a.b/c}]\n"), "constraint-in-request", 10),
        row(
            "5-attributes",
            claim(PLAIN, devices="constraints:\n- attributes: {model: A100}\n"),
            "constraint-as-selector",
            7,
            "never",
        ),
        row(
            "5-match-attributes",
            claim(PLAIN, devices="constraints:\n- matchAttributes: [a.b/c, a.b/d]\n"),
            "constraint-attribute-list",
            7,
            "never",
        ),
        row(
            "5-expression",
            claim(PLAIN, devices="constraints:\n- requests: [gpu]\n  cel: {expression: 'true'}\n"),
            "constraint-as-selector",
            8,
            "never",
        ),
        row(
            "5-unqualified",
            claim(PLAIN, devices="constraints:\n- matchAttribute: numa\n"),
            "unqualified-constraint",
            7,
            "never",
        ),
        row("6-string", selecting('device.attributes["model"].string() == "A100"'), "accessor", 16, "never"),
        row("6-quantity", selecting('device.attributes["m"].quantity() >= quantity("40Gi")'), "accessor", 16, "never"),
        row("6-bool", selecting('device.attributes["nvlink"].bool() == true'), "accessor", 16, "never"),
        row("6-list", selecting('device.attributes["features"].list().contains("cuda")'), "accessor", 16, "never"),
        row("6-version", selecting('device.attributes["cc"].version() > semver("7.0.0")'), "accessor", 16, "never"),
        row("7-no-domain", selecting('device.attributes["model"] == "A100"'), "attribute-without-domain", 16, "never"),
        row("7-joined", selecting('device.attributes["vendor.example/vram-gb"] > 20'), "attribute-without-domain", 16),
        row("7-illegal", selecting('device.attributes["v.example"]["vram-gb"] > 20'), "illegal-attribute-name", 16),
        row("8-slash", selecting('device.driver == "nvidia.com/gpu"', before=""), "driver-with-slash", 13),
        row("8-slash-in-list", selecting('device.driver in ["nvidia.com/gpu"]', before=""), "driver-with-slash", 13),
        row(
            "8-slash-in-config",
            claim(PLAIN, devices="config:\n- opaque: {driver: nvidia.com/gpu, parameters: {}}\n"),
            "driver-with-slash",
            7,
        ),
        row(
            "9-text-order-by-accessor",
            selecting('device.attributes["gpu.example.com"].cc.string() >= "7.0"'),
            "accessor",
            16,
        ),
        row(
            "9-text-order",
            selecting('device.attributes["gpu.example.com"].cc >= "7.0"'),
            "version-ordered-as-text",
            16,
        ),
        row("10-version", CONFIG, "old-scheduler-config", 1, "1.23 to 1.28"),
        row("10-args", CONFIG, "plugin-args", 8, "never"),
        row("11-opaque", claim(OPAQUE + "{sharing: {}}"), "opaque-without-kind", 13),
        row("12-twice", pod(TEMPLATE_CLAIMS, limits="{nvidia.com/gpu: 1}"), "device-twice", 8),
        row("13-undeclared", pod(TEMPLATE_CLAIMS, "[{name: gpu}, {name: gpo}]"), "undeclared-claim", 8),
        row("13-no-claims-at-all", pod("[]"), "undeclared-claim", 8),
        row("13-unused", pod(TEMPLATE_CLAIMS, "[]"), "unused-claim", 9),
        row("14-tab", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: p\n", "broken-yaml", 4),
        row("14-full-width", "apiVersion: v1\nkind： Pod\n", "broken-yaml", 2),
        row(
            "14-lost",
            "apiVersion: v1\nkind: Pod\nmetadata:\nname: p\nspec:\ncontainers:\n- name: x\n",
            "broken-yaml",
            3,
        ),
        row(
            "15-replicas",
            pod("[{name: gpu, resourceClaimName: c}]", kind="Deployment", more="replicas: 3"),
            "replicas-share-claim",
            14,
        ),
        row("many-pods", pod("[]", kind="Deployment", more="replicas: 2147483647"), "many-pods", 5),
        row("15-daemon-set", pod("[{name: gpu, resourceClaimName: c}]", kind="DaemonSet"), "replicas-share-claim", 13),
        row("2-source-as-text", pod("[{name: gpu, source: c}]"), "pod-claim-source", 9, "never"),
        row("core-group", claim(PLAIN).replace("resource.k8s.io/v1", "v1"), "wrong-api-version", 1, "never"),
        row("no-such-version", claim(PLAIN, version="v2"), "wrong-api-version", 1),
        row("an-old-kind", CLASS.replace("v1alpha2", "v1"), "wrong-kind", 2, "1.30"),
        row("preset-node", pod(TEMPLATE_CLAIMS, more="nodeName: n\n"), "claim-nobody-allocates", 10),
    ]


@pytest.mark.parametrize(("text", "code", "line", "served"), rows())
def test_a_shape_is_found_where_it_stands(text: str, code: str, line: int, served: str) -> None:
    found = [finding for finding in find(text) if finding.code == code]

    assert [finding.place.line for finding in found] == [line]
    assert served in found[0].served
    assert found[0].fix


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        pytest.param([claim(PLAIN)], "old-api-version", id="3-v1"),
        pytest.param(
            [claim("- name: gpu\n  exactly: {deviceClassName: gpu, allocationMode: All}\n")],
            "claim-allocation-mode",
            id="4-a-requests-mode",
        ),
        pytest.param(
            [
                claim(
                    PLAIN,
                    devices="constraints:\n- {requests: [gpu], matchAttribute: resource.kubernetes.io/numaNode}\n",
                )
            ],
            "unqualified-constraint",
            id="5-qualified",
        ),
        pytest.param(
            [selecting('device.attributes["gpu.example.com"].name.startsWith("A")')],
            "accessor",
            id="6-a-method-of-text",
        ),
        pytest.param([selecting('["1"].map(s, string(s)) == ["1"]')], "accessor", id="6-a-conversion-is-no-accessor"),
        pytest.param(
            [selecting('"model" in device.attributes["gpu.example.com"]')], "attribute-without-domain", id="7-in"
        ),
        pytest.param([selecting('device.attributes["x.y"].size() > 0')], "attribute-without-domain", id="7-size"),
        pytest.param([selecting('device.attributes["x.y"] == {}')], "attribute-without-domain", id="7-no-such-domain"),
        pytest.param(
            [selecting('device.attributes["x.y"].all(k, k != "a")')], "attribute-without-domain", id="7-all-names"
        ),
        pytest.param(
            [selecting('device.attributes["x.y"].?model.orValue("") == "A"')],
            "attribute-without-domain",
            id="7-optional",
        ),
        pytest.param(
            [selecting('device.driver == "gpu.example.com" && "a/b" != ""')], "driver-with-slash", id="8-other-text"
        ),
        pytest.param(
            [selecting('device.attributes["gpu.example.com"].cc.compareTo(semver("7.0.0")) >= 0')],
            "version-ordered-as-text",
            id="9-versions-as-versions",
        ),
        pytest.param(
            [selecting('device.attributes["gpu.example.com"].name >= "B"')],
            "version-ordered-as-text",
            id="9-plain-text",
        ),
        pytest.param([CONFIG.replace("v1beta3", "v1")], "old-scheduler-config", id="10-v1"),
        pytest.param(
            [CONFIG.replace("scoringStrategy: {type: MostAllocated}", "filterTimeout: 5s")],
            "plugin-args",
            id="10-upstreams-args",
        ),
        pytest.param([claim(OPAQUE + "{apiVersion: a/v1, kind: B}")], "opaque-without-kind", id="11-complete"),
        pytest.param(
            [pod(TEMPLATE_CLAIMS, limits="{cpu: 1, hugepages-2Mi: 4Mi, kubernetes.io/x: 1}")],
            "device-twice",
            id="12-cpu-is-no-device",
        ),
        pytest.param(
            [
                pod("[{name: gpu, resourceClaimName: c}]", limits="{rdma.acme.com/hca: 1}"),
                claim("- name: gpu\n  exactly:\n    deviceClassName: gpu.nvidia.com\n"),
            ],
            "device-twice",
            id="12-another-vendors-device",
        ),
        pytest.param([pod(TEMPLATE_CLAIMS, limits="{nvidia.com/gpu: 1}", uses="[]")], "device-twice", id="12-no-claim"),
        pytest.param([pod(TEMPLATE_CLAIMS)], "undeclared-claim", id="13-declared"),
        pytest.param([pod(TEMPLATE_CLAIMS)], "unused-claim", id="13-used"),
        pytest.param(
            [
                pod(
                    TEMPLATE_CLAIMS,
                    "[]",
                    more="initContainers: [{name: i, resources: {claims: [{name: gpu}]}}]\n",
                )
            ],
            "unused-claim",
            id="13-used-by-an-init-container",
        ),
        pytest.param(
            ["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '：“”'}\n"],
            "broken-yaml",
            id="14-full-width-in-a-text",
        ),
        pytest.param([pod("[]", kind="Deployment", more=f"replicas: {PODS_MAX}")], "many-pods", id="as-many-as-made"),
        pytest.param(
            [pod("[{name: gpu, resourceClaimName: c}]", kind="Deployment", more="replicas: 1")],
            "replicas-share-claim",
            id="15-one-replica",
        ),
        pytest.param(
            [pod(TEMPLATE_CLAIMS, kind="Deployment", more="replicas: 3")], "replicas-share-claim", id="15-a-template"
        ),
        pytest.param([pod("[{name: gpu, resourceClaimName: c}]")] * 2, "replicas-share-claim", id="15-two-pods"),
        pytest.param([pod(TEMPLATE_CLAIMS)], "claim-nobody-allocates", id="no-preset-node"),
    ],
)
def test_what_only_looks_like_a_shape_is_left_alone(texts: list[str], code: str) -> None:
    assert code not in codes(find(*texts))


def test_an_autoscaler_makes_replicas_of_a_deployment_of_one() -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: w}}\n"
    )

    (finding,) = find(pod("[{name: gpu, resourceClaimName: c}]", kind="Deployment"), scaler)

    assert (finding.code, "all 5 pods" in finding.message) == ("replicas-share-claim", True)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("a:\n\tb: 1\n", "a tab in the indentation", id="tab"),
        pytest.param("apiVersion： v1\n", "full-width punctuation ('：' should be ':')", id="full-width-colon"),
        pytest.param("apiVersion: “v1”\nkind: [a\n", "full-width punctuation", id="full-width-quotes"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\nname: p\n", "the indentation was lost", id="lost-indentation"
        ),
    ],
)
def test_broken_yaml_says_what_it_looks_like(text: str, hint: str) -> None:
    (finding,) = find(text)

    assert hint in finding.message


def test_a_broken_document_does_not_hide_the_others_of_its_file() -> None:
    text = f"{claim(PLAIN, version='v1beta1')}---\nkind: [\n---\n{pod('[]')}"

    found = find(text)

    assert codes(found) == {"old-api-version", "broken-yaml", "undeclared-claim"}
    assert [finding.place.line for finding in found] == [1, 12, 20]
