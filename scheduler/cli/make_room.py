"""`dra-scheduler make-room`: the plan, as a table, as a document, and as commands.

Not here: finding it (`scheduler.offline.making_room`), its words and commands (`scheduler.offline.room_plan`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import complete_pod_or_file
from scheduler.cli.manifests import ManifestError, read_manifests
from scheduler.cli.move_plans import print_plan, questions_option
from scheduler.cli.options import output_option
from scheduler.cli.subjects import is_a_name, pod_named
from scheduler.model.nearest import listed, nearest

if TYPE_CHECKING:
    from scheduler.offline.offline_cluster import SourceObject

_DRA: Final = "resource.k8s.io/v1"
_FREE: Final = re.compile(r"\s*([1-9][0-9]{0,3})\s+(\S+)(\s+on\s+one\s+node)?\s*")
_NAME: Final = "room"
"""Of the pod, claim and class that `--free` asks with."""


@click.command("make-room")
@click.argument("file", required=False, metavar="[FILE|POD]", shell_complete=complete_pod_or_file)
@cluster_question
@click.option("--free", "devices", metavar="TEXT", help='Room for devices instead: "4 gpu.example.com on one node".')
@click.option("--free-profile", "profile", metavar="NAME", help="Room for a device with this profile instead.")
@click.option("--moves-max", default=3, show_default=True, type=click.IntRange(1, 8), help="Plans of so many moves.")
@questions_option
@output_option("table", "json", "yaml")
@click.pass_context
def make_room(
    ctx: click.Context,
    *,
    file: str | None,
    question: ClusterQuestion,
    devices: str | None,
    profile: str | None,
    moves_max: int,
    questions_max: int,
    output: str,
) -> None:
    """Find the fewest pods that would have to move so that a pod fits, and print the commands that move them.

    The pod is that of a FILE, or POD, one that waits: NAME, NAMESPACE/NAME, deploy/NAME. Nothing is written anywhere.

    \b
    dra-scheduler make-room big.yaml                                  # in the cluster as it is now
    dra-scheduler make-room pod/big -f dump.yaml                      # one that waits in a dump
    dra-scheduler make-room --free "4 gpu.example.com on one node"

    Exit codes: 0 it fits or there is a plan, 1 there is none or none was found, 2 wrong use or input.
    """
    from scheduler.offline import making_room
    from scheduler.offline.altered import NoSuchObjectError
    from scheduler.offline.offline_cluster import SourceObject
    from scheduler.offline.playing import BEGIN_MS
    from scheduler.offline.room_plan import document_of

    if sum(one is not None for one in (file, devices, profile)) != 1:
        raise click.UsageError("name one of a FILE or POD, --free and --free-profile")
    asked = question.read()
    is_named = file is not None and is_a_name(file)
    try:
        if file is not None and not is_named:
            wanted = [SourceObject(str(document.place()), document.obj) for document in read_manifests([file])]
        elif file is not None:
            wanted = [pod_named(asked, file, BEGIN_MS)]
        else:
            made = (
                free_profile(profile, asked.given) if profile is not None else free_devices(devices or "", asked.given)
            )
            wanted = [SourceObject(*one) for one in made]
        room = making_room.make_room(
            asked.given,
            wanted,
            asked.config,
            asked.features,
            moves_max=moves_max,
            questions_max=questions_max,
        )
    except (NoSuchObjectError, ManifestError) as error:
        raise WrongInputError(str(error)) from error
    ctx.exit(print_plan(document_of(room, None if is_named else file), room.problems, output))


def free_devices(written: str, given: Iterable[SourceObject]) -> list[tuple[str, Mapping[str, Any]]]:
    """A pod that needs what `--free` says: `4 gpu.example.com on one node`."""
    found = _FREE.fullmatch(written)
    if found is None:
        raise click.UsageError(
            f'--free {written}: write a number and a DeviceClass, as "4 gpu.example.com on one node"'
        )
    from scheduler.offline.offline_cluster import name_of

    known = {name_of(one.obj) for one in given if one.obj.get("kind") == "DeviceClass"}
    if found[2] not in known:
        raise click.UsageError(
            f"--free {written}: DeviceClass {found[2]} does not exist; {nearest(found[2], known) or listed(known)}"
        )
    return _pod_with(
        f"--free {written}", {"deviceClassName": found[2], "allocationMode": "ExactCount", "count": int(found[1])}
    )


def free_profile(profile: str, given: Iterable[SourceObject]) -> list[tuple[str, Mapping[str, Any]]]:
    """A pod that needs a device whose attribute `profile` is this."""
    from scheduler.offline.offline_cluster import OfflineCluster

    by_profile: dict[str, set[tuple[str, str]]] = {}
    cluster = OfflineCluster(0)
    for one in given:
        if one.obj.get("kind") == "ResourceSlice" and cluster.is_well_shaped(one.obj):
            for driver, attribute, value in _profiles(one.obj.get("spec") or {}):
                by_profile.setdefault(value, set()).add((driver, attribute))
    if profile not in by_profile:
        known = ", ".join(sorted(by_profile)) or "none"
        raise click.UsageError(
            f"--free-profile {profile}: no device publishes this attribute `profile`; there are: {known}"
        )
    place = f"--free-profile {profile}"
    terms = []
    for driver, attribute in sorted(by_profile[profile]):
        domain, _, name = attribute.rpartition("/")
        of_domain = f"device.attributes[{json.dumps(domain or driver)}]"
        terms.append(
            f"(device.driver == {json.dumps(driver)} && {of_domain}.?{name}.orValue('') == {json.dumps(profile)})"
        )
    selectors = [{"cel": {"expression": " || ".join(terms)}}]
    every_device = {
        "apiVersion": _DRA,
        "kind": "DeviceClass",
        "metadata": {"name": _NAME},
        "spec": {"selectors": selectors},
    }
    request = {"deviceClassName": _NAME, "allocationMode": "ExactCount", "count": 1}
    return [(place, every_device), *_pod_with(place, request)]


def _profiles(spec: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Driver, attribute and value of each device's profile."""
    for device in spec.get("devices") or ():
        for name, value in (device.get("attributes") or {}).items():
            if name.rpartition("/")[2] == "profile" and value and "string" in value:
                yield str(spec.get("driver")), name, str(value["string"])


def _pod_with(place: str, request: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    claim = {
        "apiVersion": _DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": _NAME},
        "spec": {"devices": {"requests": [{"name": "free", "exactly": dict(request)}]}},
    }
    return [(place, claim), (place, pod_with(_NAME, "default", "resourceClaimName", _NAME))]


def pod_with(name: str, namespace: str, field: str, claim: str) -> dict[str, Any]:
    """A pod that has nothing but one claim, by the field `resourceClaimName` or `resourceClaimTemplateName`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulerName": "dra-scheduler",
            "resourceClaims": [{"name": "claim", field: claim}],
        },
    }
