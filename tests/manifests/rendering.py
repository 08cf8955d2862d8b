"""What the overlays and the chart render, as lists of objects."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.build import KUBERNETES_VERSION, built_or_skip

ROOT: Final = Path(__file__).resolve().parents[2]
MANIFESTS: Final = ROOT / "manifests"
CHART: Final = MANIFESTS / "chart"

Object = dict[str, Any]


def overlay_text(overlay: str) -> str:
    """The YAML that `kubectl apply -k` would apply."""
    command = ["kubectl", "kustomize", str(MANIFESTS / "overlays" / overlay)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def helm(*arguments: str, values: Mapping[str, object] | None = None) -> subprocess.CompletedProcess[str]:
    """The released helm, with nothing of this user's settings; its plain exit code. `values`: given with `-f`."""
    command = [str(built_or_skip("helm")), *arguments, *(["--values", "-"] if values is not None else [])]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
    folders = {f"HELM_{name}_HOME": "/nonexistent" for name in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        command,
        input=json.dumps(values) if values is not None else None,
        env=environment | folders,
        capture_output=True,
        text=True,
        check=False,
    )


def with_image(values: Mapping[str, object]) -> dict[str, object]:
    """The one value that has no default, where these do not give it: the overlays' image."""
    given = values.get("image")
    return {**values, "image": {"repository": "dra-scheduler", **(given if isinstance(given, Mapping) else {})}}


def chart_text(
    values: Mapping[str, object] | None = None, *, release: str = "dra-scheduler", namespace: str = "dra-scheduler"
) -> str:
    """The YAML that `helm install` would apply; without its test."""
    done = helm(
        *("template", release, str(CHART), "--namespace", namespace, "--kube-version", KUBERNETES_VERSION),
        *("--no-hooks", "--api-versions", "monitoring.coreos.com/v1"),
        values=with_image(values or {}),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[Object]:
    """Of a YAML stream, without empty documents."""
    return [one for one in yaml.safe_load_all(text) if one]


def named(items: Sequence[Object], kind: str, name: str | None = None) -> Object:
    """The one of that kind, and name."""
    (found,) = [one for one in items if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    return found
