"""First slice."""

from tests import builders
from tests.core.plugins import Slots, TinyDevices
from tests.core.rig import Rig


def test_a_pod_without_claims_is_bound():
    rig = Rig(Slots(1))
    rig.add_nodes("a", "b")
    rig.add_pod("p1")
    rig.add_pod("p2")
    rig.add_pod("p3")
    rig.settle()
    assert sorted([rig.node_of("p1"), rig.node_of("p2")]) == ["a", "b"]
    assert rig.node_of("p3") is None
    assert rig.condition_of("p3") == ("Unschedulable", "0/2 nodes are available: 2 Too many pods.")
    rig.server.delete_pod(builders.pod("p1").key)
    rig.wait(1000)
    assert rig.node_of("p3") is not None


def test_a_pod_with_a_claim_is_bound():
    rig = Rig(TinyDevices())
    rig.add_nodes("a")
    for name in ("c1", "c2", "c3"):
        rig.server.put_claim(builders.claim(name))
        rig.add_pod("p" + name, claims=(name,))
    rig.settle()
    assert rig.node_of("pc1") == rig.node_of("pc2") == "a"
    assert rig.condition_of("pc3") == ("Unschedulable", "0/1 nodes are available: 1 cannot allocate all claims.")
