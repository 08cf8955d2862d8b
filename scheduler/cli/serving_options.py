"""Options of `run` for health and metrics, under the names of kube-scheduler's; `ui` has those about who may read.

Not here: what they mean (`kube.serving`), their defaults (`config.sections.Serving`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.options import joined

if TYPE_CHECKING:
    from scheduler.config import Config

_FILE: Final = click.Path(exists=True, dir_okay=False)
_WHERE: Final = (
    click.option(
        *("--secure-port", "--health-port", "health_port"),
        type=click.IntRange(0, 65535),
        help="Port of /livez, /readyz, /metrics, /configz (0: any). Default: 10259.",
    ),
    click.option(
        *("--bind-address", "--health-address", "health_address"),
        help="Address to listen on. Default: all in a pod, 127.0.0.1 elsewhere.",
    ),
)
_GUARD: Final = (
    click.option(
        "--serving",
        "security",
        type=click.Choice(["secure", "plain"]),
        help="secure: TLS, and answers for those only who may read metrics. plain: HTTP for all of this machine. "
        "Default: plain on a loopback address without a certificate, else secure.",
    ),
    click.option("--tls-cert-file", type=_FILE, help="Certificate, PEM. Default: one is made."),
    click.option("--tls-private-key-file", type=_FILE, help="Its key, PEM; read again when it changes."),
    click.option("--cert-dir", type=click.Path(file_okay=False), help="Keep the one that is made here."),
    click.option(
        "--authentication-kubeconfig", type=_FILE, help="Where to ask who sent a token. Default: as --kubeconfig."
    ),
    click.option(
        "--authorization-kubeconfig", type=_FILE, help="Where to ask who may read metrics. Default: as --kubeconfig."
    ),
)
_ALLOWED: Final = click.option(
    "--authorization-always-allow-paths",
    metavar="PATHS",
    help="Answered without asking, joined by commas. Default: /healthz,/readyz,/livez.",
)


serving_options: Final = joined(*_WHERE, *_GUARD, _ALLOWED)
guard_options: Final = joined(*_GUARD)
"""Those that say who may read, and how they know whom they ask."""


def with_serving(config: Config, options: Mapping[str, str | None]) -> Config:
    """With what was given over what the file says."""
    from pydantic import ValidationError

    from scheduler.config import Serving
    from scheduler.kube.serving import ServingError, is_secure

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if (paths := given.get("authorization_always_allow_paths")) is not None:
        given["authorization_always_allow_paths"] = tuple(filter(None, paths.split(",")))
    written = {name: getattr(config.serving, name) for name in config.serving.model_fields_set}
    try:
        config = config.model_copy(update={"serving": Serving(**(written | given))})
        if config.health_port is not None:
            is_secure(config)
    except ServingError as error:
        raise click.UsageError(str(error)) from error
    except ValidationError as error:
        texts = [one["msg"].removeprefix("Value error, ") for one in error.errors()]
        raise click.UsageError("; ".join(texts)) from error
    return config
