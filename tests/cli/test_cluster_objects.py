"""What lint and allocate say when the cluster that they compare with cannot be read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from scheduler.cli.cluster_objects import ClusterReadError, read_cluster
from tests.kube.misbehaving import misbehaving, status


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


async def test_credentials_that_are_not_accepted_are_named(tmp_path: Path) -> None:
    async with misbehaving(*[status(401, "Unauthorized", "Unauthorized")] * 2) as server:
        path = kubeconfig(tmp_path, server.url)
        with pytest.raises(ClusterReadError) as raised:
            await asyncio.to_thread(read_cluster, str(path), None)

    assert str(raised.value) == (
        "cannot list ResourceSlice objects: the API server does not accept the credentials of "
        f'{path}: context "x", user "u": Unauthorized'
    )


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        ("https://no-such-host.invalid", "cannot list ResourceSlice objects: cannot find host no-such-host.invalid: "),
        ("http://127.0.0.1:1", "cannot list ResourceSlice objects: cannot connect to 127.0.0.1:1: Connection refused"),
        ("h:6443", ": cluster \"c\": server 'h:6443': it must begin with https:// or http://"),
    ],
)
def test_a_server_that_cannot_be_reached_is_said_in_words(tmp_path: Path, server: str, complaint: str) -> None:
    with pytest.raises(ClusterReadError) as raised:
        read_cluster(str(kubeconfig(tmp_path, server)), None)

    assert complaint in str(raised.value)
