"""A real Prometheus that scrapes started services and evaluates the rules of the chart, and its promtool.

python -m support.prometheus      # prints the path of the program, or one line why there is none
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import yaml
from support.debian import UnavailableError, obtain
from support.nats import eventually

from aim_local.ports import HOST, free_port
from aim_local.processes import dying_with_parent
from aim_packaging.alerts import ALERTS, Alert, rule
from controller_runtime import JsonObject

PACKAGE: Final = "prometheus"
WINDOW: Final = "10s"
HOLD: Final = "2s"
_INTERVAL: Final = "1s"
_STOP_SECONDS: Final = 10.0
_CALM_ROUNDS: Final = 3
ELSEWHERE: Final = "elsewhere"
_OURS: Final = ("aim-system", "aim-engine-{}-metrics")
_FOREIGN: Final = (ELSEWHERE, "other-operator-{}-metrics")
"""Namespace and job of a target, by its pod."""
_TARGETS: Final = "targets.json"


def promtool() -> Path:
    """The tool that checks rules."""
    return obtain(PACKAGE, "promtool")


def alert_of(name: str) -> Alert:
    """An alert by its name."""
    [found] = [one for one in ALERTS if one.name == name]
    return found


def quick_rules(thresholds: Mapping[str, float]) -> JsonObject:
    """The rules of these alerts, with small numbers instead of large ones, so that a test need not wait for hours."""
    chosen = [rule(alert_of(name), threshold=limit, window=WINDOW, hold=HOLD) for name, limit in thresholds.items()]
    return {"groups": [{"name": "quick", "interval": _INTERVAL, "rules": chosen}]}


class Prometheus:
    """A running one."""

    def __init__(self, url: str, session: aiohttp.ClientSession, folder: Path) -> None:
        self._url = url
        self._session = session
        self._folder = folder

    @property
    def url(self) -> str:
        """Its address."""
        return self._url

    async def scrape(self, targets: Mapping[str, str]) -> None:
        """From now on scrape these and no others."""
        await asyncio.to_thread(_write_targets, self._folder, targets)

    async def query(self, query: str) -> list[JsonObject]:
        """The samples of an instant query."""
        try:
            async with self._session.get(f"{self._url}/api/v1/query", params={"query": query}) as answer:
                body = await answer.json()
        except aiohttp.ClientError:
            return []
        assert body["status"] == "success", body
        found: list[JsonObject] = body["data"]["result"]
        return found

    async def firing(self, name: str) -> list[Mapping[str, str]]:
        """The labels of what an alert fires for; what others export under the same names is of no concern (FW-711)."""
        found = [one["metric"] for one in await self.query(f'ALERTS{{alertname="{name}",alertstate="firing"}}')]
        assert not [one for one in found if one.get("namespace") == ELSEWHERE], found
        return found

    async def is_calm(self, targets: int, *names: str) -> None:
        """Wait until everything was scraped a few times, and see that none of these fires."""

        async def scraped() -> bool:
            done = await self.query(f'count_over_time(up{{namespace!="{ELSEWHERE}"}}[1m]) >= {_CALM_ROUNDS}')
            return len([one for one in done if one["value"][1]]) == targets

        await eventually(scraped, "all targets scraped a few times")
        assert {name: await self.firing(name) for name in names} == {name: [] for name in names}

    async def fires(self, alert: str, /, **labels: str) -> None:
        """Wait until an alert fires with these labels."""

        async def so() -> bool:
            return any(labels.items() <= one.items() for one in await self.firing(alert))

        await eventually(so, f"{alert} fires with {labels}")


@asynccontextmanager
async def watching(
    folder: Path, targets: Mapping[str, str], thresholds: Mapping[str, float]
) -> AsyncIterator[Prometheus]:
    """A Prometheus with the labels that a ServiceMonitor gives.

    Each target is scraped once more, as that of somebody else's controller in another namespace.

    Args:
        targets: base URL of each service, by the name of its pod.
        thresholds: of the alerts to watch for.
    """
    await asyncio.to_thread(_write, folder, targets, thresholds)
    address = f"{HOST}:{free_port()}"
    command = [
        str(obtain(PACKAGE)),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    process = await asyncio.to_thread(_started, command, folder / "prometheus.log")
    try:
        async with aiohttp.ClientSession() as session:
            yield Prometheus(f"http://{address}", session, folder)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _write(folder: Path, targets: Mapping[str, str], thresholds: Mapping[str, float]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "rules.yml").write_text(yaml.safe_dump(quick_rules(thresholds)), encoding="utf-8")
    _write_targets(folder, targets)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_CONFIGURATION), encoding="utf-8")


def _write_targets(folder: Path, targets: Mapping[str, str]) -> None:
    groups = [_group(pod, url, *whose) for pod, url in targets.items() for whose in (_OURS, _FOREIGN)]
    # In one step: Prometheus watches the file.
    (folder / "targets.new").write_text(json.dumps(groups), encoding="utf-8")
    (folder / "targets.new").rename(folder / _TARGETS)


def _group(pod: str, url: str, namespace: str, job: str) -> JsonObject:
    labels = {"namespace": namespace, "pod": pod, "job": job.format(pod)}
    return {"targets": [urlsplit(url).netloc], "labels": labels}


def _started(command: Sequence[str], file: Path) -> subprocess.Popen[bytes]:
    with file.open("wb") as log:
        # The threads of the loop live as long as it does.
        end = dying_with_parent(signal.SIGTERM)
        return subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end)  # noqa: PLW1509 - it takes no locks


_CONFIGURATION: Final[JsonObject] = {
    "global": {"scrape_interval": _INTERVAL, "scrape_timeout": _INTERVAL, "evaluation_interval": _INTERVAL},
    "rule_files": ["rules.yml"],
    "scrape_configs": [{"job_name": "services", "file_sd_configs": [{"files": [_TARGETS]}]}],
}


def main() -> int:
    """Print the path of the program; 1 and one line when it cannot be had."""
    try:
        print(f"prometheus: {obtain(PACKAGE)}, promtool: {promtool()}")
    except UnavailableError as error:
        print(f"prometheus cannot be had: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
