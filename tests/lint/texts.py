"""Pieces of manifests that the tests put together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from allocator import Features
from scheduler.explain.linted import check_fit
from scheduler.lint.context import Settings
from scheduler.lint.documents import parse_documents
from scheduler.lint.engine import Source, lint
from scheduler.lint.findings import Finding
from scheduler.lint.published import Published, read_published
from scheduler.offline import SourceObject

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "lint-codes.md"
_ROW = re.compile(r'\| <a id="([-a-z0-9]+)"></a>`\1` \| (error|warning|error or warning) \| [^|]+\. \| [^|]+ \|\n')
SEVERITIES = {code: said.split(" or ") for code, said in _ROW.findall(_PAGE.read_text(encoding="utf-8"))}
"""Of each code that docs/lint-codes.md explains."""


def claim(requests: str, *, version: str = "v1", spec: str = "", devices: str = "") -> str:
    """A claim; `requests`, `spec` and `devices` are YAML with their own indentation from column 0."""
    return (
        f"apiVersion: resource.k8s.io/{version}\nkind: ResourceClaim\nmetadata: {{name: c}}\nspec:\n"
        + indented(spec, 2)
        + "  devices:\n"
        + indented(devices, 4)
        + "    requests:\n"
        + indented(requests, 4)
    )


def selecting(expression: str, *, before: str = 'device.driver == "gpu.example.com"') -> str:
    """A v1 claim whose request has a selector that demands a driver (unless `before` is empty), and `expression`."""
    selectors = "".join(
        f"    - cel:\n        expression: |-\n{indented(text, 10)}" for text in (before, expression) if text
    )
    return claim(f"- name: gpu\n  exactly:\n    deviceClassName: gpu\n    selectors:\n{selectors}")


def pod(claims: str, uses: str = "[{name: gpu}]", *, limits: str = "{}", kind: str = "Pod", more: str = "") -> str:
    """A pod, or with `kind` a workload with a template; `claims` is the list spec.resourceClaims."""
    spec = (
        f"containers:\n- name: main\n  image: x\n  resources: {{limits: {limits}, claims: {uses}}}\n"
        f"resourceClaims: {claims}\n"
    )
    if kind == "Pod":
        return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n{indented(more + spec, 2)}"
    version, selector = ("batch/v1", "") if kind == "Job" else ("apps/v1", "  selector: {matchLabels: {app: w}}\n")
    return (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: w}}\nspec:\n{indented(more, 2)}"
        f"{selector}  template:\n    metadata: {{labels: {{app: w}}}}\n    spec:\n{indented(spec, 6)}"
    )


def indented(text: str, width: int) -> str:
    return "".join(f"{' ' * width}{line}\n" for line in text.splitlines())


def find(*texts: str, published: Published | None = None, **settings: Any) -> list[Finding]:
    """The findings in files `0.yaml`, `1.yaml`, …, beside what is published those about pods that do not fit."""
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts)]
    report = lint(sources, Settings(**settings), published)
    if published is not None:
        check_fit(report.views, [SourceObject("", one) for one in published.objects], now_ms=0, features=Features())
    found = report.findings
    said = [(each.code, each.place, each.field, each.message) for each in found]
    assert len(said) == len(set(said)), "the same is said twice"
    assert [each for each in found if each.severity not in SEVERITIES[each.code]] == []
    return found


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


def dump(text: str) -> Published:
    """What a cluster has, from the text of a dump."""
    return read_published(document.obj for document in parse_documents(text, "dump.yaml"))
