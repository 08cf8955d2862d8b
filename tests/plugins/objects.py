"""Pods and nodes for plugin tests, built the way the shell builds them: from API JSON."""

from __future__ import annotations

import msgspec

from scheduler.model.node_info import NodeInfo
from scheduler.model.objects import Node, Pod


def pod(name="pod", *, namespace="default", uid="", status=None, labels=None, **spec) -> Pod:
    """A pod; `spec` holds API fields (`nodeName=…`, `containers=[…]`)."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Pod)


def requesting(amounts, name="pod", **spec) -> Pod:
    """A pod with one container that requests `amounts`."""
    return pod(name, containers=[{"name": "c", "resources": {"requests": amounts}}], **spec)


def node(name="node", *, labels=None, allocatable=None, taints=(), unschedulable=False, **status) -> Node:
    """A node with room for 110 pods unless `allocatable` says otherwise; `status` holds more API fields."""
    obj = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {"allocatable": {"pods": "110", **(allocatable or {})}, **status},
    }
    return msgspec.convert(obj, Node)


def node_info(name="node", *, pods=(), **fields) -> NodeInfo:
    """A node with `pods` on it."""
    info = NodeInfo(node(name, **fields))
    for running in pods:
        info.add_pod(running)
    return info
