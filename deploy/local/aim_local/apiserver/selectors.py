"""Label and field selectors: parse once, match many."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aim_local.apiserver.resources import ResourceType
from aim_local.apiserver.status import ApiError, bad_request
from controller_runtime import JsonObject

Matcher: TypeAlias = Callable[[JsonObject], bool]
LabelTest: TypeAlias = Callable[[Mapping[str, str]], bool]

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EQUALITY: Final = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})?$")
_ORDER: Final = re.compile(rf"^({_KEY})\s*([<>])\s*(-?\d+)$")
_EXISTS: Final = re.compile(rf"^(!?)\s*({_KEY})$")

_COMMON_FIELDS: Final = ("metadata.name", "metadata.namespace")


def label_test(selector: str) -> LabelTest | None:
    """The test of a label selector; None for one that selects everything.

    Raises:
        ApiError: 400 for a selector that can't be parsed.
    """
    tests = [_requirement(part.strip()) for part in _split(selector) if part.strip()]
    if not tests:
        return None
    return lambda labels: all(test(labels) for test in tests)


def _split(selector: str) -> list[str]:
    return re.split(r",(?![^()]*\))", selector)


def _requirement(text: str) -> LabelTest:
    for pattern, build in (
        (_SET, _set_test),
        (_EQUALITY, _equality_test),
        (_ORDER, _order_test),
        (_EXISTS, _exists_test),
    ):
        match = pattern.match(text)
        if match:
            return build(match)
    raise bad_request(f'unable to parse requirement: found "{text}", expected a label selector requirement')


def _set_test(match: re.Match[str]) -> LabelTest:
    key, values = match[1], {value.strip() for value in match[3].split(",")}
    if match[2] == "in":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _equality_test(match: re.Match[str]) -> LabelTest:
    key, value = match[1], match[3] or ""
    if match[2] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _order_test(match: re.Match[str]) -> LabelTest:
    key, above, bound = match[1], match[2] == ">", int(match[3])

    def test(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels.get(key, ""))
        except ValueError:
            return False
        return number > bound if above else number < bound

    return test


def _exists_test(match: re.Match[str]) -> LabelTest:
    key, negated = match[2], match[1] == "!"
    return lambda labels: (key in labels) != negated


def field_tests(resource: ResourceType, selector: str) -> list[tuple[str, bool, str]]:
    """The terms of a field selector: path, True for equality, value.

    Raises:
        ApiError: 400 for a field that the type can't be selected by.
    """
    terms: list[tuple[str, bool, str]] = []
    for part in filter(None, (piece.strip() for piece in selector.split(","))):
        match = re.match(r"^([^=!]+)(==|=|!=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path = match[1].strip()
        if path not in _COMMON_FIELDS and path not in resource.selectable_fields:
            raise _unsupported_field(resource, path)
        terms.append((path, match[2] != "!=", match[3].strip()))
    return terms


def _unsupported_field(resource: ResourceType, path: str) -> ApiError:
    if resource.custom:
        return bad_request(f"field label not supported: {path}")
    return bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_value(obj: JsonObject, path: str) -> str:
    """The text of a field as selectors compare it; "" if absent."""
    value: object = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def matcher(resource: ResourceType, labels: str, fields: str) -> Matcher | None:
    """One test for both selectors, over objects in storage form; None if everything is selected."""
    test = label_test(labels)
    terms = field_tests(resource, fields)
    if test is None and not terms:
        return None

    def matches(obj: JsonObject) -> bool:
        if test is not None and not test(obj["metadata"].get("labels") or {}):
            return False
        return all((field_value(obj, path) == value) == equal for path, equal, value in terms)

    return matches
