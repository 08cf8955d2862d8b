"""Worlds in which a law did not hold when they were found, each with its law: they are asked at every run."""

from __future__ import annotations

from typing import Final

from tests.explain.law_worlds import Gpu, Host, Small

_MATCH: Final = "matchAttribute"
_FREE: Final = Gpu("A100", 0, False, "")


def _gpu(holder: str) -> Gpu:
    return Gpu("A100", 0, False, holder)


def _host(*gpus: Gpu, zone: str = "a", used: int = 0, is_tainted: bool = False) -> Host:
    return Host(4, used, "mate", False, is_tainted, zone, gpus)


FOUND: Final[dict[str, tuple[str, Small]]] = {
    "a-template-is-edited-for-all-of-its-pods": (
        "L1",
        Small(
            "plain",
            (_host(), _host(_FREE, _gpu("mate"), zone="b"), _host(_FREE, _FREE, used=3)),
            (1,),
            zone="a",
            is_template=True,
            is_group=True,
        ),
    ),
    "two-requests-and-a-claim-of-a-pod-that-is-gone": ("L2", Small("plain", (_host(_FREE, _gpu("gone")),), (1, 1))),
    "as-many-as-a-constraint-leaves": (
        "L3",
        Small("numa", (_host(_FREE, _FREE),), (3,), constraint="distinctAttribute"),
    ),
    "in-use-and-a-selector-that-fails": (
        "L3",
        Small("plain", (_host(_gpu("mate")),), (2,), selector="attribute-typo"),
    ),
    "a-tainted-device-has-the-attribute": (
        "L3",
        Small("numa", (_host(Gpu("A100", None, False, ""), Gpu("A100", 1, True, "")),), (1, 1), constraint=_MATCH),
    ),
    "shares-that-do-not-fit-together": ("L2", Small("shares", (_host(_gpu("mate")),), (1, 1), share=20)),
    "shares-are-short-of-a-device": ("L3", Small("shares", (_host(_gpu("mate")),), (1, 1), share=20)),
    "more-pods-than-are-named": (
        "L4",
        Small(
            "counters",
            (
                _host(),
                _host(),
                _host(_gpu("tenant"), _gpu("tenant")),
                _host(_gpu("tenant"), Gpu("A100", 0, True, ""), is_tainted=True),
            ),
            (2,),
            is_template=True,
            is_group=True,
        ),
    ),
    "two-own-changes-before-one-that-harms-others": (
        "L2",
        Small("plain", (_host(_gpu("mate"), _gpu("tenant")), _host(Gpu("A100", 0, True, ""))), (2,)),
    ),
}
