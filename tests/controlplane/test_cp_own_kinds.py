"""The platform's own kinds as users write them: what is refused, what is stored, what may change (CC-S04…CC-S28)."""

from typing import Any, Final

import pytest
from support.suite import SuiteApi

from aim_domain.kinds import OWN_KINDS
from controller_runtime import JsonObject

KINDS: Final = {kind.kind: kind for kind in OWN_KINDS}
ABSENT: Final = object()
SOURCE: Final = {"modelId": "a/b", "sourceUri": "hf://a/b"}
GPU: Final = {"gpu": {"requests": 1, "model": "MI300X"}}
PROFILE: Final = {"metric": "latency", "precision": "fp8"}
COMPLETE: Final = {"aimId": "a", "modelId": "b/c", "hardware": GPU, **PROFILE}


def path_of(kind: str) -> str:
    """Where objects of the kind are."""
    known = KINDS[kind]
    where = "/namespaces/$ns" if known.namespaced else ""
    return f"/apis/{known.group}/{known.version}{where}/{known.plural}"


def obj(kind: str, spec: JsonObject | None, name: str = "one") -> JsonObject:
    """A new object; its name is nobody else's, also where the kind has no namespaces."""
    body: JsonObject = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": {"name": f"$ns-{name}"}}
    return body if spec is None else body | {"spec": spec}


def service(**spec: Any) -> JsonObject:
    return {"model": {"name": "a"}, **spec}


def custom(**model: Any) -> JsonObject:
    return {"model": {"custom": {"baseImage": "a/b:1", "modelSources": [SOURCE], "hardware": GPU, **model}}}


def hardware(**members: Any) -> JsonObject:
    return {"modelName": "m", "hardware": members}


def own_model(*templates: JsonObject, **spec: Any) -> JsonObject:
    return {"image": "a/b:1", "modelSources": [SOURCE], "customTemplates": list(templates), **spec}


def scaling(kind: str = "PodMetric", target: str = "Value", **metric: Any) -> JsonObject:
    source = {"metric": {"query": "q", **metric}, "target": {"type": target, "value": "1"}}
    return service(autoScaling={"metrics": [{"type": kind, "podmetric": source}]})


def catalogue(**spec: Any) -> JsonObject:
    return {"filters": [{"image": "org/repo"}], **spec}


def cache(**spec: Any) -> JsonObject:
    return {"templateName": "t", "templateScope": "Namespace", **spec}


def without(spec: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in spec.items() if name not in names}


ROUTED: Final = {"hostnames": ["chat.example.com", "*.example.org", "localhost"]}
OPEN: Final = {
    "namespaceOwnership": "InterNamespaceAllowed",
    "reservations": [
        {"namespaces": ["team-a"], "pathPrefixes": ["/", "/team-a/x"]},
        {"namespaces": ["team-a", "b"], "hostnames": ["*.example.com"]},
    ],
}
RESERVED: Final = [
    {"pathPrefixes": ["/x"]},
    {"namespaces": [], "pathPrefixes": ["/x"]},
    {"namespaces": ["a"]},
    {"namespaces": ["a"], "pathPrefixes": ["/X"]},
    {"namespaces": ["a"], "pathPrefixes": ["/x/"]},
    {"namespaces": ["a"], "hostnames": ["*"]},
]
FIELDS: Final = {
    "CC-S04": ("spec.model", "spec.model", "spec.model", "spec"),
    "CC-S05": ("spec.model.custom.hardware",) * 2 + ("spec.model.custom.modelSources",) * 2,
    "CC-S06": ("spec.maxReplicas",),
    "CC-S08": ("spec.caching.mode",),
    "CC-S09": ("spec.overrides.precision", "spec.overrides.metric"),
    "CC-S10": ("spec.hardware.gpu", "spec.hardware.gpu.requests", "spec.hardware.gpu.model"),
    "CC-S11": ("spec.hardware.cpu.requests",),
    "CC-S12": ("spec.env[1]", "spec.env[0].name"),
    "CC-S13": tuple(f"spec.routing.gatewayRef.{name}" for name in ("name", "port", "port", "namespace")),
    "CC-042": (*("spec.routing.hostnames[0]",) * 7, "spec.routing.hostnames", "spec.routing.namespaceOwnership"),
    "CC-100": tuple(
        f"spec.routing.reservations[0]{member}"
        for member in (".namespaces", ".namespaces", "", ".pathPrefixes[0]", ".pathPrefixes[0]", ".hostnames[0]")
    ),
    "CC-S15": ("spec.storage.pvcHeadroomPercent",) * 3,
    "CC-S16": tuple(
        f"spec.autoScaling.metrics[0].{name}" for name in ("type", "podmetric.target.type", "podmetric.metric.backend")
    ),
    "CC-S17": (
        *("spec.image",) * 2,
        *(f"spec.customTemplates{name}" for name in ("", "[0].name", "[0].env")),
        "spec.modelSources",
    ),
    "CC-S18": ("spec.modelSources",) * 2,
    "CC-P02": ("spec.templateScope",),
    "CC-P13": ("spec.modelSources",),
    "CC-S19": ("spec.customTemplates[0].customProfile",),
    "CC-S22": ("spec.customProfile",),
    "CC-S24": (
        *("spec",) * 2,
        *(
            f"spec.{name}"
            for name in ("images", "filters", "filters[0].image", "maxModels", "maxModels", "syncInterval")
        ),
    ),
    "CC-S25": ("spec.sourceUri",) * 2 + ("spec.modelId",) * 3,
    "CC-S26": ("spec.retentionPriority",),
    "CC-S27": ("spec.templateScope", "spec.templateScope", "spec.templateName"),
    "CC-S28": ("spec.artifactStorageQuota.clusterLimit",),
}
"""The field that each refusal of `REFUSED` names."""

REFUSED: Final[dict[str, list[tuple[str, JsonObject | None]]]] = {
    "CC-S04": [
        ("AIMService", {"model": {"name": "a", "image": "b"}}),
        ("AIMService", {"model": {}}),
        ("AIMService", {}),
        ("AIMService", None),
    ],
    "CC-S05": [
        ("AIMService", {"model": {"custom": {"baseImage": "a/b:1", "modelSources": [SOURCE]}}}),
        ("AIMService", custom(hardware={})),
        ("AIMService", custom(modelSources=[])),
        ("AIMService", custom(modelSources=[SOURCE, {**SOURCE, "modelId": "c/d"}])),
    ],
    "CC-S06": [("AIMService", service(maxReplicas=0))],
    "CC-S08": [("AIMService", service(caching={"mode": "shared"}))],
    "CC-S09": [("AIMService", service(overrides=one)) for one in ({"precision": "fp64"}, {"metric": ""})],
    "CC-S10": [
        ("AIMServiceTemplate", hardware(gpu=gpu))
        for gpu in ({"model": "MI300X", "minVram": "64Gi"}, {"requests": -1}, {"model": "x" * 65})
    ],
    "CC-S11": [("AIMServiceTemplate", hardware(cpu={"limits": "4"}))],
    "CC-S12": [("AIMService", service(env=env)) for env in ([{"name": "A"}, {"name": "A"}], [{"value": "x"}])],
    "CC-S13": [
        ("AIMService", service(routing={"gatewayRef": gateway}))
        for gateway in ({}, *({"name": "g", **one} for one in ({"port": 0}, {"port": 65536}, {"namespace": "Bad_NS"})))
    ],
    "CC-042": [
        *(
            ("AIMService", service(routing={"hostnames": [name]}))
            for name in ("", "A.example.com", "*", "a.*.com", "10.0.0.1", f"{'a' * 64}.com", "a.example.com.")
        ),
        ("AIMRuntimeConfig", {"routing": {"hostnames": [f"h{number}.io" for number in range(17)]}}),
        ("AIMClusterRuntimeConfig", {"routing": {"namespaceOwnership": "strict"}}),
    ],
    "CC-100": [("AIMClusterRuntimeConfig", {"routing": {"reservations": [one]}}) for one in RESERVED],
    "CC-S15": [
        (kind, {**base, "storage": {"pvcHeadroomPercent": -1}})
        for kind, base in (("AIMService", service()), ("AIMRuntimeConfig", {}), ("AIMClusterRuntimeConfig", {}))
    ],
    "CC-S16": [
        ("AIMService", scaling("Resource")),
        ("AIMService", scaling(target="Average")),
        ("AIMService", scaling(backend="prometheus")),
    ],
    "CC-S17": [
        ("AIMModel", {"image": ""}),
        ("AIMModel", {}),
        ("AIMModel", own_model(*({"name": f"t{number}", "hardware": GPU} for number in range(17)))),
        ("AIMModel", own_model({"name": "t" * 64, "hardware": GPU})),
        ("AIMModel", own_model({"name": "t", "hardware": GPU, "env": [{"name": f"E{n}"} for n in range(65)]})),
        ("AIMModel", own_model(custom={"hardware": GPU}, modelSources=[SOURCE, {**SOURCE, "modelId": "c/d"}])),
    ],
    "CC-S18": [
        ("AIMModel", without(own_model(), "customTemplates")),
        ("AIMModel", own_model({"name": "a", "hardware": GPU}, {"name": "b"})),
    ],
    "CC-S19": [
        ("AIMModel", own_model({"name": "a", **without(COMPLETE, "metric", "precision"),
                                "profile": {"precision": "fp8"}, "customProfile": {"engineArgs": {}}})),
    ],
    "CC-P02": [("AIMTemplateCache", without(cache(), "templateScope"))],
    "CC-P13": [("AIMModel", own_model())],
    "CC-S22": [("AIMServiceTemplate", {"modelName": "m", **without(COMPLETE, "hardware"), "customProfile": {}})],
    "CC-S24": [
        ("AIMClusterModelSource", catalogue(images=["a/b:1"])),
        ("AIMClusterModelSource", {}),
        ("AIMClusterModelSource", {"images": []}),
        ("AIMClusterModelSource", {"filters": [{"image": f"org/r{number}"} for number in range(101)]}),
        ("AIMClusterModelSource", {"filters": [{"image": "o/" + "r" * 511}]}),
        ("AIMClusterModelSource", catalogue(maxModels=0)),
        ("AIMClusterModelSource", catalogue(maxModels=10001)),
        ("AIMClusterModelSource", catalogue(syncInterval="1d")),
    ],
    "CC-S25": [
        *(("AIMArtifact", {"sourceUri": uri}) for uri in ("http://x", "hf://a b")),
        *(("AIMArtifact", {"sourceUri": "hf://a/b", "modelId": name}) for name in ("no-slash", "a/b/c", "my.org/m")),
    ],
    "CC-S26": [("AIMArtifact", {"sourceUri": "hf://a/b", "retentionPriority": -1})],
    "CC-S27": [
        ("AIMTemplateCache", without(cache(), "templateScope")),
        ("AIMTemplateCache", cache(templateScope="Merged")),
        ("AIMTemplateCache", cache(templateName="")),
    ],
    "CC-S28": [("AIMClusterRuntimeConfig", {"artifactStorageQuota": {"clusterLimit": "lots"}})],
}  # fmt: skip

QUOTA: Final = {"artifactStorageQuota": {"clusterLimit": "10Ti"}}
ENGINE: Final = {"engineArgs": {"dtype": "float16", "nested": {"a": [1, None], "b": None}}}
OWN: Final = {"name": "a", **without(COMPLETE, "metric", "precision"), "profile": PROFILE, "customProfile": ENGINE}

ACCEPTED: Final[dict[str, list[tuple[str, JsonObject | None, dict[str, Any]]]]] = {
    "CC-S04": [("AIMService", service(), {"model": {"name": "a"}})],
    "CC-S05": [("AIMService", custom(), {})],
    "CC-S08": [
        ("AIMService", service(caching={"mode": mode}), {"caching.mode": mode})
        for mode in ("Always", "Auto", "Never", "Dedicated", "Shared")
    ],
    "CC-S10": [
        ("AIMServiceTemplate", hardware(gpu=gpu), {"hardware.gpu.resourceName": "amd.com/gpu"})
        for gpu in ({"model": "", "minVram": "64Gi"}, {"minVram": "64Gi"}, {"requests": 0})
    ],
    "CC-S11": [
        ("AIMServiceTemplate", hardware(cpu={"requests": amount}), {"hardware.cpu.requests": amount})
        for amount in ("500m", "0")
    ],
    "CC-S13": [
        ("AIMService", service(routing={"gatewayRef": {"name": "gw"}}),
         {"routing.gatewayRef.group": "gateway.networking.k8s.io", "routing.gatewayRef.kind": "Gateway"}),
    ],
    "CC-S14": [("AIMService", service(routing={}), {"routing": {}})],
    "CC-042": [
        ("AIMService", service(routing=ROUTED), {"routing": ROUTED}),
        ("AIMRuntimeConfig", {"routing": {"hostnames": []}}, {"routing": {"hostnames": []}}),
        ("AIMClusterRuntimeConfig", {"routing": {**ROUTED, **OPEN}}, {"routing": {**ROUTED, **OPEN}}),
        ("AIMRuntimeConfig", {"routing": OPEN}, {"routing": {}}),
    ],
    "CC-S15": [
        ("AIMService", service(storage={"defaultStorageClassName": "x"}), {"storage.pvcHeadroomPercent": ABSENT}),
        ("AIMRuntimeConfig", {"storage": {"defaultStorageClassName": "x"}}, {"storage.pvcHeadroomPercent": ABSENT}),
        ("AIMRuntimeConfig", {"storage": {"pvcHeadroomPercent": 0}}, {"storage.pvcHeadroomPercent": 0}),
        ("AIMService", service(storage={"pvcHeadroomPercent": 0}), {"storage.pvcHeadroomPercent": 0}),
    ],
    "CC-S16": [("AIMService", scaling(), {"autoScaling.metrics.0.podmetric.metric.backend": "opentelemetry"})],
    "CC-S18": [
        ("AIMModel", without(own_model(custom={"hardware": GPU}), "customTemplates"), {}),
        ("AIMModel", own_model({"name": "a", "hardware": GPU}, {"name": "b", "hardware": GPU}), {}),
        ("AIMModel", {"image": "a/b:1"}, {}),
    ],
    "CC-S19": [("AIMModel", own_model(OWN), {"customTemplates.0.customProfile": ENGINE})],
    "CC-S20": [
        ("AIMModel", {"image": "a/b:1", "discovery": {}},
         {"discovery": {"extractMetadata": True, "createServiceTemplates": True}}),
        ("AIMModel", own_model({"name": "a", "hardware": GPU}), {"customTemplates.0.type": "unoptimized"}),
    ],
    "CC-S22": [("AIMServiceTemplate", {"modelName": "m", **COMPLETE, "customProfile": ENGINE}, {})],
    "CC-S23": [
        ("AIMClusterServiceTemplate", {"modelName": "m", "caching": {"enabled": True}}, {"caching": ABSENT}),
        ("AIMServiceTemplate", {"modelName": "m", "caching": {}}, {"caching": {"enabled": False}}),
    ],
    "CC-S24": [
        ("AIMClusterModelSource", catalogue(), {"registry": "docker.io", "syncInterval": "1h", "maxModels": 100}),
    ],
    "CC-S25": [("AIMArtifact", {"sourceUri": "hf://a/b", "modelId": "org/m.v1"}, {})],
    "CC-S26": [
        ("AIMArtifact", {"sourceUri": "hf://a/b", "downloadFilter": {}, "retentionPriority": 0},
         {"downloadFilter": {}, "retentionPriority": 0, "modelDownloadImage": ABSENT}),
    ],
    "CC-S27": [("AIMTemplateCache", cache(), {"mode": "Shared"})],
    "CC-082": [("AIMModel", own_model({"name": "a", "hardware": GPU}, {"name": "a", "hardware": GPU}), {})],
    "CC-112": [("AIMClusterModelSource", catalogue(syncInterval="1s"), {"syncInterval": "1s"})],
    "CC-151": [
        ("AIMService", service(), {"caching": ABSENT, "replicas": 1}),
        ("AIMService", service(caching={}), {"caching": {"mode": "Shared"}}),
        ("AIMModel", {"image": "a/b:1"}, {"discovery": ABSENT}),
    ],
    "CC-S28": [
        ("AIMRuntimeConfig", None, {}),
        ("AIMRuntimeConfig", QUOTA, {"artifactStorageQuota": ABSENT}),
        ("AIMClusterRuntimeConfig", QUOTA, QUOTA),
        ("AIMRuntimeConfig", {"labelPropagation": {"match": ["a"]}}, {"labelPropagation": {"match": ["a"]}}),
    ],
}  # fmt: skip

LATENCY: Final = {"modelName": "m", "metric": "latency", "hardware": GPU}
PROFILED: Final = {"customProfile": {"engineArgs": {}}, "aimId": "a/b", "modelId": "a/b"}
UPDATES: Final[dict[str, list[tuple[str, JsonObject, JsonObject, bool]]]] = {
    "CC-S06": [
        ("AIMService", service(), {"model": {"name": "b"}}, False),
        ("AIMService", service(), service(replicas=3), True),
        ("AIMService", service(), service(maxReplicas=0), False),
    ],
    "CC-S07": [
        ("AIMService", service(caching={"mode": "Dedicated"}), service(caching={"mode": "Shared"}), False),
        ("AIMService", service(caching={"mode": "Dedicated"}), service(), False),
        ("AIMService", service(), service(caching={"mode": "Dedicated"}), False),
        ("AIMService", service(), service(caching={"mode": "Shared"}), True),
        ("AIMService", service(), service(caching={}), True),
        ("AIMService", service(caching={}), service(), True),
    ],
    "CC-S09": [
        ("AIMService", service(overrides={"metric": "latency"}), service(overrides={"metric": "throughput"}), False),
    ],
    "CC-S21": [
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "modelName": "n"}, False),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "metric": "throughput"}, False),
        ("AIMServiceTemplate", without(LATENCY, "metric"), LATENCY, False),
        ("AIMServiceTemplate", LATENCY, without(LATENCY, "metric"), False),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "hardware": {"gpu": {"requests": 2, "model": "MI300X"}}}, False),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "env": [{"name": "A", "value": "1"}]}, True),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "profileId": "p"}, True),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "type": "preview"}, True),
        ("AIMServiceTemplate", LATENCY, {**LATENCY, "modelSources": [SOURCE]}, True),
    ],
    "CC-S25": [("AIMArtifact", {"sourceUri": "hf://org/model"}, {"sourceUri": "hf://org/other"}, False)],
    "CC-141": [
        ("AIMService", custom(), custom(hardware={"gpu": {**GPU["gpu"], "resourceName": "amd.com/gpu"}}), True),
        ("AIMService", custom(), custom(hardware={"gpu": {**GPU["gpu"], "resourceName": "amd.com/other"}}), False),
        ("AIMService", custom(), custom(modelSources=[{**SOURCE, "env": [{"name": "A", "value": "1"}]}]), False),
    ],
    "CC-P05": [
        ("AIMServiceTemplate", LATENCY, without(LATENCY, "metric"), False),
        ("AIMServiceTemplate", without(LATENCY, "metric"), LATENCY, False),
        ("AIMArtifact", {"sourceUri": "hf://a/b", "downloadFilter": {}}, {"sourceUri": "hf://a/b"}, False),
    ],
    "CC-163": [
        ("AIMServiceTemplate", {"modelName": "m"},
         {"modelName": "m", **PROFILED, "hardware": GPU, "metric": "latency", "precision": "fp8"}, False),
        ("AIMServiceTemplate", {"modelName": "m", "hardware": GPU, "metric": "latency", "precision": "fp8"},
         {"modelName": "m", **PROFILED, "hardware": GPU, "metric": "latency", "precision": "fp8"}, True),
    ],
    "CC-S26": [
        ("AIMArtifact", {"sourceUri": "hf://a/b", "downloadFilter": {}},
         {"sourceUri": "hf://a/b", "downloadFilter": {"include": ["*.json"]}}, False),
        ("AIMArtifact", {"sourceUri": "hf://a/b", "downloadFilter": {}}, {"sourceUri": "hf://a/b"}, False),
        ("AIMArtifact", {"sourceUri": "hf://a/b"}, {"sourceUri": "hf://a/b", "downloadFilter": {}}, False),
        ("AIMArtifact", {"sourceUri": "hf://a/b", "retentionPriority": 0},
         {"sourceUri": "hf://a/b", "retentionPriority": 5}, True),
    ],
}  # fmt: skip


def scenarios(table: dict[str, list[Any]]) -> list[Any]:
    """One test per scenario, citing it."""
    return [pytest.param(rows, marks=pytest.mark.spec(name), id=name) for name, rows in table.items()]


def part(spec: JsonObject, path: str) -> Any:
    """What lies at a dotted path."""
    found: Any = spec
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found.get(step, ABSENT)
        if found is ABSENT:
            break
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.spec(name), id=name) for name in REFUSED])
async def test_refused(api: SuiteApi, name: str) -> None:
    for (kind, spec), field in zip(REFUSED[name], FIELDS[name], strict=True):
        reply = await api.post(path_of(kind), obj(kind, spec), dryRun="All")
        assert reply.status == 422, f"{kind} {spec}: {reply.status} {reply.message}"
        assert reply.body["details"]["causes"][0]["field"] == field, f"{kind} {spec}: {reply.message}"


@pytest.mark.parametrize("rows", scenarios(ACCEPTED))
async def test_stored(api: SuiteApi, rows: list[tuple[str, JsonObject | None, dict[str, Any]]]) -> None:
    for kind, spec, expected in rows:
        reply = await api.post(path_of(kind), obj(kind, spec), dryRun="All")
        assert reply.status == 201, f"{kind} {spec}: {reply.message}"
        found = {path: part(reply.body.get("spec", {}), path) for path in expected}
        assert found == expected, f"{kind} {spec}"


@pytest.mark.parametrize("rows", scenarios(UPDATES))
async def test_changed(api: SuiteApi, rows: list[tuple[str, JsonObject, JsonObject, bool]]) -> None:
    for number, (kind, before, after, allowed) in enumerate(rows):
        made = await api.created(path_of(kind), obj(kind, before, f"u{number}"))
        reply = await api.put(f"{path_of(kind)}/{made['metadata']['name']}", {**made, "spec": after})
        assert reply.status == (200 if allowed else 422), f"{kind} {before} -> {after}: {reply.status} {reply.message}"


@pytest.mark.spec("CC-142", "CC-140")
async def test_an_immutable_field_is_refused_however_it_is_sent(api: SuiteApi) -> None:
    made = await api.created(path_of("AIMService"), obj("AIMService", service()))
    path = f"{path_of('AIMService')}/{made['metadata']['name']}"
    changed = {"model": {"name": "b"}}
    applied = {**obj("AIMService", changed), "metadata": {"name": made["metadata"]["name"]}}
    replies = (
        await api.put(path, {**made, "spec": service(**changed)}),
        await api.merge(path, {"spec": changed}),
        await api.apply(path, applied, "tests", force="true"),
    )
    assert [reply.status for reply in replies] == [422] * 3, [reply.message for reply in replies]
    assert (await api.get(path)).body["spec"]["model"] == {"name": "a"}
