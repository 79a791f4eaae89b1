"""The values of the chart: their names, types, defaults and meaning. `values.yaml` and its schema are made of this.

Names and defaults of FW-320 are kept where they still mean something (FW-326).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

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
from controller_runtime.duration import UNSIGNED_PATTERN
from controller_runtime.log.broker.address import BROKER_URLS
from controller_runtime.telemetry.logs import LogFormat, LogLevel

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
    """Where images come from."""

    repository: str = Field("", description="empty = manager.image.repository with the name of the service behind it")
    tag: str = Field("", description="empty = the appVersion of the chart")
    digest: str = Field("", pattern="^(sha256:[0-9a-f]{64})?$", description="wins over the tag")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"


class PinnedImage(Image):
    """Third-party image; not versioned with the chart."""

    tag: str = Field(min_length=1)


class PodDisruptionBudget(Switched):
    """Whether a drain waits for another replica; only where there are two or more."""

    enabled: bool = True
    max_unavailable: int | str = 1
    min_available: int | str = Field("", description="wins over maxUnavailable")
    unhealthy_pod_eviction_policy: Literal["", "IfHealthyBudget", "AlwaysAllow"] = ""


class Probe(_Values):
    """When a probe asks, and how often it may fail, in seconds."""

    initial_delay_seconds: int = Field(0, ge=0)
    period_seconds: int = Field(10, ge=1)
    timeout_seconds: int = Field(1, ge=1)
    failure_threshold: int = Field(3, ge=1)


class Workload(_Values):
    """What may be set for all services, and for each of them."""

    replicas: int = Field(1, ge=0, description="one leads; the others take over within its lease")
    image: Image = Image(repository="docker.io/amdenterpriseai/aim-engine")
    image_pull_secrets: PullSecrets = Field([], description="of the operator's own images")
    args: list[str] = Field(["--leader-elect"], description="flags of the process")
    log_level: LogLevel = Field("info", description="least severity that is logged: debug, info or error")
    log_format: LogFormat = Field("json", description="json, or console for people")
    env: Variables = Field([], description="further environment variables")
    env_from: Objects = Field([], description="ConfigMaps and Secrets with further ones")
    extra_volumes: Objects = []
    extra_volume_mounts: Objects = []
    init_containers: Objects = []
    extra_containers: Objects = Field([], description="beside the service in its pod")
    startup_probe: Probe = Field(
        Probe(period_seconds=3, failure_threshold=60), description="holds the others back; a busy node starts slowly"
    )
    liveness_probe: Probe = Probe(initial_delay_seconds=15, period_seconds=20)
    readiness_probe: Probe = Probe(initial_delay_seconds=5)
    strategy: Object = Field({}, description="of the Deployment; empty = RollingUpdate")
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
    topology_spread_constraints: Spreads = Field([], description="empty = spread over nodes, as far as possible")
    priority_class_name: str = ""
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()


class Services(_Values):
    """Overrides of `manager` for one service, or for the console; any of its values."""

    model_config = ConfigDict(alias_generator=None)

    model_sync: Object = Field({}, alias="model-sync")
    discovery: Object = {}
    artifacts: Object = {}
    serving: Object = {}
    routing: Object = {}
    console: Object = Field(
        {"replicas": 1, "args": []},
        description="sessions are in the memory of its pod; args are further options of `aim console`",
    )


class ServiceAccount(_Values):
    """Identities of the five services and of the console, one each."""

    create: bool = Field(True, description="false = they exist, with these names; roles are bound to them")
    name: Prefix = Field("", description="what their names begin with; empty = that of the release's objects")
    annotations: Texts = {}


class RbacHelpers(Switched):
    """ClusterRoles for users (FW-310)."""

    enabled: bool = True
    aggregate: bool = Field(False, description="into the built-in roles admin, edit and view (FW-313)")


class Reader(_Values):
    """A ServiceAccount."""

    name: str = Field(min_length=1)
    namespace: str = Field(min_length=1)


class Metrics(Switched):
    """Prometheus metrics."""

    enabled: bool = True
    port: int = Field(8443, ge=1, le=65535, json_schema_extra={"not": {"const": 8081}}, description="not 8081")
    secure: bool = Field(True, description="HTTPS, for those who may get /metrics; false = plain HTTP for everybody")
    cert_secret: str = Field(
        "",
        description="Secret with tls.crt, tls.key and ca.crt for aim-engine-<service>-metrics.<namespace>.svc; "
        "empty = each pod signs its own",
    )
    readers: list[Reader] = Field([], description="ServiceAccounts that may read them, such as that of Prometheus")


class CertManager(Switched):
    """Certificates by cert-manager."""

    enabled: bool = Field(
        False,
        description="makes the Secrets of metrics.certSecret and console.certSecret, by issuers that sign themselves",
    )


class Console(Switched):
    """`aim console` for all who may list something (FW-683). What holds for its pod: services.console."""

    enabled: bool = False
    hosts: list[HostName] = Field(
        [], description="names that it is opened by, besides that of its Service and of a port-forward"
    )
    cert_secret: str = Field("", description="Secret with tls.crt and tls.key for these; empty = its pod signs its own")
    namespaces: list[str] = Field(
        [], description="whose pods may reach it, such as those of an ingress; a port-forward always does"
    )


class TokenSecret(_Values):
    """A Secret in the release's namespace with the token that scrapers show, if Prometheus may read no files."""

    name: str = Field("", description="empty = the token of Prometheus itself, from its file system")
    key: str = "token"


class Prometheus(Switched):
    """Objects of the Prometheus operator."""

    enabled: bool = Field(False, description="makes a ServiceMonitor for each service")
    rules: bool = Field(True, description="makes a PrometheusRule with the default alerts, if enabled")
    runbooks: str = Field("docs/runbooks.md", description="where the runbooks are, for the links of alerts: your copy")
    interval: Duration = "30s"
    token_secret: TokenSecret = TokenSecret()
    labels: Texts = Field({}, description="of all, for the selector of your Prometheus")


class Dashboards(Switched):
    """Grafana dashboards as ConfigMaps, for its sidecar."""

    enabled: bool = False
    labels: Texts = Field({"grafana_dashboard": "1"}, description="by which the sidecar finds them")
    annotations: Texts = Field({}, description="such as the folder in Grafana")


class Dns(_Values):
    """Name services. A cache on each node has the host's address, which no selector of pods finds."""

    ports: Ports = Field([53, 5353], description="5353 is OpenShift's")
    to: Objects = Field([], description="peers, as a NetworkPolicy has them; empty = anywhere")


class NetworkPolicy(Switched):
    """What may talk to what (FW-701)."""

    enabled: bool = True
    api_server_cidrs: list[Cidr] = Field(["0.0.0.0/0", "::/0"], min_length=1, description="addresses of the API server")
    api_server_ports: Ports = [443, 6443]
    registry_ports: Ports = Field([443, 80, 5000], description="of model-sync and discovery to anywhere")
    dns: Dns = Dns()
    extra_ingress: Objects = Field([], description="further rules, as a NetworkPolicy has them, for the five services")
    extra_egress: Objects = Field([], description="the same for what they reach")


class Storage(_Values):
    """The volume of each broker: block storage, because every write is synced."""

    class_name: str = Field("", description="empty = the cluster's default")
    size: Bytes = "10Gi"


class Tls(_Values):
    """TLS between services and broker, and between brokers."""

    secret_name: str = Field(
        "",
        description="Secret with tls.crt, tls.key and ca.crt, for server and client use, as brokers show it to each "
        "other; empty = no TLS",
    )


class Reloader(Switched):
    """A container beside each broker that tells it of a renewed certificate; only with TLS."""

    enabled: bool = Field(True, description="false = restart the brokers yourself after a renewal")
    image: PinnedImage = PinnedImage(repository="docker.io/natsio/nats-server-config-reloader", tag="0.23.0")
    resources: Resources = Resources(limits={"memory": "64Mi"}, requests={"cpu": "10m", "memory": "32Mi"})


class Auth(Switched):
    """NKeys: one user per service with only its subjects. `python -m aim_packaging nats-keys` makes them."""

    enabled: bool = False
    public_keys: dict[str, NKey] = Field({}, description="by user: aim-model-sync … aim-routing, and aim")
    secret_prefix: str = Field("aim-engine-nats-", description="Secret of a user: this and its name, key user.nk")


class Exporter(Switched):
    """A container beside each broker with its metrics; with `prometheus.enabled` also a PodMonitor."""

    enabled: bool = False
    image: PinnedImage = PinnedImage(repository="docker.io/natsio/prometheus-nats-exporter", tag="0.20.1")
    port: Port = 7777
    resources: Resources = Resources(limits={"memory": "64Mi"}, requests={"cpu": "10m", "memory": "32Mi"})


class Retention(_Values):
    """What becomes of the brokers' claims."""

    when_deleted: Literal["Retain", "Delete"] = "Retain"
    when_scaled: Literal["Retain", "Delete"] = "Retain"


class Limits(_Values):
    """How much of the log is kept."""

    history_age: Duration = "168h"
    history_bytes: Bytes = "1Gi"
    decisions_age: Duration = "168h"
    decisions_bytes: Bytes = "512Mi"


class Nats(Switched):
    """The message broker."""

    enabled: bool = Field(True, description="bring one; false = use the one at url")
    url: str = Field("", pattern=BROKER_URLS, description="of an existing broker, comma-separated list")
    root: str = Field("aim", pattern="^[a-z0-9-]+$", description="one for each installation that shares a broker")
    jetstream_domain: str = ""
    replicas: Literal[1, 3] = Field(1, description="brokers and copies of each stream")
    image: PinnedImage = PinnedImage(repository="docker.io/library/nats", tag="2.12.2-alpine")
    image_pull_secrets: PullSecrets = []
    resources: Resources = Resources(limits={"memory": "2Gi"}, requests={"cpu": "200m", "memory": "512Mi"})
    storage: Storage = Storage()
    tls: Tls = Tls()
    reloader: Reloader = Reloader()
    auth: Auth = Auth()
    limits: Limits = Limits()
    config: Object = Field({}, description="more for the server's configuration, merged into it")
    exporter: Exporter = Exporter()
    env: Variables = []
    pod_annotations: Texts = {}
    pod_labels: PodLabels = {}
    pod_security_context: Object = Field({}, description="empty = that of manager")
    security_context: Object = Field({}, description="empty = that of manager")
    topology_spread_constraints: Spreads = Field([], description="empty = spread over nodes, as far as possible")
    persistent_volume_claim_retention_policy: Retention = Retention()
    node_selector: Texts = {}
    tolerations: Tolerations = []
    affinity: Object = {}
    priority_class_name: str = ""
    extra_ingress: Objects = Field([], description="further rules of its NetworkPolicy: who else may reach it")


class Check(Switched, OneOff):
    """`aim doctor` as a Job after each installation and upgrade, which fails with it (FW-546)."""

    enabled: bool = Field(True, description="false = run `aim doctor` yourself")
    seconds: int = Field(120, ge=1, description="within which all has to be well")
    image: Image = Image(repository="docker.io/amdenterpriseai/aim-engine-cli")


class Test(OneOff):
    """The pod of `helm test`, which asks each service whether it is ready."""


class Downloader(_Values):
    """The Jobs that fetch weights."""

    image: Image = Image(repository="docker.io/amdenterpriseai/aim-engine-downloader")
    service_account: str = Field(
        "aim-engine-downloader",
        min_length=1,
        json_schema_extra={"not": {"const": "default"}},
        description="of download pods, made in each namespace where it is missing; not `default` (FW-304)",
    )


class ClusterRuntimeConfig(Switched):
    """An AIMClusterRuntimeConfig, which helm never deletes; its spec is passed on as it is (FW-321)."""

    enabled: bool = False
    name: str = "default"
    spec: Object = {}


class ClusterModelSource(Switched):
    """An AIMClusterModelSource, as it is, which helm never deletes. With `images`, set `filters` to null (MS-365)."""

    enabled: bool = False
    name: str = "amd-aim-model-source"
    spec: Object = {
        "registry": "docker.io",
        "filters": [{"image": "amdenterpriseai/aim-*", "versions": [">=0.8.4"]}],
        "syncInterval": "1h",
        "maxModels": 500,
    }


class Crd(Switched):
    """The definitions (FW-703)."""

    enabled: bool = Field(True, description="bring and upgrade them; false = kubectl -k deploy/crds, before")
    keep: bool = Field(True, description="leave them, and with them every object, when the release is uninstalled")


class Traces(_Values):
    """Where spans go."""

    endpoint: str = Field(
        "",
        pattern="^(https?://.+)?$",
        description="a collector that takes OTLP over HTTP, such as http://otel-collector.observability:4318; "
        "empty = no traces",
    )
    sample_ratio: Share | ShareText = Field(1.0, description="share of the traces that is exported; each is whole")


class NamedSecrets(_Values):
    """Secrets of one namespace."""

    namespace: str = Field(min_length=1)
    names: list[str] = Field(min_length=1)


class Secrets(_Values):
    """Which Secrets discovery and model-sync may get: pull secrets of models, sources and mirrors (FW-507)."""

    restrict: bool = Field(False, description="false = each one that an object of its namespace names")
    allowed: list[NamedSecrets] = Field([], description="with restrict: these and no others; the namespaces must exist")


class AdmissionPolicy(Switched):
    """What the API server refuses of users' objects (FW-508); needs Kubernetes 1.30. Empty lists allow everything."""

    enabled: bool = False
    actions: list[Literal["Deny", "Warn", "Audit"]] = Field(
        ["Deny"], min_length=1, description="[Warn, Audit] tells what would be refused"
    )
    images: list[str] = Field([], description="beginnings that images may have, such as docker.io/amdenterpriseai/")
    sources: list[str] = Field([], description="beginnings that addresses of weights may have, such as hf://amd/")
    service_accounts: list[str] = Field([], description="that objects may name; without a name pods have the default")
    denied_env: list[str] = Field(
        ["LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP"],
        description="variables that objects may not set, as they put other code into an allowed image",
    )
    denied_engine_args: list[str] = Field(
        ["trust-remote-code", "trust_remote_code"], description="keys that engineArgs may not have"
    )
    reserved: bool = Field(True, description="only services may write the labels and annotations that they judge by")
    exempt_users: list[str] = Field([], description="who is asked nothing, such as a backup tool's account")
    exempt_groups: list[str] = Field(
        ["system:masters", "system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:kserve"],
        description="whose members are asked nothing",
    )
    namespace_selector: Object = Field({}, description="labels of the namespaces that it is for; empty = all")


class Global(_Values):
    """What Helm shares between charts."""

    image_registry: str = Field("", description="in the place of the registry of all images")
    image_pull_secrets: PullSecrets = Field([], description="of all pods, before their own")


class RegistryMirror(_Values):
    """An endpoint that is asked instead of a registry."""

    url: str = Field(pattern="^https?://[^/?#@]+(/[^?#]*)?$")
    ca_file: str = Field("", description="in the pods; see services.<name>.extraVolumes")
    insecure_skip_verify: bool = False
    secret_name: str = Field("", description="a pull secret in the namespace of the release")


class RegistryUpstream(_Values):
    """How, and whether, the registry itself is asked."""

    enabled: bool = True
    plain_http: bool = False
    ca_file: str = Field("", description="in the pods; see services.<name>.extraVolumes")
    insecure_skip_verify: bool = False


class RegistryRules(_Values):
    """Where the images of a registry are looked up."""

    mirrors: list[RegistryMirror] = []
    upstream: RegistryUpstream = RegistryUpstream()


RegistryHost = Annotated[
    str, Field(pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?)$")
]
Registries = Annotated[dict[RegistryHost, RegistryRules], Field(json_schema_extra={"additionalProperties": False})]
"""Rules by host and port, or `*` for all others."""


class Values(_Values):
    """All values of the chart aim-engine."""

    global_: Annotated[Global, Field(alias="global")] = Global()
    common_labels: CommonLabels = Field({}, description="of all objects, besides the chart's own")
    fullname_override: Prefix = Field(
        "", description="what the names of the release's objects begin with; empty = aim-engine"
    )
    manager: Workload = Workload()
    services: Services = Services()
    direct_watch: bool = Field(True, description="read the API server while the broker is away; adds list and watch")
    registries: Registries = Field({}, description="mirrors and insecure registries by host (FW-382); empty = none")
    service_account: ServiceAccount = ServiceAccount()
    rbac_helpers: RbacHelpers = RbacHelpers()
    secrets: Secrets = Secrets()
    admission_policy: AdmissionPolicy = AdmissionPolicy()
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
    extra_objects: Objects = Field([], description="further objects of the release")
