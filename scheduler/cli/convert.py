"""`dra-scheduler convert`: manifests in resource.k8s.io/v1.

Exit codes: 0 all converted (or fine already), 1 an object was refused, 2 wrong use.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scheduler.cli.input_errors import WrongInputError
from scheduler.cli.lint import Inputs, takes_inputs
from scheduler.cli.terminal import echo, print_file


@click.command()
@takes_inputs
@click.option("--write", is_flag=True, help="Rewrite the files in place; a file with a refused object is left alone.")
def convert(inputs: Inputs, *, write: bool) -> None:
    """Rewrite old manifests in resource.k8s.io/v1 (YAML or JSON, - is stdin), to standard output.

    Each change is listed on standard error. What has no equivalent is refused, with the reason, and
    left out; what needs no change stays as it is, to the byte.

    \b
    dra-scheduler convert old.yaml > new.yaml
    dra-scheduler convert --write deploy/
    """
    from scheduler.lint.emit import join_files
    from scheduler.lint.engine import convert as convert_sources

    if write and "-" in (*inputs.paths, *inputs.files):
        raise click.UsageError("--write needs files; standard input cannot be written to")
    sources, settings, published, unread = inputs.read()
    for finding in unread:
        echo(*finding.as_text().split("\n"), is_error=True)
    refused = len(unread)
    converted = convert_sources(sources, settings, published)
    for file in converted:
        for change in file.changes:
            echo(
                f"{change.place}: {': '.join(filter(None, (change.object, change.field, change.message)))}; "
                f"{change.converted}",
                is_error=True,
            )
        for note in file.notes:
            echo(f"note: {note}", is_error=True)
        for refusal in file.refusals:
            echo(*f"refused: {refusal.as_text()}".split("\n"), is_error=True)
        refused += len(file.refusals)
        if write and file.is_changed:
            if file.refusals:
                echo(f"{file.name}: left as it was: an object in it has no equivalent", is_error=True)
            else:
                _write(file.name, file.text)
    if not write:
        print_file(join_files([file.text for file in converted]))
    sys.exit(1 if refused else 0)


def _write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongInputError(f"{name}: {error.strerror or error}") from error
    echo(f"{name}: rewritten", is_error=True)
