"""Classic DRA (`resource.k8s.io/v1alpha1` and `v1alpha2`, up to 1.30) in terms of v1.

What has an equivalent is converted: a ResourceClass is a DeviceClass that selects the driver's devices, a claim asks
for one device of that class, parameters that were handed to the driver unread are `config[].opaque`. Parameters that
only the driver's own controller understood, Immediate allocation and node filters have none.

Source: k8s.io/api resource/v1alpha2/types.go v0.30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler.lint.findings import FieldPath
from scheduler.lint.modernize import report_suitable_nodes
from scheduler.lint.view import GROUP, V1, View, at, claim_spec_path, copy_plain, mapping, mappings, sequence, text

VERSIONS: Final[Mapping[str, str]] = {"v1alpha1": "1.26", "v1alpha2": "1.27 to 1.30"}
_REQUEST: Final = "device"
_PARAMETER_KINDS: Final = ("ResourceClaimParameters", "ResourceClassParameters")
_VENDOR_KINDS: Final = ("ClaimParameters", "ClassParameters")


def is_classic(view: View) -> bool:
    """Whether a view is of an API version that had only classic DRA."""
    return view.is_dra and view.version in VERSIONS


def modernize_classic(views: Sequence[View]) -> None:
    """Bring all classic objects to v1; together, because claims and classes refer to parameters."""
    _Classic(views).run()


def _served(view: View) -> str:
    return VERSIONS.get(view.version, "1.26 to 1.30")


class _Classic:
    def __init__(self, views: Sequence[View]) -> None:
        self.views = views
        self.parameters = {
            (view.kind, view.namespace, view.object_name): view
            for view in views
            if is_classic(view) and view.kind in _PARAMETER_KINDS
        }
        self.vendors = {
            (view.group, view.kind, view.object_name): view for view in views if view.group and not view.is_dra
        }
        self.drivers = {
            view.object_name: text(view.obj.get("driverName")) for view in views if view.kind == "ResourceClass"
        }
        self.merged: set[int] = set()

    def run(self) -> None:
        for view in self.views:
            if is_classic(view):
                self.convert(view)
            elif view.kind.endswith(_VENDOR_KINDS) and not view.is_dra and view.group:
                self.vendor(view)
        for view in self.views:
            if is_classic(view) and view.kind in _PARAMETER_KINDS:
                self.left_over(view)

    def convert(self, view: View) -> None:
        match view.kind:
            case "ResourceClass":
                self.resource_class(view)
            case "ResourceClaim" | "ResourceClaimTemplate":
                self.claim(view)
            case "PodSchedulingContext" | "PodScheduling":
                self.gone(
                    view,
                    f"{view.kind} is gone: schedulers pick node and devices in one step",
                    "no equivalent, and none is needed: delete it",
                )
            case "ResourceSlice":
                self.gone(
                    view,
                    "a ResourceSlice of this version cannot be converted: it has no pool",
                    "leave slices to the driver, which publishes them",
                )
            case kind if kind in _PARAMETER_KINDS:
                pass  # merged into classes and claims, or reported by `left_over`
            case _:
                self.gone(view, f"{view.document.api_version} {view.kind} is not served", "no equivalent")

    def gone(self, view: View, message: str, fix: str) -> None:
        view.error("classic-dra", ("kind",), message, fix, served=_served(view))

    def version(self, view: View, kind: str) -> None:
        was = f"{view.document.api_version} {view.kind}"
        view.obj["apiVersion"], view.obj["kind"] = V1, kind
        view.error(
            "classic-dra",
            ("apiVersion",),
            f"{was} is gone: classic DRA was removed",
            f"apiVersion: {V1}, kind: {kind}",
            served=_served(view),
            converted=f"apiVersion: {V1}, kind: {kind}",
        )

    # Classes.

    def resource_class(self, view: View) -> None:
        obj = view.obj
        driver = text(obj.get("driverName"))
        if not driver or '"' in driver or "\\" in driver:
            self.gone(view, "a ResourceClass without a usable driverName says nothing", "write a DeviceClass anew")
            return
        self.version(view, "DeviceClass")
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
        view.error(
            "classic-driver-name",
            ("driverName",),
            "a DeviceClass has no driverName: it selects devices by what they publish",
            f'spec.selectors: [{{cel: {{expression: device.driver == "{driver}"}}}}]',
            served=_served(view),
            converted="spec.selectors with device.driver",
            key=True,
        )
        del obj["driverName"]
        view.moved(("spec", "selectors", 0, "cel", "expression"), ("driverName",))
        self.drop_structured(view)
        if "suitableNodes" in obj:
            report_suitable_nodes(view, ("suitableNodes",), _served(view))
        config = self.parameters_of(view, ("parametersRef",), obj, "ResourceClassParameters", driver)
        if config:
            spec["config"] = config
        obj["spec"] = spec

    def drop_structured(self, view: View) -> None:
        if "structuredParameters" in view.obj:
            del view.obj["structuredParameters"]
            view.error(
                "classic-structured-parameters",
                ("structuredParameters",),
                "structured parameters are the only kind now",
                "leave it out",
                served="1.30",
                converted="left out",
                key=True,
            )

    # Claims.

    def claim(self, view: View) -> None:
        self.version(view, view.kind)
        path = claim_spec_path(view.kind)
        spec = at(view.obj, path) if path is not None else None
        if path is None or not isinstance(spec, dict):
            return
        class_name = spec.pop("resourceClassName", None)
        request: dict[str, Any] = {"name": _REQUEST, "exactly": {"deviceClassName": class_name}}
        if isinstance(class_name, str):
            view.error(
                "classic-claim",
                (*path, "resourceClassName"),
                "a claim lists requests, each with a device class",
                f"spec.devices.requests: [{{name: {_REQUEST}, exactly: {{deviceClassName: {class_name}}}}}]",
                served=_served(view),
                converted=f"one request, {_REQUEST}, of class {class_name}",
                key=True,
            )
            view.moved((*path, "devices", "requests", 0, "exactly", "deviceClassName"), (*path, "resourceClassName"))
        else:
            view.error(
                "classic-claim",
                path,
                "a claim without resourceClassName asks for nothing",
                "no equivalent: write spec.devices.requests",
                served=_served(view),
            )
        self.mode(view, path, spec)
        config = self.parameters_of(
            view, (*path, "parametersRef"), spec, "ResourceClaimParameters", self.drivers.get(text(class_name), "")
        )
        devices: dict[str, Any] = {"requests": [request]}
        if config:
            devices["config"] = [{"requests": [_REQUEST], **entry} for entry in config]
        spec["devices"] = devices

    def mode(self, view: View, path: FieldPath, spec: dict[str, Any]) -> None:
        if "allocationMode" not in spec:
            return
        mode = spec.pop("allocationMode")
        is_delayed = mode == "WaitForFirstConsumer"
        view.error(
            "classic-allocation-mode",
            (*path, "allocationMode"),
            "allocation always waits for a pod now"
            if is_delayed
            else f"allocationMode {mode!r}: nothing allocates a claim before a pod uses it",
            "leave it out" if is_delayed else "no equivalent: use the claim in a pod, or leave the mode out",
            served=_served(view),
            converted="left out" if is_delayed else "",
            key=True,
        )
        if not is_delayed:
            spec["allocationMode"] = mode

    # Parameters.

    def parameters_of(
        self, view: View, path: FieldPath, holder: dict[str, Any], kind: str, driver: str
    ) -> list[dict[str, Any]]:
        """The opaque configuration that a parametersRef leads to; what has no equivalent is reported."""
        if "parametersRef" not in holder:
            return []
        reference = mapping(holder.pop("parametersRef"))
        found = self.parameters.get(
            (text(reference.get("kind")), self.namespace_of(view, reference), text(reference.get("name")))
        )
        is_ours = reference.get("apiGroup") == GROUP and reference.get("kind") == kind
        vendor = self.vendors.get(
            (text(reference.get("apiGroup")), text(reference.get("kind")), text(reference.get("name")))
        )
        if not is_ours and vendor is not None and driver:
            return self.vendors_own(view, path, vendor, driver)
        if not is_ours or found is None:
            what = f"{reference.get('kind')} {reference.get('name')}"
            why = (
                f"{what} is not in these files" if is_ours else f"only the driver knows what its own {what} means in v1"
            )
            holder["parametersRef"] = reference
            view.error(
                "classic-parameters",
                path,
                f"there is no parametersRef: parameters are inside the claim or class ({why})",
                "config: [{opaque: {driver: ..., parameters: {apiVersion: ..., kind: ...}}}], "
                "as the driver documents its configuration",
                served=_served(view),
                key=True,
            )
            return []
        config, problem = _opaque_of(found)
        view.error(
            "classic-parameters",
            path,
            "there is no parametersRef: parameters are inside the claim or class"
            + (f"; those of {found.document.name} have no equivalent: {problem}" if problem else ""),
            "config: [{opaque: {driver: ..., parameters: ...}}]",
            served=_served(view),
            converted="" if problem else f"config[].opaque with the parameters of {found.document.name}",
            key=True,
        )
        self.merged.add(id(found))
        if problem:
            holder["parametersRef"] = reference
            return []
        return config

    def vendors_own(self, view: View, path: FieldPath, vendor: View, driver: str) -> list[dict[str, Any]]:
        """A driver's own object, handed to the driver as it is."""
        view.error(
            "classic-parameters",
            path,
            "there is no parametersRef: parameters are inside the claim or class; whether the driver of today reads "
            f"its own {vendor.document.api_version} {vendor.kind} there, its documentation says",
            "config: [{opaque: {driver: ..., parameters: {apiVersion: ..., kind: ...}}}]",
            served=_served(view),
            converted=f"config[].opaque for {driver} with what {vendor.document.name} holds",
            key=True,
        )
        own = {name: value for name, value in vendor.obj.items() if name not in ("metadata", "status")}
        return [{"opaque": {"driver": driver, "parameters": copy_plain(own)}}]

    def namespace_of(self, view: View, reference: dict[str, Any]) -> str:
        return text(reference.get("namespace")) or view.namespace

    def left_over(self, view: View) -> None:
        is_merged = id(view) in self.merged
        view.is_left_out = is_merged
        view.error(
            "classic-dra",
            ("kind",),
            f"{view.kind} is gone; parameters are inside the claim or class that uses them",
            "config: [{opaque: {driver: ..., parameters: ...}}] in the claim or class",
            served="1.30",
            converted="left out: its content is in the claims and classes that refer to it" if is_merged else "",
        )

    def vendor(self, view: View) -> None:
        view.warning(
            "vendor-parameters",
            ("kind",),
            f"a driver's parameters for classic DRA, it seems ({view.document.api_version}); nothing reads them now",
            "config: [{opaque: {driver: ..., parameters: {apiVersion: ..., kind: ...}}}] in claim or class, as the "
            "driver documents it",
            served="1.26 to 1.30",
        )


def _opaque_of(view: View) -> tuple[list[dict[str, Any]], str]:
    """Opaque configuration from a ResourceClaimParameters or ResourceClassParameters; and what has no equivalent."""
    obj = view.obj
    if mapping(obj).get("filters"):
        return [], "its filters are in another expression language"
    if obj.get("shareable") is False:
        return [], "shareable: false cannot be asked for"
    config: list[dict[str, Any]] = []

    def add(driver: Any, parameters: Any) -> None:
        if parameters is not None:
            config.append({"opaque": {"driver": driver, "parameters": parameters}})

    for _, entry in mappings(obj.get("vendorParameters")):
        add(entry.get("driverName"), entry.get("parameters"))
    for _, entry in mappings(obj.get("driverRequests")):
        add(entry.get("driverName"), entry.get("vendorParameters"))
        requests = sequence(entry.get("requests"))
        if len(requests) > 1 or len(sequence(obj.get("driverRequests"))) > 1:
            return [], "it asks for several devices at once"
        for _, request in mappings(requests):
            selector = text(mapping(request.get("namedResources")).get("selector"))
            if selector.strip() not in ("", "true"):
                return [], "its selector is in another expression language (attributes.string[...])"
            add(entry.get("driverName"), request.get("vendorParameters"))
    if any(not isinstance(entry["opaque"]["driver"], str) for entry in config):
        return [], "a driverName is missing"
    return config, ""
