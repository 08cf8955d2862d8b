"""The configuration file: a KubeSchedulerConfiguration, a document of our own kind, or both; errors with their places.

Rules of this module
  1. All problems are reported, in the order of the file: `file:line:column: path: what is wrong`, with the nearest
     name or a valid value.
  2. A KubeSchedulerConfiguration is read as kube-scheduler reads it: strictly, null as if it were not there. What v1 no
     longer has is brought to v1 by the rules of `lint`, with a word.

Not here: what can be set (`settings`), rules (`sections`, `profile_config`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scheduler.config.config_findings import may_follow, without
from scheduler.config.fields import UPSTREAM, FieldsError, Section, suggestion
from scheduler.config.plugin_args import ARGS_BY_PLUGIN, PluginArgs
from scheduler.config.profile_config import PluginConfig
from scheduler.config.settings import API_VERSION, KIND, UPSTREAM_API_VERSION, UPSTREAM_KIND, Config
from scheduler.config.words import parts_of, words
from scheduler.lint.documents import Document, ManifestError, parse_documents
from scheduler.lint.findings import Place
from scheduler.lint.scheduler_config import ACCEPTED, CONFIG_GROUP, modernize_config
from scheduler.lint.view import View
from scheduler.model.api_rules import UPSTREAM_FIELDS
from scheduler.yaml_reading import without_nulls

_HEAD: Final = ("apiVersion", "kind")
_ZERO_DURATIONS: Final = ("0", "0s", "0m", "0h", "")

_Path: TypeAlias = tuple[str | int, ...]
_Line: TypeAlias = tuple[int, int, str]


class ConfigError(Exception):
    """The configuration cannot be used; one problem a line, each with file:line:column where there is a file."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file sets, and a line for each setting that is accepted without effect or may surprise."""

    config: Config
    words: tuple[str, ...] = ()


def read_config(path: str | Path) -> ConfigFile:
    """Read a configuration file (YAML or JSON).

    Raises:
        ConfigError: It cannot be read or does not fit; the text has a line for each problem.
    """
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text (byte {error.start}): is this a configuration file?") from error
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror or error}") from error
    return parse_config(text, name)


def parse_config(text: str, name: str) -> ConfigFile:
    """The settings of a text. Raises ConfigError."""
    try:
        documents = list(parse_documents(text, name))
    except ManifestError as error:
        if "no Kubernetes object" not in error.problem:
            raise ConfigError(str(error)) from error
        heads = ((API_VERSION, KIND), (UPSTREAM_API_VERSION, UPSTREAM_KIND))
        wanted = " or ".join(f"apiVersion: {version}, kind: {kind}" for version, kind in heads)
        raise ConfigError(f"{error.place}: a mapping is needed that begins with {wanted}") from error
    return _File(name).read(documents)


class _File:
    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._problems: Final[list[_Line]] = []
        self._complained: Final[set[str]] = set()  # fields that conversion to v1 complains about
        self._words: Final[list[_Line]] = []
        self._values: Final[dict[str, Any]] = {}
        self._document_by_field: Final[dict[str, Document]] = {}
        self._view: View | None = None

    def read(self, documents: Sequence[Document]) -> ConfigFile:
        kinds = [self._kind_of(document) for document in documents]
        self._refuse()
        if len(set(kinds)) != len(kinds):
            self._problem(documents[-1].place(), f"a second document of kind {documents[-1].kind}: put them together")
            self._refuse()
        for document in documents:
            self._add(document)
        is_upstream = self._view is not None
        config = self._validated(is_upstream=is_upstream)
        for path, sentence in words(config, is_upstream=is_upstream and "profiles" not in self._own_fields(documents)):
            place = self._place(path)
            self._words.append((place.line, place.column, f"{_text_of(path)} {sentence}"))
        return ConfigFile(config, tuple(f"{self._name}:{line}:{at}: {said}" for line, at, said in sorted(self._words)))

    def _validated(self, *, is_upstream: bool) -> Config:
        """The settings; raises ConfigError with what is wrong in all sections."""
        values, removed = self._values, set[_Path]()
        while True:
            try:
                config = Config.model_validate(values, context={UPSTREAM: is_upstream})
            except ValidationError as error:
                found = error.errors(include_url=False)
            else:
                self._refuse()
                return config
            paths = [path for one in found for path in self._add_error(one, removed)]
            values, gone = without(values, paths)
            if not gone:
                self._refuse()
                raise AssertionError("a validation error without errors")
            removed |= gone - {_location(one) for one in found if one["type"] == "extra_forbidden"}  # they set nothing

    @staticmethod
    def _own_fields(documents: Sequence[Document]) -> set[str]:
        return {name for document in documents if document.kind == KIND for name in document.obj}

    def _kind_of(self, document: Document) -> str:
        group, _, version = document.api_version.rpartition("/")
        if document.kind == UPSTREAM_KIND and group == CONFIG_GROUP:
            if document.api_version not in ACCEPTED:
                problem = f"apiVersion: {version} is not accepted: write {' or '.join(ACCEPTED)}"
                self._problem(document.place(("apiVersion",), key=True), problem)
        elif document.kind == KIND and document.api_version == API_VERSION:
            pass
        elif document.kind in (KIND, UPSTREAM_KIND):
            wanted = API_VERSION if document.kind == KIND else UPSTREAM_API_VERSION
            self._problem(document.place(("apiVersion",), key=True), f"apiVersion: input should be '{wanted}'")
        else:
            known = suggestion(document.kind, (KIND, UPSTREAM_KIND))
            self._problem(document.place(("kind",), key=True), f"kind: no configuration of a scheduler{known}")
        return document.kind

    def _add(self, document: Document) -> None:
        if document.kind == UPSTREAM_KIND:
            fields = self._in_v1(document)
        else:
            fields = {key: value for key, value in document.obj.items() if key not in _HEAD}
        for key, value in fields.items():
            if key in self._values:
                self._problem(document.place((key,), key=True), f"{key}: is in the other document too: keep one")
            self._values[key] = value
            self._document_by_field[key] = document

    def _in_v1(self, document: Document) -> dict[str, Any]:
        """The fields of a KubeSchedulerConfiguration, as v1 has them."""
        view = self._view = View(document)
        if document.api_version != UPSTREAM_API_VERSION:
            modernize_config(view)
            for finding in view.findings:
                advice = finding.converted or finding.fix
                text = f"{finding.field}: {finding.message}{'; ' if advice else ''}{advice}"
                lines = self._words if finding.converted else self._problems
                lines.append((finding.place.line, finding.place.column, text))
                if lines is self._problems:
                    self._complained.add(finding.field)
        obj = without_nulls(view.obj)
        for key in [key for key in obj if key not in (*_HEAD, *UPSTREAM_FIELDS)]:
            del obj[key]
            if document.api_version == UPSTREAM_API_VERSION:
                self._problem(document.place((key,), key=True), f"{key}: {_unknown_upstream(key)}")
        if obj.get("profiles") == []:
            del obj["profiles"]
        election = obj.get("leaderElection")
        if isinstance(election, dict):
            obj["leaderElection"] = {key: value for key, value in election.items() if value not in _ZERO_DURATIONS}
        return {key: value for key, value in obj.items() if key not in _HEAD}

    def _add_error(self, one: ErrorDetails, removed: Set[_Path]) -> list[_Path]:
        """Note the problem, unless it may come of what was `removed`; the paths it is about."""
        location = _location(one)
        cause = one.get("ctx", {}).get("error")
        if isinstance(cause, FieldsError):
            paths = [(*location, *parts_of(error.field)) for error in cause.errors]
            for path, error in zip(paths, cause.errors, strict=True):
                if _text_of(path) not in self._complained and not may_follow(path, removed):
                    self._problem(self._place(path), f"{_text_of(path)}: {error.body}")
            return [path[: len(location) + 1] for path in paths]  # the parts of the section that break its rules
        text = _text(one, location, self._values)
        self._problem(self._place(location), f"{_text_of(location)}: {text}" if location else text)
        return [location]

    def _place(self, path: _Path) -> Place:
        """Where the value at `path` is written, its key where it is the last part of a mapping."""
        document = self._document_by_field.get(str(path[0])) if path else None
        if document is None:  # a default that does not go with what is written
            fields = [one.place((field,), key=True) for field, one in self._document_by_field.items()]
            return fields[0] if len(fields) == 1 else Place(self._name, 1, 1)
        is_upstream = self._view is not None and document is self._view.document
        written = self._view.origin(path) if is_upstream and self._view is not None else path
        return document.place(written, key=True)

    def _problem(self, place: Place, text: str) -> None:
        line = (place.line, place.column, text)
        if line not in self._problems:
            self._problems.append(line)

    def _refuse(self) -> None:
        if self._problems:
            lines = (f"{self._name}:{line}:{column}: {text}" for line, column, text in sorted(self._problems))
            raise ConfigError("\n".join(lines))


def _unknown_upstream(key: str) -> str:
    ours = {info.alias for info in Config.model_fields.values()}
    if key in ours:
        return f"is no field of kube-scheduler's: put it into a second document (---), of kind {KIND}"
    return f"unknown field{suggestion(key, UPSTREAM_FIELDS)}"


def _location(one: ErrorDetails) -> _Path:
    return tuple(part for part in one["loc"] if isinstance(part, int) or not part.startswith("function-"))


def _text_of(path: _Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _text(one: ErrorDetails, location: _Path, values: Any) -> str:
    if one["type"] == "extra_forbidden":
        known = _section_at(location, values)
        return f"unknown field{suggestion(str(location[-1]), _aliases(known))}"
    message = one["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if message.split(" ")[0] in {"Input", "String"} else message


def _aliases(section: type[Section]) -> Iterator[str]:
    return (info.alias or name for name, info in section.model_fields.items())


def _section_at(location: _Path, values: Any) -> type[Section]:
    """The kind of mapping in which the field at `location` stands."""
    section: type[Section] = Config
    for part in location[:-1]:
        here: Any = values
        values = here[part]
        if isinstance(part, int):
            continue
        if section is PluginConfig and part == "args":
            section = ARGS_BY_PLUGIN.get(here["name"], PluginArgs)
            continue
        field = next(info for name, info in section.model_fields.items() if part in (name, info.alias))
        section = _section_in(field.annotation) or section
    return section


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for one in get_args(annotation) if (found := _section_in(one)) is not None), None)
