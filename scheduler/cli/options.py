"""Options that several commands have, and the cluster that they lead to.

Not here: --feature-gates (`gate_options`), reading files (`manifests`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.validation.api_fields import KNOWN, NEWEST

if TYPE_CHECKING:
    from scheduler.kube.credentials import Connection

_Command = TypeVar("_Command", bound=Callable[..., Any])
_REMEMBERED: Final = "scheduler.cli."
_UNITS: Final = {"K": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Limit(NamedTuple):
    """A size in bytes, and as it was written."""

    size: int
    text: str


# What is read takes about 50 times its size in memory.
DEFAULT: Final = Limit(64 << 20, "64Mi")


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
            callback=_remember,
            help="Of folders, the files of the folders inside too.",
        ),
    )


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{_REMEMBERED}{parameter.name}"] = value


def _remembered(name: str) -> Any:
    """What the running command was given; None outside of commands."""
    context = click.get_current_context(silent=True)
    return context.meta.get(f"{_REMEMBERED}{name}") if context is not None else None


def looks_inside() -> bool:
    """Whether the running command was given -R."""
    return _remembered("recursive") is True


def size_limit() -> Limit:
    """How much of a file or a pipe the running command reads."""
    limit = _remembered("max_size")
    return limit if isinstance(limit, Limit) else DEFAULT


def _remember_size(context: click.Context, parameter: click.Parameter, value: str) -> None:
    found = re.fullmatch(r"(\d{1,12})([KMG]i?)?", value)
    size = int(found[1]) * _UNITS.get(found[2], 1) if found else 0
    if size <= 0:
        raise click.BadParameter(f"must be a size like 64Mi or 2Gi, not {value!r}", context, parameter)
    _remember(context, parameter, Limit(size, value))


size_option: Final = click.option(
    "--max-size",
    default=DEFAULT.text,
    show_default=True,
    expose_value=False,
    callback=_remember_size,
    help="Refuse larger files, and longer input of pipes.",
)
"""For every command that reads manifests."""
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
