"""A software bill of materials (CycloneDX 1.6, JSON) of the image's file tree, from what lies in it.

    python manifests/image/sbom.py FOLDER > sbom.cdx.json

Every distribution with its version, licence, package URL and what it depends on; the interpreter; the shared libraries
by their digest, since nothing in the tree says where they are from. The same tree gives the same text.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

OURS: Final = "dra-scheduler"
_NAMESPACE: Final = uuid.UUID("6f6d9d3c-6a3e-5a52-9f2f-0c3a4e4b7d10")


def bill_of(root: Path) -> str:
    """The bill of that tree, as JSON."""
    (packages,) = (root / "usr/local/lib").glob("python3.*/site-packages")
    found = {_name(one.metadata["Name"]): one for one in importlib.metadata.distributions(path=[str(packages)])}
    components = {name: _distribution(one) for name, one in sorted(found.items())}
    bom = Bom()
    bom.metadata.component = components[OURS]
    interpreter = _interpreter(packages)
    system = [interpreter, *map(_library, sorted((root / "usr/lib").glob("*.so*")))]
    for component in (*components.values(), *system):
        if component is not bom.metadata.component:
            bom.components.add(component)
    for name, one in found.items():
        needed = [components[other] for other in _needs(one) if other in components]
        bom.register_dependency(components[name], [*needed, *([interpreter] if name == OURS else [])])
    bom.register_dependency(interpreter, system[1:])
    text = JsonV1Dot6(bom).output_as_string()
    return json.dumps(_reproducible(json.loads(text)), indent=2, sort_keys=True) + "\n"


def _name(given: str) -> str:
    """As packages are compared."""
    return re.sub(r"[-_.]+", "-", given).lower()


def _needs(one: importlib.metadata.Distribution) -> list[str]:
    """Names of what it may depend on; extras and other platforms' are not in the tree, and fall out there."""
    return [_name(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in one.requires or ()]


def _distribution(one: importlib.metadata.Distribution) -> Component:
    name = _name(one.metadata["Name"])
    known = one.metadata.json  # what is absent is not in it
    licence = str(known.get("license_expression") or known.get("license") or "")
    url = PackageURL("pypi", None, name, one.version)
    return Component(
        name=name,
        version=one.version,
        type=ComponentType.APPLICATION if name == OURS else ComponentType.LIBRARY,
        # Some put their licence's whole text there.
        licenses=[LicenseFactory().make_from_string(licence.splitlines()[0])] if licence else [],
        purl=url,
        bom_ref=str(url),
    )


def _interpreter(packages: Path) -> Component:
    version = (packages.parent / "VERSION").read_text()  # root.py wrote it
    return Component(name="cpython", version=version, type=ComponentType.PLATFORM, bom_ref=f"cpython@{version}")


def _library(path: Path) -> Component:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(
        name=path.name,
        type=ComponentType.LIBRARY,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        bom_ref=f"{path.name}@{digest[:16]}",
    )


def _reproducible(bill: dict[str, object]) -> dict[str, object]:
    """Without the time, and with a serial number that is the content's."""
    bill.pop("serialNumber", None)
    metadata = bill["metadata"]
    assert isinstance(metadata, dict)
    metadata.pop("timestamp", None)
    text = json.dumps(bill, sort_keys=True)
    return {**bill, "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}"}


if __name__ == "__main__":
    sys.stdout.write(bill_of(Path(sys.argv[1])))
