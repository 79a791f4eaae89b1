"""What metrics show of the access to registries (MS-351, FW-387); hosts are named, credentials never (FW-398)."""

from collections.abc import Mapping

from controller_runtime import Readings
from oci_registry import RegistryClient


def registry_readings(client: RegistryClient) -> Readings:
    """Requests by host and status class, limits that registries set, and unprotected endpoints."""
    seen = client.statistics()
    answers = [({"host": host, "status": status}, float(n)) for (host, status), n in sorted(seen.answers.items())]
    return {
        "aim_registry_requests_total": answers,
        "aim_registry_retries_total": _by_host(seen.retries),
        "aim_registry_rate_limited_total": _by_host(seen.rate_limited),
        "aim_registry_wait_seconds": _by_host(seen.waiting_hosts),
        "aim_registry_insecure_endpoints": [({}, float(client.insecure_endpoints))],
    }


def _by_host(numbers: Mapping[str, float]) -> list[tuple[Mapping[str, str], float]]:
    return [({"host": host}, float(number)) for host, number in sorted(numbers.items())]
