"""Shorthands for tests of server-side apply: who applies or updates what, and who owns what then."""

from collections.abc import Collection

from support.apiserver_schemas import widget_schema

from controller_runtime import JsonObject
from embedded_apiserver.objects import fieldmanager
from embedded_apiserver.objects.managedfields import decode, render
from embedded_apiserver.objects.schema import Schema

EARLY, LATE = "2024-01-01T00:00:00Z", "2024-01-01T00:00:09Z"


def apply(
    live: JsonObject | None,
    config: JsonObject,
    manager: str,
    *,
    force: bool = False,
    subresource: str = "",
    now: str = EARLY,
    schema: Schema | None = None,
    reset_paths: Collection[str] = (),
) -> JsonObject:
    """A server-side apply of a widget, unless another schema is given."""
    return fieldmanager.apply(
        live,
        config,
        manager=manager,
        force=force,
        api_version=config["apiVersion"],
        subresource=subresource,
        schema=schema or widget_schema(),
        now=now,
        reset_paths=reset_paths,
    )


def update(
    live: JsonObject | None,
    new: JsonObject,
    manager: str,
    *,
    subresource: str = "",
    now: str = EARLY,
    schema: Schema | None = None,
) -> JsonObject:
    """A create or update of a widget, unless another schema is given."""
    return fieldmanager.update(
        live,
        new,
        manager=manager,
        api_version=new["apiVersion"],
        subresource=subresource,
        schema=schema or widget_schema(),
        now=now,
    )


def owned(obj: JsonObject, manager: str) -> set[str]:
    """What a manager owns, all its entries together, as paths of messages."""
    return {
        render(path)
        for entry in obj["metadata"].get("managedFields", [])
        if entry["manager"] == manager
        for path in decode(entry["fieldsV1"])
    }


def without_owners(obj: JsonObject) -> JsonObject:
    """The object without managedFields."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
