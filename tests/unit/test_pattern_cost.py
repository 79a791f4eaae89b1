"""What tenants, images, hubs, registries and logs may write is read in a time that grows with its length."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from support.pattern_cost import Text, is_linear, texts_against

from aim_domain.path_template import PathTemplateError, parse, template_problems
from aim_domain.pods.log_patterns import match_log
from aim_domain.propagation import matches
from aim_routing.path import render

PACKAGES: Final = (
    "aim_domain",
    "controller_runtime",
    "oci_registry",
    "aim_serving",
    "aim_routing",
    "aim_discovery",
    "aim_artifacts",
    "aim_model_sync",
    "aim_cli.why",
)
_SCANNING: Final = ("search", "sub", "subn", "split", "finditer", "findall")
_ANCHORED: Final = ("match", "fullmatch")
BOUNDED: Final = {
    "controller_runtime.manager.settings._SERVICE_LINK": "names of variables that the kubelet makes of Services: 63",
    "aim_domain.crd.structure._REFERENCES": "docstrings of the definitions, at build time",
}
"""Patterns that meet no text of others, or one with a bound that somebody else holds, and which."""


def _modules() -> Iterator[Any]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def _inside(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset | set):
        for member in value:
            yield from _inside(member)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _inside(member)


def _methods(path: Path) -> dict[str, set[str]]:
    """Which methods a module calls, by the name that it calls them of."""
    called: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called[node.value.id].add(node.attr)
    return called


def _patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """Every compiled pattern of the packages, by the module and name that it has, with the methods that are called."""
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for module in _modules():
        if not getattr(module, "__file__", None):
            continue
        held = [(name, value, patterns) for name, value in vars(module).items() if (patterns := [*_inside(value)])]
        # Read only where there is one: this runs whenever tests are collected.
        called = _methods(Path(module.__file__)) if held else {}
        for name, value, patterns in held:
            single = isinstance(value, re.Pattern)
            for place, pattern in enumerate(patterns):
                key = f"{module.__name__}.{name}" + ("" if single else f"[{place}]")
                methods = called[name] & {*_SCANNING, *_ANCHORED} if single else set()
                found[key] = (pattern, frozenset(methods or {"search"}))
    return found


PATTERNS: Final = _patterns()


@pytest.mark.spec("FW-740")
@pytest.mark.parametrize("name", [name for name in PATTERNS if name not in BOUNDED])
def test_a_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    pattern, methods = PATTERNS[name]
    readers = {"search" if method in _SCANNING else method for method in methods}
    for method in sorted(readers):
        read = _every if method == "search" else getattr(re.Pattern, method)
        for text in texts_against(pattern):
            assert is_linear(_reader(read, pattern), text), f"{name} {method} {text}"


def _reader(read: Callable[..., object], pattern: re.Pattern[Any]) -> Callable[[str], object]:
    binary = isinstance(pattern.pattern, bytes)
    return lambda text: read(pattern, text.encode() if binary else text)


def _every(pattern: re.Pattern[Any], text: str | bytes) -> list[Any]:
    return list(pattern.finditer(text))


@pytest.mark.parametrize("pattern", [r"(a*)*b", r"\s*,?\s*x", r"a+b", r"aws.*credentials.*not.*found"])
def test_the_measure_finds_what_it_is_for(pattern: str) -> None:
    compiled = re.compile(pattern)
    assert not all(is_linear(compiled.search, text) for text in texts_against(compiled))


_WORDS: Final = ("aws", "credentials", "not", "s3", "model", "huggingface", "401", "unauthorized", "access", "denied")


@pytest.mark.spec("FW-740", "FW-150")
@pytest.mark.parametrize("pump", [*(f"{word} " for word in _WORDS), " ".join(_WORDS), " ".join(reversed(_WORDS))])
def test_a_log_takes_time_in_proportion_to_its_length(pump: str) -> None:
    assert is_linear(match_log, Text("", pump * 8, "fo"))


@pytest.mark.spec("FW-740", "FW-150")
def test_the_line_that_held_the_services_is_read() -> None:
    line = "aws" * 6000 + "credentials" * 2000 + "not" * 6000
    assert match_log(line) is None
    found = match_log(f"{line}\nNo AWS Credentials whatsoever; they were NOT to be found")
    assert found is not None
    assert found.line.startswith("No AWS")


@pytest.mark.spec("RC-165", "RC-095")
@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "*" * 300, "*?" * 100 + "b", "*[a-z]" * 50 + "b", "*a*" * 90])
def test_a_label_pattern_takes_time_in_proportion_to_the_key(pattern: str) -> None:
    assert is_linear(lambda key: matches(pattern, key), Text("", "a", ""))
    assert is_linear(lambda key: matches(pattern, key), Text("", "a", "/b"))


@pytest.mark.spec("RT-P05", "RC-166")
@pytest.mark.parametrize(
    "text",
    [
        Text("x{.a[", " ", "]}"),
        Text("x{.a[", "1", "]}"),
        Text("x{.a[1", " ", ":]}"),
        Text("x{.a[", "-1:", "]}"),
        Text("x{", ".a", "[}"),
        Text("x{.a[?(@.", "a.", "==1)]}"),
        Text("x{.a[?(@.a ", " ", "==1)]}"),
        Text("x{.a[?(@.a==", "'", ")]}"),
        Text("x{.a['", "'", "]}"),
        Text("x{.", "\\", "}"),
        Text("", "{", "}"),
        Text("", "{a", "}"),
        Text("", "{ }", ""),
    ],
)
def test_a_path_template_takes_time_in_proportion_to_its_length(text: Text) -> None:
    def read(template: str) -> None:
        # Without the bound of the whole, which would end it.
        with suppress(PathTemplateError):
            parse(template[2:-1])

    assert is_linear(read, text)
    assert is_linear(template_problems, text)


@pytest.mark.spec("RC-166")
@pytest.mark.parametrize("index", ["9" * 5000, "9" * 10, f"0:{'9' * 5000}", "-", "--1", "1:-", "'a", "1 2", ":::"])
def test_an_index_that_no_list_has_is_no_expression(index: str) -> None:
    with pytest.raises(PathTemplateError, match="invalid expression"):
        parse(f".spec.a[{index}]")


@pytest.mark.spec("RC-166")
def test_a_template_that_is_too_long_is_reported_in_a_short_message() -> None:
    template = "/x{.a[" + " " * 300_000 + "]}"
    assert template_problems(template) == ["the template has 300008 characters, 1024 are allowed; shorten pathTemplate"]
    with pytest.raises(PathTemplateError, match="1024 are allowed"):
        render(template, {})
    value = {"a": "x" * 200_000}
    with pytest.raises(PathTemplateError, match="longer than 200 characters"):
        render("/{.a}" * 100, value)
