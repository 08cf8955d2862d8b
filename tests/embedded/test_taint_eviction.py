"""When a pod has to leave a tainted device, and what the embedded API server makes of rules."""

from __future__ import annotations

from datetime import datetime

import pytest

from scheduler.embedded.controllers.taint_eviction import TaintEvictionController, rule_matches, tolerated_for

TAINT = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def toleration(seconds=None, **fields):
    more = {"tolerationSeconds": seconds} if seconds is not None else {}
    return {"key": "k", "operator": "Exists", "effect": "NoExecute", **more, **fields}


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([toleration()], None, id="for-ever"),
        pytest.param([toleration(30), toleration(20)], 20, id="of-several-the-smallest"),
        pytest.param([toleration(30), toleration()], None, id="one-for-ever-is-enough"),
        pytest.param([toleration(-5)], 0, id="negative-is-nothing"),
        pytest.param([toleration(effect="")], None, id="without-effect"),
        pytest.param([toleration(effect="NoSchedule")], 0, id="another-effect"),
        pytest.param([toleration(key="other")], 0, id="another-key"),
        pytest.param([toleration(key="")], None, id="any-key"),
        pytest.param([toleration(operator="Equal", value="v")], None, id="equal-value"),
        pytest.param([toleration(operator="Equal", value="w")], 0, id="another-value"),
        pytest.param([toleration(operator="Newer")], 0, id="an-unknown-operator"),
    ],
)
def test_how_long_a_taint_is_tolerated(tolerations, seconds):
    assert tolerated_for(TAINT, tolerations) == seconds


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ({}, False),
        ({"deviceSelector": {}}, True),
        ({"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}}, True),
        ({"deviceSelector": {"driver": "d", "pool": "q"}}, False),
    ],
)
def test_what_a_rule_selects(selector, want):
    assert rule_matches({"spec": selector}, "d", "p", "x") is want


def a_slice(generation, *taints):
    devices = [{"name": "x", "taints": list(taints)}]
    return {"spec": {"driver": "d", "pool": {"name": "p", "generation": generation}, "devices": devices}}


def controller(*slices, reserved_for="pod-uid"):
    made = TaintEvictionController("http://unused")
    result = {"driver": "d", "pool": "p", "device": "x", "tolerations": [toleration(30, key="slow")]}
    claim = {
        "metadata": {"name": "claim", "uid": "claim-uid"},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"uid": reserved_for}]},
    }
    made._indexes = {"claims": {("ns", "claim"): [claim]}, "slices": {("d", "p"): list(slices)}}
    return made


POD = {
    "metadata": {"namespace": "ns", "name": "pod", "uid": "pod-uid"},
    "spec": {"nodeName": "n", "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]},
}
RULE = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": {}, "taint": {**TAINT, "key": "slow"}}}


def at(text):
    return datetime.fromisoformat(text)


def test_the_earliest_of_all_taints_counts_and_the_rules_among_them_are_named():
    both = controller(a_slice(1, TAINT)).eviction_of(POD, [RULE])
    assert (both.at, both.rules) == (at("2026-01-01T00:00:00Z"), {"rule"})
    only_rule = controller(a_slice(1)).eviction_of(POD, [RULE])
    assert (only_rule.at, only_rule.rules) == (at("2026-01-01T00:00:30Z"), {"rule"})


def test_only_the_newest_generation_of_a_pool_and_only_no_execute_count():
    assert controller(a_slice(1, TAINT), a_slice(2)).eviction_of(POD, []) is None
    assert controller(a_slice(1, {**TAINT, "effect": "NoSchedule"})).eviction_of(POD, []) is None


def test_pods_that_do_not_hold_the_claim_or_are_not_on_a_node_stay():
    assert controller(a_slice(1, TAINT), reserved_for="other").eviction_of(POD, []) is None
    unbound = {**POD, "spec": {**POD["spec"], "nodeName": None}}
    assert controller(a_slice(1, TAINT)).eviction_of(unbound, []) is None
