"""Old and wrong manifests: what is the matter with them, since when, and what they are in resource.k8s.io/v1.

Pure: texts and objects in, findings and texts out; no I/O, no clock. See docs/manifests.md for what is recognized.
"""

from scheduler.lint.context import Settings
from scheduler.lint.emit import join_files
from scheduler.lint.engine import Converted, Report, Source, convert, lint, objects_in_v1
from scheduler.lint.findings import Finding, Severity
from scheduler.lint.published import Published, read_published
from scheduler.lint.repartitioned import repartitioned

__all__ = [
    "Converted",
    "Finding",
    "Published",
    "Report",
    "Settings",
    "Severity",
    "Source",
    "convert",
    "join_files",
    "lint",
    "objects_in_v1",
    "read_published",
    "repartitioned",
]
