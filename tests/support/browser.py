"""Chromium without a window, driven over its DevTools protocol: what a viewer sees of a page, and what it asks for.

    python -m support.browser      # prints the path of the program, or one line why there is none

Playwright's package would do as much, and brings 40 MB and a browser of its own version; the protocol is JSON over a
WebSocket, and the lock has aiohttp.
"""

import asyncio
import base64
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import aiohttp
from support.nats import eventually

from aim_local.processes import dying_with_parent, stop_process
from controller_runtime import JsonObject, dumps, loads

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE: Final = 30.0
_LARGEST: Final = 64 << 20
_OPTIONS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-breakpad", "--hide-scrollbars", "--no-proxy-server", "--remote-debugging-port=0", "about:blank",
)  # fmt: skip
_KEYS: Final = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "ArrowLeft": 37}


class Scheme(StrEnum):
    """What a reader prefers."""

    LIGHT = "light"
    DARK = "dark"


def program() -> str | None:
    """The browser on the PATH."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page.

    Attributes:
        requested: every address that was asked for.
        complaints: errors of scripts, refused loads, dialogs, and what the content policy forbade.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._session: JsonObject = {}
        self._number = 0
        self._answers: dict[int, asyncio.Future[JsonObject]] = {}
        self._loaded = set[str]()
        self.requested: list[str] = []
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Take what the browser says until the connection ends."""
        async for message in self._socket:
            reported = loads(message.data)
            if (
                "id" in reported
                and (waiting := self._answers.pop(reported["id"], None)) is not None
                and not waiting.done()
            ):
                waiting.set_result(reported)
            self._note(reported.get("method", ""), reported.get("params") or {})

    def _note(self, method: str, about: JsonObject) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requested.append(about["request"]["url"])
            case "Page.lifecycleEvent" if about["name"] == "load":
                self._loaded.add(about["loaderId"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if about["type"] in {"error", "warning", "assert"}:
                self.complaints.append(str(about["args"]))
            case "Log.entryAdded" if about["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(f"{about['entry']['source']}: {about['entry']['text']}")
            case "Audits.issueAdded":
                self.complaints.append(str(about["issue"]))
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {about['message']}")

    async def attach(self) -> None:
        """Take the page that the browser has opened."""
        targets = (await self.send("Target.getTargets"))["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        attached = await self.send("Target.attachToTarget", targetId=page, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Network", "Runtime", "Log", "Audits", "Performance"):
            await self.send(f"{domain}.enable")
        await self.send("Page.setLifecycleEventsEnabled", enabled=True)

    async def send(self, method: str, **about: object) -> JsonObject:
        """A command of the protocol; returns its result."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(
            dumps({"id": self._number, "method": method, "params": about, **self._session}).decode()
        )
        try:
            async with asyncio.timeout(_PATIENCE):
                reported = await answer
        except TimeoutError:
            raise AssertionError(f"the browser did not answer in {_PATIENCE:g} s: {method} {about}") from None
        assert "error" not in reported, f"{method}: {reported['error']}"
        return dict(reported.get("result") or {})

    async def open(self, url: str) -> None:
        """Go there, and wait until all of it is loaded."""
        reported = await self.send("Page.navigate", url=url)
        assert "errorText" not in reported, f"{url}: {reported['errorText']}"
        await eventually(lambda: reported["loaderId"] in self._loaded, f"{url} is loaded", _PATIENCE, 0.005)

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        reported = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reported, reported["exceptionDetails"]
        return reported["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true, through whatever the page navigates to."""

        async def holds() -> bool:
            reported = await self.send("Runtime.evaluate", expression=f"Boolean({script})", returnByValue=True)
            return "exceptionDetails" not in reported and bool(reported["result"]["value"])

        await eventually(holds, script, _PATIENCE)

    async def press(self, key: str) -> None:
        """Press a key, as a person does."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        # Of signs the numbers are not those of their characters, and nobody looks at them.
        code = _KEYS.get(key) or (ord(key.upper()) if key.isalnum() else 0)
        about = {"key": key, "windowsVirtualKeyCode": code}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        await self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    async def look(self, width: int, height: int, scheme: Scheme = Scheme.LIGHT) -> None:
        """Have a window of a size, and a preference."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        preference = {"name": "prefers-color-scheme", "value": scheme.value}
        await self.send("Emulation.setEmulatedMedia", features=[preference])

    async def picture(self, file: Path) -> None:
        """What the window shows, as a PNG."""
        reported = await self.send("Page.captureScreenshot", format="png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(reported["data"]))


@asynccontextmanager
async def tab(folder: Path) -> AsyncIterator[Tab]:
    """A page of a browser of its own, whose profile is in a folder."""
    chromium = program()
    assert chromium is not None, "no browser on the PATH; `make test-console` says how to get one"
    process = await asyncio.create_subprocess_exec(
        chromium, f"--user-data-dir={folder / 'profile'}", *_OPTIONS, env={**os.environ, "HOME": str(folder)},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )  # fmt: skip
    try:
        async with asyncio.timeout(_PATIENCE):
            address = await _address(process)
        async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=_LARGEST) as socket:
            opened = Tab(socket)
            listening = asyncio.ensure_future(opened.listen())
            try:
                await opened.attach()
                yield opened
            finally:
                listening.cancel()
                await asyncio.wait((listening,))
    finally:
        await stop_process(process, _PATIENCE)


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    said = []
    async for line in process.stderr:
        said.append(line.decode(errors="replace"))
        if found := re.search(r"DevTools listening on (ws://\S+)", said[-1]):
            return found[1]
    raise AssertionError(f"the browser ended: {''.join(said)[-2000:]}")


def main() -> int:
    """Print the path of the program; 1 and one line when there is none."""
    found = program()
    if found is None:
        print("no browser on the PATH: install Chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    print(f"browser: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
