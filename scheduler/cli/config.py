"""`dra-scheduler config`: check a configuration file, and show what is in force.

Exit codes of `check`: 0 accepted, 1 refused, 2 wrong use.
"""

from __future__ import annotations

from pathlib import Path

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.terminal import echo

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def config() -> None:
    """Check a configuration file, or show all settings.

    \b
    dra-scheduler config check config.yaml
    dra-scheduler config show > all-settings.yaml
    """


@config.command()
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
def check(files: tuple[Path, ...]) -> None:
    """Check FILE: what is wrong with it, and what in it has no effect.

    FILE holds a KubeSchedulerConfiguration (older versions are brought to v1), a DraSchedulerConfiguration, or both,
    separated by ---. Exits with 1 when `run` would refuse one.

    \b
    dra-scheduler config check config.yaml kube-scheduler.yaml
    """
    from scheduler.config.file import ConfigError, read_config

    is_refused = False
    for file in files:
        try:
            found = read_config(file)
        except ConfigError as error:
            is_refused = True
            echo(*(f"error: {line}" for line in str(error).splitlines()))
            continue
        for line in found.words:
            echo(f"note: {line}")
        echo(f"{file}: accepted; schedules pods of {', '.join(found.config.scheduler_names)}")
    if is_refused:
        raise SystemExit(1)


@config.command()
@click.argument("file", required=False, type=_FILE, metavar="[FILE]")
def show(file: Path | None) -> None:
    """Print the settings of FILE with all defaults filled in, of none the defaults alone.

    What is printed is YAML that `run --config` accepts and that sets the same.

    \b
    dra-scheduler config show
    dra-scheduler config show config.yaml > all-settings.yaml
    """
    from scheduler.config import Config
    from scheduler.config.file import ConfigError, read_config
    from scheduler.config.shown import shown

    try:
        settings = read_config(file).config if file is not None else Config()
    except ConfigError as error:
        raise WrongInputError(*str(error).split("\n")) from error
    echo(*shown(settings).split("\n"), ends_line=False)
