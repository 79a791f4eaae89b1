"""The proxy that the environment names for the API server."""

import pytest

from controller_runtime.kube.proxies import environment_proxy

PROXY = "http://proxy.corp:3128"


@pytest.mark.spec("FW-274")
@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({}, "https://api.corp:6443", None),
        ({"https_proxy": PROXY}, "https://api.corp:6443", PROXY),
        ({"HTTPS_PROXY": PROXY}, "https://api.corp:6443", PROXY),
        ({"https_proxy": PROXY}, "http://127.0.0.1:8080", None),
        ({"https_proxy": PROXY, "no_proxy": ".corp"}, "https://api.corp:6443", None),
        ({"https_proxy": PROXY, "no_proxy": "10.0.0.1"}, "https://10.0.0.1:443", None),
        ({"https_proxy": PROXY, "no_proxy": "other.corp"}, "https://api.corp:6443", PROXY),
        ({"all_proxy": PROXY}, "https://api.corp:6443", PROXY),
    ],
)
def test_the_environment_names_the_proxy(
    variables: dict[str, str], url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(url) == expected
