"""Texts are read at a cost in proportion to their length, in one way by every command."""

from __future__ import annotations

import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from scheduler.config.file import ConfigError, read_config
from scheduler.embedded.cluster import EmbeddedCluster
from scheduler.lint.documents import ManifestError, Text, parse_all, parse_documents
from scheduler.lint.engine import Source, convert, lint
from scheduler.yaml_reading import TooMuchError, load, read_nodes
from tests.lint.texts import claim, dump, find

DEEP = {
    "brackets": "[" * 40_000,
    "braces": "{a: " * 40_000,
    "lists": "- " * 40_000,
    "keys": "? " * 40_000,
    "indentation": "\n".join(f"{' ' * depth}a:" for depth in range(400)),
    "flow-in-a-manifest": "apiVersion: v1\nkind: Pod\nspec: " + "[" * 40_000,
}
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


CHECKS = ("lint", "convert")
"""Of these a file that cannot be read is a finding, exit code 1, and of all others wrong input."""


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


# The process itself must live, so each runs in one of its own.
@pytest.mark.parametrize("command", [["lint"], ["convert"], ["simulate"], ["demo", "--apply"], ["cel", "check", "-f"]])
def test_nesting_without_end_is_refused_by_every_command(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text(DEEP["brackets"])

    done = subprocess.run(
        [sys.executable, "-m", "scheduler", *command, file], capture_output=True, text=True, check=False
    )

    assert done.returncode == (1 if command[0] in CHECKS else 2), done.stderr
    assert f"{file}:1:" in done.stdout + done.stderr
    assert "nested too deeply" in done.stdout + done.stderr


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_nesting_is_counted_before_anything_is_built_on_it(text: str) -> None:
    parsed = parse_all(text, "f.yaml")
    documents, errors = parsed.documents, parsed.errors

    assert documents == []
    assert "nested too deeply" in errors[0].problem


class _Limited(yaml.SafeLoader):
    """A parser that reads ahead as libyaml does, and has a limit of its own."""

    limit = 1_000

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803
        if self.flow_level >= self.limit:
            raise yaml.scanner.ScannerError(None, None, "exceeded maximum nesting depth", self.get_mark())
        super().fetch_flow_collection_start(TokenClass)


@pytest.mark.parametrize("limit", [100, 160, 1_000, 100_000])
@pytest.mark.parametrize("convert", [str, str.encode])
def test_too_deep_is_told_in_the_same_words_whatever_limit_the_parser_has(limit: int, convert: Any) -> None:
    parser = type("_Parser", (_Limited,), {"limit": limit})
    text = "é: 1\n---\nü: {x: " + "[" * 5_000
    with patch("scheduler.yaml_reading._Parser", parser), pytest.raises(TooMuchError) as caught:
        list(read_nodes(convert(text)))

    assert caught.value.problem.startswith("nested too deeply: more than 150 levels")
    assert caught.value.problem_mark.line == 2


@pytest.mark.parametrize("text", ["[" * 100 + "'", "[" * 100 + "]" * 100 + " 'x", "[[]," * 60 + "'", "{a: [}"])
def test_what_is_broken_and_not_deep_is_called_broken(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        list(read_nodes(text))

    assert not isinstance(caught.value, TooMuchError)


def test_150_levels_are_no_problem() -> None:
    assert load("[" * 150 + "]" * 150) is not None


BOMBS = {
    "lists": "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "merges": "a: &a {x: 1, y: 2}\n"
    + "".join(f"{b}: &{b} {{<<: [{','.join([f'*{a}'] * 10)}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "empty-lists": "- &a [[],[],[],[],[],[],[],[],[],[]]\n"
    + "".join(f"- &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "one-long-text": f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 10_000)}]\n",
    "itself": "a: &a {x: *a}\n",
    "in-many-documents": "---\n".join(["a: &a [1,1,1]\nb: [" + ",".join(["*a"] * 200) + "]\n"] * 2000),
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_aliases_cost_what_they_expand_to(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="expand without end"):
        list(read_nodes(text))


TOO_MUCH = {name: text for name, text in BOMBS.items() if name != "in-many-documents"} | {
    "indentation": DEEP["indentation"],
    "flat": "apiVersion: v1\nkind: Pod\nmetadata:\nname: a\nspec: " + "{" * 400,
}


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
@pytest.mark.parametrize(
    "read", [parse_all, lambda text, name: list(parse_documents(text, name))], ids=["all", "first"]
)
def test_what_is_too_much_is_not_taken_for_lost_indentation(text: str, read: Any) -> None:
    try:
        (error,) = read(text, "f.yaml").errors
    except ManifestError as raised:
        error = raised

    assert "expand without end; write out" in error.problem or "nested too deeply: more than" in error.problem
    assert "lost in copying" not in error.problem


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("---\nnull\n", "an empty value (null)", id="null"),
        pytest.param("~\n", "an empty value (null)", id="tilde"),
        pytest.param("just text\n", "a text", id="text"),
        pytest.param("7\n", "a number", id="integer"),
        pytest.param("7.5\n", "a number", id="number"),
        pytest.param("yes\n", "true", id="boolean"),
        pytest.param("- a\n", "a list", id="list"),
        pytest.param("apiVersion: v1\nkind: List\nitems:\n- null\n", "an empty value (null)", id="in-a-list"),
    ],
)
def test_what_is_no_object_is_named_in_plain_words(text: str, what: str) -> None:
    with pytest.raises(ManifestError) as caught:
        list(parse_documents(text, "f.yaml"))

    assert caught.value.problem == f"{what} is no Kubernetes object: put one here, or take it out"


def test_an_anchor_may_be_given_twice() -> None:
    assert load("a: &x 1\nb: *x\nc: &x 2\nd: *x\n") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_aliases_that_people_write_are_read() -> None:
    text = "base: &base {image: x, args: [a]}\none: *base\ntwo:\n  <<: *base\n  image: y\n"

    assert load(text) == {
        "base": {"image": "x", "args": ["a"]},
        "one": {"image": "x", "args": ["a"]},
        "two": {"image": "y", "args": ["a"]},
    }


def test_a_text_is_split_once_however_many_documents_it_has() -> None:
    texts = {
        "documents": "---\n".join([CONFIG_MAP] * 500),
        "a-list": "apiVersion: v1\nkind: List\nitems:\n" + "- {apiVersion: v1, kind: ConfigMap, metadata: {}}\n" * 500,
        "broken": "---\n".join(["a: [\n"] * 500),
        "findings": "---\n".join([claim("- {name: gpu, deviceClassName: gpu}\n", version="v1beta1")] * 500),
    }
    for name, text in texts.items():
        splits: list[int] = []
        split = vars(Text)["lines"].func

        def counted(self: Text, split: Any = split, splits: list[int] = splits) -> list[str]:
            splits.append(1)
            return split(self)

        lines = cached_property(counted)
        lines.__set_name__(Text, "lines")
        with patch.object(Text, "lines", lines):
            lint([Source(name, text)])

        assert len(splits) <= 1, name


@pytest.mark.slow
def test_a_file_of_many_documents_is_converted_in_one_pass() -> None:
    text = "---\n".join([claim("- {name: gpu, deviceClassName: gpu}\n", version="v1beta1"), CONFIG_MAP] * 300)

    (converted,) = convert([Source("f.yaml", text)])

    kinds = [obj["kind"] for obj in yaml.safe_load_all(converted.text)]
    assert kinds == ["ResourceClaim", "ConfigMap"] * 300


def test_places_are_right_in_a_file_of_which_a_part_is_broken() -> None:
    text = f"{CONFIG_MAP}---\na: [\n---\n{CONFIG_MAP}"

    parsed = parse_all(text, "f.yaml")
    documents, errors = parsed.documents, parsed.errors

    assert [document.start_line for document in documents] == [1, 7]
    assert str(documents[1].place(("metadata", "name"))) == "f.yaml:9:18"
    assert [error.place.line for error in errors] == [6]


@pytest.mark.parametrize("command", ["lint", "convert", "simulate"])
def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path, command: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(CONFIG_MAP * 100)

    for given in (run(command, "--max-size", "1Ki", file), run(command, "--max-size", "1Ki", "-", stdin="#" * 2000)):
        assert given.exit_code == (1 if command in CHECKS else 2)
        assert "larger than 1Ki; a manifest? --max-size reads more" in given.output


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero here")
def test_a_file_without_end_is_not_read_for_ever() -> None:
    assert "larger than 1Mi" in run("lint", "--max-size", "1Mi", "/dev/zero").output


@pytest.mark.parametrize("size", ["0", "-1", "x", "1Zi"])
def test_a_size_is_a_number_with_a_unit(size: str) -> None:
    result = run("lint", "--max-size", size, "-", stdin="")

    assert result.exit_code == 2
    assert "must be a size like 64Mi" in result.output


def test_a_larger_size_reads_more() -> None:
    assert "larger than" not in run("lint", "--max-size", "10Ki", "-", stdin="#" * 2000).output


TWO = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n"


@pytest.mark.parametrize("command", [["lint"], ["convert"], ["simulate"], ["demo", "--apply"], ["cel", "check", "-f"]])
def test_two_manifests_without_a_separator_are_told_by_every_command(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)

    result = run(*command, file)

    assert result.exit_code == (1 if command[0] in CHECKS else 2)
    assert f"{file}:4:1: " in result.output
    assert "two manifests without a line --- between them?" in result.output


def test_a_field_that_is_there_twice_is_refused_wherever_it_is() -> None:
    with pytest.raises(ManifestError, match=r"f\.yaml:5:3: ConfigMap a: the field x is there twice"):
        list(parse_documents("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y,\n  x: z}\n", "f.yaml"))


def test_the_schedulers_configuration_is_read_in_the_same_way(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\nprofiles: " + "[" * 40_000)

    with pytest.raises(ConfigError, match="nested too deeply"):
        read_config(file)


async def test_so_is_what_the_embedded_cluster_is_sent() -> None:
    import aiohttp

    async with EmbeddedCluster() as cluster, aiohttp.ClientSession() as session:
        url = f"{cluster.url}/api/v1/namespaces/default/configmaps"
        headers = {"Content-Type": "application/yaml"}
        async with session.post(url, data="[" * 40_000, headers=headers) as response:
            assert response.status == 400
            assert "nested too deeply" in (await response.json())["message"]


def test_names_are_not_compared_by_the_thousand() -> None:
    class_ = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {{name: c{}}}\nspec: {{}}\n"
    published = dump("---\n".join(class_.format(number) for number in range(300)))
    compared = 0

    def counted(*arguments: object) -> list[str]:
        nonlocal compared
        compared += 1
        return []

    with patch("scheduler.model.nearest.get_close_matches", counted):
        (finding,) = find(claim("- {name: gpu, exactly: {deviceClassName: gpu}}\n"), published=published)

    assert compared == 0
    assert finding.fix.startswith("there are 300, c")
