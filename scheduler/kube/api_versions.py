"""The version in which this server serves a kind, if any; its discovery documents are read each time.

Not here: when to ask (`watch`: before each list), and what to do where there is none.

Source: DeviceTaintRule is served as v1alpha3 from Kubernetes 1.33, v1beta2 from 1.36 (both only with `--runtime-config`
and the feature gate DRADeviceTaintRules), v1 from 1.37. A server that is upgraded, or restarted with other flags,
changes its answer under a running client.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scheduler.kube.outcomes import Accepted, Rejected, UndecodableError, WriteResult

if TYPE_CHECKING:
    from scheduler.kube.api_requests import ApiClient


class ServedAs(NamedTuple):
    """A kind that not every server serves, in the first of `versions` that the server has."""

    group: str
    versions: tuple[str, ...]
    plural: str

    def path(self, version: str) -> str:
        return f"{self.discovery(version)}/{self.plural}"

    def discovery(self, version: str) -> str:
        return f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"

    def __str__(self) -> str:
        return f"{self.plural}{'.' + self.group if self.group else ''} ({', '.join(self.versions)})"


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: tuple[_Resource, ...] | None = None


class UnansweredError(Exception):
    """The server did not say what it serves; `outcome` is its answer."""

    def __init__(self, path: str, outcome: WriteResult) -> None:
        super().__init__(f"GET {path}: {getattr(outcome, 'message', outcome)}")
        self.outcome = outcome


async def find_version(client: ApiClient, wanted: ServedAs) -> str | None:
    """The first of `wanted.versions` that the server serves, None when it serves none of them.

    Raises:
        UnansweredError: It refused, or the answer was lost: nothing is known.
        UndecodableError: It answered with something else.
    """
    for version in wanted.versions:
        path = wanted.discovery(version)
        outcome = await client.send("GET", path)
        if isinstance(outcome, Rejected) and outcome.code == HTTPStatus.NOT_FOUND:
            continue
        if not isinstance(outcome, Accepted):
            raise UnansweredError(path, outcome)
        try:
            listed = msgspec.json.decode(outcome.body, type=_ResourceList).resources or ()
        except msgspec.DecodeError as error:
            raise UndecodableError(f"GET {path}: {error}") from error
        if any(one.name == wanted.plural for one in listed):
            return version
    return None
