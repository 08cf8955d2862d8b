"""The files that the chart shares with the Kustomize manifests, as copies: helm warns of each link that it follows.

    python -m manifests.chart_files

writes them anew; `tests/manifests/test_chart_files.py` compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent
COPIES: Final = {
    _HERE / "chart" / "files" / "rbac.yaml": _HERE / "base" / "rbac.yaml",
    _HERE / "chart" / "files" / "observe-rbac.yaml": _HERE / "overlays" / "observe" / "rbac.yaml",
    _HERE / "chart" / "files" / "prometheusrule.yaml": _HERE / "components" / "metrics" / "prometheusrule.yaml",
    _HERE / "chart" / "files" / "dra-scheduler.json": _HERE / "dashboards" / "dra-scheduler.json",
}
"""Each of the chart's files, and what it is a copy of."""


def main() -> None:
    for copy, original in COPIES.items():
        copy.write_bytes(original.read_bytes())


if __name__ == "__main__":
    main()
