"""Selectors that no device satisfies, or that fail for one: which part of them, and what is published instead.

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
from difflib import SequenceMatcher
from typing import Final

from allocator import AllocationError, ClaimSpec, Device, PausedError
from allocator.requests.requests import Slot
from allocator.requests.selectors import Failure
from allocator.requests.subterms import Subterm, last_subterm
from allocator.values.model import DeviceSelector, Request, RequestAlternative
from scheduler.framework.cluster_view import ClusterView
from scheduler.framework.cycle import Cycle
from scheduler.framework.diagnosis import Limits
from scheduler.model.node_info import NodeInfo
from scheduler.model.selector_mistakes import Mistake, PublishedNames
from scheduler.plugins.dynamic_resources.changed_claims import with_request
from scheduler.plugins.dynamic_resources.node_search import NodeSearch
from scheduler.plugins.dynamic_resources.survey import Survey, survey, within_steps
from scheduler.why.reasons import Fix, Reason, plain_fix, plain_reason

_TERM_LENGTH: Final = 60
_SAID: Final = 3
_DROP: Final = 7
_PLACES_MAX: Final = 8
_NAMES: Final = frozenset(("driver-name", "attribute-name", "attribute-domain"))
_SIZE_OF_CLASS: Final = 8
"""Added to that of the mistake, of which the largest of a claim's own changes have 7."""
_ALIKE: Final = 0.85


def blame_selectors(looked: Survey, slot: Slot) -> Sequence[Reason]:
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
    mistakes = mistakes_of(found.text, found.before, where)
    cause = mistakes[0].cause if mistakes else unmet_term(found, where)
    return (
        plain_reason(
            "selector-unmet",
            f"{looked.named(slot)}: {cause}",
            ("selector", looked.label(slot), cause),
            tuple(_changes(looked, slot, found, mistakes)),
        ),
    )


def blame_selector_errors(
    search: NodeSearch, cycle: Cycle, nodes: Sequence[NodeInfo], view: ClusterView, limits: Limits
) -> Sequence[Reason]:
    """Selectors that fail for a device, so that no node was decided about."""
    try:
        with within_steps(cycle, view):
            looked = survey(search, cycle, nodes, view, limits)
            return list(_errors(looked)) if looked is not None else ()
    except (AllocationError, PausedError):
        return ()


def _errors(looked: Survey) -> Iterator[Reason]:
    for slot in looked.plan.slots:
        for device in looked.devices:
            answer = slot.matcher.answer(device)
            if isinstance(answer, Failure):
                yield _error(looked, slot, device, answer)
                break
            failing = _underivable(slot, device) if answer is None else None
            if failing is not None:
                yield _derivation_error(looked, slot, device, *failing)
                break


def _underivable(slot: Slot, device: Device) -> tuple[str, Failure] | None:
    """A derived attribute of the request whose expression fails for the device."""
    for name, derivation in slot.derivations.items():
        found = derivation.value(device)
        if isinstance(found, Failure):
            return name, found
    return None


def _derivation_error(looked: Survey, slot: Slot, device: Device, name: str, failure: Failure) -> Reason:
    expression = next(one.expression for one in slot.details.derived if one.name == name)
    devices = [one for one in looked.devices if slot.matcher.answer(one) is None]
    mistakes = mistakes_of(expression, devices, f" that the request selects{looked.place()}")
    fails = f"the expression of {name} fails for device {device.id.pool}/{device.id.device}: {failure.text}"
    cause = f"{looked.named(slot)}: {mistakes[0].cause if mistakes else fails}"
    changes = _changes_of_derived(looked, slot, name, mistakes)
    return plain_reason("selector-error", cause, ("derived", name, cause), tuple(changes))


def _changes_of_derived(looked: Survey, slot: Slot, name: str, mistakes: Iterable[Mistake]) -> Iterator[Fix]:
    """Another expression, or no constraint that asks for the attribute."""
    claim, label = looked.claim_of(slot), looked.label(slot)
    if claim is None or claim.spec is None:
        return
    for mistake in mistakes:
        if not mistake.instead:
            continue
        mended = tuple(
            [one._replace(expression=mistake.expression) if one.name == name else one for one in slot.details.derived]
        )
        text = f"write {mistake.instead} in the expression of {name} of {label}: {mistake.expression}"
        changed = with_request(claim, slot.label, derived=mended)
        yield plain_fix(
            mistake.size, text, looked.tried, cause=f"{looked.named(slot)}: {mistake.cause}", claims=(changed,)
        )
    left = tuple([one for one in claim.spec.constraints if one.attribute != name])
    changed = replace(claim, spec=replace(claim.spec, constraints=left))
    yield plain_fix(_DROP, f"drop the constraints on {name} of {label}", looked.tried, claims=(changed,))


def _error(looked: Survey, slot: Slot, device: Device, failure: Failure) -> Reason:
    is_class, place = failure.is_class, looked.place()
    devices = looked.devices if is_class else of_class(looked, slot)
    owner = f"DeviceClass {slot.device_class.name}" if is_class else looked.named(slot)
    expression = (slot.device_class.selectors if is_class else slot.details.selectors)[failure.number].expression or ""
    where = place if is_class else f" of its class{place}"
    mistakes = mistakes_of(expression, devices, where)
    fails = f"the selector fails for device {device.id.pool}/{device.id.device}: {failure.text}"
    cause = f"{owner}: {mistakes[0].cause if mistakes else fails}"
    whole = Subterm(failure.number, (expression,), 0, tuple(devices), ())
    changes = changes_of_class(looked, slot, whole, mistakes) if is_class else _changes(looked, slot, whole, mistakes)
    return plain_reason("selector-error", cause, ("selector", cause), tuple(changes))


def changes_of_class(looked: Survey, slot: Slot, found: Subterm, mistakes: Iterable[Mistake]) -> Iterator[Fix]:
    """What the class was probably meant to say. Its selector is never dropped: the class would select any device."""
    name, selectors, number = slot.device_class.name, slot.device_class.selectors, found.selector
    for mistake in mistakes:
        if not mistake.instead or (mistake.kind == "driver-name" and not is_misspelt(mistake.instead, found.text)):
            continue
        whole = _mended(found.expression(mistake.expression), mistake, found)
        mended = (*selectors[:number], DeviceSelector(whole), *selectors[number + 1 :])
        yield plain_fix(
            _SIZE_OF_CLASS + mistake.size,
            f"write {mistake.instead} in the selector of DeviceClass {name}: {whole}",
            looked.tried,
            command=shlex.join(("kubectl", "edit", "deviceclass", name)),
            classes=(replace(slot.device_class, selectors=mended),),
            harms=True,
        )


def is_misspelt(driver: str, text: str) -> bool:
    """Drivers' names that merely share a domain are of different hardware."""
    return any(SequenceMatcher(None, driver, one).ratio() >= _ALIKE for one in text.replace('"', "'").split("'"))


def _changes(looked: Survey, slot: Slot, found: Subterm, mistakes: Iterable[Mistake]) -> Iterator[Fix]:
    """Another term in the place of this one, or none."""
    claim, label, selectors, number = looked.claim_of(slot), looked.label(slot), slot.details.selectors, found.selector
    on = looked.tried
    if claim is None:
        return
    for mistake in mistakes:
        if not mistake.instead:
            continue
        whole = _mended(found.expression(mistake.expression), mistake, found)
        mended = (*selectors[:number], DeviceSelector(whole), *selectors[number + 1 :])
        yield plain_fix(
            mistake.size,
            f"write {mistake.instead} in the selector of {label}: {whole}",
            on,
            cause=f"{looked.named(slot)}: {mistake.cause}",
            claims=(with_request(claim, slot.label, selectors=mended),),
        )
    rest = found.expression()
    left = (*selectors[:number], *([DeviceSelector(rest)] if rest else []), *selectors[number + 1 :])
    part = "the term" if rest else "the selector"
    yield plain_fix(
        _DROP,
        f"drop or relax {part} `{found.text}` of {label}",
        on,
        claims=(with_request(claim, slot.label, selectors=left),),
    )


def _mended(expression: str, mistake: Mistake, found: Subterm) -> str:
    """The same name put right wherever it stands."""
    for _ in range(_PLACES_MAX if mistake.kind in _NAMES else 0):
        again = mistakes_of(expression, found.before, "")
        same = next((one for one in again if (one.kind, one.instead) == (mistake.kind, mistake.instead)), None)
        if same is None:
            break
        expression = same.expression
    return expression


def mistakes_of(expression: str, devices: Iterable[Device], where: str) -> list[Mistake]:
    """Names and values that none of the devices has, what is like another one first; `where` after "no device"."""
    names = PublishedNames(where)
    for device in devices:
        attributes = [(name, one.kind, str(one.value)) for name, one in device.attributes.items()]
        names.add(device.id.driver, attributes, device.capacity)
    found = [*names.mistakes(expression), *names.unknown(expression)]
    return sorted(found, key=lambda mistake: mistake.kind == "guard")


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
    for full in (f"{domain}/{name}", *([name] if domain == device.id.driver else [])):
        if (attribute := device.attributes.get(full)) is not None:
            return repr(attribute.value) if attribute.kind == "string" else str(attribute.value)
        if (capacity := device.capacity.get(full)) is not None:
            return str(capacity.value)
    return ""


def of_class(looked: Survey, slot: Slot) -> list[Device]:
    """The devices that the request's class selects; one for which it cannot be said is not among them.

    Raises:
        PausedError: not all answers are known, and not to be found out now.
    """
    bare = RequestAlternative("class", slot.device_class.name, (), "ExactCount", 1, None, (), None)
    plan = looked.view.inventory.plan([ClaimSpec((Request("class", bare, ()),), (), ())], slot.features)
    (only,) = plan.slots
    return [device for device in looked.devices if only.matcher.answer(device) is None]
