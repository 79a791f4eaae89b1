"""One whole run of the platform, through all five services, whose event log is replayed afterwards."""

import asyncio
import shutil
from pathlib import Path

from support.stack import OWN, Platform, started_platform, status_of

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
NAMESPACE = "whole"
SHORT = {"discovery": {"AIM_MAX_DISCOVERY_JOBS": "2"}}
"""So few that templates of the model source have to stand in line."""
_METRIC = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {"metricNames": ["vllm:num_requests_running"], "query": "vllm:num_requests_running"},
        "target": {"type": "Value", "value": "1"},
    },
}


async def logged_run(folder: Path) -> Path:
    """Run the platform through the story; returns the store of its broker, with all that was logged."""
    async with started_platform(folder / "platform", service_env=SHORT) as platform:
        await story(platform)
        store = platform.stack.settings.folder / "nats"
        await platform.stack["nats"].stop()
        copy = folder / "log"
        await asyncio.to_thread(shutil.copytree, store, copy)
    return copy


async def story(platform: Platform) -> None:
    """Source, model, templates, cache and artifact, service, route; failures, updates, and what is deleted again."""
    await platform.namespace(NAMESPACE)
    await _source(platform)
    await _model_of_its_own(platform)
    chat = await platform.service(
        NAMESPACE,
        "chat",
        model={"image": IMAGE},
        env=[{"name": "GREETING", "value": "hello"}, {"name": "HF_TOKEN", "value": "none"}],
        routing={"enabled": True, "pathTemplate": "/{.metadata.namespace}/talk/{.metadata.name}"},
    )
    alone = await platform.service(NAMESPACE, "alone", model={"image": IMAGE}, caching={"mode": "Dedicated"})
    scaled = await platform.service(
        NAMESPACE,
        "scaled",
        model={"image": IMAGE},
        minReplicas=1,
        maxReplicas=3,
        autoScaling={"metrics": [_METRIC]},
        overrides={"metric": "throughput"},
    )
    for path in (chat, alone, scaled):
        await platform.running(path, 60)
    lost = await platform.service(NAMESPACE, "lost", model={"name": "there-is-no-such-model"})
    await platform.until(lost, lambda obj: bool((obj.get("status") or {}).get("conditions")))
    await platform.api.merge(chat, {"spec": {"replicas": 2, "env": [{"name": "GREETING", "value": "good day"}]}})
    await platform.until(chat, lambda obj: ((obj.get("status") or {}).get("runtime") or {}).get("replicas") == "2")
    await _tokens(platform)
    await platform.api.delete(alone)
    await platform.api.until_gone(alone)
    await platform.api.delete(f"{OWN}/aimclustermodelsources/whole-source")
    await platform.api.until_gone(f"{OWN}/aimclustermodelsources/whole-source")


async def _source(platform: Platform) -> None:
    """One that is wrong at first; then it finds a model that there is, one that it makes, and one more than it may."""
    await platform.until(f"{OWN}/aimclustermodelsources/amd-catalogue", lambda obj: status_of(obj) == "Ready")
    path = f"{OWN}/aimclustermodelsources/whole-source"
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "metadata": {"name": "whole-source"},
        "spec": {"images": ["amdenterpriseai/aim-qwen-qwen3-32b", "amdenterpriseai/aim-dummy"], "versions": [">>1"]},
    }
    await platform.api.created(f"{OWN}/aimclustermodelsources", body)
    await platform.until(path, lambda obj: status_of(obj) == "Failed")
    await platform.api.merge(path, {"spec": {"versions": ["<=0.8.5"], "maxModels": 1}})
    await platform.until(path, lambda obj: status_of(obj) == "Ready")


async def _model_of_its_own(platform: Platform) -> None:
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": {"name": "own", "namespace": NAMESPACE},
        "spec": {"image": "amdenterpriseai/aim-dummy:0.1.0"},
    }
    await platform.api.created(f"{OWN}/namespaces/{NAMESPACE}/aimmodels", body)
    await platform.until(f"{OWN}/namespaces/{NAMESPACE}/aimmodels/own", lambda obj: status_of(obj) == "Ready")


async def _tokens(platform: Platform) -> None:
    """A download that fails for lack of access, and is repaired."""
    namespace = f"{NAMESPACE}-gated"
    await platform.namespace(namespace, **{"local.aim/fail": "download=auth"})
    path = await platform.service(namespace, "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: status_of(obj) == "Degraded")
    await platform.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": {"local.aim/fail": None}}})
    await platform.api.merge(path, {"spec": {"env": [{"name": "HF_TOKEN", "value": "good"}]}})
    await platform.running(path, 60)
