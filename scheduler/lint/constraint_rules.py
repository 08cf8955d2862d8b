"""Constraints of claims that were never valid, as what they meant: `matchAttribute`, or selectors.

Not here: constraints inside a request (`modernize` lifts them out), limits (`schema`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from scheduler.lint.context import Context, is_id, legal_id
from scheduler.lint.findings import FieldPath
from scheduler.lint.view import View, claim_specs, mapping, request_parts, sequence, text

_LISTS: Final = {"matchAttributes": "matchAttribute", "distinctAttributes": "distinctAttribute"}
_TEXTS: Final = ("cel", "expression", "selector", "selectors")
_AMOUNT: Final = re.compile(r"\d+(?:\.\d+)?[KMGTPE]i")
_SINGLES: Final = ("matchAttribute", "distinctAttribute")


def check_constraints(view: View, context: Context) -> None:
    """Look at every constraint of a claim or template, and rewrite those that v1 can express."""
    for path, spec in claim_specs(view):
        devices = mapping(spec.get("devices"))
        constraints = devices.get("constraints")
        if isinstance(constraints, list):
            _Constraints(view, context, path, spec, devices).run(constraints)


class _Constraints:
    def __init__(
        self, view: View, context: Context, path: FieldPath, spec: dict[str, Any], devices: dict[str, Any]
    ) -> None:
        self.view = view
        self.context = context
        self.path: FieldPath = (*path, "devices", "constraints")
        self.spec = spec
        self.spec_path = path
        self.devices = devices

    def run(self, constraints: list[Any]) -> None:
        kept: list[tuple[FieldPath, Any]] = []
        for index, constraint in enumerate(constraints):
            here: FieldPath = (*self.path, index)
            written = self.view.origin(here)
            entries = [constraint] if not isinstance(constraint, dict) else list(self.meant(here, constraint))
            kept += ((written, entry) for entry in entries)
        if [entry for _, entry in kept] == constraints:
            return
        if kept:
            self.devices["constraints"] = [entry for _, entry in kept]
        else:
            del self.devices["constraints"]
        for index, (written, _) in enumerate(kept):
            self.view.moved((*self.path, index), written)

    def meant(self, path: FieldPath, constraint: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The constraints that one entry stands for: itself when it is right, or when its meaning is not certain."""
        wrong = next((name for name in (*_LISTS, "attributes", *_TEXTS) if name in constraint), None)
        if wrong is None and any(isinstance(constraint.get(name), list) for name in _SINGLES):
            wrong = next(name for name in _SINGLES if isinstance(constraint.get(name), list))
        if wrong is None:
            yield self.qualified(path, constraint)
        elif wrong in _LISTS or wrong in _SINGLES:
            yield from self.split(path, constraint, wrong)
        elif not self.as_selectors(path, constraint, wrong):
            yield constraint

    def split(self, path: FieldPath, constraint: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        """One constraint for each attribute of a list."""
        single = _LISTS.get(name, name)
        value = constraint[name]
        names = value if isinstance(value, list) else [value]
        others = sorted(set(constraint) - {"requests", name})
        full = [self.full_name(each, constraint) for each in names if isinstance(each, str)]
        can_split = not others and bool(names) and len(full) == len(names) and None not in full
        self.view.never_valid(
            "constraint-attribute-list",
            (*path, name),
            f"a constraint has one {single}, a text with its domain"
            + ("" if can_split or others else self.why_no_domain(names)),
            f"one constraint for each: {{requests: [...], {single}: <domain>/<name>}}",
            converted=f"{single}: {', '.join(str(each) for each in full)}" if can_split else "",
            key=True,
        )
        if not can_split:
            yield constraint
            return
        requests = {"requests": constraint["requests"]} if "requests" in constraint else {}
        for attribute in full:
            yield {**requests, single: attribute}

    def qualified(self, path: FieldPath, constraint: dict[str, Any]) -> dict[str, Any]:
        """The constraint with the domain that its attribute needs."""
        for single in _SINGLES:
            name = constraint.get(single)
            if not isinstance(name, str) or "/" in name:
                continue
            full = self.full_name(name, constraint)
            self.view.never_valid(
                "unqualified-constraint",
                (*path, single),
                f"{single} needs the attribute with its domain" + ("" if full else self.why_no_domain([name])),
                f"{single}: {full or f'<domain>/{legal_id(name)}'}",
                converted=f"{single}: {full}" if full else "",
            )
            if full:
                constraint = {**constraint, single: full}
        return constraint

    def as_selectors(self, path: FieldPath, constraint: dict[str, Any], name: str) -> bool:
        """Turn a test of devices into selectors of the requests; whether that was possible."""
        expressions = self.expressions(constraint, name)
        others = sorted(set(constraint) - {"requests", name})
        parts = self.parts(constraint)
        can_convert = bool(expressions) and not others and bool(parts)
        shown = " && ".join(expressions) if expressions else 'device.attributes["<domain>"].<name> == ...'
        self.view.never_valid(
            "constraint-as-selector",
            (*path, name),
            f"a constraint has no {name}; a test that each device must pass is a selector of the request"
            + ("" if expressions or name != "attributes" else self.why_no_domain(list(mapping(constraint[name])))),
            f"spec.devices.requests[].exactly.selectors: [{{cel: {{expression: {shown}}}}}]",
            converted=f"selectors of the requests: {shown}" if can_convert else "",
            key=True,
        )
        if can_convert:
            written = self.view.origin((*path, name))
            for part_path, part in parts:
                selectors = part.setdefault("selectors", [])
                for expression in expressions:
                    self.view.moved((*part_path, "selectors", len(selectors)), written)
                    selectors.append({"cel": {"expression": expression}})
        return can_convert

    def expressions(self, constraint: dict[str, Any], name: str) -> list[str]:
        """The CEL that a constraint means; empty when that is not certain."""
        value = constraint[name]
        if name != "attributes":
            return [found] if (found := _cel_text(value)) else []
        if not isinstance(value, dict) or not value:
            return []
        terms = []
        for key, wanted in value.items():
            # "40Gi" of memory is an amount, and whoever asks for an amount takes more.
            is_amount = isinstance(wanted, str) and _AMOUNT.fullmatch(wanted) is not None
            full = self.full_name(key, constraint, "capacity" if is_amount else "attributes")
            if full is None or not isinstance(wanted, str | bool | int):
                return []
            domain, _, short = full.partition("/")
            terms.append(
                f'device.capacity["{domain}"].{short}.compareTo(quantity("{wanted}")) >= 0'
                if is_amount
                else f'device.attributes["{domain}"].{short} == {json.dumps(wanted)}'
            )
        return terms

    def parts(self, constraint: dict[str, Any]) -> list[tuple[FieldPath, dict[str, Any]]]:
        """The requests (and alternatives) a constraint is about; empty when one of them is not there."""
        wanted = constraint.get("requests")
        everything = list(request_parts(self.spec_path, self.spec))
        if not wanted:
            found = everything
        elif isinstance(wanted, list) and all(isinstance(each, str) for each in wanted):
            found = [entry for entry in everything if entry[1] in wanted or entry[1].partition("/")[0] in wanted]
            names = {name for _, reference, _ in found for name in (reference, reference.partition("/")[0])}
            if not set(wanted) <= names:
                return []
        else:
            return []
        if not all(isinstance(part.get("selectors", []), list) for _, _, part in found):
            return []
        return [(path, part) for path, _, part in found]

    def full_name(self, name: str, constraint: dict[str, Any], which: str = "attributes") -> str | None:
        """`domain/id`, None when the domain is not known or the id is none."""
        domain, slash, written = name.rpartition("/")
        short = self.context.name_meant(which, written)
        if not written or (slash and not domain):
            return None
        if slash:
            domain = self.context.driver_meant(domain) or domain
            certain = short == written or self.context.is_name_certain(which, domain, short)
            return f"{domain}/{short}" if "/" not in domain and certain else None
        drivers: set[str] = set()
        for _, part in self.parts(constraint):
            drivers |= self.context.drivers_of_class(text(part.get("deviceClassName")))
            drivers |= self.context.pins_of(part.get("selectors"))
        found = self.context.domain_finder(drivers)(which, short)
        return f"{found}/{short}" if found else None

    def why_no_domain(self, names: list[Any]) -> str:
        missing = [name for name in names if isinstance(name, str) and "/" not in name]
        illegal = [name for name in names if isinstance(name, str) and not is_id(name.rpartition("/")[2])]
        if illegal:
            return f"; {illegal[0]!r} is no legal name, the nearest is {legal_id(illegal[0].rpartition('/')[2])}"
        return f"; which domain publishes {missing[0]} is not known here" if missing else ""


def _cel_text(value: Any) -> str:
    """The expression in `cel: {expression: ...}`, `cel: ...`, or a list with one of these."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    for _ in range(3):
        if isinstance(value, dict) and len(value) == 1:
            value = value.get("cel", value.get("expression"))
    return text(value).strip() if not sequence(value) else ""
