"""Manifest files, read: text from disk or standard input to objects with places.

Not here: YAML and places (`scheduler.lint.documents`), what the objects mean (allocator, cel, lint).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scheduler.lint.documents import Document, FieldPath, ManifestError, Place, parse_documents

__all__ = ["Document", "FieldPath", "ManifestError", "Place", "read_manifest", "read_manifests", "read_text"]


def read_manifests(paths: Sequence[str | Path]) -> list[Document]:
    """The objects of several files, in order; "-" is standard input; `List` objects are taken apart.

    Raises:
        ManifestError: A file cannot be read, is no YAML, or holds something that is no Kubernetes object.
    """
    return [document for path in paths for document in read_manifest(path)]


def read_manifest(path: str | Path) -> Iterator[Document]:
    """The objects of one file."""
    name, text = read_text(path)
    yield from parse_documents(text, name)


def read_text(path: str | Path) -> tuple[str, str]:
    """A file's name for messages, and its text.

    Raises:
        ManifestError: It cannot be read, or is not UTF-8.
    """
    name = "<stdin>" if str(path) == "-" else str(path)
    try:
        return name, sys.stdin.read() if str(path) == "-" else Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 text (byte {error.start}): is this a manifest?", name) from error
    except OSError as error:
        raise ManifestError(error.strerror or str(error), name) from error
