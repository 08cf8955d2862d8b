"""Lint and convert, whole: texts in, findings and converted texts out.

`lint` brings every document to v1 as far as that is possible (`modernize`, `classic`), corrects constraints and
expressions where it is certain what was meant, then checks the v1 object as the API server would, and for what is legal
and will not do. `convert` does the same, writes the v1 objects, and refuses an object with an error that nothing was
done about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.lint.against import check_against
from scheduler.lint.claim_rules import check_admin_access, check_extended_resources, check_rules, map_drivers
from scheduler.lint.classic import is_classic, modernize_classic
from scheduler.lint.constraint_rules import check_constraints
from scheduler.lint.context import Context, Settings
from scheduler.lint.documents import Document, ManifestError, parse_all, repeated_key
from scheduler.lint.emit import convert_text
from scheduler.lint.findings import Finding, Place, Severity
from scheduler.lint.gate_rules import check_gates
from scheduler.lint.modernize import modernize, restore_metadata
from scheduler.lint.pod_rules import check_pods
from scheduler.lint.published import Published, read_published
from scheduler.lint.schema import check_fields
from scheduler.lint.selector_rules import check_names, check_selectors
from scheduler.lint.server_rules import check_server_rules
from scheduler.lint.view import View
from scheduler.lint.workload_rules import check_workload, complete_selector, separate_templates
from scheduler.yaml_reading import without_collector

DEFAULTS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name for messages, and its text."""

    name: str
    text: str


@dataclass(slots=True)
class Report:
    """What was found, file by file.

    `views` are the objects, `broken` texts that could not be read, `empty` says which files have no object.
    """

    views: list[View] = field(default_factory=list)
    broken: list[Finding] = field(default_factory=list)
    empty: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """All findings, by file (in the order given), line and column."""
        order: dict[str, int] = {}
        for view in self.views:
            order.setdefault(view.document.file, len(order))
        found = [*self.broken, *self.empty, *(finding for view in self.views for finding in view.findings)]
        return sorted(
            found,
            key=lambda each: (order.get(each.place.file, -1), each.place.file, each.place.line, each.place.column),
        )

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_error]


@dataclass(frozen=True, slots=True)
class Converted:
    """One file's outcome: `text` without the refused objects; `changes` and `refusals` in the file's order."""

    name: str
    text: str
    is_changed: bool
    changes: tuple[Finding, ...]
    refusals: tuple[Finding, ...]
    notes: tuple[str, ...]


@without_collector()
def lint(sources: Sequence[Source], settings: Settings = DEFAULTS, published: Published | None = None) -> Report:
    """Look at all files together, as a cluster if they have nodes and slices. Never raises for what they hold."""
    report = Report()
    for source in sources:
        parsed = parse_all(source.text, source.name)
        report.broken += (_broken(error) for error in parsed.errors)
        report.views += (View(document) for document in parsed.documents)
        if not (parsed.documents or parsed.errors):
            report.empty.append(_empty(source.name))
    for view in report.views:
        for place, name in view.document.duplicate_keys():
            view.findings.append(
                Finding(
                    "duplicate-key",
                    Severity.ERROR,
                    place,
                    view.document.name,
                    "",
                    repeated_key(view.document, place, name),
                    "a line --- before it" if name in ("apiVersion", "kind") else "one of them",
                    line_text=view.document.line_text(place.line),
                )
            )
        restore_metadata(view)
        if not is_classic(view):
            modernize(view, settings.minor)
    modernize_classic(report.views)
    report.views = separate_templates(report.views)
    for view in report.views:
        complete_selector(view)
    _check(report.views, settings, published)
    return report


def objects_in_v1(documents: Iterable[Document]) -> list[dict[str, Any]]:
    """The objects of a dump, older versions brought to v1: for `read_published`."""
    views = [View(document) for document in documents]
    for view in views:
        if not is_classic(view):
            modernize(view, DEFAULTS.minor)
    return [view.obj for view in views]


def _check(views: Sequence[View], settings: Settings, published: Published | None) -> None:
    context = Context(views, settings, published)
    # Classes first: what their selectors demand decides what a claim's attribute means.
    for view in sorted(views, key=lambda each: each.kind != "DeviceClass"):
        check_constraints(view, context)
        check_selectors(view, context)
    for view in views:
        if not view.is_left_out and not (is_classic(view) and view.obj.get("apiVersion") == view.document.api_version):
            map_drivers(view, context)
            check_fields(view, settings.minor)
            check_workload(view, settings.minor)
            check_rules(view, context)
            check_server_rules(view, settings.minor)
            check_gates(view, context)
    check_pods(context)
    check_against(context)
    check_extended_resources(context)
    check_admin_access(context)
    if published is None and {"Node", "ResourceSlice"} <= {view.kind for view in views}:
        published = read_published(view.obj for view in views)
    if published is not None and published.slices:
        for view in views:
            check_names(view, published)


def convert(
    sources: Sequence[Source], settings: Settings = DEFAULTS, published: Published | None = None
) -> list[Converted]:
    """The files in v1. Never raises for what they hold; a text that is no YAML is a refusal of its file."""
    report = lint(sources, settings, published)
    views_of: defaultdict[str, list[View]] = defaultdict(list)
    broken_of: defaultdict[str, list[Finding]] = defaultdict(list)
    for view in report.views:
        views_of[view.document.file].append(view)
    for finding in report.broken:
        broken_of[finding.place.file].append(finding)
    converted = []
    for source in sources:
        views, broken = views_of[source.name], broken_of[source.name]
        # What was taken out of an object is refused with it, and it with that.
        broken_documents = {id(view.document) for view in views if any(finding.is_refusal for finding in view.findings)}
        refused = {id(view) for view in views if id(view.document) in broken_documents}
        text, notes = ("", []) if broken else convert_text(source.text, source.name, views, refused)
        written = [view for view in views if id(view) not in refused]
        changes = [finding for view in written for finding in view.findings if finding.converted]
        refusals = [finding for view in views for finding in view.findings if finding.is_refusal]
        converted.append(
            Converted(
                source.name,
                text,
                text != source.text,
                tuple(changes),
                (*broken, *refusals),
                tuple(notes),
            )
        )
    return converted


def _empty(name: str) -> Finding:
    place = Place(name, 1, 1)
    return Finding("empty", Severity.WARNING, place, "", "", "there is no object in it: nothing was looked at")


def _broken(error: ManifestError) -> Finding:
    fix = error.fix or "repair the text; `kubectl get ... -o yaml` and the driver's own examples are good beginnings"
    return Finding("broken-yaml", Severity.ERROR, error.place, "", "", error.problem, fix)
