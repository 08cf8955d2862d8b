"""The command group: names, one line of help each, and where the command lives.

Commands are imported when they run, so `--help` and the offline commands start without the API client's 300 ms.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Final

import click

from scheduler.cli.terminal import TextFormatter, colour_option, echo, escaped
from scheduler.model.nearest import near

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C: 128 + SIGINT, as shells count."""

_COMMANDS: Final[Mapping[str, str]] = {
    "run": "Schedule pods of a cluster: the live scheduler.",
    "demo": "Try it without a cluster: an embedded one, with GPUs and example pods.",
    "explain": "Explain why a pod or claim does not fit, and find the smallest change that makes it fit.",
    "devices": "List which devices are free, the largest request that still fits, and who uses what.",
    "ui": "Show the devices, who has them, and who waits and why, in a browser.",
    "observe": "Serve page, metrics and JSON of a cluster beside its schedulers; reads only.",
    "dump": "Save everything that the scheduler reads in one file to share, without what is private.",
    "simulate": "Show which pods would run where, now or over time, and which would wait.",
    "make-room": "Find the fewest pods that would have to move so that one that waits fits.",
    "drain-device": "Find out who holds a device, where they would go, and how to empty it.",
    "mcp": "Answer agents over MCP: why pods wait, what would help, who holds which device.",
    "config": "Check a configuration file, or show all settings.",
    "lint": "Find what is old or wrong in manifests, with line and field.",
    "convert": "Rewrite old manifests in resource.k8s.io/v1.",
    "cel": "Check and evaluate CEL device selectors.",
    "version": "Print the version, the commit and the supported Kubernetes.",
    "completion": "Print a script for completion in bash, zsh or fish.",
}
"""Each is a function of its name in a module of its name."""


class _LazyGroup(click.Group):
    """A group whose commands are imported on use; their help lines are known without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"scheduler.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A command that does not exist is answered with the one that was probably meant."""
        meant = near(args[0], _COMMANDS)
        if args[0] not in _COMMANDS and meant and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C is no failure (click's own answer is exit code 1 and "Aborted!")."""
        if logging.lastResort is not None:  # what is logged by a command that sets up no log
            logging.lastResort.setFormatter(TextFormatter())
        try:
            return super().invoke(ctx)
        except click.ClickException as error:  # click prints it
            vars(error)["message"] = "\n".join(map(escaped, error.message.split("\n")))
            raise
        except KeyboardInterrupt:
            echo(is_error=True)  # the terminal has written ^C: what comes next begins a line
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 it failed, 2 wrong use, 130 interrupted (Ctrl-C).",
)
@click.version_option(package_name="dra-scheduler", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kubernetes scheduler that gives pods their devices (Dynamic Resource Allocation, resource.k8s.io/v1).

    Set `schedulerName: dra-scheduler` in a pod spec; the scheduler finds a node and the devices for its
    ResourceClaims, and says plainly why something does not fit.
    """


cli.params.append(colour_option())
