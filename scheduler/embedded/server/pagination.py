"""LIST in pages: `limit`, `continue`, and the consistency between pages.

All pages of a list show the state of the first one. The pages that are still to come are kept (they are
references, not copies); when too many lists are left unfinished the oldest is forgotten, and its next
page is a 410, as after etcd's compaction.

Source: k8s.io/apiserver v0.36.3 pkg/storage/{continue.go,etcd3/store.go}.
"""

from __future__ import annotations

import base64
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from scheduler.embedded.server.list_params import EXACT, ListParams
from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.rest import Api
from scheduler.embedded.server.statuses import bad_request, expired, too_large_resource_version
from scheduler.embedded.server.views import View
from scheduler.validation.field_errors import Json

UNFINISHED_LISTS_MAX: Final = 64


class Lists:
    """Answers LIST requests."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._unfinished: OrderedDict[str, tuple[int, Sequence[Stored]]] = OrderedDict()

    def forget(self) -> None:
        """Forget the unfinished lists, as a restart does."""
        self._unfinished.clear()

    def page(self, view: View, namespace: str, params: ListParams) -> bytes:
        """One page, or the whole list without `limit`.

        Raises:
            ApiError: 410 for a forgotten continuation or revision, 504 for a revision not yet reached.
        """
        if params.continue_token:
            revision, items = self._resume(params.continue_token)
        else:
            revision = self._check_revision(view, params)
            items = self._api.select(view.kind, namespace, params.labels, params.fields)
        metadata: dict[str, Json] = {"resourceVersion": str(revision)}
        if 0 < params.limit < len(items):
            rest = items[params.limit :]
            items = items[: params.limit]
            metadata["continue"] = self._keep(revision, rest)
            if params.labels is None and params.fields is None:
                metadata["remainingItemCount"] = len(rest)
        return view.listing(items, metadata)

    def _check_revision(self, view: View, params: ListParams) -> int:
        asked, store = params.revision, self._api.store
        if asked > store.revision:
            raise too_large_resource_version(asked, store.revision)
        if params.version_match == EXACT and store.changed_after(view.kind.kind_id, asked):
            # Old states are not kept; etcd answers the same way once it has compacted them.
            raise expired("The resourceVersion for the provided list is too old.")
        return asked if params.version_match == EXACT else store.revision

    def _keep(self, revision: int, rest: Sequence[Stored]) -> str:
        token = base64.urlsafe_b64encode(secrets.token_bytes(18)).decode()
        self._unfinished[token] = (revision, rest)
        while len(self._unfinished) > UNFINISHED_LISTS_MAX:
            self._unfinished.popitem(last=False)
        return token

    def _resume(self, token: str) -> tuple[int, Sequence[Stored]]:
        try:
            base64.urlsafe_b64decode(token)
        except ValueError:
            raise bad_request(f"continue key is not valid: {token}") from None
        kept = self._unfinished.get(token)
        if kept is None:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        return kept
