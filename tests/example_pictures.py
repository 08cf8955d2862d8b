"""docs/pictures/examples: who gets which device in the examples that have a page, drawn from what `simulate` answers.

python -m tests.example_pictures
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures" / "examples"
EXAMPLES: Final = (
    *("shapes/training-linked", "shapes/training-near", "shapes/inference-partitions", "shapes/development-shared"),
    *("features/cel-selectors", "features/partitionable-devices", "features/shared-partitions"),
    *("features/prioritized-alternatives", "features/extended-resource", "features/preemption", "features/gang"),
)
_CELL: Final = 108
_ROW: Final = 62
_PER_ROW: Final = 8
_HUES: Final = (210, 28, 130, 280, 0, 180, 55)
_STYLE: Final = """<style>
text{font:12px system-ui,sans-serif;fill:#222}.node{font-weight:600}.who{font-size:10px}
rect{fill:#f2f2f2;stroke:#888}
@media (prefers-color-scheme:dark){text{fill:#eee}rect{fill:#2a2a2a;stroke:#777}}
</style>"""


def simulated(example: str) -> dict[str, Any]:
    """What `simulate -o json` answers about an example on its cluster."""
    files = [str(ROOT / "docs/examples" / f"{example}{part}.yaml") for part in ("-cluster", "")]
    printed = CliRunner().invoke(cli, ["simulate", "-f", files[0], "-f", files[1], "-o", "json"])
    answer: dict[str, Any] = json.loads(printed.stdout)
    return answer


def picture(example: str) -> str:
    """An SVG: a row of squares for each node, in each device its name and the pods that have it."""
    holders: dict[tuple[str, str, str], list[str]] = {}
    hues: dict[str, int] = {}
    pods, nodes = simulated(example)["pods"], _nodes(example)
    for pod in pods:
        for one in pod["devices"]:
            holders.setdefault((one["driver"], one["pool"], one["device"]), []).append(pod["name"])
            hues.setdefault(pod["name"], _HUES[len(hues) % len(_HUES)])
    waiting = [pod["name"] for pod in pods if not pod["node"]]
    parts, y = [], 8
    for node, devices in nodes.items():
        parts.append(f'<text class="node" x="8" y="{y + 14}">{escape(node)}</text>')
        y += 22
        for index, key in enumerate(devices):
            at = (8 + index % _PER_ROW * _CELL, y + index // _PER_ROW * _ROW)
            parts.append(_device(at, key, holders.get(key, []), hues))
        y += (len(devices) - 1) // _PER_ROW * _ROW + _ROW if devices else 0
    if waiting:
        parts.append(f'<text x="8" y="{y + 14}">waits: {escape(", ".join(waiting))}</text>')
        y += 22
    width = 16 + _CELL * max(3, *(min(_PER_ROW, len(devices)) for devices in nodes.values()))
    size = f'width="{width}" height="{y + 4}" viewBox="0 0 {width} {y + 4}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{_STYLE}{"".join(parts)}</svg>\n'


def _nodes(example: str) -> Mapping[str, list[tuple[str, str, str]]]:
    """The devices of each node, as driver, pool and name."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    text = (ROOT / "docs/examples" / f"{example}-cluster.yaml").read_text(encoding="utf-8")
    for body in yaml.safe_load_all(text):
        if body["kind"] == "Node":
            found.setdefault(body["metadata"]["name"], [])
        elif body["kind"] == "ResourceSlice":
            spec = body["spec"]
            devices = found.setdefault(spec.get("nodeName") or "several nodes", [])
            devices += [(spec["driver"], spec["pool"]["name"], one["name"]) for one in spec.get("devices") or ()]
    return found


def _device(at: tuple[int, int], key: tuple[str, str, str], pods: list[str], hues: Mapping[str, int]) -> str:
    x, y = at
    style = f' style="fill:hsl({hues[pods[0]]} 60% 50% / .45)"' if pods else ""
    who = "".join(
        f'<text class="who" x="{x + 6}" y="{y + 30 + 11 * line}">{escape(_short(pod))}</text>'
        for line, pod in enumerate(pods[:2] if len(pods) < 3 else [pods[0], f"and {len(pods) - 1} more"])
    )
    box = f'<rect x="{x}" y="{y}" width="{_CELL - 6}" height="{_ROW - 10}" rx="4"{style}/>'
    return f'{box}<text x="{x + 6}" y="{y + 16}">{escape(_short(key[2]))}</text>{who}'


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}…"


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for example in EXAMPLES:
        (PICTURES / f"{Path(example).name}.svg").write_text(picture(example), encoding="utf-8")


if __name__ == "__main__":
    main()
