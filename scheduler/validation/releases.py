"""Which release's verdicts are given for which Kubernetes.

Rules of this module
  1. The server says what is right: its minor is followed, unless a setting names another release.
  2. A release before or after those that are known is answered as the nearest one, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from allocator import RELEASES
from scheduler.model.nearest import some
from scheduler.validation.api_fields import KNOWN, NEWEST, gates

KIND: Final = "ServerVersion"
API_VERSION: Final = "dra-scheduler/v1alpha1"
_NAMED_MAX: Final = 4


def release_of(minor: int) -> str:
    """The known release whose verdicts are those of Kubernetes 1.`minor`, or the nearest."""
    known = {int(release.split(".")[1]): release for release in RELEASES}
    return known[min(known, key=lambda one: abs(one - minor))]


def release_words(minor: int, setting: str | None) -> Iterator[str]:
    """What an operator should know of a server's release, beside a setting that names one."""
    nearest = release_of(minor)
    if setting is not None and setting != nearest:
        yield (
            f"kubernetes: {setting} is set, and the API server is Kubernetes 1.{minor}: where releases differ, pods "
            f"are placed as {setting} places them; without the setting, as {nearest} does"
        )
    if minor > NEWEST:
        yield (
            f"the API server is Kubernetes 1.{minor}, and this program knows {KNOWN}: where releases "
            f"differ it decides as {setting or nearest} does; an object with a field that it does not know is left out "
            "or waits, and the field is named"
        )
    elif f"1.{minor}" not in RELEASES:
        later = int(nearest.split(".")[1])
        off = [name for name, gate in gates().items() if gate.is_on(later) and gate.ours and not gate.is_on(minor)]
        yield (
            f"the API server is Kubernetes 1.{minor}: where releases differ, pods are placed as {setting or nearest} "
            f"places them; off by default there: {some(off, _NAMED_MAX) or 'nothing'} (docs/support-matrix.md)"
        )


def minor_of(git_version: str) -> int | None:
    """37 of "v1.37.2+k3s1"; None where it is no version of Kubernetes."""
    found = re.match(r"v?1\.(\d+)", git_version)
    return int(found[1]) if found else None


def version_object(git_version: str) -> dict[str, Any]:
    """How a dump says which server it is of."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "kubernetes"}, "gitVersion": git_version}


def version_in(obj: Mapping[str, Any]) -> str | None:
    """The server's version, of an object that is such a word of a dump; else None."""
    if obj.get("kind") != KIND or obj.get("apiVersion") != API_VERSION:
        return None
    return str(obj.get("gitVersion") or "")
