"""Registries, references and pull secrets for the tests of the registry client."""

import base64
import json

from aim_local.ports import LOOPBACK
from aim_local.registry import ImageStore, LocalRegistry
from oci_registry import (
    CredentialSet,
    ImageReference,
    RegistrySettings,
    Repository,
    canonical_repository,
    parse_image,
    parse_pull_secret,
)
from oci_registry.credentials import DOCKER_CONFIG_JSON

REPOSITORY = "team/model"
ON_LOOPBACK = {"registry_allowed_networks": LOOPBACK}
"""Registries of tests are on the loopback, where none is asked for unless settings say so (FW-590)."""


def settings(**values: object) -> RegistrySettings:
    return RegistrySettings.model_validate({"registry_request_timeout": 5.0, **ON_LOOPBACK, **values})


def store_with_tags(*tags: str) -> ImageStore:
    store = ImageStore()
    for tag in tags or ("1.0.0",):
        store.put(REPOSITORY, tag, labels={"a": "b"}, env=["X=1"])
    return store


def at(registry: LocalRegistry) -> Repository:
    return canonical_repository(registry.host, REPOSITORY)


def image(registry: LocalRegistry, version: str = ":1.0.0") -> ImageReference:
    return parse_image(f"{registry.host}/{REPOSITORY}{version}")


def token_secret(host: str, **entry: str) -> CredentialSet:
    document = json.dumps({"auths": {host: entry}})
    data = base64.b64encode(document.encode()).decode()
    return parse_pull_secret(DOCKER_CONFIG_JSON, {".dockerconfigjson": data})


def pull_secret(host: str, username: str, password: str) -> CredentialSet:
    return token_secret(host, auth=base64.b64encode(f"{username}:{password}".encode()).decode())
