"""The scale sub-resource of workloads, for `kubectl scale`."""

from scheduler.embedded.server.columns import format_selector
from scheduler.embedded.server.kinds import Kind
from scheduler.embedded.server.rest import Api, WriteOptions
from scheduler.embedded.server.statuses import invalid_object
from scheduler.embedded.server.store import Stored
from scheduler.embedded.server.strategy import Object
from scheduler.validation.field_errors import Json, invalid


def read_scale(api: Api, kind: Kind, namespace: str, name: str) -> dict[str, Json]:
    """The autoscaling/v1 Scale of a workload.

    Raises:
        ApiError: 404.
    """
    return _scale_of(api.get(kind, namespace, name))


def write_scale(
    api: Api, kind: Kind, namespace: str, name: str, *, scale: Object, options: WriteOptions
) -> dict[str, Json]:
    """Set the replicas of a workload from a Scale or a merge patch of one.

    Raises:
        ApiError: 404, 409, 422.
    """
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("autoscaling", "Scale", name, [error])
    version = (scale.get("metadata") or {}).get("resourceVersion")

    def change(workload: Object) -> Object:
        workload["spec"]["replicas"] = replicas
        if version:
            workload["metadata"]["resourceVersion"] = version
        return workload

    return _scale_of(api.update(kind, namespace, name, change, options=options))


def _scale_of(stored: Stored) -> dict[str, Json]:
    metadata, spec = stored.obj["metadata"], stored.obj["spec"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            field: metadata[field]
            for field in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if field in metadata
        },
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": (stored.obj.get("status") or {}).get("replicas", 0),
            "selector": format_selector(spec.get("selector")),
        },
    }
