"""Pods that wait for one cause, and that one object makes: whoever lists pods says of them once what is so of all.

Not here: the causes (`verdicts`, `scheduler.explain.waiting`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from scheduler.core.machine import Machine
from scheduler.model.keys import PodUid
from scheduler.model.owners import controller_of, edited_object, owner_of

COPY_LABEL: Final = "dra-scheduler/copy-of"
"""On copies of a pod that were made for a question: the pod's name."""


class Maker(NamedTuple):
    """Who makes a pod.

    Attributes:
        edited: What a person edits to change the pod: itself, or what makes such pods (`deployment team/web`).
        stem: How the names of its pods, and of what is made for them, begin.
        owner: Whose pod people say it is, `KIND/NAMESPACE/NAME`: its group's, else of who makes it.
    """

    edited: str
    stem: str
    owner: str

    def named(self, key: tuple[str, str], count: int) -> str:
        """One pod by its name, or how many of its owner's: `team/web (3 pods)`."""
        return "/".join(key) if count == 1 else f"{self.edited.partition(' ')[2]} ({count} pods)"

    def without_names(self, text: str) -> str:
        """A cause as it is of all of its pods."""
        text = re.sub(rf"\b{re.escape(self.stem)}(-[-a-z0-9.]*)?(?![-\w])", "*", text)
        return text.replace(" (pod *)", "")  # of a group, to all but the pod itself


def maker_of(key: tuple[str, str], uid: str, machine: Machine) -> Maker:
    """Of a pod by namespace and name; itself where the machine does not know it."""
    pod = machine.store.pods.get(PodUid(uid))
    if pod is None:
        return Maker(f"pod {'/'.join(key)}", key[1], f"Pod/{'/'.join(key)}")
    if original := (pod.metadata.labels or {}).get(COPY_LABEL):
        return Maker(f"pod {key[0]}/{original}", original, f"Pod/{key[0]}/{original}")
    controller = controller_of(pod)
    return Maker(edited_object(pod), controller.name if controller is not None else key[1], owner_of(pod))
