"""Names that only a cluster can tell: templates, claims, labels, taint rules, generations of pools."""

from __future__ import annotations

import pytest

from scheduler.lint.published import Published
from tests.lint.test_against import cluster, deployment, template
from tests.lint.texts import claim, codes, dump, find, pod

CLAIMS = "[{name: gpu, resourceClaimTemplateName: t}]"
RULE = (
    "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {{name: r}}\n"
    "spec: {{deviceSelector: {{{}}}, taint: {{key: a, effect: NoSchedule}}}}\n"
)
SLICE = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: s{0}}}\nspec:\n  driver: d.example.com\n"
    "  nodeName: n\n  pool: {{name: n, generation: {1}, resourceSliceCount: {2}}}\n"
    "  devices: [{{name: gpu-{0}, attributes: {{gen{1}: {{int: 1}}}}}}]\n"
)


def told(text: str, published: Published | None) -> list[tuple[str, str, str]]:
    return [
        (each.code, each.field, each.fix) for each in find(text, published=published) if each.code != "does-not-fit"
    ]


def why(text: str, published: Published) -> list[tuple[str, str]]:
    return [(each.message, each.fix) for each in find(text, published=published) if each.code == "does-not-fit"]


def test_a_template_that_is_nowhere() -> None:
    there = cluster({"n": 1}, claims="---\n" + template().replace("{name: t}", "{name: tt}"))

    ((message, fix),) = why(pod(CLAIMS), there)
    assert message.startswith(
        "[claim-not-made] ResourceClaimTemplate default/t, which pod default/p names, does not exist"
    )
    assert fix == "write resourceClaimTemplateName: tt instead of t in pod default/p"


@pytest.mark.parametrize("files", [[pod(CLAIMS), template()], [pod(CLAIMS)]])
def test_templates_of_the_files_and_of_the_cluster_are_known(files: list[str]) -> None:
    there = cluster({"n": 1}, claims="" if len(files) > 1 else "---\n" + template())

    assert find(*files, published=there) == []


def test_a_claim_that_is_nowhere() -> None:
    claims = "[{name: gpu, resourceClaimName: c}]"
    there = "---\n" + claim("- {name: gpu, exactly: {deviceClassName: gpu}}\n")

    ((message, _),) = why(pod(claims), cluster({"n": 1}))
    assert "default/c" in message
    assert find(pod(claims), published=cluster({"n": 1}, claims=there)) == []


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        ("nodeSelector: {zoen: n}\n", "zone"),
        ("nodeSelector: {zone: m}\n", "n instead of m"),
    ],
)
def test_a_label_that_no_node_has(more: str, fix: str) -> None:
    there = cluster({"n": 1}, claims="---\n" + template())

    ((message, found),) = why(pod(CLAIMS, more=more), there)
    assert message.startswith("[node-affinity-unmet] ")
    assert fix in found


@pytest.mark.parametrize(
    ("selector", "field", "fix"),
    [
        ("driver: gpu.nvidia.org", "spec.deviceSelector.driver", "did you mean gpu.nvidia.com?"),
        ("driver: gpu.nvidia.com, pool: m", "spec.deviceSelector.pool", "there are: n"),
        ("pool: n, device: gpu-7", "spec.deviceSelector.device", "did you mean gpu-0?"),
    ],
)
def test_a_taint_rule_that_taints_nothing(selector: str, field: str, fix: str) -> None:
    assert told(RULE.format(selector), cluster({"n": 1})) == [("taint-rule-without-devices", field, fix)]


@pytest.mark.parametrize("selector", ["driver: gpu.nvidia.com", "pool: n, device: gpu-0"])
def test_a_taint_rule_that_taints(selector: str) -> None:
    assert told(RULE.format(selector), cluster({"n": 1})) == []


def test_what_rules_taint_is_not_there_for_pods_that_do_not_tolerate_it() -> None:
    free = cluster({"n": 2})
    tainted = cluster({"n": 2}, claims="---\n" + RULE.format("device: gpu-0"))

    assert "does-not-fit" not in codes(find(deployment(2), template(), published=free))
    (finding,) = find(deployment(2), template(), published=tainted)
    assert finding.message.endswith("; 1 of 2 pods fit")


def test_a_generation_that_is_over() -> None:
    text, field = SLICE.format(0, 1, 1), "spec.pool.generation"

    assert told(text, dump(SLICE.format(1, 3, 1))) == [("old-generation", field, "")]
    assert told(f"{text}---\n{SLICE.format(1, 2, 1)}", None) == [("old-generation", field, "")]
    assert told(text, dump(SLICE.format(0, 3, 1))) == []  # it takes that one's place


def test_a_pool_of_which_slices_are_missing() -> None:
    text = SLICE.format(0, 1, 2)

    assert told(text, None) == [("incomplete-pool", "spec.pool.resourceSliceCount", "")]
    assert told(f"{text}---\n{SLICE.format(1, 1, 2)}", None) == []
    assert told(text, dump(f"{text}---\n{SLICE.format(1, 1, 2)}")) == []


def test_names_of_an_old_generation_are_not_published_any_more() -> None:
    there = dump(f"{SLICE.format(0, 1, 1)}---\n{SLICE.format(1, 2, 1)}")

    assert set(there.names_in("attributes", "d.example.com")) == {"gen2"}
