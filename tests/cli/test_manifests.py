"""Manifest files: places of fields, and the ways in which pasted YAML is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.manifests import ManifestError, read_manifests
from scheduler.lint.findings import Place

GOOD = """\
# a comment
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu
spec:
  selectors:
    - cel:
        expression: device.driver == "a"
    - cel:
        expression: |-
          device.driver == "b" &&
            true
---
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Pod, metadata: {namespace: ns, name: a}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: b}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_documents_and_lists_become_objects_with_names(good: Path) -> None:
    assert [document.name for document in read_manifests([good])] == ["DeviceClass gpu", "Pod ns/a", "Pod b"]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param((), (2, 1), id="the-document"),
        pytest.param(("spec", "selectors", 0, "cel", "expression"), (9, 21), id="a-value"),
        pytest.param(("spec", "selectors", 7, "cel"), (8, 5), id="an-absent-entry-is-its-list"),
        pytest.param(("spec", "nope"), (7, 3), id="an-absent-field-is-its-parent"),
    ],
)
def test_fields_have_places(good: Path, path: tuple[str | int, ...], want: tuple[int, int]) -> None:
    document = read_manifests([good])[0]

    assert document.place(path) == Place(str(good), *want)


def test_keys_have_places(good: Path) -> None:
    assert read_manifests([good])[0].place(("metadata", "name"), key=True) == Place(str(good), 5, 3)


@pytest.mark.parametrize(
    ("selector", "offset", "want"),
    [
        pytest.param(0, 7, (9, 28), id="plain"),
        pytest.param(1, 0, (12, 11), id="block-first-line"),
        pytest.param(1, len('device.driver == "b" &&\n') + 2, (13, 13), id="block-second-line"),
    ],
)
def test_characters_of_texts_have_places(good: Path, selector: int, offset: int, want: tuple[int, int]) -> None:
    document = read_manifests([good])[0]
    path = ("spec", "selectors", selector, "cel", "expression")

    assert document.text_place(path, offset) == Place(str(good), *want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "apiVersion：v1\nkind：Pod\n", "full-width punctuation ('：' should be ':')", id="full-width-colon"
        ),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", "a tab in the indentation", id="tab"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata:\nname: a\nspec:\ncontainers:\n- name: x\nimage: y\n",
            "the indentation was lost",
            id="lost-indentation-in-a-list",
        ),
        pytest.param("just text\n", "is no Kubernetes object", id="text"),
        pytest.param("apiVersion: v1\nmetadata: {}\n", "kind missing", id="no-kind"),
        pytest.param("a: [1, 2\nb: 3\n", ":2:2: no valid YAML", id="place-of-the-error"),
    ],
)
def test_broken_files_say_what_they_look_like(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ManifestError) as caught:
        read_manifests([path])
    assert want in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_missing_file_and_a_binary_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")

    with pytest.raises(ManifestError, match="No such file"):
        read_manifests([tmp_path / "absent.yaml"])
    with pytest.raises(ManifestError, match="not UTF-8"):
        read_manifests([tmp_path / "binary"])
