"""serving.kserve.io/v1beta1 InferenceService: what is read of the running workload (SV-190 to SV-197)."""

from __future__ import annotations

from controller_runtime import ApiModel, Condition, Items, Resource
from controller_runtime.core import Container, ResourceRequirements, Volume


class PredictorModel(ApiModel):
    """The model part of a predictor."""

    name: str = ""
    image: str = ""
    runtime: str | None = None
    resources: ResourceRequirements = ResourceRequirements()


class Predictor(ApiModel):
    """How the model is run."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    model: PredictorModel | None = None
    containers: Items[Container] = ()
    volumes: Items[Volume] = ()
    service_account_name: str = ""
    priority_class_name: str = ""


class InferenceServiceSpec(ApiModel):
    """What is served."""

    predictor: Predictor = Predictor()


class InferenceServiceStatus(ApiModel):
    """Observed state of the workload; `observed_generation` is the Deployment's."""

    conditions: Items[Condition] = ()
    observed_generation: int | None = None
    url: str | None = None


class InferenceService(Resource):
    """serving.kserve.io/v1beta1 InferenceService."""

    api_version: str = "serving.kserve.io/v1beta1"
    kind: str = "InferenceService"
    spec: InferenceServiceSpec = InferenceServiceSpec()
    status: InferenceServiceStatus = InferenceServiceStatus()
