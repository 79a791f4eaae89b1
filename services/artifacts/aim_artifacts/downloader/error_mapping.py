"""From exceptions of the clients to exit codes (AR-766)."""

import errno
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from botocore.exceptions import ClientError, ParamValidationError
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from aim_artifacts.downloader.environment import AUTHORITIES
from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_REFUSED_BY_S3: Final = frozenset({"InvalidToken", "ExpiredToken"})
"""Error codes of S3 whose status says less."""
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
"""What OpenSSL calls a certificate of an unknown authority, in the text of any client."""


def download_error(error: BaseException) -> DownloadError:
    """The failure that an exception means; an unknown one is a transient failure of the transfer."""
    if isinstance(error, DownloadError):
        return error
    for cause in _chain(error):
        code = _code(cause)
        if code is not None:
            return DownloadError(code, _text(cause))
    return DownloadError(ExitCode.DOWNLOAD_FAILED, _text(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it: clients wrap the decisive one."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _code(error: BaseException) -> ExitCode | None:
    # A gated repository is a kind of missing one to the client, and an HTTP error is a kind of OSError.
    if isinstance(error, GatedRepoError | DisabledRepoError | LocalTokenNotFoundError):
        return ExitCode.AUTH
    if isinstance(error, RepositoryNotFoundError | RevisionNotFoundError | HFValidationError):
        return ExitCode.SOURCE_NOT_FOUND
    if isinstance(error, HfHubHTTPError):
        return _code_of_status(error)
    if isinstance(error, ClientError):
        return _code_of_s3(error)
    if isinstance(error, ParamValidationError):
        return ExitCode.SOURCE_NOT_FOUND
    if isinstance(error, OSError) and error.errno in _FULL:
        return ExitCode.STORAGE_FULL
    return None


def _code_of_status(error: HfHubHTTPError) -> ExitCode:
    status = error.response.status_code
    if status in _REFUSED:
        return ExitCode.AUTH
    if status == HTTPStatus.NOT_FOUND or isinstance(error, EntryNotFoundError):
        return ExitCode.SOURCE_NOT_FOUND
    return ExitCode.DOWNLOAD_FAILED


def _code_of_s3(error: ClientError) -> ExitCode:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    if status in _REFUSED or error.response["Error"]["Code"] in _REFUSED_BY_S3:
        return ExitCode.AUTH
    return ExitCode.SOURCE_NOT_FOUND if status == HTTPStatus.NOT_FOUND else ExitCode.DOWNLOAD_FAILED


def _text(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3]) or type(error).__name__
    if _UNTRUSTED in text:
        return f"{text}; put the certificate authority of the host into {AUTHORITIES}"
    return text
