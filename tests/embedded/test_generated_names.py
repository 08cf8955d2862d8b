"""The names of claims made for pods."""

from __future__ import annotations

import pytest

from scheduler.model.pod_claims import generate_name


@pytest.mark.parametrize(
    ("pod_name", "claim_name", "wanted"),
    [
        ("pod", "gpu", "pod-gpu-"),
        ("p" * 26, "c" * 29, "p" * 26 + "-" + "c" * 29 + "-"),
        ("p" * 60, "c" * 40, "p" * 33 + "-" + "c" * 22),
        ("p" * 200, "c" * 63, "p" * 43 + "-" + "c" * 13),
    ],
)
def test_generated_names_keep_a_part_of_both(pod_name: str, claim_name: str, wanted: str) -> None:
    assert generate_name(pod_name, claim_name) == wanted
