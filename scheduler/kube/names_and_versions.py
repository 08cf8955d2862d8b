"""What a collection holds, without the objects: who takes over compares it with what its watch has brought.

Rules of this module
  1. Both reads are consistent: without a version in the question, they show all that was stored before it was asked.
  2. Only names, uids and revisions are asked for (PartialObjectMetadataList). A server that does not know that form
     sends the objects, and the answer is the same.

Not here: what follows from a difference (`watch`).

Cost: see docs/adr/0019-lease.md, Consequences.

Source: Kubernetes 1.36 API concepts, "Receiving resources as Tables", "Retrieving large results sets in chunks".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias
from urllib.parse import urlencode

import msgspec

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.outcomes import JSON, Accepted
from scheduler.kube.watched_kind import ListMeta
from scheduler.model.keys import ObjectKey
from scheduler.model.objects import Record

PAGE_SIZE: Final = 5_000  # some 5 MB, most of it managedFields
_ACCEPT: Final = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

Known: TypeAlias = Mapping[ObjectKey, tuple[str, str]]
"""Uid and resource version by name."""


class _Meta(Record, frozen=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""


class _Item(Record, frozen=True):
    metadata: _Meta


class _Head(Record, frozen=True):
    metadata: ListMeta


class _Page(_Head, frozen=True):
    items: tuple[_Item, ...] | None = None


_head_decoder = msgspec.json.Decoder(_Head)
_page_decoder = msgspec.json.Decoder(_Page)


class Stored(msgspec.Struct, frozen=True):
    """All objects of a kind as they were at `revision`."""

    revision: int
    objects: Known

    def is_known(self, known: Known) -> bool:
        """Whether `known` is this, but for what changed or came later. False, too, when some went later."""
        for name, stored in self.objects.items():
            found = known.get(name)
            if found != stored and (found is None or revision_of(found[1]) <= self.revision):
                return False
        return all(name in self.objects or revision_of(last) > self.revision for name, (_, last) in known.items())


async def read_newest_version(client: ApiClient, path: str) -> int:
    """That of the server's storage; 0 when it does not say."""
    outcome = await client.send("GET", f"{path}?limit=1", accept=_ACCEPT)
    if not isinstance(outcome, Accepted):
        return 0
    try:
        return revision_of(_head_decoder.decode(outcome.body).metadata.resource_version)
    except msgspec.DecodeError:
        return 0


async def read_stored(client: ApiClient, path: str) -> Stored | None:
    """What the server's storage has now; None when it does not say."""
    objects: dict[ObjectKey, tuple[str, str]] = {}
    token, revision = "", 0
    while True:
        query = {"limit": str(PAGE_SIZE)} | ({"continue": token} if token else {})
        outcome = await client.send("GET", f"{path}?{urlencode(query)}", accept=_ACCEPT)
        if not isinstance(outcome, Accepted):
            return None
        try:
            page = _page_decoder.decode(outcome.body)
        except msgspec.DecodeError:
            return None
        for one in page.items or ():
            meta = one.metadata
            objects[ObjectKey(meta.namespace, meta.name)] = (meta.uid, meta.resource_version)
        revision, token = revision_of(page.metadata.resource_version), page.metadata.continue_
        if not token:
            return Stored(revision, objects) if revision else None


def revision_of(version: str) -> int:
    """A resource version as a number; 0 (unknown) when it is none."""
    return int(version) if version.isdecimal() else 0
