"""What every cluster has from its first moment on: namespaces and the built-in priority classes."""

from __future__ import annotations

from typing import Final

from scheduler.embedded.kinds.priorities import PRIORITY_CLASSES, SYSTEM_PRIORITIES
from scheduler.embedded.server.rest import Api

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def seed_objects(api: Api) -> None:
    """Create the initial objects that are missing."""
    namespaces = api.registry.by_storage("namespaces")
    for name in NAMESPACES:
        if api.store.get(namespaces.kind_id, "", name) is None:
            api.create(namespaces, "", {"metadata": {"name": name}})
    classes = api.registry.by_storage(PRIORITY_CLASSES)
    for name, value in SYSTEM_PRIORITIES.items():
        if api.store.get(classes.kind_id, "", name) is None:
            api.create(classes, "", {"metadata": {"name": name}, "value": value})
