"""The proxy that the environment names: one reading of NO_PROXY, as Go has it, for every server."""

import pytest
from yarl import URL

from controller_runtime.kube.proxies import environment_proxy, plain_no_proxy
from oci_registry.transport import _proxy_for

PROXY = "http://proxy.corp:3128"
CLUSTER = "localhost,.svc,.cluster.local,10.96.0.0/12,fd00:10:96::/112,192.168.0.0/16,*.corp.example"


@pytest.mark.spec("FW-274", "FW-790")
@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({}, "https://api.corp:6443", None),
        ({"https_proxy": PROXY}, "https://api.corp:6443", PROXY),
        ({"HTTPS_PROXY": PROXY}, "https://api.corp:6443", PROXY),
        ({"HTTPS_PROXY": "", "https_proxy": PROXY}, "https://api.corp:6443", PROXY),
        ({"HTTPS_PROXY": PROXY, "https_proxy": "http://other:1"}, "https://api.corp:6443", PROXY),
        ({"https_proxy": "proxy.corp:3128"}, "https://api.corp:6443", PROXY),
        ({"https_proxy": PROXY}, "http://api.corp:8080", None),
        ({"http_proxy": PROXY}, "http://api.corp:8080", PROXY),
        ({"https_proxy": PROXY, "no_proxy": ".corp"}, "https://api.corp:6443", None),
        ({"https_proxy": PROXY, "NO_PROXY": "", "no_proxy": ".corp"}, "https://api.corp:6443", None),
        ({"https_proxy": PROXY, "NO_PROXY": "other", "no_proxy": ".corp"}, "https://api.corp:6443", PROXY),
        ({"https_proxy": PROXY, "no_proxy": "10.0.0.1"}, "https://10.0.0.1:443", None),
        ({"https_proxy": PROXY, "no_proxy": "other.corp"}, "https://api.corp:6443", PROXY),
        ({"all_proxy": PROXY}, "https://api.corp:6443", PROXY),
        ({"all_proxy": PROXY}, "ftp://api.corp", None),
    ],
)
def test_the_environment_names_the_proxy(variables: dict[str, str], url: str, expected: str | None) -> None:
    assert environment_proxy(url, variables) == expected


@pytest.mark.spec("FW-790")
@pytest.mark.parametrize(
    ("no_proxy", "url", "exempt"),
    [
        (CLUSTER, "https://10.96.0.1:443", True),
        (CLUSTER, "https://10.112.0.1:443", False),
        (CLUSTER, "https://[fd00:10:96::1]:443", True),
        (CLUSTER, "https://[fd00:10:97::1]:443", False),
        (CLUSTER, "https://192.168.4.7:5000/v2/", True),
        (CLUSTER, "https://harbor.corp.example/v2/", True),
        (CLUSTER, "https://a.harbor.corp.example/v2/", True),
        (CLUSTER, "https://corp.example/v2/", False),
        (CLUSTER, "https://kubernetes.default.svc:443", True),
        (CLUSTER, "https://ghcr.io/v2/", False),
        ("", "https://localhost:6443", True),
        ("", "https://127.8.9.1:6443", True),
        ("", "https://[::1]:6443", True),
        ("", "https://hub.localhost", True),
        ("", "https://localhost.corp", False),
        ("*", "https://ghcr.io", True),
        (" other , * ", "https://10.1.2.3", True),
        ("*:443", "https://ghcr.io", False),
        (",, ,.,*.", "https://ghcr.io", False),
        ("GHCR.IO", "https://ghcr.io", True),
        ("ghcr.io", "https://GHCR.io", True),
        ("ghcr.io", "https://pkg.ghcr.io", True),
        ("ghcr.io", "https://notghcr.io", False),
        (".ghcr.io", "https://ghcr.io", False),
        (".ghcr.io", "https://pkg.ghcr.io", True),
        (".ghcr.io", "https://pkg.ghcr.io.", True),
        (".GHCR.IO:443", "https://pkg.ghcr.io", True),
        ("ghcr.io:443", "https://ghcr.io", True),
        ("ghcr.io:443", "https://ghcr.io:5000", False),
        ("ghcr.io:80", "http://ghcr.io", True),
        ("*.ghcr.io:5000", "https://pkg.ghcr.io:5000", True),
        ("10.0.0.1:6443", "https://10.0.0.1:6443", True),
        ("10.0.0.1:6443", "https://10.0.0.1", False),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]", False),
        ("[fd00::1]", "https://[fd00::1]", True),
        ("fd00::1", "https://[FD00:0::1]", True),
        ("10.96.5.6/12", "https://10.96.0.1", True),
        ("10.96.0.0/33", "https://10.96.0.1", False),
        ("10.96.0.0/12", "https://[::ffff:10.96.0.1]", True),
        ("10.96.0.0/12", "https://10.96.0.1.nip.io", False),
        ("0.0.0.0/0", "https://1.1.1.1", True),
        ("0.0.0.0/0", "https://[2001:db8::1]", False),
        ("::/0", "https://[2001:db8::1]", True),
        ("10.0.0.1", "https://110.0.0.1", False),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(no_proxy: str, url: str, exempt: bool) -> None:
    variables = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert (environment_proxy(url, variables) is None) is exempt


@pytest.mark.spec("FW-791")
@pytest.mark.parametrize("url", ["https://10.96.0.1:443/v2/", "https://harbor.corp.example/v2/", "https://ghcr.io/v2/"])
def test_registries_follow_the_same_reading(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", CLUSTER)
    assert _proxy_for(URL(url)) == environment_proxy(url)
    assert (_proxy_for(URL(url)) is None) is ("ghcr.io" not in url)


@pytest.mark.spec("FW-792")
def test_a_library_with_its_own_reading_gets_what_it_knows() -> None:
    variables = {"NO_PROXY": " .svc ,10.96.0.0/12,*.corp.example, hub.corp:443,,other:8443"}
    assert plain_no_proxy(variables) == ".svc,10.96.0.0/12,.corp.example,hub.corp,other:8443"
