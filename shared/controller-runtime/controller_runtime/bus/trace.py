"""Which trace a version of an object belongs to (W3C trace context)."""

import hashlib
import re
import secrets
from typing import Final

from controller_runtime import annotation_keys
from controller_runtime.json import JsonObject
from controller_runtime.sharing import shared
from controller_runtime.telemetry import tracing

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def is_traceparent(value: object) -> bool:
    """Whether a value is a valid version 00 ``traceparent``."""
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def new_traceparent() -> str:
    """A ``traceparent`` that begins a trace of its own; whoever makes it exports the root (`tracing.root`)."""
    trace_id = secrets.token_hex(16)
    return f"00-{trace_id}-{secrets.token_hex(8)}-{tracing.samples(int(trace_id, 16)):02x}"


def trace_of(obj: JsonObject) -> str:
    """The ``traceparent`` of a version of an object.

    That of the creating trace if its annotation tells it. Otherwise it follows from UID and generation alone, so
    that every process finds the same one, all versions of one generation share a trace (`kubectl apply` to
    *Running* is one), and a changed spec starts a new one. Its id also decides whether it is exported (FW-572).
    """
    stamped = _stamped(obj)
    if stamped is not None:
        return shared(stamped)
    metadata = obj.get("metadata") or {}
    digest = hashlib.sha256(f"{metadata.get('uid', '')}/{metadata.get('generation', 0)}".encode()).hexdigest()
    return shared(f"00-{digest[:32]}-{digest[32:48]}-{tracing.samples(int(digest[:32], 16)):02x}")


def unknown_trace(uid: str) -> str:
    """For what is known of an object no more than that it is gone: nobody exports where that began."""
    digest = hashlib.sha256(uid.encode()).hexdigest()
    return f"00-{digest[:32]}-{digest[32:48]}-00"


def is_own(obj: JsonObject) -> bool:
    """Whether the trace of an object begins with it, and with nobody who wrote it."""
    return _stamped(obj) is None


def _stamped(obj: JsonObject) -> str | None:
    found = ((obj.get("metadata") or {}).get("annotations") or {}).get(annotation_keys.TRACEPARENT)
    return found if isinstance(found, str) and is_traceparent(found) else None
