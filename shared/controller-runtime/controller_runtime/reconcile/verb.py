"""What a plan, or the carrying out of it, asks of the API server."""

from enum import StrEnum


class Verb(StrEnum):
    """What was asked of the API server; some answers mean different things to different verbs."""

    GET = "get"
    CREATE = "create"
    APPLY = "apply"
    PATCH = "patch"
    DELETE = "delete"
    STATUS = "status"
