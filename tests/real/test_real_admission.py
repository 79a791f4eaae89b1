"""The admission policy of the chart, asked by a real API server (FW-508)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml
from support.controlplane import RawApi, Reply
from support.helm import DEFINED, NAMESPACE, Finished, of_kind, rendered
from support.nats import eventually
from support.real_cluster import raw_api

from aim_domain import labels
from aim_local.realcluster import RealCluster, User
from aim_packaging.manifests import NAMESPACE as SYSTEM
from aim_packaging.reserved import ANNOTATIONS, LABELS
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWN: Final = "/apis/aim.eai.amd.com/v1alpha1/namespaces"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SERVING: Final = "/apis/serving.kserve.io/v1beta1/namespaces"
COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACES: Final = "system:serviceaccount:kube-system:namespace-controller"
EDITOR: Final = "editor"
DOCS: Final = Path(__file__).parents[2] / "docs" / "guides"
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
VALUES: Final = {
    "enabled": True,
    "images": ["amdenterpriseai/", "docker.io/amdenterpriseai/"],
    "sources": ["hf://our-team/", "s3://our-models/"],
    "serviceAccounts": ["models"],
}
GPU: Final = {"gpu": {"model": "MI300X", "requests": 1}}
PROFILED: Final[JsonObject] = {
    "aimId": "a/b", "modelId": "a/b", "hardware": GPU, "metric": "latency", "precision": "fp8",
}  # fmt: skip
ARGUMENTS: Final = {"engineArgs": {"trust-remote-code": True}}
BAD_ENV: Final = [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]
WEIGHTS: Final = {"modelId": "a/b", "sourceUri": "hf://our-team/a"}


def service(**spec: Any) -> tuple[str, JsonObject]:
    return "AIMService", {"model": {"image": IMAGE}} | spec


def own_model(**custom: Any) -> tuple[str, JsonObject]:
    known = {"baseImage": IMAGE, "modelSources": [WEIGHTS], "hardware": GPU}
    return service(model={"custom": known | custom})


def profiled(**spec: Any) -> tuple[str, JsonObject]:
    return "AIMServiceTemplate", {"modelName": "m", **PROFILED} | spec


def cache(**spec: Any) -> tuple[str, JsonObject]:
    return "AIMTemplateCache", {"templateName": "t", "templateScope": "Namespace"} | spec


def of_model(**spec: Any) -> tuple[str, JsonObject]:
    return "AIMModel", {"image": IMAGE} | spec


def entry(**spec: Any) -> tuple[str, JsonObject]:
    whole = {"name": "a", "aimId": "a/b", "modelId": "a/b", "hardware": GPU, **spec}
    return of_model(customTemplates=[whole | {"profile": {"metric": "latency", "precision": "fp8"}}])


def profile(**spec: Any) -> tuple[str, JsonObject]:
    return "AIMProfile", {"image": IMAGE, "aimId": "a", "modelSources": [WEIGHTS], **spec}


def derived(**overrides: Any) -> tuple[str, JsonObject]:
    return "AIMProfileSet", {"selector": {"aimId": "a"}, "versionPolicy": "all", "overrides": overrides}


def derived_model(**overrides: Any) -> tuple[str, JsonObject]:
    return "AIMModel", {
        "profiles": {"derivedFrom": {"selector": {"aimId": "a"}}, "versionPolicy": "all", "overrides": overrides}
    }


def laid_over(**overrides: Any) -> tuple[str, JsonObject]:
    return "AIMService", {"profile": {"name": "p"}, "profileOverrides": overrides}


FOREIGN_WEIGHTS: Final = {**WEIGHTS, "sourceUri": "hf://others/a"}
PROTECTION: Final = "aim-engine-artifact-protection"
REFUSED: Final = [
    (service(model={"image": "evil.example/x:1"}), "image evil.example/x:1 is not allowed"),
    # A longer name that begins alike is another registry.
    (service(model={"image": "amdenterpriseai.example/x:1"}), "image amdenterpriseai.example/x:1 is not allowed"),
    (own_model(baseImage="evil.example/x:1"), "image evil.example/x:1"),
    (of_model(image="evil.example/x:1"), "image evil.example/x:1"),
    (cache(downloadImage="evil.example/x:1"), "image evil.example/x:1"),
    (
        ("AIMArtifact", {"sourceUri": "hf://our-team/a", "modelDownloadImage": "evil.example/x:1"}),
        "image evil.example/x:1",
    ),
    (("AIMArtifact", {"sourceUri": "hf://others/a"}), "weights from hf://others/a are not allowed"),
    (own_model(modelSources=[FOREIGN_WEIGHTS]), "weights from hf://others/a"),
    (
        service(model={"image": IMAGE}, adapters=[{"name": "own"}, {"name": "a", "sourceUri": "hf://others/a"}]),
        "weights from hf://others/a",
    ),
    (of_model(modelSources=[FOREIGN_WEIGHTS], custom={"hardware": GPU}), "weights from hf://others/a"),
    (profiled(modelSources=[FOREIGN_WEIGHTS]), "weights from hf://others/a"),
    (service(serviceAccountName="admin"), "ServiceAccount admin is not allowed"),
    (of_model(serviceAccountName="admin"), "ServiceAccount admin"),
    (service(env=BAD_ENV), "variable LD_PRELOAD may not be set"),
    (own_model(modelSources=[{**WEIGHTS, "env": BAD_ENV}]), "variable LD_PRELOAD"),
    (profiled(caching={"enabled": True, "env": BAD_ENV}), "variable LD_PRELOAD"),
    (entry(env=BAD_ENV), "variable LD_PRELOAD"),
    (("AIMRuntimeConfig", {"env": BAD_ENV}), "variable LD_PRELOAD"),
    (profiled(customProfile=ARGUMENTS), "engine argument trust-remote-code may not be given"),
    (entry(customProfile=ARGUMENTS), "engine argument trust-remote-code"),
    (profiled(customProfile={"engineArgs": {}, "envVars": {"LD_PRELOAD": "x"}}), "variable LD_PRELOAD"),
    (profile(image="evil.example/x:1"), "image evil.example/x:1"),
    (profile(modelSources=[FOREIGN_WEIGHTS]), "weights from hf://others/a"),
    (profile(serviceAccountName="admin"), "ServiceAccount admin"),
    (profile(containerEnv=BAD_ENV), "variable LD_PRELOAD"),
    (profile(engineEnv={"LD_PRELOAD": "x"}), "variable LD_PRELOAD"),
    (profile(caching={"enabled": True, "env": BAD_ENV}), "variable LD_PRELOAD"),
    (profile(engineArgs={"trust-remote-code": True}), "engine argument trust-remote-code"),
    (("AIMProfileCache", {"profileName": "p", "profileScope": "Namespace", "env": BAD_ENV}), "variable LD_PRELOAD"),
    *(
        (make(**overrides), words)
        for make in (derived, derived_model, laid_over)
        for overrides, words in (
            ({"modelSources": [FOREIGN_WEIGHTS]}, "weights from hf://others/a"),
            ({"containerEnv": BAD_ENV}, "variable LD_PRELOAD"),
            ({"engineEnv": {"LD_PRELOAD": "x"}}, "variable LD_PRELOAD"),
            ({"engineArgs": {"trust-remote-code": True}}, "engine argument trust-remote-code"),
        )
    ),
    (derived(image="evil.example/x:1"), "image evil.example/x:1"),
    (derived_model(image="evil.example/x:1"), "image evil.example/x:1"),
]
ADMITTED: Final = [
    service(),
    service(serviceAccountName="models", env=[{"name": "HF_TOKEN", "value": "x"}]),
    own_model(),
    of_model(image="docker.io/amdenterpriseai/aim-base:0.9.0"),
    profiled(customProfile={"engineArgs": {"dtype": "float16"}}),
    entry(customProfile={"engineArgs": {"dtype": "float16"}}),
    cache(),
    profile(engineArgs={"dtype": "float16"}, engineEnv={"A": "1"}, containerEnv=[{"name": "A", "value": "1"}]),
    derived(modelSources=[WEIGHTS], engineArgs={"dtype": "float16"}),
    derived_model(image=IMAGE),
    laid_over(modelSources=[WEIGHTS], engineEnv={"A": "1"}),
    ("AIMProfileCache", {"profileName": "p", "profileScope": "Namespace"}),
    ("AIMRuntimeConfig", {"env": [{"name": "HF_TOKEN", "value": "x"}]}),
    ("AIMRuntimeConfig", {}),
]


def shown_in_guides() -> Iterator[JsonObject]:
    """The objects of namespaces that the guides and the examples show."""
    for guide in sorted(DOCS.glob("*.md")):
        for block in guide.read_text(encoding="utf-8").split("```yaml\n")[1:]:
            for obj in yaml.safe_load_all(block.partition("\n```")[0]):
                if "apiVersion" in obj and "namespace" in obj["metadata"]:
                    yield obj


def body(kind: str, spec: JsonObject, **metadata: Any) -> JsonObject:
    return {
        "apiVersion": f"aim.eai.amd.com/{'v1alpha2' if 'Profile' in kind else 'v1alpha1'}",
        "kind": kind,
        "metadata": {"name": "tried", **metadata},
        "spec": spec,
    }


async def tried(client: RawApi, namespace: str, obj: JsonObject) -> Reply:
    """What the API server says to an object that is not stored."""
    placed = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    own = OWN if "v1alpha1" in obj["apiVersion"] else OWN.replace("v1alpha1", "v1alpha2")
    return await client.post(f"{own}/{namespace}/{obj['kind'].lower()}s", placed, dryRun="All")


async def put_in_force(api: RawApi, chart: Finished) -> list[str]:
    """Create the policies of a chart; their paths."""
    paths = []
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ):
        collection = f"{POLICIES}/{plural}"
        for name, one in of_kind(chart, kind).items():
            await api.created(collection, one)
            paths.append(f"{collection}/{name}")
    return paths


@pytest_asyncio.fixture(loop_scope="session")
async def editor(real_cluster: RealCluster, api: RawApi) -> AsyncIterator[RawApi]:
    """A user who may edit everything, and whom nothing exempts."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EDITOR}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "roleRef": role}
    await api.post(BINDINGS, {**binding, "metadata": {"name": EDITOR}, "subjects": [subject]})
    async with raw_api(real_cluster.kubeconfig_for(User.KUBECTL), impersonated=EDITOR) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def policies(api: RawApi, editor: RawApi, namespace: str, tmp_path: Path) -> AsyncIterator[None]:
    """The policies of the chart in force; they are gone afterwards."""
    paths = await put_in_force(api, await rendered(tmp_path, {"admissionPolicy": VALUES}))

    async def answers() -> tuple[int, int]:
        wish = await tried(editor, namespace, body(*service(env=BAD_ENV)))
        mark = await tried(editor, namespace, body(*service(), labels={labels.ORIGIN: "derived"}))
        return wish.status, mark.status

    async def in_force() -> bool:
        return await answers() == (422, 422)

    async def lifted() -> bool:
        return await answers() == (201, 201)

    try:
        await eventually(in_force, "the API server refuses by both policies", interval=0.2)
        yield
    finally:
        for path in paths:
            await api.delete(path)
        # Else the next test would find these in force, and a moment later none.
        await eventually(lifted, "the API server refuses by neither", interval=0.2)


@pytest.mark.spec("FW-508")
@pytest.mark.usefixtures("policies")
async def test_what_the_owner_of_the_platform_does_not_allow_is_refused_with_the_remedy(
    editor: RawApi, namespace: str
) -> None:
    for wish, reported in REFUSED:
        reply = await tried(editor, namespace, body(*wish))
        assert reply.status == 422, (wish, reply.body)
        assert reported in reply.message
        assert any(f": {remedy} " in reply.message for remedy in ("take", "leave", "remove")), reply.message


@pytest.mark.spec("FW-508")
@pytest.mark.usefixtures("policies")
async def test_usual_objects_and_those_of_the_guides_are_admitted(editor: RawApi, namespace: str) -> None:
    own = [body(*wish) for wish in ADMITTED]
    shown = [obj for obj in shown_in_guides() if obj["apiVersion"].startswith("aim.eai.amd.com")]
    assert len(shown) > 5
    for obj in (*own, *shown):
        reply = await tried(editor, namespace, obj)
        assert reply.status == 201, (obj["metadata"]["name"], reply.message)


@pytest.mark.spec("FW-508")
@pytest.mark.usefixtures("policies")
async def test_marks_of_the_services_are_written_by_them_alone(
    real_cluster: RealCluster, api: RawApi, editor: RawApi, namespace: str
) -> None:
    assert SYSTEM == NAMESPACE
    for key in LABELS:
        reply = await tried(editor, namespace, body(*service(), labels={key: "x"}))
        assert f"{key} is written by the services of AIM Engine alone" in reply.message
    for key in ANNOTATIONS:
        reply = await tried(editor, namespace, body(*service(), annotations={key: "x"}))
        assert f"{key} is written by the services of AIM Engine alone" in reply.message
    for key in (labels.ANNOTATION_PAUSED, labels.ANNOTATION_DRY_RUN, labels.ANNOTATION_EVICTION_PROTECTED):
        assert (await tried(editor, namespace, body(*service(), annotations={key: "true"}))).status == 201
    marks = {labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED, labels.SERVICE_NAME: "x"}
    async with raw_api(real_cluster.kubeconfig_for("serving")) as serving:
        assert (await tried(serving, namespace, body(*of_model(), labels=marks))).status == 201
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for path, kind, more in (
        ("configmaps", "ConfigMap", {}),
        ("persistentvolumeclaims", "PersistentVolumeClaim", {"spec": claim}),
    ):
        metadata = {"name": "x", "labels": {labels.COMPONENT: "x"}}
        forged = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}
        reply = await editor.post(f"/api/v1/namespaces/{namespace}/{path}", forged, dryRun="All")
        assert "is written by the services" in reply.message, reply.body


@pytest.mark.spec("FW-508")
@pytest.mark.usefixtures("policies")
async def test_what_was_there_before_can_be_labelled_and_deleted_but_not_made_worse(
    api: RawApi, editor: RawApi, namespace: str
) -> None:
    kept = {labels.ORIGIN: labels.ORIGIN_DERIVED}
    before = body(*service(env=BAD_ENV), labels=kept, finalizers=["example.com/x"])
    collection = f"{OWN}/{namespace}/aimservices"
    await api.created(collection, before)
    path = f"{collection}/tried"
    assert (await editor.merge(path, {"metadata": {"labels": {"team": "a"}}})).status == 200
    for key in ({labels.ORIGIN: None}, {labels.ORIGIN: "x"}):
        assert (await editor.merge(path, {"metadata": {"labels": key}})).status == 422
    worse = await editor.merge(path, {"spec": {"replicas": 2}})
    assert "variable LD_PRELOAD" in worse.message
    assert (await editor.merge(path, {"spec": {"replicas": 2, "env": []}})).status == 200
    assert (await editor.delete(path)).status == 200
    assert (await editor.merge(path, {"metadata": {"finalizers": []}})).status == 200
    assert (await api.get(path)).status == 404


@pytest.mark.spec("FW-508")
async def test_nothing_of_it_is_there_unless_wanted_and_an_old_cluster_is_reported_so(tmp_path: Path) -> None:
    plain = await rendered(tmp_path)
    assert set(of_kind(plain, "ValidatingAdmissionPolicy")) == {PROTECTION}
    old = await rendered(tmp_path, {"admissionPolicy": VALUES}, ("--kube-version", "1.29", *DEFINED))
    assert "admissionPolicy.enabled needs Kubernetes 1.30, this is v1.29" in old.errors
    some: JsonObject = {"enabled": True, "reserved": False, "actions": ["Warn", "Audit"]}
    done = await rendered(tmp_path, {"admissionPolicy": some, "artifactProtection": {"enabled": False}})
    assert set(of_kind(done, "ValidatingAdmissionPolicy")) == {"aim-engine-wishes"}
    [binding] = of_kind(done, "ValidatingAdmissionPolicyBinding").values()
    assert binding["spec"]["validationActions"] == ["Warn", "Audit"]


@pytest_asyncio.fixture(loop_scope="session")
async def protection(api: RawApi, editor: RawApi, namespace: str, tmp_path: Path) -> AsyncIterator[None]:
    """The policy that keeps artifacts in use; it is gone afterwards."""
    paths = await put_in_force(api, await rendered(tmp_path))
    await with_weights(api, namespace, "probed")
    await mounting(api, namespace, "probe", "probed")

    async def in_force() -> bool:
        reply = await editor.delete(f"{OWN}/{namespace}/aimartifacts/probed", dryRun="All")
        return "is in use" in reply.message

    async def lifted() -> bool:
        return not await in_force()

    try:
        await eventually(in_force, "the API server keeps the artifact", interval=0.2)
        yield
    finally:
        for path in paths:
            await api.delete(path)
        await eventually(lifted, "the API server keeps it no longer", interval=0.2)


async def with_weights(api: RawApi, namespace: str, name: str, status: str = "Ready") -> str:
    """An artifact whose claim has its own name; its path."""
    collection = f"{OWN}/{namespace}/aimartifacts"
    await api.created(collection, body("AIMArtifact", {"sourceUri": "hf://a/b"}) | {"metadata": {"name": name}})
    path = f"{collection}/{name}"
    stated = {"status": {"status": status, "persistentVolumeClaim": name}}
    assert (await api.merge(f"{path}/status", stated)).status == 200
    return path


async def mounting(api: RawApi, namespace: str, name: str, claim: str, **metadata: Any) -> str:
    """An InferenceService that mounts a claim; its path."""
    collection = f"{SERVING}/{namespace}/inferenceservices"
    volumes = [{"name": "x", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": claim}}]
    predictor = {"containers": [{"name": "kserve-container", "image": IMAGE}], "volumes": volumes}
    workload = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, **metadata},
        "spec": {"predictor": predictor},
    }
    await api.created(collection, workload)
    return f"{collection}/{name}"


@pytest.mark.spec("AR-114")
@pytest.mark.usefixtures("protection")
async def test_an_artifact_in_use_is_kept_with_the_command_that_frees_it(
    api: RawApi, editor: RawApi, namespace: str
) -> None:
    path = await with_weights(api, namespace, "weights")
    kind, spec = service()
    made = await api.created(f"{OWN}/{namespace}/aimservices", {**body(kind, spec), "metadata": {"name": "chat"}})
    # Of an owner that does not exist the garbage collector deletes what it owns.
    owner = {"apiVersion": made["apiVersion"], "kind": kind, "name": "chat", "uid": made["metadata"]["uid"]}
    workload = await mounting(
        api, namespace, "chat-1", "weights", ownerReferences=[owner], finalizers=["example.com/x"]
    )
    # The API server learns of the InferenceService a moment after it is made.
    await api.repeated(lambda: editor.delete(path, dryRun="All"), lambda reply: "is in use" in reply.message)
    kept = await editor.delete(path)
    assert kept.status == 403
    assert "AIMArtifact weights is in use: InferenceService chat-1 mounts its weights" in kept.message
    assert kept.message.endswith(f"kubectl delete aimservice chat -n {namespace}"), kept.message
    everything = await editor.delete(f"{OWN}/{namespace}/aimartifacts")
    assert everything.status == 403, "by a deletion of all artifacts as well"
    assert (await api.get(path)).status == 200
    assert (await api.delete(workload)).status == 200

    async def freed() -> bool:
        return (await editor.delete(path)).status == 200

    # The API server judges by its own watch of InferenceServices.
    await eventually(freed, "it can be deleted once the InferenceService is on its way out", interval=0.2)
    assert (await api.merge(workload, {"metadata": {"finalizers": []}})).status == 200


@pytest.mark.spec("AR-114")
@pytest.mark.usefixtures("protection")
async def test_what_is_not_in_use_failed_or_cleaned_up_by_a_controller_is_deleted(
    real_cluster: RealCluster, api: RawApi, editor: RawApi, namespace: str
) -> None:
    free = await with_weights(api, namespace, "free")
    failed = await with_weights(api, namespace, "failed", "Failed")
    used = await with_weights(api, namespace, "used")
    for claim in ("failed", "used"):
        await mounting(api, namespace, f"of-{claim}", claim)
    # The API server learns of the InferenceServices a moment after they are made.
    await api.repeated(lambda: editor.delete(used, dryRun="All"), lambda reply: "is in use" in reply.message)
    alone = await editor.delete(used)
    assert alone.message.endswith(f"kubectl delete inferenceservice of-used -n {namespace}"), alone.message
    for path in (free, failed):
        assert (await editor.delete(path)).status == 200
    for account in (f"system:serviceaccount:{SYSTEM}:aim-engine-artifacts", COLLECTOR, NAMESPACES):
        async with raw_api(real_cluster.kubeconfig_for(User.KUBECTL), impersonated=account) as client:
            reply = await client.delete(used, dryRun="All")
            assert "is in use" not in reply.message, account


@pytest.mark.spec("AR-114")
async def test_an_older_cluster_gets_no_policy(tmp_path: Path) -> None:
    old = await rendered(tmp_path, None, ("--kube-version", "1.29", *DEFINED))
    assert not of_kind(old, "ValidatingAdmissionPolicy")
