"""What one stage of an artifact's life contributes to the plan (AR-099, AR-100)."""

from dataclasses import dataclass, replace

from aim_artifacts.conditions import Annotation
from aim_artifacts.progress import DownloadOutcome
from aim_domain import AIMArtifact, ResolvedConfig, RuntimeConfigSpec, has_succeeded
from aim_domain.storage_limits import NO_STORAGE_LIMITS, StorageLimits
from controller_runtime import Child, Component, Delete, Effect, Event, Lookup, Patch
from controller_runtime.core import Job, PersistentVolumeClaim, Pod, RoleBinding


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A Job of the artifact as found, with its own pods."""

    name: str
    lookup: Lookup[Job]
    pods: tuple[Pod, ...] = ()

    @property
    def what(self) -> str:
        """Kind and name for messages."""
        return f"Job {self.name}"

    @property
    def succeeded(self) -> bool:
        """Whether it is there and has ended well (FW-163)."""
        return self.lookup.value is not None and has_succeeded(self.lookup.value, self.pods)


@dataclass(frozen=True, slots=True)
class SeenArtifact:
    """Everything a pass found about one artifact.

    Attributes:
        claim: of an adapter, that of its disk.
        disk: of an adapter.
    """

    artifact: AIMArtifact
    config: ResolvedConfig
    claim: Lookup[PersistentVolumeClaim]
    binding: Lookup[RoleBinding]
    size_job: JobSeen
    download_job: JobSeen
    disk: Lookup[AIMArtifact] | None = None

    @property
    def config_of_jobs(self) -> RuntimeConfigSpec:
        """The config with the namespace's credentials for the artifact's source, and for no other."""
        spec = self.artifact.spec
        return self.config.spec_for([spec.source_uri], spec.env)


@dataclass(frozen=True, slots=True)
class Stage:
    """Contribution of a stage.

    Attributes:
        annotations: of the artifact itself.
        size: bytes of the weights, as far as known in this pass.
        outcome: how the download stands; ``None`` while there is none.
        progressing: reason and message of ``Ready`` when something special is waited for (AR-485).
        limits: storage limits of the namespace.
        requeue_after: seconds after which the clock alone changes the answer.
    """

    components: tuple[Component, ...] = ()
    children: tuple[Child, ...] = ()
    deletes: tuple[Delete, ...] = ()
    patches: tuple[Patch, ...] = ()
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    size: int | None = None
    outcome: DownloadOutcome | None = None
    progressing: tuple[str, str] | None = None
    limits: StorageLimits = NO_STORAGE_LIMITS
    requeue_after: float | None = None

    def with_components(self, *components: Component) -> "Stage":
        """The stage with further components."""
        return replace(self, components=(*self.components, *components))
