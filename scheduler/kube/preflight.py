"""Before the first watch: is this server new enough, does it serve what we need, may we do what we do.

Not here: what to do about it. A missing permission is named with its verb and resource, ready to be put into a role.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Final

import msgspec
import orjson

from scheduler.kube.api_requests import ApiClient
from scheduler.kube.codec import RESOURCE_API
from scheduler.kube.lease import LEASE_API
from scheduler.kube.outcomes import Accepted, Rejected, Unknown, WriteResult, text_of
from scheduler.kube.permissions import LEASES, NAMELESS, OPTIONAL, PERMISSIONS, Permission

log = logging.getLogger(__name__)

OLDEST: Final = (1, 34)
_BINDING_SINCE: Final = (1, 36)
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REVIEWS_AT_ONCE: Final = 8  # each opens a connection: no more than the watches then use


class PreflightError(Exception):
    """The scheduler cannot work with this server; one problem a line, each saying what is missing.

    `may_pass`: without our doing. The server did not answer or is in trouble, or rights are missing that somebody may
    grant.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Preflight(msgspec.Struct, frozen=True):
    """What was found. `minor` is the server's; `warnings` cost a feature, not correctness."""

    version: str
    minor: int
    warnings: tuple[str, ...] = ()


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _ReviewStatus


async def check(
    client: ApiClient,
    permissions: Iterable[Permission] = PERMISSIONS,
    *,
    lease_namespace: str | None = None,
    leases: Sequence[str] = (),
) -> Preflight:
    """Ask the server.

    Args:
        lease_namespace: Where our lease is; None: without leader election.
        leases: The names of ours, which a role may be limited to.

    Raises:
        PreflightError: It cannot be reached, is too old, does not serve DRA, or refuses something we need.
    """
    version = await _server_version(client)
    numbers = _numbers(version)
    if numbers < OLDEST:
        raise PreflightError(
            f"the API server is Kubernetes {version.git_version}; "
            f"{OLDEST[0]}.{OLDEST[1]} or newer is needed (resource.k8s.io/v1)"
        )
    served = await client.send("GET", RESOURCE_API)
    if not isinstance(served, Accepted):
        if (problem := _problem(served, client)) is not None:
            raise problem
        raise PreflightError(
            f"the API server ({version.git_version}) does not serve resource.k8s.io/v1: {text_of(served)}; "
            "enable it with --runtime-config=resource.k8s.io/v1=true"
        )
    turn = asyncio.Semaphore(_REVIEWS_AT_ONCE)
    rights = _missing_permissions(client, turn, permissions, numbers)
    if lease_namespace is None:
        missing, warnings = await rights
    else:
        (missing, warnings), served, for_leases = await asyncio.gather(
            rights, client.send("GET", LEASE_API), _missing_for_leases(client, turn, lease_namespace, leases)
        )
        if not isinstance(served, Accepted):
            raise PreflightError(
                f"the API server ({version.git_version}) does not serve leases.coordination.k8s.io: {text_of(served)}; "
                "without leader election, --leader-elect=false, see to it that no second scheduler has this name"
            )
        missing += for_leases
    if missing:
        role = "manifests/base/rbac.yaml holds the role that grants all of them"
        raise PreflightError("\n".join([*missing, role]), may_pass=True)
    return Preflight(version.git_version, numbers[1], tuple(warnings))


async def read_version(client: ApiClient) -> str:
    """The server's version, as "v1.37.2"; "" where it does not say."""
    try:
        return (await _server_version(client)).git_version
    except PreflightError:
        return ""


async def _server_version(client: ApiClient) -> _Version:
    outcome = await client.send("GET", "/version")
    if not isinstance(outcome, Accepted):
        raise _problem(outcome, client) or PreflightError(
            f"GET /version: this does not look like a Kubernetes API server: {text_of(outcome)}"
        )
    try:
        return msgspec.json.decode(outcome.body, type=_Version)
    except msgspec.DecodeError as error:
        raise PreflightError(f"GET /version: this does not look like a Kubernetes API server: {error}") from error


def _problem(outcome: WriteResult, client: ApiClient) -> PreflightError | None:
    """The error for a server that does not answer or refuses the credentials; None for any other outcome."""
    whose = f" of {client.origin}" if client.origin else ""
    match outcome:
        case Unknown() | Rejected(code=0 | HTTPStatus.TOO_MANY_REQUESTS):
            return PreflightError(f"the API server does not answer: {text_of(outcome)}", may_pass=True)
        case Rejected(code=HTTPStatus.UNAUTHORIZED):
            return PreflightError(f"the API server does not accept the credentials{whose}: {text_of(outcome)}")
        case Rejected(code=HTTPStatus.FORBIDDEN):
            return PreflightError(f"the API server refuses what the credentials{whose} ask for: {text_of(outcome)}")
        case _:
            return None


def _numbers(version: _Version) -> tuple[int, int]:
    """(1, 36); "36+" counts as 36, as some providers write it."""
    major, minor = (re.match(r"\d+", text) for text in (version.major, version.minor))
    if major is None or minor is None:
        raise PreflightError(f"GET /version: no Kubernetes version in {version.git_version or 'the answer'!r}")
    return int(major[0]), int(minor[0])


async def _missing_permissions(
    client: ApiClient, turn: asyncio.Semaphore, permissions: Iterable[Permission], server: tuple[int, int]
) -> tuple[list[str], list[str]]:
    asked = [(permission, verb) for permission in permissions for verb in permission.verbs]
    answers = await asyncio.gather(*(_is_allowed(client, turn, permission, verb) for permission, verb in asked))
    missing: list[str] = []
    warnings: list[str] = []
    for (permission, verb), is_allowed in zip(asked, answers, strict=True):
        if is_allowed is not False:
            continue
        one = permission._replace(verbs=(verb,))
        if cost := OPTIONAL.get((permission.group, permission.resource, verb)):
            warnings.append(f"not permitted: {one}; {cost}")
        elif permission.resource != "resourceclaims/binding" or server >= _BINDING_SINCE:
            missing.append(f"not permitted: {one} (in all namespaces)")
    return missing, warnings


async def _missing_for_leases(
    client: ApiClient, turn: asyncio.Semaphore, namespace: str, names: Sequence[str]
) -> list[str]:
    asked = [(verb, name) for verb in LEASES.verbs for name in ([""] if verb == NAMELESS else names or [""])]
    answers = await asyncio.gather(*(_is_allowed(client, turn, LEASES, verb, namespace, name) for verb, name in asked))
    return [
        f"not permitted: {LEASES._replace(verbs=(verb,))} (in namespace {namespace})"
        + (f": the Role's resourceNames must have {name}" if name else "")
        for (verb, name), is_allowed in zip(asked, answers, strict=True)
        if is_allowed is False
    ]


async def _is_allowed(  # noqa: PLR0917 - as the server is asked
    client: ApiClient, turn: asyncio.Semaphore, permission: Permission, verb: str, namespace: str = "", name: str = ""
) -> bool | None:
    """The server's answer; None where it does not answer such questions (no authorization, an embedded server)."""
    resource, _, subresource = permission.resource.partition("/")
    attributes = {"group": permission.group, "resource": resource, "subresource": subresource, "verb": verb}
    if namespace:
        attributes["namespace"] = namespace
    if name:
        attributes["name"] = name
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    async with turn:
        outcome = await client.send("POST", _REVIEWS, orjson.dumps(review))
    if isinstance(outcome, Accepted):
        try:
            return msgspec.json.decode(outcome.body, type=_Review).status.allowed
        except msgspec.DecodeError as error:
            log.warning("cannot check %s %s: %s", verb, permission.resource, error)
            return None
    if isinstance(outcome, Rejected) and outcome.code in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        return None
    log.warning("cannot check %s %s: %s", verb, permission.resource, text_of(outcome))
    return None
