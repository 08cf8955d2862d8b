"""docs/reasons.md, made from the table of causes and from what plugins say.

Written by `python -m tests.reasons_page > docs/reasons.md`. What plugins say is read from their source: the constants
`REASON…`, and the texts given to `Status` or added to `reasons`, in which `…` stands for what differs.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from scheduler.why.kinds import KINDS, Kind
from scheduler.why.say import TOKEN

ROOT: Final = Path(__file__).parents[1]
PLUGINS: Final = ROOT / "scheduler" / "plugins"
_SAYING: Final = (
    *(("Status", one) for one in ("unschedulable", "unresolvable", "error")),
    ("reasons", "append"),
)
_FIXED_MIN: Final = 12
"""Characters of a text that is worth looking for, without what differs."""
_HEAD: Final = """# Reasons, A to Z

Made from `scheduler/why` and the plugins by `python -m tests.reasons_page > docs/reasons.md`.

Why a pod waits stands in its condition `PodScheduled`, in its event `FailedScheduling`, and in what
[`dra-scheduler explain`](explain.md) prints: first kube-scheduler's sentence, then ` Cause: `, the kind of the cause in
brackets, and the cause. A kind keeps its name; the texts beside it may change. Look for what you see:
[a kind](#causes), or [a part of the sentence](#sentences).

## Causes
"""
_SENTENCES: Final = """
## Sentences

What each plugin says, in kube-scheduler's words where that says it, too. A sentence counts nodes of each:
`0/5 nodes are available: 2 node(s) were unschedulable, 3 …`. `…` stands for names and numbers.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    parts += (
        f"### {kind.name}\n\n{_sentences(kind)}\n\n{kind.means} **Do:** {kind.do}\n"
        for kind in sorted(KINDS.values(), key=lambda one: one.name)
    )
    parts.append(_SENTENCES)
    said: dict[str, set[str]] = {}
    for module in _modules():
        for text, plugin in _said(module):
            said.setdefault(plugin, set()).add(text)
    kinds = kinds_by_plugin()
    for plugin in sorted(said):
        links = ", ".join(f"[{one}](#{one})" for one in sorted(kinds.get(plugin, ())))
        texts = "\n".join(f"- `{text.replace('`', chr(39))}`" for text in sorted(said[plugin], key=str.lower))
        causes = f"\n\nCauses that may follow: {links}.\n" if links else "\n"
        parts.append(f"### {plugin}{causes}\n{texts}\n")
    return "\n".join(parts)


def _sentences(kind: Kind) -> str:
    return "\n>\n".join(f"> [{kind.name}] {TOKEN.sub(_placeholder, text)}" for text in kind.says.values())


def _placeholder(field: re.Match[str]) -> str:
    """A template's field by its name, a plural as for one; brackets of parts that may be left out go."""
    name, spec = field[1], field[2] or ""
    if name is None:
        return ""
    return spec.partition("|")[0] if "|" in spec else f"{spec} {name.upper()}".strip()


@cache
def _modules() -> tuple[Path, ...]:
    return tuple(sorted(PLUGINS.rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _plugin_of(path: Path) -> str:
    """The name of the plugin that a module belongs to; "" for modules of several."""
    places = [path] if path.parent == PLUGINS else [path, path.parent / "plugin.py"]
    for place in places:
        module = importlib.import_module(".".join(place.relative_to(ROOT).with_suffix("").parts))
        if isinstance(name := getattr(module, "NAME", None), str):
            return name
    return ""


def _said(path: Path) -> Iterator[tuple[str, str]]:
    """What a module's plugin says of nodes and pods."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    plugin = _plugin_of(path) or "Several plugins"
    for name, value in vars(module).items():
        if name.startswith("REASON") and isinstance(value, str) and _defines(path, name):
            yield value, plugin
    for call in ast.walk(tree_of(path)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        of, method = call.func.value, call.func.attr
        if isinstance(of, ast.Name) and (of.id, method) in _SAYING:
            texts = [_text(arg, module) for arg in call.args]
            yield from ((text, plugin) for text in texts if len(text.replace("…", "")) >= _FIXED_MIN)


def _defines(path: Path, name: str) -> bool:
    return any(
        isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id == name
        for one in tree_of(path).body
    )


def _text(node: ast.expr, module: object) -> str:
    """A text with … for what is not known before; "" where nothing is."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(one, module) or "…" for one in values)
        case ast.BinOp(left=left):
            return _text(left, module)
        case ast.Name(id=name) if isinstance(value := getattr(module, name, None), str):
            return value
    return ""


# -- kinds --------------------------------------------------------------------------------------------------------


def kinds_of_calls(path: Path) -> Iterator[tuple[int, set[str]]]:
    """The line of each `Reason(…)` of a module, and the kinds that it may have."""
    for call in ast.walk(tree_of(path)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Reason":
            given = [one.value for one in call.keywords if one.arg == "kind"]
            for one in [*given, *call.args[:1]]:
                yield call.lineno, _kinds(one, path)


def _kinds(node: ast.expr, path: Path) -> set[str]:
    match node:
        case ast.Constant(value=str(text)):
            return {text} - {""}
        case ast.IfExp(body=body, orelse=orelse):
            return _kinds(body, path) | _kinds(orelse, path)
        case ast.Name(id=name):
            assigned = [
                one.value
                for one in ast.walk(tree_of(path))
                if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
            ]
            if found := {kind for value in assigned for kind in _kinds(value, path)}:
                return found
    # A value of the module's own: one of the kinds that stand in it.
    texts = {one.value for one in ast.walk(tree_of(path)) if isinstance(one, ast.Constant)}
    return {kind for kind in KINDS if kind in texts}


def kinds_by_plugin() -> dict[str, set[str]]:
    """Of each plugin the kinds that it may name: in its own modules, and in those of causes that they import."""
    found: dict[str, set[str]] = {}
    for path in _modules():
        plugin = _plugin_of(path)
        of_module = {path, *_blaming(path)} if plugin else set()
        for one in of_module:
            found.setdefault(plugin, set()).update(kind for _, kinds in kinds_of_calls(one) for kind in kinds)
    return found


def _blaming(path: Path) -> Iterator[Path]:
    for one in ast.walk(tree_of(path)):
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("scheduler.plugins."):
            place = ROOT / Path(*str(one.module).split(".")).with_suffix(".py")
            if place.name.endswith(("reasons.py", "causes.py")) and place.exists():
                yield place


if __name__ == "__main__":
    sys.stdout.write(page())
