"""The ClusterRole of overlays/observe has the rights that `observe` uses, each with the verbs that it uses."""

from __future__ import annotations

from typing import Any

import yaml

from scheduler.cli.cluster_objects import _wanted
from scheduler.kube.codec import Codec
from scheduler.observer import ClusterObserver
from tests.manifests.rendering import MANIFESTS


def resource_of(path: str) -> tuple[str, str]:
    """Group and plural of a collection's path."""
    *root, plural = path.strip("/").split("/")
    return (root[1] if root[0] == "apis" else "", plural)


def rules_of(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load((MANIFESTS / "overlays" / "observe" / name).read_text())["rules"])


def test_what_it_lists_and_watches_is_what_it_may() -> None:
    wanted = [
        resource_of(where) if isinstance(where, str) else (where.group, where.plural)
        for where in _wanted(is_whole=True).values()
    ]
    codec = Codec()
    watched = [
        resource_of(kind.path) if kind.served_as is None else (kind.served_as.group, kind.served_as.plural)
        for kind in ClusterObserver.kinds(codec)
    ]
    rules = [one for one in rules_of("rbac.yaml") if "resources" in one]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    used = {(*one, "list") for one in [*wanted, ("", "events")]}
    assert granted == used | {(*one, verb) for one in watched for verb in ("list", "watch")}
    assert {verb for *_, verb in granted} == {"list", "watch"}
    urls = [(one["nonResourceURLs"], one["verbs"]) for one in rules_of("rbac.yaml") if "nonResourceURLs" in one]
    assert urls == [(["/metrics"], ["get"])]
