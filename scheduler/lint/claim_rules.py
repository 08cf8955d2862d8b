"""Rules across the fields of a claim or class, and values that are legal and will not do.

Not here: single fields (`schema`), expressions (`selector_rules`), and all that the API server says well enough itself
(`server_rules`).

Source: k8s.io/kubernetes pkg/apis/resource/validation/validation.go v1.36.3.
"""

from __future__ import annotations

import json
from typing import Any

from allocator import RESULTS_MAX
from scheduler.lint.context import Context, usual_driver
from scheduler.lint.findings import FieldPath
from scheduler.lint.view import View, claim_specs, mapping, mappings, request_parts, sequence, text
from scheduler.model.api_rules import ADMIN_ACCESS_LABEL, PARAMETERS_LENGTH_MAX
from scheduler.model.nearest import listed, nearest, some
from scheduler.validation.device_rules import check_qualified_id
from scheduler.validation.refused_since_138 import SINCE


def map_drivers(view: View, context: Context) -> None:
    """Write what drivers are called today into `opaque.driver`, slices and taint rules."""
    if not view.is_dra:
        return
    spec = mapping(view.obj.get("spec"))
    holders: list[tuple[FieldPath, dict[str, Any]]] = [
        (("spec",), spec),
        (("spec", "deviceSelector"), mapping(spec.get("deviceSelector"))),
    ]
    if view.kind == "DeviceClass":
        holders += _opaques(("spec",), spec)
    for path, claim in claim_specs(view):
        holders += _opaques((*path, "devices"), mapping(claim.get("devices")))
    for path, holder in holders:
        written = text(holder.get("driver"))
        meant = context.driver_meant(written)
        if meant is None and "/" not in written:
            continue
        if meant is not None:
            holder["driver"] = meant
        usual = usual_driver(written) or "..."
        view.error(
            "driver-renamed" if "/" not in written else "driver-with-slash",
            (*path, "driver"),
            f"{written} is called {meant} now"
            if "/" not in written
            else f"{written} is an extended resource's name; no driver is called so",
            f"driver: {meant}" if meant else f"perhaps {usual}: convert --driver-map {written}={usual} writes it",
            converted=f"driver: {meant}" if meant else "",
        )


def _opaques(path: FieldPath, holder: dict[str, Any]) -> list[tuple[FieldPath, dict[str, Any]]]:
    return [
        ((*path, "config", index, "opaque"), mapping(entry.get("opaque")))
        for index, entry in mappings(holder.get("config"))
    ]


def check_rules(view: View, context: Context) -> None:
    """Rules across fields, opaque parameters, references, class names."""
    if not view.is_dra:
        return
    for path, spec in claim_specs(view):
        _claim(view, context, path, spec)
    if view.kind == "DeviceClass":
        for index, entry in mappings(mapping(view.obj.get("spec")).get("config")):
            _opaque(view, ("spec", "config", index, "opaque"), mapping(entry.get("opaque")))


def check_extended_resources(context: Context) -> None:
    """Names that several classes have, and those of device plugins on nodes where the class has devices, too."""
    specs = {name: mapping(obj.get("spec")) for (_, name), obj in context.objects("DeviceClass").items()}
    classes: dict[str, list[str]] = {}
    for name, spec in sorted(specs.items()):
        classes.setdefault(text(spec.get("extendedResourceName")), []).append(name)
    plugins: dict[str, set[str]] = {}
    for (_, node), obj in context.objects("Node").items():
        for resource, amount in mapping(mapping(obj.get("status")).get("allocatable")).items():
            if str(amount) != "0":
                plugins.setdefault(resource, set()).add(node)
    slices = [mapping(obj.get("spec")) for obj in context.objects("ResourceSlice").values()]
    publishing = {(text(one.get("driver")), text(one.get("nodeName"))) for one in slices}
    for name, view in context.classes.items():
        resource = text(specs[name].get("extendedResourceName"))
        path: FieldPath = ("spec", "extendedResourceName")
        if resource and len(classes[resource]) > 1:
            message = f"the DeviceClasses {some(classes[resource], 10)} have {resource}: one of them serves it"
            view.warning("extended-resource-twice", path, message, "a name of its own for each")
        drivers = context.drivers_of_class(name)
        having = {node for node in plugins.get(resource, ()) if any((one, node) in publishing for one in drivers)}
        if having:
            message = (
                f"a device plugin serves {resource} on node {some(sorted(having), 3)}, where a "
                "driver publishes the same devices: claims get none of them there, unless `twoStacks` says so"
            )
            view.warning("two-stacks", path, message, "end the device plugin there, or leave the name out")


def check_admin_access(context: Context) -> None:
    """Claims with admin access in a namespace that is known and lacks the label."""
    namespaces = context.objects("Namespace")
    for view in context.views:
        labels = mapping(mapping(namespaces.get(("default", view.namespace), {}).get("metadata")).get("labels"))
        if ("default", view.namespace) not in namespaces or labels.get(ADMIN_ACCESS_LABEL) == "true":
            continue
        for path, spec in claim_specs(view):
            for here, _, part in request_parts(path, spec):
                if part.get("adminAccess") is True:
                    view.warning(
                        "admin-access-unlabelled",
                        (*here, "adminAccess"),
                        f"namespace {view.namespace} has no label {ADMIN_ACCESS_LABEL}: the API server refuses it",
                        f'metadata.labels of the namespace: {{{ADMIN_ACCESS_LABEL}: "true"}}',
                    )


def _claim(view: View, context: Context, path: FieldPath, spec: dict[str, Any]) -> None:
    devices = mapping(spec.get("devices"))
    references: set[str] = set()
    for _, request in mappings(devices.get("requests")):
        references.add(text(request.get("name")))
    for here, reference, part in request_parts(path, spec):
        references.add(reference)
        _count(view, here, part)
        _tolerations(view, context.settings.minor, here, part)
        _class_name(view, context, here, part)
        _capacity_names(view, here, part)
    for name in ("constraints", "config"):
        for index, entry in mappings(devices.get(name)):
            for number, wanted in enumerate(sequence(entry.get("requests"))):
                if isinstance(wanted, str) and wanted not in references:
                    view.error(
                        "unknown-request",
                        (*path, "devices", name, index, "requests", number),
                        f"the claim has no request {wanted}",
                        nearest(wanted, references) or f"it has: {', '.join(sorted(filter(None, references)))}",
                    )
    for index, entry in mappings(devices.get("config")):
        _opaque(view, (*path, "devices", "config", index, "opaque"), mapping(entry.get("opaque")))
    if not devices.get("requests") and "resourceClassName" not in spec:
        view.warning(
            "no-requests",
            (*path, "devices"),
            "the claim requests nothing, so it is allocated without devices",
            "spec.devices.requests: [{name: ..., exactly: {deviceClassName: ...}}]",
        )


def _count(view: View, path: FieldPath, part: dict[str, Any]) -> None:
    mode, count = part.get("allocationMode"), part.get("count")
    if isinstance(count, bool) or not isinstance(count, int):
        return
    if mode != "All" and count > RESULTS_MAX:
        view.error(
            "too-many",
            (*path, "count"),
            f"{count} devices: a claim can be allocated at most {RESULTS_MAX} (results)",
            "spread them over several claims",
        )


def _tolerations(view: View, minor: int, path: FieldPath, part: dict[str, Any]) -> None:
    for index, toleration in mappings(part.get("tolerations")):
        here: FieldPath = (*path, "tolerations", index)
        value = toleration.get("value")
        if not toleration.get("key") and (toleration.get("operator") or "Equal") == "Equal":
            view.warning(
                "toleration",
                here,
                "with neither a key nor operator Exists, taints of all keys are tolerated, but only those "
                + (f"whose value is {value}" if value else "without a value"),
                "operator: Exists tolerates the others too",
            )
        effect = toleration.get("effect") or ("NoExecute" if minor >= SINCE else "")
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            view.warning(
                "toleration",
                (*here, "tolerationSeconds"),
                "tolerationSeconds means something only with effect NoExecute",
                "effect: NoExecute",
            )


def _capacity_names(view: View, path: FieldPath, part: dict[str, Any]) -> None:
    """Names that no capacity can have, which the API server takes as they come."""
    for name in mapping(mapping(part.get("capacity")).get("requests")):
        for error in check_qualified_id(name, ""):
            here: FieldPath = (*path, "capacity", "requests", name)
            view.error("invalid-name", here, f"no capacity is called so: {error.body}", key=True)


def _class_name(view: View, context: Context, path: FieldPath, part: dict[str, Any]) -> None:
    name = text(part.get("deviceClassName"))
    if not name or context.published is None or context.is_class_known(name):
        return
    view.warning(
        "unknown-class",
        (*path, "deviceClassName"),
        f"there is no DeviceClass {name}, in the cluster or these files",
        nearest(name, context.class_names) or listed(context.class_names),
    )


def _opaque(view: View, path: FieldPath, opaque: dict[str, Any]) -> None:
    parameters = opaque.get("parameters")
    here: FieldPath = (*path, "parameters")
    if parameters is None:
        return
    if not isinstance(parameters, dict):
        view.error("invalid-value", here, "must be an object")
        return
    if len(json.dumps(parameters, separators=(",", ":")).encode("utf-8", "replace")) > PARAMETERS_LENGTH_MAX:
        view.error("too-many", here, f"is longer than {PARAMETERS_LENGTH_MAX} bytes as JSON")
    missing = [name for name in ("apiVersion", "kind") if not text(parameters.get(name))]
    if missing:
        view.warning(
            "opaque-without-kind",
            here,
            f"parameters without {' and '.join(missing)}: legal, but most drivers refuse them",
            "parameters: {apiVersion: <the driver's group>/<version>, kind: <its configuration>, ...}",
        )
