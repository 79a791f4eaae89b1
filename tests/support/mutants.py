"""Planted changes in the decision modules of the services, and what `aim replay` makes of each.

``python -m support.mutants NATS_URL`` replays the log at that broker once for each of them, through the real command,
and prints a line of JSON for each. Every change runs in a process of its own, forked off one that has loaded everything
but the services.
"""

import contextlib
import importlib
import io
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from controller_runtime import dumps

SERVICES = ("aim_model_sync", "aim_discovery", "aim_artifacts", "aim_serving", "aim_routing")
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted change: a text that stands in a module exactly once, and what stands there instead."""

    what: str
    module: str
    text: str
    instead: str

    @property
    def service(self) -> str:
        """The package that is changed."""
        return self.module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the command printed last, and its exit code."""

    what: str
    code: int
    reported: str


UNCHANGED = Mutant("unchanged code", "", "", "")
HARMLESS = Mutant(
    "a look that changes nothing",
    "aim_routing.reconcile",
    "    if not settings.enabled:\n",
    "    view.all(HTTP_ROUTES)\n    if not settings.enabled:\n",
)
"""It asks beyond the record, and decides alike."""
MUTANTS = (
    Mutant(
        "a limit that is off by one", "aim_model_sync.catalogue", "len(create) >= capacity", "len(create) > capacity"
    ),
    Mutant(
        "images that have a model already",
        "aim_model_sync.catalogue",
        "if image in managed or has_model(image):",
        "if image in managed:",
    ),
    Mutant(
        "an annotation that is left out",
        "aim_model_sync.reconcile",
        "            labels.ANNOTATION_SOURCE_TAG: image.version,\n",
        "",
    ),
    Mutant(
        "another spread of syncs",
        "aim_model_sync.schedule",
        "PERIODIC_JITTER_MAX: Final = 60.0",
        "PERIODIC_JITTER_MAX: Final = 30.0",
    ),
    Mutant(
        "an event that is not reported",
        "aim_model_sync.reconcile",
        "created {count_of(number, 'model')}\"),) if number else ()",
        "created {count_of(number, 'model')}\"),) if not number else ()",
    ),
    Mutant("the worst of two templates", "aim_serving.template_selection", "best = min(_score", "best = max(_score"),
    Mutant(
        "another order of preference",
        "aim_serving.template_selection",
        '_METRICS: Final = ("latency", "throughput")',
        '_METRICS: Final = ("throughput", "latency")',
    ),
    Mutant(
        "GPUs that no node has",
        "aim_serving.template_selection",
        "not one.gpu_model or criteria.gpu_present",
        "not one.gpu_model or not criteria.gpu_present",
    ),
    Mutant(
        "a variable that is dropped",
        "aim_serving.containers",
        '    EnvVar(name="VLLM_ENABLE_METRICS", value="true"),\n',
        "",
    ),
    Mutant(
        "variables out of order",
        "aim_serving.containers",
        "key=lambda variable: variable.name)",
        "key=lambda variable: variable.name, reverse=True)",
    ),
    Mutant(
        "another default of memory",
        "aim_serving.containers",
        "LIMITED_GIB_PER_GPU: Final = 48",
        "LIMITED_GIB_PER_GPU: Final = 64",
    ),
    Mutant(
        "the smallest where the largest is meant",
        "aim_serving.inference_service",
        '"maxReplicas": scaling.maximum',
        '"maxReplicas": scaling.minimum',
    ),
    Mutant(
        "caches that are always shared",
        "aim_serving.template_cache",
        "owned=mode is CacheMode.DEDICATED",
        "owned=mode is CacheMode.SHARED",
    ),
    Mutant("a metric that is not shown", "aim_serving.replicas", '"query": metric.query,', '"query": None,'),
    Mutant(
        "claims that are not ready",
        "aim_serving.volumes",
        "if one.status is StatusValue.READY and one",
        "if one.status is not StatusValue.READY and one",
    ),
    Mutant("another port", "aim_routing.route", "BACKEND_PORT = 80", "BACKEND_PORT = 8080"),
    Mutant("paths of another length", "aim_routing.path", "MAX_PATH: Final = 200", "MAX_PATH: Final = 10"),
    Mutant(
        "an inverted condition",
        "aim_routing.reconcile",
        "if found.value is not None and not is_controlled_by",
        "if found.value is not None and is_controlled_by",
    ),
    Mutant(
        "a route without its service's label",
        "aim_routing.route",
        "        labels.SERVICE: label_value(service.name),\n",
        "",
    ),
    Mutant("a volume for one reader", "aim_artifacts.claim", '["ReadWriteMany"]', '["ReadWriteOnce"]'),
    Mutant("room that is not left", "aim_artifacts.claim", "volume_size(size, headroom)", "volume_size(size, 0)"),
    Mutant("another patience", "aim_artifacts.jobs", '"STALL_TIMEOUT": "120"', '"STALL_TIMEOUT": "60"'),
    Mutant("no second attempt", "aim_artifacts.jobs", "_BACKOFF_LIMIT: Final = 2", "_BACKOFF_LIMIT: Final = 0"),
    Mutant(
        "a corrected token that is ignored",
        "aim_artifacts.cache_reconcile",
        "or artifact.spec.env == env:",
        "or artifact.spec.env != env:",
    ),
    Mutant(
        "an artifact without an owner",
        "aim_artifacts.cache_reconcile",
        "owned=cache.spec.mode == CacheMode.DEDICATED",
        "owned=False",
    ),
    Mutant(
        "templates of no model",
        "aim_discovery.models.desired_templates",
        "if not spec.model_sources and flags.create:",
        "if spec.model_sources and flags.create:",
    ),
    Mutant("a first status that does not wait", "aim_discovery.models.reconcile", "whole=True", "whole=False"),
    Mutant(
        "nodes without a GPU",
        "aim_discovery.templates.gpu",
        "if any(reach.takes(model) for model in fitting):",
        "if not any(reach.takes(model) for model in fitting):",
    ),
    Mutant(
        "every device but the right one",
        "aim_discovery.templates.gpu",
        '"operator": "In", "values": ids',
        '"operator": "NotIn", "values": ids',
    ),
    Mutant(
        "code that raises",
        "aim_discovery.templates.gpu",
        "    ids = sorted({device_id for",
        "    raise LookupError('planted')\n    ids = sorted({device_id for",
    ),
)
"""Each of them alters a plan of the whole run."""


CHOOSERS = (
    Mutant(
        "an index by another name",
        "aim_serving.indexes",
        'CLUSTER_TEMPLATES, "model", lambda template: [template.spec.model_name]',
        'CLUSTER_TEMPLATES, "model", lambda template: [template.name]',
    ),
    Mutant(
        "an index that lost the namespace",
        "aim_artifacts.indexes",
        "lambda artifact: [scoped(artifact.namespace, artifact.spec.source_uri)] if has_weights(artifact) else [],",
        "lambda artifact: [scoped(None, artifact.spec.source_uri)] if has_weights(artifact) else [],",
    ),
    Mutant(
        "an index that finds nothing",
        "aim_model_sync.catalogue",
        "return [] if image is None else [str(image.repository)]",
        "return [] if image is None else []",
    ),
    Mutant(
        "an index that raises",
        "aim_routing.conflict",
        "    return set() if address is None else address.index_values()",
        "    raise LookupError('planted')",
    ),
    Mutant(
        "a fold that leaves something out",
        "aim_domain.gpu.inventory",
        "        yield MODELS, GpuKind(model=kind.model, terms=kind.terms, taints=kind.taints)\n",
        "",
    ),
    Mutant(
        "a fold that raises",
        "aim_domain.gpu.inventory",
        "        yield MEMORY, kind\n",
        "        raise LookupError('planted')\n        yield MEMORY, kind\n",
    ),
    Mutant(
        "a line in another order",
        "aim_discovery.templates.slots",
        "return template.metadata.creation_timestamp or _LONG_AGO",
        "return datetime.fromtimestamp(int(template.uid[:7], 16), UTC)",
    ),
    Mutant(
        "a line that no template joins",
        "aim_discovery.templates.slots",
        "    if is_waiting(template):\n",
        "    if not is_waiting(template):\n",
    ),
    Mutant(
        "fewer places",
        "aim_discovery.templates.slots",
        "max(0, limit - len(active.items))",
        "max(0, limit - 1 - len(active.items))",
    ),
)
"""Changes of what finds objects, instead of what is decided about them; each alters a plan as well."""


class _Planted(SourceFileLoader):
    """Loads a module with the change in its source."""

    def __init__(self, mutant: Mutant, spec: ModuleSpec) -> None:
        assert spec.origin is not None
        super().__init__(spec.name, spec.origin)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source, mutant = self.get_source(fullname) or "", self._mutant
        found = source.count(mutant.text)
        assert found == 1, f"{mutant.what}: {mutant.text!r} stands {found} times in {fullname}, not once"
        return compile(source.replace(mutant.text, mutant.instead), self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the one module that is changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.used = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None, f"there is no module {fullname}"
        spec.loader = _Planted(self._mutant, spec)
        self.used = True
        return spec


def replayed(mutant: Mutant, nats_url: str) -> Outcome:
    """Run the command with the change. Only for a process that has no service loaded and ends after this."""
    assert not [name for name in sys.modules if name.partition(".")[0] in SERVICES], "the services are loaded already"
    finder = _Finder(mutant)
    sys.meta_path.insert(0, finder)
    printed, code = io.StringIO(), 0
    command = importlib.import_module("aim_cli.__main__")
    importlib.import_module("aim_cli.output").OUT.file = printed
    sys.argv = ["aim", "replay", "--all", "--nats-url", nats_url]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            command.main()
    except SystemExit as end:
        code = int(end.code or 0)
    assert finder.used or not mutant.module, f"{mutant.module} was not loaded"
    return Outcome(mutant.what, code, printed.getvalue())


def _shown(work: tuple[Mutant, str]) -> Outcome:
    return replayed(*work)


def main(nats_url: str) -> None:
    """Replay with every change."""
    for module in ("aim_cli.__main__", "aim_domain.api", "aim_domain.pods.facts", "oci_registry.client"):
        importlib.import_module(module)
    forking = multiprocessing.get_context("fork")
    with forking.Pool(_WORKERS, maxtasksperchild=1) as pool:
        for outcome in pool.imap(_shown, [(one, nats_url) for one in (UNCHANGED, HARMLESS, *CHOOSERS, *MUTANTS)]):
            sys.stdout.buffer.write(dumps(asdict(outcome)) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
