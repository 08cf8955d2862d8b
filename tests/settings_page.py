"""docs/settings.md: each setting with its default and what it means, as the classes of `scheduler.config` say.

python -m tests.settings_page > docs/settings.md
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from scheduler.config.plugin_args import DefaultPreemptionArgs, DynamicResourcesArgs
from scheduler.config.sections import ClientConnection, LeaderElection, Serving
from scheduler.config.settings import Config

_HEAD = """# Settings

Generated from the classes that read them: `python -m tests.settings_page > docs/settings.md`. How a file looks:
[configuration](configuration.md).
"""
_TABLES: Final[tuple[tuple[str, type[BaseModel]], ...]] = (
    ("DraSchedulerConfiguration", Config),
    ("leaderElection", LeaderElection),
    ("clientConnection", ClientConnection),
    ("serving", Serving),
    ("Arguments of DynamicResources", DynamicResourcesArgs),
    ("Arguments of DefaultPreemption", DefaultPreemptionArgs),
)
_LEFT: Final = {"apiVersion", "kind"}


def page() -> str:
    """The whole text."""
    return "\n".join([_HEAD, *(line for title, of in _TABLES for line in _table(title, of))])


def _table(title: str, of: type[BaseModel]) -> Iterator[str]:
    meanings = _meanings(of)
    yield f"## {title}\n\n| field | default | meaning |\n|---|---|---|"
    shown = of().model_dump(by_alias=True, mode="json")
    for name, field in of.model_fields.items():
        alias = field.alias or name
        if alias not in _LEFT:
            yield f"| `{alias}` | {_default(shown[alias])} | {meanings.get(name, '')} |"
    yield ""


def _default(value: Any) -> str:
    if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
        return "below"
    if value is None or value in ("", []):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{', '.join(map(str, value)) if isinstance(value, list) else value}`"


def _meanings(of: type[BaseModel]) -> dict[str, str]:
    """Of the docstring's `Attributes:`; a line may be about several."""
    text = inspect.getdoc(of) or ""
    found: dict[str, str] = {}
    _, _, told = text.partition("Attributes:\n")
    for names, meaning in re.findall(r"^    ([a-z_, ]+): ((?:.+\n?)(?:^      .*\n?)*)", told, re.MULTILINE):
        words = re.sub(r"\s+", " ", meaning).strip().replace("|", "\\|")
        words = re.sub(r"\bNone\b", "left out", words)
        words = re.sub(r"`([a-z]+_[a-z_]+)`", lambda name: f"`{to_camel(name[1])}`", words)
        found |= dict.fromkeys((name.strip() for name in names.split(",")), words)
    return found


if __name__ == "__main__":
    print(page(), end="")
