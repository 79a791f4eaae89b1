"""Decodes the few protobuf bodies that kubectl's generators send (`kubectl create namespace`, `auth can-i`, …).

Typed clients may send the built-in kinds only in this form. The tables name the fields by number, as the generated
`.proto` files of the Kubernetes API do. Kinds and fields that are not listed are refused, never dropped; a manifest
file does the same.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from controller_runtime import JsonObject
from embedded_apiserver import status
from embedded_apiserver.values import timestamp

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"

Wire: TypeAlias = int | bytes
Decode: TypeAlias = Callable[[Wire], object]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its JSON name, how its value is decoded, and whether it repeats."""

    name: str
    decode: Decode
    repeated: bool = False
    mapping: bool = False


_Message: TypeAlias = Mapping[int, _Field]


def _text(value: Wire) -> object:
    assert isinstance(value, bytes)
    return value.decode()


def _base64(value: Wire) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


def _bool(value: Wire) -> object:
    return bool(value)


def _int(value: Wire) -> object:
    assert isinstance(value, int)
    return value - (1 << 64) if value >> 63 else value


def _time(value: Wire) -> object:
    if not value:
        return ""
    seconds = dict(_entries(value)).get(1, 0)
    assert isinstance(seconds, int)
    return timestamp(seconds)


def _message(fields: _Message) -> Decode:
    return lambda value: _decode(fields, value)


def _texts(name: str) -> _Field:
    return _Field(name, _text, repeated=True)


def _map(name: str, decode: Decode = _text) -> _Field:
    return _Field(name, _message({1: _Field("key", _text), 2: _Field("value", decode)}), mapping=True)


def _messages(name: str, *names: str) -> _Field:
    return _Field(name, _message(_strings(*names)), repeated=True)


def _strings(*names: str) -> _Message:
    return {number: _Field(name, _text) for number, name in enumerate(names, 1)}


_OWNER: Final[_Message] = {
    1: _Field("kind", _text),
    3: _Field("name", _text),
    4: _Field("uid", _text),
    5: _Field("apiVersion", _text),
    6: _Field("controller", _bool),
    7: _Field("blockOwnerDeletion", _bool),
}
_METADATA: Final[_Message] = {
    1: _Field("name", _text),
    2: _Field("generateName", _text),
    3: _Field("namespace", _text),
    5: _Field("uid", _text),
    6: _Field("resourceVersion", _text),
    7: _Field("generation", _int),
    8: _Field("creationTimestamp", _time),
    11: _map("labels"),
    12: _map("annotations"),
    13: _Field("ownerReferences", _message(_OWNER), repeated=True),
    14: _texts("finalizers"),
}
_META: Final = _Field("metadata", _message(_METADATA))
_RULE: Final[_Message] = {
    number: _texts(name)
    for number, name in enumerate(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"), 1)
}
_RULES: Final = _Field("rules", _message(_RULE), repeated=True)
_BINDING: Final[_Message] = {
    1: _META,
    2: _messages("subjects", "kind", "apiGroup", "name", "namespace"),
    3: _Field("roleRef", _message(_strings("apiGroup", "kind", "name"))),
}
_ACCESS: Final[_Message] = {
    1: _Field(
        "resourceAttributes",
        _message(_strings("namespace", "verb", "group", "version", "resource", "subresource", "name")),
    ),
    2: _Field("nonResourceAttributes", _message(_strings("path", "verb"))),
}

_SERVER_SET: Final = _Field("", lambda _value: "")
"""A field that typed clients write although only the server sets it."""

_CONTAINER: Final[_Message] = {
    1: _Field("name", _text),
    2: _Field("image", _text),
    3: _texts("command"),
    4: _texts("args"),
    6: _Field("ports", _message({3: _Field("containerPort", _int), 4: _Field("protocol", _text)}), repeated=True),
}
_POD: Final[_Message] = {
    2: _Field("containers", _message(_CONTAINER), repeated=True),
    3: _Field("restartPolicy", _text),
}
_TEMPLATE: Final = _Field("template", _message({1: _META, 2: _Field("spec", _message(_POD))}))
_SELECTOR: Final = _Field("selector", _message({1: _map("matchLabels")}))

_KINDS: Final[Mapping[str, _Message]] = {
    "Namespace": {1: _META, 3: _SERVER_SET},
    "Deployment": {
        1: _META,
        2: _Field("spec", _message({1: _Field("replicas", _int), 2: _SELECTOR, 3: _TEMPLATE, 4: _SERVER_SET})),
        3: _SERVER_SET,
    },
    "Job": {1: _META, 2: _Field("spec", _message({6: _TEMPLATE})), 3: _SERVER_SET},
    "ConfigMap": {1: _META, 2: _map("data"), 3: _map("binaryData", _base64), 4: _Field("immutable", _bool)},
    "Secret": {
        1: _META,
        2: _map("data", _base64),
        3: _Field("type", _text),
        4: _map("stringData"),
        5: _Field("immutable", _bool),
    },
    "ServiceAccount": {1: _META},
    "Role": {1: _META, 2: _RULES},
    "ClusterRole": {1: _META, 2: _RULES},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "SelfSubjectAccessReview": {1: _META, 2: _Field("spec", _message(_ACCESS)), 3: _SERVER_SET},
    "SelfSubjectRulesReview": {1: _META, 2: _Field("spec", _message(_strings("namespace"))), 3: _SERVER_SET},
    "SelfSubjectReview": {1: _META, 2: _SERVER_SET},
    "PriorityClass": {
        1: _META,
        2: _Field("value", _int),
        3: _Field("globalDefault", _bool),
        4: _Field("description", _text),
        5: _Field("preemptionPolicy", _text),
    },
}


def decode(body: bytes) -> JsonObject:
    """The object in a protobuf body.

    Raises:
        ApiError: 415 for a kind without a table, 400 for a body that is malformed.
    """
    try:
        unknown = dict(_entries(body.removeprefix(_MAGIC)))
        api_version, kind = (str(_text(part)) for _, part in sorted(_entries(unknown[1])))
        if kind not in _KINDS:
            raise status.unsupported_media_type(["application/json", "application/yaml"])
        return {"apiVersion": api_version, "kind": kind} | _decode(_KINDS[kind], unknown.get(2, b""))
    except (IndexError, KeyError, ValueError, AssertionError) as error:
        raise status.bad_request(f"the protobuf body can't be decoded: {error!r}; send JSON instead") from error


def _decode(fields: _Message, data: Wire) -> JsonObject:
    result: JsonObject = {}
    for number, value in _entries(data):
        known = fields.get(number)
        if known is None:
            if value in (b"", 0):
                continue
            raise ValueError(f"field {number} is not known")
        decoded = known.decode(value)
        if known.mapping:
            assert isinstance(decoded, dict)
            result.setdefault(known.name, {})[decoded.get("key", "")] = decoded.get("value", "")
        elif known.repeated:
            result.setdefault(known.name, []).append(decoded)
        elif decoded not in ("", 0, False):
            # Typed clients write every scalar; an empty one means absent.
            result[known.name] = decoded
    return result


def _entries(data: Wire) -> Iterator[tuple[int, Wire]]:
    """Field numbers with their values: integers, or the bytes of everything that has a length."""
    assert isinstance(data, bytes)
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(data, position)
            yield number, data[position : position + length]
            position += length
        else:
            raise ValueError(f"wire type {wire} of field {number} is not known")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position += 1
        if not byte & 0x80:
            return result, position
        shift += 7
