"""kubeconfig files: read, merged, one context chosen, and each field checked before it is used.

Rules of this module
  1. An error names the file, the context, the cluster or user, the field, what is wrong with it, and what to do.
  2. What kubectl does and we cannot do is refused, never ignored: a user who restricts himself with `as` is restricted.
  3. Every file is read through a `Reader`, which remembers the content and so notices a change.

Not here: running exec plugins (`exec_plugin`), contexts of TLS and refreshing (`credentials`).

Source: client-go v0.36.3 tools/clientcmd (loader.go: of files and of entries with one name the first wins;
validation.go) and transport/round_trippers.go (impersonation). Stricter here: an empty file, a context whose user does
not exist. More lenient: `interactiveMode` may be left out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from scheduler.model.nearest import near
from scheduler.yaml_reading import load

_T = TypeVar("_T")

_SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}
_SIZE_MAX: Final = 10 * 1024 * 1024
_PROXY_SCHEMES: Final = ("http", "https")
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_HEADER_KEY: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")  # RFC 7230 tchar without "%"
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"


class CredentialsError(Exception):
    """The connection cannot be set up; the text says what to change."""


class Reader:
    """Reads files, and knows later whether one of them has other content now."""

    def __init__(self) -> None:
        self._digest_by_path: dict[Path, bytes] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self._digest_by_path)

    def read(self, path: Path, where: str) -> bytes:
        """The content.

        Raises:
            CredentialsError: It cannot be read; the text begins with `where`.
        """
        content, problem = _content(path)
        self._digest_by_path[path] = _digest(content)
        if content is None:
            raise CredentialsError(f"{where}: {problem}")
        return content

    def has_changed(self) -> bool:
        """Whether a file that was read has other content now; a few small files, so a few dozen microseconds."""
        return any(_digest(_content(path)[0]) != digest for path, digest in self._digest_by_path.items())


def _content(path: Path) -> tuple[bytes | None, str]:
    try:
        with path.open("rb") as opened:
            content = opened.read(_SIZE_MAX + 1)
    except OSError as error:
        return None, error.strerror or str(error)
    if len(content) > _SIZE_MAX:
        return None, f"larger than {_SIZE_MAX >> 20} MiB"
    return content, ""


def _digest(content: bytes | None) -> bytes:
    return b"" if content is None else hashlib.sha256(content).digest()


class ExecPlugin(Struct, frozen=True):
    """A program that gives credentials. `where` begins its errors; `cluster` is the cluster's part of its input."""

    where: str
    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    interactive_mode: str
    install_hint: str
    cluster: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Access:
    """What a context says: where the server is, and who we are. PEM is text of certificates or keys.

    Attributes:
        origin: `FILE: context "x"`; begins errors.
        namespace: The one that is meant where none is named; "" for none.
        impersonation: Headers that make the server act for somebody else.
        auth_provider: A config of one context for the library that knows auth providers; None without one.
    """

    origin: str
    url: str
    namespace: str = ""
    server_hostname: str | None = None
    is_verified: bool = True
    authority: bytes | None = None
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    proxy: str | None = None
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec_plugin: ExecPlugin | None = None
    auth_provider: Mapping[str, Any] | None = field(default=None, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()


class _Entry(Struct, frozen=True):
    """A named entry of one file. `where` begins its errors."""

    path: Path
    where: str
    fields: Mapping[str, Any]

    def _value(self, name: str, kind: type[_T], wanted: str) -> _T | None:
        value = self.fields.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise CredentialsError(f"{self.where}: {name}: {wanted} is needed, not {type(value).__name__} {value!r}")

    def text(self, name: str) -> str:
        """A text field; empty where it is absent, as in Go."""
        return self._value(name, str, "text") or ""

    def flag(self, name: str) -> bool:
        return self._value(name, bool, "true or false") or False

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._value(name, list, "a list of texts") or []
        if not all(isinstance(one, str) for one in values):
            raise CredentialsError(f"{self.where}: {name}: a list of texts is needed, not list {values!r}")
        return tuple(values)

    def below(self, name: str) -> _Entry | None:
        """A field that is a mapping."""
        value = self._value(name, dict, "a mapping")
        return _Entry(self.path, f"{self.where}: {name}", value) if value is not None else None

    def file(self, name: str) -> Path | None:
        """A file's path, relative to the kubeconfig it is written in."""
        path = self.text(name)
        return (self.path.parent / path).absolute() if path else None

    def pem(self, reader: Reader, name: str) -> bytes | None:
        """The content of the file that `name` names, or what `name`-data holds in base64."""
        data, path = self.text(f"{name}-data"), self.file(name)
        if data and path:
            raise CredentialsError(f"{self.where}: {name} and {name}-data are both given; remove one of them")
        if path is not None:
            return reader.read(path, f"{self.where}: {name} {path}")
        if not data:
            return None
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise CredentialsError(f"{self.where}: {name}-data: this is not base64: {error}") from error


def read_kubeconfig(paths: str | Path, context: str | None, reader: Reader) -> Access:
    """What `context` (None: the current one) of the kubeconfig says; several files are joined by the path separator.

    Raises:
        CredentialsError: See the rules of this module.
    """
    files = [Path(part).expanduser() for part in str(paths).split(os.pathsep) if part]
    existing = [path for path in files if path.exists()]
    if not existing:
        raise CredentialsError(f"{paths}: no such kubeconfig file")
    contents = [(path, _read_file(path, reader)) for path in existing]
    named = context or next((name for path, content in contents if (name := _current(path, content))), "")
    if not named:
        known = ", ".join(_names(contents, "contexts")) or "none"
        raise CredentialsError(
            f"{paths}: no current-context; set it, or choose one with --context (there are: {known})"
        )
    chosen = _find(contents, "contexts", named, f"{paths}", hint="choose another with --context; ")
    where = f'{chosen.path}: context "{named}"'
    cluster_name = chosen.text("cluster")
    if not cluster_name:
        raise CredentialsError(f"{where}: cluster: it names none")
    cluster = _find(contents, "clusters", cluster_name, where)
    user_name = chosen.text("user")
    user = _find(contents, "users", user_name, where) if user_name else _Entry(chosen.path, f"{where}: no user", {})
    access = _access(f'{where}, user "{user_name}"' if user_name else where, cluster, user, reader)
    return replace(access, namespace=chosen.text("namespace"))


def _read_file(path: Path, reader: Reader) -> Mapping[str, Any]:
    content = reader.read(path, str(path))
    if not content.strip():
        raise CredentialsError(f"{path}: this kubeconfig is empty")
    try:
        values = load(content.decode())
    except (UnicodeDecodeError, yaml.reader.ReaderError) as error:
        raise CredentialsError(f"{path}: no kubeconfig, but binary data") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise CredentialsError(f"{path}{place}: no valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise CredentialsError(f"{path}: no valid YAML: {error}") from error
    if values is None:
        raise CredentialsError(f"{path}: this kubeconfig is empty")
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else "text"
        raise CredentialsError(f"{path}: no kubeconfig, but {kind}; one begins with apiVersion: v1, kind: Config")
    kind = values.get("kind", "Config")
    if kind != "Config":
        raise CredentialsError(f"{path}: no kubeconfig: its kind is {kind}, not Config")
    return values


def _current(path: Path, content: Mapping[str, Any]) -> str:
    return _Entry(path, str(path), content).text("current-context")


_Contents = Sequence[tuple[Path, Mapping[str, Any]]]


def _names(contents: _Contents, section: str) -> list[str]:
    return [name for path, content in contents for name, _ in _entries(path, content, section)]


def _entries(path: Path, content: Mapping[str, Any], section: str) -> Iterable[tuple[str, Any]]:
    listed = content.get(section)
    if listed is None:
        return
    if not isinstance(listed, list):
        raise CredentialsError(f"{path}: {section}: a list is needed, not {type(listed).__name__}")
    seen: set[str] = set()
    for index, one in enumerate(listed):
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str):
            raise CredentialsError(f"{path}: {section}[{index}]: name: text is needed")
        if name in seen:
            raise CredentialsError(f'{path}: {section}: "{name}" is there twice; remove one of them')
        seen.add(name)
        yield name, one.get(_SECTIONS[section])


def _find(contents: _Contents, section: str, name: str, where: str, *, hint: str = "") -> _Entry:
    """The first entry of that name."""
    noun = _SECTIONS[section]
    for path, content in contents:
        # Read to the end: a name that is there twice is an error, wherever it stands.
        for other, value in tuple(_entries(path, content, section)):
            if other == name:
                if value is not None and not isinstance(value, dict):
                    raise CredentialsError(f'{path}: {section} "{name}": {noun}: a mapping is needed')
                return _Entry(path, f'{path}: {noun} "{name}"', value or {})
    known = _names(contents, section)
    meant = near(name, known)
    advice = f'did you mean "{meant}"?' if meant else f"there are: {', '.join(known) or 'none'}"
    raise CredentialsError(f'{where}: there is no {noun} "{name}"; {hint}{advice}')


def _access(origin: str, cluster: _Entry, user: _Entry, reader: Reader) -> Access:
    url = _server(cluster)
    authority = cluster.pem(reader, "certificate-authority")
    is_insecure = cluster.flag("insecure-skip-tls-verify")
    if is_insecure and authority is not None:
        given = "certificate-authority-data" if cluster.text("certificate-authority-data") else "certificate-authority"
        raise CredentialsError(
            f"{cluster.where}: {given} beside insecure-skip-tls-verify: true, which would not look at it; "
            "remove one of them"
        )
    certificate, key = user.pem(reader, "client-certificate"), user.pem(reader, "client-key")
    if (certificate is None) != (key is None):
        missing, given = ("client-key", "client-certificate") if key is None else ("client-certificate", "client-key")
        raise CredentialsError(f"{user.where}: {given} without {missing}; both are needed")
    exec_section, provider = user.below("exec"), user.below("auth-provider")
    if exec_section is not None and provider is not None:
        raise CredentialsError(f"{user.where}: exec beside auth-provider; remove one of them")
    token = _token(user, reader)
    username, password = user.text("username"), user.text("password")
    if token and (username or password):
        raise CredentialsError(f"{user.where}: token beside username and password; only one of the two can be sent")
    return Access(
        origin=origin,
        url=url,
        server_hostname=cluster.text("tls-server-name") or None,
        is_verified=not is_insecure,
        authority=authority,
        certificate=certificate,
        key=key,
        proxy=_proxy(cluster),
        token=token,
        username=username or None,
        password=password or None,
        exec_plugin=_exec_plugin(exec_section, cluster, authority) if exec_section is not None else None,
        auth_provider=_for_library(url, user) if provider is not None else None,
        impersonation=_impersonation(user),
    )


def _server(cluster: _Entry) -> str:
    server = cluster.text("server")
    if not server:
        raise CredentialsError(f"{cluster.where}: server: the API server's address is missing")
    problem = _url_problem(server, ("https", "http"))
    if problem:
        raise CredentialsError(f"{cluster.where}: server {server!r}: {problem}")
    return server.rstrip("/")


def _proxy(cluster: _Entry) -> str | None:
    proxy = cluster.text("proxy-url")
    if not proxy:
        return None
    scheme = proxy.partition("://")[0].lower()
    shown = f"{cluster.where}: proxy-url {_without_password(proxy)!r}"
    if scheme.startswith("socks"):
        raise CredentialsError(f"{shown}: SOCKS proxies are not supported; give one that begins with http://")
    problem = _url_problem(proxy, _PROXY_SCHEMES)
    if problem:
        raise CredentialsError(f"{shown}: {problem}")
    return proxy


def _without_password(url: str) -> str:
    head, at, host = url.rpartition("@")
    scheme, separator, _ = head.partition("://")
    return f"{scheme}{separator}…@{host}" if at else url


def _url_problem(url: str, schemes: Sequence[str]) -> str:
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # the port is looked at when it is asked for
    except ValueError as error:
        return f"no valid address: {error}"
    if parts.scheme.lower() not in schemes:
        return f"it must begin with {wanted}"
    if not host or any(character.isspace() for character in url):
        return "no valid address: the host is missing" if not host else "no valid address: there is a blank in it"
    return ""


def _token(user: _Entry, reader: Reader) -> str | None:
    """As client-go, the file's where both are given."""
    path = user.file("tokenFile")
    if path is None:
        return _header_text(user.text("token").strip(), f"{user.where}: token") or None
    where = f"{user.where}: tokenFile {path}"
    token = reader.read(path, where).decode("utf-8", "replace").strip()
    if not token:
        raise CredentialsError(f"{where}: it is empty")
    return _header_text(token, where)


def _header_text(text: str, where: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 or ord(character) > 255 for character in text):
        raise CredentialsError(f"{where}: it holds characters that cannot be sent in a header")
    return text


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    name, uid, groups = user.text("as"), user.text("as-uid"), user.texts("as-groups")
    extra = user.below("as-user-extra")
    if not name:
        without = next(
            (field for field, value in (("as-uid", uid), ("as-groups", groups), ("as-user-extra", extra)) if value),
            None,
        )
        if without:
            raise CredentialsError(f"{user.where}: {without} without as: whom to act for is missing")
        return ()
    headers = [("Impersonate-User", name)]
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", group) for group in groups]
    if extra is not None:
        for key in extra.fields:
            escaped = "".join(c if c in _HEADER_KEY else "".join(f"%{b:02X}" for b in c.encode()) for c in str(key))
            headers += [(f"Impersonate-Extra-{escaped}", value) for value in extra.texts(key)]
    return tuple((header, _header_text(value, f"{user.where}: as: {value!r}")) for header, value in headers)


def _exec_plugin(section: _Entry, cluster: _Entry, authority: bytes | None) -> ExecPlugin:
    command, version = section.text("command"), section.text("apiVersion")
    if not command:
        raise CredentialsError(f"{section.where}: command: the program to run is missing")
    if version not in _EXEC_VERSIONS:
        raise CredentialsError(f"{section.where}: apiVersion {version!r}: {' or '.join(_EXEC_VERSIONS)} is needed")
    mode = section.text("interactiveMode") or "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise CredentialsError(f"{section.where}: interactiveMode {mode!r}: one of {', '.join(_INTERACTIVE_MODES)}")
    if os.sep in command:
        command = str((section.path.parent / command).absolute())
    return ExecPlugin(
        where=section.where,
        command=command,
        arguments=section.texts("args"),
        environment=_environment(section),
        api_version=version,
        interactive_mode=mode,
        install_hint=section.text("installHint").strip(),
        cluster=_cluster_info(cluster, authority) if section.flag("provideClusterInfo") else None,
    )


def _environment(section: _Entry) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    listed = section.fields.get("env") or []
    for one in listed if isinstance(listed, list) else [listed]:
        name, value = (one.get("name"), one.get("value") or "") if isinstance(one, dict) else (None, None)
        if not (isinstance(name, str) and name and isinstance(value, str)):
            raise CredentialsError(f"{section.where}: env: a list of name and value is needed")
        pairs.append((name, value))
    return tuple(pairs)


def _cluster_info(cluster: _Entry, authority: bytes | None) -> dict[str, Any]:
    info: dict[str, Any] = {
        name: cluster.fields[name]
        for name in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if cluster.fields.get(name)
    }
    if authority is not None:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for one in cluster.fields.get("extensions") or ():
        if isinstance(one, dict) and one.get("name") == _EXEC_EXTENSION:
            info["config"] = one.get("extension")
    return info


def _for_library(url: str, user: _Entry) -> dict[str, Any]:
    name = "chosen"
    return {
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {"auth-provider": user.fields["auth-provider"]}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
