"""Texts that are no manifests any more, by copying: mended where there is one way, each change told; else refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from scheduler.lint import Converted, Settings, Source, convert, lint
from tests.lint.texts import claim, pod, selecting

PLAIN = "- name: gpu\n  exactly:\n    deviceClassName: gpu\n"
CLAIM = claim(PLAIN)
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


def run(text: str, name: str = "f.yaml") -> Converted:
    (converted,) = convert([Source(name, text)])
    return converted


def flat(text: str) -> str:
    """The text as a page without indentation shows it."""
    return "".join(f"{line.lstrip()}\n" for line in text.splitlines())


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: w
spec:
  replicas: 2
  selector:
    matchLabels:
      app: w
  template:
    metadata:
      labels:
        app: w
    spec:
      # who does the work
      containers:
      - name: main
        image: example.com/app:v1 # any
        command: ["sleep", "9999"]
        env:
        - name: A
          value: "1"
        resources:
          limits:
            memory: 1Gi
          claims:
          - name: gpu
      - name: other
        image: example.com/app:v1
      resourceClaims:
      - name: gpu
        resourceClaimTemplateName: t
"""
INDENTED = {
    "deployment": DEPLOYMENT,
    "class": """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: large
spec:
  selectors:
  - cel:
      expression: device.attributes["gpu.example.com"].size > 20
  - cel:
      expression: |
        device.driver == "gpu.example.com" &&
        device.attributes["gpu.example.com"].model == "A100"
""",
    "template": """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: t
spec:
  spec:
    devices:
      requests:
      - name: gpu
        firstAvailable:
        - name: large
          deviceClassName: large
        - name: two
          deviceClassName: small
          count: 2
      constraints:
      - requests: [gpu]
        matchAttribute: gpu.example.com/numa
""",
    "slice": """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: s
spec:
  driver: gpu.example.com
  nodeName: n
  pool:
    name: n
    generation: 1
    resourceSliceCount: 1
  devices:
  - name: gpu-0
    attributes:
      model:
        string: A100
      index:
        int: 0
    capacity:
      memory:
        value: 80Gi
  - name: gpu-1
""",
}


@pytest.mark.parametrize("text", INDENTED.values(), ids=INDENTED)
def test_lost_indentation_is_put_back_where_the_kind_leaves_one_reading(text: str) -> None:
    converted = run(flat(text))

    assert converted.refusals == ()
    assert yaml.safe_load(converted.text) == yaml.safe_load(text)
    (change,) = converted.changes
    assert (change.code, change.place.line) == ("lost-indentation", 4)
    assert lint([Source("again.yaml", converted.text)]).errors == []


def test_what_stands_beside_alternatives_belongs_to_them() -> None:
    request = "- name: gpu\n  firstAvailable:\n  - name: large\n    deviceClassName: large\n    count: 2\n"
    text = claim(request, version="v1beta1").replace("metadata: {name: c}", "metadata:\n  name: c")

    (made,) = yaml.safe_load_all(run(flat(text)).text)

    assert made["spec"]["devices"]["requests"] == yaml.safe_load(request)


def test_comments_stay_with_their_lines() -> None:
    assert run(flat(DEPLOYMENT)).text == DEPLOYMENT


def test_old_versions_get_their_indentation_and_then_the_new_shape() -> None:
    old = claim("- name: gpu\n  deviceClassName: large\n  count: 2\n", version="v1alpha3").replace(
        "metadata: {name: c}", "metadata:\n  name: c"
    )

    converted = run(f"{flat(old)}---\n{flat(DEPLOYMENT)}")

    claim_, deployment = yaml.safe_load_all(converted.text)
    assert claim_["spec"] == {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "large", "count": 2}}]}
    }
    assert deployment == yaml.safe_load(DEPLOYMENT)
    # The places are those in the text as it was copied.
    (request,) = [change for change in converted.changes if change.code == "flat-request"]
    assert (request.place.line, request.place.column) == (9, 1)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\nlabels:\napp: a\nnamespace: n\nspec:\ncontainers:\n"
            "- name: a\nimage: x\n",
            6,
            "'namespace: n' can belong to metadata.labels or to metadata; for the first write '    namespace: n', "
            "for the second '  namespace: n'",
            id="two-readings",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\nname: p\nspec:\ncontainers:\n- name: a\nimaje: x\n",
            8,
            "'imaje: x' has no place in a Pod",
            id="a-field-that-is-none",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pad\nmetadata:\nname: p\nspec:\ncontainers:\n- name: a\n",
            1,
            "the fields of Pad are not known",
            id="a-kind-that-is-none",
        ),
    ],
)
def test_what_has_no_one_reading_is_refused_with_the_line(text: str, line: int, problem: str) -> None:
    converted = run(text)

    assert converted.text == ""
    (refusal,) = converted.refusals
    assert refusal.place.line == line
    assert problem in refusal.message


def test_a_search_without_end_ends() -> None:
    labels = "".join(f"a{n}: b\n" for n in range(500))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\nname: c\nlabels:\n{labels}data:\nx: y\n"
    many = "apiVersion: v1\nkind: Pod\nmetadata:\nname: p\nspec:\nnodeSelector:\n" + "".join(
        f"k{n}: |\nx{n}: y\n" for n in range(300)
    )

    assert run(many).refusals
    assert run(text).text.count("\n    a") == 500


@pytest.mark.parametrize("line", ["–--", "—", "—-", "–", "--", "----", "−−−", "—  # a comment"])
def test_a_line_of_dashes_is_a_separator(line: str) -> None:
    converted = run(f"{CLAIM}{line}\n{NODE}")

    assert [obj["kind"] for obj in yaml.safe_load_all(converted.text)] == ["ResourceClaim", "Node"]
    (change,) = converted.changes
    assert (change.code, change.place.line, change.converted) == ("lost-separator", CLAIM.count("\n") + 1, "---")


def test_dashes_inside_of_texts_are_texts() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n    –--\n    ——\n  b: “x”\n"

    assert run(text).text == text
    assert run(f"{text}–--\n{NODE}").text == f"{text}---\n{NODE}"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("  name：c", "  name: c"),
        ("  name： c", "  name: c"),
        ("\u00a0\u00a0name: c", "  name: c"),
        ("\tname: c", "  name: c"),
        ("  “name”: c", '  "name": c'),
        ("  labels: ｛a: b，c: d｝", "  labels: {a: b, c: d}"),
        ("  labels： {“a”：“b”}", '  labels: {"a": "b"}'),
        ("  annotations：\n    note: “大：小”", '  annotations:\n    note: "大：小"'),
    ],
)
def test_punctuation_of_pages_is_mended_where_it_is_structure(written: str, meant: str) -> None:
    head, rest = "apiVersion: v1\nkind: Node\nmetadata:\n", "\n  generateName{} n-\nspec: {{}}\n"

    converted = run(head + written + rest.format("："))

    assert converted.text == head + meant + rest.format(":")
    assert {change.code for change in converted.changes} == {"full-width-punctuation"}


def test_blocks_of_text_stay_when_the_lines_around_them_are_mended() -> None:
    text = "apiVersion: v1\nkind{} ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: |\n    b： “x”\n\n    – c\n  d: e\n"

    assert run(text.format("：")).text == text.format(":")


def test_list_dashes_that_are_none() -> None:
    text = pod("\n  – name: gpu\n    resourceClaimName: c")

    converted = run(text)

    assert yaml.safe_load(converted.text)["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "c"}]
    assert [change.code for change in converted.changes] == ["full-width-punctuation"]


def test_quotes_in_expressions() -> None:
    converted = run(selecting("device.attributes[“gpu.example.com”].model == ‘A100’"))

    (request,) = yaml.safe_load(converted.text)["spec"]["devices"]["requests"]
    expression = request["exactly"]["selectors"][1]["cel"]["expression"]
    assert expression == "device.attributes[\"gpu.example.com\"].model == 'A100'"
    (change,) = converted.changes
    assert (change.code, change.place.line, change.place.column) == ("full-width-punctuation", 16, 33)


def test_text_in_quotes_may_have_quotes() -> None:
    text = selecting('device.attributes["gpu.example.com"].model == "“A100”"')

    assert run(text).text == text


def test_what_cannot_be_mended_stays_an_error_with_its_place() -> None:
    converted = run(f"{CLAIM}–--\napiVersion： v1\nkind: [\n")

    assert [refusal.code for refusal in converted.refusals] == ["broken-yaml"]
    assert converted.text == ""


def test_a_flat_text_that_is_broken_elsewhere_has_lost_no_indentation() -> None:
    """Its lines stand where they belong: nothing is mended, and the error is the parser's."""
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClass\nmetadata: {:\ndriverName: x\n"
    report = lint([Source("f.yaml", text)])
    (finding,) = [one for one in report.findings if one.code == "broken-yaml"]
    assert "no valid YAML" in finding.message


def test_an_ellipsis_is_named() -> None:
    (refusal,) = run("apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector:\n    a: b\n  ...\n").refusals

    assert "'...' stands for something that was left out" in refusal.message


def test_the_inside_of_a_kind_gets_the_lines_to_put_before_it() -> None:
    (refusal,) = run("spec:\n  nodeName: n\n  devices:\n  - name: gpu-0\n").refusals

    assert refusal.fix == (
        "put before it: {apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: ...}}, a line each"
    )


def test_a_drivers_own_parameters_are_handed_to_it() -> None:
    text = """\
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
name: fans
driverName: fans.example.com
—
apiVersion: fans.example.com/v1
kind: ClaimParameters
metadata: {name: quiet, namespace: n}
spec: {speed: low}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: c}
spec:
  resourceClassName: fans
  parametersRef: {apiGroup: fans.example.com, kind: ClaimParameters, name: quiet}
"""
    converted = run(text)

    assert converted.refusals == ()
    claim_ = list(yaml.safe_load_all(converted.text))[2]
    assert claim_["spec"]["devices"]["config"] == [
        {
            "requests": ["device"],
            "opaque": {
                "driver": "fans.example.com",
                "parameters": {
                    "apiVersion": "fans.example.com/v1",
                    "kind": "ClaimParameters",
                    "spec": {"speed": "low"},
                },
            },
        }
    ]


# --- published articles -------------------------------------------------------------------------------------

# Other people's texts: not in this repository. DRA_ARTICLES names a folder of them, where there is one.
ARTICLES = Path(os.environ.get("DRA_ARTICLES", Path(__file__).resolve().parents[3] / "shared" / "data" / "articles"))


@pytest.mark.skipif(not ARTICLES.is_dir(), reason="no folder of published articles here (DRA_ARTICLES)")
def test_published_articles_convert_or_are_refused_with_a_line_to_paste() -> None:
    sources = [Source(path.name, path.read_text(encoding="utf-8")) for path in sorted(ARTICLES.glob("*.yaml"))]
    settings = Settings(driver_map={"nvidia.com/gpu": "gpu.nvidia.com", "nvidia.com/mig": "gpu.nvidia.com"})

    converted = convert(sources, settings)

    again = lint([Source(file.name, file.text) for file in converted], settings)
    assert [error.as_text() for error in again.errors] == []
    refused = {file.name for file in converted if file.refusals}
    assert len(refused) <= 6  # of 22: no name, no image, no containers, no kind, an ellipsis
    assert all(refusal.fix for file in converted for refusal in file.refusals)
