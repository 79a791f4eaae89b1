"""More processes of the services that are divided, beside those of a stack."""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import aiohttp
from support.nats import eventually

from aim_local.ports import free_port
from aim_local.stack import Stack
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Supervised

DIVIDED: Final = ("serving", "routing")


@dataclass(frozen=True, slots=True)
class Replicas:
    """The processes of the two services that are divided."""

    stack: Stack
    each: dict[str, list[Supervised]]

    async def add(self, number: int) -> None:
        """Start one process more of each service."""
        async with asyncio.TaskGroup() as group:
            for name in DIVIDED:
                self.each[name].append(self._replica(name, number))
                group.create_task(self.each[name][-1].start())

    async def kill(self, name: str, index: int) -> Supervised:
        """Kill a process of a service; it is not restarted."""
        process = self.each[name].pop(index)
        await process.kill()
        return process

    def _replica(self, name: str, number: int) -> Supervised:
        stack = self.stack
        program = stack._programs.service(name, stack.cluster.kubeconfig_for(name), with_registry=True)
        address = f"127.0.0.1:{free_port()}"
        env = {
            **program.env,
            "AIM_POD_NAME": f"aim-{name}-{number}",
            "AIM_POD_UID": f"{name}-{number}",
            "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
            "AIM_METRICS_BIND_ADDRESS": address,
        }
        url = f"http://{address}"
        other = replace(program, name=f"{name}-{number}", env=env, probe=http_probe(f"{url}/readyz"), url=url)
        return stack._supervised(other)

    async def shared_as(self, *numbers: int) -> None:
        """Wait until the shards of each service are led by so many processes, and none by two."""
        for name in DIVIDED:

            async def shared(name: str = name) -> bool:
                each = [await self._led(one) for one in self.each[name]]
                whole = sorted(index for one in each for index in one) == list(range(sum(numbers)))
                return whole and sorted(len(one) for one in each) == sorted(numbers)

            await eventually(shared, f"the shards of {name} are shared as {numbers}", within=90)

    async def _led(self, process: Supervised) -> list[int]:
        async with aiohttp.ClientSession() as session, session.get(f"{process.program.url}/readyz") as answer:
            found: list[int] = (await answer.json(content_type=None))["leadsShards"]
            return found

    async def close(self) -> None:
        """End the processes that were added."""
        own = set(self.stack.processes)
        for process in (one for each in self.each.values() for one in each if one not in own):
            await process.stop()
