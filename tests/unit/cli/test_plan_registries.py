"""What a plan makes of the answers of registries. No cluster, no registry: the effects' runners are functions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from support.builders import make
from support.declarations import definitions
from support.serving import TEAM, aim_service, config

from aim_cli.parts import PARTS
from aim_cli.planning import registries
from aim_cli.planning.registries import ask
from aim_cli.planning.report import Outcome, outcome
from aim_cli.planning.sandbox import Sandbox
from aim_discovery.image_effects import IMAGE_INSPECTION, PULL_SECRETS, ImageLabels, InspectionParams
from aim_domain import kinds
from aim_domain.parts import SERVICES
from aim_domain.pull_secrets import SecretsParams, SecretVersions
from controller_runtime import Category, ClassifiedError, Clients, EffectError, KubeClient, ServiceDefinition
from controller_runtime.testing import NOW

IMAGE = "acme/model:1"
SILENT = "the registry does not answer"


def answering(reason: str, asked: list[str]) -> tuple[ServiceDefinition, ...]:
    """The services, whose registry answers with a failure."""

    async def inspect(params: InspectionParams) -> ImageLabels:
        asked.append(params.image)
        if reason == SILENT:
            await asyncio.Event().wait()
        raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, reason, f"image {params.image}: no"))

    async def read(params: SecretsParams) -> SecretVersions:
        asked.append(f"Secrets {', '.join(params.secrets)}")
        return SecretVersions.model_validate({"versions": dict.fromkeys(params.secrets, "1")})

    @asynccontextmanager
    async def clients(kube: KubeClient) -> AsyncIterator[Clients]:
        yield Clients(kube)

    types = (replace(IMAGE_INSPECTION, runner=lambda _: inspect), replace(PULL_SECRETS, runner=lambda _: read))
    return tuple(
        replace(one, clients=clients, effects=types) if one.name == "discovery" else one for one in definitions()
    )


@asynccontextmanager
async def no_cluster() -> AsyncIterator[KubeClient]:
    yield cast("KubeClient", None)


def plan(
    reason: str, secrets: Sequence[tuple[str, str]] = (), **spec: Any
) -> tuple[Outcome, list[str], list[str], Sandbox]:
    """What becomes of a service with an image of which nothing is known; remarks, and what was asked."""
    asked: list[str] = []
    sandbox = Sandbox(answering(reason, asked), NOW)
    for obj in (make(kinds.NAMESPACE, TEAM), config(cluster=True)):
        sandbox.put(next(part for part in PARTS if part.kind.kind == obj["kind"]), obj)
    where = sandbox.put(SERVICES, aim_service(model={"image": IMAGE}, **spec))
    sandbox.run([where])
    assert not outcome(sandbox, where, "created", ()).because, "without an answer the plan ends at the question"
    remarks = asyncio.run(ask(sandbox, no_cluster, secrets))
    return outcome(sandbox, where, "created", ()), remarks, asked, sandbox


def steps_of(sandbox: Sandbox) -> list[str]:
    return [one.what.split()[0] for one in sandbox.steps if one.verb == "ask" and one.service == "discovery"]


@pytest.mark.spec("FW-882", "FW-877")
@pytest.mark.parametrize("reason", ["ImageNotFound", "ImagePullAuthFailure"])
def test_an_image_that_the_registry_refuses_keeps_the_service_from_running(reason: str) -> None:
    found, remarks, asked, sandbox = plan(reason)
    assert f"{reason}: image {IMAGE}: no" in found.because
    assert found.bad
    assert (remarks, asked) == ([], [IMAGE])
    assert steps_of(sandbox) == [], "what was asked is no step of what applying would do"


@pytest.mark.spec("FW-882")
@pytest.mark.parametrize("reason", ["MetadataExtractionFailed", "SecretAccessFailed", "UnknownError"])
def test_what_may_go_otherwise_in_the_cluster_decides_nothing(reason: str) -> None:
    found, remarks, asked, sandbox = plan(reason)
    assert not found.because
    assert remarks == [f"not known: image {IMAGE}: no; asked from this machine"]
    assert (asked, steps_of(sandbox)) == ([IMAGE], ["image-inspection"])


@pytest.mark.spec("FW-882")
def test_a_registry_that_never_answers_ends_the_wait_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_SECONDS", 0.05)
    found, remarks, _, sandbox = plan(SILENT)
    assert not found.because
    assert remarks == ["not known: 1 question to registries had no answer within 0.05 s; try again"]
    assert steps_of(sandbox) == ["image-inspection"]


@pytest.mark.spec("FW-882")
def test_pull_secrets_are_read_first_unless_they_are_applied_with_the_service() -> None:
    secrets = [{"name": "login"}]
    _, _, asked, _ = plan("ImageNotFound", imagePullSecrets=secrets)
    assert asked == ["Secrets login", IMAGE]
    found, _, asked, _ = plan("ImageNotFound", [(TEAM, "login")], imagePullSecrets=secrets)
    assert asked == []
    assert not found.because
