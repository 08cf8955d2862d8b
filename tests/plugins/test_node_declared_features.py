"""NodeDeclaredFeatures: what a pod needs of the kubelet, which nodes have it, and what wakes it."""

from __future__ import annotations

import pytest

from scheduler.framework.api import Action, ClusterEvent, Hint, Resource
from scheduler.framework.status import Code
from scheduler.model.declared_features import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
    VOLUME_BIND_MOUNT_OPTIONS,
    required_features,
)
from scheduler.plugins.node_declared_features import REASON, NodeDeclaredFeatures
from tests.plugins.asking import VIEW, filter_verdict
from tests.plugins.objects import node, node_info, pod

PLUGIN = NodeDeclaredFeatures()
MOUNTS = [{"name": "v"}, {"name": "w", "bindMountOptions": ["noexec"]}]
RULES = [{"action": "Restart"}, {"action": "RestartAllContainers"}]
RESTARTING = pod(containers=[{"name": "c"}, {"name": "d", "restartPolicyRules": RULES}])
BOTH = pod(hostNetwork=True, hostUsers=False, initContainers=[{"name": "c", "restartPolicyRules": RULES}])


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(pod(), (), id="nothing"),
        pytest.param(pod(containers=[{"name": "c", "restartPolicyRules": RULES[:1]}]), (), id="one-container-alone"),
        pytest.param(RESTARTING, (RESTART_ALL_CONTAINERS,), id="all-containers"),
        pytest.param(pod(hostNetwork=True), (), id="host-network"),
        pytest.param(pod(hostUsers=False), (), id="user-namespace"),
        pytest.param(pod(hostNetwork=True, hostUsers=True), (), id="users-of-the-host"),
        pytest.param(pod(containers=[{"name": "c", "volumeMounts": MOUNTS[:1]}]), (), id="mounts-without-options"),
        pytest.param(pod(containers=[{"name": "c", "volumeMounts": [{"bindMountOptions": []}]}]), (), id="no-options"),
        pytest.param(
            pod(containers=[{"name": "c", "volumeMounts": MOUNTS}]), (VOLUME_BIND_MOUNT_OPTIONS,), id="bind-options"
        ),
        pytest.param(
            pod(initContainers=[{"name": "c", "volumeMounts": MOUNTS, "restartPolicyRules": RULES}]),
            (RESTART_ALL_CONTAINERS, VOLUME_BIND_MOUNT_OPTIONS),
            id="bind-options-of-an-init-container",
        ),
        pytest.param(BOTH, (RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK), id="init-container-and-namespace"),
    ],
)
def test_what_a_pod_needs(one, want) -> None:
    assert required_features(one) == want


@pytest.mark.parametrize(
    ("one", "declared", "code"),
    [
        pytest.param(pod(), None, Code.SKIP, id="nothing-needed"),
        pytest.param(RESTARTING, None, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, id="nothing-declared"),
        pytest.param(RESTARTING, ["Other"], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, id="something-else-declared"),
        pytest.param(RESTARTING, ["Other", RESTART_ALL_CONTAINERS], Code.SUCCESS, id="declared-among-others"),
        pytest.param(BOTH, [RESTART_ALL_CONTAINERS], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, id="one-of-two-declared"),
        pytest.param(BOTH, [USER_NAMESPACES_HOST_NETWORK, RESTART_ALL_CONTAINERS], Code.SUCCESS, id="both-declared"),
    ],
)
def test_filter(one, declared, code) -> None:
    verdict = filter_verdict(PLUGIN, one, node_info(declaredFeatures=declared))
    assert (verdict.code, verdict.message) == (code, REASON if verdict.is_rejection else "")


HAS, HAS_NOT = node(declaredFeatures=[RESTART_ALL_CONTAINERS]), node(declaredFeatures=["Other"])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, HAS, Hint.QUEUE, id="a-node-with-it-came"),
        pytest.param(None, HAS_NOT, Hint.SKIP, id="a-node-without-it-came"),
        pytest.param(HAS_NOT, HAS, Hint.QUEUE, id="a-node-came-to-have-it"),
        pytest.param(HAS, HAS, Hint.SKIP, id="it-had-it-before"),
        pytest.param(HAS, HAS_NOT, Hint.SKIP, id="it-lost-it"),
    ],
)
def test_hint(old, new, want) -> None:
    action = Action.UPDATE_NODE_DECLARED_FEATURE if old is not None else Action.ADD
    assert any(action & mask for _, mask in PLUGIN.wakes_on)
    assert PLUGIN.hint(RESTARTING, ClusterEvent(Resource.NODE, action, old, new), VIEW) is want
