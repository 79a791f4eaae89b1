"""Run the registry alone: `python -m aim_local.registry --port 5000`."""

import argparse
import asyncio
import signal

from aim_local.registry.server import LocalRegistry


async def _serve(port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with LocalRegistry(port) as registry:
        print(f"registry with {len(registry.store.repositories())} repositories on {registry.host}", flush=True)
        await stopped.wait()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="OCI registry with AIM images for demos and tests")
    parser.add_argument("--port", type=int, default=5000, help="TCP port on 127.0.0.1; 0 takes a free one")
    asyncio.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
