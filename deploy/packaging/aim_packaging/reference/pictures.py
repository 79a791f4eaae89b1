"""The picture of each kind: what it comes from, what it leads to."""

from collections.abc import Mapping
from typing import Final

from aim_packaging.reference.drawing import Box, Edge, Look, Picture, svg

_YOU: Final = Box("you", "kubectl apply", Look.OTHER)
_REGISTRY: Final = Box("registry", "lists and labels", Look.OTHER)
_HUB: Final = Box("Hub or bucket", "weights", Look.OTHER)
_NODES: Final = Box("Node", "its GPUs", Look.OTHER)
_CLAIM: Final = Box("PersistentVolumeClaim", "the weights", Look.OTHER)
_WORKLOAD: Final = Box("InferenceService", "KServe: pods, autoscaler", Look.OTHER)
_ROUTE: Final = Box("HTTPRoute", "Gateway API", Look.OTHER)


def _subject(name: str, note: str = "") -> Box:
    return Box(name, note, Look.SUBJECT)


PICTURES: Final[Mapping[str, Picture]] = {
    "overview": Picture(
        "From an AIMService to a model that answers: models and templates on the left, weights and pods on the right",
        (
            (Box("AIMClusterModelSource", "a registry"), _YOU),
            (Box("AIMClusterModel", "or AIMModel: an image"), _subject("AIMService")),
            (Box("AIMServiceTemplate", "or of the cluster: how it runs"), _ROUTE),
            (Box("AIMTemplateCache"), _WORKLOAD),
            (Box("AIMArtifact", "a download"), _CLAIM),
        ),
        (
            Edge("AIMClusterModelSource", "AIMClusterModel", "makes"),
            Edge("you", "AIMService"),
            Edge("AIMService", "AIMClusterModel", "finds"),
            Edge("AIMClusterModel", "AIMServiceTemplate", "makes"),
            Edge("AIMService", "AIMServiceTemplate", "selects"),
            Edge("AIMServiceTemplate", "AIMTemplateCache", "weights"),
            Edge("AIMTemplateCache", "AIMArtifact", "makes"),
            Edge("AIMArtifact", "PersistentVolumeClaim", "fills"),
            Edge("AIMService", "HTTPRoute", "makes"),
            Edge("HTTPRoute", "InferenceService", "leads to"),
            Edge("InferenceService", "PersistentVolumeClaim", "mounts"),
        ),
    ),
    "aimservice": Picture(
        "An AIMService names a model, selects a template, waits for a cache, and makes InferenceService and HTTPRoute",
        (
            (_YOU, Box("AIMRuntimeConfig", "defaults")),
            (_subject("AIMService"), _ROUTE),
            (Box("AIMModel"), Box("AIMServiceTemplate"), Box("AIMTemplateCache")),
            (_WORKLOAD,),
        ),
        (
            Edge("you", "AIMService"),
            Edge("AIMRuntimeConfig", "AIMService"),
            Edge("AIMService", "AIMModel", "finds, or makes"),
            Edge("AIMService", "AIMServiceTemplate", "selects, or derives"),
            Edge("AIMService", "AIMTemplateCache", "makes"),
            Edge("AIMService", "HTTPRoute", "makes"),
            Edge("AIMServiceTemplate", "InferenceService", "profile"),
            Edge("AIMTemplateCache", "InferenceService", "weights"),
        ),
    ),
    "aimmodel": Picture(
        "An AIMModel is an image; what its labels recommend becomes templates",
        (
            (_YOU, Box("AIMClusterModelSource"), Box("AIMService", "names an image")),
            (_REGISTRY, _subject("AIMModel", "or AIMClusterModel")),
            (
                Box("AIMServiceTemplate", "one for each recommendation"),
                Box("AIMClusterServiceTemplate", "of AIMClusterModels"),
            ),
        ),
        (
            Edge("you", "AIMModel"),
            Edge("AIMClusterModelSource", "AIMModel"),
            Edge("AIMService", "AIMModel"),
            Edge("registry", "AIMModel"),
            Edge("AIMModel", "AIMServiceTemplate", "makes"),
            Edge("AIMModel", "AIMClusterServiceTemplate", "makes"),
        ),
    ),
    "aimservicetemplate": Picture(
        "A template comes of a model, is discovered by a Job, and is selected by services",
        (
            (Box("AIMModel", "recommends"), _YOU, Box("AIMService", "with overrides")),
            (
                _NODES,
                _subject("AIMServiceTemplate", "or AIMClusterServiceTemplate"),
                Box("Job", "prints the profile", Look.OTHER),
            ),
            (Box("AIMTemplateCache", "its weights"), Box("InferenceService", "runs its profile", Look.OTHER)),
        ),
        (
            Edge("AIMModel", "AIMServiceTemplate", "makes"),
            Edge("you", "AIMServiceTemplate"),
            Edge("AIMService", "AIMServiceTemplate", "derives"),
            Edge("Node", "AIMServiceTemplate"),
            Edge("AIMServiceTemplate", "Job"),
            Edge("AIMServiceTemplate", "AIMTemplateCache"),
            Edge("AIMServiceTemplate", "InferenceService"),
        ),
    ),
    "aimtemplatecache": Picture(
        "A cache has one artifact for each source of its template",
        (
            (Box("AIMService", "waits for it"), Box("AIMServiceTemplate", "names the sources")),
            (_subject("AIMTemplateCache", "Shared or Dedicated"),),
            (Box("AIMArtifact", "one for each source"),),
            (_CLAIM,),
        ),
        (
            Edge("AIMService", "AIMTemplateCache", "makes"),
            Edge("AIMServiceTemplate", "AIMTemplateCache"),
            Edge("AIMTemplateCache", "AIMArtifact", "makes, finds"),
            Edge("AIMArtifact", "PersistentVolumeClaim"),
        ),
    ),
    "aimprofile": Picture(
        "A profile comes of an image, of a set or of you, and a service runs it",
        (
            (Box("AIMModel", "its image has profiles"), Box("AIMProfileSet", "derives"), _YOU),
            (_NODES, _subject("AIMProfile", "or AIMClusterProfile"), Box("AIMService", "selects, or overrides")),
            (Box("AIMProfileCache", "its weights"), Box("InferenceService", "runs it", Look.OTHER)),
        ),
        (
            Edge("AIMModel", "AIMProfile", "makes"),
            Edge("AIMProfileSet", "AIMProfile", "makes"),
            Edge("you", "AIMProfile"),
            Edge("Node", "AIMProfile"),
            Edge("AIMService", "AIMProfile"),
            Edge("AIMProfile", "AIMProfileCache"),
            Edge("AIMProfile", "InferenceService"),
        ),
    ),
    "aimprofileset": Picture(
        "A set derives profiles from others",
        (
            (Box("AIMModel", "with spec.profiles"), _YOU, Box("AIMProfile", "or AIMClusterProfile")),
            (_subject("AIMProfileSet", "or AIMClusterProfileSet"),),
            (Box("AIMClusterProfile", "or AIMProfile: derived"),),
        ),
        (
            Edge("AIMModel", "AIMProfileSet", "makes"),
            Edge("you", "AIMProfileSet"),
            Edge("AIMProfile", "AIMProfileSet"),
            Edge("AIMProfileSet", "AIMClusterProfile", "derives"),
        ),
    ),
    "aimprofilecache": Picture(
        "A cache has one artifact for each source of its profile",
        (
            (Box("AIMService", "waits for it"), Box("AIMProfile", "names the sources")),
            (_subject("AIMProfileCache", "Shared or Dedicated"),),
            (Box("AIMArtifact", "one for each source"),),
            (_CLAIM,),
        ),
        (
            Edge("AIMService", "AIMProfileCache", "makes"),
            Edge("AIMProfile", "AIMProfileCache"),
            Edge("AIMProfileCache", "AIMArtifact", "makes, finds"),
            Edge("AIMArtifact", "PersistentVolumeClaim"),
        ),
    ),
    "aimartifact": Picture(
        "An artifact asks for the size, takes room, makes a volume, downloads and verifies",
        (
            (Box("AIMTemplateCache"), _YOU),
            (_subject("AIMArtifact"),),
            (Box("Job", "asks for the size, then downloads", Look.OTHER), _CLAIM),
            (_HUB, Box("InferenceService", "mounts it", Look.OTHER)),
        ),
        (
            Edge("AIMTemplateCache", "AIMArtifact", "makes"),
            Edge("you", "AIMArtifact"),
            Edge("AIMArtifact", "Job"),
            Edge("AIMArtifact", "PersistentVolumeClaim"),
            Edge("Hub or bucket", "Job"),
            Edge("Job", "PersistentVolumeClaim", "fills"),
            Edge("InferenceService", "PersistentVolumeClaim"),
        ),
    ),
    "aimruntimeconfig": Picture(
        "Of each setting the nearest counts: the object, then the config of its namespace, then that of the cluster",
        (
            (Box("AIMClusterRuntimeConfig", "of the cluster"),),
            (_subject("AIMRuntimeConfig", "of the namespace"),),
            (Box("AIMService"), Box("AIMModel", "and templates"), Box("AIMArtifact", "and caches")),
        ),
        (
            Edge("AIMClusterRuntimeConfig", "AIMRuntimeConfig", "defaults"),
            Edge("AIMRuntimeConfig", "AIMService"),
            Edge("AIMRuntimeConfig", "AIMModel", "defaults"),
            Edge("AIMRuntimeConfig", "AIMArtifact"),
        ),
    ),
    "aimclustermodelsource": Picture(
        "A model source lists a registry and makes an AIMClusterModel for each image that is selected",
        (
            (_YOU, _REGISTRY),
            (_subject("AIMClusterModelSource", "again each syncInterval"),),
            (Box("AIMClusterModel", "one for each image"),),
            (Box("AIMClusterServiceTemplate"),),
        ),
        (
            Edge("you", "AIMClusterModelSource"),
            Edge("registry", "AIMClusterModelSource", "lists"),
            Edge("AIMClusterModelSource", "AIMClusterModel", "makes"),
            Edge("AIMClusterModel", "AIMClusterServiceTemplate", "makes"),
        ),
    ),
}  # fmt: skip


def pages() -> Mapping[str, str]:
    """The files, by name."""
    return {f"{name}.svg": svg(picture) for name, picture in PICTURES.items()}
