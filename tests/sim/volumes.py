"""The volume controller and the provisioners of the simulated world, users who meddle with volumes, and what must hold.

A volume of the class `local` exists and reaches one node; one of `made` is made for the node that is selected; one of
`any` is either.
"""

from __future__ import annotations

import itertools
import random

from msgspec.structs import replace

from scheduler.core.state.store import claims_of
from scheduler.model.keys import ObjectKey
from scheduler.model.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Phase,
    volume_claims,
)
from tests import builders, storage_builders
from tests.observed import is_of
from tests.sim.api_server import FakeApiServer
from tests.sim.records import place_of

VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
VOLUME_ACTIONS = {"control_volumes": 40, "fail_provisioning": 1.5, "meddle_with_volume": 3}
CLASSES = {"local": "kubernetes.io/no-provisioner", "made": "csi.example.com", "any": "csi.example.com"}
HOSTNAME = "kubernetes.io/hostname"


class UnsafeVolumeError(AssertionError):
    """A volume belongs to two claims, or a pod is where its volume is not."""


def local_volume(name: str, node: str, *, class_name: str = "local", **more) -> PersistentVolume:
    """A volume that reaches one node."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return storage_builders.volume(name, class_name=class_name, spec=affinity, **more)


def node_of(volume: PersistentVolume) -> str:
    return volume.spec.node_affinity.required.node_selector_terms[0].match_expressions[0].values[0]


class VolumeController:
    """Binds what is promised, and makes volumes for claims whose node is selected; a step at a time."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server
        self.uids = itertools.count(1)

    def claims(self) -> list[PersistentVolumeClaim]:
        return [one for (kind, _), one in sorted(self.server.storage.items()) if kind == "PersistentVolumeClaim"]

    def volumes(self) -> list[PersistentVolume]:
        return [one for (kind, _), one in sorted(self.server.storage.items()) if kind == "PersistentVolume"]

    def volume(self, name: str):
        return self.server.storage.get(("PersistentVolume", ObjectKey("", name)))

    def steps(self) -> list:
        """What it would do next, each of which is one write."""
        found = []
        for claim in self.claims():
            if claim.is_bound:
                continue
            ours = [one for one in self.volumes() if is_promised(one, claim)]
            if claim.spec.volume_name:
                found.append((self.complete, claim))
            elif ours and ours[0].status.phase != "Bound":
                found.append((self.take, ours[0]))
            elif ours:
                found.append((self.name, claim, ours[0]))
            elif SELECTED_NODE in claim.annotations and CLASSES[claim.class_name] != CLASSES["local"]:
                found.append((self.make, claim))
        for volume in self.volumes():
            reference = volume.spec.claim_ref
            if reference is not None and reference.uid and volume.status.phase != "Released":
                claim = self.server.storage.get(
                    ("PersistentVolumeClaim", ObjectKey(reference.namespace, reference.name))
                )
                if claim is None or claim.metadata.uid != reference.uid:
                    found.append((self.release, volume))
        return found

    def run(self) -> None:
        """Do all there is to do."""
        while steps := self.steps():
            act, *given = steps[0]
            act(*given)

    def take(self, volume: PersistentVolume) -> None:
        self.server.put_storage(replace(volume, status=Phase("Bound")))

    def name(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        self.server.put_storage(replace(claim, spec=replace(claim.spec, volume_name=volume.name)))

    def complete(self, claim: PersistentVolumeClaim) -> None:
        annotations = {**claim.annotations, BIND_COMPLETED: "yes"}
        meta = replace(claim.metadata, annotations=annotations)
        self.server.put_storage(replace(claim, metadata=meta, status=Phase("Bound")))

    def make(self, claim: PersistentVolumeClaim) -> None:
        node = claim.annotations[SELECTED_NODE]
        made = local_volume(f"made-{claim.name}-{next(self.uids)}", node, class_name=claim.class_name)
        reference = ClaimReference(*claim.key, claim.metadata.uid)
        self.server.put_storage(replace(made, spec=replace(made.spec, claim_ref=reference)))

    def release(self, volume: PersistentVolume) -> None:
        self.server.put_storage(replace(volume, status=Phase("Released")))


def is_promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and (*claim.key, claim.metadata.uid) == (
        reference.namespace,
        reference.name,
        reference.uid,
    )


def without(claim: PersistentVolumeClaim, annotation: str) -> PersistentVolumeClaim:
    annotations = {name: value for name, value in claim.annotations.items() if name != annotation}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


class VolumeActions:
    """Mixed into `World`."""

    rnd: random.Random
    server: FakeApiServer
    promised: dict[str, str]
    has_volumes: bool

    def found_volumes(self) -> None:
        """Classes, and a few volumes on each node."""
        self.controller = VolumeController(self.server)
        self.volume_names = itertools.count(1)
        self.checked_volumes = 0
        for name, provisioner in CLASSES.items():
            self.server.put_storage(storage_builders.storage_class(name, provisioner=provisioner))
        for node in sorted(self.server.nodes):
            self.add_local_volume(node)

    def add_local_volume(self, node: str) -> None:
        class_name = self.rnd.choice(["local", "any"])
        self.server.put_storage(local_volume(f"local-{next(self.volume_names)}", node, class_name=class_name))

    def create_volume_pod(self, name: str, **fields) -> None:
        """A pod with a claim of its own, or one that others have, too."""
        self.server.put_pod(builders.pod(name, volumes=self.volumes_for(name), **fields))

    def volumes_for(self, name: str) -> list:
        claim = self.rnd.choice([f"data-{name}", f"data-{name}", "data-shared"])
        key = ("PersistentVolumeClaim", ObjectKey("default", claim))
        if key not in self.server.storage:
            class_name = self.rnd.choice(sorted(CLASSES))
            uid = f"uid-{claim}-{next(self.volume_names)}"
            self.server.put_storage(storage_builders.volume_claim(claim, class_name=class_name, uid=uid))
        return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]

    def control_volumes(self) -> None:
        """The controller, or a provisioner, does one of the things that it has to do."""
        steps = self.controller.steps()
        if steps:
            act, *given = self.rnd.choice(steps)
            act(*given)

    def fail_provisioning(self) -> None:
        """A provisioner gives up on a node."""
        selected = [one for one in self.controller.claims() if SELECTED_NODE in one.annotations and not one.is_bound]
        if selected:
            self.server.put_storage(without(self.rnd.choice(selected), SELECTED_NODE))

    def meddle_with_volume(self) -> None:
        """Somebody edits a volume or a claim, deletes one, or adds a volume."""
        match self.rnd.randrange(4):
            case 0 if self.controller.claims():
                claim = self.rnd.choice(self.controller.claims())
                annotations = {**claim.annotations, "edited": str(next(self.volume_names))}
                self.server.put_storage(replace(claim, metadata=replace(claim.metadata, annotations=annotations)))
            case 1 if self.controller.volumes():
                volume = self.rnd.choice(self.controller.volumes())
                labels = {**volume.labels, "edited": str(next(self.volume_names))}
                self.server.put_storage(replace(volume, metadata=replace(volume.metadata, labels=labels)))
            case 2:
                gone = self.rnd.choice([*self.controller.claims(), *self.controller.volumes(), None])
                if gone is not None:
                    self.server.delete_storage(type(gone).__name__, gone.key)
            case 3:
                self.add_local_volume(self.rnd.choice(sorted(self.server.nodes)))

    def control_all_volumes(self) -> None:
        if self.has_volumes:
            self.controller.run()

    def heal_volumes(self) -> None:
        """There are volumes for all claims that can have one."""
        if self.has_volumes:
            for node in sorted(self.server.nodes):
                for _ in range(20):
                    self.server.put_storage(local_volume(f"local-{next(self.volume_names)}", node))

    def can_have_volumes(self, pod) -> bool:
        """Whether the pod's claims are there, their volumes too, and all in one place with its devices."""
        places = set()
        for key in volume_claims(pod):
            claim = self.server.storage.get(("PersistentVolumeClaim", key))
            if claim is None:
                return False
            if claim.spec.volume_name:
                volume = self.controller.volume(claim.spec.volume_name)
                if volume is None or not claim.is_bound:
                    return False
                places.add(node_of(volume))
            elif SELECTED_NODE in claim.annotations:
                places.add(claim.annotations[SELECTED_NODE])
        return len(places | self.device_places(pod)) < 2

    def device_places(self, pod) -> set[str]:
        claims = [self.server.claims.get(key) for key in claims_of(pod)] if volume_claims(pod) else []
        return {place_of(claim) for claim in claims if claim is not None and claim.allocation is not None}

    def check_volumes(self) -> None:
        """No volume goes from one claim to another."""
        if not self.has_volumes:
            return
        log = self.server.log
        for event in log[self.checked_volumes :]:
            if is_of(event, "PersistentVolume"):
                self.check_volume(event.object)
        self.checked_volumes = len(log)

    def check_volume(self, volume: PersistentVolume) -> None:
        owners: dict[str, str] = self.__dict__.setdefault("volume_owners", {})
        reference = volume.spec.claim_ref
        if reference is not None:
            owner = owners.setdefault(volume.metadata.uid, reference.uid)
            if owner != reference.uid:
                raise UnsafeVolumeError(f"volume {volume.name} was claim {owner}'s, and is given to {reference}")

    def check_bound_volumes(self, uid: str, node: str) -> None:
        """A pod that we have just bound has all its volumes, and can reach them."""
        if not self.has_volumes:
            return
        pod = next((one for one in self.server.pods.values() if one.uid == uid), None)
        for key in volume_claims(pod) if pod is not None else ():
            claim = self.server.storage.get(("PersistentVolumeClaim", key))
            volume = self.controller.volume(claim.spec.volume_name) if claim is not None else None
            # A claim of others may have been deleted, and made again since.
            is_own = key.name == f"data-{pod.metadata.name}"
            if is_own and claim is not None and not claim.is_bound:
                raise UnsafeVolumeError(f"pod {pod.key} is bound, its claim {key} is not")
            if volume is not None and node_of(volume) != node:
                raise UnsafeVolumeError(f"pod {pod.key} is bound to {node}, its volume {volume.name} is elsewhere")
