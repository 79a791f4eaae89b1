"""The control plane as a process."""

import asyncio
import signal
import sys
from pathlib import Path

import yaml
from support.controlplane import CRDS, raw_api


async def test_the_process_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    options = ("--port", "0", "--kubeconfig", str(kubeconfig), "--crds", str(CRDS))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "embedded_apiserver", *options, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            ready = (await process.stdout.readline()).decode()
        url = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        assert ready == f"ready: {url}\n"
        async with raw_api(url) as api:
            assert (await api.get("/apis/aim.eai.amd.com/v1alpha1")).status == 200
            assert (await api.get("/apis/serving.kserve.io/v1beta1")).status == 200
            async with api.session.get("/readyz") as ready_reply:
                assert await ready_reply.text() == "ok"
            # A watch that is open must not delay the end.
            async with api.session.get("/api/v1/pods", params={"watch": "1"}):
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(20):
                    assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
