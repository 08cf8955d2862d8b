"""A JSON dump is read without places, to the same objects; what needs a place is left to the other reader."""

from __future__ import annotations

import json

import pytest

from scheduler.cli.json_dumps import dumped_objects
from scheduler.lint.documents import parse_documents


def server_object(name: str, **more: object) -> dict[str, object]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **more}


def dump(*items: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, indent=4)


@pytest.mark.parametrize("text", ['":', " :", '\\":', '"a" : 1', "<&>", "\n:", '{"a":1,"a":2}'])
def test_texts_that_look_like_fields_are_texts(text: str) -> None:
    (read,) = dumped_objects(dump(server_object("a", spec={text: text}))) or ()

    assert read["spec"] == {text: text}


def test_the_same_objects_as_with_places() -> None:
    text = dump(server_object("a", spec={"x": [1, 2.5, True, None, "10:30", "é\u202e"]}), server_object("b"))

    assert dumped_objects(text) == [one.obj for one in parse_documents(text, "dump.json")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind: List",
        "{",
        json.dumps(server_object("a")),
        dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "by-hand"}}),
        dump(server_object("a"), None),
        dump({**server_object("a"), "kind": "NodeList", "items": []}),
        dump(server_object("a")).replace('"uid"', '"name": "b", "uid"'),
        dump(server_object("a")).replace('"uid"', '"name" : "b", "uid"'),
        dump(server_object("a")).replace('"uid"', '"name"\n: "b", "uid"'),
        dump(server_object("a")).replace('"uid"', '"name": "\\u0022:", "uid"'),
        dump(server_object("a", spec='":')).replace('"uid"', '"name": "b", "uid"').replace('\\":', '\\"\\u003A'),
        dump(server_object("a", spec=1)).replace(": 1", ": NaN"),
        dump(server_object("a", spec=1)).replace(": 1", ": 100000000000000000000"),
        dump(server_object("a", spec="%")).replace('"%"', "[" * 200 + "]" * 200),
        dump(server_object("a", spec="%")).replace('"%"', "[" * 100_000 + "]" * 100_000),
    ],
    ids=[
        *("empty", "yaml", "broken", "one-object", "by-hand", "null", "list-in-list"),
        *(
            "twice",
            "spaced",
            "broken-line",
            "escaped-quote",
            "escaped-colon",
            "no-number",
            "large",
            "deep",
            "deeper-than-the-stack",
        ),
    ],
)
def test_what_needs_a_place_is_left_to_the_reader_that_has_them(text: str) -> None:
    assert dumped_objects(text) is None
