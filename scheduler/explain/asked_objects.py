"""The objects of a question by kind, and the claims of its pod with their requests.

Rules of this module
  1. What has a wrong type is passed over: the API server, or the machine, says so elsewhere.

Not here: changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from scheduler.explain.world import World
from scheduler.kube.codec import Codec
from scheduler.kube.outcomes import UndecodableError
from scheduler.model.api_rules import POD_CLAIM_NAME_ANNOTATION
from scheduler.model.owners import edited_object


class Source(NamedTuple):
    """A claim of the pod, or the template that its claim is made from.

    Attributes:
        place: The index of the object.
        label: How messages name it.
        path: From the object to the claim's spec.
    """

    place: int
    label: str
    path: tuple[str, ...]

    def spec(self, obj: Mapping[str, Any]) -> Any:
        """The claim's spec within the object."""
        for key in self.path:
            obj = obj[key]
        return obj


class Request(NamedTuple):
    """A request, or an alternative of one; `body` is what names the class."""

    source: Source
    name: str
    body: Mapping[str, Any]

    @property
    def label(self) -> str:
        """`request NAME of ResourceClaim NAMESPACE/NAME`."""
        return f"request {self.name} of {self.source.label}"


class Objects:
    """The objects of one question by kind, and what of them concerns its pod."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.by_kind: Final[dict[str, list[tuple[int, Mapping[str, Any]]]]] = {}
        for index, given in enumerate(world.objects):
            if isinstance(given.obj.get("metadata"), Mapping):
                self.by_kind.setdefault(str(given.obj.get("kind")), []).append((index, given.obj))
        found = self.find("Pod", *reversed(world.pod))
        self.pod_index: Final = found[0] if found else None
        self.pod: Final[Mapping[str, Any]] = found[1] if found else {}
        self.sources: Final = list(self._sources())
        self.requests: Final = list(self._requests())

    def of(self, kind: str) -> list[tuple[int, Mapping[str, Any]]]:
        """All objects of a kind with their indexes."""
        return self.by_kind.get(kind, [])

    def find(self, kind: str, name: str, namespace: str = "") -> tuple[int, Mapping[str, Any]] | None:
        """The last one given, which is the one that stands."""
        for index, obj in reversed(self.of(kind)):
            metadata = obj["metadata"]
            if metadata.get("name") == name and (not namespace or metadata.get("namespace", "default") == namespace):
                return index, obj
        return None

    def names(self, kind: str, namespace: str = "") -> list[str]:
        """The names of a kind, of one namespace where that is said."""
        return [
            str(obj["metadata"].get("name"))
            for _, obj in self.of(kind)
            if not namespace or obj["metadata"].get("namespace", "default") == namespace
        ]

    @property
    def edited(self) -> str:
        """What a person edits to change the pod: itself, or what makes such pods."""
        metadata = {"uid": "unknown", "namespace": self.world.pod[0], "resourceVersion": "1"}
        stored = {**self.pod, "metadata": {**metadata, **(self.pod.get("metadata") or {})}}
        try:
            return edited_object(Codec().decode_pod(orjson.dumps(stored)))
        except UndecodableError:
            return f"pod {'/'.join(self.world.pod)}"

    def claim_entries(self) -> list[Mapping[str, Any]]:
        """The pod's `spec.resourceClaims`."""
        return list((self.pod.get("spec") or {}).get("resourceClaims") or ())

    def claims(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The pod's claims that exist: named by it, or made for it."""
        namespace = self.world.pod[0]
        named = {one.get("resourceClaimName") for one in self.claim_entries()}
        named |= {
            one.get("resourceClaimName") for one in (self.pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        for name in sorted(name for name in named if name):
            if found := self.find("ResourceClaim", name, namespace):
                yield found

    def _sources(self) -> Iterator[Source]:
        namespace = self.world.pod[0]
        made = set()
        for index, obj in self.claims():
            metadata = obj["metadata"]
            entry = (metadata.get("annotations") or {}).get(POD_CLAIM_NAME_ANNOTATION)
            made.add(entry)
            label = f"ResourceClaim {namespace}/{metadata['name']}"
            template = next(
                (one.get("resourceClaimTemplateName") for one in self.claim_entries() if one.get("name") == entry), ""
            )
            label = f"ResourceClaimTemplate {namespace}/{template}" if template else label
            yield Source(index, label, ("spec",))
        for entry in self.claim_entries():
            name = entry.get("resourceClaimTemplateName")
            if (
                name
                and entry.get("name") not in made
                and (found := self.find("ResourceClaimTemplate", name, namespace))
            ):
                yield Source(found[0], f"ResourceClaimTemplate {namespace}/{name}", ("spec", "spec"))

    def _requests(self) -> Iterator[Request]:
        for source in self.sources:
            devices = source.spec(self.world.objects[source.place].obj).get("devices") or {}
            for request in devices.get("requests") or ():
                name = str(request.get("name"))
                if isinstance(request.get("exactly"), Mapping):
                    yield Request(source, name, request["exactly"])
                for sub in request.get("firstAvailable") or ():
                    yield Request(source, f"{name}/{sub.get('name')}", sub)
