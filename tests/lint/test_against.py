"""What only a cluster can tell: drivers, attributes, classes, and which pods fit."""

from __future__ import annotations

import json

import pytest
import yaml

from allocator import Features
from scheduler.explain import linted, waiting
from scheduler.explain.explaining import explain_briefly
from scheduler.lint.context import Settings
from scheduler.lint.documents import parse_documents
from scheduler.lint.emit import yaml_text
from scheduler.lint.engine import Source, convert, lint, objects_in_v1
from scheduler.lint.published import Published, read_published
from scheduler.offline import SourceObject
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
status: {{allocatable: {{cpu: 8, memory: 8Gi, pods: 110}}}}
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
    ("texts", "nodes", "message", "fix"),
    [
        pytest.param(
            [deployment(5), template()],
            {"a": 2, "b": 1},
            "[devices-in-use]*; 3 of 5 pods fit",
            "at most 3 of them, or room for the others",
            id="replicas",
        ),
        pytest.param(
            [pod(TEMPLATE_CLAIMS), template(2)],
            {"a": 1, "b": 1, "c": 1},
            "[devices-short] node a has 1 device*",
            "in request gpu of ResourceClaimTemplate default/t",
            id="three-free-on-three-nodes",
        ),
        pytest.param(
            [pod(TEMPLATE_CLAIMS, more="nodeSelector: {zone: nowhere}\n"), template()],
            {"a": 1},
            "[node-affinity-unmet] no node has zone=nowhere*",
            "a instead of nowhere in the nodeSelector of pod default/p",
            id="no-node",
        ),
        pytest.param(
            [pod("[]", "[]", limits="{gpu.example/mig: 1}")],
            {"a": 1},
            "[extended-resource-unknown] resource gpu.example/mig of pod default/p*",
            "",
            id="an-extended-resource",
        ),
    ],
)
def test_what_does_not_fit_has_the_cause_that_explain_says(
    texts: list[str], nodes: dict[str, int], message: str, fix: str
) -> None:
    (found,) = [each for each in find(*texts, published=cluster(nodes)) if each.code == "does-not-fit"]

    first, _, last = message.partition("*")
    assert found.message.startswith(first)
    assert found.message.endswith(last)
    assert fix in found.fix


@pytest.mark.parametrize(
    ("served", "nodes"), [("", []), ("x.example/gpu: '0'", []), ("x.example/gpu: '2'", ["node a"])]
)
def test_a_class_whose_devices_a_plugin_serves_too(served: str, nodes: list[str]) -> None:
    published = cluster({"a": 1})
    status = next(one for one in published.objects if one["kind"] == "Node")["status"]
    status["allocatable"] |= yaml.safe_load(f"{{{served}}}") or {}
    text = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: x.example/gpu, selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
"""

    found = [each for each in find(text, published=published) if each.code == "two-stacks"]

    assert [node for each in found for node in nodes if node in each.message] == nodes
    assert len(found) == len(nodes)


def template_reading(name: str, value: str) -> str:
    expression = f"device.attributes['gpu.nvidia.com'].{name} == '{value}'"
    return template().replace(
        "deviceClassName: gpu", f'deviceClassName: gpu, selectors: [{{cel: {{expression: "{expression}"}}}}]'
    )


def test_a_selector_that_no_device_satisfies_is_told_at_the_template() -> None:
    (found,) = find(pod(TEMPLATE_CLAIMS), deployment(2), template_reading("model", "a100"), published=cluster({"a": 1}))

    assert (found.place.file, found.place.line, found.code) == ("2.yaml", 3, "does-not-fit")
    assert found.message == (
        "[selector-unmet] request gpu: no device of its class has gpu.nvidia.com/model equal to the string 'a100'; "
        "1 have 'A100'"
    )
    assert "write 'A100' in the selector" in found.fix


def test_a_name_that_is_told_where_it_is_written_is_not_told_of_pods_too() -> None:
    found = find(pod(TEMPLATE_CLAIMS), template_reading("modle", "A100"), published=cluster({"a": 1}))

    assert codes(found) == {"unknown-attribute"}


@pytest.mark.parametrize(
    ("texts", "nodes"),
    [
        pytest.param([deployment(3), template()], {"a": 2, "b": 1}, id="replicas"),
        pytest.param([pod(TEMPLATE_CLAIMS), template(2)], {"a": 1, "b": 2}, id="two-on-one-node"),
    ],
)
def test_what_fits_is_not_told(texts: list[str], nodes: dict[str, int]) -> None:
    assert "does-not-fit" not in codes(find(*texts, published=cluster(nodes)))


def test_pods_that_are_alike_are_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        waiting, "explain_briefly", lambda *args, **more: asked.append(args[0]) or explain_briefly(*args, **more)
    )

    found = find(deployment(5), template(2), published=cluster({"a": 1}))

    assert (codes(found), len(asked)) == ({"does-not-fit"}, 1)


def test_causes_are_looked_for_within_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_STEPS", 1_000_000)
    views = lint([Source("0", pod(TEMPLATE_CLAIMS)), Source("1", deployment(2)), Source("2", template(2))]).views
    there = [SourceObject("", one) for one in cluster({"a": 1}).objects]

    notes = linted.check_fit(views, there, now_ms=0, features=Features())

    assert notes == ["not all causes were looked for: the budget is used up"]
    kinds = {finding.message.partition("]")[0] for view in views for finding in view.findings}
    assert kinds == {"[devices-short"}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (deployment(1), "1 pods or workloads run in the cluster already"),
        (deployment(1) + "---\n" + template(-1), "the API server refuses claims"),
        (pod(TEMPLATE_CLAIMS), ""),
    ],
)
def test_what_is_not_looked_at_is_said(text: str, note: str) -> None:
    running = deployment(1).replace("{name: w}", "{name: w, uid: u}")
    there = cluster({"a": 1}, claims="---\n" + running).objects
    views = lint([Source("0", text)]).views

    notes = linted.check_fit(views, [SourceObject("", one) for one in there], now_ms=0, features=Features())

    assert [note in one for one in notes] == [True] * bool(note)


def test_files_with_nodes_and_slices_are_a_cluster_of_theirs() -> None:
    there = "---\n".join(yaml_text(one) for one in cluster({"n": 1}).objects)
    text = selecting('device.attributes["other.example"].model == "A"', before="")

    (found,) = find(there, text)

    assert (found.code, found.fix) == ("unknown-attribute", "model is published by gpu.nvidia.com")


def test_an_autoscalers_maximum_counts() -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n"
        "spec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: w}}\n"
    )

    (finding,) = find(deployment(1), template(), scaler, published=cluster({"a": 4}))

    assert finding.message.endswith("4 of 9 pods fit")


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
        claims="---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: x, uid: u}\nspec: {}\n"
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
