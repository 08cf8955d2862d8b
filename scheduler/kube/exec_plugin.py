"""Exec plugins of a kubeconfig: a program of the cloud's that prints a token or a client certificate.

Rules of this module
  1. After `timeout_s` the plugin is ended, with all processes of its group.
  2. An error names the user of the kubeconfig, the command, and what the plugin wrote to stderr.

Source: client-go v0.36.3 plugin/pkg/client/auth/exec/exec.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.kube.kubeconfig import CredentialsError, ExecPlugin
from scheduler.model.timestamps import parse_rfc3339

_SAID_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a plugin gave. `expires_s`: seconds since the epoch, None: it did not say."""

    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires_s: float | None = None


async def run_plugin(plugin: ExecPlugin, *, timeout_s: float) -> ExecCredential:
    """Run it and read what it printed.

    Raises:
        CredentialsError: It is missing, failed, did not end in time, or printed something else.
    """
    where = f"{plugin.where}: {plugin.command}"
    is_interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not is_interactive:
        raise CredentialsError(f"{where}: it wants to ask (interactiveMode: Always), and there is no terminal")
    spec: dict[str, Any] = {"interactive": is_interactive} | ({"cluster": plugin.cluster} if plugin.cluster else {})
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env={**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": json.dumps(question)},
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # An interactive plugin asks its questions there.
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
            # With a group of its own it is ended with all that it started; but then it could not read from a terminal.
            start_new_session=not is_interactive,
        )
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        hint = f"\n{plugin.install_hint}" if plugin.install_hint and isinstance(error, FileNotFoundError) else ""
        missing = "the plugin is not installed, or not on PATH" if isinstance(error, FileNotFoundError) else problem
        raise CredentialsError(f"{where}: {missing}{hint}") from error
    is_done = False
    try:
        async with asyncio.timeout(timeout_s):
            output, said = await process.communicate()
        is_done = True
    except TimeoutError as error:
        raise CredentialsError(f"{where}: the plugin did not answer within {timeout_s:g} s") from error
    finally:
        if not is_done:
            await _end(process, has_group=not is_interactive)
    if process.returncode:
        words = (said or b"").decode("utf-8", "replace").strip()[-_SAID_CHARS_MAX:]
        raise CredentialsError(f"{where}: the plugin ended with {process.returncode}{': ' if words else ''}{words}")
    return _read(output, plugin, where)


async def _end(process: asyncio.subprocess.Process, *, has_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await process.wait()


def _read(output: bytes, plugin: ExecPlugin, where: str) -> ExecCredential:
    try:
        answer = json.loads(output)
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{where}: the plugin printed no ExecCredential, but binary data") from error
    except RecursionError as error:
        raise CredentialsError(f"{where}: the plugin printed no ExecCredential: nested too deeply") from error
    except ValueError as error:
        raise CredentialsError(f"{where}: the plugin printed no ExecCredential: {error}") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise CredentialsError(f"{where}: the plugin printed no ExecCredential with a status")
    if answer.get("apiVersion") != plugin.api_version:
        raise CredentialsError(
            f"{where}: the plugin answered in {answer.get('apiVersion')}, the kubeconfig says {plugin.api_version}"
        )
    token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
    if any(one is not None and not isinstance(one, str) for one in (token, certificate, key)):
        raise CredentialsError(f"{where}: the plugin gave a token or certificate that is no text")
    if bool(certificate) != bool(key):
        raise CredentialsError(
            f"{where}: the plugin gave one of clientCertificateData and clientKeyData without the other"
        )
    if not token and not certificate:
        raise CredentialsError(f"{where}: the plugin gave neither a token nor a client certificate")
    return ExecCredential(
        token=token.strip() if token else None,
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires_s=_expiry(status.get("expirationTimestamp"), where),
    )


def _expiry(timestamp: object, where: str) -> float | None:
    if not timestamp:
        return None
    moment = parse_rfc3339(str(timestamp))
    if moment is None:
        raise CredentialsError(f"{where}: the plugin gave an expirationTimestamp that is no time: {timestamp!r}")
    return moment.timestamp()
