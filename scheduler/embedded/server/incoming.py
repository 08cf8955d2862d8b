"""A request as it came: method, path, query and body, and what is read out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson
import yaml

from scheduler.embedded.server.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.embedded.server.protobuf import decode_object
from scheduler.embedded.server.rest import DeleteOptions, WriteOptions
from scheduler.embedded.server.statuses import bad_request, unsupported_media_type
from scheduler.embedded.server.strategy import Object
from scheduler.embedded.server.views import JSON_TYPE
from scheduler.model.protobuf_wire import PROTOBUF
from scheduler.validation.field_errors import Json
from scheduler.yaml_reading import load as load_yaml

_DELETE_QUERY: Final = ("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun")


@dataclass(slots=True)
class Incoming:
    """One request, its body read."""

    method: str
    path: str
    query: dict[str, str]
    accept: str
    content_type: str
    user_agent: str
    body: bytes

    def write_options(self) -> WriteOptions:
        """Raises ApiError: 400."""
        dry_run = self.query.get("dryRun", "")
        if dry_run not in ("", "All"):
            raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
        return WriteOptions(dry_run=dry_run == "All")

    def delete_options(self) -> DeleteOptions:
        """The options of the body; what the body leaves out is taken from the query."""
        given: Object = {name: self.query[name] for name in _DELETE_QUERY if name in self.query}
        if "dryRun" in given:
            given["dryRun"] = [given["dryRun"]]
        return DeleteOptions.read({**given, **(self.object_body() if self.body else {})})

    @property
    def is_watch(self) -> bool:
        """Whether changes are asked for, not a list."""
        value = self.query.get("watch")
        return value is not None and value.lower() not in ("false", "0")

    def json_body(self) -> Json:
        """The body as JSON (or YAML, or the protobuf that kubectl sends). Raises ApiError: 400 or 415."""
        media = self.content_type
        if media in (JSON_TYPE, "", JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, "application/octet-stream"):
            try:
                return orjson.loads(self.body)
            except orjson.JSONDecodeError as error:
                raise bad_request(f"the object provided is not valid JSON: {error}") from error
        if media in ("application/yaml", "application/apply-patch+yaml", "text/yaml"):
            try:
                return load_yaml(self.body)
            except yaml.YAMLError as error:
                raise bad_request(f"the object provided is not valid YAML: {error}") from error
        if media == PROTOBUF:
            return decode_object(self.body)
        raise unsupported_media_type(media, (JSON_TYPE, "application/yaml"))

    def object_body(self) -> Object:
        """The body as an object; null members are left out, as they mean the same to the API as absent ones."""
        body = self.json_body()
        if b"null" in self.body:
            drop_nulls(body)
        if not isinstance(body, dict):
            raise bad_request(f"the body must be an object, not {type(body).__name__}")
        return body


def drop_nulls(value: Json) -> None:
    """Remove null members at every depth, except in drivers' parameters, which are not the API's."""
    if isinstance(value, dict):
        for key in [key for key, below in value.items() if below is None]:
            del value[key]
        for key, below in value.items():
            if key != "opaque":
                drop_nulls(below)
    elif isinstance(value, list):
        for below in value:
            drop_nulls(below)
