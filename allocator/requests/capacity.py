"""Consumable capacity: what a share of a device consumes, and whether it is allowed.

All amounts are compared exactly, in units of 10^-9. Upstream changes quantities like 2.5Gi in place while
adding up; nothing here is ever changed.

Source: structured/internal/incubating/consumable_capacity.go v0.36.3, and v0.37.2 for `has_137_semantics`.
Differs on purpose: `default` is recognised by value, not by Go's representation (no valid object can tell);
a step that is not positive rejects the device instead of dividing by zero; amounts beyond int64 stay exact
(upstream reads 10E as 0, so such a request took nothing); a capacity has one name, with its driver's or without, and
nothing negative is given, whatever the release (kube-scheduler: since 1.38).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from allocator.values.features import Features
from allocator.values.model import DeviceCapacity, RequestPolicy, ValidRange
from cel.quantity import Quantity

_INT64_MAX: Final = 2**63 - 1
_NANO_PER_MILLI: Final = 10**6
_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(ValueError):
    """1.37: a request that no device could serve in its arithmetic; aborts the whole pod."""


class Consumption(NamedTuple):
    """What one share takes: (name, amount) sorted by name, and the same as (name, amount, capacity) in 10^-9."""

    amounts: tuple[tuple[str, Quantity], ...]
    nanos: tuple[tuple[str, int, int], ...]

    def fits(self, *used: Mapping[str, int]) -> bool:
        """Whether it fits besides what is used (capacity name -> 10^-9), summed over the arguments."""
        for name, amount, value in self.nanos:
            total = amount
            for amounts in used:
                total += amounts.get(name, 0)
            if total > value:
                return False
        return True


NOTHING: Final = Consumption((), ())


def own_names(driver: str, names: Iterable[str]) -> dict[str, str]:
    """How capacities are written, by their names within the driver: `memory` and `DRIVER/memory` are one capacity.

    Where both are written the qualified one counts, as in kube-scheduler 1.38.
    """
    prefix, found = f"{driver}/", dict[str, str]()
    for name in names:
        own = name.removeprefix(prefix)
        if own != name or own not in found:
            found[own] = name
    return found


def own_amounts(driver: str, amounts: Iterable[tuple[str, Quantity]]) -> dict[str, Quantity]:
    """Amounts by the names that their capacities have within the driver."""
    written = dict(amounts)
    return {own: written[name] for own, name in own_names(driver, written).items()}


def consume(
    requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], features: Features, driver: str
) -> Consumption | None:
    """What a request consumes of a device of `driver` that nobody shares yet; names are spelled as the device does.

    Returns:
        None when the device cannot serve the request: a requested capacity is not defined, a request
        policy forbids the amount, or it exceeds the capacity.

    Raises:
        CapacityError: in 1.37, and where a capacity is asked for by both of its names.
    """
    if any("/" in name for name in (*requests, *capacity)):
        requests, capacity = _alike(requests, capacity, driver)
    if not capacity:
        return None if requests else NOTHING
    if negative := [name for name, amount in requests.items() if amount.nano < 0]:
        return _refused(negative[0], features)
    if any(name not in capacity for name in requests):
        return None
    amounts = []
    for name in sorted(capacity):
        amount = _amount(requests.get(name), capacity[name], name, features)
        amounts.append((name, amount))
    nanos = tuple((name, amount.nano, capacity[name].value.nano) for name, amount in amounts)
    if negative := [name for name, nano, _ in nanos if nano < 0]:
        return _refused(negative[0], features)
    if any(nano > value for _, nano, value in nanos):
        return None
    if any(_violates(amount, capacity[name].policy, features) for name, amount in amounts):
        return None
    return Consumption(tuple(amounts), nanos)


def _amount(requested: Quantity | None, capacity: DeviceCapacity, name: str, features: Features) -> Quantity:
    policy = capacity.policy
    if requested is None:
        amount = policy.default if policy is not None and policy.default is not None else capacity.value
    elif policy is None:
        amount = requested
    elif policy.valid_range is not None and policy.valid_range.min is not None:
        try:
            amount = _round_up_to_range(requested, policy.valid_range.min, policy.valid_range, features)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
    else:
        amount = next((value for value in policy.valid_values if requested <= value), requested)
    return amount


def _refused(name: str, features: Features) -> Consumption | None:
    """No device gives less than nothing; 1.37 says so of the whole pod."""
    if features.has_137_semantics:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    return None


def _alike(
    requests: Mapping[str, Quantity], capacity: Mapping[str, DeviceCapacity], driver: str
) -> tuple[Mapping[str, Quantity], Mapping[str, DeviceCapacity]]:
    """Both by the device's spelling of each name, where one may be qualified with the driver's and another not.

    Raises:
        CapacityError: a capacity is asked for twice.
    """
    prefix, spelled = f"{driver}/", own_names(driver, capacity)
    asked: dict[str, Quantity] = {}
    for name, amount in requests.items():
        own = name.removeprefix(prefix)
        if own in asked:
            raise CapacityError(f'capacity "{own}" requested both as "{own}" and as "{prefix}{own}"')
        asked[own] = amount
    kept = {name: capacity[name] for name in spelled.values()}
    return {spelled.get(own, own): amount for own, amount in asked.items()}, kept


def _round_up_to_range(requested: Quantity, minimum: Quantity, valid: ValidRange, features: Features) -> Quantity:
    if requested < minimum:
        return minimum
    if valid.step is None:
        return requested
    if features.counts_fractions and _is_milli(valid):
        step, base = valid.step.nano // _NANO_PER_MILLI, minimum.nano // _NANO_PER_MILLI
        milli, rest = divmod(requested.nano, _NANO_PER_MILLI)
        if rest or milli > _INT64_MAX:
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} is not a representable milli value")
        rounded = base + -(-(milli - base) // step) * step
        if rounded > _INT64_MAX:
            raise CapacityError(
                f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes the milli-value range"
            )
        if rounded % 1000 == 0:
            return Quantity.from_int(rounded // 1000, valid.step.format)
        return Quantity(rounded, -3, False, valid.step.format)
    # Integer arithmetic: everything is rounded up to whole units first, so 500m counts as 1.
    if features.has_137_semantics and requested.nano > _INT64_MAX * 10**9:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64")
    step, base, wanted = _units(valid.step), _units(minimum), _units(requested)
    if step <= 0:
        return requested
    rounded = base + -(-(wanted - base) // step) * step
    if features.has_137_semantics and rounded > _INT64_MAX:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes MaxInt64")
    return Quantity.from_int(rounded, valid.step.format if features.has_137_semantics else "BinarySI")


def _is_milli(valid: ValidRange) -> bool:
    """Whether all of min, max and step are whole milli units within int64, and the step is at least one."""
    return (
        all(
            bound is None or (bound.nano % _NANO_PER_MILLI == 0 and abs(bound.nano) <= _INT64_MAX * _NANO_PER_MILLI)
            for bound in valid
        )
        and valid.step is not None
        and valid.step.nano >= _NANO_PER_MILLI
    )


def _violates(amount: Quantity, policy: RequestPolicy | None, features: Features) -> bool:
    if policy is None or (policy.default is not None and amount == policy.default):
        return False
    valid = policy.valid_range
    if valid is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid.max is not None and amount > valid.max:
        return True
    if valid.step is None:
        return False
    minimum = valid.min or Quantity.from_int(0)
    if features.counts_fractions and _is_milli(valid):
        return amount.nano % _NANO_PER_MILLI != 0 or (amount.nano - minimum.nano) % valid.step.nano != 0
    step = _units(valid.step)
    return step <= 0 or (_units(amount) - _units(minimum)) % step != 0


def _units(quantity: Quantity) -> int:
    """Rounded up to whole units."""
    return -(-quantity.nano // 10**9)
