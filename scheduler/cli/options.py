"""Options that several commands have, and the cluster that they lead to.

Not here: --feature-gates (`gate_options`), --max-size (`input_size`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.validation.api_fields import KNOWN, NEWEST

if TYPE_CHECKING:
    from scheduler.kube.credentials import Connection

_Command = TypeVar("_Command", bound=Callable[..., Any])
_RECURSIVE: Final = "scheduler.cli.recursive"


def joined(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options as one, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):  # the last decorator's is the first in --help
            command = option(command)
        return command

    return decorate


def taken_as(
    kind: type, name: str, *options: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options that a command takes in one argument, `name`: a dataclass whose fields are what they are called."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def decorated(*args: Any, **given: Any) -> None:
            values = {each.name: given.pop(each.name) for each in fields(kind)}
            command(*args, **{name: kind(**values)}, **given)

        return joined(*options)(decorated)

    return decorate


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
    path = click.Path(exists=True, allow_dash=True)
    return joined(
        click.option("-f", "--file", "files", multiple=True, type=path, help=f"{use} (repeatable; - is stdin)."),
        click.option(
            "-R",
            "--recursive",
            is_flag=True,
            expose_value=False,
            callback=_remember_recursive,
            help="Of folders, the files of the folders inside too.",
        ),
    )


def looks_inside() -> bool:
    """Whether the running command was given -R."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_RECURSIVE) is True


def _remember_recursive(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_RECURSIVE] = value


kubernetes_option: Final = click.option(
    "--kubernetes", default=f"1.{NEWEST}", show_default=True, help=f"Kubernetes version, {KNOWN}."
)
"""`kubernetes`: a release whose API servers are meant."""


def cluster_options(reads: str) -> Callable[[_Command], _Command]:
    """`kubeconfig` and `context`: a cluster that is read beside the files."""
    return joined(
        click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help=reads),
        click.option("--context", help="Context of the kubeconfig. Default: its current one."),
    )


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
