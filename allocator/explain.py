"""Why a node does not serve a pod's claims: how many devices each stage removed, per request."""

from __future__ import annotations

from allocator.observer import Observer
from allocator.problem import Problem


def report_candidates(problem: Problem, observer: Observer) -> None:
    """Tell the observer about devices that are refused before anything is picked."""


def blame(problem: Problem) -> str:
    """One line."""
    return ""
