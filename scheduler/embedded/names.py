"""Names, labels and keys: the formats Kubernetes asks for, and the words it refuses with.

Source: k8s.io/apimachinery v0.36.3 pkg/util/validation/validation.go, pkg/api/validation/objectmeta.go.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from scheduler.embedded.statuses import FieldError, Json, invalid, required, too_long

LABEL_LENGTH_MAX: Final = 63
SUBDOMAIN_LENGTH_MAX: Final = 253
ANNOTATIONS_SIZE_MAX: Final = 256 * 1024

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_PART_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_C_IDENTIFIER_TEXT: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)

NameRule = Callable[[str], list[str]]
"""A format: the problems of a text, empty when it conforms."""


def dns_label(text: str) -> list[str]:
    """RFC 1123 label, at most 63 characters."""
    problems = [] if len(text) <= LABEL_LENGTH_MAX else [f"must be no more than {LABEL_LENGTH_MAX} bytes"]
    if not _LABEL.fullmatch(text):
        problems.append(_LABEL_TEXT)
    return problems


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain, at most 253 characters."""
    problems = [] if len(text) <= SUBDOMAIN_LENGTH_MAX else [f"must be no more than {SUBDOMAIN_LENGTH_MAX} bytes"]
    if not _SUBDOMAIN.fullmatch(text):
        problems.append(_SUBDOMAIN_TEXT)
    return problems


def path_segment(text: str) -> list[str]:
    """Anything that can be one segment of a URL path (names of Events, RBAC objects)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in text]


def qualified_name(text: str) -> list[str]:
    """A label key: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    problems: list[str] = []
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in dns_subdomain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH_MAX:
        problems.append(f"name part must be no more than {LABEL_LENGTH_MAX} bytes")
    if not _QUALIFIED_NAME.fullmatch(name):
        problems.append(_NAME_PART_TEXT)
    return problems


def label_value(text: str) -> list[str]:
    """The value of a label."""
    problems = [] if len(text) <= LABEL_LENGTH_MAX else [f"must be no more than {LABEL_LENGTH_MAX} bytes"]
    if text and not _QUALIFIED_NAME.fullmatch(text):
        problems.append(_LABEL_VALUE_TEXT)
    return problems


def c_identifier(text: str) -> list[str]:
    """A C identifier."""
    return [] if _C_IDENTIFIER.fullmatch(text) else [_C_IDENTIFIER_TEXT]


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
        errors += check_text(qualified_name, key, "metadata.labels")
        errors += check_text(label_value, value, "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        errors += check_text(qualified_name, key.lower(), "metadata.annotations")
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_SIZE_MAX:
        errors.append(too_long("metadata.annotations", ANNOTATIONS_SIZE_MAX))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        errors += check_text(qualified_name, finalizer, f"metadata.finalizers[{index}]")
    errors += _validate_owners(metadata.get("ownerReferences") or ())
    return errors


def _validate_owners(owners: Json) -> list[FieldError]:
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
