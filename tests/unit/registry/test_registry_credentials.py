"""Pull secrets: decoding and matching."""

import base64
import json

import pytest

from oci_registry import CredentialSet, InvalidPullSecretError, parse_pull_secret
from oci_registry.credentials import DOCKER_CFG, DOCKER_CONFIG_JSON, normalised_key


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(*keys: str, **auths: object) -> CredentialSet:
    """A set whose usernames are the keys."""
    entries = {**{key: {"username": key, "password": "p"} for key in keys}, **auths}
    return parse_pull_secret(DOCKER_CONFIG_JSON, {".dockerconfigjson": encode(json.dumps({"auths": entries}))})


def found(credentials: CredentialSet, host: str, repository: str = "team/app") -> str | None:
    credential = credentials.find(host, repository)
    return None if credential is None else credential.username


@pytest.mark.spec("MS-158", "MS-159", "DI-078")
def test_both_secret_types_and_all_forms_of_entries() -> None:
    auth = {"auth": encode("user:pass:word")}
    legacy = parse_pull_secret(DOCKER_CFG, {".dockercfg": encode(json.dumps({"ghcr.io": auth}))})
    credential = legacy.find("ghcr.io", "a/b")
    assert credential is not None
    assert (credential.username, credential.password) == ("user", "pass:word")
    tokens = secret(**{"quay.io": {"identitytoken": "i", "registrytoken": "r"}}).find("quay.io", "a/b")
    assert tokens is not None
    assert (tokens.identity_token, tokens.registry_token) == ("i", "r")


@pytest.mark.spec("MS-158", "MS-166")
@pytest.mark.parametrize(
    ("secret_type", "data"),
    [
        ("Opaque", {".dockerconfigjson": encode("{}")}),
        (DOCKER_CONFIG_JSON, {}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": "hunter2!"}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": encode("hunter2")}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": encode('{"auths": ["hunter2"]}')}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": encode('{"auths": {"a": "hunter2"}}')}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": encode('{"auths": {"a": {"auth": "hunter2!"}}}')}),
    ],
)
def test_unusable_secrets_are_refused_without_showing_them(secret_type: str, data: dict[str, str]) -> None:
    with pytest.raises(InvalidPullSecretError) as caught:
        parse_pull_secret(secret_type, data)
    assert "hunter2" not in str(caught.value)


@pytest.mark.spec("MS-170")
def test_credentials_do_not_show() -> None:
    credentials = secret("ghcr.io", **{"quay.io": {"auth": encode("u:hunter2"), "identitytoken": "hunter2"}})
    assert "hunter2" not in repr(credentials)


@pytest.mark.spec("MS-160", "MS-162", "DI-079", "MS-P19")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("https://index.docker.io/v1/", ("docker.io", "")),
        ("docker.io", ("docker.io", "")),
        ("https://ghcr.io", ("ghcr.io", "")),
        ("GHCR.io/", ("ghcr.io", "")),
        ("http://host:5000/v2/team", ("host:5000", "/team")),
        ("host/team/", ("host", "/team")),
        ("host/v10/team", ("host", "/v10/team")),
    ],
)
def test_keys_are_normalised(key: str, expected: tuple[str, str]) -> None:
    assert normalised_key(key) == expected


@pytest.mark.spec("MS-161", "MS-164")
@pytest.mark.parametrize(
    ("key", "host", "matches"),
    [
        ("ghcr.io", "ghcr.io", True),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "a.b.example.com", False),
        ("pre*.example.com", "prefix.example.com", True),
        ("host:5000", "host:5000", True),
        ("host", "host:5000", False),
        ("host:5000", "host", False),
        ("host/team", "host", True),
        ("host/te", "host", True),
        ("host/other", "host", False),
        ("index.docker.io", "registry-1.docker.io", True),
    ],
)
def test_matching(key: str, host: str, *, matches: bool) -> None:
    assert found(secret(key), host) == (key if matches else None)


@pytest.mark.spec("MS-161", "DI-076")
def test_the_longest_path_wins_then_the_order() -> None:
    first, second = secret("host", "host/team"), secret("host/team", "host/team/app")
    merged = CredentialSet.merge([first, second])
    assert found(merged, "host", "team/app") == "host/team/app"
    assert found(merged, "host", "x") == "host"
    again = CredentialSet.merge([secret(host={"username": "1"}), secret(host={"username": "2"})])
    assert found(again, "host") == "1"


@pytest.mark.spec("MS-163", "MS-P18")
def test_any_entry_of_a_host_serves_its_api() -> None:
    credential = secret("quay.io", "https://ghcr.io/silogen").find_host("ghcr.io")
    assert credential is not None
    assert credential.username == "https://ghcr.io/silogen"
