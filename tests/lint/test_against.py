"""What only a cluster can tell: drivers, attributes, classes, and how many pods get their devices."""

from __future__ import annotations

import json

import pytest

from scheduler.lint.context import Settings
from scheduler.lint.documents import parse_documents
from scheduler.lint.engine import Source, convert, objects_in_v1
from scheduler.lint.published import Published, read_published
from tests.lint.texts import claim, codes, dump, find, indented, pod, selecting

TEMPLATE_CLAIMS = "[{name: gpu, resourceClaimTemplateName: t}]"


def cluster(devices_by_node: dict[str, int], *, taint: str = "", claims: str = "") -> Published:
    """Nodes with so many GPUs each, and a class `gpu`."""
    text = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
"""
    for node, count in devices_by_node.items():
        devices = [
            {
                "name": f"gpu-{number}",
                "attributes": {"model": {"string": "A100"}, "nv.example/cc": {"version": "8.0.0"}},
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for number in range(count)
        ]
        text += f"""\
---
apiVersion: v1
kind: Node
metadata: {{name: {node}, labels: {{zone: {node}}}}}
spec: {{taints: [{taint}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {node}}}
spec:
  driver: gpu.nvidia.com
  nodeName: {node}
  pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}
  devices: {json.dumps(devices)}
"""
    return dump(text + claims)


def template(count: int = 1) -> str:
    spec = claim(f"- name: gpu\n  exactly: {{deviceClassName: gpu, count: {count}}}\n").partition("spec:\n")[2]
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: t}\nspec:\n  spec:\n"
        + indented(spec, 2)
    )


def deployment(replicas: int, more: str = "") -> str:
    return pod(TEMPLATE_CLAIMS, kind="Deployment", more=f"replicas: {replicas}\n{more}")


@pytest.mark.parametrize(
    ("expression", "code", "fix"),
    [
        (
            'device.driver == "nvidia.com/gpu"',
            "driver-with-slash",
            "the drivers that publish slices are: gpu.nvidia.com",
        ),
        ('device.driver == "gpu.nvidai.com"', "unknown-driver", "did you mean gpu.nvidia.com?"),
        (
            'device.attributes["other.example"].model == "A"',
            "unknown-attribute",
            "model is published by gpu.nvidia.com",
        ),
        ('device.attributes["gpu.nvidia.com"].modle == "A"', "unknown-attribute", "did you mean model?"),
        ('device.capacity["gpu.nvidia.com"].vram.isInteger()', "unknown-attribute", "gpu.nvidia.com has: memory"),
    ],
)
def test_names_that_nobody_publishes(expression: str, code: str, fix: str) -> None:
    found = [each for each in find(selecting(expression, before=""), published=cluster({"n": 1})) if each.code == code]

    assert [finding.fix for finding in found] == [fix]


def test_names_that_are_published_are_fine() -> None:
    text = selecting(
        'device.attributes["gpu.nvidia.com"].model == "A100" && "cc" in device.attributes["nv.example"]',
        before='device.driver == "gpu.nvidia.com"',
    )

    assert find(text, published=cluster({"n": 1})) == []


def test_what_is_published_says_which_domain_was_meant() -> None:
    text = selecting(
        'device.attributes["model"].string() == "A100" && device.attributes["cc"].version() > "7.5"', before=""
    )

    (converted,) = convert([Source("f.yaml", text)], Settings(), cluster({"n": 1}))

    assert 'device.attributes["gpu.nvidia.com"].model == "A100"' in converted.text
    assert 'device.attributes["nv.example"].cc.compareTo(semver("7.5.0")) > 0' in converted.text


def test_an_attribute_of_two_domains_is_not_guessed() -> None:
    more = (
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: other}\n"
        "spec: {driver: nic.example, nodeName: n, pool: {name: n, generation: 1, resourceSliceCount: 1}, "
        "devices: [{name: d, attributes: {model: {string: x}}}]}\n"
    )
    text = selecting('device.attributes["model"].string() == "A100"', before="")

    # Of a class that demands no driver.
    text = text.replace("deviceClassName: gpu", "deviceClassName: any")

    (converted,) = convert([Source("f.yaml", text)], Settings(), cluster({"n": 1}, claims=more))

    assert ["which domain" in refusal.message for refusal in converted.refusals] == [True]
    assert converted.text == ""


def test_an_extended_resources_name_becomes_the_driver_that_is_there() -> None:
    text = selecting('device.driver == "nvidia.com/gpu"', before="")

    (converted,) = convert([Source("f.yaml", text)], Settings(), cluster({"n": 1}))

    assert 'device.driver == "gpu.nvidia.com"' in converted.text
    assert not converted.refusals


def test_an_unknown_class() -> None:
    found = find(claim("- {name: r, exactly: {deviceClassName: gpus}}"), published=cluster({"n": 1}))

    assert [(finding.code, finding.fix) for finding in found] == [("unknown-class", "did you mean gpu?")]


@pytest.mark.parametrize(
    ("texts", "nodes", "message"),
    [
        pytest.param([deployment(5), template()], {"a": 2, "b": 1}, "3 of 5 pods fit", id="replicas"),
        pytest.param([deployment(2), template(2)], {"a": 3}, "1 of 2 pods fit", id="two-each"),
        pytest.param(
            [pod(TEMPLATE_CLAIMS), template(2)],
            {"a": 1, "b": 1, "c": 1},
            "the pod does not fit on the devices that are free there: request gpu needs 2: 3 free, at most 1 on a node",
            id="three-free-on-three-nodes",
        ),
        pytest.param(
            [pod(TEMPLATE_CLAIMS, more="nodeSelector: {zone: nowhere}\n"), template()],
            {"a": 1},
            "none of 1 nodes passes",
            id="no-node",
        ),
    ],
)
def test_how_many_fit(texts: list[str], nodes: dict[str, int], message: str) -> None:
    found = [each for each in find(*texts, published=cluster(nodes)) if each.code == "does-not-fit"]

    assert len(found) == 1
    assert message in found[0].message


@pytest.mark.parametrize(
    ("texts", "nodes"),
    [
        pytest.param([deployment(3), template()], {"a": 2, "b": 1}, id="replicas"),
        pytest.param([pod(TEMPLATE_CLAIMS), template(2)], {"a": 1, "b": 2}, id="two-on-one-node"),
        pytest.param([deployment(3)], {"a": 1}, id="a-template-nobody-has-shown"),
    ],
)
def test_what_fits_is_not_told(texts: list[str], nodes: dict[str, int]) -> None:
    assert "does-not-fit" not in codes(find(*texts, published=cluster(nodes)))


def test_an_autoscalers_maximum_counts() -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: w}}\n"
    )

    (finding,) = find(deployment(1), template(), scaler, published=cluster({"a": 4}))

    assert finding.message.startswith("4 of 9 pods fit")
    assert finding.place.file == "2.yaml"


def test_taints_and_tolerations_count() -> None:
    tainted = cluster({"a": 1}, taint="{key: gpu, effect: NoSchedule}")
    tolerating = pod(TEMPLATE_CLAIMS, more="tolerations: [{key: gpu, operator: Exists}]\n")

    assert codes(find(pod(TEMPLATE_CLAIMS), template(), published=tainted)) == {"does-not-fit"}
    assert find(tolerating, template(), published=tainted) == []


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ("{key: gpu, value: null, effect: NoSchedule}", True),
        ("{key: gpu, operator: Equal, value: other}", False),
        ("{key: gpu, operator: Lt, value: ''}", False),
        ("{operator: Exists, effect: NoExecute}", False),
    ],
)
def test_tolerations_are_judged_as_the_scheduler_judges_them(toleration: str, fits: bool) -> None:
    tainted = cluster({"a": 1}, taint="{key: gpu, effect: NoSchedule}")
    found = find(pod(TEMPLATE_CLAIMS, more=f"tolerations: [{toleration}]\n"), template(), published=tainted)

    assert ("does-not-fit" in codes(found)) is not fits


@pytest.mark.parametrize(("term", "fits"), [("values: [a]", True), ("values: [b]", False), ("values: null", False)])
def test_node_affinity_is_judged_as_the_scheduler_judges_it(term: str, fits: bool) -> None:
    affinity = (
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
        f"[{{matchFields: [{{key: metadata.name, operator: In, {term}}}]}}]}}}}}}\n"
    )
    found = find(pod(TEMPLATE_CLAIMS, more=affinity), template(), published=cluster({"a": 1}))

    assert ("does-not-fit" in codes(found)) is not fits


def test_devices_in_use_count() -> None:
    used = cluster(
        {"a": 1},
        claims="---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: x, namespace: a}\nspec: {}\n"
        "status: {allocation: {devices: {results: [{request: r, driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}}\n",
    )

    assert codes(find(pod(TEMPLATE_CLAIMS), template(), published=used)) == {"does-not-fit"}


def test_a_dump_of_an_older_version_is_read() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceSlice\nmetadata: {name: s}\nspec:\n  driver: a.b\n"
        "  pool: {name: n, generation: 1, resourceSliceCount: 1}\n  nodeName: n\n"
        "  devices: [{name: d, basic: {attributes: {model: {string: A}}}}]\n"
    )

    published = read_published(objects_in_v1(parse_documents(text, "dump.yaml")))

    assert published.problems == []
    assert published.domains_of("attributes", "model") == {"a.b"}


def test_a_broken_object_of_a_dump_stops_nothing() -> None:
    published = cluster(
        {"a": 1}, claims="---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: bad}\n"
    )

    assert published.drivers == {"gpu.nvidia.com"}
    assert ["ResourceSlice bad" in problem for problem in published.problems] == [True]


def test_a_device_that_two_claims_have_is_said() -> None:
    allocation = {"devices": {"results": [{"request": "r", "driver": "a.b", "pool": "p", "device": "d"}]}}
    claims = [
        {"kind": "ResourceClaim", "metadata": {"name": name}, "status": {"allocation": allocation}} for name in "xy"
    ]

    published = read_published(claims)

    assert published.conflicts == ["ResourceClaim default/y: device a.b/p/d is allocated to another claim, too"]
    assert published.problems == []
