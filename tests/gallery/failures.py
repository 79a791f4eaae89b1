"""Failures as users and environments cause them: how each is produced, its cause, and what ends it.

`{ns}` in manifests and commands is the namespace of the failure.
"""

from dataclasses import dataclass, field
from typing import Final

from support.builders import RUNNING_REQUESTS

from aim_domain import labels
from controller_runtime import JsonObject

IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
UNDISCOVERED: Final = "amdenterpriseai/aim-dummy:0.1.0"
"""An image whose templates need discovery."""
GOOD: Final[JsonObject] = {"model": {"image": IMAGE}}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of the AIMService ``chat``.

    Attributes:
        symptom: what a user would call it.
        cause: kind and reason of the line that `aim why` names the cause in.
        ready: words of the message of `Ready`.
        typed: how the command of the `do` line begins that ends it, or helps to; the test types the whole of it.
        spec: of the AIMService.
        before: manifests that are applied first.
        breaks: manifests that are applied once the service runs.
        environment: `local.aim/fail` of the namespace; taken back when the remedy is typed, as its words ask for.
        annotations: others of the namespace.
        own: annotations of the AIMService.
        edit: what a user changes in the editor that the command opens, as a merge patch.
        values: what a user writes instead of the placeholders of the command.
        after: the spec with which the AIMService is created again.
        neighbour: the spec of a service of the same name in the namespace `{ns}-b`, which runs before.
        heals: manifests that are applied before the command, as its words ask for.
        then: manifests that are applied after the command.
        plan: words of what `aim plan` says of the AIMService before it is applied; empty where that cannot be foreseen.
        registries: `aim plan --registries` foresees it.
        real: only a real API server refuses it.
        simulated: a simulated scheduler does it on demand; tests/real/test_real_refused_pods.py has the real one do it.
    """

    symptom: str
    cause: tuple[str, str]
    ready: str
    typed: str
    spec: JsonObject = field(default_factory=lambda: GOOD)
    before: str = ""
    breaks: str = ""
    environment: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    edit: JsonObject | None = None
    values: dict[str, str] = field(default_factory=dict)
    after: JsonObject | None = None
    neighbour: JsonObject | None = None
    heals: str = ""
    then: str = ""
    plan: str = ""
    registries: bool = False
    real: bool = False
    simulated: bool = False


DELETE: Final = "kubectl delete aimservice chat -n {ns}"
EDIT: Final = "kubectl edit aimservice chat -n {ns}"


def of_image(image: str) -> JsonObject:
    """A spec with this image."""
    return {"model": {"image": image}}


def good(**more: object) -> JsonObject:
    """A spec that would do, and more."""
    return {**GOOD, **more}


def custom(**gpu: object) -> JsonObject:
    """A spec with a model of its own, for a GPU."""
    source = {"modelId": "acme/tiny", "sourceUri": "hf://acme/tiny", "size": "1Gi"}
    hardware = {"gpu": {"requests": 1, **gpu}}
    base = "amdenterpriseai/aim-base:0.8.5"
    return {"model": {"custom": {"baseImage": base, "modelSources": [source], "hardware": hardware}}}


def unsized() -> JsonObject:
    """A spec with a model whose size is not stated, so that it is asked for."""
    spec = custom(model="MI300X")
    (source,) = spec["model"]["custom"]["modelSources"]
    del source["size"]
    return {**spec, "template": {"allowUnoptimized": True}}


def routed(gateway: str = "own", **more: object) -> JsonObject:
    """A spec with a route at a Gateway of the namespace."""
    return good(routing={"enabled": True, "gatewayRef": {"name": gateway, "namespace": "{ns}"}, **more})


def gateway(fail: str = "", kind: str = "local", name: str = "own") -> str:
    """A Gateway that takes routes of its namespace."""
    return f"""
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, annotations: {{local.aim/fail: "{fail}"}}}}
spec: {{gatewayClassName: {kind}, listeners: [{{name: http, protocol: HTTP, port: 80}}]}}
"""


def model(name: str, image: str, *, paused: bool = False) -> str:
    """An AIMModel of a user's own."""
    annotations = '{aim.eai.amd.com/reconciliation-paused: "true"}' if paused else "{}"
    return f"""
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMModel
metadata: {{name: {name}, annotations: {annotations}}}
spec:
  image: '{image}'
"""


def config(spec: str) -> str:
    """The runtime config of the namespace."""
    return f"""
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMRuntimeConfig
metadata: {{name: default}}
spec: {spec}
"""


def quota(name: str, resource: str, hard: str) -> str:
    """A ResourceQuota of the namespace."""
    return f"""
apiVersion: v1
kind: ResourceQuota
metadata: {{name: {name}}}
spec: {{hard: {{{resource}: {hard}}}}}
"""


POLICY: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: gallery}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [serving.kserve.io], apiVersions: ["*"], operations: [CREATE], resources: [inferenceservices]}
  validations: [{expression: "false", message: only the platform team creates these}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: gallery}
spec:
  policyName: gallery
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "{ns}"}}}
"""
TEMPLATE: Final = """
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMServiceTemplate
metadata: {name: mine}
spec: {modelName: nothere}
"""
SECRET: Final = """
apiVersion: v1
kind: Secret
metadata: {name: hub}
stringData: {other: x}
"""
TOKEN: Final = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]

FAILURES: Final[dict[str, Failure]] = {
    # Names and references
    "image-absent": Failure(
        "the registry has no such image",
        ("AIMModel", "ImageNotFound"),
        "ImageNotFound",
        DELETE,
        of_image("amdenterpriseai/aim-nonsense:9.9.9"),
        after=GOOD,
        plan="ImageNotFound: image amdenterpriseai/aim-nonsense:9.9.9 cannot be inspected",
        registries=True,
    ),
    "tag-absent": Failure(
        "the registry has no such tag",
        ("AIMModel", "ImageNotFound"),
        "7.7.7",
        DELETE,
        of_image("amdenterpriseai/aim-qwen-qwen3-32b:7.7.7"),
        after=GOOD,
        plan="ImageNotFound: image amdenterpriseai/aim-qwen-qwen3-32b:7.7.7 cannot be inspected",
        registries=True,
    ),
    "image-invalid": Failure(
        "the image is no name of an image",
        ("AIMModel", "InvalidImageReference"),
        "white space",
        DELETE,
        of_image("UPPER case:1"),
        after=GOOD,
        plan="white space",
    ),
    "registry-unknown": Failure(
        "the name of the registry does not resolve",
        ("AIMModel", "MetadataExtractionFailed"),
        "does not resolve",
        DELETE,
        of_image("registry.invalid/aim:1.0.0"),
        after=GOOD,
    ),
    "own-model": Failure(
        "the image of a user's own AIMModel does not exist",
        ("AIMModel", "ImageNotFound"),
        "ImageNotFound",
        "kubectl edit aimmodel mine -n {ns}",
        {"model": {"name": "mine"}},
        before=model("mine", "amdenterpriseai/aim-nonsense:9.9.9"),
        edit={"spec": {"image": IMAGE}},
        plan="ImageNotFound",
        registries=True,
    ),
    "model-absent": Failure(
        "the named model does not exist",
        ("AIMService", "ModelNotFound"),
        "neither AIMModel {ns}/nothere nor AIMClusterModel nothere exists",
        DELETE,
        {"model": {"name": "nothere"}},
        after=GOOD,
        plan="neither AIMModel {ns}/nothere nor AIMClusterModel nothere exists",
    ),
    "template-absent": Failure(
        "the named template does not exist",
        ("AIMService", "TemplateNotFound"),
        "neither AIMServiceTemplate {ns}/nothere nor AIMClusterServiceTemplate nothere exists",
        EDIT,
        good(template={"name": "nothere"}),
        edit={"spec": {"template": None}},
        plan="neither AIMServiceTemplate {ns}/nothere nor AIMClusterServiceTemplate nothere exists",
    ),
    "overrides": Failure(
        "no template is for what spec.overrides asks for",
        ("AIMService", "TemplateNotFound"),
        "matches spec.overrides",
        EDIT,
        good(overrides={"precision": "fp4"}),
        edit={"spec": {"overrides": None}},
        plan="because   AIMService {ns}/chat: TemplateReady=False TemplateNotFound",
    ),
    "unoptimized": Failure(
        "all templates are unoptimized",
        ("AIMService", "TemplateNotFound"),
        "allowUnoptimized",
        "kubectl patch aimservice chat -n {ns}",
        custom(model="MI300X"),
        plan="allowUnoptimized",
        registries=True,
    ),
    "config-absent": Failure(
        "the named runtime config does not exist",
        ("AIMService", "ReferenceNotFound"),
        "neither AIMRuntimeConfig {ns}/nothere nor AIMClusterRuntimeConfig nothere exists",
        EDIT,
        good(runtimeConfigName="nothere"),
        edit={"spec": {"runtimeConfigName": None}},
        plan="neither AIMRuntimeConfig {ns}/nothere nor AIMClusterRuntimeConfig nothere exists",
    ),
    "timeout": Failure(
        "a field has a value that cannot be used",
        ("AIMService", "InvalidSpec"),
        "'5q' is not a duration",
        EDIT,
        routed(requestTimeout="5q"),
        before=gateway(),
        edit={"spec": {"routing": {"requestTimeout": None}}},
        plan="is not a duration",
    ),
    "paused": Failure(
        "reconciliation is paused",
        ("AIMService", "Paused"),
        "",
        "kubectl annotate aimservice chat -n {ns}",
        own={labels.ANNOTATION_PAUSED: labels.TRUE},
        plan="Paused: nothing is decided about it",
    ),
    "dry-run": Failure(
        "the AIMService is only planned",
        ("AIMService", "DryRun"),
        "the plan is in ConfigMap chat-plan",
        "kubectl annotate aimservice chat -n {ns} aim.eai.amd.com/dry-run-",
        own={labels.ANNOTATION_DRY_RUN: "plan"},
    ),
    "template-without-model": Failure(
        "the model of a user's own template does not exist",
        ("AIMModel", "does not exist"),
        "AIMModel {ns}/nothere or AIMClusterModel nothere was not found",
        "kubectl get aimmodels -n {ns}",
        good(template={"name": "mine"}),
        before=TEMPLATE,
        then=model("nothere", IMAGE),
        plan="AIMModel {ns}/nothere",
    ),
    "no-templates": Failure(
        "the model makes no templates",
        ("AIMService", "TemplateNotFound"),
        "createServiceTemplates",
        "kubectl edit aimmodel mine -n {ns}",
        {"model": {"name": "mine"}},
        before=model("mine", IMAGE) + "  discovery: {createServiceTemplates: false}\n",
        edit={"spec": {"discovery": {"createServiceTemplates": True}}},
        plan="createServiceTemplates",
    ),
    "model-paused": Failure(
        "reconciliation of the model is paused",
        ("AIMModel", "Paused"),
        "not ready yet",
        "kubectl annotate aimmodel mine -n {ns}",
        {"model": {"name": "mine"}},
        before=model("mine", IMAGE, paused=True),
        plan="Paused",
    ),
    "no-labels": Failure(
        "the image states no deployment",
        ("AIMService", "TemplateNotFound"),
        "has no template and makes none",
        DELETE,
        of_image("amdenterpriseai/aim-base:0.8.5"),
        after=GOOD,
        plan="has no template and makes none",
        registries=True,
    ),
    # GPUs
    "gpu-nowhere": Failure(
        "no node has the GPU",
        ("AIMServiceTemplate", "GPUNotAvailable"),
        "no node has GPU MI355X",
        DELETE,
        custom(model="MI355X"),
        after=GOOD,
        plan="needs 1 x 1 MI355X; no node has any",
    ),
    "gpu-memory": Failure(
        "no GPU has as much memory",
        ("AIMServiceTemplate", "VRAMNotAvailable"),
        "no GPU has 900Gi of memory",
        DELETE,
        custom(minVram="900Gi"),
        after=GOOD,
        plan="VRAMNotAvailable",
        registries=True,
    ),
    "gpus-too-many": Failure(
        "no node has as many GPUs",
        ("Pod", "Unschedulable"),
        "no node is large enough",
        EDIT,
        good(resources={"limits": {"amd.com/gpu": "64"}, "requests": {"amd.com/gpu": "64"}}),
        edit={"spec": {"resources": None}},
        plan="needs 1 x 64 MI300X",
    ),
    "gpus-taken": Failure(
        "all GPUs are taken",
        ("Pod", "Unschedulable"),
        "Insufficient amd.com/gpu",
        "kubectl describe pod ",
        environment="predictor=unschedulable",
        simulated=True,
    ),
    # Images of pods
    "predictor-image": Failure(
        "the image went away after it was inspected",
        ("Pod", "ImageNotFound"),
        "cannot pull its image",
        "kubectl delete pod ",
        environment="predictor=image-pull",
    ),
    "predictor-refused": Failure(
        "the registry refuses the node",
        ("Pod", "ImagePullAuthFailure"),
        "cannot pull its image",
        EDIT,
        environment="predictor=image-auth",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "predictor-rate": Failure(
        "the registry limits the rate of pulls",
        ("Pod", "ImagePullBackOff"),
        "cannot pull its image",
        EDIT,
        environment="predictor=image-rate-limit",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "discovery-image": Failure(
        "the node cannot pull the image for discovery",
        ("Pod", "ImageNotFound"),
        "cannot pull its image",
        "kubectl delete aimservicetemplate ",
        of_image(UNDISCOVERED),
        environment="discovery=image-pull",
    ),
    "discovery-crash": Failure(
        "the discovery container of the image fails",
        ("AIMServiceTemplate", "DiscoveryFailed"),
        "exited with code 1",
        "kubectl delete aimservicetemplate ",
        of_image(UNDISCOVERED),
        environment="discovery=crash",
    ),
    "download-image": Failure(
        "the node cannot pull the downloader's image",
        ("Pod", "ImageNotFound"),
        "cannot pull its image",
        "kubectl delete pod ",
        environment="download=image-pull",
    ),
    "discovery-memory": Failure(
        "the discovery container needs more memory than its limit",
        ("Pod", "PodOOMKilled"),
        "OOMKilled",
        "kubectl delete aimservicetemplate ",
        of_image(UNDISCOVERED),
        environment="discovery=oom",
    ),
    "discovery-refused": Failure(
        "the registry refuses the node at discovery",
        ("Pod", "ImagePullAuthFailure"),
        "cannot pull its image",
        EDIT,
        of_image(UNDISCOVERED),
        environment="discovery=image-auth",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "discovery-rate": Failure(
        "the registry limits the rate at discovery",
        ("Pod", "ImagePullBackOff"),
        "cannot pull its image",
        EDIT,
        of_image(UNDISCOVERED),
        environment="discovery=image-rate-limit",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "download-refused": Failure(
        "the registry refuses the node at the download",
        ("Pod", "ImagePullAuthFailure"),
        "cannot pull its image",
        EDIT,
        environment="download=image-auth",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "download-rate": Failure(
        "the registry limits the rate at the download",
        ("Pod", "ImagePullBackOff"),
        "cannot pull its image",
        EDIT,
        environment="download=image-rate-limit",
        edit={"spec": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    # Downloads
    "token": Failure(
        "the hub refuses the token",
        ("AIMArtifact", "AuthError"),
        "401 Client Error",
        EDIT,
        environment="download=auth",
        edit={"spec": {"env": [{"name": "HF_TOKEN", "value": "good"}]}},
    ),
    "source": Failure(
        "the hub has no such model",
        ("AIMArtifact", "SourceNotFound"),
        "Repository Not Found",
        "kubectl delete aimartifact ",
        environment="download=not-found",
    ),
    "network": Failure(
        "the hub does not answer",
        ("AIMArtifact", "DownloadFailed"),
        "all protocols failed",
        "kubectl delete aimartifact ",
        environment="download=download",
    ),
    "disk-full": Failure(
        "the volume is full",
        ("AIMArtifact", "StorageFull"),
        "No space left on device",
        "kubectl delete aimartifact ",
        environment="download=storage-full",
    ),
    "download-crash": Failure(
        "the download ends with an error",
        ("AIMArtifact", "PodFailed"),
        "exited with code 1",
        "kubectl delete aimartifact ",
        environment="download=crash",
    ),
    "secret-absent": Failure(
        "the Secret of the token does not exist",
        ("Pod", "CreateContainerConfigError"),
        'secret "hub" not found',
        "kubectl create secret generic hub -n {ns}",
        good(env=TOKEN),
        values={"KEY=VALUE": "token=good"},
        plan="Secret {ns}/hub does not exist",
    ),
    "secret-key": Failure(
        "the Secret has no such key",
        ("Pod", "CreateContainerConfigError"),
        "couldn't find key token",
        "kubectl patch secret hub -n {ns}",
        good(env=TOKEN),
        before=SECRET,
        values={"VALUE": "good"},
        plan="Secret {ns}/hub has no key token",
    ),
    "download-memory": Failure(
        "the download needs more memory than its limit",
        ("Pod", "PodOOMKilled"),
        "OOMKilled",
        "kubectl delete aimartifact ",
        environment="download=oom",
    ),
    "download-hangs": Failure(
        "the download does not end",
        ("AIMArtifact", "JobRunning"),
        "is being filled",
        "aim cache -n {ns}",
        environment="download=hang",
    ),
    "size-token": Failure(
        "the hub refuses the token when it is asked for the size",
        ("AIMArtifact", "AuthError"),
        "401 Client Error",
        EDIT,
        unsized(),
        environment="check-size=auth",
        edit={"spec": {"env": [{"name": "HF_TOKEN", "value": "good"}]}},
    ),
    "size-source": Failure(
        "the hub has no such model to ask the size of",
        ("AIMArtifact", "SourceNotFound"),
        "Repository Not Found",
        "kubectl delete aimartifact ",
        unsized(),
        environment="check-size=not-found",
    ),
    "size-crash": Failure(
        "the check of the size ends with an error",
        ("AIMArtifact", "PodFailed"),
        "exited with code 1",
        "kubectl delete aimartifact ",
        unsized(),
        environment="check-size=crash",
    ),
    "size-image": Failure(
        "the node cannot pull the image that asks for the size",
        ("Pod", "ImageNotFound"),
        "cannot pull its image",
        "kubectl delete pod ",
        unsized(),
        environment="check-size=image-pull",
    ),
    # Volumes
    "pool-full": Failure(
        "the pool of the storage class is full",
        ("Event", "ProvisioningFailed"),
        "no space left in pool",
        "kubectl get pv",
        environment="pvc",
    ),
    "quota": Failure(
        "the model is larger than the limit of the namespace",
        ("AIMArtifact", "ExceedsQuotaLimit"),
        "uses 0 B of 1 GiB",
        "kubectl edit namespace {ns}",
        annotations={"aim.eai.amd.com/artifact-storage-quota": "1Gi"},
        edit={"metadata": {"annotations": {"aim.eai.amd.com/artifact-storage-quota": None}}},
        plan="ExceedsQuotaLimit",
    ),
    "storage-class": Failure(
        "the named storage class does not exist",
        ("Event", "ProvisioningFailed"),
        "nothere",
        "kubectl delete aimtemplatecache ",
        before=config("{storage: {defaultStorageClassName: nothere}}"),
        heals=config("{storage: {}}"),
        plan="StorageClass nothere does not exist",
    ),
    # Predictors
    "crash": Failure(
        "the engine crashes",
        ("Pod", "CrashLoopBackOff"),
        "keeps crashing",
        "kubectl logs ",
        environment="predictor=crash",
    ),
    "memory": Failure(
        "the engine needs more memory than its limit",
        ("Pod", "CrashLoopBackOff"),
        "OOMKilled",
        EDIT,
        environment="predictor=oom",
        edit={"spec": {"resources": {"limits": {"memory": "96Gi"}}}},
    ),
    "not-ready": Failure(
        "the engine never becomes ready",
        ("Pod", "PodsStarting"),
        "running but not ready",
        "kubectl logs ",
        environment="predictor=not-ready",
    ),
    "slow": Failure(
        "the engine takes long to start",
        ("Pod", "PodsStarting"),
        "running but not ready",
        "kubectl logs ",
        environment="predictor=slow-start:600",
    ),
    # Routes
    "gateway-absent": Failure(
        "the named Gateway does not exist",
        ("Gateway", "does not exist"),
        "has not accepted HTTPRoute",
        "kubectl get gateways -n {ns}",
        routed(),
        then=gateway(),
        plan="Gateway {ns}/own does not exist",
    ),
    "gateway-class": Failure(
        "no controller serves the class of the Gateway",
        ("Gateway", "NoController"),
        "has not accepted HTTPRoute",
        "kubectl get gatewayclasses",
        routed(),
        before=gateway("gateway-missing", "other"),
        then=gateway(),
        plan="Gateway {ns}/own: NoController",
    ),
    "gateway-broken": Failure(
        "the Gateway is not programmed",
        ("AIMService", "GatewayNotProgrammed"),
        "Invalid",
        "kubectl describe gateways -A",
        routed(),
        before=gateway("gateway:Invalid"),
        then=gateway(),
        plan="Gateway {ns}/own: Programmed=False Invalid",
    ),
    "path-template": Failure(
        "the path cannot be made from its template",
        ("AIMService", "PathTemplateInvalid"),
        "{.metadata.labels.nope}: no result",
        EDIT,
        routed(pathTemplate="/{.metadata.labels.nope}"),
        before=gateway(),
        edit={"spec": {"routing": {"pathTemplate": None}}},
        plan="{.metadata.labels.nope}: no result",
    ),
    "routing-lost": Failure(
        "a runtime config no longer enables routing",
        ("AIMService", "RoutingDisabled"),
        "All components are ready",
        EDIT,
        before=gateway() + "---" + config("{routing: {enabled: true, gatewayRef: {name: own, namespace: {ns}}}}"),
        breaks=config("{routing: {enabled: false}}"),
        edit={"spec": {"routing": {"enabled": True, "gatewayRef": {"name": "own", "namespace": "{ns}"}}}},
    ),
    "gateway-lost": Failure(
        "the Gateway of a running service is no longer programmed",
        ("AIMService", "GatewayNotProgrammed"),
        "Invalid",
        "kubectl describe gateways -A",
        routed(),
        before=gateway(),
        breaks=gateway("gateway:Invalid"),
        then=gateway(),
    ),
    "path-root": Failure(
        "the path is reserved",
        ("AIMService", "PathReserved"),
        "contains the paths of other namespaces",
        EDIT,
        routed(pathTemplate="/"),
        before=gateway(),
        edit={"spec": {"routing": {"pathTemplate": None}}},
        plan="contains the paths of other namespaces",
    ),
    "path-taken": Failure(
        "another namespace has the path",
        ("AIMService", "PathConflict"),
        "which has it; choose another pathTemplate",
        EDIT,
        routed(pathTemplate="/team/chat"),
        before=gateway().replace("port: 80}", "port: 80, allowedRoutes: {namespaces: {from: All}}}"),
        neighbour=routed(pathTemplate="/team/chat"),
        edit={"spec": {"routing": {"pathTemplate": None}}},
        plan="which has it",
    ),
    "config-timeout": Failure(
        "a runtime config has a value that cannot be used",
        ("AIMService", "InvalidSpec"),
        "of its runtime config: '5q' is not a duration",
        EDIT,
        before=config("{routing: {enabled: true, requestTimeout: 5q}}"),
        edit={"spec": {"routing": {"requestTimeout": "30s"}}},
        plan="is not a duration",
    ),
    # What admission refuses
    "service-account": Failure(
        "the service account does not exist",
        ("AIMService", "FailedCreate"),
        'serviceaccount "runner" not found',
        "kubectl create serviceaccount runner -n {ns}",
        good(serviceAccountName="runner"),
        plan="ServiceAccount",
        real=True,
    ),
    "priority-class": Failure(
        "the priority class does not exist",
        ("AIMService", "FailedCreate"),
        "no PriorityClass with name {ns} was found",
        "kubectl create priorityclass {ns} --value=VALUE",
        before=config("{predictors: {priorityClassName: {ns}}}"),
        values={"VALUE": "1000"},
        plan="PriorityClass {ns}",
        real=True,
    ),
    "quota-gpus": Failure(
        "a quota of the namespace has no GPU left",
        ("AIMService", "FailedCreate"),
        "exceeded quota: gpus",
        "kubectl edit resourcequota gpus -n {ns}",
        before=quota("gpus", "requests.amd.com/gpu", "0"),
        edit={"spec": {"hard": {"requests.amd.com/gpu": "8"}}},
        plan="ResourceQuota {ns}/gpus: 0 of 0 requests.amd.com/gpu are left, 1 are needed",
        real=True,
    ),
    "quota-storage": Failure(
        "a quota of the namespace has no room for the volume",
        ("AIMArtifact", "InfrastructureError"),
        "exceeded quota: storage",
        "kubectl edit resourcequota storage -n {ns}",
        before=quota("storage", "requests.storage", "1Gi"),
        edit={"spec": {"hard": {"requests.storage": "1Ti"}}},
        plan="ResourceQuota {ns}/storage: 1Gi of 1Gi requests.storage are left, 68Gi are needed",
        real=True,
    ),
    "limit-range": Failure(
        "a LimitRange is below what a pod asks for",
        ("Event", "FailedCreate"),
        "maximum cpu usage per Container is 2",
        "kubectl edit limitrange -n {ns}",
        before="""
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, max: {cpu: 2}}]}
""",
        edit={"spec": {"limits": [{"type": "Container", "max": {"cpu": "64"}}]}},
        real=True,
    ),
    "policy": Failure(
        "an admission policy denies the InferenceService",
        ("AIMService", "InvalidSpec"),
        "only the platform team creates these",
        "kubectl edit validatingadmissionpolicybinding gallery",
        before=POLICY,
        edit={
            "spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "none"}}}}
        },
        real=True,
    ),
    "node-selector": Failure(
        "no node has the labels that the runtime config asks for",
        ("Pod", "Unschedulable"),
        "didn't match Pod's node affinity/selector",
        "kubectl label node NODE KEY=VALUE",
        before=config("{predictors: {nodeSelector: {pool: gallery}}}"),
        values={"NODE": "--all", "KEY=VALUE": "pool=gallery"},
        real=True,
    ),
    # Autoscaling
    "metrics": Failure(
        "the autoscaler gets no metric",
        ("AIMService", "WaitingForMetrics"),
        "unable to fetch metrics",
        "kubectl describe hpa -n {ns}",
        good(minReplicas=1, maxReplicas=3, autoScaling={"metrics": [RUNNING_REQUESTS]}),
        environment="metrics",
    ),
}
"""By name, which is also the end of the namespace's."""
