"""The result of a finished discovery Job, read from the log of its pod (DI-259…DI-266)."""

from typing import Final

from aim_discovery.templates.attempts import RESULT_UNREADABLE
from aim_discovery.templates.job import CONTAINER
from aim_discovery.templates.output import InvalidOutputError, first_profile
from aim_domain import labels
from controller_runtime import (
    Category,
    ClassifiedError,
    Effect,
    EffectError,
    JsonObject,
    KubeClient,
    KubeError,
    PodPhase,
    dumps,
)
from controller_runtime.kinds import POD

_LARGEST_LOG: Final = 16 << 20
_LARGEST_ELEMENT: Final = 1 << 20
"""Facts travel in messages of at most 4 MB."""


class JobLogReader:
    """Reads the result of a finished Job from the log of its succeeded pod."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, effect: Effect) -> JsonObject:
        """``element``, the first profile as it was printed; or ``fault``, why there is none (DI-280).

        Raises:
            EffectError: the log cannot be read; reason ``ResultUnreadable`` (DI-260).
        """
        namespace, job = str(effect.params["namespace"]), str(effect.params["job"])
        try:
            log = await self._log(namespace, job)
        except KubeError as error:
            raise _unreadable(namespace, job, str(error)) from error
        try:
            element = first_profile(log)
        except InvalidOutputError as fault:
            return {"fault": str(fault)}
        if len(dumps(element)) > _LARGEST_ELEMENT:
            return {"fault": f"the profile has more than {_LARGEST_ELEMENT} bytes"}
        return {"element": element}

    async def _log(self, namespace: str, job: str) -> str:
        page = await self._kube.list(POD, namespace, label_selector=f"{labels.JOB_NAME}={job}")
        for pod in page.items:
            if (pod.get("status") or {}).get("phase") == PodPhase.SUCCEEDED:
                return await self._kube.pod_log(namespace, pod["metadata"]["name"], CONTAINER, limit_bytes=_LARGEST_LOG)
        raise _unreadable(namespace, job, "it has no succeeded pod")


def _unreadable(namespace: str, job: str, why: str) -> EffectError:
    message = f"the result of Job {namespace}/{job} cannot be read: {why}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, RESULT_UNREADABLE, message))
