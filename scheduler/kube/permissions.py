"""Every right the scheduler uses, in one list: the preflight asks for them, manifests/ grants them, tests compare.

Source: what `watch` and `executor` send; `resourceclaims/binding` is Kubernetes 1.36's granular authorization of
changes to `status.allocation` and `status.reservedFor` (KEP-4817), asked cluster-wide with the verb of the request.
Claims are updated where a patch would change the text of opaque parameters (`exact_claims`). `LEASES`: see `lease`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from scheduler.kube.plugin_kinds import PLUGIN_KINDS


class Permission(NamedTuple):
    """Verbs on one resource, `subresource` after a slash; an empty group is the core group."""

    group: str
    resource: str
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.verbs)} {self.resource}{'.' + self.group if self.group else ''}"


_ALWAYS: Final = (
    Permission("", "nodes", ("list", "watch")),
    Permission("", "namespaces", ("list", "watch")),
    Permission("", "pods", ("get", "list", "watch")),
    Permission("", "pods/binding", ("create",)),
    Permission("", "pods/status", ("patch",)),
    Permission("resource.k8s.io", "deviceclasses", ("list", "watch")),
    Permission("resource.k8s.io", "resourceslices", ("list", "watch")),
    Permission("resource.k8s.io", "devicetaintrules", ("list", "watch")),
    Permission("resource.k8s.io", "resourceclaims", ("get", "list", "watch", "create", "patch", "update", "delete")),
    Permission("resource.k8s.io", "resourceclaims/status", ("patch", "update")),
    Permission("resource.k8s.io", "resourceclaims/binding", ("patch", "update")),
    Permission("scheduling.k8s.io", "podgroups", ("list", "watch")),
    Permission("scheduling.k8s.io", "podgroups/status", ("patch",)),
    Permission("events.k8s.io", "events", ("create", "patch")),
)
_PREEMPTION: Final = Permission("", "pods", ("delete",))
_WRITTEN: Final = {"PersistentVolume", "PersistentVolumeClaim"}
# What is read, and written, only where a plugin reads the kind.
_FOR_PLUGINS: Final = {
    kind.name: Permission(
        kind.group, kind.plural, ("list", "watch", "patch") if kind.name in _WRITTEN else ("list", "watch")
    )
    for kind in PLUGIN_KINDS
}
# Who reads /metrics, and whether they may: see `readers`.
_REVIEWS: Final = (
    Permission("authentication.k8s.io", "tokenreviews", ("create",)),
    Permission("authorization.k8s.io", "subjectaccessreviews", ("create",)),
)
PERMISSIONS: Final = (*_ALWAYS, _PREEMPTION, *_FOR_PLUGINS.values(), *_REVIEWS)


def permissions_for(reads: Collection[str], *, preempts: bool, reviews: bool) -> tuple[Permission, ...]:
    """Those that plugins need which read these kinds, or preempt, and those for asking who may read metrics."""
    plugins = (permission for kind, permission in _FOR_PLUGINS.items() if kind in reads)
    return (*_ALWAYS, *((_PREEMPTION,) if preempts else ()), *plugins, *(_REVIEWS if reviews else ()))


# In the namespace of the lease only, and not without leader election; all but `create`, which has no name yet, of the
# leases that are ours.
LEASES: Final = Permission("coordination.k8s.io", "leases", ("get", "create", "update"))
NAMELESS: Final = "create"
_NOTHING: Final = "where the API server serves them, nothing is scheduled without it"
_NO_READERS: Final = "nobody can read /metrics, /configz and the reasons in /readyz"
_NO_UPDATE: Final = "claims whose opaque parameters a Python client sent cannot be allocated"
# What the lack of a right costs, where that is not everything.
OPTIONAL: Final = {
    ("", "pods", "delete"): "pods of lower priority make no room for others: nobody is preempted",
    ("events.k8s.io", "events", "create"): "events will be missing from kubectl describe",
    ("events.k8s.io", "events", "patch"): "events will be missing from kubectl describe",
    ("resource.k8s.io", "devicetaintrules", "list"): _NOTHING,
    ("resource.k8s.io", "devicetaintrules", "watch"): _NOTHING,
    ("scheduling.k8s.io", "podgroups", "list"): _NOTHING,
    ("scheduling.k8s.io", "podgroups/status", "patch"): "PodGroups do not say whether they were placed",
    ("scheduling.k8s.io", "podgroups", "watch"): _NOTHING,
    ("resource.k8s.io", "resourceclaims", "update"): _NO_UPDATE,
    ("resource.k8s.io", "resourceclaims/status", "update"): _NO_UPDATE,
    ("resource.k8s.io", "resourceclaims/binding", "update"): _NO_UPDATE,
    ("resource.k8s.io", "resourceclaims", "create"): "pods whose extended resources are served by devices will wait",
    ("resource.k8s.io", "resourceclaims", "delete"): "claims made for extended resources may stay behind for a while",
    **{(kind.group, kind.plural, verb): kind.cost for kind in PLUGIN_KINDS for verb in ("list", "watch")},
    ("authentication.k8s.io", "tokenreviews", "create"): _NO_READERS,
    ("authorization.k8s.io", "subjectaccessreviews", "create"): _NO_READERS,
    ("", "persistentvolumes", "patch"): "pods whose claims get a volume when they are scheduled will wait",
    ("", "persistentvolumeclaims", "patch"): "pods whose volume is made when they are scheduled will wait",
}
