"""`dra-scheduler simulate --make-room-for`: the plan, as a table, as a document, and as commands.

Not here: finding it (`scheduler.offline.making_room`), its words and commands (`scheduler.offline.room_plan`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.known_names import complete_pod_or_file
from scheduler.cli.manifests import ManifestError, read_manifests
from scheduler.cli.subjects import is_a_name
from scheduler.cli.tables import print_document, print_table
from scheduler.cli.terminal import caution, echo, print_left_out

if TYPE_CHECKING:
    from allocator import Features
    from scheduler.framework.api import Profile
    from scheduler.offline.cluster import Given
    from scheduler.offline.making_room import Room
    from scheduler.offline.moving import Move
    from scheduler.offline.simulation import Simulated

_DRA: Final = "resource.k8s.io/v1"
_FREE: Final = re.compile(r"\s*([1-9][0-9]{0,3})\s+(\S+)(\s+on\s+one\s+node)?\s*")
_NAME: Final = "room"
"""Of the pod, claim and class that `--free` asks with."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked instead of playing: room (for a file's pod, devices, a profile), or shapes of nodes (files)."""

    shapes: tuple[str, ...]
    file: str | None
    devices: str | None
    profile: str | None
    moves_max: int
    questions_max: int

    @property
    def is_asked(self) -> bool:
        return bool(self.shapes) or any(one is not None for one in (self.file, self.devices, self.profile))


def room_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options about room and shapes, for the command as one argument `wanted`."""

    @click.option(
        "--what-node",
        "shapes",
        metavar="FILE",
        multiple=True,
        help="How many nodes like this one (a Node, its ResourceSlices) the pods that wait need; repeatable.",
    )
    @click.option(
        "--make-room-for",
        "file",
        metavar="FILE|POD",
        shell_complete=complete_pod_or_file,
        help="Which pods would have to move so that this one fits, of a file or waiting.",
    )
    @click.option("--free", "devices", metavar="TEXT", help='The same for devices: "4 gpu.example.com on one node".')
    @click.option("--free-profile", "profile", metavar="NAME", help="The same for a device with this profile.")
    @click.option(
        "--moves-max", default=3, show_default=True, type=click.IntRange(1, 8), help="Plans of so many moves."
    )
    @click.option(
        "--questions-max",
        default=20_000,
        show_default=True,
        type=click.IntRange(1),
        help="Give up looking for a plan after so many questions to the scheduler.",
    )
    @functools.wraps(command)
    def with_wanted(
        *,
        shapes: tuple[str, ...],
        file: str | None,
        devices: str | None,
        profile: str | None,
        moves_max: int,
        questions_max: int,
        **options: Any,
    ) -> None:
        if sum(one is not None for one in (file, devices, profile, *shapes[:1])) > 1:
            raise click.UsageError("name one of --make-room-for, --free, --free-profile and --what-node")
        command(wanted=Wanted(shapes, file, devices, profile, moves_max, questions_max), **options)

    return with_wanted


class Question(NamedTuple):
    """How the scheduler is asked.

    Attributes:
        play: Plays objects to the end.
        pod_named: The pod among the objects that a name means.
    """

    play: Callable[[Sequence[Given]], Simulated]
    pod_named: Callable[[str], Given]
    profile: Callable[[str], Profile]
    features: Features
    now_ms: int


def answer_wanted(wanted: Wanted, given: Sequence[Given], question: Question, output: str) -> int:
    """Print what is asked; the exit code."""
    if wanted.shapes:
        from scheduler.cli.what_node import answer_shapes

        try:
            return answer_shapes(wanted.shapes, given, question.play, output)
        except ValueError as error:
            raise WrongInputError(str(error)) from error
    from scheduler.offline.making_room import NoSuchPodError, make_room

    is_named = wanted.file is not None and is_a_name(wanted.file)
    try:
        asked = [question.pod_named(wanted.file)] if wanted.file and is_named else _asked(wanted, given)
        room = make_room(
            given,
            asked,
            profile=question.profile,
            features=question.features,
            now_ms=question.now_ms,
            moves_max=wanted.moves_max,
            questions_max=wanted.questions_max,
        )
    except (NoSuchPodError, ManifestError) as error:
        raise WrongInputError(str(error)) from error
    print_room(room, output, None if is_named else wanted.file)
    for problem in room.problems:
        echo(f"warning: {problem}", is_error=True)
    return 0 if room.outcome in ("fits", "plan") else 1


def _asked(wanted: Wanted, given: Sequence[Given]) -> list[Given]:
    from scheduler.offline.cluster import Given

    if wanted.file is not None:
        return [Given(str(document.place()), document.obj) for document in read_manifests([wanted.file])]
    if wanted.devices is not None:
        return [Given(*one) for one in free_devices(wanted.devices)]
    return [Given(*one) for one in free_profile(wanted.profile or "", given)]


def free_devices(written: str) -> list[tuple[str, Mapping[str, Any]]]:
    """A pod that needs what `--free` says: `4 gpu.example.com on one node`."""
    found = _FREE.fullmatch(written)
    if found is None:
        raise click.UsageError(
            f'--free {written}: write a number and a DeviceClass, as "4 gpu.example.com on one node"'
        )
    return _pod_with(
        f"--free {written}", {"deviceClassName": found[2], "allocationMode": "ExactCount", "count": int(found[1])}
    )


def free_profile(profile: str, given: Iterable[Given]) -> list[tuple[str, Mapping[str, Any]]]:
    """A pod that needs a device whose attribute `profile` is this."""
    from scheduler.offline.cluster import OfflineCluster

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


# -- the answer -----------------------------------------------------------------------------------


def print_room(room: Room, output: str, file: str | None) -> None:
    """Print the answer.

    Args:
        file: Where the pod is written; None for one that waits already, and for `--free`, which only asks.
    """
    from scheduler.offline.room_plan import commands, document_of, verdict_of, warnings_of

    if output in ("json", "yaml"):
        print_document(document_of(room, file), output)
        return
    print_left_out(room.problems)
    echo(verdict_of(room))
    if room.moves:
        rows = [
            (str(number), f"{move.namespace}/{move.name}", move.source, move.target, _devices(move))
            for number, move in enumerate(room.moves, 1)
        ]
        print_table(("STEP", "POD", "FROM", "TO", "DEVICES"), rows)
    for (namespace, name), (used, allowed) in sorted(room.budgets.items()):
        rest = "and uses it up" if used == allowed else f"{allowed - used} are left"
        echo(
            f"PodDisruptionBudget {namespace}/{name} allows {allowed} of its pods to go: the plan takes {used}, {rest}"
        )
    for text in warnings_of(room):
        caution(f"warning: {text}")
    for line in commands(room, file):
        echo(line)
    if not room.moves:
        for why, count in sorted(room.stays.items(), key=lambda one: (-one[1], one[0])):
            echo(f"cannot move: {count} {'pod' if count == 1 else 'pods'}: {why}")


def _devices(move: Move) -> str:
    from scheduler.offline.room_plan import given_text

    return f"{given_text(move.devices)} -> {given_text(move.given)}" if move.devices or move.given else "<none>"
