"""PodDisruptionBudgets on their way in.

Source: k8s.io/kubernetes v1.36.3 pkg/apis/policy/validation, pkg/registry/policy/poddisruptionbudget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from scheduler.embedded.server.strategy import Object, Strategy, StrategyView
from scheduler.validation.device_rules import check_label_selector
from scheduler.validation.field_errors import FieldError, Json, invalid, not_supported

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
        errors += check_label_selector(spec.get("selector") or {}, "spec.selector")
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
    if not isinstance(value, int) or isinstance(value, bool):
        return [invalid(path, value, "must be a number of pods, or a percentage of them as a text")]
    return [invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []
