"""Logging in to a console for many, as a browser does it: where its forms say they are from, and what it keeps."""

from pathlib import Path

import pytest
from support.browser import Tab
from support.console_objects import service
from support.console_site import reported
from support.controlplane import raw_api
from support.hosted_console import Time, hosted_console, port_of
from support.scraping import planted_token

from aim_console.sessions import REVIEWED_SECONDS
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENTER = "document.getElementById('token').value = '{}'; document.querySelector('form.login').submit()"
IS_FORM = "document.readyState === 'complete' && document.querySelector('form.login') !== null"


@pytest.mark.spec("FW-679", "FW-681", "FW-682")
async def test_the_form_leads_to_the_page_that_was_asked_for_and_its_end_back(
    browser: Tab, tmp_path: Path, pictures: Path
) -> None:
    clock = Time()
    await browser.look(1280, 800)
    await browser.send("Security.setIgnoreCertificateErrors", ignore=True)
    async with (
        ControlPlane() as plane,
        reported(tmp_path, [service("team-a", "chat")]) as (broker, feed),
        raw_api(plane.url) as api,
        hosted_console(broker.url, Connection(plane.url, NoCredentials()), clock) as address,
    ):
        token = await planted_token(api, "default", "ada")
        home = f"https://localhost:{port_of(address)}"
        await browser.open(f"{home}/catalogue")
        await browser.until(IS_FORM)
        # A browser gives the focus with its first frame.
        await browser.until("document.activeElement.id === 'token'")
        await browser.evaluate(ENTER.format("forged"))
        await browser.until("document.getElementById('why') !== null")
        await browser.picture(pictures / "login-refused-light-1280.png")
        await browser.evaluate(ENTER.format(token))
        await browser.until("location.pathname === '/catalogue' && document.querySelector('h1') !== null")
        await browser.until("document.getElementById('live').textContent === 'live'")
        assert await browser.evaluate("document.cookie") == "", "no script gets it"
        await browser.picture(pictures / "logged-in-light-1280.png")
        await browser.evaluate("document.querySelector('form.viewer button').click()")
        await browser.until(IS_FORM)
        await browser.evaluate(ENTER.format(token))
        await browser.until("document.body.innerText.includes('team-a/chat')")
        await browser.until("document.getElementById('live').textContent === 'live'")
        await api.delete("/api/v1/namespaces/default/secrets/ada-token")
        clock.passed += REVIEWED_SECONDS
        await feed.change(service("team-a", "other"))
        # Nobody touches it: the page finds out by itself.
        await browser.until(IS_FORM)
        browser.complaints.clear()
