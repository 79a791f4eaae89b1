"""A small OCI distribution server with AIM images, for demos and tests."""

from aim_local.registry.auth import BasicAuth, BearerAuth
from aim_local.registry.images import DEMO_IMAGES, discovery_log, discovery_output, fill, find_image
from aim_local.registry.server import DEMO_AUTH, Fault, LocalRegistry
from aim_local.registry.store import ImageStore, StoredImage

__all__ = [
    "DEMO_AUTH",
    "DEMO_IMAGES",
    "BasicAuth",
    "BearerAuth",
    "Fault",
    "ImageStore",
    "LocalRegistry",
    "StoredImage",
    "discovery_log",
    "discovery_output",
    "fill",
    "find_image",
]
