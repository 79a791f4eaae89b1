"""What the kubelet says when an image can't be pulled. Pure functions."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from aim_local.actors.failures import Failure


def no_such_image(image: str) -> str:
    """The registry does not have the image."""
    found = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
    # Only codes that say something are shown; `Unknown`, that of the other errors, is not.
    return f"rpc error: code = NotFound desc = {found}"


def no_access_to_image(image: str) -> str:
    """The registry wants other credentials."""
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": pull access denied, '
        "repository does not exist or may require authorization: authorization failed: no basic auth credentials"
    )


def too_many_pulls(image: str) -> str:
    """The registry has had enough."""
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": unexpected status from '
        f"HEAD request to https://registry-1.docker.io/v2/{_manifest(image)}: 429 Too Many Requests: toomanyrequests: "
        "You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"
    )


def _manifest(image: str) -> str:
    repository, _, tag = image.rpartition(":")
    return f"{repository.removeprefix('docker.io/')}/manifests/{tag}"


PULL_ERRORS: Final[Mapping[Failure, Callable[[str], str]]] = MappingProxyType(
    {
        Failure.IMAGE_PULL: no_such_image,
        Failure.IMAGE_AUTH: no_access_to_image,
        Failure.IMAGE_RATE_LIMIT: too_many_pulls,
    }
)
"""By failure, the text about an image."""
