"""Kubeconfigs that are wrong, one mistake each: the error names file, entry and field, and says what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube.kubeconfig import CredentialsError, Reader, read_kubeconfig


def written(folder: Path, content: str | bytes | dict[str, Any]) -> Path:
    path = folder / "config"
    text = yaml.safe_dump(content) if isinstance(content, dict) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def config(cluster: Any = None, user: Any = None, **changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://h:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    } | changes


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "p"}
CA = "LS0tLS1CRUdJTg=="


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", ": this kubeconfig is empty", id="empty"),
        pytest.param("\n  \n# nothing\n", ": this kubeconfig is empty", id="only-a-comment"),
        pytest.param(
            "just some words\n", ": no kubeconfig, but text; one begins with apiVersion: v1, kind: Config", id="text"
        ),
        pytest.param("- a\n- b\n", ": no kubeconfig, but a list;", id="list"),
        pytest.param(b"\x7fELF\x02\x01\x00\xff", ": no kubeconfig, but binary data", id="binary"),
        pytest.param(b"a: \x00b", ": no kubeconfig, but binary data", id="a-zero-byte"),
        pytest.param("a: [\n", ":2:1: no valid YAML: ", id="broken"),
        # Where it is said depends on libyaml: 0.2.6 counts levels, too, and reads ahead.
        pytest.param("[" * 40_000, ": no valid YAML: nested too deeply", id="deep"),
        pytest.param('{"a":' * 20_000, ":1:751: no valid YAML: nested too deeply", id="deep-mappings"),
        pytest.param("a: &a {x: *a}\n", ":1:11: no valid YAML: its aliases expand without end; ", id="bomb"),
        pytest.param("kind: Pod\nmetadata: {name: a}\n", ": no kubeconfig: its kind is Pod, not Config", id="manifest"),
        pytest.param(
            config(**{"current-context": ""}),
            ": no current-context; set it, or choose one with --context (there are: x)",
            id="no-context",
        ),
        pytest.param(
            config(**{"current-context": "X"}),
            ': there is no context "X"; choose another with --context; ',
            id="unknown-context",
        ),
        pytest.param(
            config(**{"current-context": 3}), ": current-context: text is needed, not int 3", id="context-number"
        ),
        pytest.param(config(contexts={}), ": contexts: a list is needed, not dict", id="contexts-mapping"),
        pytest.param(config(contexts=["x"]), ": contexts[0]: name: text is needed", id="contexts-of-texts"),
        pytest.param(
            config(contexts=[{"name": "x", "context": "c"}]),
            ': contexts "x": context: a mapping is needed',
            id="context-text",
        ),
        pytest.param(config(contexts=[{"name": "x"}]), ': context "x": cluster: it names none', id="no-cluster-named"),
        pytest.param(
            config(clusters=[]), ': context "x": there is no cluster "c"; there are: none', id="no-such-cluster"
        ),
        pytest.param(
            config(users=[{"name": "uu", "user": {}}]),
            ': context "x": there is no user "u"; did you mean "uu"?',
            id="no-such-user",
        ),
        pytest.param(
            config(users=[{"name": "u", "user": {}}] * 2),
            ': users: "u" is there twice; remove one of them',
            id="user-twice",
        ),
        pytest.param(
            config({"server": ""}), ': cluster "c": server: the API server\'s address is missing', id="no-server"
        ),
        pytest.param(
            config({"server": "h:6443"}),
            ": cluster \"c\": server 'h:6443': it must begin with https:// or http://",
            id="no-scheme",
        ),
        pytest.param(config({"server": "https://h:port"}), "server 'https://h:port': no valid address: ", id="port"),
        pytest.param(config({"server": "https://[::1"}), "server 'https://[::1': no valid address: ", id="bracket"),
        pytest.param(
            config({"server": "https://"}), "server 'https://': no valid address: the host is missing", id="host"
        ),
        pytest.param(
            config({"server": ["a"]}), "cluster \"c\": server: text is needed, not list ['a']", id="server-list"
        ),
        pytest.param(
            config({"certificate-authority-data": CA, "insecure-skip-tls-verify": True}),
            ': cluster "c": certificate-authority-data beside insecure-skip-tls-verify: true, which would not',
            id="authority-beside-insecure",
        ),
        pytest.param(
            config({"insecure-skip-tls-verify": "yes"}),
            "insecure-skip-tls-verify: true or false is needed",
            id="flag-as-text",
        ),
        pytest.param(
            config({"certificate-authority": "no.crt"}), "no.crt: No such file or directory", id="authority-is-missing"
        ),
        pytest.param(
            config({"certificate-authority": "a", "certificate-authority-data": CA}),
            'cluster "c": certificate-authority and certificate-authority-data are both given; remove one of them',
            id="authority-twice",
        ),
        pytest.param(
            config({"certificate-authority-data": "no base64!"}),
            'cluster "c": certificate-authority-data: this is not base64: ',
            id="authority-no-base64",
        ),
        pytest.param(
            config({"proxy-url": "socks5://p:1080"}),
            "cluster \"c\": proxy-url 'socks5://p:1080': SOCKS proxies are not supported; give one that begins with http://",
            id="socks",
        ),
        pytest.param(
            config({"proxy-url": "p:3128"}), "proxy-url 'p:3128': it must begin with http:// or https://", id="proxy"
        ),
        pytest.param(
            config({"proxy-url": "ftp://me:secret@p"}),
            "proxy-url 'ftp://…@p': it must begin with",
            id="no-password-is-shown",
        ),
        pytest.param(config(user={"token": 12345}), 'user "u": token: text is needed, not int', id="token-number"),
        pytest.param(
            config(user={"token": "a\nb"}), 'user "u": token: it holds characters that cannot be sent', id="token-lines"
        ),
        pytest.param(config(user={"tokenFile": "none"}), "none: No such file or directory", id="token-file"),
        pytest.param(
            config(user={"tokenFile": "/dev/null"}), "tokenFile /dev/null: it is empty", id="token-file-empty"
        ),
        pytest.param(
            config(user={"tokenFile": "/dev/zero"}), "tokenFile /dev/zero: larger than 10 MiB", id="token-endless"
        ),
        pytest.param(
            config(user={"token": "t", "username": "me"}), "token beside username and password; only one", id="two-ways"
        ),
        pytest.param(
            config(user={"client-certificate-data": CA}),
            "client-certificate without client-key; both are needed",
            id="no-key",
        ),
        pytest.param(
            config(user={"as-groups": ["a"]}), 'user "u": as-groups without as: whom to act for', id="groups-alone"
        ),
        pytest.param(config(user={"as-uid": "1"}), 'user "u": as-uid without as: ', id="uid-alone"),
        pytest.param(
            config(user={"as": "a", "as-groups": "b"}), "as-groups: a list of texts is needed", id="groups-text"
        ),
        pytest.param(
            config(user={"as": "a", "as-user-extra": {"k": "v"}}), "k: a list of texts is needed", id="extra-text"
        ),
        pytest.param(config(user={"as": "a\r\nX: y"}), "cannot be sent in a header", id="as-with-lines"),
        pytest.param(config(user={"exec": "aws"}), 'user "u": exec: a mapping is needed', id="exec-text"),
        pytest.param(
            config(user={"exec": {**EXEC, "command": ""}}),
            "exec: command: the program to run is missing",
            id="no-command",
        ),
        pytest.param(config(user={"exec": {"command": "p"}}), "exec: apiVersion '': ", id="no-version"),
        pytest.param(
            config(user={"exec": {**EXEC, "interactiveMode": "never"}}), "interactiveMode 'never': one of", id="mode"
        ),
        pytest.param(
            config(user={"exec": {**EXEC, "env": {"A": "b"}}}), "env: a list of name and value is needed", id="env"
        ),
        pytest.param(config(user={"exec": {**EXEC, "args": ["a", 1]}}), "args: a list of texts is needed", id="args"),
        pytest.param(
            config(user={"exec": EXEC, "auth-provider": {"name": "oidc"}}),
            "exec beside auth-provider; remove one",
            id="exec-twice",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_entry_and_field(tmp_path, content, complaint):
    path = written(tmp_path, content)

    with pytest.raises(CredentialsError) as raised:
        read_kubeconfig(path, None, Reader())

    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_folder_and_a_file_that_may_not_be_read(tmp_path):
    with pytest.raises(CredentialsError, match=f"{tmp_path}: Is a directory"):
        read_kubeconfig(tmp_path, None, Reader())
    with pytest.raises(CredentialsError, match="none: no such kubeconfig file"):
        read_kubeconfig(tmp_path / "none", None, Reader())


def test_what_nobody_asks_for_may_be_wrong(tmp_path):
    """Another context's broken cluster is no reason not to use this one."""
    content = config()
    content["clusters"].append({"name": "other", "cluster": {"server": 3}})
    content["contexts"].append({"name": "y", "context": {"cluster": "none", "user": "none"}})

    assert read_kubeconfig(written(tmp_path, content), None, Reader()).url == "https://h:6443"


def test_a_context_without_a_user_is_nobody(tmp_path):
    content = config(contexts=[{"name": "x", "context": {"cluster": "c"}}])
    access = read_kubeconfig(written(tmp_path, content), "x", Reader())

    assert (access.token, access.username, access.impersonation) == (None, None, ())


def test_a_reader_knows_what_has_changed(tmp_path):
    (tmp_path / "token").write_text("t")
    path = written(tmp_path, config(user={"tokenFile": "token"}))
    reader = Reader()
    read_kubeconfig(f"{path}{os.pathsep}", None, reader)

    assert not reader.has_changed()
    (tmp_path / "token").write_text("s")
    assert reader.has_changed()
    (tmp_path / "token").write_text("t")
    assert not reader.has_changed()
    (tmp_path / "token").unlink()
    assert reader.has_changed()
