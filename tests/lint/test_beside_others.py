"""Objects that are right alone, and wrong beside others: names of extended resources, namespaces of admin access."""

from __future__ import annotations

import pytest

from tests.lint.texts import claim, find

CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {0}}}
spec: {{extendedResourceName: {1}, selectors: [{{cel: {{expression: 'device.driver == "a.b"'}}}}]}}
---
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nstatus: {{allocatable: {{b/gpu: '{}'}}}}\n---\n"
SLICE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s}}
spec: {{driver: a.b, nodeName: {}, pool: {{name: n, generation: 1, resourceSliceCount: 1}}, devices: [{{name: d}}]}}
"""


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (CLASS.format("x", "b/gpu") + CLASS.format("y", "b/nic"), []),
        (
            CLASS.format("x", "b/gpu") + CLASS.format("y", "b/gpu"),
            ["the DeviceClasses x, y have b/gpu: one of them serves it"] * 2,
        ),
        (
            CLASS.format("x", "b/gpu") + NODE.format(2) + SLICE.format("n"),
            [
                "a device plugin serves b/gpu on node n, where a driver publishes the same devices: claims get none "
                "of them there, unless `twoStacks` says so"
            ],
        ),
        (CLASS.format("x", "b/gpu") + NODE.format(0) + SLICE.format("n"), []),
        (CLASS.format("x", "b/gpu") + NODE.format(2) + SLICE.format("m"), []),
    ],
)
def test_who_serves_an_extended_resource(text: str, messages: list[str]) -> None:
    assert [one.message for one in find(text) if one.code in {"extended-resource-twice", "two-stacks"}] == messages


@pytest.mark.parametrize(
    ("namespace", "count"),
    [
        ("", 0),
        ("{name: default}", 1),
        ("{name: default, labels: {resource.k8s.io/admin-access: 'true'}}", 1),
        ("{name: default, labels: {resource.kubernetes.io/admin-access: 'true'}}", 0),
    ],
)
def test_admin_access_needs_the_namespaces_label(namespace: str, count: int) -> None:
    request = "- {name: r, exactly: {deviceClassName: x, adminAccess: true}}"
    there = f"---\napiVersion: v1\nkind: Namespace\nmetadata: {namespace}\n" if namespace else ""

    found = [one.field for one in find(claim(request) + there) if one.code == "admin-access-unlabelled"]

    assert found == ["spec.devices.requests[0].exactly.adminAccess"] * count
