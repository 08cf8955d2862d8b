"""`dra-scheduler dump`: a cluster's objects as a file that the other commands read, without what is private.

Not here: what is left out (`scheduler.offline.left_out`), reading clusters (`cluster_question`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.cluster_question import ClusterQuestion, cluster_question
from scheduler.cli.options import output_option
from scheduler.cli.terminal import echo, escaped

if TYPE_CHECKING:
    from scheduler.offline import SourceObject


@click.command()
@cluster_question
@output_option("yaml", "json", "name")
def dump(*, question: ClusterQuestion, output: str) -> None:
    """Print all that the scheduler looks at: nodes, slices, classes, claims, pods, volumes, ….

    The other commands read it with -f and answer as they do of the cluster. It is meant to be shown to others: there
    are no Secrets and ConfigMaps, and of pods neither environment, commands nor arguments; no annotations but those
    that schedulers read, no managedFields. Names, labels and images stay. A kind that may not be listed is left out,
    and named. Only read permissions are needed, and nothing is written anywhere but to standard output.

    \b
    dra-scheduler dump > cluster.yaml
    dra-scheduler explain pod/web-0 -n team -f cluster.yaml
    kubectl get nodes,deviceclasses,resourceslices,resourceclaims,pods -A -o yaml | dra-scheduler dump -f - > small.yaml

    Exit codes: 0 done, 2 wrong use or input.
    """
    asked = question.read()
    objects = _shown(asked.given)
    if asked.version and output != "name":
        from scheduler.validation.releases import version_object

        objects = chain([version_object(asked.version)], objects)
    _write(objects, output, asked.unlisted)


def _shown(found: Iterable[SourceObject]) -> Iterator[dict[str, Any]]:
    from scheduler.offline import OfflineCluster
    from scheduler.offline.left_out import shown

    left_out: dict[str, int] = {}
    for given in found:
        try:
            part = shown(given.obj)
        except (AttributeError, TypeError, ValueError):
            wrong = OfflineCluster(0).misshapen(given.obj) or "its fields cannot be read"
            echo(f"warning: left out {given.place}: {wrong}", is_error=True)
            continue
        if part is None:
            kind = str(given.obj.get("kind"))
            left_out[kind] = left_out.get(kind, 0) + 1
        else:
            yield part
    for kind, count in sorted(left_out.items()):
        echo(f"note: left out {count} of kind {kind}", is_error=True)


def _write(objects: Iterable[dict[str, Any]], output: str, unlisted: Sequence[str]) -> None:
    if output == "json":
        import orjson

        document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        echo(*orjson.dumps(document, option=orjson.OPT_INDENT_2).decode().split("\n"))
        return
    if output == "name":
        for obj in objects:
            metadata = obj["metadata"]
            echo("/".join(filter(None, (obj["kind"], metadata.get("namespace"), str(metadata.get("name"))))))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    for text in unlisted:
        echo("# " + " ".join(text.splitlines()))
    for obj in objects:
        lines = str(yaml.dump(obj, Dumper=dumper, sort_keys=False, allow_unicode=True)).split("\n")
        if lines != [*map(escaped, lines)]:  # YAML has escapes of its own, in quotes
            lines = str(yaml.dump(obj, Dumper=dumper, sort_keys=False, allow_unicode=False)).split("\n")
        echo("---", *lines, ends_line=False)
