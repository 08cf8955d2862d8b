"""Selectors that no device satisfies, and what fails for one: which part of it, and what is published instead.

Rules of this module
  1. Only devices that the request's class selects are counted: what other drivers publish explains nothing.
  2. The part that is named is the first of the selector's terms with which no device is left.
  3. A change of a DeviceClass concerns every team: it is larger than any change of the pod's own claim.

Not here: what is a mistake (`model.selector_mistakes`), asking as if it were mended (`core.reports.cause_search`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from msgspec import structs

from allocator import ClaimSpec, Device, PausedError
from allocator.requests.requests import Slot
from allocator.requests.selectors import Failure
from allocator.requests.subterms import Subterm, last_subterm
from allocator.values.model import (
    Attribute,
    Constraint,
    DeviceCapacity,
    DeviceSelector,
    Request,
    RequestAlternative,
)
from allocator.values.pool_attribute import published
from scheduler.model.selector_mistakes import Mistake, PublishedNames
from scheduler.model.selector_reading import Selector
from scheduler.plugins.dynamic_resources.changed_claims import with_request
from scheduler.plugins.dynamic_resources.constraint_reasons import without_constraint
from scheduler.plugins.dynamic_resources.survey import Survey
from scheduler.why.reasons import Fix, Reason, Whom

_TERM_LENGTH: Final = 60
_SAID: Final = 3
_SMALLER: Final = 3
_MORE_OF_CLASS: Final = 8
"""Than of the mistake, of which the largest of a claim's own changes have 7."""
_PLACES_MAX: Final = 8
_NAMES: Final = frozenset(("driver-name", "attribute-name", "attribute-domain"))


def diagnose_selectors(looked: Survey, slot: Slot) -> Sequence[Reason]:
    """The request's own selectors, of which some term leaves none of the devices that its class selects.

    Raises:
        PausedError: not all answers are known, and not to be found out now.
    """
    devices, selectors = of_class(looked, slot), slot.details.selectors
    if not devices or not selectors:
        return ()
    expressions = [one.expression or "" for one in selectors]
    try:
        found = last_subterm(expressions, devices, slot.features, slot.matcher.meter)
    except PausedError:  # too long a selector to be taken apart
        if any(slot.matcher.answer(device) is None for device in devices):
            return ()
        found = Subterm(0, (expressions[0],), 0, tuple(devices), ())
    if found is None:
        return ()
    where = f" of its class{looked.place()}"
    if len(found.before) < len(devices):
        where = f" of the {len(found.before)} that its other terms leave"
    mistakes = PublishedNames(found.before, where).mistakes(found.text) or smaller_amounts(found, where)
    fact = mistakes[0].cause if mistakes else unmet_term(found, where)
    fields = {"owner": looked.named(slot), "fact": fact}
    return (Reason("selector-unmet", fields, fixes=tuple(_changes(looked, slot, found, mistakes))),)


def diagnose_selector_errors(looked: Survey) -> Iterator[Reason]:
    """Selectors, and expressions of derived attributes, that fail for a device, so that no node was decided about."""
    for slot in looked.plan.slots:
        yield from islice(_errors(looked, slot), 1)


def _errors(looked: Survey, slot: Slot) -> Iterator[Reason]:
    for device in looked.devices:
        answer = slot.matcher.answer(device)
        if isinstance(answer, Failure):
            yield _error(looked, slot, device, answer)
        for name, derivation in slot.derivations.items() if answer is None else ():
            if isinstance(failure := derivation.value(device), Failure):
                yield _derivation_error(looked, slot, device, name, failure)
        if answer is None and (constraint := _incomparable(looked, slot, device)) is not None:
            yield _incomparable_error(looked, slot, device, constraint)


def _incomparable(looked: Survey, slot: Slot, device: Device) -> Constraint | None:
    """A constraint on an attribute of which the device has a value that cannot be compared."""
    constraints = [looked.plan.claims[slot.claim].constraints[number] for number in slot.constraints]
    return next((one for one in constraints if published((device,), one.attribute, slot.features).failed), None)


def _incomparable_error(looked: Survey, slot: Slot, device: Device, constraint: Constraint) -> Reason:
    claim, attribute = looked.claim(slot), constraint.attribute
    fixes = tuple(without_constraint(looked, claim, constraint)) if claim is not None else ()
    fields = {"owner": looked.named(slot), "attribute": attribute, "device": f"{device.id.pool}/{device.name}"}
    return Reason("selector-error", fields, "incomparable", fixes=fixes)


def _derivation_error(looked: Survey, slot: Slot, device: Device, name: str, failure: Failure) -> Reason:
    expression = next(one.expression for one in slot.details.derived if one.name == name)
    devices = [one for one in looked.devices if slot.matcher.answer(one) is None]
    names = PublishedNames(devices, f" that the request selects{looked.place()}")
    mistakes = names.mistakes(expression)
    reason = _failing(looked.named(slot), mistakes, device, failure, name)
    return structs.replace(reason, fixes=tuple(_changes_of_derived(looked, slot, name, mistakes)))


def _failing(owner: str, mistakes: Sequence[Mistake], device: Device, failure: Failure, attribute: str = "") -> Reason:
    """What is probably wrong, else the error of one device."""
    if mistakes:
        return Reason("selector-error", {"owner": owner, "fact": mistakes[0].cause})
    failed = f"{device.id.pool}/{device.id.device}"
    fields = {"owner": owner, "device": failed, "error": failure.text, "attribute": attribute}
    return Reason("selector-error", fields, "derived" if attribute else "fails")


def _changes_of_derived(looked: Survey, slot: Slot, name: str, mistakes: Iterable[Mistake]) -> Iterator[Fix]:
    """Another expression, or neither the attribute nor a constraint that asks for it: the API server wants both."""
    claim, label = looked.claim(slot), looked.label(slot)
    if claim is None or claim.spec is None:
        return
    for one in mistakes:
        if one.instead:
            text, derived = one.expression, slot.details.derived
            mended = tuple([other._replace(expression=text) if other.name == name else other for other in derived])
            reason = Reason("selector-error", {"owner": looked.named(slot), "fact": one.cause})
            fix = _written(one, one.expression, f"expression of {name}", label, looked)
            yield structs.replace(fix, reason=reason, claims=(with_request(claim, slot.label, derived=mended),))
    left = tuple([one for one in claim.spec.constraints if one.attribute != name])
    rest = tuple([one for one in slot.details.derived if one.name != name])
    changed = with_request(replace(claim, spec=replace(claim.spec, constraints=left)), slot.label, derived=rest)
    yield Fix("constraints-dropped", {"request": label, "attribute": name}, looked.on, claims=(changed,))


def _written(mistake: Mistake, whole: str, part: str, owner: str, looked: Survey) -> Fix:
    fields = {"instead": mistake.instead, "part": part, "owner": owner, "whole": whole}
    return Fix("expression-mended", fields, looked.on, more=mistake.size - 1)


def _error(looked: Survey, slot: Slot, device: Device, failure: Failure) -> Reason:
    is_class, place = failure.is_class, looked.place()
    devices = looked.devices if is_class else of_class(looked, slot)
    owner = f"DeviceClass {slot.device_class.name}" if is_class else looked.named(slot)
    expression = (slot.device_class.selectors if is_class else slot.details.selectors)[failure.number].expression or ""
    mistakes = PublishedNames(devices, place if is_class else f" of its class{place}").mistakes(expression)
    whole = Subterm(failure.number, (expression,), 0, tuple(devices), ())
    reason = _failing(owner, mistakes, device, failure)
    changes = changes_of_class if is_class else partial(_changes, kind=reason.kind)
    return structs.replace(reason, fixes=tuple(changes(looked, slot, whole, mistakes)))


def changes_of_class(looked: Survey, slot: Slot, found: Subterm, mistakes: Iterable[Mistake]) -> Iterator[Fix]:
    """What the class was probably meant to say. Its selector is never dropped: the class would select any device."""
    name = slot.device_class.name
    for mistake, whole, mended in _mended_selectors(slot.device_class.selectors, found, mistakes):
        fix = _written(mistake, whole, "selector", f"DeviceClass {name}", looked)
        yield structs.replace(
            fix,
            more=fix.more + _MORE_OF_CLASS,
            command=shlex.join(("kubectl", "edit", "deviceclass", name)),
            classes=(replace(slot.device_class, selectors=mended),),
            whom=Whom.OTHERS,
        )


def _changes(
    looked: Survey, slot: Slot, found: Subterm, mistakes: Iterable[Mistake], kind: str = "selector-unmet"
) -> Iterator[Fix]:
    """Another term in the place of this one, or none; `kind` of the reason."""
    claim, selectors, number = looked.claim(slot), slot.details.selectors, found.selector
    if claim is None:
        return
    for mistake, whole, mended in _mended_selectors(selectors, found, mistakes):
        reason = Reason(kind, {"owner": looked.named(slot), "fact": mistake.cause})
        fix = _written(mistake, whole, "selector", looked.label(slot), looked)
        yield structs.replace(fix, reason=reason, claims=(with_request(claim, slot.label, selectors=mended),))
    rest = found.expression()
    left = (*selectors[:number], *([DeviceSelector(rest)] if rest else []), *selectors[number + 1 :])
    fields = {"term": found.text, "part": "term" if rest else "selector"}
    yield from looked.asking(slot, "selector-dropped", fields, selectors=left)


def _mended_selectors(
    selectors: tuple[DeviceSelector, ...], found: Subterm, mistakes: Iterable[Mistake]
) -> Iterator[tuple[Mistake, str, tuple[DeviceSelector, ...]]]:
    """Each mistake for which something may be meant, with the whole selector as it would be, and all of them."""
    for mistake in mistakes:
        if mistake.instead:
            whole = _mended(found.expression(mistake.expression), mistake, found)
            at = found.selector
            yield mistake, whole, (*selectors[:at], DeviceSelector(whole), *selectors[at + 1 :])


def _mended(expression: str, mistake: Mistake, found: Subterm) -> str:
    """The same name put right wherever it stands."""
    for _ in range(_PLACES_MAX if mistake.kind in _NAMES else 0):
        again = PublishedNames(found.before).mistakes(expression)
        same = next((one for one in again if (one.kind, one.instead) == (mistake.kind, mistake.instead)), None)
        if same is None:
            break
        expression = same.expression
    return expression


def smaller_amounts(found: Subterm, where: str) -> list[Mistake]:
    """The most that a device has of a capacity of which the term asks for more."""
    mistakes, read = [], Selector(found.text)
    for (_, domain, name, *_), asked in read.amounts:
        having = [_found(device, domain.text, name.text) for device in found.before]
        there = [one.value for one in having if isinstance(one, DeviceCapacity)]
        most = str(max(there)) if there else asked.text
        if most != asked.text:
            less, cause = read.put(asked, most), unmet_term(found, where)
            mistakes.append(Mistake("capacity-amount", _SMALLER, cause, f'quantity("{most}")', less))
    return mistakes


def unmet_term(found: Subterm, where: str) -> str:
    """That no device satisfies the term, and what devices have of that which it reads."""
    values = []
    for domain, name in found.reads[:_SAID]:
        there = dict.fromkeys(one for device in found.before if (one := _value(device, domain, name)))
        if there:
            values.append(f"{domain}/{name} is {', '.join(list(there)[:_SAID])}")
    said = f"{', '.join(values)}, and " if values else ""
    return f"{said}no device{where} satisfies `{shortened(found.text)}`"


def shortened(text: str) -> str:
    """A long term without its middle, in one line."""
    text = " ".join(text.split())
    half = _TERM_LENGTH // 2
    return text if len(text) <= _TERM_LENGTH else f"{text[:half]}…{text[-half:]}"


def _value(device: Device, domain: str, name: str) -> str:
    """As people write it, "" where the device has none."""
    one = _found(device, domain, name)
    is_text = one is not None and not isinstance(one, DeviceCapacity) and one.kind == "string"
    return "" if one is None else repr(one.value) if is_text else str(one.value)


def _found(device: Device, domain: str, name: str) -> Attribute | DeviceCapacity | None:
    """A name without a domain has the driver's."""
    full = f"{domain}/{name}"
    short = name if domain == device.id.driver else full
    of = device.attributes.get(full) or device.attributes.get(short)
    return of or device.capacity.get(full) or device.capacity.get(short)


def of_class(looked: Survey, slot: Slot) -> list[Device]:
    """The devices that the request's class selects; one for which it cannot be said is not among them.

    Raises:
        PausedError: not all answers are known, and not to be found out now.
    """
    bare = RequestAlternative("class", slot.device_class.name, (), "ExactCount", 1, None, (), None)
    plan = looked.view.inventory.plan([ClaimSpec((Request("class", bare, ()),), (), ())], slot.features)
    (only,) = plan.slots
    return [device for device in looked.devices if only.matcher.answer(device) is None]
