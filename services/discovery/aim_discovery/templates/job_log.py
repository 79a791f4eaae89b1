"""The result of a finished discovery Job, read from the log of its pod (DI-259…DI-266)."""

from typing import Final

from aim_discovery.templates.attempts import RESULT_UNREADABLE
from aim_discovery.templates.job import CONTAINER
from aim_discovery.templates.output import InvalidOutputError, first_profile
from aim_domain import labels
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    EffectError,
    EffectType,
    JsonObject,
    KubeClient,
    KubeError,
    PodPhase,
    access,
    dumps,
)
from controller_runtime.kinds import POD

_LARGEST_LOG: Final = 16 << 20
_LARGEST_ELEMENT: Final = 1 << 20
"""Facts travel in messages of at most 4 MB."""


class JobLogParams(ApiModel):
    """Which finished Job's log is read."""

    namespace: str
    job: str


class JobOutput(ApiModel):
    """What a discovery Job has found.

    Attributes:
        element: the first profile as it was printed.
        fault: why there is none (DI-280).
    """

    element: JsonObject | None = None
    fault: str = ""


class JobLogReader:
    """Reads the result of a finished Job from the log of its succeeded pod."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: JobLogParams) -> JobOutput:
        """The first profile as it was printed, or why there is none.

        Raises:
            EffectError: the log cannot be read; reason ``ResultUnreadable`` (DI-260).
        """
        log = await read_succeeded_pod(self._kube, params.namespace, params.job)
        try:
            element = first_profile(log)
        except InvalidOutputError as fault:
            return JobOutput(fault=str(fault))
        if len(dumps(element)) > _LARGEST_ELEMENT:
            return JobOutput(fault=f"the profile has more than {_LARGEST_ELEMENT} bytes")
        return JobOutput(element=element)


async def read_succeeded_pod(kube: KubeClient, namespace: str, job: str) -> str:
    """The log of the pod with which a Job has succeeded.

    Raises:
        EffectError: it cannot be read; reason ``ResultUnreadable`` (DI-260).
    """
    try:
        page = await kube.list(POD, namespace, label_selector=f"{labels.JOB_NAME}={job}")
        for pod in page.items:
            if (pod.get("status") or {}).get("phase") == PodPhase.SUCCEEDED:
                return await kube.pod_log(namespace, pod["metadata"]["name"], CONTAINER, limit_bytes=_LARGEST_LOG)
    except KubeError as error:
        raise _unreadable(namespace, job, str(error)) from error
    raise _unreadable(namespace, job, "it has no succeeded pod")


def _unreadable(namespace: str, job: str, why: str) -> EffectError:
    message = f"the result of Job {namespace}/{job} cannot be read: {why}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, RESULT_UNREADABLE, message))


def _reader(clients: Clients) -> JobLogReader:
    return JobLogReader(clients.kube)


JOB_LOG: Final = EffectType(
    "job-log",
    JobLogParams,
    JobOutput,
    _reader,
    16,
    (access(POD, ApiVerb.LIST), access(POD, ApiVerb.GET, subresource="log")),
)
"""What a finished discovery Job printed."""
