"""The base of every API model, and the way back to JSON.

Reading is lenient (CC-014): stored objects that break a newer or stricter rule must still decode, be listed and be
reconciled. Three choices make that so, and keep decoding fast because pydantic checks types and nothing else:

* patterns, limits, required members and CEL rules are `Schema` metadata, which only the CRD generator reads;
* every field has a default, so that a missing required member decodes to an empty value;
* enumerations are open (`enums.OpenEnum`): an unknown value decodes to a member whose `known` is false.

Writing is exact (CC-013): `to_json` gives back what was set and nothing else. Absent, null, empty, 0 and false stay
apart, and members that the model does not know are kept.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

from controller_runtime.api.schema import Schema
from controller_runtime.json import JsonObject

T = TypeVar("T")


class _NullList(tuple[Any, ...]):
    """The empty list that was `null` in the JSON, so that it is written back as `null`."""

    __slots__ = ()


class _NullMap(dict[Any, Any]):
    """The empty map that was `null` in the JSON, so that it is written back as `null`."""

    __slots__ = ()


_NULL_LIST: Final = _NullList()


def _read_list(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    return _NULL_LIST if value is None else handler(value)


def _read_map(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    return _NullMap() if value is None else handler(value)


def _write_collection(value: object, handler: SerializerFunctionWrapHandler) -> object:
    return None if isinstance(value, _NullList | _NullMap) else handler(value)


def _micro_time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Items: TypeAlias = Annotated[tuple[T, ...], WrapValidator(_read_list), WrapSerializer(_write_collection)]
"""A JSON array; absent and `null` read as empty."""
MapOf: TypeAlias = Annotated[dict[str, T], WrapValidator(_read_map), WrapSerializer(_write_collection)]
"""A JSON object used as a map; absent and `null` read as empty."""
StrMap: TypeAlias = MapOf[str]
Time: TypeAlias = Annotated[datetime, Schema(format="date-time")]
"""An instant, RFC 3339."""
MicroTime: TypeAlias = Annotated[datetime, Schema(format="date-time"), PlainSerializer(_micro_time)]
"""An instant that Kubernetes reads with exactly six decimals (Lease)."""
Int32: TypeAlias = Annotated[int, Schema(format="int32")]
Int64: TypeAlias = Annotated[int, Schema(format="int64")]
FreeJson: TypeAlias = Annotated[object, Schema(free_form=True)]
"""Any JSON value, kept as it is (CC-002)."""
FreeObject: TypeAlias = Annotated[dict[str, Any], Schema(free_form=True)]
"""Any JSON object, kept as it is; rules can ask whether it is there."""


class ApiModel(BaseModel):
    """A frozen value with snake_case attributes that are camelCase in JSON; unknown members are kept."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        protected_namespaces=(),
    )

    schema_info: ClassVar[Schema] = Schema()
    """Constraints of the object itself: CEL rules, atomic maps."""

    stands_alone: ClassVar[bool] = False
    """Whether JSON of this model names its own `apiVersion` and `kind`."""

    def has(self, attribute: str) -> bool:
        """Whether the JSON that was read, or the code that built this, gave the attribute (by its python name)."""
        return attribute in self.model_fields_set


def to_json(model: ApiModel) -> JsonObject:
    """The JSON object of a model: only what was set, under its JSON names.

    An object of a Kubernetes kind always carries `apiVersion` and `kind`.
    """
    dumped: JsonObject = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    identity = {
        alias: getattr(model, attribute)
        for attribute, alias in (("api_version", "apiVersion"), ("kind", "kind"))
        if model.__class__.stands_alone and alias not in dumped
    }
    return {**identity, **dumped}
