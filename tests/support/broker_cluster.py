"""The three brokers that the chart renders, as processes on the loopback, behind a Service.

Their configuration, arguments and probes are those of the StatefulSet. What a machine without pods cannot have is told
on the command line, where it goes before the configuration: ports and routes. The folders of the store, of the
certificates and of the process id are replaced.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme
from support.relays import relay

from aim_local.nats import nats_binary
from aim_local.ports import HOST, free_ports
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Program, Supervised
from controller_runtime import JsonObject

_CERTIFICATES: Final = "/etc/nats-tls"
_DENIED: Final = re.compile("violation|authorization error|authentication", re.IGNORECASE)
_TRACED: Final = re.compile(r'nkey:(\w+)" - <<- \[H?(PUB|SUB) (\S+)')


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one server."""

    client: int
    cluster: int
    monitor: int


class BrokerCluster:
    """Servers by number. Use `broker_cluster`.

    Args:
        folder: of stores, logs and certificates.
        config: the server's, as rendered.
        statefulset: as rendered.
        names: what the certificate is valid for, besides the loopback.
    """

    def __init__(self, folder: Path, config: JsonObject, statefulset: JsonObject, names: Sequence[str]) -> None:
        self.folder = folder
        self.authority = folder / "tls" / "ca.crt"
        self._names = names
        self._issuer = trustme.CA()
        self._config = config
        self._pod = statefulset["spec"]["template"]["spec"]["containers"][0]
        self._name = statefulset["metadata"]["name"]
        numbers = iter(free_ports(3 * int(statefulset["spec"]["replicas"])))
        self.ports = [Ports(*three) for three in zip(numbers, numbers, numbers, strict=True)]
        self.servers: list[Supervised] = []
        self.strangers: set[str] = set()
        self.url = ""

    def __len__(self) -> int:
        return len(self.ports)

    def pod(self, number: int) -> str:
        """The name of a server."""
        return f"{self._name}-{number}"

    async def start(self) -> None:
        """Start all of them at once, as the StatefulSet does (`Parallel`)."""
        await asyncio.to_thread(self._prepare)
        self.servers = [self._supervised(number) for number in range(len(self))]
        await asyncio.gather(*(one.start() for one in self.servers))

    async def stop(self) -> None:
        """End those that run."""
        await asyncio.gather(*(one.stop() for one in self.servers))

    async def kill(self, number: int) -> None:
        """End one at once (SIGKILL)."""
        await self.servers[number].kill()

    async def healthy(self, number: int) -> bool:
        """Whether the startup probe succeeds: all streams that a server has a copy of are up to date."""
        return not await http_probe(self._probe_url(number, "startupProbe"))()

    def log(self, number: int) -> str:
        """What a server wrote."""
        return self._file(number, ".log").read_text(encoding="utf-8", errors="replace")

    def denials(self) -> list[str]:
        """What the servers refused somebody but strangers."""
        lines = [line for number in range(len(self)) for line in self.log(number).splitlines()]
        refused = [line for line in lines if _DENIED.search(line)]
        return [line for line in refused if not any(key in line for key in self.strangers)]

    def used(self) -> set[tuple[str, str, str]]:
        """Who used what, if it is traced: the public key of a user, `PUB` or `SUB`, and the subject."""
        found = [one for number in range(len(self)) for one in _TRACED.finditer(self.log(number))]
        return {(one[1], one[2], one[3]) for one in found}

    def renew(self) -> None:
        """Put another certificate in place, and tell the servers as their reloaders do."""
        self._issue()
        for number in range(len(self)):
            os.kill(int(self._file(number, ".pid").read_text(encoding="ascii")), signal.SIGHUP)

    def _issue(self) -> None:
        tls = self.authority.parent
        served = self._issuer.issue_cert(*dict.fromkeys((*self._names, HOST)))
        served.cert_chain_pems[0].write_to_path(tls / "tls.crt")
        served.private_key_pem.write_to_path(tls / "tls.key")

    def _prepare(self) -> None:
        tls = self.authority.parent
        tls.mkdir(parents=True)
        self._issuer.cert_pem.write_to_path(self.authority)
        self._issue()
        for number in range(len(self)):
            stored = {**self._config["jetstream"], "store_dir": str(self._file(number, ""))}
            named = {**self._config, "jetstream": stored, "server_name": self.pod(number)}
            text = json.dumps(named).replace(_CERTIFICATES, str(tls))
            self._file(number, ".conf").write_text(text, encoding="utf-8")

    def _file(self, number: int, ending: str) -> Path:
        return self.folder / f"{self.pod(number)}{ending}"

    def _supervised(self, number: int) -> Supervised:
        own, name = self.ports[number], self.pod(number)
        given = list(self._pod["args"])
        given[given.index("--config") + 1] = str(self._file(number, ".conf"))
        given[given.index("--pid") + 1] = str(self._file(number, ".pid"))
        routes = ",".join(f"nats://{HOST}:{one.cluster}" for one in self.ports)
        here = ["--addr", HOST, "--port", str(own.client), "--http_port", str(own.monitor)]
        here += ["--cluster", f"nats://{HOST}:{own.cluster}", "--routes", routes]
        command = [str(nats_binary()), *given, *here]
        program = Program(name, command, {}, http_probe(self._probe_url(number, "readinessProbe")))
        return Supervised(program, self._file(number, ".log"), start_timeout=30, stop_patience=10)

    def _probe_url(self, number: int, probe: str) -> str:
        return f"http://{HOST}:{self.ports[number].monitor}{self._pod[probe]['httpGet']['path']}"


@asynccontextmanager
async def broker_cluster(
    folder: Path,
    config: JsonObject,
    statefulset: JsonObject,
    names: Sequence[str],
    *,
    address: str = HOST,
    port: int = 0,
) -> AsyncIterator[BrokerCluster]:
    """All servers of the StatefulSet, ready, behind a Service at an address of the loopback; see `BrokerCluster`."""
    cluster = BrokerCluster(folder, config, statefulset, (*names, address))
    try:
        await cluster.start()
        async with relay(address, port, [one.client for one in cluster.ports]) as open_port:
            cluster.url = f"tls://{address}:{open_port}"
            yield cluster
    finally:
        await cluster.stop()
