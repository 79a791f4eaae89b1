"""The values of the chart: their names, types, defaults and meaning. `values.yaml` and its schema are made of this.

Names and defaults of FW-320 are kept where they still mean something (FW-326).
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from aim_domain.services import SERVICES
from aim_packaging.pod_values import (
    CommonLabels,
    Object,
    Objects,
    OneOff,
    Part,
    PodLabels,
    Resources,
    Spreads,
    Texts,
    Tolerations,
    Variables,
)
from aim_packaging.pod_values import Secrets as PullSecrets
from controller_runtime import MOST_SHARDS
from controller_runtime.duration import UNSIGNED_PATTERN
from controller_runtime.log import BROKER_URLS
from controller_runtime.telemetry import LogFormat, LogLevel

Share = Annotated[float, Field(ge=0, le=1)]
ShareText = Annotated[str, Field(pattern=r"^(0|1|0?\.[0-9]+|0\.|1\.0*)$")]
"""The same as text: `helm --set` takes for a number only what has no point."""
Duration = Annotated[str, Field(pattern=UNSIGNED_PATTERN)]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
Bytes = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[kMGTPE]|[eE][0-9]+)?$")]


Prefix = Annotated[str, Field(pattern=r"^([a-z]([a-z0-9-]{0,28}[a-z0-9])?)?$")]
"""What names begin with; the longest name behind it takes 33 of the 63 characters."""
NKey = Annotated[str, Field(pattern="^U[A-Z2-7]{55}$")]
"""The public key of a user."""
Port = Annotated[int, Field(ge=1, le=65535)]
Ports = Annotated[list[Port], Field(min_length=1)]
"""Of a rule: without any it would allow them all."""
Cidr = Annotated[
    str, Field(pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}|[0-9a-fA-F.]*:[0-9a-fA-F:.]*/[0-9]{1,3})$")
]


class _Values(Part, BaseModel):
    """Named here as what it is, so that linters see that defaults are copied."""


class Switched(_Values):
    """What can be left out. For one release `enable`, the name of the kubebuilder charts, counts as `enabled`."""

    enabled: bool = True


class Image(_Values):
    """An image."""

    repository: str = ""
    tag: str = Field("", description="defaults to the appVersion of the chart")
    digest: str = Field("", pattern="^(sha256:[0-9a-f]{64})?$", description="takes precedence over the tag")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"


class ServiceImage(Image):
    """The image of each service."""

    repository: str = Field(
        "docker.io/amdenterpriseai/aim-engine",
        description="`-` and the name of the service are appended; services.<name>.image.repository is taken as it is",
    )


class PinnedImage(Image):
    """A third-party image, with a version of its own."""

    tag: str = Field(min_length=1)


class PodDisruptionBudget(Switched):
    """A PodDisruptionBudget, for workloads with two or more replicas."""

    enabled: bool = True
    max_unavailable: int | str = 1
    min_available: int | str = Field("", description="takes precedence over maxUnavailable")
    unhealthy_pod_eviction_policy: Literal["", "IfHealthyBudget", "AlwaysAllow"] = ""


class Probe(_Values):
    """Settings of a probe; times in seconds."""

    initial_delay_seconds: int = Field(0, ge=0)
    period_seconds: int = Field(10, ge=1)
    timeout_seconds: int = Field(1, ge=1)
    failure_threshold: int = Field(3, ge=1)


class Workload(_Values):
    """Settings of all services; `services` overrides them for one."""

    replicas: int = Field(1, ge=0, description="one replica leads; another one takes over when its Lease expires")
    shards: int = Field(
        1,
        ge=1,
        le=MOST_SHARDS,
        description="into how many shards serving and routing divide the namespaces; their replicas share them",
    )
    image: ServiceImage = ServiceImage()
    image_pull_secrets: PullSecrets = Field([], description="for the images of the platform")
    args: list[str] = Field(["--leader-elect"], description="arguments of the process")
    log_level: LogLevel = Field("info", description="debug, info or error")
    log_format: LogFormat = Field("json", description="json, or console for reading in a terminal")
    env: Variables = Field([], description="additional environment variables")
    env_from: Objects = Field([], description="ConfigMaps and Secrets with additional variables")
    extra_volumes: Objects = []
    extra_volume_mounts: Objects = []
    init_containers: Objects = []
    extra_containers: Objects = Field([], description="additional containers of the pod")
    startup_probe: Probe = Field(
        Probe(period_seconds=3, failure_threshold=60),
        description="delays the other probes until the process listens; settings in seconds",
    )
    liveness_probe: Probe = Probe(initial_delay_seconds=15, period_seconds=20)
    readiness_probe: Probe = Probe(initial_delay_seconds=5)
    strategy: Object = Field({}, description="strategy of the Deployment; defaults to RollingUpdate")
    revision_history_limit: int = Field(10, ge=0)
    deployment_annotations: Texts = {}
    pod_annotations: Texts = {}
    pod_labels: PodLabels = {}
    host_aliases: Objects = []
    dns_config: Object = {}
    pod_security_context: Object = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    security_context: Object = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    resources: Resources = Resources()
    node_selector: Texts = {}
    tolerations: Tolerations = []
    affinity: Object = {}
    topology_spread_constraints: Spreads = Field([], description="defaults to spreading over nodes, if possible")
    priority_class_name: str = ""
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()


class _Overrides(_Values):
    """Overrides of `manager` for one service or for the console; each value of `manager` is possible."""

    model_config = ConfigDict(alias_generator=None)


if TYPE_CHECKING:
    Services = _Overrides
else:
    Services = create_model(
        "Services",
        __base__=_Overrides,
        __doc__=_Overrides.__doc__,
        **{name: (Object, Field({})) for name in SERVICES},
        console=(
            Object,
            Field(
                {"replicas": 1, "args": []},
                description="one replica, because sessions are in memory; args are additional options of `aim console`",
            ),
        ),
    )


class ServiceAccount(_Values):
    """ServiceAccounts of the five services and of the console."""

    create: bool = Field(True, description="if false, the accounts must exist; the chart binds its roles to them")
    name: Prefix = Field(
        "", description="prefix of their names, before the name of the service; defaults to fullnameOverride"
    )
    annotations: Texts = {}


class RbacHelpers(Switched):
    """ClusterRoles for users (FW-310)."""

    enabled: bool = True
    aggregate: bool = Field(False, description="add their rules to the built-in roles admin, edit and view (FW-313)")


class Reader(_Values):
    """A ServiceAccount."""

    name: str = Field(min_length=1)
    namespace: str = Field(min_length=1)


class Metrics(Switched):
    """Prometheus metrics."""

    enabled: bool = True
    port: int = Field(8443, ge=1, le=65535, json_schema_extra={"not": {"const": 8081}}, description="any port but 8081")
    secure: bool = Field(True, description="HTTPS for users who may get /metrics; if false, HTTP for every client")
    cert_secret: str = Field(
        "",
        description="Secret with tls.crt, tls.key and ca.crt for aim-engine-<service>-metrics.<namespace>.svc; "
        "without it each pod signs its own certificate",
    )
    readers: list[Reader] = Field([], description="ServiceAccounts that may read metrics, such as that of Prometheus")


class CertManager(Switched):
    """Certificates by cert-manager."""

    enabled: bool = Field(
        False,
        description="create the Secrets of metrics.certSecret and console.certSecret with self-signed issuers",
    )


class Console(Switched):
    """`aim console` for users of the cluster (FW-683); `services.console` has the settings of its pod."""

    enabled: bool = False
    hosts: list[HostName] = Field([], description="additional host names; its Service and a port-forward always work")
    cert_secret: str = Field(
        "", description="Secret with tls.crt and tls.key for the hosts; without it the pod signs its own certificate"
    )
    namespaces: list[str] = Field([], description="namespaces whose pods may reach it, such as that of an ingress")


class TokenSecret(_Values):
    """A Secret of the release's namespace with a token for scraping, if Prometheus must not read files."""

    name: str = Field("", description="defaults to the token of Prometheus, from its file system")
    key: str = "token"


class Prometheus(Switched):
    """Objects of the Prometheus operator."""

    enabled: bool = Field(False, description="create a ServiceMonitor for each service")
    rules: bool = Field(True, description="create a PrometheusRule with the default alerts")
    runbooks: str = Field(
        "docs/runbooks.md", description="address of your copy of the runbooks, for the links of alerts"
    )
    interval: Duration = "30s"
    token_secret: TokenSecret = TokenSecret()
    labels: Texts = Field({}, description="labels of these objects, for the selector of your Prometheus")


class Dashboards(Switched):
    """Dashboards as ConfigMaps for the sidecar of Grafana."""

    enabled: bool = False
    labels: Texts = Field({"grafana_dashboard": "1"}, description="labels that the sidecar selects")
    annotations: Texts = Field({}, description="annotations, such as the folder in Grafana")


class Dns(_Values):
    """Access to DNS."""

    ports: Ports = Field([53, 5353], description="OpenShift uses 5353")
    to: Objects = Field(
        [], description="peers of a NetworkPolicy; defaults to any, because a cache on the node has no pod"
    )


class NetworkPolicy(Switched):
    """NetworkPolicies of the release (FW-701)."""

    enabled: bool = True
    api_server_cidrs: list[Cidr] = Field(["0.0.0.0/0", "::/0"], min_length=1, description="addresses of the API server")
    api_server_ports: Ports = [443, 6443]
    registry_ports: Ports = Field([443, 80, 5000], description="ports that model-sync and discovery may reach anywhere")
    dns: Dns = Dns()
    extra_ingress: Objects = Field([], description="additional rules of a NetworkPolicy for the five services")
    extra_egress: Objects = Field([], description="additional egress rules")


class Storage(_Values):
    """The volume of each broker; use block storage, because the broker syncs every write."""

    class_name: str = Field("", description="defaults to the default StorageClass")
    size: Bytes = "10Gi"


class Tls(_Values):
    """TLS between services and broker, and between brokers."""

    secret_name: str = Field(
        "",
        description="Secret with tls.crt, tls.key and ca.crt, for server and client use; without it no TLS",
    )


class Reloader(Switched):
    """A container that makes the broker load a renewed certificate; only with TLS."""

    enabled: bool = Field(True, description="if false, restart the brokers after a renewal")
    image: PinnedImage = PinnedImage(repository="docker.io/natsio/nats-server-config-reloader", tag="0.23.0")
    resources: Resources = Resources(limits={"memory": "64Mi"}, requests={"cpu": "10m", "memory": "32Mi"})


class Auth(Switched):
    """One user per service with permissions for its subjects; `python -m aim_packaging nats-keys` creates the keys."""

    enabled: bool = False
    public_keys: dict[str, NKey] = Field({}, description="public keys by user: aim-model-sync … aim-routing, and aim")
    secret_prefix: str = Field(
        "aim-engine-nats-", description="prefix of the Secrets of the users; each has the key user.nk"
    )


class Exporter(Switched):
    """A container with the metrics of the broker; with `prometheus.enabled` also a PodMonitor."""

    enabled: bool = False
    image: PinnedImage = PinnedImage(repository="docker.io/natsio/prometheus-nats-exporter", tag="0.20.1")
    port: Port = 7777
    resources: Resources = Resources(limits={"memory": "64Mi"}, requests={"cpu": "10m", "memory": "32Mi"})


class Retention(_Values):
    """Whether the claims of the brokers are deleted."""

    when_deleted: Literal["Retain", "Delete"] = "Retain"
    when_scaled: Literal["Retain", "Delete"] = "Retain"


class Limits(_Values):
    """Limits of the event log."""

    history_age: Duration = "168h"
    history_bytes: Bytes = "1Gi"
    decisions_age: Duration = "168h"
    decisions_bytes: Bytes = "512Mi"


class Nats(Switched):
    """The message broker."""

    enabled: bool = Field(True, description="install a broker; if false, use the one at url")
    url: str = Field("", pattern=BROKER_URLS, description="addresses of an existing broker, separated by commas")
    root: str = Field(
        "aim",
        pattern="^[a-z0-9-]+$",
        description="prefix of all names on the broker; installations that share a broker need different ones",
    )
    jetstream_domain: str = ""
    replicas: Literal[1, 3] = Field(1, description="number of brokers, and of copies of each stream")
    image: PinnedImage = PinnedImage(repository="docker.io/library/nats", tag="2.12.2-alpine")
    image_pull_secrets: PullSecrets = []
    resources: Resources = Resources(limits={"memory": "2Gi"}, requests={"cpu": "200m", "memory": "512Mi"})
    storage: Storage = Storage()
    tls: Tls = Tls()
    reloader: Reloader = Reloader()
    auth: Auth = Auth()
    limits: Limits = Limits()
    config: Object = Field({}, description="additional configuration of the server, merged into the chart's")
    exporter: Exporter = Exporter()
    env: Variables = []
    pod_annotations: Texts = {}
    pod_labels: PodLabels = {}
    pod_security_context: Object = Field({}, description="defaults to that of manager")
    security_context: Object = Field({}, description="defaults to that of manager")
    topology_spread_constraints: Spreads = Field([], description="defaults to spreading over nodes, if possible")
    persistent_volume_claim_retention_policy: Retention = Retention()
    node_selector: Texts = {}
    tolerations: Tolerations = []
    affinity: Object = {}
    priority_class_name: str = ""
    extra_ingress: Objects = Field([], description="additional ingress rules of its NetworkPolicy")


class Check(Switched, OneOff):
    """A Job with `aim doctor` after each installation and upgrade, which fails if the check fails (FW-546)."""

    enabled: bool = Field(True, description="if false, run `aim doctor` yourself")
    seconds: int = Field(120, ge=1, description="time within which the check must succeed")
    image: Image = Image(repository="docker.io/amdenterpriseai/aim-engine-cli")


class Test(OneOff):
    """The pod of `helm test`, which checks that each service is ready."""


class Downloader(_Values):
    """Jobs that download weights."""

    image: Image = Image(repository="docker.io/amdenterpriseai/aim-engine-downloader")
    service_account: str = Field(
        "aim-engine-downloader",
        min_length=1,
        json_schema_extra={"not": {"const": "default"}},
        description="ServiceAccount of download pods, created in each namespace; not `default` (FW-304)",
    )


class ClusterRuntimeConfig(Switched):
    """An AIMClusterRuntimeConfig with this spec; helm does not delete it (FW-321)."""

    enabled: bool = False
    name: str = "default"
    spec: Object = {}


class ClusterModelSource(Switched):
    """An AIMClusterModelSource; helm does not delete it. With `images`, set `filters` to null (MS-365)."""

    enabled: bool = False
    name: str = "amd-aim-model-source"
    spec: Object = {
        "registry": "docker.io",
        "filters": [{"image": "amdenterpriseai/aim-*", "versions": [">=0.8.4"]}],
        "syncInterval": "1h",
        "maxModels": 500,
    }


class Crd(Switched):
    """CustomResourceDefinitions (FW-703)."""

    enabled: bool = Field(True, description="install and upgrade them; if false, apply deploy/crds before")
    keep: bool = Field(True, description="keep them and all their objects when the release is uninstalled")


class Traces(_Values):
    """Traces."""

    endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="a collector for OTLP over HTTP, such as http://otel-collector.observability:4318; "
        "without it no traces",
    )
    sample_ratio: Share | ShareText = Field(1.0, description="share of exported traces")


class NamedSecrets(_Values):
    """Secrets of one namespace."""

    namespace: str = Field(min_length=1)
    names: list[str] = Field(min_length=1)


class Secrets(_Values):
    """Pull Secrets of models, sources and mirrors that discovery and model-sync may read (FW-507)."""

    restrict: bool = Field(False, description="if false, each Secret that an object of its namespace names")
    allowed: list[NamedSecrets] = Field([], description="the Secrets, if restricted; the namespaces must exist")


class AdmissionPolicy(Switched):
    """ValidatingAdmissionPolicies for objects of users (FW-508), for Kubernetes 1.30. Empty lists allow everything."""

    enabled: bool = False
    actions: list[Literal["Deny", "Warn", "Audit"]] = Field(
        ["Deny"], min_length=1, description="[Warn, Audit] reports what would be rejected"
    )
    images: list[str] = Field([], description="allowed prefixes of images, such as docker.io/amdenterpriseai/")
    sources: list[str] = Field([], description="allowed prefixes of addresses of weights, such as hf://amd/")
    service_accounts: list[str] = Field([], description="allowed ServiceAccounts, beside the default one")
    denied_env: list[str] = Field(
        ["LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP"],
        description="forbidden variables, which add code to an allowed image",
    )
    denied_engine_args: list[str] = Field(
        ["trust-remote-code", "trust_remote_code"], description="forbidden keys of engineArgs"
    )
    reserved: bool = Field(True, description="only services may write the labels and annotations that they rely on")
    exempt_users: list[str] = Field([], description="exempt users, such as the account of a backup tool")
    exempt_groups: list[str] = Field(
        ["system:masters", "system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:kserve"],
        description="exempt groups",
    )
    namespace_selector: Object = Field({}, description="selector of the namespaces; defaults to all")


class ArtifactProtection(Switched):
    """A ValidatingAdmissionPolicy that keeps artifacts whose weights are mounted (AR-587), for Kubernetes 1.30."""

    enabled: bool = Field(True, description="reject the deletion of an artifact that an InferenceService mounts")


class Global(_Values):
    """Values that Helm shares between charts."""

    image_registry: str = Field("", description="replaces the registry of all images")
    image_pull_secrets: PullSecrets = Field([], description="pull Secrets of all pods, in addition to their own")


class RegistryMirror(_Values):
    """A mirror of a registry."""

    url: str = Field(pattern="^https?://[^/?#@]+(/[^?#]*)?$")
    ca_file: str = Field("", description="path in the pods; see services.<name>.extraVolumes")
    insecure_skip_verify: bool = False
    secret_name: str = Field("", description="a pull Secret of the release's namespace")


class RegistryUpstream(_Values):
    """Access to the registry itself."""

    enabled: bool = True
    plain_http: bool = False
    ca_file: str = Field("", description="path in the pods; see services.<name>.extraVolumes")
    insecure_skip_verify: bool = False


class RegistryRules(_Values):
    """Mirrors and access of a registry."""

    mirrors: list[RegistryMirror] = []
    upstream: RegistryUpstream = RegistryUpstream()


RegistryHost = Annotated[
    str, Field(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?)$")
]
Registries = Annotated[dict[RegistryHost, RegistryRules], Field(json_schema_extra={"additionalProperties": False})]
"""Rules by host and port, or `*` for all others."""


class Profiles(_Values):
    """Profiles of AIM images."""

    enabled: bool = Field(False, description="read the profiles of every AIM image; a model can ask for its own alone")


class Values(_Values):
    """All values of the chart aim-engine."""

    global_: Annotated[Global, Field(alias="global")] = Global()
    common_labels: CommonLabels = Field({}, description="labels of all objects")
    fullname_override: Prefix = Field("", description="prefix of the names of all objects; defaults to aim-engine")
    manager: Workload = Workload()
    services: Services = Services()
    direct_watch: bool = Field(
        True, description="read from the API server while the broker is away; adds list and watch permissions"
    )
    profiles: Profiles = Profiles()
    registries: Registries = Field({}, description="mirrors and insecure registries by host (FW-382)")
    service_account: ServiceAccount = ServiceAccount()
    rbac_helpers: RbacHelpers = RbacHelpers()
    secrets: Secrets = Secrets()
    admission_policy: AdmissionPolicy = AdmissionPolicy()
    artifact_protection: ArtifactProtection = ArtifactProtection()
    crd: Crd = Crd()
    metrics: Metrics = Metrics()
    cert_manager: CertManager = CertManager()
    console: Console = Console()
    prometheus: Prometheus = Prometheus()
    dashboards: Dashboards = Dashboards()
    network_policy: NetworkPolicy = NetworkPolicy()
    nats: Nats = Nats()
    check: Check = Check()
    test: Test = Test()
    downloader: Downloader = Downloader()
    traces: Traces = Traces()
    cluster_runtime_config: ClusterRuntimeConfig = ClusterRuntimeConfig()
    cluster_model_source: ClusterModelSource = ClusterModelSource()
    extra_objects: Objects = Field([], description="additional objects of the release")
