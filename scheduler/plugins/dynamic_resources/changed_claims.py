"""A claim as it would be with a change to one of its requests: for questions, never written.

Not here: which changes are worth asking about (`device_causes`, `refused_claims`, `selector_reasons`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from allocator.values.model import Request, RequestAlternative
from scheduler.framework.cluster_view import ClusterView
from scheduler.model.claim import ResourceClaim, template_of
from scheduler.model.held import Held
from scheduler.model.objects import Pod


def label_of(claim: ResourceClaim, pod: Pod) -> str:
    """What a person edits to change the claim: itself, or the template that it was made from."""
    template = template_of(claim, pod)
    return f"ResourceClaimTemplate {claim.key.namespace}/{template}" if template else f"ResourceClaim {claim.key}"


def held_by(claim: ResourceClaim, view: ClusterView) -> tuple[Held, ...]:
    """What counts for the claim: given back where it is released."""
    return tuple([Held(claim.key, claim.uid, one) for one in view.counted(claim.uid)])


def requests_of(claim: ResourceClaim) -> Iterator[str]:
    """Requests and their alternatives, as `req` and `req/sub`."""
    for one in claim.spec.requests if claim.spec is not None else ():
        yield from [one.name] if one.exactly is not None else [f"{one.name}/{sub.name}" for sub in one.first_available]


def alternative_of(claim: ResourceClaim, request: str) -> RequestAlternative | None:
    name, _, sub = request.partition("/")
    for one in claim.spec.requests if claim.spec is not None else ():
        if one.name == name:
            return next((other for other in one.first_available if other.name == sub), None) if sub else one.exactly
    return None


def without_alternative(claim: ResourceClaim, request: str) -> ResourceClaim:
    """The claim whose list lacks `req/sub`."""
    assert claim.spec is not None
    name, _, sub = request.partition("/")
    requests = [
        replace(one, first_available=tuple([other for other in one.first_available if other.name != sub]))
        if one.name == name
        else one
        for one in claim.spec.requests
    ]
    return replace(claim, spec=replace(claim.spec, requests=tuple(requests)))


def with_request(claim: ResourceClaim, request: str, **fields: object) -> ResourceClaim:
    """The claim with another request."""
    assert claim.spec is not None
    name, _, sub = request.partition("/")

    def changed(asked: RequestAlternative) -> RequestAlternative:
        return replace(asked, **fields)  # type: ignore[arg-type]

    def of(one: Request) -> Request:
        if one.name != name:
            return one
        if not sub:
            return replace(one, exactly=changed(one.exactly)) if one.exactly is not None else one
        subs = tuple([changed(other) if other.name == sub else other for other in one.first_available])
        return replace(one, first_available=subs)

    return replace(claim, spec=replace(claim.spec, requests=tuple(map(of, claim.spec.requests))))
