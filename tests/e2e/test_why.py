"""`aim why` on a living platform: the cause first, in the words of whoever decided it, with what to do."""

import pytest
from support.said import why
from support.stack import Platform

from controller_runtime import loads

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@pytest.mark.spec("FW-551", "FW-552", "FW-553", "FW-556", "FW-600", "FW-601", "FW-606", "FW-879")
async def test_from_a_service_to_a_refused_token(platform: Platform) -> None:
    await platform.namespace("why", **{"local.aim/fail": "download=auth"})
    path = await platform.service("why", "chat", model={"image": IMAGE})
    await platform.until(path, lambda obj: (obj.get("status") or {}).get("status") == "Degraded")

    said = await why(platform, "aimsvc", "why/chat")

    assert said.code == 1, said
    assert said.lines[0] == "AIMService why/chat is Degraded"
    kinds = [line.split()[1] for line in said.lines if line.startswith(("because ", "so "))]
    assert kinds == ["AIMArtifact", "AIMTemplateCache", "AIMService"]
    assert "DownloadJobPodsReady=False AuthError" in said.lines[1]
    assert said.lines[2].startswith("do      correct the Secret that env of the service or of its runtime config names")
    assert "says aim-serving" in next(line for line in said.lines if line.startswith("so      AIMService"))
    assert said.errors == ""
    assert said.lines[3] == "", "what to do stands apart from what follows"

    # Since which decision, for who asks for that.
    assert "not known without the event log" in (await why(platform, "chat", "-n", "why", "-v")).errors
    since = await why(platform, "chat", "-n", "why", "-v", "--nats-url", platform.stack.nats_url)
    assert since.errors == ""
    assert {line.split()[1] for line in since.lines if line.startswith("decided ")} == set(kinds)

    # As kubectl names it, as data, and with the log.
    known = await why(platform, "aimsvc/chat", "-n", "why", "-o", "json", "--nats-url", platform.stack.nats_url)
    assert (known.code, known.errors) == (1, "")
    reported = loads("".join(known.lines))
    assert [link["object"]["kind"] for link in reported["ways"][0]] == kinds
    assert {one["service"] for one in reported["decided"]} == {"artifacts", "serving"}
    assert all(one["read"] for one in reported["decided"])


@pytest.mark.spec("FW-551", "FW-556", "FW-602", "FW-696")
async def test_what_is_well_what_is_not_there_and_what_is_no_kind(platform: Platform) -> None:
    await platform.namespace("well")
    await platform.running(await platform.service("well", "chat", model={"image": IMAGE}))
    well = await why(platform, "aimservice", "well/chat")
    assert (well.code, well.lines) == (0, ["AIMService well/chat is Running", "no problem found"])
    absent = await why(platform, "aimservice", "well/nobody")
    assert (absent.code, absent.lines) == (3, ["AIMService well/nobody does not exist"])
    every = await why(platform, "aimservice", "-n", "well")
    assert (every.code, every.lines) == (0, ["1 of 1 have nothing in their way"])
    none = await why(platform, "aimservice", "-n", "nowhere")
    assert (none.code, none.lines) == (0, ["there is no AIMService in nowhere; -A looks in all namespaces"])
    none = await why(platform, "aimservice", "-A", "-l", "app in (nobody)")
    assert (none.code, none.lines) == (0, ["there is no AIMService with these labels"])
    wrong = await why(platform, "aimservice", "-A", "-l", "=nobody")
    assert (wrong.code, wrong.lines) == (2, [])
    assert "labelSelector" in wrong.errors
    wrong = await why(platform, "spaceship", "well/chat")
    assert wrong.code == 2
    assert "there is no kind 'spaceship'" in wrong.errors
