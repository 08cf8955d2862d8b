"""The registry of kinds: one entry for each kind that is served, from which all the rest follows.

To serve one more kind, add a `ServedKind` to `KINDS` (`kinds.catalog`). Paths, discovery, OpenAPI, watches, patches,
tables and garbage collection follow from the entry.

Not here: what an entry's strategy does (`pods`, `claims`, `slices`, ...), what its columns print (`columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.statuses import qualified
from scheduler.embedded.server.strategy import Object, Strategy
from scheduler.validation.field_errors import Json

_METADATA_FIELDS: Final = {"metadata.name": "metadata.name"}
_NAMESPACED_FIELDS: Final = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}

Converter = Callable[[Object], Object]


@dataclass(frozen=True)
class SubResource:
    """A sub-resource that is a request, not a part of the object.

    Attributes:
        answer: `answer(api, kind, namespace, name, body, options=…)`; returns what the object has become, or None where
            the client is answered "Success".
        method: The only one it knows.
        verb: What discovery calls it.
        body: Group, version and kind of the body; empty: that of the object.
    """

    answer: Callable[..., Stored | None]
    method: str = "POST"
    verb: str = "create"
    body: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class ServedKind:
    """One kind at one version.

    Attributes:
        api_version: `v1` or `group/version`.
        storage: Names the kind under which objects are stored, when it is another kind's view
            (events.k8s.io/v1 Event shows the objects of core/v1 Event).
        from_storage, to_storage: Conversions of a view; both may change what they are given.
        selectable: Field selector label -> dotted path, beyond metadata.name and metadata.namespace.
        bookmark: What an empty object of the kind carries besides metadata: Go writes nulls for required lists.
    """

    api_version: str
    kind: str
    strategy: Strategy = field(default_factory=Strategy)
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    sub_resources: Mapping[str, SubResource] = field(default_factory=dict)
    selectable: Mapping[str, str] = field(default_factory=dict)
    bookmark: Mapping[str, Json] = field(default_factory=dict)
    storage: str = ""
    from_storage: Converter | None = None
    to_storage: Converter | None = None

    @cached_property
    def group(self) -> str:
        """Empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @cached_property
    def plural(self) -> str:
        """The resource, by the rule of apimachinery's UnsafeGuessKindToResource; all kinds here keep to it."""
        name = self.kind.lower()
        if name.endswith("y"):
            return f"{name[:-1]}ies"
        return f"{name}es" if name.endswith("s") else f"{name}s"

    @cached_property
    def kind_id(self) -> str:
        """The name the objects are stored under: `pods`, `resourceclaims.resource.k8s.io`."""
        return self.storage or qualified(self.group, self.plural)

    @cached_property
    def prefix(self) -> bytes:
        """The bytes that turn a stored body into an object of this kind."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def field_paths(self) -> Mapping[str, str]:
        return {**(_NAMESPACED_FIELDS if self.is_namespaced else _METADATA_FIELDS), **self.selectable}

    @property
    def sub_resource_names(self) -> tuple[str, ...]:
        """All sub-resources, the status included."""
        return (*(("status",) if self.has_status else ()), *self.sub_resources)

    @property
    def singular(self) -> str:
        """The singular name, as in discovery."""
        return self.kind.lower()


class Registry:
    """The kinds served, found by path, by kind and by storage name."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.kinds: Final = tuple(kinds)
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self.kinds}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in self.kinds}
        self._by_storage = {kind.kind_id: kind for kind in self.kinds if not kind.storage}
        if len(self._by_path) != len(self.kinds) or len(self._by_kind) != len(self.kinds):
            raise ValueError("a kind is registered twice")

    def by_path(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind served under a path."""
        return self._by_path.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind an object or an owner reference names."""
        return self._by_kind.get((api_version, kind))

    def by_storage(self, kind_id: str) -> ServedKind:
        """The kind that stores objects under `kind_id`."""
        return self._by_storage[kind_id]
