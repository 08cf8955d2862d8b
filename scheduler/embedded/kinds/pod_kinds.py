"""Pods on their way in: defaults, admission, validation, what may change, and graceful deletion.

Source: k8s.io/kubernetes v1.36.3 pkg/registry/core/pod/strategy.go, pkg/apis/core/v1/defaults.go,
plugin/pkg/admission/defaulttolerationseconds. Validation is the part that schedulers and
their users run into; what only a kubelet minds (volumes, probes) is kept as it was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scheduler.embedded.kinds.decoding import check_quantities
from scheduler.embedded.kinds.priorities import admit_priority
from scheduler.embedded.server.quotas import REQUESTS
from scheduler.embedded.server.strategy import (
    Object,
    Strategy,
    StrategyView,
    keep_all_but_status,
    keep_field,
    set_default,
)
from scheduler.model.resources import is_served_resource, parse_nano
from scheduler.validation.device_rules import read_quantity
from scheduler.validation.field_errors import FieldError, Json, duplicate, forbidden, invalid, not_supported, required
from scheduler.validation.name_rules import check_text, dns_label, dns_subdomain
from scheduler.validation.slice_rules import NODE_RESOURCES, check_overhead

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

_TOLERATION_SECONDS: Final = 300
# Parts of a status that an old client does not know, and so leaves out, stay. An empty list takes them back.
_KEPT: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
_IMMUTABLE_SPEC: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """core/v1 Pod."""

    bumps_generation = True
    returns_deleted_object = True

    def default(self, obj: Object, cluster: StrategyView) -> None:
        default_pod_spec(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        spec = obj["spec"]
        admit_priority(obj, cluster)
        _admit_tolerations(spec)
        status: Object = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "observedGeneration": 1,
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                }
            ]
        obj["status"] = status

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        errors = validate_pod_spec(spec, "spec")
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def validate_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        return _validate_spec_change(new["spec"], old["spec"])

    def prepare_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> None:
        keep_all_but_status(new, old)
        keep_field(new["metadata"], old["metadata"], "ownerReferences")
        status = new.setdefault("status", {})
        for field in _KEPT:
            if status.get(field) is None and old.get("status", {}).get(field) is not None:
                status[field] = old["status"][field]
        set_default(status, "qosClass", old.get("status", {}).get("qosClass", "BestEffort"))

    def validate_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        status = new["status"]
        errors: list[FieldError] = []
        nominated = status.get("nominatedNodeName")
        if nominated:
            errors += check_text(dns_subdomain, nominated, "status.nominatedNodeName")
        if status.get("qosClass") != old.get("status", {}).get("qosClass", status.get("qosClass")):
            errors.append(invalid("status.qosClass", status.get("qosClass"), "field is immutable"))
        errors += _validate_claim_statuses(status.get("resourceClaimStatuses") or (), old["spec"])
        if status.get("extendedResourceClaimStatus") is not None:
            errors += _validate_extended_resources(status["extendedResourceClaimStatus"], old["spec"])
        errors += _validate_node_allocatable(status, old["spec"])
        return errors

    def usage(self, obj: Mapping[str, Json]) -> Mapping[str, int]:
        """One pod and its extended resources, until it has ended."""
        if (obj.get("status") or {}).get("phase") in TERMINAL_PHASES:
            return {}
        spec = obj["spec"]
        main, sidecars, most = (_extended(spec.get("containers")), Counter[str](), Counter[str]())
        for container in spec.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                sidecars += _extended((container,))
            else:
                most |= sidecars + _extended((container,))
        return {"pods": 1, **{f"{REQUESTS}{name}": count for name, count in ((main + sidecars) | most).items()}}

    def grace_period_s(self, obj: Mapping[str, Json], asked: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in TERMINAL_PHASES:
            return 0
        seconds: int = obj["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
        return 1 if seconds < 0 else seconds


def _extended(containers: Iterable[Mapping[str, Json]] | None) -> Counter[str]:
    found: Counter[str] = Counter()
    for container in containers or ():
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            if is_served_resource(name):
                found[name] += (parse_nano(amount) or 0) // 10**9
    return found


def misnamed_claims(pod: Mapping[str, Json]) -> list[FieldError]:
    """What is wrong with the names of the claims of a pod that is there; newer servers may know more about an entry."""
    errors = [
        required(f"spec.resourceClaims[{index}].name", "")
        for index, entry in enumerate(pod["spec"].get("resourceClaims") or ())
        if not entry.get("name")
    ]
    return errors + _validate_claim_statuses((pod.get("status") or {}).get("resourceClaimStatuses") or (), pod["spec"])


def _validate_claim_statuses(statuses: Json, spec: Mapping[str, Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, entry in enumerate(statuses):
        path = f"status.resourceClaimStatuses[{index}]"
        name = entry.get("name", "")
        if name not in known:
            errors.append(invalid(f"{path}.name", name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        if entry.get("resourceClaimName"):
            errors += check_text(dns_subdomain, entry["resourceClaimName"], f"{path}.name")
    return errors


def _validate_extended_resources(status: Mapping[str, Json], spec: Mapping[str, Json]) -> list[FieldError]:
    """core/v1 validatePodExtendedResourceClaimStatus, with its one odd path for request names."""
    path = "status.extendedResourceClaimStatus"
    errors: list[FieldError] = []
    asked = {
        container.get("name"): (container.get("resources") or {}).get("requests") or {}
        for _, container in containers_of(spec)
    }
    mappings = status.get("requestMappings") or ()
    if not mappings:
        errors.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(mappings):
        place = f"{path}.requestMappings[{index}]"
        container, resource, request = (
            mapping.get(field, "") for field in ("containerName", "resourceName", "requestName")
        )
        if container not in asked:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{place}.containerName", container, text))
        elif resource not in asked[container]:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(invalid(f"{place}.resourceName", resource, text))
        errors += check_text(dns_label, request, f"{path}.requestName")
        if (container, resource, request) in seen:
            for field, value in (("containerName", container), ("resourceName", resource), ("requestName", request)):
                errors.append(duplicate(f"{place}.{field}", value))
        seen.add((container, resource, request))
    if not status.get("resourceClaimName"):
        errors.append(required(f"{path}.resourceClaimName"))
    else:
        errors += check_text(dns_subdomain, status["resourceClaimName"], f"{path}.resourceClaimName")
    return errors


def _validate_node_allocatable(status: Mapping[str, Json], spec: Mapping[str, Json]) -> list[FieldError]:
    """core/v1 validateNodeAllocatableResourceClaimStatus."""
    errors: list[FieldError] = []
    references = (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    known = {reference.get("resourceClaimName") for reference in references}
    for index, entry in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        path = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        name = entry.get("resourceClaimName") or ""
        if not name:
            errors.append(required(f"{path}.resourceClaimName", "must not be empty"))
        if name not in known:
            errors.append(invalid(f"{path}.resourceClaimName", name, "no mapping found in pod reference"))
        if entry.get("resources") is None:
            errors += _validate_taken(entry, path)
            continue
        missing = [field for field in ("containers", "resources") if not entry.get(field)]
        errors += [required(f"{path}.{field}", "must not be empty") for field in missing]
        resources = entry.get("resources") or {}
        check_quantities("Pod", resources.values())
        for resource, text in sorted(resources.items()):
            where = f"{path}.resources[{resource}]"
            if "/" in resource and "kubernetes.io/" not in resource:
                errors.append(invalid(where, resource, "must be a node allocatable resource name"))
            if read_quantity(text).sign() < 0:
                errors.append(invalid(where, text, "must be non-negative"))
    return errors


def _validate_taken(entry: Mapping[str, Json], path: str) -> list[FieldError]:
    """What a claim takes, as 1.37 writes it."""
    errors: list[FieldError] = []
    for part in ("mapping", "overhead"):
        for index, one in enumerate(entry.get(part) or ()):
            where, name = f"{path}.{part}[{index}]", one.get("name") or ""
            amounts = {
                field: one[field] for field in ("quantity", "perPod", "perContainer") if one.get(field) is not None
            }
            check_quantities("Pod", amounts.values())
            if not NODE_RESOURCES.fullmatch(name):
                errors.append(invalid(f"{where}.name", name, "must be a node allocatable resource name"))
            if part == "overhead":
                errors += check_overhead(one, where)
            elif "quantity" not in amounts:
                errors.append(required(f"{where}.quantity"))
            elif read_quantity(amounts["quantity"]).sign() < 0:
                errors.append(invalid(f"{where}.quantity", amounts["quantity"], "must be non-negative"))
    return errors


def containers_of(spec: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """All containers of a pod spec with the path of each, init containers first."""
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield f"{group}[{index}]", container


def default_pod_spec(spec: Object) -> None:
    """Fill the defaults a pod spec gets, in a pod or in a template."""
    for field, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
        ("terminationGracePeriodSeconds", 30),
    ):
        set_default(spec, field, value)
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    for _, container in containers_of(spec):
        _default_container(container)


def _default_container(container: Object) -> None:
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    is_floating = tag in ("", "latest") and "@" not in image
    set_default(container, "imagePullPolicy", "Always" if is_floating else "IfNotPresent")
    set_default(container, "terminationMessagePath", "/dev/termination-log")
    set_default(container, "terminationMessagePolicy", "File")
    resources = container.get("resources")
    if resources is None:
        resources = container["resources"] = {}
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, quantity in limits.items():
            requests.setdefault(name, quantity)
    for port in container.get("ports") or ():
        set_default(port, "protocol", "TCP")


def _admit_tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "") for t in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )


def quality_of_service(spec: Mapping[str, Json]) -> str:
    """The QoS class: Guaranteed, Burstable or BestEffort."""
    has_any = False
    is_guaranteed = True
    for _, container in containers_of(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            asked, limit = requests.get(name), limits.get(name)
            has_any = has_any or asked not in (None, "0", 0) or limit not in (None, "0", 0)
            if limit is None or (asked is not None and str(asked) != str(limit)):
                is_guaranteed = False
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def validate_pod_spec(spec: Mapping[str, Json], path: str) -> list[FieldError]:
    """The rules of a pod spec that concern scheduling and claims."""
    errors: list[FieldError] = []
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    claim_names = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for where, container in containers_of(spec):
        errors += _validate_container(container, f"{path}.{where}", names, claim_names)
    errors += _validate_pod_claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims")
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        errors.append(
            not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
        )
    gates: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        if not name:
            errors.append(required(f"{path}.schedulingGates[{index}].name"))
        if name in gates:
            errors.append(duplicate(f"{path}.schedulingGates[{index}]", name))
        gates.add(name)
    return errors


def _validate_container(
    container: Mapping[str, Json], path: str, names: set[str], claim_names: set[str]
) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += check_text(dns_label, name, f"{path}.name")
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate((container.get("resources") or {}).get("claims") or ()):
        where = f"{path}.resources.claims[{index}]"
        key = (claim.get("name", ""), claim.get("request", ""))
        if key[0] not in claim_names:
            errors.append(FieldError("FieldValueNotFound", where, f'Not found: "{key[0]}"'))
        if key in seen:
            errors.append(duplicate(where, key[0]))
        seen.add(key)
    return errors


def _validate_pod_claims(claims: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        name = claim.get("name", "")
        errors += [required(f"{where}.name")] if not name else check_text(dns_label, name, f"{where}.name")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if direct and template:
            errors.append(
                invalid(
                    where,
                    dict(claim),
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                )
            )
        elif not direct and not template:
            errors.append(required(where, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
        for field, value in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
            if value:
                errors += check_text(dns_subdomain, value, f"{where}.{field}")
    return errors


def _validate_spec_change(new: Mapping[str, Json], old: Mapping[str, Json]) -> list[FieldError]:
    """Which changes of a pod's spec are allowed after creation."""
    if new == old:
        return []
    errors: list[FieldError] = []
    was_gated = bool(old.get("schedulingGates"))
    old_gates = {gate["name"] for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in old_gates:
            errors.append(
                forbidden(
                    f"spec.schedulingGates[{index}].name",
                    "only deletion is allowed, but found new scheduling gate '" + str(gate.get("name")) + "'",
                )
            )
    old_tolerations = old.get("tolerations") or []
    for toleration in old_tolerations:
        if toleration not in (new.get("tolerations") or []):
            errors.append(
                forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            )
            break
    may_change = {"schedulingGates", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}
    if was_gated:
        may_change |= {"nodeSelector", "affinity"}
    differing = {field for field in {*new, *old} if new.get(field) != old.get(field)} - may_change
    for group in ("containers", "initContainers"):
        if group in differing and _without_images(new.get(group)) == _without_images(old.get(group)):
            differing.discard(group)
    if differing:
        errors.append(forbidden("spec", _IMMUTABLE_SPEC))
    return errors


def _without_images(containers: Json) -> list[Json]:
    return [{k: v for k, v in container.items() if k != "image"} for container in containers or ()]
