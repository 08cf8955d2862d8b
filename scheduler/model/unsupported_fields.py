"""Fields of a pod that restrict where it may run, and that this scheduler does not read yet: none is left.

kube-scheduler has plugins for such fields. A pod with one must not be bound as if it had none.

Rules of this module
  1. Only requirements. A preference that nobody reads harms nobody.
  2. A field is named where it first occurs, by its path in the manifest.

Not here: refusing the pod (`plugins.unsupported_fields`). docs/guide.md lists what else is not supported and is no
field of the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.model.objects import Pod

FIELDS: Final[Mapping[str, str]] = {}
"""By name: the plugins of kube-scheduler that look at it."""


class FieldUse(NamedTuple):
    """A field of `FIELDS` that a pod has, and where."""

    name: str
    path: str


def unsupported_fields(pod: Pod) -> tuple[FieldUse, ...]:
    """The fields of `FIELDS` that this pod has, each once, in the order of `FIELDS`."""
    return ()
