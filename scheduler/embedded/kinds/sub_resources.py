"""The sub-resources that are requests, not parts of an object: binding and eviction of pods, the end of namespaces.

Source: k8s.io/kubernetes v1.36.3 pkg/registry/core/pod/storage/{storage,eviction}.go,
pkg/registry/core/namespace/storage/storage.go.
"""

from __future__ import annotations

from scheduler.embedded.server.object_store import Stored
from scheduler.embedded.server.rest import DEFAULT_WRITE, Api, DeleteOptions, WriteOptions, uid_precondition
from scheduler.embedded.server.served_kinds import ServedKind
from scheduler.embedded.server.statuses import ApiError, bad_request, conflict, invalid_object
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json, not_supported, required


def bind_pod(api: Api, kind: ServedKind, namespace: str, name: str, binding: Object, *, options: WriteOptions) -> None:
    """Give a pod its node.

    Raises:
        ApiError: 400 (another pod's binding), 404, 409 (bound already, deleted, gated, another UID), 422.
    """
    metadata = binding.get("metadata") or {}
    if metadata.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise invalid_object("", "Binding", name, errors)
    node: str = target["name"]
    current = api.get(kind, namespace, name)
    if metadata.get("uid") and metadata["uid"] != current.uid:
        raise _refused(name, uid_precondition(metadata["uid"], current.uid))
    version = metadata.get("resourceVersion")
    if version and str(version) != str(current.revision):
        raise _refused(
            name,
            f"Precondition failed: ResourceVersion in precondition: {version}, "
            f"ResourceVersion in object meta: {current.revision}",
        )
    spec = current.obj["spec"]
    if current.obj["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    if options.dry_run:
        return
    pod = current.copy()
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    for field in ("annotations", "labels"):
        if metadata.get(field):
            pod["metadata"].setdefault(field, {}).update(metadata[field])
    set_condition(pod["status"], {"type": "PodScheduled", "status": "True"}, api.now())
    api.store.put(kind.kind_id, namespace, name, pod)


def _refused(name: str, why: str) -> ApiError:
    return conflict("", "pods/binding", name, why)


def set_condition(status: Object, condition: dict[str, Json], now: str) -> bool:
    """Put a condition into `status.conditions`; False when it stood there already.

    The transition time moves only when the condition's status changes.
    """
    conditions = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") != condition["type"]:
            continue
        if all(old.get(field) == value for field, value in condition.items()):
            return False
        same_status = old.get("status") == condition["status"]
        conditions[index] = {
            "lastProbeTime": None,
            "lastTransitionTime": old.get("lastTransitionTime") if same_status else now,
            **condition,
        }
        return True
    conditions.append({"lastProbeTime": None, "lastTransitionTime": now, **condition})
    return True


def evict_pod(
    api: Api, kind: ServedKind, namespace: str, name: str, eviction: Object, *, options: WriteOptions
) -> None:
    """Delete a pod through the eviction API; disruption budgets are not weighed here. Raises ApiError: 404, 409."""
    api.delete(kind, namespace, name, DeleteOptions.read(eviction.get("deleteOptions") or {}))


def finalize_namespace(
    api: Api, kind: ServedKind, namespace: str, name: str, wanted: Object, *, options: WriteOptions = DEFAULT_WRITE
) -> Stored:
    """Set `spec.finalizers` of a namespace; a deleted namespace without any goes away. Raises ApiError: 404."""
    finalizers = (wanted.get("spec") or {}).get("finalizers") or []
    new = api.get(kind, "", name).copy()
    new.setdefault("spec", {})["finalizers"] = finalizers
    if not finalizers:
        del new["spec"]["finalizers"]
    if new["metadata"].get("deletionTimestamp") and not finalizers and not new["metadata"].get("finalizers"):
        return api.store.remove(kind.kind_id, "", name, new)
    return api.store.put(kind.kind_id, "", name, new)
