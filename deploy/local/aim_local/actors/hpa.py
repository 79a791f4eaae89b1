"""The horizontal pod autoscaler: scales Deployments to what metrics ask for, which an annotation says."""

import asyncio
from typing import final

from aim_domain import labels
from aim_local.actors.asked_replicas import asked_replicas
from aim_local.actors.failures import Failure
from aim_local.actors.hpa_status import Outcome, desired_replicas, recommendation, status_for
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import DEPLOYMENT
from aim_local.actors.objects import is_going, labels_of, now_text
from aim_local.actors.settings import ActorSettings
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER


@final
class HorizontalPodAutoscalers:
    """Acts on each autoscaler when it, its Deployment or its InferenceService changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        failures: WantedFailures,
        *,
        autoscalers: Informer,
        deployments: Informer,
        inference_services: Informer,
    ) -> None:
        """``autoscalers`` are grouped with `by_target`."""
        self._writer = writer
        self._settings = settings
        self._failures = failures
        self._autoscalers = autoscalers
        self._deployments = deployments
        self._inference_services = inference_services
        self.workers = Workers("hpa", self._handle)
        autoscalers.listen(lambda key, _: self.workers.add(key))
        deployments.listen(lambda key, _: self._wake(target_group(key)))
        inference_services.listen(lambda key, _: self._wake(owner_group(key)))
        failures.listen(self._look_again)

    def _look_again(self) -> None:
        for key in self._autoscalers.objects:
            self.workers.add(key)

    def _wake(self, group: str) -> None:
        for key in self._autoscalers.group(group):
            self.workers.add(key)

    async def _handle(self, key: Key) -> None:
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None or is_going(autoscaler):
            return
        target = self._deployments.get(Key(key.namespace, autoscaler["spec"]["scaleTargetRef"]["name"]))
        isvc = self._inference_services.get(Key(key.namespace, _service_name(autoscaler)))
        asked = recommendation(autoscaler, asked_replicas(autoscaler, isvc))
        failed = self._failures.of(Failure.METRICS, autoscaler, isvc) is not None
        replicas = target["spec"].get("replicas", 1) if target else None
        desired = desired_replicas(autoscaler, asked, replicas, failed=failed)
        rescaled = target is not None and desired != replicas
        if target is not None and rescaled:
            await asyncio.sleep(self._settings.delay)
            self._deployments.put_if(await self._writer.patch(DEPLOYMENT, target, {"spec": {"replicas": desired}}))
        outcome = Outcome(replicas, desired, asked, rescaled=rescaled, failed=failed)
        status = status_for(autoscaler, outcome, now_text())
        if status != autoscaler.get("status"):
            self._autoscalers.put_if(await self._writer.status(HORIZONTAL_POD_AUTOSCALER, autoscaler, status))


def by_target(autoscaler: JsonObject) -> tuple[str, ...]:
    """Groups autoscalers by Deployment and by InferenceService."""
    namespace = autoscaler["metadata"]["namespace"]
    target = target_group(Key(namespace, autoscaler["spec"]["scaleTargetRef"]["name"]))
    service = _service_name(autoscaler)
    return (target, owner_group(Key(namespace, service))) if service else (target,)


def target_group(deployment: Key) -> str:
    """The group of a Deployment's autoscalers."""
    return f"target {deployment}"


def owner_group(inference_service: Key) -> str:
    """The group of an InferenceService's autoscalers."""
    return f"owner {inference_service}"


def _service_name(autoscaler: JsonObject) -> str:
    return labels_of(autoscaler).get(labels.KSERVE_INFERENCE_SERVICE, "")
