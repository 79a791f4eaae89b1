"""Which failure an object is to have at this moment, by annotations and rules, and when that changes."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeAlias, final

from aim_domain import labels
from aim_domain.kinds import INFERENCE_SERVICE
from aim_local.actors.failure_rules import Rule, first_match
from aim_local.actors.failures import FAIL_ANNOTATION, LOG_ANNOTATION, POD_FAILURES, Failure, Role, Wanted, failure_for
from aim_local.actors.informer import Informer
from aim_local.actors.objects import annotations_of
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import JOB

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
        """Be told whenever an answer may have changed."""
        self._listeners.append(listener)

    async def changed(self, seconds: float | None) -> None:
        """Wait until an answer may have changed, at most this long."""
        changed = self._changed
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await changed.wait()

    def of_pod(self, pod: JsonObject, role: Role) -> Wanted | None:
        """What a pod is to suffer."""
        return self._find([pod, *self._above(pod)], role, POD_FAILURES)

    def of(self, failure: Failure, *objects: JsonObject | None) -> Wanted | None:
        """Whether one of the objects, or the namespace, is to suffer this."""
        return self._find([one for one in objects if one is not None], Role.OTHER, (failure,))

    def _find(self, objects: Sequence[JsonObject], role: Role, among: Collection[Failure]) -> Wanted | None:
        namespace = self._namespaces.get(Key("", objects[0]["metadata"].get("namespace") or "")) if objects else None
        for obj in (*objects, *([namespace] if namespace else ())):
            annotations = annotations_of(obj)
            found = failure_for(annotations.get(FAIL_ANNOTATION, ""), role, among)
            if found is not None:
                return Wanted(found.failure, found.argument, annotations.get(LOG_ANNOTATION, ""))
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
