"""`dra-scheduler ui` on wrong use: what is wrong is said, and nothing is served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.cli.main import cli
from scheduler.cli.ui import page_of
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.observer import ClusterObserver
from tests.patience import PATIENCE_S
from tests.ui.worlds import objects


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "world.yaml"
    path.write_text(yaml.safe_dump_all(objects()))
    return str(path)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Of a server that is not there: nobody is asked before the options are looked at."""
    path = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    path.write_text(
        yaml.safe_dump({"current-context": "c", "contexts": [context], "clusters": [cluster], "users": [{"name": "u"}]})
    )
    return str(path)


@pytest.mark.parametrize(
    "options", [("--address", "0.0.0.0"), ("--serving", "secure"), ("--tls-cert-file", __file__)], ids=" ".join
)
def test_files_are_for_this_machine(file: str, options: tuple[str, ...]) -> None:
    said = CliRunner().invoke(cli, ["ui", "-f", file, *options])
    assert said.exit_code == 2
    assert "files are shown on a loopback address only, without TLS" in said.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--serving", "plain", "--address", "0.0.0.0"), "plain is for loopback addresses only"),
        (("--tls-cert-file", __file__), "tlsPrivateKeyFile"),
        (("--serving", "plain", "--tls-cert-file", __file__, "--tls-private-key-file", __file__), "plain"),
        (("--context", "nobody"), "nobody"),
    ],
    ids=lambda given: " ".join(given)[:40],
)
def test_what_cannot_be_served_is_refused(kubeconfig: str, options: tuple[str, ...], text: str) -> None:
    said = CliRunner().invoke(cli, ["ui", "--kubeconfig", kubeconfig, *options])
    assert said.exit_code == 2, said.output
    assert text in said.output
    assert "Traceback" not in said.output


async def test_what_ends_a_watch_is_named_by_its_own_error(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(_: ClusterObserver) -> None:
        raise RuntimeError("the watch has ended")

    monkeypatch.setattr(ClusterObserver, "failed", failed)
    path = Path(kubeconfig)
    async with EmbeddedCluster(controllers=False) as cluster:
        path.write_text(path.read_text().replace("http://127.0.0.1:9", cluster.url))
        with pytest.raises(ExceptionGroup) as ended:
            async with asyncio.timeout(PATIENCE_S), page_of(path, "a cluster"):
                await asyncio.Event().wait()

    assert [str(one) for one in ended.value.exceptions] == ["the watch has ended"]
