"""NKeys of the broker's users: a seed for each client, its public half for the broker."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nkeys
import yaml

from controller_runtime import JsonObject


@dataclass(frozen=True, slots=True)
class UserKey:
    """One user's key; the seed is a secret."""

    seed: str
    public: str


def new_key() -> UserKey:
    """A new key."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)  # type: ignore[no-untyped-call]
    return UserKey(seed.decode(), nkeys.from_seed(seed).public_key.decode())  # type: ignore[no-untyped-call]


def secret(prefix: str, namespace: str, user: str, key: UserKey) -> JsonObject:
    """The Secret that a service mounts, and from which the chart's value takes nothing but the name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{prefix}{user}", "namespace": namespace},
        "type": "Opaque",
        "data": {"user.nk": base64.b64encode(key.seed.encode()).decode()},
    }


def manifests(prefix: str, namespace: str, keys: Mapping[str, UserKey]) -> tuple[str, str]:
    """The Secrets of all users, and values for the chart with their public keys."""
    values: dict[str, Any] = {"nats": {"auth": {"enabled": True, "publicKeys": {u: k.public for u, k in keys.items()}}}}
    secrets = [secret(prefix, namespace, user, key) for user, key in keys.items()]
    return yaml.safe_dump_all(secrets, sort_keys=False), yaml.safe_dump(values, sort_keys=False)
