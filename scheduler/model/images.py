"""Container images by the names that nodes report and pods ask for."""

from __future__ import annotations

from scheduler.model.keys import NodeName
from scheduler.model.objects import Pod


class ImageState:
    """An image name, the image's size in bytes, and the nodes that have it. Written only by the core."""

    __slots__ = ("name", "nodes", "size_bytes")

    def __init__(self, name: str, size_bytes: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.nodes: set[NodeName] = set()


def normalized_name(name: str) -> str:
    """`name` with the tag that a container runtime adds when there is none; digests contain a colon and stay."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def asked_images(pod: Pod) -> tuple[str, ...]:
    """The images of init containers, containers and image volumes; one that is used twice is here twice."""
    spec = pod.spec
    names = [normalized_name(one.image) for one in spec.containers or ()]
    if spec.init_containers:
        names += [normalized_name(one.image) for one in spec.init_containers]
    if spec.volumes:
        names += [normalized_name(one.image.reference) for one in spec.volumes if one.image is not None]
    return tuple(names)
