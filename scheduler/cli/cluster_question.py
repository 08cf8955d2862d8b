"""What commands are asked about: a cluster, files, or both; with its gates, configuration and namespace.

Every command that can ask a cluster has these options from here, so they mean the same everywhere, and what kubectl
means by them:
  1. Without -f the cluster is asked: the one of --kubeconfig, $KUBECONFIG, ~/.kube/config or the pod we run in. With -f
     only the files are, unless --kubeconfig or --context asks for a cluster beside them.
  2. Gates: those of --config, over them --feature-gates; what the asked server has off stays off.
  3. A name is looked for in the namespace of -n, else in the context's; where it is not there, and in one other only,
     that one is meant.

Not here: reading files (`manifests`) and clusters (`cluster_objects`).
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.gate_options import gates_option
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import names_of
from scheduler.cli.options import (
    DEFAULT,
    cluster_options,
    files_option,
    find_connection,
    looks_inside,
    size_limit,
    size_option,
    taken_as,
)
from scheduler.cli.terminal import caution, working
from scheduler.model.nearest import nearest, some

if TYPE_CHECKING:
    from allocator import Features
    from scheduler.config import Config
    from scheduler.config.file import ConfigFile
    from scheduler.kube.credentials import Connection
    from scheduler.offline import SourceObject

_NAMED_MAX: Final = 10
_DEFAULT: Final = "default"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OF_THE_CLUSTER: Final = frozenset(
    {
        *("Namespace", "Node", "PriorityClass", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        *("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"),
    }
)
"""Kinds without a namespace."""

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class CommandInput:
    """What was read.

    Attributes:
        listed, written: The cluster's objects; those of the files.
        config: That of --config and --kube-scheduler-config; None without.
        features: The gates, as code paths of the allocator.
        home: The namespace of objects that say none.
        namespace: Where names are looked for first; None: everywhere alike.
        scope: The only namespace whose pods are asked about; None: all.
        is_strict: Whether names are looked for nowhere but in `namespace`.
        unlisted: What could not be read of the cluster, and what answers lack without it.
        version: Of the cluster's API server, also where a dump says it; "" where nobody does.
    """

    listed: Sequence[SourceObject]
    written: Sequence[SourceObject]
    config: Config | None
    features: Features
    home: str
    namespace: str | None
    scope: str | None
    is_strict: bool
    unlisted: tuple[str, ...] = ()
    version: str = ""

    @property
    def given(self) -> list[SourceObject]:
        return [*self.listed, *self.written]

    def find(self, kind: str, written: str, known: Iterable[Key]) -> Key:
        """The object that NAME or NAMESPACE/NAME means.

        Raises:
            WrongInputError: None of the known ones is meant, or several are; says where they are.
        """
        if not written.isprintable():
            raise WrongInputError(f"{written!a} cannot be the name of a {kind}")
        there = sorted(set(known))
        namespace, slash, name = written.removeprefix(f"{kind}/").rpartition("/")
        named = [key for key in there if key[1] == name]
        first = namespace if slash else self.namespace
        found = [key for key in named if key[0] == first]
        if not found and not slash and not self.is_strict:
            found = named
        if len(found) == 1:
            return found[0]
        if found:
            raise WrongInputError(
                f"several {kind}s are named {name}: {_some(found)}; say which with -n NAMESPACE or NAMESPACE/{name}"
            )
        wanted = f"{first}/{name}" if slash or self.is_strict else name or '""'
        more = nearest(name, {key[1] for key in there}) or f"known: {_some(there)}"
        more = f"there is {_some(named)}" if named else more
        raise WrongInputError(f"no {kind} is named {wanted}; {more}")


def _some(keys: Sequence[Key]) -> str:
    return some([*map("/".join, keys)], _NAMED_MAX) or "none"


@dataclass(frozen=True, slots=True)
class ClusterQuestion:
    """The options of `cluster_question`, as they were given."""

    files: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    config_path: Path | None
    feature_gates: Mapping[str, bool]
    kubernetes: str | None
    namespace: str | None
    is_everywhere: bool
    kube_config_path: Path | None = None

    @property
    def is_configured(self) -> bool:
        """Whether a file says which plugins answer."""
        return self.config_path is not None or self.kube_config_path is not None

    def words(self) -> list[str]:
        """The options as they would be given again."""
        gates = ",".join(f"{gate}={str(is_on).lower()}" for gate, is_on in self.feature_gates.items())
        size = size_limit()
        named = (
            *(("--kubeconfig", self.kubeconfig), ("--context", self.context), ("-n", self.namespace)),
            *(("--config", self.config_path), ("--kube-scheduler-config", self.kube_config_path)),
            *(("--kubernetes", self.kubernetes), ("--feature-gates", gates)),
            ("--max-size", size.text if size != DEFAULT else ""),
        )
        flags = [*(["-A"] if self.is_everywhere else []), *(["-R"] if looks_inside() else [])]
        words = [word for name, value in named if value for word in (name, str(value))]
        return [*(word for one in self.files for word in ("-f", one)), *words, *flags]

    def connection(self) -> Connection | None:
        """How to reach the cluster that is asked; None where only files are."""
        if self.files and self.kubeconfig is None and self.context is None:
            return None
        return find_connection(self.kubeconfig, self.context, hint='or files with -f ("-" is standard input)')

    def read(self, *, warns: bool = True, ends: bool = True) -> CommandInput:
        """Read it.

        Args:
            warns: Print warnings.
            ends: The command ends when it has answered, so nothing of this is looked at for garbage.
        """
        from scheduler.garbage_collector import settle
        from scheduler.offline import SourceObject
        from scheduler.validation.releases import version_in

        if self.namespace is not None and not _NAMESPACE.fullmatch(self.namespace):
            raise click.UsageError(f"-n {self.namespace!a}: cannot be the name of a namespace")
        config, connection = self.config(warns=warns), self.connection()
        home, version = self.namespace or _DEFAULT, ""
        gates: Mapping[str, bool] = {}
        listed: list[SourceObject] = []
        unlisted: tuple[str, ...] = ()
        if ends:
            gc.disable()  # all of it stays
        try:
            with working("reading"):
                if connection is not None:
                    from scheduler.cli.cluster_objects import read_cluster

                    read = read_cluster(connection, is_whole=True, warns=warns)
                    gates, unlisted, version = read.gates, read.unlisted, read.version
                    home = self.namespace or read.namespace or _DEFAULT
                    listed = [SourceObject(read.origin, obj) for obj in read.objects]
                written: list[SourceObject] = []
                for one in read_given(self.files):
                    if (said := version_in(one.obj)) is None:
                        written.append(placed(one, home))
                    else:
                        version = version or said
                listed, written = _selected(listed, config), _selected(written, config)
        finally:
            if ends:
                settle(collects=False)
        first = None if self.is_everywhere or (connection is None and self.namespace is None) else home
        is_strict = first is not None and self.namespace is not None
        scope = first if is_strict or not self.files else None
        configured = config if self.is_configured else None
        return CommandInput(
            listed,
            written,
            configured,
            _features(config, version, gates),
            home,
            first,
            scope,
            is_strict,
            unlisted,
            version,
        )

    def config(self, *, warns: bool = True) -> Config:
        """That of --config, with kube-scheduler's profiles, and the gates and the release of the options."""
        from scheduler.config import Config

        config = Config()
        if self.config_path is not None:
            found = _read(self.config_path)
            config = found.config
            for line in found.words if warns else ():
                caution(f"note: {line}", is_error=True)
        if self.kube_config_path is not None:
            from scheduler.config.kube_scheduler import with_their_profiles

            theirs = _read(self.kube_config_path).config
            if theirs.extenders and warns:
                caution(f"note: {self.kube_config_path}: extenders are not asked", is_error=True)
            config = with_their_profiles(config, theirs)
        gates = {**config.feature_gates, **self.feature_gates}
        return config.model_copy(update={"feature_gates": gates, "kubernetes": self.kubernetes or config.kubernetes})


def _read(path: Path) -> ConfigFile:
    from scheduler.config.file import ConfigError, read_config

    try:
        return read_config(path)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _features(config: Config, version: str, gates: Mapping[str, bool]) -> Features:
    """As a scheduler beside this server has them; warnings are printed."""
    from scheduler.validation.releases import minor_of, release_of, release_words

    minor = minor_of(version)
    features = config.features() if minor is None else config.features(release_of(minor))
    for text in release_words(minor, config.kubernetes) if minor is not None else ():
        caution(f"note: {text}", is_error=True)
    if not gates:
        return features
    from scheduler.kube.feature_gates import features_left

    return features_left(features, gates)


cluster_question: Final = taken_as(
    ClusterQuestion,
    "question",
    files_option("Manifests or dumps, or a folder of them"),
    cluster_options("Ask this file's cluster. Without -f default: $KUBECONFIG, ~/.kube/config, the pod's own."),
    click.option(
        "-n",
        "--namespace",
        shell_complete=names_of("namespace"),
        help="Where names are looked for, and what -f files mean. Default: the context's.",
    ),
    click.option("-A", "--all-namespaces", "is_everywhere", is_flag=True, help="Ask about all namespaces."),
    click.option(
        "--config",
        "config_path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The scheduler's configuration file; without it everything is as by default.",
    ),
    click.option(
        "--kube-scheduler-config",
        "kube_config_path",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="kube-scheduler's configuration file: its pods are answered so. Default: as by its default plugins.",
    ),
    gates_option,
    click.option(
        "--kubernetes",
        type=click.Choice(["1.36", "1.37", "1.38"]),
        help="Kubernetes release to follow where releases differ (1.38: a beta). Default: that of --config, or the "
        "cluster's.",
    ),
    size_option,
)
"""Gives a command the options of `ClusterQuestion`, and these in one argument, `question`."""


def read_given(files: Sequence[str]) -> list[SourceObject]:
    """The objects of files and folders."""
    from scheduler.cli.manifests import ManifestError, files_in

    try:
        return [one for path in files_in(files) for one in _of_file(path)]
    except ManifestError as error:
        raise WrongInputError(str(error)) from error


def _of_file(path: str) -> Iterator[SourceObject]:
    from scheduler.cli.json_dumps import dumped_objects
    from scheduler.cli.manifests import parse_documents, read_text
    from scheduler.offline import SourceObject

    name, text = read_text(path)
    dumped = dumped_objects(text)
    if dumped is None:
        yield from [SourceObject(str(one.place()), one.obj) for one in parse_documents(text, name)]
    else:
        yield from (SourceObject(f"{name}: items[{number}]", obj) for number, obj in enumerate(dumped))


def placed(given: SourceObject, namespace: str) -> SourceObject:
    """An object of a file in the namespace that `kubectl apply` would put it into."""
    metadata = given.obj.get("metadata")
    if namespace == _DEFAULT or given.obj.get("kind") in _OF_THE_CLUSTER or not isinstance(metadata, Mapping):
        return given
    if metadata.get("namespace"):
        return given
    return given._replace(obj={**given.obj, "metadata": {**metadata, "namespace": namespace}})


def _selected(given: list[SourceObject], config: Config) -> list[SourceObject]:
    """Without slices that a scheduler of this configuration does not see."""
    wanted = config.slice_selector
    if wanted is None:
        return given
    return [one for one in given if one.obj.get("kind") != "ResourceSlice" or wanted.matches(_slice_keys(one.obj))]


def _slice_keys(obj: Mapping[str, Any]) -> dict[str, str]:
    spec = obj.get("spec")
    pool = spec.get("pool") if isinstance(spec, Mapping) else None
    name = pool.get("name") if isinstance(pool, Mapping) else ""
    return {"driver": str(spec.get("driver")) if isinstance(spec, Mapping) else "", "pool": str(name)}


def keys_of(given: Iterable[SourceObject], kind: str) -> set[Key]:
    """Namespace and name of all objects of a kind, as they were given."""
    keys = set()
    for one in given:
        metadata = one.obj.get("metadata") if one.obj.get("kind") == kind else None
        if isinstance(metadata, Mapping) and metadata.get("name"):
            keys.add((str(metadata.get("namespace") or _DEFAULT), str(metadata["name"])))
    return keys
