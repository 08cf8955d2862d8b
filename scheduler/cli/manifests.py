"""Manifest files, read: text from disk or standard input to objects with places.

Not here: YAML and places (`scheduler.lint.documents`), what the objects mean (allocator, cel, lint).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.options import looks_inside, size_limit
from scheduler.lint.documents import Document, ManifestError, parse_documents
from scheduler.lint.findings import FieldPath

__all__ = [
    "Document",
    "FieldPath",
    "ManifestError",
    "files_in",
    "open_manifests",
    "parse_documents",
    "read_manifest",
    "read_manifests",
    "read_text",
]

_PIECE_BYTES: Final = 1 << 20
_ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


def read_manifests(paths: Sequence[str | Path]) -> list[Document]:
    """The objects of several files and folders, in order; "-" is standard input; `List` objects are taken apart.

    Raises:
        ManifestError: A file cannot be read, is no YAML, or holds something that is no Kubernetes object.
    """
    return [document for path in files_in(paths) for document in read_manifest(path)]


def files_in(paths: Sequence[str | Path]) -> Iterator[str]:
    """Files, and those of folders in the order of their names; folders inside with -R only, as kubectl does.

    Raises:
        ManifestError: A folder has no manifests.
    """
    for path in map(str, paths):
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        inside = Path(path).rglob("*") if looks_inside() else Path(path).iterdir()
        found = sorted(str(one) for one in inside if one.suffix in _ENDINGS and one.is_file())
        if not found:
            raise ManifestError("no file in it ends in .yaml, .yml or .json", path)
        yield from found


def open_manifests(paths: Sequence[str | Path]) -> list[Document]:
    """The same for a command: what cannot be read ends it, with exit code 1."""
    try:
        return read_manifests(paths)
    except ManifestError as error:
        raise WrongInputError(str(error)) from error


def read_manifest(path: str | Path) -> Iterator[Document]:
    """The objects of one file."""
    name, text = read_text(path)
    yield from parse_documents(text, name)


def read_text(path: str | Path) -> tuple[str, str]:
    """A file's name for messages, and its text; as much of it as --max-size allows.

    Raises:
        ManifestError: It cannot be read, is too large, or is not UTF-8.
    """
    name = "<stdin>" if str(path) == "-" else str(path)
    try:
        if name != "<stdin>":
            with Path(path).open("rb") as file:
                raw = _read_bounded(file, name)
        elif sys.stdin is None:
            raise ManifestError("standard input is closed", name)
        else:
            raw = _read_bounded(sys.stdin.buffer, name)
        return name, raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 text (byte {error.start}): is this a manifest?", name) from error
    except OSError as error:
        raise ManifestError(error.strerror or str(error), name) from error


def _read_bounded(file: IO[bytes], name: str) -> bytes:
    """All of a file, in pieces: /dev/zero and a pipe without end are only seen by what they gave already."""
    limit = size_limit()
    pieces: list[bytes] = []
    length = 0
    while piece := file.read(_PIECE_BYTES):
        length += len(piece)
        if length > limit.size:
            raise ManifestError(f"larger than {limit.text}; a manifest? --max-size reads more", name)
        pieces.append(piece)
    return b"".join(pieces)
