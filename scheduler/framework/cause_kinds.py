"""The kinds of causes for which a pod waits: their names, and what each means; docs/reasons.md is made from this table.

Rules of this module
  1. A name is stable: alerts, scripts and links use it. It says the fact, not the change that would help.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class CauseKind(Struct, frozen=True):
    """One kind.

    Args:
        means: What is so, in one sentence.
        do: What helps, the usual thing first.
        seen: A cause of this kind as a person reads it, for who looks for the kind by its text.
    """

    name: str
    means: str
    do: str
    seen: str = ""


_ALL: Final = (
    # Claims
    CauseKind(
        "claim-missing",
        "The pod names a ResourceClaim that does not exist.",
        "Name one that exists, or make it.",
        "ResourceClaim team/gpu, which pod team/train names, does not exist; there are: gpus, shared",
    ),
    CauseKind(
        "claim-not-made",
        "No ResourceClaim has been made from the template that the pod names.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        "no ResourceClaim has been made from ResourceClaimTemplate team/gpu yet; where it cannot "
        "be made, an event of the pod says why",
    ),
    CauseKind(
        "claim-full",
        "As many pods use the ResourceClaim as can use one.",
        "Give the pod a claim of its own.",
        "ResourceClaim team/shared is full: 256 pods use it, and no claim can have more than 256",
    ),
    CauseKind(
        "claim-pinned",
        "The pod's ResourceClaim has devices already, on nodes where the pod cannot run.",
        "Give the pod a claim of its own, or let the claim go.",
        "ResourceClaim team/gpu has devices on node gpu-1, and node gpu-1 is cordoned",
    ),
    CauseKind(
        "class-missing",
        "A request names a DeviceClass that does not exist.",
        "Name one that exists, or ask the cluster's operator for it.",
        "request gpu of ResourceClaim team/train names DeviceClass gpu.example.con, which does not "
        "exist; there are: gpu.example.com",
    ),
    CauseKind(
        "class-unmatched",
        "A DeviceClass selects none of the devices that drivers publish.",
        "Look at the class's selectors, and at whether its driver runs.",
        seen="DeviceClass gpu: no device has the driver gpu.exmaple.com; gpu.example.com publishes 8",
    ),
    CauseKind(
        "claim-deleting",
        "A ResourceClaim is being deleted: the pod's own, or one that still holds the devices.",
        "Wait, or look at who keeps its finalizers; a pod whose claim goes needs another claim.",
        seen=(
            "ResourceClaim team/train is being deleted and still reserved for pod train, which does not "
            "exist; it has device node-1/gpu-0"
        ),
    ),
    CauseKind(
        "admin-access-unlabelled",
        "A claim asks for admin access in a namespace that is not marked for it.",
        "Label the namespace, or drop adminAccess.",
        seen=(
            "Namespace team has no label resource.kubernetes.io/admin-access, and a claim there asks for admin access"
        ),
    ),
    CauseKind(
        "extended-resource-unknown",
        "No node has the extended resource that the pod asks for, and no DeviceClass stands behind it.",
        "Write the resource's right name, or give a DeviceClass that extendedResourceName.",
        seen=(
            "resource example.com/gpu of pod team/train: no node has it, and no DeviceClass has it as "
            "extendedResourceName; nearest: example.com/gpus"
        ),
    ),
    CauseKind(
        "field-unread",
        "A device, claim, class or group has a field that this scheduler does not know, or a value it cannot read.",
        "Look at support-matrix.md for its feature; drop the field, or let a scheduler that knows it place the pod.",
        "device gpu-1/gpu-0 has the field consumesCounters[0].sharing, which this scheduler does not know; request "
        "gpu asks for 1, and none is left",
    ),
    # Devices
    CauseKind(
        "no-devices",
        "No driver publishes any device.",
        "Install the driver, or look at its log.",
        seen="no driver publishes any device (there is no ResourceSlice), and request gpu waits for one",
    ),
    CauseKind(
        "selector-unmet",
        "A selector of the request leaves none of the devices of its class.",
        "Correct or relax the term that is named.",
        seen=(
            "request gpu: no device of its class has gpu.example.com/model equal to the string 'a100'; 8 have 'A100'"
        ),
    ),
    CauseKind(
        "slice-superseded",
        "Devices that would do are in ResourceSlices of an older generation of their pool, which do not count.",
        "The driver must publish them in the newest generation; look at its log.",
        seen="ResourceSlice node-1-x of pool gpu.example.com/node-1 is of an older generation (3): 4 counts",
    ),
    CauseKind(
        "pool-incomplete",
        "Devices that would do are in a pool of which ResourceSlices are missing.",
        "The driver must publish the rest; look at its log.",
        seen=(
            "pool gpu.example.com/node-1 is incomplete: of generation 1 there are 2 of 3 ResourceSlices "
            "(node-1-a, node-1-b)"
        ),
    ),
    CauseKind(
        "pool-contradictory",
        "Devices that would do are in a pool whose ResourceSlices contradict each other.",
        "The driver must publish the pool anew; look at its log.",
        seen="pool gpu.example.com/node-1 has a device twice: device gpu-0 is in slices node-1-a and node-1-b",
    ),
    CauseKind(
        "slice-node-missing",
        "Devices that would do are published for a node that does not exist.",
        "Look at why the node has not registered, or at the driver.",
        seen=("ResourceSlice node-9-a is for node node-9, and no Node has that name (pool gpu.example.com/node-9)"),
    ),
    CauseKind(
        "holder-gone",
        "A ResourceClaim holds the devices for pods that have ended or never existed, or for nobody.",
        "kube-controller-manager must release the claim; where it does not, delete the claim.",
        seen=("ResourceClaim team/train is reserved for pod train, which does not exist; it has device node-1/gpu-0"),
    ),
    CauseKind(
        "holder-terminating",
        "The devices are held for a pod that is being deleted and has not ended.",
        "Wait, or look at the kubelet of its node and at the pod's finalizers.",
        seen=(
            "ResourceClaim team/train is reserved for pod train, which is being deleted and has not ended; "
            "it has device node-1/gpu-0"
        ),
    ),
    CauseKind(
        "binding-condition-unset",
        "The driver has not set a condition for which devices wait before a pod is bound.",
        "Look at the driver's log.",
        seen=(
            "ResourceClaim team/train waits for example.com/attached to be set: device gpu-0 of pool "
            "fabric, driver gpu.example.com"
        ),
    ),
    CauseKind(
        "devices-short",
        "No node has as many devices that would do as the pod asks for.",
        "Ask for fewer, or for other devices.",
        seen="node gpu-1 has 2 devices that would do for request gpu, which asks for 4",
    ),
    CauseKind(
        "devices-in-use",
        "Devices that would do are there, and pods have them.",
        "Wait, ask for fewer, or end a pod that has them.",
        seen="devices gpu-1/gpu-0, gpu-1/gpu-1 are in use by pods team/also, team/runs (priority 0); request "
        "gpu asks for 3, and 1 is left",
    ),
    CauseKind(
        "device-tainted",
        "Devices that would do have a taint that the request does not tolerate.",
        "Add a toleration to the request, or have the taint removed.",
        seen="devices gpu-1/gpu-0, gpu-1/gpu-1 have the taint example.com/hot:NoSchedule, which request gpu "
        "does not tolerate",
    ),
    CauseKind(
        "capacity-short",
        "Devices have less of a capacity than the request asks for, or others consume too much of it.",
        "Ask for less, or end a pod that consumes it.",
        seen="device gpu-1/gpu-0 has memory 30Gi left of 80Gi, request gpu takes 40Gi; pod team/runs (priority"
        " 0) has the rest",
    ),
    CauseKind(
        "partition-blocked",
        "Partitions that would do are free, and partitions in use take what they need of a shared counter, or are of "
        "other compatibility groups.",
        "Take a smaller partition that is free, or end a pod that has one of the others.",
        seen="device gpu-1/gpu-0 is free and blocked: it takes memory 80Gi, counter set gpu-0 has 40Gi left; "
        "device gpu-1/gpu-0-half-0 of pod team/runs takes the rest",
    ),
    CauseKind(
        "counters-short",
        "A counter set does not hold what the pod's own devices take of it together.",
        "Ask for fewer or smaller partitions.",
        seen="request gpu: at most 1 of 2 devices fit together on node gpu-1; counter set gpu-0 has memory 80Gi left",
    ),
    CauseKind(
        "constraint-unmet",
        "Not as many devices as are asked for have one value of an attribute in common, or differ in it.",
        "Ask for fewer devices, or drop the constraint.",
        seen="request gpu: 4 devices with the same resource.kubernetes.io/numaNode are needed; the most on "
        "node gpu-1 is 2 (value 0)",
    ),
    CauseKind(
        "constraint-attribute-missing",
        "No device of a request has the attribute that a constraint names.",
        "Name the attribute that they have, or drop the constraint.",
        seen="no device of request gpu has resource.kubernetes.io/pcieRoot; 8 have gpu.example.com/pciRoot",
    ),
    CauseKind(
        "alternatives-unmet",
        "Each alternative of a prioritized list fails, for reasons of its own.",
        "Free devices for one of them, or add an alternative.",
        seen="request gpu: no alternative fits on node gpu-1: big: 1 of 2 in use by pod team/runs (priority "
        "0); small: no device matches its selectors",
    ),
    CauseKind(
        "own-claims-compete",
        "Requests of the pod, or claims that it uses, need the same device.",
        "Let them ask for different devices, or share one claim.",
        seen="ResourceClaims team/gpu and team/other of the pod need the same device: gpu-1/gpu-0",
    ),
    CauseKind(
        "selector-error",
        "A CEL selector, or the expression of a derived attribute, fails for a device instead of answering.",
        "Correct the expression.",
        "request gpu of ResourceClaim team/train: device gpu.example.com/gpu-1/gpu-0 has no attribute model",
    ),
    # Nodes
    CauseKind(
        "node-affinity-unmet",
        "No node that would do has the labels that the pod asks for.",
        "Relax nodeSelector or nodeAffinity, or label a node.",
        "no node has zone=b, which the nodeSelector of pod team/train asks for; there is a (2 nodes), c (1 node)",
    ),
    CauseKind(
        "node-cordoned",
        "The nodes that would do are cordoned.",
        "Uncordon one.",
        "nodes gpu-1, gpu-2 are cordoned",
    ),
    CauseKind(
        "node-tainted",
        "The nodes that would do have taints that the pod does not tolerate.",
        "Add a toleration, or remove the taint.",
        "node gpu-1 has the taint gpu=only:NoSchedule, which pod team/train does not tolerate",
    ),
    CauseKind(
        "port-taken",
        "Other pods have the host port that the pod asks for.",
        "Use another port.",
        "pod team/web-0 (priority 0) has the host port 8080/TCP of node gpu-1, which pod team/web-1 asks for",
    ),
    CauseKind(
        "resources-short",
        "No node that would do has as much cpu, memory or another resource free as the pod asks for.",
        "Ask for less, or make room.",
        "node gpu-1 has 2 cpu free, and pod team/train asks for 4",
    ),
    CauseKind(
        "pods-full",
        "The nodes that would do run as many pods as they may.",
        "Make room, or add a node.",
        "node gpu-1 has room for 110 pods, and has 110",
    ),
    CauseKind(
        "pod-affinity-unmet",
        "Rules about other pods, of this pod or of others, leave no node.",
        "Relax podAffinity or podAntiAffinity.",
        "zone=a has no pod with app=db in namespace team, which the podAffinity of pod team/web asks for; 1 "
        "run elsewhere",
    ),
    CauseKind(
        "spread-unmet",
        "Each node's domain has too many pods of this kind, or the node lacks the label.",
        "Relax topologySpreadConstraints, or label the nodes.",
        "zone=a has 3 pods that pod team/web is spread with, and another zone has 1; maxSkew is 1",
    ),
    CauseKind(
        "volume-missing",
        "A PersistentVolume that a claim names does not exist.",
        "Restore the volume.",
        "PersistentVolumeClaim team/data has lost its PersistentVolume pv-7, which does not exist any more",
    ),
    # What no plugin sees
    CauseKind(
        "scheduler-unknown",
        "No pod that has a node names the scheduler that this pod names.",
        "Write the name of a scheduler that runs, or start that one.",
        seen="no pod that has a node names the scheduler dra-schedular; dra-scheduler is one that is known",
    ),
    CauseKind(
        "priority-class-missing",
        "The PriorityClass that the pod names does not exist.",
        "Write the name of one that is there.",
        seen="pod team/train names PriorityClass hihg, which does not exist; there are: high, low",
    ),
    CauseKind(
        "pod-refused",
        "The API server would not take the pod.",
        "Correct what its message names.",
        seen="the API server refuses the pod: spec.containers[0].image: Required value",
    ),
    CauseKind(
        "unexplained",
        "The scheduler's message is all that is known.",
        "Read the reasons of the nodes below it.",
        seen="0/3 nodes are available: 3 node(s) didn't match the plugin's rule",
    ),
    CauseKind(
        "group-unmet",
        "Pods of a group are placed together, and one of them has no place beside the others.",
        "Help that pod, whose own cause follows; or let the group need fewer pods.",
        "group team/train: 7 of the 8 pods that are needed fit; pod train-7 does not: node gpu-1 has 2 cpu "
        "free, and pod team/train-7 asks for 4",
    ),
    CauseKind(
        "group-incomplete",
        "Pods of a group are placed together, and fewer exist than are needed.",
        "Make the other pods, or let the group need fewer.",
        "group team/train has 7 of the 8 pods that are needed",
    ),
    CauseKind(
        "group-unlike",
        "The pods of a PodGroup name several schedulers, or have another priority or preemptionPolicy than it.",
        "Make pods and PodGroup with one priorityClassName, schedulerName and preemptionPolicy.",
        "PodGroup team/train: all pods in a single pod group should have the same priority as the pod group's "
        "priority, got 5 and 10",
    ),
    CauseKind(
        "group-missing",
        "The PodGroup that the pod names does not exist.",
        "Make it, or name one that exists.",
        "PodGroup team/train, which pod team/train-0 names, does not exist",
    ),
    CauseKind(
        "node-name-unmet",
        "The pod names the only node that it may run on, which does not exist or is another one.",
        "Make the pod without spec.nodeName.",
        "node gpu-9, which pod team/train names (spec.nodeName), does not exist",
    ),
    CauseKind(
        "node-feature-missing",
        "No node that would do declares a feature of the kubelet that the pod needs.",
        "Upgrade a node, or do without what needs the feature.",
        "node gpu-1 does not declare the kubelet feature RestartAllContainersOnContainerExits, which pod "
        "team/train needs",
    ),
    CauseKind(
        "scheduling-gate",
        "The pod has scheduling gates, and is not tried while it has one.",
        "Whoever set the gate must remove it.",
        "pod team/train has the scheduling gate example.com/quota",
    ),
    # Volumes
    CauseKind(
        "volume-claim-missing",
        "The pod names a PersistentVolumeClaim that does not exist.",
        "Name one that exists, or make it.",
        "PersistentVolumeClaim team/dta, which pod team/train names, does not exist; data does",
    ),
    CauseKind(
        "volume-claim-not-made",
        "No PersistentVolumeClaim has been made yet for an ephemeral volume of the pod.",
        "Look at the pod's events: kube-controller-manager says there why it makes none.",
        "PersistentVolumeClaim team/train-data, for the ephemeral volume data of pod team/train, has not been made yet",
    ),
    CauseKind(
        "volume-claim-foreign",
        "A PersistentVolumeClaim has the name of the one for an ephemeral volume of the pod, and is not the pod's.",
        "Rename the pod or its volume, or delete that claim.",
        "PersistentVolumeClaim team/train-data exists and was not made for pod team/train, whose ephemeral "
        "volume data has that name",
    ),
    CauseKind(
        "volume-claim-deleting",
        "A PersistentVolumeClaim of the pod is being deleted.",
        "Wait until it is gone, then make it anew.",
        "PersistentVolumeClaim team/data of pod team/train is being deleted",
    ),
    CauseKind(
        "storage-class-missing",
        "A PersistentVolumeClaim of the pod names a StorageClass that does not exist.",
        "Make the claim anew with a class that exists, or make the class.",
        "PersistentVolumeClaim team/data names StorageClass fsat, which does not exist; fast does",
    ),
    CauseKind(
        "volume-not-bound",
        "A PersistentVolumeClaim of the pod has no volume yet, and does not wait for the pod to get one.",
        "Look at the claim's events: its provisioner says there why it makes none.",
        "PersistentVolumeClaim team/data is not bound to a volume yet; its StorageClass is fast, whose "
        "provisioner is csi.example.com",
    ),
    CauseKind(
        "volume-in-use",
        "Another pod has a volume of the pod, and only one may.",
        "Wait for that pod to end, or use another volume.",
        "PersistentVolumeClaim team/data is for one pod alone (ReadWriteOncePod), and pod team/web (priority "
        "0) on node gpu-1 has it",
    ),
    CauseKind(
        "volume-limit",
        "The node has as many volumes of a CSI driver as it may.",
        "Let pods with such volumes end, or use another node.",
        "node gpu-1 has 16 of 16 volumes of driver csi.example.com, and pod team/train brings 1 more",
    ),
    CauseKind(
        "volume-unreachable",
        "No node that would do reaches a volume of the pod.",
        "Let the pod run where the volume is.",
        "PersistentVolume pv-7 of PersistentVolumeClaim team/data cannot be reached from node gpu-1; node gpu-2 does",
    ),
    CauseKind(
        "volume-not-provided",
        "No free volume fits a PersistentVolumeClaim of the pod, and none is made.",
        "Look at the claim's events and its StorageClass.",
        "PersistentVolumeClaim team/data: no free volume of StorageClass local fits on node gpu-1, and it "
        "makes none (no provisioner)",
    ),
)
CAUSE_KINDS: Final = {one.name: one for one in _ALL}
