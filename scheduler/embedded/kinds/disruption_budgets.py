"""PodDisruptionBudgets on their way in.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/policy/validation, pkg/registry/policy/poddisruptionbudget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.strategy import Object, Strategy, StrategyView
from scheduler.validation.field_errors import FieldError, Json, forbidden, invalid, not_supported, required
from scheduler.validation.names import check_text, label_key, label_value

_PERCENT: Final = re.compile(r"[0-9]+%")
_PERCENT_TEXT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class DisruptionBudgetStrategy(Strategy):
    """policy/v1 PodDisruptionBudget: must be updated with a resourceVersion."""

    bumps_generation = True
    allows_unconditional_update = False

    def default(self, obj: Object, cluster: StrategyView) -> None:
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Object, cluster: StrategyView) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def validate_create(self, obj: Object, cluster: StrategyView) -> list[FieldError]:
        spec = obj["spec"]
        errors: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            errors.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            if spec.get(field) is not None:
                errors += _check_amount(spec[field], f"spec.{field}")
        errors += _check_selector(spec.get("selector") or {}, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
        return errors

    def validate_status_update(self, new: Object, old: Mapping[str, Json], cluster: StrategyView) -> list[FieldError]:
        status = new.get("status") or {}
        return [
            invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
            for field in _COUNTS
            if status.get(field, 0) < 0
        ]


def _check_amount(value: Json, path: str) -> list[FieldError]:
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            return [invalid(path, value, _PERCENT_TEXT)]
        return [invalid(path, value, "must not be greater than 100%")] if int(value[:-1]) > 100 else []
    return [invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []


def _check_selector(selector: Mapping[str, Json], path: str) -> list[FieldError]:
    """metav1 ValidateLabelSelector."""
    errors: list[FieldError] = []
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        errors += check_text(label_key, key, f"{path}.matchLabels")
        errors += check_text(label_value, value, f"{path}.matchLabels")
    for index, rule in enumerate(selector.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        operator, values = rule.get("operator", ""), rule.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(required(f"{place}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{place}.values", text))
        else:
            errors.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
        errors += check_text(label_key, rule.get("key", ""), f"{place}.key")
        for number, value in enumerate(values):
            errors += check_text(label_value, value, f"{place}.values[{number}]")
    return errors
