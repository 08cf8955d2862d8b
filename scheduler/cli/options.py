"""Options that several commands have.

Not here: --feature-gates (`gates`), --max-size (`input_size`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(*forms: str) -> Callable[[_Command], _Command]:
    """`output`: one of the forms, the first by default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="Form of the answer; json is for programs.",
    )


def files_option(use: str) -> Callable[[_Command], _Command]:
    """`files`: what they are used for, without a full stop."""
    path = click.Path(dir_okay=False, allow_dash=True)
    return click.option("-f", "--file", "files", multiple=True, type=path, help=f"{use} (repeatable; - is stdin).")


def kubernetes_option(command: _Command) -> _Command:
    """`kubernetes`: a release whose API servers are meant."""
    return click.option("--kubernetes", default="1.36", show_default=True, help="Kubernetes version, 1.34 to 1.37.")(
        command
    )


def cluster_options(reads: str) -> Callable[[_Command], _Command]:
    """`kubeconfig` and `context`: a cluster that is read beside the files."""

    def decorate(command: _Command) -> _Command:
        context = click.option("--context", help="Context of the kubeconfig. Default: its current one.")
        file = click.Path(exists=True, dir_okay=False)
        return click.option("--kubeconfig", type=file, help=reads)(context(command))

    return decorate
