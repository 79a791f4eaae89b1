"""Tells the engine which predictor pods can answer."""

from typing import final

from aim_domain import labels
from aim_domain.naming import predictor_name
from aim_local.actors.informer import Informer
from aim_local.actors.kserve_objects import SERVING_CONTAINER, model_name
from aim_local.actors.objects import is_ready, labels_of
from aim_local.actors.pod_groups import predictor_group
from aim_local.engine import Backends
from controller_runtime import JsonObject, Key


@final
class ServingPods:
    """Keeps the backends right as pods come, get ready and go; ``pods`` are grouped with `pod_groups`."""

    def __init__(self, backends: Backends, pods: Informer) -> None:
        self._backends = backends
        self._pods = pods
        pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        name = labels_of(pod).get(labels.KSERVE_INFERENCE_SERVICE)
        if not name:
            return
        service = Key(key.namespace, name)
        pods = list(self._pods.group(predictor_group(service)).values())
        if not pods:
            self._backends.remove(service)
            return
        containers = pods[-1]["spec"]["containers"]
        own = next((one for one in containers if one["name"] == SERVING_CONTAINER), containers[0])
        ready = [one["metadata"]["name"] for one in pods if is_ready(one)]
        self._backends.update(Key(key.namespace, predictor_name(name)), service, model_name(own, name), ready)
