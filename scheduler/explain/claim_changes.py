"""Changes to what the pod's claims ask for: names, selectors, counts, capacities, constraints.

Rules of this module
  1. A cause states what the objects say; whether it is what keeps the pod from fitting is found out by `search`.

Not here: devices, their pools and who has them (`device_changes`), pods and nodes (`pod_changes`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from scheduler.explain.objects import Objects, Request
from scheduler.explain.quantities import exact, written
from scheduler.explain.world import Change, Obj
from scheduler.lint.nearest import listed

_NAMES_MAX: Final = 2_000
_COUNTS_MAX: Final = 8
_ATTRIBUTE: Final = re.compile(r"""device\.(attributes|capacity)\[\s*(["'])([^"']+)\2\s*\]\s*\.\s*([A-Za-z_]\w*)""")
_COMPARED: Final = re.compile(_ATTRIBUTE.pattern + r"""\s*==\s*(["'])([^"']*)\5""")
_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*(["'])([^"']*)\1""")


def near(name: str, known: list[str]) -> str:
    """The existing name that was probably meant, or nothing."""
    close = get_close_matches(name, known, 1) if len(known) <= _NAMES_MAX else []
    return close[0] if close and close[0] != name else ""


def claim_changes(objects: Objects) -> Iterator[Change]:
    """All candidates of this module."""
    yield from _references(objects)
    published = _Published(objects)
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


class _Published:
    """Attributes and capacities that devices have: on how many, and with which values."""

    def __init__(self, objects: Objects) -> None:
        self.counts: Final[Counter[tuple[str, str, str]]] = Counter()
        self.values: Final[dict[tuple[str, str, str], Counter[tuple[str, str]]]] = {}
        self.drivers: Final[Counter[str]] = Counter()
        for _, _, spec, device in objects.devices():
            driver = str(spec.get("driver"))
            self.drivers[driver] += 1
            for what in ("attributes", "capacity"):
                for full, value in (device.get(what) or {}).items():
                    domain, slash, name = full.rpartition("/")
                    key = what, domain if slash else driver, name
                    self.counts[key] += 1
                    if what == "attributes" and isinstance(value, Mapping):
                        typed = self.values.setdefault(key, Counter())
                        typed.update((kind, str(one)) for kind, one in value.items())

    def rewritings(self, expression: str) -> Iterator[tuple[str, int, str, str, str]]:
        """Kind, size, cause, what is written instead, and the new expression."""
        for found in _DRIVER.finditer(expression):
            meant = near(found[2], list(self.drivers))
            if found[2] not in self.drivers and meant:
                cause = f"no device has the driver {found[2]}; {meant} publishes {self.drivers[meant]}"
                yield "driver-name", 1, cause, meant, _put(expression, found, 2, meant)
        for found in _ATTRIBUTE.finditer(expression):
            yield from self._named(expression, found)
        for found in _COMPARED.finditer(expression):
            yield from self._compared(expression, found)

    def _named(self, expression: str, found: re.Match[str]) -> Iterator[tuple[str, int, str, str, str]]:
        what, domain, name = found[1], found[3], found[4]
        if (what, domain, name) in self.counts:
            guard = f'"{name}" in device.{what}["{domain}"] && '
            have, total = self.counts[what, domain, name], self.drivers.total()
            if have < total:
                cause = f"{total - have} of {total} devices have no {what} {domain}/{name}"
                yield "guard", 4, cause, f"{guard}…", f"({guard}({expression}))"
            return
        cause = f"no device has {what} {domain}/{name}"
        names = [one for kind, place, one in self.counts if kind == what and place == domain]
        if meant := near(name, names):
            text = f"{cause}; {self.counts[what, domain, meant]} have {domain}/{meant}"
            yield "attribute-name", 1, text, meant, _put(expression, found, 4, meant)
        domains = [place for kind, place, one in self.counts if kind == what and one == name]
        if domains:
            meant = near(domain, domains) or domains[0]
            text = f"{cause}; {self.counts[what, meant, name]} have {meant}/{name}"
            yield "attribute-domain", 1, text, meant, _put(expression, found, 3, meant)

    def _compared(self, expression: str, found: re.Match[str]) -> Iterator[tuple[str, int, str, str, str]]:
        _, domain, name, value = found[1], found[3], found[4], found[6]
        values = self.values.get(("attributes", domain, name))
        if not values or ("string", value) in values:
            return
        text = f"no device has {domain}/{name} equal to the string {value!r}"
        if any(kind == "version" for kind, _ in values):
            quoted = f"semver({found[5]}{value}{found[5]})"
            cause = f"{domain}/{name} is a version, and the selector compares it with a string"
            whole = expression[: found.start(6) - 1] + quoted + expression[found.end(6) + 1 :]
            yield "version", 1, cause, quoted, whole
        there = [one for kind, one in values if kind == "string"]
        meant = near(value, there) or near(value.lower(), [one.lower() for one in there])
        meant = next((one for one in there if meant in (one, one.lower())), "") if meant else ""
        for other in [meant] if meant else there[:3]:
            more = f"{text}; {values['string', other]} have {other!r}"
            yield "attribute-value", 2 if meant else 4, more, repr(other), _put(expression, found, 6, other)


def _put(expression: str, found: re.Match[str], group: int, text: str) -> str:
    return expression[: found.start(group)] + text + expression[found.end(group) :]


def _rewritten(
    published: _Published, selectors: list[Mapping[str, Any]], label: str, index: int, of: Callable[[Obj], Any]
) -> Iterator[Change]:
    """Changes to CEL selectors; `of` finds the list of selectors' owner in a copy."""
    for place, selector in enumerate(selectors):
        expression = str((selector.get("cel") or {}).get("expression", ""))
        for kind, size, cause, instead, new in published.rewritings(expression):

            def edit(obj: Obj, place: int = place, new: str = new) -> None:
                of(obj)["selectors"][place] = {"cel": {"expression": new}}

            text = f"write {instead} in the selector of {label}: {new}"
            yield Change(kind, size, f"{label}: {cause}", text, ((index, edit),))

        def drop(obj: Obj, place: int = place) -> None:
            of(obj)["selectors"][place] = {"cel": {"expression": "true"}}

        cause = f"{label}: the selector `{expression}` leaves no device that would do"
        yield Change("selector", 7, cause, f"drop or relax the selector `{expression}` of {label}", ((index, drop),))


def _selectors(request: Request, published: _Published) -> Iterator[Change]:
    selectors = list(request.body.get("selectors") or ())
    yield from _rewritten(published, selectors, request.label, request.source.place, request.of)


def _class_selectors(objects: Objects, published: _Published) -> Iterator[Change]:
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
        )
    for name, amount in ((request.body.get("capacity") or {}).get("requests") or {}).items():
        for other in _smaller(objects, name, amount):

            def smaller(obj: Obj, name: str = name, other: str = other) -> None:
                request.of(obj)["capacity"]["requests"][name] = other

            cause = f"{request.label} asks for {name} {amount}; no device that it could have has that much left"
            text = f"ask for {name} {other} instead of {amount} in {request.label}"
            yield Change("capacity", 3, cause, text, ((request.source.place, smaller),))


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
