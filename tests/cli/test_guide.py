"""The docs and the manifests show configurations that the scheduler reads."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from scheduler.config.file import read_config

ROOT = Path(__file__).resolve().parents[2]


def test_the_shown_configuration_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(apiVersion: dra-scheduler/.*?)```", text, re.DOTALL)
    path = tmp_path / "config.yaml"
    path.write_text(shown)

    assert read_config(path).config.writes_in_flight == 64


def test_the_config_map_holds_a_valid_configuration(tmp_path: Path) -> None:
    config_map = yaml.safe_load((ROOT / "manifests" / "base" / "configmap.yaml").read_text())
    path = tmp_path / "config.yaml"
    path.write_text(config_map["data"]["config.yaml"])

    assert read_config(path).config.tune_gc
