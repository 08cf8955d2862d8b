"""The codes of lint's findings: what each means, and what `convert` makes of it; docs/lint-codes.md is this table.

Rules of this module
  1. A name is stable: scripts and comments use it.
  2. An error is what a cluster refuses or ignores, or what can never work; a warning works, and may surprise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.lint.findings import Severity

_E: Final = frozenset({Severity.ERROR})
_W: Final = frozenset({Severity.WARNING})
_EITHER: Final = _E | _W


class Code(NamedTuple):
    """One rule: the severities that its findings have, and what is so, in one sentence.

    Attributes:
        converted: What `convert` makes of it; "": it is kept where it is a warning, and refused where it is an error.
    """

    severities: frozenset[Severity]
    means: str
    converted: str = ""


CODES: Final[Mapping[str, Code]] = {
    "accessor": Code(
        _EITHER,
        "An expression calls `.string()`, `.quantity()` or the like, or names the type; attributes are plain values.",
        "plain values; `capacity` and `compareTo` for quantities, `compareTo(semver(…))` for versions, "
        "`includes` for lists",
    ),
    "admin-access-unlabelled": Code(_W, "A claim has admin access, and its namespace lacks the label for it."),
    "attribute-without-domain": Code(
        _EITHER,
        "An attribute or capacity is named without its domain, or with both in one key.",
        "domain and name as two keys",
    ),
    "basic-device": Code(_EITHER, "A device of a slice has its fields under `basic`, as before v1beta2.", "lifted out"),
    "broken-yaml": Code(_E, "The text is no YAML, or holds more than is read."),
    "claim-allocation-mode": Code(_E, "A claim has `allocationMode` beside `devices`.", "left out"),
    "claim-nobody-allocates": Code(_W, "A pod has `nodeName` and claims that only a scheduler allocates."),
    "classic-allocation-mode": Code(
        _E,
        "A claim of classic DRA has an `allocationMode`.",
        "WaitForFirstConsumer is left out; Immediate is refused: nothing allocates before a pod",
    ),
    "classic-claim": Code(_E, "A claim or template of classic DRA.", "a claim with one request, `device`"),
    "classic-controller": Code(_E, "A claim of 1.31 names a `controller`."),
    "classic-dra": Code(
        _E,
        "A kind of classic DRA (to 1.30).",
        "a ResourceClass becomes a DeviceClass that selects the driver; PodSchedulingContexts, slices of 1.30 and "
        "parameters nobody refers to are refused",
    ),
    "classic-driver-name": Code(
        _E, "A ResourceClass has its `driverName` where v1 has a selector.", "a selector of the driver"
    ),
    "classic-parameters": Code(
        _E,
        "A claim or class refers to parameters by `parametersRef`.",
        "`config[].opaque`, where parameters, or class and driver, are in the files; else refused",
    ),
    "classic-structured-parameters": Code(_E, "A ResourceClass says `structuredParameters`.", "left out"),
    "compared-by-operator": Code(
        _EITHER, "An amount or a version is compared by an operator instead of `compareTo`.", "`compareTo`"
    ),
    "constraint-as-selector": Code(
        _E,
        "A constraint tests each device by itself; that is a selector.",
        "selectors of the requests it names; an amount (`40Gi`) is that capacity or more",
    ),
    "constraint-attribute-list": Code(_E, "A constraint has a list of attributes.", "one `matchAttribute` each"),
    "constraint-in-request": Code(
        _E, "A constraint stands inside of a request.", "moved to `spec.devices.constraints`"
    ),
    "contradicting-slices": Code(
        _W,
        "Slices of one pool contradict each other: from two nodes, counts that disagree, a device twice.",
    ),
    "counter-too-small": Code(_W, "A device takes more of a counter than there is, so nobody is given it."),
    "counters-beside-devices": Code(_E, "A slice has `sharedCounters` beside `devices`."),
    "device-twice": Code(_W, "A container asks for a vendor's device by extended resource and by claim."),
    "does-not-fit": Code(_W, "A pod has no room in the cluster; the message is the cause, as `explain` says it."),
    "driver-renamed": Code(_E, "A driver has another name today (`--driver-map`).", "its name today"),
    "driver-with-slash": Code(
        _E,
        "An extended resource's name stands where a driver's name belongs.",
        "what `--driver-map` says, or the driver that a dump shows; else refused",
    ),
    "duplicate": Code(_E, "Two containers, volumes or claims of a pod have one name."),
    "duplicate-key": Code(_E, "A mapping has a field twice; mostly a line `---` is missing."),
    "empty": Code(_W, "A file has no object."),
    "expression-refused": Code(_E, "An expression does not compile."),
    "expression-too-complex": Code(_E, "An expression may cost more than the API server allows."),
    "expression-too-long": Code(_E, "An expression is longer than the API server allows."),
    "extended-resource-twice": Code(
        _W, "An extended resource is served by several classes, or by a device plugin and a class on one node."
    ),
    "flat-request": Code(
        _EITHER, "A request has its fields beside its name instead of in `exactly`.", "wrapped in `exactly`"
    ),
    "full-width-punctuation": Code(_E, "An expression has typographic quotes.", "CEL's own; texts stay"),
    "gate-off": Code(_W, "A field whose feature gate is off: the API server drops it."),
    "has-on-domain": Code(_W, "`has()` asks for a domain, which is always there."),
    "illegal-attribute-name": Code(
        _EITHER,
        "An attribute's name is no C identifier.",
        "the published name that differs in case and separators only; without a dump the nearest legal one, `vram_gb`",
    ),
    "incomplete-pool": Code(_W, "Slices of a pool are missing, so no device of it is given out."),
    "inline-template": Code(
        _E,
        "A pod spec has a claim's spec or template inside of it.",
        "a ResourceClaimTemplate `WORKLOAD-CLAIM` beside it, named in `resourceClaims`",
    ),
    "invalid-name": Code(_E, "A name that no capacity can have."),
    "invalid-value": Code(_E, "A value of a wrong type, or one that the API does not know."),
    "many-pods": Code(_W, "A workload asks for more pods than clusters are made for."),
    "metadata-missing": Code(
        _E, "`name` or `labels` stand beside `kind`: the line `metadata:` was lost.", "moved into `metadata`"
    ),
    "missing-field": Code(
        _E, "A field that is needed is not there.", "a missing selector becomes the template's labels; else refused"
    ),
    "needs-newer-cluster": Code(_W, "An expression needs a newer release, or a feature gate."),
    "no-requests": Code(_W, "A claim requests nothing."),
    "old-api-version": Code(
        _EITHER,
        "An older API version; an error where no supported release serves it.",
        "v1; a DeviceTaintRule the version of the release given with `--kubernetes`",
    ),
    "old-generation": Code(_W, "A slice is of an older generation than its pool, so its devices do not count."),
    "old-scheduler-config": Code(
        _E,
        "A kube-scheduler configuration of an older version.",
        "v1; refused before v1beta3, and where it switches on a plugin that is gone",
    ),
    "one-of": Code(_E, "Exactly one of several fields is needed."),
    "opaque-without-kind": Code(_W, "Opaque parameters have no `apiVersion` or `kind`."),
    "own-domain": Code(_W, "A slice names an attribute or capacity with the driver's own domain: drivers refuse to."),
    "plain-capacity": Code(
        _EITHER, "A capacity of a slice is a plain amount instead of `value`.", "wrapped in `value`"
    ),
    "plugin-args": Code(_E, "DynamicResources has args that kube-scheduler never had.", "left out"),
    "pod-claim-source": Code(
        _E, "A pod's claim has its names under `source`, as to 1.30.", "lifted out, in any workload's template"
    ),
    "quantity-not-equals": Code(_W, "`!=` on amounts and versions: the API server refuses it as too complex."),
    "refused": Code(_E, "The API server refuses it, in its words."),
    "replicas-share-claim": Code(_W, "Replicas share one claim by name."),
    "resource-field-ref": Code(
        _E,
        "An environment variable refers to a claim's devices, which no release has.",
        "left out where drivers set the variable themselves (`…_VISIBLE_DEVICES`); else refused",
    ),
    "suitable-nodes": Code(_E, "A class of 1.31 says `suitableNodes`."),
    "taint-rule-everything": Code(_W, "A DeviceTaintRule has an empty selector: it taints every device."),
    "taint-rule-selector": Code(_E, "A DeviceTaintRule selects by class or CEL, as to 1.34."),
    "taint-rule-without-devices": Code(_W, "A DeviceTaintRule names a driver, pool or device that is not there."),
    "toleration": Code(_W, "A toleration tolerates less than it seems to."),
    "too-many": Code(_E, "More than there may be: devices of a claim, bytes of parameters."),
    "two-stacks": Code(
        _W, "A DeviceClass has the `extendedResourceName` of a device plugin on nodes that publish its devices, too."
    ),
    "undeclared-claim": Code(_E, "A container names a claim that its pod does not have."),
    "unguarded-read": Code(
        _W, "An expression reads an attribute that a device may not have, which ends the search with an error."
    ),
    "unknown-attribute": Code(_W, "No device has an attribute or capacity that an expression reads."),
    "unknown-class": Code(_W, "A request names a DeviceClass that is not there."),
    "unknown-counter": Code(
        _W, "A device consumes a counter or counter set that its pool does not have, so no device of it is given out."
    ),
    "unknown-driver": Code(_W, "An expression demands a driver that publishes nothing."),
    "unknown-field": Code(_E, "There is no such field."),
    "unknown-node": Code(_W, "A slice names a node that is not there."),
    "unknown-request": Code(
        _E, "A constraint, a configuration or a container names a request that its claim does not have."
    ),
    "unqualified-constraint": Code(_E, "A constraint names an attribute without its domain.", "its domain is added"),
    "unreadable": Code(_E, "A file cannot be read."),
    "unused-claim": Code(_W, "No container names a claim of its pod."),
    "vendor-parameters": Code(_W, "A driver's own parameters of classic DRA, that nothing reads now."),
    "version-compared-with-text": Code(
        _W, "A version is compared with a text: `==` ends the search with an error, `!=` is always true."
    ),
    "version-in-text-list": Code(
        _W, "A version is looked for in a list of texts, which ends the search with an error."
    ),
    "version-ordered-as-text": Code(_W, 'Versions are ordered as texts: "10.0" comes before "9.0".'),
    "wrong-api-version": Code(
        _E, "The kind is of another API group or version.", "a missing group is added; else refused"
    ),
    "wrong-kind": Code(_E, "There is no such kind."),
}
