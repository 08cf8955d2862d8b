"""The packed chart as an OCI layout: one file that tools for registries copy (`skopeo`, `oras`, `crane`), without helm.

Rules of this module
  1. The same chart gives the same bytes: no times, no names of users.

Source: https://github.com/opencontainers/image-spec (image-layout.md), https://helm.sh/docs/topics/registries (types).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import yaml

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def write_layout(packed: Path, layout: Path) -> None:
    """Write the layout of a chart that `helm package` has made, as a tar file."""
    with tarfile.open(packed) as chart:
        member = next(one for one in chart if one.name.count("/") == 1 and one.name.endswith("/Chart.yaml"))
        file = chart.extractfile(member)
        assert file is not None
        described: dict[str, Any] = yaml.safe_load(file)
    config, content = _Blob(_json(described)), _Blob(packed.read_bytes())
    named = {"title": described["name"], "version": described["version"], "description": described["description"]}
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": config.descriptor(_CONFIG),
        "layers": [content.descriptor(_CONTENT)],
        "annotations": {f"org.opencontainers.image.{key}": value for key, value in named.items()},
    }
    whole = _Blob(_json(manifest))
    tag = {"annotations": {"org.opencontainers.image.ref.name": described["version"]}}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [{**whole.descriptor(_MANIFEST), **tag}]}
    files = {f"blobs/sha256/{blob.digest}": blob.data for blob in (config, content, whole)}
    files |= {"index.json": _json(index), "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    with tarfile.open(layout, "w") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


class _Blob:
    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        self.digest: Final = hashlib.sha256(data).hexdigest()

    def descriptor(self, media_type: str) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": f"sha256:{self.digest}", "size": len(self.data)}


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
