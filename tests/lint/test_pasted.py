"""Texts that are no manifests any more, by copying: refused with the place, and what the line looks like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from scheduler.lint import Converted, Finding, Settings, Source, convert, lint
from tests.lint.texts import claim, pod, selecting

CLAIM = claim("- name: gpu\n  exactly:\n    deviceClassName: gpu\n")
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


def run(text: str, name: str = "f.yaml") -> Converted:
    (converted,) = convert([Source(name, text)])
    return converted


def refusal(text: str) -> Finding:
    """Of a text that holds nothing else."""
    converted = run(text)
    assert (converted.text, converted.changes) == ("", ())
    (refused,) = converted.refusals
    assert refused.code == "broken-yaml"
    return refused


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nmetadata:\nname: p\nspec:\ncontainers:\n- name: a\nimage: x\n",
        "apiVersion: v1\nkind: Pod\nmetadata:\nlabels:\napp: a\nnamespace: n\nspec:\ncontainers:\n- name: a\n",
        "apiVersion: v1\nkind: Pad\nmetadata:\nname: p\nspec:\ncontainers:\n- name: a\n",
    ],
)
def test_lost_indentation_is_named_where_it_begins(text: str) -> None:
    refused = refusal(text)

    assert (refused.place.line, refused.place.column) == (3, 1)
    assert "no line is indented, the indentation was lost in copying" in refused.message


@pytest.mark.parametrize("line", ["–--", "—", "—-", "–", "--", "----", "−−−", "—  # a comment"])
def test_a_line_of_other_dashes_between_documents_is_named(line: str) -> None:
    refused = refusal(f"{CLAIM}{line}\n{NODE}")

    assert (refused.place.line, refused.place.column) == (CLAIM.count("\n") + 1, 1)
    assert f"{line.split(' ', maxsplit=1)[0]!r} is no dash of YAML's" in refused.message
    assert "a document with '---'" in refused.message


def test_list_dashes_that_are_none_are_named() -> None:
    refused = refusal(pod("\n  – name: gpu\n    resourceClaimName: c"))

    assert (refused.place.line, refused.place.column) == (10, 5)
    assert "'–' is no dash of YAML's; a list entry begins with '- '" in refused.message


def test_dashes_inside_of_texts_are_texts() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n    –--\n    ——\n  b: “x”\n"

    assert run(text).text == text
    (refused,) = run(text.replace("–", "-").replace("—", "-").replace("“x”", "[")).refusals
    assert "dash" not in refused.message


@pytest.mark.parametrize(
    ("written", "column", "hint"),
    [
        ("  name：c", 7, "full-width punctuation ('：' should be ':')"),
        ("  name： c", 7, "full-width punctuation ('：' should be ':')"),
        ("\u00a0\u00a0name: c", 1, "a blank that is none to YAML ('\\xa0' should be ' ')"),
        ("\tname: c", 1, "a tab in the indentation"),
        ("  labels: ｛a: b，c: d｝", 11, "full-width punctuation ('｛' should be '{')"),
        ("  labels： {“a”：“b”}", 9, "full-width punctuation ('：' should be ':')"),
    ],
)
def test_punctuation_of_pages_is_named_where_it_stands(written: str, column: int, hint: str) -> None:
    refused = refusal(f"apiVersion: v1\nkind: Node\nmetadata:\n{written}\n  generateName: n-\nspec: {{}}\n")

    assert (refused.place.line, refused.place.column) == (4, column)
    assert hint in refused.message


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


def test_a_flat_text_that_is_broken_elsewhere_is_an_error_of_the_parsers() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClass\nmetadata: {:\ndriverName: x\n"
    report = lint([Source("f.yaml", text)])
    (finding,) = [one for one in report.findings if one.code == "broken-yaml"]
    assert "no valid YAML" in finding.message


def test_an_ellipsis_is_named() -> None:
    refused = refusal("apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector:\n    a: b\n  ...\n")

    assert "'...' stands for something that was left out" in refused.message


def test_the_inside_of_a_kind_gets_the_lines_to_put_before_it() -> None:
    refused = refusal("spec:\n  nodeName: n\n  devices:\n  - name: gpu-0\n")

    assert refused.fix == (
        "put before it: {apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: ...}}, a line each"
    )


def test_a_drivers_own_parameters_are_handed_to_it() -> None:
    text = """\
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
name: fans
driverName: fans.example.com
---
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
    assert len(refused) <= 11  # of 22: lost indentation, no name, no image, no containers, no kind, an ellipsis
    assert all(refusal.fix for file in converted for refusal in file.refusals)
