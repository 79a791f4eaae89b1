"""The whole platform with a broker that lets each service do only what the chart allows it."""

import json
from pathlib import Path

import pytest
from support.stack import OWN, started_platform

from aim_local.demo.run import demo_files
from aim_packaging.broker import authorization, user_of
from aim_packaging.keys import new_key
from aim_packaging.services import definitions
from controller_runtime.log.wire.subjects import Layout


@pytest.mark.spec("FW-535", "FW-536")
async def test_a_service_runs_and_the_broker_has_denied_nobody_anything(tmp_path: Path) -> None:
    keys = {one.name: new_key() for one in definitions()}
    files = {name: tmp_path / f"{name}.nk" for name in keys}
    for name, key in keys.items():
        files[name].write_text(key.seed, encoding="utf-8")
    users = [(user_of(one, Layout()), keys[one.name].public) for one in definitions()]
    env = {name: {"AIM_NATS_CREDENTIALS_FILE": str(file)} for name, file in files.items()}
    broker = f"authorization: {json.dumps(authorization(users))}"
    folder = tmp_path / "platform"
    async with started_platform(folder, service_env=env, broker=broker) as platform:
        await platform.apply([demo_files()[-1]])
        await platform.running(f"{OWN}/namespaces/demo/aimservices/qwen-chat")
    logs = {file.name: file.read_text(errors="replace").lower() for file in folder.rglob("*.log")}
    assert {f"{name}.log" for name in keys} <= set(logs)
    assert not [name for name, text in logs.items() if "permissions violation" in text]
