"""Changes to what the pod's claims ask for: names, selectors, counts, capacities, constraints.

Rules of this module
  1. A cause states what the objects say; whether it is what keeps the pod from fitting is found out by `search`.

Not here: devices, their pools and who has them (`device_changes`), pods and nodes (`pod_changes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from scheduler.explain.objects import Objects, Request
from scheduler.explain.quantities import exact, written
from scheduler.explain.world import Change, Obj
from scheduler.lint.nearest import listed
from scheduler.model.selector_mistakes import PublishedNames, near

_COUNTS_MAX: Final = 8


def claim_changes(objects: Objects) -> Iterator[Change]:
    """All candidates of this module."""
    yield from _references(objects)
    published = cache(lambda: _published(objects))  # most pods' requests have no selectors
    for request in objects.requests:
        yield from _class_name(objects, request)
        yield from _selectors(request, published)
        yield from _amounts(objects, request)
    yield from _class_selectors(objects, published)
    yield from _constraints(objects)


def _references(objects: Objects) -> Iterator[Change]:
    """Claims and templates that the pod names, and that are not there."""
    namespace, pod = objects.world.pod
    if objects.pod_index is None:
        return
    for place, entry in enumerate(objects.claim_entries()):
        for key, kind in (
            ("resourceClaimName", "ResourceClaim"),
            ("resourceClaimTemplateName", "ResourceClaimTemplate"),
        ):
            name = entry.get(key)
            if not name or objects.find(kind, name, namespace):
                continue
            if key == "resourceClaimTemplateName" and any(source.path == ("spec",) for source in objects.sources):
                continue  # its claim is there already
            yield from _elsewhere(objects, kind, name)
            there = objects.names(kind, namespace)
            meant = near(name, there) or (there[0] if len(there) == 1 else "")
            if meant:

                def edit(obj: Obj, place: int = place, key: str = key, meant: str = meant) -> None:
                    obj["spec"]["resourceClaims"][place][key] = meant

                yield Change(
                    "reference",
                    1,
                    f"{kind} {namespace}/{name}, which the pod names, does not exist",
                    f"in pod {namespace}/{pod} write {key}: {meant} instead of {name}",
                    ((objects.pod_index, edit),),
                )


def _elsewhere(objects: Objects, kind: str, name: str) -> Iterator[Change]:
    """One of this name in another namespace, where a pod cannot use it."""
    namespace, pod = objects.world.pod
    found = objects.find(kind, name)
    if found is None:
        return

    def edit(obj: Obj) -> None:
        obj["metadata"] = {"name": name, "namespace": namespace}
        obj.pop("status", None)

    other = found[1]["metadata"].get("namespace", "default")
    cause = (
        f"{kind} {name} is in namespace {other}, and pod {namespace}/{pod}, which names it, in namespace {namespace}"
    )
    yield Change("namespace", 1, cause, f"make {kind} {name} in namespace {namespace}", ((found[0], edit),))


def _class_name(objects: Objects, request: Request) -> Iterator[Change]:
    name, known = str(request.body.get("deviceClassName")), objects.names("DeviceClass")
    if name in known:
        return
    meant = near(name, known) or (known[0] if len(known) == 1 else "")
    if meant:

        def edit(obj: Obj) -> None:
            request.of(obj)["deviceClassName"] = meant

        yield Change(
            "class-name",
            1,
            f"{request.label} names DeviceClass {name}, which does not exist; {listed(known)}",
            f"write deviceClassName: {meant} instead of {name} in {request.label}",
            ((request.source.place, edit),),
        )


def _published(objects: Objects) -> PublishedNames:
    names = PublishedNames()
    for _, _, spec, device in objects.devices():
        attributes = [
            (name, kind, str(one))
            for name, value in (device.get("attributes") or {}).items()
            for kind, one in (value.items() if isinstance(value, Mapping) else ())
        ]
        names.add(str(spec.get("driver")), attributes, device.get("capacity") or ())
    return names


def _rewritten(
    published: Callable[[], PublishedNames],
    selectors: list[Mapping[str, Any]],
    label: str,
    index: int,
    of: Callable[[Obj], Any],
) -> Iterator[Change]:
    """Changes to CEL selectors; `of` finds the list of selectors' owner in a copy."""
    for place, selector in enumerate(selectors):
        expression = str((selector.get("cel") or {}).get("expression", ""))
        for kind, size, cause, instead, new in published().mistakes(expression):

            def edit(obj: Obj, place: int = place, new: str = new) -> None:
                of(obj)["selectors"][place] = {"cel": {"expression": new}}

            text = f"write {instead} in the selector of {label}: {new}"
            yield Change(kind, size, f"{label}: {cause}", text, ((index, edit),))

        def drop(obj: Obj, place: int = place) -> None:
            of(obj)["selectors"][place] = {"cel": {"expression": "true"}}

        cause = f"{label}: the selector `{expression}` leaves no device that would do"
        yield Change("selector", 7, cause, f"drop or relax the selector `{expression}` of {label}", ((index, drop),))


def _selectors(request: Request, published: Callable[[], PublishedNames]) -> Iterator[Change]:
    selectors = list(request.body.get("selectors") or ())
    yield from _rewritten(published, selectors, request.label, request.source.place, request.of)


def _class_selectors(objects: Objects, published: Callable[[], PublishedNames]) -> Iterator[Change]:
    for name in sorted({str(request.body.get("deviceClassName")) for request in objects.requests}):
        if found := objects.find("DeviceClass", name):
            selectors = list((found[1].get("spec") or {}).get("selectors") or ())
            yield from _rewritten(published, selectors, f"DeviceClass {name}", found[0], lambda obj: obj["spec"])


def _amounts(objects: Objects, request: Request) -> Iterator[Change]:
    """Smaller counts, the largest first, and smaller capacities among those that devices have."""
    count = request.body.get("count", 1)
    for step, less in enumerate(range(count - 1, 0, -1) if isinstance(count, int) else ()):
        if step >= _COUNTS_MAX:
            break

        def fewer(obj: Obj, less: int = less) -> None:
            request.of(obj)["count"] = less

        cause = f"{request.label} asks for {count} devices; there are at most {less} that it could have together"
        yield Change(
            "count",
            3,
            cause,
            f"ask for {less} {'device' if less == 1 else 'devices'} instead of {count} in {request.label}",
            ((request.source.place, fewer),),
            f"count of {request.label}",
        )
    for name, amount in ((request.body.get("capacity") or {}).get("requests") or {}).items():
        for other in _smaller(objects, name, amount):

            def smaller(obj: Obj, name: str = name, other: str = other) -> None:
                request.of(obj)["capacity"]["requests"][name] = other

            cause = f"{request.label} asks for {name} {amount}; no device that it could have has that much left"
            text = f"ask for {name} {other} instead of {amount} in {request.label}"
            amount_of = f"{name} of {request.label}"
            yield Change("capacity", 3, cause, text, ((request.source.place, smaller),), amount_of)


def _smaller(objects: Objects, name: str, amount: Any) -> list[str]:
    """Published capacities and what is left of them beside what claims consume, below an amount, largest first."""
    wanted = exact(amount)
    used: Counter[str] = Counter()
    for _, claim in objects.of("ResourceClaim"):
        results = (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or ()
        for result in results:
            value = exact((result.get("consumedCapacity") or {}).get(name))
            used[str(result.get("device"))] += int(value or 0)
    found = set()
    for _, _, _, device in objects.devices():
        value = exact(((device.get("capacity") or {}).get(name) or {}).get("value"))
        if value is not None and wanted is not None:
            left = int(value) - used[str(device.get("name"))]
            found |= {one for one in (left, int(value)) if 0 < one < wanted}
    return [written(one) for one in sorted(found, reverse=True)[:_COUNTS_MAX]]


def _constraints(objects: Objects) -> Iterator[Change]:
    for source in objects.sources:
        devices = source.spec(objects.world.objects[source.place].obj).get("devices") or {}
        for constraint in devices.get("constraints") or ():
            what = "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
            words = "the same" if what == "matchAttribute" else "different"

            def edit(obj: Obj, source: Any = source, constraint: Any = constraint) -> None:
                wanted = source.spec(obj)["devices"]
                wanted["constraints"] = [one for one in wanted["constraints"] if one != constraint]

            attribute = constraint.get(what)
            cause = f"{source.label}: not enough free devices have {words} {attribute}, which its constraint asks for"
            yield Change(
                "constraint",
                5,
                cause,
                f"drop the constraint {what}: {attribute} of {source.label}",
                ((source.place, edit),),
            )
