"""Whether an artifact is in use (AR-463)."""

from dataclasses import dataclass, field

from aim_artifacts.indexes import (
    ARTIFACT_PODS_BY_CLAIM,
    CACHES_BY_ARTIFACT,
    PREDICTOR_PODS_BY_CLAIM,
    USERS_BY_CLAIM,
)
from aim_artifacts.limits.demand import is_demanded
from aim_artifacts.limits.eviction import Candidate
from aim_artifacts.limits.mounts import last_mounted
from aim_domain import is_job_finished
from aim_domain.naming import download_job_name
from aim_domain.parts import ARTIFACT_JOBS
from controller_runtime import View, scoped


@dataclass(slots=True)
class Usage:
    """Who uses artifacts, as one view shows it. What cannot be looked up is believed to be in use.

    Attributes:
        mounted_elsewhere: namespaces in which somebody was in use only by what a live list of pods found.
    """

    view: View
    mounted_elsewhere: set[str] = field(default_factory=set)
    _mounted: dict[str, frozenset[str]] = field(default_factory=dict)

    def is_in_use(self, candidate: Candidate) -> bool:
        """Whether anything uses it; the reasons are looked at in the order of what they cost."""
        if self._is_mounted(candidate) or self._downloads(candidate) or self._is_wanted(candidate):
            return True
        if candidate.claim not in self._mounted_in(candidate.namespace):
            return False
        self.mounted_elsewhere.add(candidate.namespace)
        return True

    def _is_mounted(self, candidate: Candidate) -> bool:
        claim = scoped(candidate.namespace, candidate.claim)
        users = self.view.select(USERS_BY_CLAIM, claim)
        if users.items or users.error:
            return True
        pods = (self.view.select(index, claim) for index in (PREDICTOR_PODS_BY_CLAIM, ARTIFACT_PODS_BY_CLAIM))
        return any(found.items or found.error for found in pods)

    def _downloads(self, candidate: Candidate) -> bool:
        job = self.view.get(ARTIFACT_JOBS, candidate.namespace, download_job_name(candidate.name, candidate.uid))
        return job.error is not None or (job.value is not None and not is_job_finished(job.value))

    def _is_wanted(self, candidate: Candidate) -> bool:
        caches = self.view.select(CACHES_BY_ARTIFACT, candidate.uid)
        return caches.error is not None or any(is_demanded(cache, self.view) for cache in caches.items)

    def _mounted_in(self, namespace: str) -> frozenset[str]:
        if namespace not in self._mounted:
            self._mounted[namespace] = last_mounted(self.view, namespace)
        return self._mounted[namespace]
