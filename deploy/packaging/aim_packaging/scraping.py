"""Which targets are the platform's, as rules and dashboards select them (FW-711).

Names such as ``workqueue_depth`` are those of every controller of a cluster; what tells ours apart is the job: a
ServiceMonitor calls it after the Service (``aim-engine-serving-metrics``), a PodMonitor after itself with its namespace
before it, and a scraper without either gives it a name that begins alike.
"""

from typing import Final

JOBS: Final = "(.+/)?aim-engine-.*"
OWN: Final = f'job=~"{JOBS}"'
"""A matcher of the targets of all services."""


def of(service: str) -> str:
    """A matcher of the targets of one service."""
    return f'job=~"(.+/)?aim-engine-{service}(-metrics)?"'
