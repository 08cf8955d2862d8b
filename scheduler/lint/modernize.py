"""Older versions and never-valid shapes of claims, templates, classes, slices and pods, brought to v1.

Each change is a finding: what was written, since and until when it was served, and what it is in v1. Where there is no
equivalent, the finding is an error that nothing was done about, and `convert` refuses the object.

| version | served |
|---|---|
| v1alpha1, v1alpha2 | 1.26, 1.27-1.30: classic DRA, see `classic` |
| v1alpha3 | 1.31-1.33; DeviceTaintRule 1.33-1.38 |
| v1beta1 | 1.32-1.37 |
| v1beta2 | 1.33-1.38 |
| v1 | since 1.34 |

Not here: v1alpha1 and v1alpha2 (`classic`), constraints that were never valid (`constraint_rules`), expressions
(`selector_rules`).

Source: k8s.io/api resource/*/zz_generated.prerelease-lifecycle.go v0.36.3, and the API types of each release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.lint.context import is_id, legal_id
from scheduler.lint.findings import NEVER_VALID, FieldPath, Severity
from scheduler.lint.scheduler_config import CONFIG_GROUP, modernize_config
from scheduler.lint.view import GROUP, V1, View, at, claim_spec_path, mapping, mappings, text
from scheduler.validation.api_fields import kinds_in
from scheduler.validation.slice_rules import warnings_of_rule

_DRA_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
_OLD_KINDS: Final = ("ResourceClaimParameters", "ResourceClassParameters")
_SERVED: Final[Mapping[str, str]] = {
    "v1alpha3": "1.31 to 1.33",
    "v1beta1": "since 1.32, deprecated in 1.35, until 1.37; v1 since 1.34",
    "v1beta2": "since 1.33, deprecated in 1.36, until 1.38; v1 since 1.34",
}
_FLAT_VERSIONS: Final = ("v1alpha3", "v1beta1")
_REQUEST_FIELDS: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
_METADATA_FIELDS: Final = ("name", "namespace", "labels", "annotations")
_CLAIM_MODES: Final = ("WaitForFirstConsumer", "Immediate")


def modernize(view: View, minor: int) -> None:
    """Bring one document to what Kubernetes 1.`minor` serves; v1alpha1 and v1alpha2 are left to `classic`."""
    _group(view)
    if view.is_dra and view.kind in _DRA_KINDS:
        if view.version in _SERVED:
            _version(view, minor)
        modernize_structure(view)
    elif view.is_dra and view.kind == "DeviceTaintRule":
        _taint_rule(view, minor)
    elif view.group == CONFIG_GROUP:
        modernize_config(view)
    else:
        _pod_sources(view)


def restore_metadata(view: View) -> None:
    """Name and labels that stand at the top, because the line `metadata:` or its indentation was lost."""
    obj = view.obj
    if obj.get("metadata") is not None or not isinstance(obj.get("name"), str):
        return
    found = [name for name in _METADATA_FIELDS if name in obj]
    metadata = {name: obj.pop(name) for name in found}
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    head: dict[str, Any] = {name: obj[name] for name in ("apiVersion", "kind") if name in obj}
    obj.clear()
    obj |= head | {"metadata": metadata} | rest
    view.never_valid(
        "metadata-missing",
        (found[0],),
        f"{', '.join(found)} stand{'s' if len(found) == 1 else ''} in metadata, not beside kind",
        f"metadata: {{{found[0]}: {metadata[found[0]]}, ...}}",
        converted=f"moved into metadata: {', '.join(found)}",
        written=True,
        key=True,
    )
    for name in found:
        view.moved(("metadata", name), (name,))


def _group(view: View) -> None:
    """DRA kinds without their group, kinds and versions that never were."""
    if view.document.api_version == "v1" and view.kind in _DRA_KINDS:
        view.obj["apiVersion"] = V1
        view.never_valid(
            "wrong-api-version",
            ("apiVersion",),
            f"{view.kind} is not in the core group",
            f"apiVersion: {V1}",
            converted=f"apiVersion: {V1}",
        )
    elif view.is_dra and view.version not in (*_SERVED, "v1"):
        view.error(
            "wrong-api-version",
            ("apiVersion",),
            f"there is no version {view.document.api_version}",
            f"apiVersion: {V1}",
        )
    elif view.is_dra and view.kind not in (*_DRA_KINDS, "DeviceTaintRule", "ResourcePoolStatusRequest"):
        is_old = view.kind in ("ResourceClass", "PodSchedulingContext", *_OLD_KINDS)
        view.error(
            "wrong-kind",
            ("kind",),
            f"{view.document.api_version} has no kind {view.kind}",
            "ResourceClass is DeviceClass today"
            if view.kind == "ResourceClass"
            else f"there are: {', '.join(_DRA_KINDS)}",
            served="v1alpha2 (1.27 to 1.30)" if is_old else NEVER_VALID,
        )


def _version(view: View, minor: int) -> None:
    is_gone = view.kind not in kinds_in(text(view.document.api_version), minor)
    view.obj["apiVersion"] = V1
    view.report(
        "old-api-version",
        Severity.ERROR if is_gone else Severity.WARNING,
        ("apiVersion",),
        f"{view.document.api_version} {view.kind} "
        + ("is no longer served" if is_gone else "is deprecated: the version of today is v1"),
        f"apiVersion: {V1}",
        served=_SERVED[view.version],
        converted=f"apiVersion: {V1}",
    )


def modernize_structure(view: View) -> None:
    """The fields of a claim, template, class or slice, whatever its version says."""
    path = claim_spec_path(view.kind)
    if path is not None:
        spec = at(view.obj, path)
        if isinstance(spec, dict):
            _claim_spec(view, path, spec)
    elif view.kind == "DeviceClass":
        _device_class(view)
    elif view.kind == "ResourceSlice":
        _resource_slice(view)


# --- claims -------------------------------------------------------------------------------------------------


def _claim_spec(view: View, path: FieldPath, spec: dict[str, Any]) -> None:
    if spec.get("controller"):
        view.error(
            "classic-controller",
            (*path, "controller"),
            "a driver's control-plane controller allocates this claim; schedulers do that now, from ResourceSlices",
            "no equivalent: use a driver that publishes ResourceSlices, and leave the field out",
            served="1.31",
            key=True,
        )
    if "allocationMode" in spec:
        mode = spec.pop("allocationMode")
        known = mode in _CLAIM_MODES
        view.never_valid(
            "claim-allocation-mode",
            (*path, "allocationMode"),
            f"a claim has no allocationMode beside devices ({mode!r} is classic DRA's, where it said when to allocate)"
            if known
            else "a claim has no allocationMode; a request has (ExactCount or All)",
            "leave it out: allocation always waits for a pod"
            if known
            else "put it into the request: spec.devices.requests[].exactly.allocationMode",
            converted="left out" if known else "",
            key=True,
        )
        if not known:
            spec["allocationMode"] = mode
    devices = mapping(spec.get("devices"))
    for index, request in mappings(devices.get("requests")):
        _request(view, (*path, "devices", "requests", index), request)
    _lift_constraints(view, (*path, "devices"), devices)


def _request(view: View, path: FieldPath, request: dict[str, Any]) -> None:
    flat = [name for name in _REQUEST_FIELDS if name in request]
    if not flat:
        return
    if "exactly" in request or "firstAvailable" in request:
        beside = "exactly" if "exactly" in request else "firstAvailable"
        view.never_valid(
            "flat-request",
            (*path, flat[0]),
            f"{flat[0]} stands beside {beside}; in v1 it belongs into it",
            f"move it: {beside}: {{{flat[0]}: ...}}",
            key=True,
        )
        return
    was_valid = view.version in _FLAT_VERSIONS
    first = next(name for name in request if name in flat)
    view.report(
        "flat-request",
        Severity.WARNING if was_valid else Severity.ERROR,
        (*path, first),
        f"a flat request ({', '.join(flat)} beside name) is "
        + (f"{view.version}'s; v1 has exactly" if was_valid else f"not {view.version or 'v1'}'s"),
        f"wrap it: exactly: {{{', '.join(flat)}}}",
        served="v1alpha3 and v1beta1 only (1.31 to 1.37)",
        converted=f"wrapped in exactly: {', '.join(flat)}",
        key=True,
    )
    old = view.origin(path)
    exactly = {name: request.pop(name) for name in list(request) if name in flat}
    rest = {name: request.pop(name) for name in list(request) if name != "name"}
    request["exactly"] = exactly
    request |= rest
    view.moved((*path, "exactly"), old)


def _lift_constraints(view: View, path: FieldPath, devices: dict[str, Any]) -> None:
    """Constraints inside a request go to spec.devices.constraints, naming the request."""
    for index, request in mappings(devices.get("requests")):
        here: FieldPath = (*path, "requests", index)
        for holder, at_path in (
            (request, here),
            (mapping(request.get("exactly")), (*here, "exactly")),
        ):
            if "constraints" not in holder:
                continue
            inner = holder["constraints"]
            target = devices.get("constraints")
            name = text(request.get("name"))
            entries = inner if isinstance(inner, list) else [inner]
            can_move = (
                bool(name)
                and all(isinstance(entry, dict) for entry in entries)
                and (target is None or isinstance(target, list))
            )
            written = view.origin((*at_path, "constraints"))
            view.never_valid(
                "constraint-in-request",
                (*at_path, "constraints"),
                "a request has no constraints; they stand beside the requests, and may bind several of them together",
                f"spec.devices.constraints: [{{requests: [{name or '...'}], matchAttribute: <domain>/<name>}}]",
                converted="moved to spec.devices.constraints" if can_move else "",
                key=True,
            )
            if not can_move:
                continue
            del holder["constraints"]
            lifted = devices.setdefault("constraints", [])
            for number, entry in enumerate(entries):
                view.moved(
                    (*path, "constraints", len(lifted)), (*written, number) if isinstance(inner, list) else written
                )
                lifted.append({"requests": [name], **entry} if not entry.get("requests") else entry)


# --- classes and slices -------------------------------------------------------------------------------------


def _device_class(view: View) -> None:
    spec = mapping(view.obj.get("spec"))
    if "suitableNodes" in spec:
        report_suitable_nodes(view, ("spec", "suitableNodes"), "1.31")


def report_suitable_nodes(view: View, path: FieldPath, served: str) -> None:
    """Classes that choose nodes, as they did in classic DRA and once after it."""
    view.error(
        "suitable-nodes",
        path,
        "a DeviceClass does not choose nodes",
        "no equivalent: slices say which nodes reach their devices; use nodeSelector or affinity in the pods",
        served=served,
        key=True,
    )


def _resource_slice(view: View) -> None:
    spec = mapping(view.obj.get("spec"))
    for index, device in mappings(spec.get("devices")):
        path: FieldPath = ("spec", "devices", index)
        basic = device.get("basic")
        if isinstance(basic, dict):
            clash = sorted(set(basic) & set(device))
            was_valid = view.version in _FLAT_VERSIONS
            view.report(
                "basic-device",
                Severity.WARNING if was_valid else Severity.ERROR,
                (*path, "basic"),
                "what basic holds stands in the device itself in v1"
                + (f", where {', '.join(clash)} stands already" if clash else ""),
                "lift the fields out of basic; or leave slices to the driver, which publishes them anew",
                served="v1alpha3 and v1beta1 only (1.31 to 1.37)",
                converted="" if clash else "lifted out of basic",
                key=True,
            )
            if not clash:
                del device["basic"]
                for name, value in basic.items():
                    device[name] = value
                    view.moved((*path, name), (*path, "basic", name))
        _plain_capacity(view, path, device)
        own = f"{text(spec.get('driver'))}/"
        for holder in ("attributes", "capacity"):
            for name in [name for name in mapping(device.get(holder)) if own != "/" and name.startswith(own)]:
                message, fix = f"{name} has the driver's own domain, which is implied", name.removeprefix(own)
                view.warning("own-domain", (*path, holder, name), message, fix, key=True)
            _legal_names(view, (*path, holder), mapping(device.get(holder)))
    if spec.get("devices") and spec.get("sharedCounters"):
        view.error(
            "counters-beside-devices",
            ("spec", "sharedCounters"),
            "a slice has either devices or sharedCounters; the counters need a slice of their own in the same pool",
            "no conversion: resourceSliceCount of the whole pool changes; a current driver publishes them apart",
            served="1.33 to 1.34 (alpha, gate DRAPartitionableDevices)",
            key=True,
        )


def _legal_names(view: View, path: FieldPath, names: dict[str, Any]) -> None:
    """Names of attributes and capacities that cannot be: the nearest that can."""
    for written in list(names):
        domain, slash, short = written.rpartition("/")
        legal = f"{domain}{slash}{legal_id(short)}"
        if is_id(short) or not short:
            continue
        can = legal not in names
        view.never_valid(
            "illegal-attribute-name",
            (*path, written),
            f'nothing can be called "{short}": names are C identifiers of at most 32 characters',
            f"{legal}: ...",
            converted=f"{legal}, and so in expressions" if can else "",
            key=True,
        )
        if not can:
            continue
        kept = {legal if name == written else name: value for name, value in names.items()}
        names.clear()
        names.update(kept)
        view.moved((*path, legal), view.origin((*path, written)))


def _plain_capacity(view: View, path: FieldPath, device: dict[str, Any]) -> None:
    for name, value in list(mapping(device.get("capacity")).items()):
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        was_valid = view.version == "v1alpha3"
        device["capacity"][name] = {"value": value}
        where: FieldPath = (*path, "capacity", name)
        view.report(
            "plain-capacity",
            Severity.WARNING if was_valid else Severity.ERROR,
            where,
            "a capacity is an object with a value",
            f"{name}: {{value: {value}}}",
            served="v1alpha3 only (1.31 to 1.33)",
            converted=f"{name}: {{value: {value}}}",
        )
        view.moved((*where, "value"), view.origin(where))


def _taint_rule(view: View, minor: int) -> None:
    selector = mapping(mapping(view.obj.get("spec")).get("deviceSelector"))
    for name in ("deviceClassName", "selectors"):
        if name in selector:
            view.error(
                "taint-rule-selector",
                ("spec", "deviceSelector", name),
                f"a DeviceTaintRule no longer selects by {name}",
                "no equivalent: select by driver, pool and device",
                served="1.33 to 1.34",
                key=True,
            )
    for said in warnings_of_rule(mapping(view.obj.get("spec"))):
        path: FieldPath = ("spec", "deviceSelector")
        view.warning("taint-rule-everything", path, said.partition(": ")[2], "driver: ...", key=True)
    wanted = "v1" if minor >= 37 else "v1beta2"
    older = ("v1alpha3", "v1beta1", "v1beta2") if minor >= 37 else ("v1alpha3", "v1beta1", "v1")
    if view.version not in older:
        return
    served = {
        "v1alpha3": "since 1.33, deprecated in 1.36, until 1.38",
        "v1beta1": NEVER_VALID,
        "v1beta2": "since 1.36, until 1.41; v1 since 1.37",
        "v1": "since 1.37",
    }[view.version]
    api_version = f"{GROUP}/{wanted}"
    view.obj["apiVersion"] = api_version
    view.report(
        "old-api-version",
        Severity.ERROR if view.version in ("v1beta1", "v1") else Severity.WARNING,
        ("apiVersion",),
        f"DeviceTaintRule is {wanted} in Kubernetes 1.{minor}",
        f"apiVersion: {api_version}",
        served=served,
        converted=f"apiVersion: {api_version}",
    )


# --- pods ---------------------------------------------------------------------------------------------------


def _pod_sources(view: View) -> None:
    """Lift `source` wherever a pod spec stands: in a Pod, in a template, in somebody's own resource."""
    for path, spec in view.pod_specs:
        for index, entry in mappings(spec.get("resourceClaims") if "containers" in spec else None):
            _lift_source(view, (*path, "resourceClaims", index), entry)


def _lift_source(view: View, path: FieldPath, entry: dict[str, Any]) -> None:
    source = entry.get("source")
    if not isinstance(source, dict):
        if "source" in entry:
            view.never_valid(
                "pod-claim-source",
                (*path, "source"),
                "the claim's source is a field of its own, and no text",
                "resourceClaimTemplateName: ... or resourceClaimName: ...",
                key=True,
            )
        return
    clash = sorted(set(source) & set(entry))
    fields = ", ".join(f"{name}: {value}" for name, value in source.items())
    view.error(
        "pod-claim-source",
        (*path, "source"),
        "the claim's source is no longer wrapped" + (f", and {', '.join(clash)} stands beside it" if clash else ""),
        fields or "resourceClaimTemplateName: ... or resourceClaimName: ...",
        served="1.26 to 1.30",
        converted="" if clash else f"lifted out of source: {fields or 'nothing'}",
        key=True,
    )
    if not clash:
        del entry["source"]
        for name, value in source.items():
            entry[name] = value
            view.moved((*path, name), view.origin((*path, "source", name)))
