"""Who a viewer is, as the API server tells of their token, and what it is asked about them (FW-678)."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import JsonObject
from controller_runtime.manager.scrapers import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

REVIEWS: Final = (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW)
"""What the console creates at the API server, and all that it does there."""
_PARTS_OF_A_JWT: Final = 3


@dataclass(frozen=True, slots=True)
class User:
    """A user of the cluster, by all that its authorizers judge by."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def user_of(review: JsonObject) -> User | None:
    """The user of an answered TokenReview; ``None`` if the token is nobody's."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = sorted((user.get("extra") or {}).items())
    return User(
        user["username"],
        user.get("uid") or "",
        tuple(user.get("groups") or ()),
        tuple((name, tuple(values)) for name, values in extra),
    )


def token_review(token: str) -> JsonObject:
    """The question whose a token is."""
    return _question(TOKEN_REVIEW.kind, f"{TOKEN_REVIEW.group}/{TOKEN_REVIEW.version}", {"token": token})


def access_review(user: User, attributes: JsonObject) -> JsonObject:
    """The question whether a user may do something with a resource."""
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra},
        "resourceAttributes": attributes,
    }
    version = f"{SUBJECT_ACCESS_REVIEW.group}/{SUBJECT_ACCESS_REVIEW.version}"
    return _question(SUBJECT_ACCESS_REVIEW.kind, version, spec)


def _question(kind: str, api_version: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}


def end_of(token: str) -> float | None:
    """When a token ends by its own word, in seconds since 1970; ``None`` where it says nothing of that.

    Nothing is verified: that the token is good says the API server, this only makes its time shorter.
    """
    parts = token.split(".")
    if len(parts) != _PARTS_OF_A_JWT:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = claims.get("exp")
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        return None
    return float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) else None
