"""Why a pod does not fit, and which change would make it fit: each change is tried, by asking the machine again."""

from scheduler.explain.explaining import NotThereError, explain_claim, explain_pod
from scheduler.explain.pod_explanation import Explanation

__all__ = ["Explanation", "NotThereError", "explain_claim", "explain_pod"]
