"""Failures on demand: by annotation or by rule, what they look like, and the HTTP API that adds them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import count
from types import MappingProxyType
from typing import Final, TypeAlias, final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aim_domain import labels
from aim_domain.kinds import INFERENCE_SERVICE
from aim_local.actors.objects import LOCAL_PREFIX, annotations_of, labels_of, matches
from aim_local.actors.runtime import Informer
from controller_runtime import JsonObject, Key, dumps, loads
from controller_runtime.kinds import JOB
from embedded_apiserver.serving import HOST, json_response, serving

FAIL_ANNOTATION: Final = LOCAL_PREFIX + "fail"
LOG_ANNOTATION: Final = LOCAL_PREFIX + "fail-log"


class Role(StrEnum):
    """What a pod is for."""

    DISCOVERY = "discovery"
    DOWNLOAD = "download"
    CHECK_SIZE = "check-size"
    PREDICTOR = "predictor"
    OTHER = "other"


class Failure(StrEnum):
    """Names of failures."""

    IMAGE_PULL = "image-pull"
    IMAGE_AUTH = "image-auth"
    IMAGE_RATE_LIMIT = "image-rate-limit"
    UNSCHEDULABLE = "unschedulable"
    OOM = "oom"
    CRASH = "crash"
    EVICTED = "evicted"
    HANG = "hang"
    NOT_READY = "not-ready"
    SLOW_START = "slow-start"
    AUTH = "auth"
    NOT_FOUND = "not-found"
    STORAGE_FULL = "storage-full"
    DOWNLOAD = "download"
    PVC = "pvc"
    ROUTE = "route"
    GATEWAY = "gateway"
    GATEWAY_MISSING = "gateway-missing"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container ends.

    Attributes:
        code: exit code.
        reason: reason of the terminated state; empty gives `Completed` or `Error`.
        log: what it printed.
        message: its termination message.
    """

    code: int = 0
    reason: str = ""
    log: str = ""
    message: str = ""


def _report(category: str, message: str) -> str:
    return dumps({"category": category, "message": message}).decode()


_GATED: Final = "401 Client Error: Unauthorized; access to model is restricted"
_MISSING: Final = "404 Client Error: Repository Not Found"
_FULL: Final = "No space left on device"

ENDINGS: Final[Mapping[Failure, Ending]] = MappingProxyType(
    {
        Failure.OOM: Ending(137, "OOMKilled"),
        Failure.CRASH: Ending(1, log="RuntimeError: engine core initialization failed\n"),
        Failure.AUTH: Ending(10, log=f"{_GATED}\n", message=_report("Auth", _GATED)),
        Failure.NOT_FOUND: Ending(11, log=f"{_MISSING}\n", message=_report("SourceNotFound", _MISSING)),
        Failure.STORAGE_FULL: Ending(12, log=f"OSError: {_FULL}\n", message=_report("StorageFull", _FULL)),
        Failure.DOWNLOAD: Ending(15, message=_report("DownloadFailed", "all protocols failed")),
    }
)
"""Failures in which a container runs and ends, with the exit codes of AR-764."""


ELSEWHERE: Final = frozenset({Failure.PVC, Failure.ROUTE, Failure.GATEWAY, Failure.GATEWAY_MISSING, Failure.METRICS})
"""Failures of other objects than pods."""
POD_FAILURES: Final = frozenset(Failure) - ELSEWHERE


@dataclass(frozen=True, slots=True)
class WantedFailure:
    """A failure that was asked for.

    Attributes:
        failure: which.
        argument: an exit code, seconds or a reason, as the failure takes it; empty for the usual one.
        log: what the container prints; empty for the usual text.
        message: its termination message; empty for the usual one.
    """

    failure: Failure
    argument: str = ""
    log: str = ""
    message: str = ""

    @property
    def ending(self) -> Ending | None:
        """How the container ends; None if it never gets that far or never ends."""
        usual = ENDINGS.get(self.failure)
        if usual is None:
            return None
        code = int(self.argument) if self.argument.isdecimal() else usual.code
        log = f"{self.log}\n" if self.log else usual.log
        return Ending(code, usual.reason, log, self.message or usual.message)

    def seconds(self, usual: float) -> float:
        """The argument as a duration."""
        try:
            return float(self.argument)
        except ValueError:
            return usual


def failure_for(annotation: str, role: Role, among: Collection[Failure] = POD_FAILURES) -> WantedFailure | None:
    """The first failure in an annotation's value that concerns the role; unknown names are ignored."""
    for entry in annotation.split(","):
        limit, _, rest = entry.strip().rpartition("=")
        name, _, argument = rest.strip().partition(":")
        if limit.strip() in ("", role) and name in among:
            return WantedFailure(Failure(name), argument)
    return None


class RuleError(ValueError):
    """A rule that can't be; the text says what is wrong with which member."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A failure for all objects that it describes.

    Attributes:
        wanted: the failure.
        kind: kind of the objects; empty for all. A rule for a Job or an InferenceService holds for its pods.
        namespace: glob.
        name: glob.
        labels: labels that they have.
        role: pods of this role only.
    """

    wanted: WantedFailure
    kind: str = ""
    namespace: str = "*"
    name: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    role: Role | None = None

    def holds_for(self, objects: Iterable[JsonObject], role: Role) -> bool:
        """Whether one of the objects (a pod and its owners, say) is described."""
        return self.role in (None, role) and any(map(self._describes, objects))

    def _describes(self, obj: JsonObject) -> bool:
        metadata = obj["metadata"]
        return (
            self.kind in ("", obj["kind"])
            and fnmatchcase(metadata.get("namespace") or "", self.namespace)
            and fnmatchcase(metadata["name"], self.name)
            and matches(self.labels, labels_of(obj))
        )

    def to_json(self) -> JsonObject:
        """As the API shows it; `parse_rule` takes it back."""
        wanted = self.wanted
        members = {
            "failure": wanted.failure,
            "argument": wanted.argument,
            "log": wanted.log,
            "message": wanted.message,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "labels": dict(self.labels),
            "role": self.role or "",
        }
        return {name: value for name, value in members.items() if value}


def parse_rule(body: JsonObject) -> Rule:
    """The rule of a request.

    Raises:
        RuleError: an unknown member, failure or role, or a member that is no text.
    """
    unknown = set(body) - _MEMBERS
    if unknown:
        raise RuleError(f"{', '.join(sorted(unknown))}: no such member; there are {', '.join(sorted(_MEMBERS))}")
    texts = {name: str(value) for name, value in body.items() if isinstance(value, str | int | float)}
    labels = body.get("labels") or {}
    wrong = set(body) - set(texts) - {"labels"}
    if wrong or not isinstance(labels, dict):
        raise RuleError(f"{', '.join(sorted(wrong)) or 'labels'}: must be text (labels: an object of texts)")
    failure, role = texts.get("failure", ""), texts.get("role", "")
    if failure not in frozenset(Failure):
        raise RuleError(f"failure: {failure!r} is none; there are {', '.join(Failure)}")
    if role and role not in frozenset(Role):
        raise RuleError(f"role: {role!r} is none; there are {', '.join(Role)}")
    wanted = WantedFailure(Failure(failure), *(texts.get(name, "") for name in ("argument", "log", "message")))
    return Rule(
        wanted,
        texts.get("kind", ""),
        texts.get("namespace", "*"),
        texts.get("name", "*"),
        {str(name): str(value) for name, value in labels.items()},
        Role(role) if role else None,
    )


def first_match(
    rules: Iterable[Rule], objects: Collection[JsonObject], role: Role, among: Collection[Failure]
) -> WantedFailure | None:
    """The failure of the first rule that holds."""
    return next((rule.wanted for rule in rules if rule.wanted.failure in among and rule.holds_for(objects, role)), None)


_MEMBERS: Final = frozenset({"failure", "argument", "log", "message", "kind", "namespace", "name", "labels", "role"})


Listener: TypeAlias = Callable[[], object]


@final
class WantedFailures:
    """Asked for by annotation on the object, its owners or its namespace, or by rule; rules come last."""

    def __init__(self, namespaces: Informer, owners: Mapping[str, Informer], others: Sequence[Informer] = ()) -> None:
        """``owners`` are the informers of Jobs and InferenceServices, as far as there are, by kind.

        Annotations on objects of ``others`` count as changes, too.
        """
        self._namespaces = namespaces
        self._owners = owners
        self._rules: dict[str, Rule] = {}
        self._numbers = count(1)
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._annotated: dict[tuple[str, Key], str] = {}
        for informer in (namespaces, *owners.values(), *others):
            informer.listen(self._on_object)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules by their names."""
        return self._rules

    def add(self, rule: Rule) -> str:
        """Add a rule; its name."""
        name = str(next(self._numbers))
        self._rules[name] = rule
        self._notify()
        return name

    def remove(self, name: str) -> bool:
        """Take a rule back; whether it was there."""
        found = self._rules.pop(name, None) is not None
        if found:
            self._notify()
        return found

    def clear(self) -> None:
        """Take all rules back."""
        self._rules.clear()
        self._notify()

    def listen(self, listener: Listener) -> None:
        """Be called whenever an answer may have changed."""
        self._listeners.append(listener)

    async def wait_changed(self, seconds: float | None) -> None:
        """Wait until an answer may have changed, at most this long."""
        changed = self._changed
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await changed.wait()

    def of_pod(self, pod: JsonObject, role: Role) -> WantedFailure | None:
        """What a pod is to suffer."""
        return self._find([pod, *self._above(pod)], role, POD_FAILURES)

    def of(self, failure: Failure, *objects: JsonObject | None) -> WantedFailure | None:
        """Whether one of the objects, or the namespace, is to suffer this."""
        return self._find([one for one in objects if one is not None], Role.OTHER, (failure,))

    def _find(self, objects: Sequence[JsonObject], role: Role, among: Collection[Failure]) -> WantedFailure | None:
        namespace = self._namespaces.get(Key("", objects[0]["metadata"].get("namespace") or "")) if objects else None
        for obj in (*objects, *([namespace] if namespace else ())):
            annotations = annotations_of(obj)
            found = failure_for(annotations.get(FAIL_ANNOTATION, ""), role, among)
            if found is not None:
                return WantedFailure(found.failure, found.argument, annotations.get(LOG_ANNOTATION, ""))
        return first_match(self._rules.values(), objects, role, among) if self._rules else None

    def _above(self, pod: JsonObject) -> list[JsonObject]:
        """The Job or InferenceService of a pod; the objects between them do not count."""
        metadata = pod["metadata"]
        names = {INFERENCE_SERVICE.kind: (metadata.get("labels") or {}).get(labels.KSERVE_INFERENCE_SERVICE, "")}
        for owner in metadata.get("ownerReferences") or ():
            if owner["kind"] == JOB.kind:
                names[JOB.kind] = owner["name"]
        found = (
            self._owners[kind].get(Key(metadata["namespace"], name))
            for kind, name in names.items()
            if name and kind in self._owners
        )
        return [one for one in found if one is not None]

    def _on_object(self, _: Key, obj: JsonObject) -> None:
        annotations = annotations_of(obj)
        text = f"{annotations.get(FAIL_ANNOTATION, '')}\n{annotations.get(LOG_ANNOTATION, '')}".strip()
        where = (obj["kind"], Key.of(obj))
        if text == self._annotated.get(where, ""):
            return
        if text:
            self._annotated[where] = text
        else:
            self._annotated.pop(where, None)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for listener in self._listeners:
            listener()


@asynccontextmanager
async def failure_api(failures: WantedFailures, port: int = 0) -> AsyncIterator[str]:
    """Serve the rules on the loopback; yields the URL."""
    handlers = _Handlers(failures)
    application = Starlette(
        routes=[
            Route("/failures", handlers.list),
            Route("/failures", handlers.add, methods=["POST"]),
            Route("/failures", handlers.clear, methods=["DELETE"]),
            Route("/failures/{id}", handlers.remove, methods=["DELETE"]),
        ]
    )
    async with serving(application, port) as bound:
        yield f"http://{HOST}:{bound}"


class _Handlers:
    def __init__(self, failures: WantedFailures) -> None:
        self._failures = failures

    async def list(self, _: Request) -> Response:
        """All rules, and what can be asked for."""
        rules = {name: rule.to_json() for name, rule in self._failures.rules.items()}
        return json_response({"rules": rules, "failures": list(Failure)})

    async def add(self, request: Request) -> Response:
        """One more rule; the answer has its id."""
        try:
            rule = parse_rule(loads(await request.body()))
        except ValueError as error:
            cause = str(error) if isinstance(error, RuleError) else f"the body is not a JSON object: {error}"
            return json_response({"error": cause}, 400)
        return json_response({"id": self._failures.add(rule), "rule": rule.to_json()}, 201)

    async def remove(self, request: Request) -> Response:
        """Take one back."""
        name = request.path_params["id"]
        if self._failures.remove(name):
            return Response(status_code=204)
        present = ", ".join(self._failures.rules) or "none"
        return json_response({"error": f"no rule {name}; there are: {present}"}, 404)

    async def clear(self, _: Request) -> Response:
        """Take all back."""
        self._failures.clear()
        return Response(status_code=204)
