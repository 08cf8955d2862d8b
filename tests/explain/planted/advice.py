"""Whether a first advice may be followed, whatever the cause: whom it harms, and whether it speaks of the same things.

Read from the objects and the two lines alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.explain.planted.shapes import Obj, Planted

_ENDS: Final = re.compile(r"\b(?:end|delete) pods? (.+?)(?: \(priority|, whose| on node|; |$)", re.MULTILINE)
_POD: Final = re.compile(r"([a-z0-9-]+)/([a-z0-9.-]+)")
_LIES: Final = re.compile(
    r"kubectl label nodes? \S+ (kubernetes\.io/(arch|os|hostname)|(node|topology)\.kubernetes\.io/\S+)="
)
"""The kubelet or the cloud sets these labels: another value is untrue, and does not last."""
_OTHERS: Final = re.compile(r"DeviceClass|the driver must")


def advice_faults(row: Planted, cause: str, change: str, others: str) -> Iterator[str]:
    """What is wrong with the change, and with the `others` that are told below it."""
    if "[" not in cause:
        return
    first = re.split("; then |; to make it fit sooner", change)[0]
    if _differ(_nodes(row, cause), _nodes(row, first)):
        yield "elsewhere"
    if change.startswith("nothing "):
        return
    mates = {_key(obj) for obj in row.objects if obj["kind"] == "Pod" and _is_mate(row, obj)}
    if _ended(change) & mates:
        yield "sibling"
    if _ended(others) & mates:
        yield "or-sibling"
    lasting = {_key(obj) for obj in row.objects if comes_back(obj)}
    if _ended(change + "\n" + others) & lasting:
        yield "comes-back"
    if _LIES.search(change + "\n" + others):
        yield "lie"
    is_drivers = re.search(r"\[(pool|slice)-", cause)
    if not is_drivers and _is_others(row, change) and any(not _is_others(row, line) for line in others.splitlines()):
        yield "others"
    asked = r"\brequests? ([a-z0-9-]+)"
    if _differ(set(re.findall(asked, cause)), set(re.findall(asked, first))):
        yield "request"
    count = re.search(r"ask for \d+ devices? instead of (\d+)", first)
    if count and "asks for" in cause and not re.search(rf"asks for {count[1]}\b", cause):
        yield "numbers"


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _is_mate(row: Planted, obj: Obj) -> bool:
    """Of the controller or the group of the pod that is asked about."""
    asked = next(one for one in row.objects if one["kind"] == "Pod" and _key(one) == row.asked)
    if _key(obj) == row.asked or _key(obj)[0] != row.asked[0]:
        return False
    return bool(_ties(row, obj) & _ties(row, asked))


def _ties(row: Planted, obj: Obj) -> set[str]:
    above = [one["uid"] for one in obj["metadata"].get("ownerReferences", ())]
    sets = [one["metadata"] for one in row.objects if one["kind"] == "ReplicaSet"]
    above += [of["uid"] for one in sets if one["uid"] in above for of in one.get("ownerReferences", ())]
    owners = {f"owner {uid}" for uid in above}
    group = obj["spec"].get("schedulingGroup", {}).get("podGroupName")
    label = obj["metadata"].get("labels", {}).get("dra-scheduler/group")
    return owners | {f"group {name}" for name in (group, label) if name}


def comes_back(obj: Obj) -> bool:
    """A pod that is made anew on its node as soon as it ends: a static one, or a DaemonSet's."""
    if obj["kind"] != "Pod":
        return False
    owners = [one["kind"] for one in obj["metadata"].get("ownerReferences", ())]
    return "DaemonSet" in owners or "kubernetes.io/config.mirror" in obj["metadata"].get("annotations", {})


def _ended(text: str) -> set[tuple[str, str]]:
    return {found for part in _ENDS.findall(text) for found in _POD.findall(part)}


def _is_others(row: Planted, text: str) -> bool:
    """Whether it changes what is not the asker's."""
    return bool(_OTHERS.search(text)) or any(namespace != row.asked[0] for namespace, _ in _ended(text))


def _nodes(row: Planted, text: str) -> set[str]:
    names = [obj["metadata"]["name"] for obj in row.objects if obj["kind"] == "Node"]
    return {name for name in names if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text)}


def _differ(named: set[str], changed: set[str]) -> bool:
    return bool(named and changed) and not named & changed
