"""Names, labels and keys: the formats Kubernetes asks for, and the words it refuses with.

The formats are those of CEL, which has them from the same library in Go (`cel.library.formats`).

Source: k8s.io/apimachinery v0.36.3 pkg/util/validation/validation.go, pkg/api/validation/objectmeta.go.
"""

from collections.abc import Callable, Mapping
from typing import Final

from allocator.values.names import is_c_identifier
from cel.library.formats import FORMATS
from scheduler.validation.field_errors import FieldError, Json, invalid, required, too_long

ANNOTATIONS_SIZE_MAX: Final = 256 * 1024

_C_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)

NameRule = Callable[[str], list[str]]
"""A format: the problems of a text, empty when it conforms."""


dns_label: Final[NameRule] = FORMATS["dns1123Label"].problems
dns_subdomain: Final[NameRule] = FORMATS["dns1123Subdomain"].problems
label_key: Final[NameRule] = FORMATS["qualifiedName"].problems
label_value: Final[NameRule] = FORMATS["labelValue"].problems


def c_identifier(text: str) -> list[str]:
    """A C identifier."""
    return [] if is_c_identifier(text) else [_C_IDENTIFIER_TEXT]


def check_text(rule: NameRule, text: str, path: str) -> list[FieldError]:
    """The problems of `text` as field errors at `path`."""
    return [invalid(path, text, problem) for problem in rule(text)]


def validate_metadata(metadata: Mapping[str, Json], *, namespaced: bool, rule: NameRule) -> list[FieldError]:
    """The rules all objects share: name, labels, annotations, finalizers, ownerReferences."""
    errors: list[FieldError] = []
    name = metadata.get("name") or ""
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += check_text(rule, name, "metadata.name")
    if not namespaced and metadata.get("namespace"):
        errors.append(FieldError("FieldValueForbidden", "metadata.namespace", "Forbidden: not allowed on this type"))
    for key, value in (metadata.get("labels") or {}).items():
        errors += check_text(label_key, key, "metadata.labels")
        errors += check_text(label_value, value, "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        errors += [invalid("metadata.annotations", key, problem) for problem in label_key(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_SIZE_MAX:
        errors.append(too_long("metadata.annotations", ANNOTATIONS_SIZE_MAX))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        errors += check_text(label_key, finalizer, f"metadata.finalizers[{index}]")
    errors += validate_owners(metadata.get("ownerReferences") or ())
    return errors


def validate_owners(owners: Json) -> list[FieldError]:
    """What is wrong with `metadata.ownerReferences`."""
    errors: list[FieldError] = []
    controllers = 0
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        errors += [
            invalid(f"{path}.{field}", owner.get(field) or "", "must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        ]
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        errors.append(
            invalid("metadata.ownerReferences", list(owners), "Only one reference can have Controller set to true.")
        )
    return errors
