"""The pure parts: JSONPath of printer columns, ages, resource paths."""

import pytest

from embedded_apiserver.requestinfo import Target, parse_target
from embedded_apiserver.tables import compile_path
from embedded_apiserver.values import age, duration

OBJECT = {
    "spec": {"names": ["x", "y"], "labels": {"app.io/x": "z"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.names[0]", ["x"]),
        ("{.spec.names[-1]}", ["y"]),
        (".spec.names[*]", ["x", "y"]),
        (".spec.names", [["x", "y"]]),
        (r".spec.labels.app\.io/x", ["z"]),
        (".spec.labels['app.io/x']", ["z"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Nope')].status", []),
        (".spec.nope.deeper", []),
    ],
)
def test_paths_find_values(path: str, found: list[object]) -> None:
    assert compile_path(path)(OBJECT) == found


def test_an_unknown_path_syntax_is_named() -> None:
    with pytest.raises(ValueError, match="not supported from position"):
        compile_path(".spec[?(@.x>1)]")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (30 * 86400, "30d"),
    ],
)
def test_durations_read_as_kubectl_writes_them(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


def test_an_unreadable_time_has_no_age() -> None:
    assert (age(None, 0), age("soon", 0)) == ("<unknown>", "<unknown>")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces/a", Target("", "v1", "namespaces", "", "a")),
        ("/api/v1/namespaces/a/status", Target("", "v1", "namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/pods/b/log", Target("", "v1", "pods", "a", "b", "log")),
        ("/apis/apps/v1/namespaces/a/deployments", Target("apps", "v1", "deployments", "a")),
        ("/apis/apps/v1", None),
        ("/healthz", None),
        ("/api/v1/namespaces/a/pods/b/log/x", None),
    ],
)
def test_paths_name_their_target(path: str, target: Target | None) -> None:
    assert parse_target(path) == target
