"""Another look at everything that a running service knows, in the place of a wait for what it may still do."""

from collections.abc import Awaitable, Callable

from support.nats import eventually

from controller_runtime.manager.run import ServiceProcess


async def one_round(process: ServiceProcess) -> None:
    """Let every object have another pass, as a resync does, and wait until none waits for one any more."""
    controllers = process.state.terms[0].controllers
    taken = {name: queue.taken for name, queue in controllers.queues.items()}
    await controllers._resync()
    waiting = {name for name, queue in controllers.queues.items() if queue.depth}

    def over() -> bool:
        now = controllers.queues
        idle = all(not queue.depth and not controllers.active[name] for name, queue in now.items())
        return idle and all(now[name].taken > taken[name] for name in waiting)

    await eventually(over, "every object had another pass")


async def at_rest(process: ServiceProcess, written: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait for a round in which nothing is written; what is on its way before may come.

    Args:
        written: what a write changes.
    """

    async def rests() -> bool:
        before = await written()
        await one_round(process)
        return await written() == before

    await eventually(rests, what)
