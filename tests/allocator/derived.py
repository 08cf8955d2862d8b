"""Expressions of `derivedAttributes` for random cases, and what each gives, written down a second time without CEL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Device = Mapping[str, Any]

_OWN: Final = "device.attributes[device.driver]"


def _index(device: Device) -> int:
    return int(device["attributes"]["index"]["int"])


SCALARS: Final[Mapping[str, Callable[[Device], Any]]] = {
    f"{_OWN}.index / 2": lambda device: {"int": _index(device) // 2},
    f"{_OWN}.index / 3": lambda device: {"int": _index(device) // 3},
    f"{_OWN}.numa": lambda device: device["attributes"]["numa"],
    f"{_OWN}.model": lambda device: device["attributes"]["model"],
    f"{_OWN}.version": lambda device: device["attributes"]["version"],
    f'"n" + string({_OWN}.numa)': lambda device: {"string": f"n{device['attributes']['numa']['int']}"},
    f"{_OWN}.?ecc.orValue(false)": lambda device: device["attributes"].get("ecc", {"bool": False}),
    f"{_OWN}.index < 2 ? dyn({_OWN}.index) : dyn({_OWN}.model)": lambda device: (
        {"int": _index(device)} if _index(device) < 2 else device["attributes"]["model"]
    ),
    f'"{{}}" == {_OWN}.model': lambda _device: {"bool": False},
}
LISTS: Final[Mapping[str, Callable[[Device], Any]]] = {
    f"[{_OWN}.index / 2, {_OWN}.index / 3]": lambda device: {"ints": [_index(device) // 2, _index(device) // 3]},
    f'["w", {_OWN}.model]': lambda device: {"strings": ["w", device["attributes"]["model"]["string"]]},
    "[]": lambda _device: {"strings": []},
}
BROKEN: Final = (
    f"{_OWN}.ecc",
    f"{_OWN}.nothing",
    f"4 / {_OWN}.index",
    f"{_OWN}.index < 3 ? dyn({_OWN}.index) : dyn(1.5)",
    f"[dyn({_OWN}.index), dyn({_OWN}.model)]",
    "nothing(device)",
    "1.5",
)


def value_of(expression: str, device: Device) -> Any:
    """The attribute as the API has it; None where the expression fails."""
    if expression == f"{_OWN}.ecc":
        return device["attributes"].get("ecc")
    if expression == f"4 / {_OWN}.index":
        return {"int": 4 // _index(device)} if _index(device) else None
    if expression == BROKEN[3]:
        return {"int": _index(device)} if _index(device) < 3 else None
    give = SCALARS.get(expression) or LISTS.get(expression)
    return give(device) if give is not None else None
