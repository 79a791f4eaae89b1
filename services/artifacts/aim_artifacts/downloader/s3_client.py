"""The client of an S3 store, as the environment wants it (AR-703)."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from botocore import UNSIGNED
from botocore.config import Config
from botocore.session import Session

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode
from controller_runtime import environment_proxy

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_SIGNATURES: Final = ("s3v4", "s3")
_CONNECT_SECONDS: Final = 20
_READ_SECONDS: Final = 60
_TRIES: Final = 4
_SESSION: Final = {
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
    "profile": (None, None, None, None),
    "ignore_configured_endpoint_urls": (None, None, True, None),
}
"""No file counts, and of the environment only what is read here."""


def open_client(variables: Mapping[str, str], workers: int = 1) -> "S3Client":
    """A client with the credentials and the endpoint of the environment.

    Args:
        workers: connections that may be open at once.

    Raises:
        DownloadError: an unknown way to sign is asked for.
    """
    endpoint = endpoint_of(variables)
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or "us-east-1"
    key = variables.get("AWS_ACCESS_KEY_ID")
    proxy = environment_proxy(endpoint or f"https://s3.{region}.amazonaws.com", variables)
    client = Session(session_vars=_SESSION).create_client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        verify=variables.get("AWS_CA_BUNDLE") or variables.get("SSL_CERT_FILE") or None,
        aws_access_key_id=key or None,
        aws_secret_access_key=variables.get("AWS_SECRET_ACCESS_KEY") if key else None,
        aws_session_token=variables.get("AWS_SESSION_TOKEN") if key else None,
        config=Config(
            # Without keys only public buckets can be read; asking the machine for others would borrow its identity.
            signature_version=_signature(variables) if key else UNSIGNED,
            # Empty, not absent: the client would read the environment in its own way (FW-791).
            proxies={"http": proxy, "https": proxy} if proxy else {},
            s3={"addressing_style": "path" if endpoint else "auto"},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _TRIES},
            max_pool_connections=max(1, workers),
            tcp_keepalive=True,
            # Other stores than Amazon's refuse what they do not know; what is stored is compared at the end (AR-756).
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    return cast("S3Client", client)


def endpoint_of(variables: Mapping[str, str]) -> str | None:
    """The URL of the store; ``None`` is Amazon's."""
    url = variables.get("AWS_ENDPOINT_URL") or ""
    host = variables.get("S3_ENDPOINT") or ""
    if not url and host:
        url = f"{'http' if variables.get('S3_USE_HTTPS') == '0' else 'https'}://{host}"
    if url and "://" not in url:
        url = f"https://{url}"
    if url and variables.get("S3_NO_SSL", "").lower() == "true":
        url = f"http://{url.partition('://')[2]}"
    return url.rstrip("/") or None


def _signature(variables: Mapping[str, str]) -> str:
    version = variables.get("AIM_S3_SIGNATURE_VERSION") or _SIGNATURES[0]
    if version not in _SIGNATURES:
        raise DownloadError(
            ExitCode.USAGE, f"AIM_S3_SIGNATURE_VERSION is {version!r}; known are {' and '.join(_SIGNATURES)}"
        )
    return version
