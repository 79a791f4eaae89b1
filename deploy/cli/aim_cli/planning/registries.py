"""What registries answer about the images of a plan, asked from here by the effects of the services (FW-882)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

from aim_cli.answer import count_of
from aim_cli.planning.sandbox import Question, Sandbox
from controller_runtime import FACTS, Fact, JsonObject, KubeClient, ServiceDefinition
from controller_runtime.log import Entry
from controller_runtime.manager import EffectHost

_READING: Final = frozenset({"image-inspection", "pull-secrets"})
"""Effects that only read, and need nothing that is only planned."""
_ROUNDS: Final = 3
"""Pull Secrets come before the image, and an image may lead to another one."""
_SECONDS: Final = 60.0
_DECISIVE: Final = frozenset({"ImageNotFound", "ImagePullAuthFailure", "SecretNotFound"})
"""Failures that the cluster would meet as well; what else goes wrong is of this machine or of this user's rights."""
Connect = Callable[[], AbstractAsyncContextManager[KubeClient]]


@dataclass(slots=True)
class _Answers:
    """Collects what effects find out, as `EffectHost` hands it over."""

    expected: int
    found: list[JsonObject] = field(default_factory=list)
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def previous(self, effect: str, about: str) -> Fact | None:  # noqa: ARG002 - each is asked once
        """None: nothing was asked before."""
        return None

    async def publish(self, entry: Entry[Fact]) -> None:
        """Take in a fact."""
        self.found.append(entry.raw)
        if len(self.found) >= self.expected:
            self.complete.set()


async def ask(sandbox: Sandbox, connect: Connect, secrets: Collection[tuple[str, str]]) -> list[str]:
    """Carry out what the services would ask registries, and decide again; what stays unknown, and why.

    Args:
        secrets: namespaces and names of Secrets that are applied with the objects, so that nothing can be read of them.

    Raises:
        UnreachableError: the cluster, which has the pull Secrets, cannot be asked.
    """
    remarks: list[str] = []
    asked: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        news = {
            definition.name: wanted
            for definition in sandbox.definitions
            if (wanted := _news_of(sandbox, definition.name, asked, secrets))
        }
        if not news:
            break
        async with connect() as kube:
            for definition in sandbox.definitions:
                wanted = news.get(definition.name, {})
                asked |= wanted.keys()
                found = await _facts_of(definition, kube, wanted.values()) if wanted else []
                for fact in found:
                    remarks += _take_in(sandbox, definition.name, fact)
                if missing := len(wanted) - len(found):
                    what = count_of(missing, "question")
                    remarks.append(f"not known: {what} to registries had no answer within {_SECONDS:g} s; try again")
        sandbox.run(list(sandbox.touched.values()))
    return remarks


def _news_of(
    sandbox: Sandbox, service: str, asked: Iterable[tuple[str, str]], secrets: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], Question]:
    found = {(one.effect.kind, one.effect.key): one for one in sandbox.questions if one.service == service}
    return {
        named: one
        for named, one in found.items()
        if named[0] in _READING and named not in asked and not _secrets_of(one) & set(secrets)
    }


def _secrets_of(question: Question) -> set[tuple[str, str]]:
    params = question.effect.params
    return {(str(params.get("namespace") or ""), str(name)) for name in params.get("secrets") or ()}


async def _facts_of(definition: ServiceDefinition, kube: KubeClient, questions: Iterable[Question]) -> list[JsonObject]:
    """The facts that came within the time."""
    wanted = list(questions)
    types = [one for one in definition.effects if one.name in _READING]
    answers = _Answers(len(wanted))
    async with definition.clients(kube) as clients:
        runners = {one.name: one.runner(clients) for one in types}
        async with EffectHost(definition.name, types, runners, answers) as host:
            for one in wanted:
                host.submit(one.effect, one.owner)
            try:
                async with asyncio.timeout(_SECONDS):
                    await answers.complete.wait()
            except TimeoutError:
                # What did not come stays a question of the plan.
                return answers.found
    return answers.found


def _take_in(sandbox: Sandbox, service: str, fact: JsonObject) -> Iterable[str]:
    failure = fact.get("failure")
    if failure is not None and failure.get("reason") not in _DECISIVE:
        yield f"not known: {failure.get('message')}; asked from this machine"
        return
    sandbox.put(FACTS, fact, only=service)
    sandbox.note_answer(service, str(fact["effect"]), str(fact["about"]))
