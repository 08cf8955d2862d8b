"""`dra-scheduler lint`: what is old or wrong in manifests.

Exit codes: 0 nothing wrong (warnings are allowed, unless --strict), 1 errors found, 2 wrong use, or no object at all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.gate_options import gates_option
from scheduler.cli.options import (
    cluster_options,
    files_option,
    find_connection,
    kubernetes_option,
    output_option,
    size_option,
    taken_as,
)
from scheduler.cli.tables import print_document
from scheduler.cli.terminal import caution, echo, verdict, working

if TYPE_CHECKING:
    from scheduler.lint.context import Settings
    from scheduler.lint.engine import Report, Source
    from scheduler.lint.findings import Finding
    from scheduler.lint.published import Published


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments that `lint` and `convert` share, as they were given."""

    paths: tuple[str, ...]
    files: tuple[str, ...]
    kubernetes: str
    driver: str
    driver_map: tuple[str, ...]
    feature_gates: dict[str, bool]
    against: tuple[str, ...]
    kubeconfig: str | None
    context: str | None

    def read(self, *, asks: bool = False) -> tuple[list[Source], Settings, Published | None, list[Finding]]:
        """The files, how to judge them, what to compare them with, and a finding for each file that cannot be read.

        Args:
            asks: Of a cluster all is read that decides which pods fit.
        """
        if not (self.paths or self.files):
            raise click.UsageError('name files or folders ("-" is standard input)')
        settings = find_settings(self.kubernetes, self.driver, self.driver_map, self.feature_gates)
        published = find_published(self.against, self.kubeconfig, self.context, asks=asks)
        sources, unread = read_sources((*self.paths, *self.files))
        return sources, settings, published, unread


takes_inputs: Final = taken_as(
    Inputs,
    "inputs",
    click.argument("paths", nargs=-1, type=click.Path(allow_dash=True), metavar="[FILE]…"),
    files_option("The same as FILE: a manifest, or a folder of them"),
    kubernetes_option,
    click.option(
        "--driver",
        default="",
        help="The driver whose attributes are meant where an expression names no domain.",
    ),
    click.option(
        "--driver-map",
        "driver_map",
        multiple=True,
        metavar="WRITTEN=DRIVER",
        help="What a driver is called: --driver-map nvidia.com/gpu=gpu.nvidia.com (repeatable).",
    ),
    click.option(
        "--against",
        multiple=True,
        type=click.Path(allow_dash=True),
        help="Compare with what a cluster has: files or folders of `dra-scheduler dump` or kubectl get "
        "resourceslices,deviceclasses,nodes,pods,resourceclaims -A -o yaml (repeatable).",
    ),
    cluster_options("Compare with this cluster; reads the same objects, changes nothing."),
    gates_option,
    size_option,
)
"""Gives a command the options of `Inputs`, and these in one argument."""


@click.command()
@takes_inputs
@output_option("text", "json", "yaml")
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
def lint(inputs: Inputs, *, output: str, strict: bool) -> None:
    """Find what is old or wrong in manifests (YAML or JSON; folders of them; - is stdin).

    Says file, line and field, since and until which release a shape was served, and what to write
    in resource.k8s.io/v1. `dra-scheduler convert` writes it.

    \b
    dra-scheduler lint deploy/
    dra-scheduler lint claims.yaml --against dump.yaml --strict
    dra-scheduler lint claims.yaml --context prod
    """
    from scheduler.lint.engine import lint as lint_sources

    sources, settings, published, unread = inputs.read(asks=True)
    with working("looking"):
        report = lint_sources(sources, settings, published)
        notes = _check_fit(report, settings, published)
    findings = [*unread, *report.findings]
    errors = sum(finding.is_error for finding in findings)
    warnings = len(findings) - errors
    if output != "text":
        print_document({"kind": "LintFindings", "items": [finding.as_json() for finding in findings]}, output)
    else:
        for finding in findings:
            lines = finding.as_text().split("\n")
            verdict(*lines, is_good=False) if finding.is_error else caution(*lines)
        echo(f"{len(report.views)} objects: {errors} errors, {warnings} warnings", is_error=True)
    for note in notes:
        caution(f"note: {note}", is_error=True)
    if not (report.views or errors):
        sys.exit(2)  # who pipes something here believes that it was looked at
    sys.exit(1 if errors or (strict and warnings) else 0)


def _check_fit(report: Report, settings: Settings, published: Published | None) -> list[str]:
    """Which pods do not fit, where there is a cluster to ask about; what was not looked at."""
    there = published.objects if published is not None else []
    kinds = {obj.get("kind") for obj in there} | {view.kind for view in report.views}
    if not {"Node", "ResourceSlice"} <= kinds:
        return ["which pods fit is not looked at: there is no Node, or no ResourceSlice"] if there else []
    from scheduler.config import Config
    from scheduler.explain.linted import check_fit
    from scheduler.kube.feature_gates import features_left
    from scheduler.offline import SourceObject
    from scheduler.validation.releases import release_of

    features = Config(feature_gates=dict(settings.gates)).features(release_of(settings.minor))
    if published is not None and published.gates:
        features = features_left(features, published.gates)
    now_ms = time.time_ns() // 1_000_000
    return check_fit(report.views, [SourceObject("", obj) for obj in there], now_ms=now_ms, features=features)


def find_settings(kubernetes: str, driver: str, driver_map: Sequence[str], gates: Mapping[str, bool]) -> Settings:
    """The settings of the options; a usage error when there is no such version, or a pair is none."""
    from cel.checker.environments import minor_of
    from scheduler.lint.context import Settings
    from scheduler.model.api_rules import LOCKED_GATES
    from scheduler.validation.device_rules import check_driver

    pairs = {}
    for given in driver_map:
        written, equals, meant = given.partition("=")
        if not (equals and written):
            raise click.UsageError(f"--driver-map {given}: must be WRITTEN=DRIVER")
        for error in check_driver(meant, "DRIVER"):
            raise click.UsageError(f"--driver-map {given}: {error}")
        pairs[written] = meant
    try:
        release = f"1.{minor_of(kubernetes)}"
    except ValueError as error:
        raise click.UsageError(f"--kubernetes: {error}") from None
    for gate in sorted(gate for gate in LOCKED_GATES.get(release, ()) if gates.get(gate) is False):
        raise click.UsageError(f"--feature-gates {gate}=false: it is locked to true since Kubernetes {release}")
    return Settings(kubernetes=release, driver=driver, driver_map=pairs, gates=gates)


def read_sources(files: Sequence[str]) -> tuple[list[Source], list[Finding]]:
    """The files' texts, and a finding for each that cannot be read."""
    from scheduler.cli.manifests import ManifestError, files_in, read_text
    from scheduler.lint.engine import Source
    from scheduler.lint.findings import Finding, Severity

    sources: dict[str, Source] = {}
    unread = []
    for path in dict.fromkeys(files):
        try:
            for file in files_in([path]):
                if file not in sources:
                    sources[file] = Source(*read_text(file))
        except ManifestError as error:
            unread.append(Finding("unreadable", Severity.ERROR, error.place, "", "", error.problem))
    return list(sources.values()), unread


def find_published(
    against: Sequence[str], kubeconfig: str | None, context: str | None, *, asks: bool
) -> Published | None:
    """What --against, --kubeconfig and --context name; None when none is given."""
    from scheduler.lint.engine import objects_in_v1
    from scheduler.lint.published import read_published

    if not against and kubeconfig is None and context is None:
        return None
    objects: list[dict[str, Any]] = []
    gates: Mapping[str, bool] = {}
    if against:
        from scheduler.cli.manifests import ManifestError, read_manifests

        try:
            objects += objects_in_v1(read_manifests(against))
        except ManifestError as error:
            raise click.UsageError(f"--against: {error}") from None
    if kubeconfig is not None or context is not None:
        from scheduler.cli.cluster_objects import read_cluster

        read = read_cluster(find_connection(kubeconfig, context), is_whole=asks)
        objects, gates = objects + read.objects, read.gates
    published = read_published(objects, gates)
    for problem in published.problems:
        echo(f"warning: {problem}", is_error=True)
    if not (published.slices or published.classes or published.nodes):
        echo("warning: no ResourceSlices, DeviceClasses or Nodes to compare with", is_error=True)
    return published
