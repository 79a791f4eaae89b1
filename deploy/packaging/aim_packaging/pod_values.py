"""What values say of pods and containers, in the words of Kubernetes, as far as wrong ones can be found (FW-708)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from controller_runtime import JsonObject

Objects = list[dict[str, Any]]
Object = dict[str, Any]
Texts = dict[str, str]
Quantity = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(m|[KMGTPE]i|[kMGTPE]|[eE][0-9]+)?$")]
_SELECTOR = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")
_OWN = (
    *_SELECTOR,
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "helm.sh/chart",
)


def _none_of(names: tuple[str, ...]) -> JsonObject:
    return {"properties": dict.fromkeys(names, False)}


PodLabels = Annotated[Texts, Field(json_schema_extra=_none_of((*_SELECTOR, "app.kubernetes.io/part-of")))]
"""Besides those that selectors go by."""
CommonLabels = Annotated[Texts, Field(json_schema_extra=_none_of(_OWN))]


class Part(BaseModel):
    """A part of the values; names that it does not know are refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Variable(Part):
    """An environment variable."""

    name: str = Field(min_length=1)
    value: str = ""
    value_from: Object = {}


class SecretName(Part):
    """The name of a Secret."""

    name: str = Field(min_length=1)


class Toleration(Part):
    """A taint that pods tolerate."""

    key: str = ""
    operator: Literal["Equal", "Exists", "Lt", "Gt"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int = 0


class Spread(Part):
    """How pods are spread over a topology."""

    max_skew: int = Field(ge=1)
    topology_key: str = Field(min_length=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: Object = {}
    match_label_keys: list[str] = []
    min_domains: int = 1
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"


Variables = list[Variable]
Secrets = list[SecretName]
Tolerations = list[Toleration]
Spreads = list[Spread]


class Resources(Part):
    """Requests and limits of a container."""

    limits: dict[str, Quantity | int | float | None] = {"cpu": "500m", "memory": "4Gi"}
    requests: dict[str, Quantity | int | float | None] = {"cpu": "100m", "memory": "256Mi"}


class OneOff(Part):
    """A pod that runs once; empty values default to those of `manager`."""

    image_pull_secrets: Secrets = []
    resources: Resources = Resources(limits={"cpu": "500m", "memory": "512Mi"})
    node_selector: Texts = {}
    tolerations: Tolerations = []
    affinity: Object = {}
    priority_class_name: str = ""
