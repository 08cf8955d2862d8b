"""Options that several commands have, and the cluster that they lead to.

Not here: --feature-gates (`gate_options`), --max-size (`input_size`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.validation.api_fields import KNOWN, NEWEST

if TYPE_CHECKING:
    from scheduler.kube.credentials import Connection

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RECURSIVE: Final = "scheduler.cli.recursive"


def output_option(*forms: str) -> Callable[[_Command], _Command]:
    """`output`: one of the forms, the first by default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="Output format; json is for programs.",
    )


def files_option(use: str) -> Callable[[_Command], _Command]:
    """`files`: what they are used for; also folders of them, of which -R takes the folders inside, too."""

    def decorate(command: _Command) -> _Command:
        path = click.Path(exists=True, allow_dash=True)
        files = click.option("-f", "--file", "files", multiple=True, type=path, help=f"{use} (repeatable; - is stdin).")
        return files(recursive_option(command))

    return decorate


def recursive_option(command: _Command) -> _Command:
    """`-R`, for `looks_inside`."""
    return click.option(
        "-R",
        "--recursive",
        is_flag=True,
        expose_value=False,
        callback=_remember_recursive,
        help="Of folders, the files of the folders inside too.",
    )(command)


def looks_inside() -> bool:
    """Whether the running command was given -R."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_RECURSIVE) is True


def _remember_recursive(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_RECURSIVE] = value


def kubernetes_option(command: _Command) -> _Command:
    """`kubernetes`: a release whose API servers are meant."""
    return click.option("--kubernetes", default=f"1.{NEWEST}", show_default=True, help=f"Kubernetes version, {KNOWN}.")(
        command
    )


def cluster_options(reads: str) -> Callable[[_Command], _Command]:
    """`kubeconfig` and `context`: a cluster that is read beside the files."""

    def decorate(command: _Command) -> _Command:
        context = click.option("--context", help="Context of the kubeconfig. Default: its current one.")
        file = click.Path(exists=True, dir_okay=False)
        return click.option("--kubeconfig", type=file, help=reads)(context(command))

    return decorate


def find_connection(kubeconfig: str | None, context: str | None, *, hint: str = "") -> Connection:
    """How to reach the cluster that kubectl would ask.

    Raises:
        WrongInputError: There is none; says where it was looked for.
    """
    from scheduler.kube.credentials import Connection, CredentialsError

    named = os.environ.get("KUBECONFIG", "") if kubeconfig is None else ""
    if named and not any(Path(one).expanduser().exists() for one in named.split(os.pathsep) if one):
        raise WrongInputError(
            f"$KUBECONFIG: {named}: no such kubeconfig file; set it to one, or give --kubeconfig FILE"
            + (f", {hint}" if hint else "")
        )
    try:
        return Connection.find(kubeconfig, context)
    except CredentialsError as error:
        raise WrongInputError(f"{error}{f', {hint}' if hint else ''}") from error
