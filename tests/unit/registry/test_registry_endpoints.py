"""Where requests go: mirrors, upstream, API bases, local addresses; and which realms may be asked."""

from pathlib import Path

import pytest

from oci_registry.authorization import AuthScheme, Challenge, parse_challenges, realm_problem
from oci_registry.endpoints import Endpoint, Scheme, Trust, endpoints_for, is_local_address
from oci_registry.mirrors import InvalidRegistriesFileError, Registries, load_registries, parse_registries

EXAMPLE = """
registries:
  docker.io:
    mirrors:
      - url: https://harbor.corp/hub-proxy
        caFile: /etc/aim/registries/corp-ca.pem
        secretName: harbor-pull
      - url: http://10.0.0.5:5000
    upstream: {enabled: false}
  "registry.lab:5000":
    upstream: {plainHttp: true}
  "*":
    upstream: {enabled: false}
"""


@pytest.mark.spec("FW-382", "FW-383", "FW-386", "FW-388")
def test_the_example_of_the_specification() -> None:
    registries = parse_registries(EXAMPLE)
    harbor, plain = endpoints_for("docker.io", registries)
    assert (harbor.scheme, harbor.secret_name) == (Scheme.HTTPS, "harbor-pull")
    assert harbor.trust == Trust(Path("/etc/aim/registries/corp-ca.pem"))
    assert (plain.scheme, plain.authority, plain.is_mirror) == (Scheme.HTTP, "10.0.0.5:5000", True)
    (lab,) = endpoints_for("registry.lab:5000", registries)
    assert (lab.scheme, lab.is_mirror) == (Scheme.HTTP, False)
    assert endpoints_for("quay.io", registries) == ()


@pytest.mark.spec("FW-392")
def test_a_mirror_has_its_own_credentials_host() -> None:
    harbor, plain = endpoints_for("docker.io", parse_registries(EXAMPLE))
    assert (harbor.credential_host, plain.credential_host) == ("harbor.corp", "10.0.0.5:5000")
    assert harbor.repository_name("library/x") == "hub-proxy/library/x"


@pytest.mark.spec("FW-383")
def test_keys_are_canonical() -> None:
    registries = parse_registries("registries: {Index.Docker.IO: {upstream: {plainHttp: true}}}")
    assert registries.rules_for("docker.io").upstream.plain_http


@pytest.mark.spec("FW-381", "MS-118", "FW-S88")
def test_without_configuration_a_registry_is_asked_itself() -> None:
    (hub,) = endpoints_for("docker.io", Registries())
    assert (hub.authority, hub.credential_host) == ("index.docker.io", "docker.io")
    (own,) = endpoints_for("ghcr.io", Registries())
    assert (own.authority, own.scheme) == ("ghcr.io", Scheme.HTTPS)
    assert load_registries(None) == Registries()


@pytest.mark.spec("FW-384", "FW-385", "FW-S84")
@pytest.mark.parametrize(
    ("url", "tags", "root"),
    [
        ("https://h/p", "/v2/p/library/x/tags/list", "/v2"),
        ("https://h/x/v2", "/x/v2/library/x/tags/list", "/x/v2"),
        ("https://h", "/v2/library/x/tags/list", "/v2"),
        ("https://h/x/v2/y/z/", "/x/v2/y/z/library/x/tags/list", "/x/v2"),
        ("https://h/{registry}", "/v2/docker.io/library/x/tags/list", "/v2"),
        (
            "https://h/artifactory/api/docker/hub/v2",
            "/artifactory/api/docker/hub/v2/library/x/tags/list",
            "/artifactory/api/docker/hub/v2",
        ),
        ("http://h:5000/hub", "/v2/hub/library/x/tags/list", "/v2"),
    ],
)
def test_api_base_of_a_mirror(url: str, tags: str, root: str) -> None:
    registries = parse_registries(f"registries: {{docker.io: {{mirrors: [{{url: '{url}'}}]}}}}")
    mirror, _ = endpoints_for("docker.io", registries)
    assert mirror.repository_path("library/x", "tags/list") == tags
    assert mirror.root == root


@pytest.mark.spec("FW-382", "FW-395")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("registries: {a: {mirrors: [{url: 'ftp://h'}]}}", "registries.a.mirrors.0.url"),
        ("registries: {a: {mirrors: [{url: 'https://u:p@h'}]}}", "registries.a.mirrors.0.url"),
        ("registries: {a: {mirrors: [{url: 'https://h?x=1'}]}}", "registries.a.mirrors.0.url"),
        ("registries: {a: {mirrors: [{}]}}", "registries.a.mirrors.0.url"),
        ("registries: {a: {upstream: {enabld: true}}}", "registries.a.upstream.enabld"),
        ("registries: {docker.io: {}, index.docker.io: {}}", "registries"),
        ("registries: [", "not YAML"),
    ],
)
def test_a_faulty_file_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(InvalidRegistriesFileError, match=path):
        parse_registries(text)


@pytest.mark.spec("FW-395")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRegistriesFileError, match=r"missing\.yaml"):
        load_registries(tmp_path / "missing.yaml")


@pytest.mark.spec("MS-119")
@pytest.mark.parametrize(
    ("registry", "local"),
    [
        ("localhost:5000", True),
        ("127.0.0.1", True),
        ("[::1]:5000", True),
        ("x.localhost", True),
        ("nas.local:80", True),
        ("10.1.2.3", True),
        ("172.16.0.1:5000", True),
        ("192.168.1.1", True),
        ("172.32.0.1", False),
        ("169.254.169.254", False),
        ("8.8.8.8", False),
        ("ghcr.io", False),
        ("local.example.com", False),
    ],
)
def test_plain_http_is_tried_for_local_addresses_only(registry: str, *, local: bool) -> None:
    (endpoint,) = endpoints_for(registry, Registries())
    assert is_local_address(endpoint.host) is local
    assert endpoint.scheme is (Scheme.HTTPS_THEN_HTTP if local else Scheme.HTTPS)


@pytest.mark.spec("MS-121")
def test_challenges() -> None:
    bearer = Challenge(AuthScheme.BEARER, {"realm": "https://a/t", "service": "a, b", "scope": 'x"y'})
    assert parse_challenges([r'Bearer realm="https://a/t",service="a, b",scope="x\"y"']) == (bearer,)
    assert parse_challenges(['Negotiate, Digest realm="x", Basic realm="r", charset="UTF-8"']) == (
        Challenge(AuthScheme.BASIC, {"realm": "r", "charset": "UTF-8"}),
    )
    assert parse_challenges(["BEARER realm=https://a/t", "Basic"]) == (
        Challenge(AuthScheme.BEARER, {"realm": "https://a/t"}),
        Challenge(AuthScheme.BASIC, {}),
    )
    assert parse_challenges([]) == ()


def endpoint(authority: str, scheme: Scheme = Scheme.HTTPS) -> Endpoint:
    return Endpoint(authority, scheme, authority)


@pytest.mark.spec("MS-127", "FW-392")
@pytest.mark.parametrize(
    ("realm", "registry", "allowed"),
    [
        ("https://auth.docker.io/token", endpoint("index.docker.io"), True),
        ("https://ghcr.io/token", endpoint("ghcr.io"), True),
        ("http://ghcr.io/token", endpoint("ghcr.io"), False),
        ("https://evil.com/token", endpoint("ghcr.io"), False),
        ("https://ghcr.io.evil.com/token", endpoint("ghcr.io"), False),
        ("https://127.0.0.1/token", endpoint("ghcr.io"), False),
        ("https://169.254.169.254/token", endpoint("ghcr.io"), False),
        ("https://10.0.0.1/token", endpoint("ghcr.io"), False),
        ("https://localhost/token", endpoint("ghcr.io"), False),
        ("http://127.0.0.1:5000/token", endpoint("127.0.0.1:5000", Scheme.HTTPS_THEN_HTTP), True),
        ("http://10.0.0.2/token", endpoint("10.0.0.1"), False),
        ("http://lab/token", endpoint("lab:5000", Scheme.HTTP), True),
        ("https://other/token", endpoint("lab:5000", Scheme.HTTP), False),
        ("https://trusted.example/token", endpoint("ghcr.io"), True),
        ("", endpoint("ghcr.io"), False),
        ("file:///etc/passwd", endpoint("ghcr.io"), False),
        ("https://[bad/token", endpoint("ghcr.io"), False),
        ("https://ghcr.io:port/token", endpoint("ghcr.io"), False),
    ],
)
def test_realms_that_may_see_credentials(realm: str, registry: Endpoint, *, allowed: bool) -> None:
    problem = realm_problem(realm, registry, with_credentials=True, allowlist=("trusted.example",))
    assert (problem is None) is allowed


@pytest.mark.spec("MS-127")
def test_an_anonymous_token_may_come_from_another_domain_but_not_from_inside() -> None:
    registry = endpoint("lscr.io")
    assert realm_problem("https://ghcr.io/token", registry, with_credentials=False) is None
    assert realm_problem("https://10.0.0.1/token", registry, with_credentials=False) is not None
