"""What it means when none of a registry's endpoints helped (FW-389, FW-390)."""

from collections.abc import Sequence

from oci_registry.endpoints import Endpoint
from oci_registry.errors import RegistryError, RegistryErrorCode

Failure = tuple[Endpoint, RegistryError]


def combined_error(registry: str, failures: Sequence[Failure]) -> RegistryError:
    """One error for all endpoints: a transient outcome wins, then a refused authentication, then not found.

    A single endpoint's error stays as it is.
    """
    if not failures:
        return RegistryError(
            RegistryErrorCode.UNREACHABLE,
            f"access to {registry} is switched off: no mirror, and the upstream is disabled in --registry-config",
        )
    deciding = _deciding(failures)
    if len(failures) == 1:
        return deciding
    causes = "; ".join(f"{endpoint}: {error}" for endpoint, error in failures)
    return RegistryError(
        deciding.code,
        f"no endpoint of {registry} answered the request: {causes}",
        status=deciding.status,
        retry_after=deciding.retry_after,
        reached=any(error.reached for _, error in failures),
    )


def _deciding(failures: Sequence[Failure]) -> RegistryError:
    errors = [error for _, error in failures]
    ranked = (
        [error for error in errors if error.code.is_outage],
        [error for error in errors if error.code is RegistryErrorCode.AUTH_FAILED],
        [error for error in errors if error.code is RegistryErrorCode.NOT_FOUND],
        errors,
    )
    return next(candidates[-1] for candidates in ranked if candidates)
