"""Who owns which field: the `managedFields` of server-side apply, and the merge it decides.

Rules of this module
  1. Pure functions; nothing here knows HTTP or the store.
  2. Ownership is tracked from an object's first apply on. Until then an object has no managedFields, and
     the first apply finds all that is there owned by "before-first-apply", as a real server does with
     objects older than the feature. (kube-apiserver tracks every write; that costs more than the write.)

Not here: when an apply happens (`apply`).

Source: k8s.io/apimachinery v0.36.3 pkg/util/managedfields, sigs.k8s.io/structured-merge-diff/v6 merge/update.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from scheduler.embedded.server.list_rules import ListRule
from scheduler.embedded.server.strategy import SYSTEM_METADATA, Object
from scheduler.validation.field_errors import Json

BEFORE_FIRST_APPLY: Final = "before-first-apply"

Path = tuple[str, ...]
"""Steps in the notation of FieldsV1: `f:name`, `k:{"key":"value"}`, `v:value`, and `.` for the item itself."""

_UNOWNED_METADATA: Final = frozenset(
    {*SYSTEM_METADATA, "name", "namespace", "resourceVersion", "selfLink", "managedFields"}
)
_NO_RULE: Final = ListRule()


@dataclass(slots=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    sub_resource: str
    api_version: str
    time: str
    paths: set[Path]

    @property
    def key(self) -> tuple[str, str, str]:
        """What distinguishes entries."""
        return (self.name, self.operation, self.sub_resource)


def decode_managers(obj: Mapping[str, Json]) -> list[Manager]:
    return [
        Manager(
            name=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            sub_resource=entry.get("subresource", ""),
            api_version=entry.get("apiVersion", ""),
            time=entry.get("time", ""),
            paths=set(_trie_paths(entry.get("fieldsV1") or {}, ())),
        )
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def encode_managers(managers: Iterable[Manager]) -> list[Json]:
    """Write `metadata.managedFields`; managers that own nothing are left out."""
    return [
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": manager.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _trie(manager.paths),
            **({"subresource": manager.sub_resource} if manager.sub_resource else {}),
        }
        for manager in managers
        if manager.paths
    ]


def _trie_paths(trie: Mapping[str, Json], above: Path) -> Iterable[Path]:
    for step, below in trie.items():
        if below:
            yield from _trie_paths(below, (*above, step))
        else:
            yield (*above, step)


def _trie(paths: Iterable[Path]) -> dict[str, Json]:
    trie: dict[str, Json] = {}
    for path in sorted(paths):
        node = trie
        for step in path:
            node = node.setdefault(step, {})
    return trie


# -- the fields of an object -----------------------------------------------------------------------


def owned_values(obj: Mapping[str, Json], rules: Mapping[str, ListRule]) -> dict[Path, Json]:
    """The leaves that can be owned, with their values: not kind, apiVersion and the server's metadata."""
    found: dict[Path, Json] = {}
    for member, value in obj.items():
        if member in ("kind", "apiVersion"):
            continue
        ownable = value
        if member == "metadata":
            ownable = {key: below for key, below in value.items() if key not in _UNOWNED_METADATA}
            if not ownable:
                continue
        _collect(ownable, (f"f:{member}",), member, rules, found)
    return found


def _collect(value: Json, above: Path, dotted: str, rules: Mapping[str, ListRule], found: dict[Path, Json]) -> None:
    rule = rules.get(dotted, _NO_RULE)
    if isinstance(value, dict) and value and not rule.is_atomic_map:
        for key, below in value.items():
            _collect(below, (*above, f"f:{key}"), f"{dotted}.{key}", rules, found)
    elif isinstance(value, list) and value and rule.apply_keys:
        for item in value:
            here = (*above, _item_step(item, rule))
            found[*here, "."] = True
            for key, below in item.items():
                _collect(below, (*here, f"f:{key}"), f"{dotted}.{key}", rules, found)
    elif isinstance(value, list) and value and rule.is_set:
        for item in value:
            found[*above, f"v:{orjson.dumps(item).decode()}"] = item
    else:
        found[above] = value


def _item_key(item: Mapping[str, Json], rule: ListRule) -> dict[str, Json]:
    key = {name: item.get(name, rule.defaults.get(name)) for name in rule.apply_keys}
    return {name: value for name, value in key.items() if value is not None}


def _item_step(item: Mapping[str, Json], rule: ListRule) -> str:
    return "k:" + orjson.dumps(_item_key(item, rule), option=orjson.OPT_SORT_KEYS).decode()


_ABSENT: Final = object()


def _find_item(items: Json, key: Mapping[str, Json]) -> Json:
    for item in items if isinstance(items, list) else ():
        # A key that has a default may be absent in the item.
        if all(item.get(name, value) == value for name, value in key.items()):
            return item
    return _ABSENT


def _remove(obj: Json, path: Path) -> None:
    """Take the value at a path out, and maps that became empty by it."""
    step, rest = path[0], path[1:]
    kind, _, text = step.partition(":")
    if kind == "f":
        if not isinstance(obj, dict) or text not in obj:
            return
        if not rest:
            del obj[text]
            return
        below = obj[text]
        if kind == "f" and isinstance(below, list) and rest[0].startswith(("k:", "v:")):
            _remove_item(below, rest)
        else:
            _remove(below, rest)
        if below in ({}, []):
            del obj[text]


def _remove_item(items: list[Json], path: Path) -> None:
    kind, _, text = path[0].partition(":")
    if kind == "v":
        wanted = orjson.loads(text)
        if wanted in items:
            items.remove(wanted)
        return
    item = _find_item(items, orjson.loads(text))
    if item is _ABSENT:
        return
    if path[1:] == (".",):
        items.remove(item)
    else:
        _remove(item, path[1:])


# -- writes that are not an apply ------------------------------------------------------------------


def record_update(
    api_version: str,
    rules: Mapping[str, ListRule],
    old: Mapping[str, Json],
    new: Object,
    *,
    manager: str,
    sub_resource: str,
    now: Callable[[], str],
) -> None:
    """Give `manager` the fields that a write changed; nothing to do before the first apply."""
    if not old["metadata"].get("managedFields"):
        return
    before, after = owned_values(old, rules), owned_values(new, rules)
    changed = {path for path, value in after.items() if before.get(path, _ABSENT) != value}
    gone = before.keys() - after.keys()
    if not changed and not gone:
        return
    managers = decode_managers(old)
    writer = next((entry for entry in managers if entry.key == (manager, "Update", sub_resource)), None)
    for entry in managers:
        if entry is not writer:
            entry.paths -= changed | gone
    if changed:
        if writer is None:
            writer = Manager(manager, "Update", sub_resource, api_version, now(), set())
            managers.append(writer)
        writer.paths |= changed
        writer.paths -= gone
        writer.time = now()
    new["metadata"]["managedFields"] = encode_managers(managers)


# -- apply -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that an apply would change and another manager owns."""

    manager: str
    api_version: str
    operation: str
    path: Path

    @property
    def field(self) -> str:
        """The path as the API prints it: `.spec.containers[name="x"].image`."""
        text = ""
        for step in self.path:
            kind, _, rest = step.partition(":")
            if kind == "f":
                text += f".{rest}"
            elif kind == "k":
                keys = ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in orjson.loads(rest).items())
                text += f"[{keys}]"
            elif kind == "v":
                text += f"[={rest}]"
        return text


def find_conflicts(
    live: Mapping[Path, Json], applied: Mapping[Path, Json], others: Iterable[Manager]
) -> list[Conflict]:
    """The applied fields that another manager owns with another value."""
    return [
        Conflict(entry.name, entry.api_version, entry.operation, path)
        for entry in others
        for path in sorted(applied.keys() & entry.paths)
        if live.get(path, _ABSENT) != applied[path]
    ]


def merge_applied(live: Json, applied: Json, rules: Mapping[str, ListRule], dotted: str = "") -> Json:
    """The live object with the applied configuration laid over it; lists merge by their rules."""
    rule = rules.get(dotted, _NO_RULE)
    if isinstance(applied, dict) and isinstance(live, dict) and not rule.is_atomic_map:
        for key, value in applied.items():
            live[key] = merge_applied(live.get(key), value, rules, f"{dotted}.{key}" if dotted else key)
        return live
    if isinstance(applied, list) and isinstance(live, list) and rule.apply_keys:
        for item in applied:
            found = _find_item(live, _item_key(item, rule))
            if found is _ABSENT:
                live.append(item)
            else:
                _merge_item(found, item, rules, dotted)
        return live
    if isinstance(applied, list) and isinstance(live, list) and rule.is_set:
        return live + [item for item in applied if item not in live]
    return applied


def _merge_item(found: Json, item: Json, rules: Mapping[str, ListRule], dotted: str) -> None:
    # The rule of `dotted` is the list's own: an item is an ordinary map below it.
    for key, value in item.items():
        found[key] = merge_applied(found.get(key), value, rules, f"{dotted}.{key}")


def _is_item_key(path: Path) -> bool:
    """Whether a path is a key field of a list's item: that goes with the item or not at all."""
    if len(path) < 2 or not path[-2].startswith("k:"):
        return False
    return path[-1].removeprefix("f:") in orjson.loads(path[-2].removeprefix("k:"))


def remove_given_up(obj: Object, given_up: Iterable[Path], still_owned: set[Path]) -> None:
    """Remove what a manager applied before and applies no more, unless someone owns it or something below it."""
    for path in sorted(given_up, key=len, reverse=True):
        root = path[:-1] if path[-1] == "." else path
        if any(other[: len(root)] == root for other in still_owned) or _is_item_key(path):
            continue
        _remove(obj, path)
