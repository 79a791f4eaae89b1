"""The engine of simulated AIM images as a process: what it answers, counts and refuses."""

import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aim_local.engine import program as engine_program
from aim_local.ports import free_port
from aim_local.registry.images import DEMO_IMAGES, discovery_output
from aim_packaging.images.simulated import catalogue

QWEN = "amdenterpriseai/aim-qwen-qwen3-32b"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program beside its profiles, as in an image."""
    [image] = [one for one in DEMO_IMAGES if one.repository == QWEN]
    shutil.copy(engine_program.__file__, tmp_path / "aim.py")
    (tmp_path / engine_program.CATALOGUE).write_text(json.dumps(catalogue(image)), encoding="utf-8")
    return tmp_path / "aim.py"


@dataclass(frozen=True)
class Engine:
    port: int
    process: "subprocess.Popen[str]"

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        _, text = self.ask("GET", "/metrics")
        [line] = [one for one in text.splitlines() if one.startswith(f"{name}{{")]
        return float(line.rpartition(" ")[2])


@contextmanager
def running(program: Path, **env: str) -> Iterator[Engine]:
    port = free_port()
    # -I: nothing but the standard library, as in the image.
    command = [sys.executable, "-I", "-u", str(program)]
    with subprocess.Popen(command, env={"AIM_PORT": str(port), **env}, stdout=subprocess.PIPE, text=True) as process:
        engine = Engine(port, process)
        try:
            # One that loads for no time listens a moment before it is ready, and refuses requests until then.
            until(lambda: reachable(engine, {200, 503} if "AIM_ENGINE_START_SECONDS" in env else {200}))
            yield engine
        finally:
            process.kill()


def reachable(engine: Engine, answers: Collection[int]) -> bool:
    try:
        return engine.ask("GET", "/health")[0] in answers
    except OSError:
        assert engine.process.poll() is None
        return False


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def said(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}]}


def outcome(program: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-I", str(program), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


def test_an_answer_comes_whole_or_as_a_stream_of_the_same_words(program: Path) -> None:
    with running(program) as engine:
        status, text = engine.ask("POST", "/v1/chat/completions", {**said("hello"), "model": "Qwen/Qwen3-32B"})
        whole = json.loads(text)
        assert (status, whole["object"], whole["choices"][0]["finish_reason"]) == (200, "chat.completion", "stop")
        content = whole["choices"][0]["message"]["content"]
        assert content.endswith("You said: hello")
        assert whole["usage"]["total_tokens"] == 1 + len(content.split())
        # A gateway may have put a path before the API's.
        _, text = engine.ask("POST", "/demo/chat/v1/chat/completions", {**said("hello"), "stream": True})
        events = text.removesuffix("\n\n").split("\n\n")
        assert events[-1] == "data: [DONE]"
        parts = [json.loads(one.removeprefix("data: ")) for one in events[:-1]]
        assert {one["object"] for one in parts} == {"chat.completion.chunk"}
        assert "".join(one["choices"][0]["delta"].get("content", "") for one in parts) == content
        _, text = engine.ask("POST", "/v1/completions", {"prompt": "hello", "max_tokens": 3})
        choice = json.loads(text)["choices"][0]
        assert (len(choice["text"].split()), choice["finish_reason"]) == (3, "length")
        assert json.loads(engine.ask("GET", "/v1/models")[1])["data"][0]["id"] == "Qwen/Qwen3-32B"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/chat/completions", {}, 400, "messages: a list with at least one message is required"),
        ("/v1/chat/completions", {**said("a"), "model": "other"}, 404, "The model `other` does not exist"),
        ("/v1/chat/completions", {**said("a"), "max_tokens": 0}, 400, "max_tokens: a whole number from 1"),
        ("/v1/chat/completions", [1], 400, "the body is not a JSON object"),
        ("/v1/completions", {}, 400, "prompt: a text is required"),
        ("/v1/embeddings", {}, 404, "no such endpoint"),
    ],
)
def test_what_is_not_understood_is_refused_in_the_form_of_the_api(
    program: Path, path: str, body: object, status: int, message: str
) -> None:
    with running(program) as engine:
        found, text = engine.ask("POST", path, body)
        assert found == status
        assert message in json.loads(text)["error"]["message"]


def test_requests_that_run_and_wait_are_counted(program: Path) -> None:
    with running(program, AIM_ENGINE_SECONDS_PER_TOKEN="0.05", AIM_ENGINE_SLOTS="2") as engine:
        body = {**said("hello"), "max_tokens": 60}
        threads = [threading.Thread(target=engine.ask, args=("POST", "/v1/chat/completions", body)) for _ in range(3)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        until(lambda: (engine.metric(RUNNING), engine.metric(WAITING)) == (2, 1))
        assert engine.metric("vllm:kv_cache_usage_perc") == 1
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun > 2 * 60 * 0.05, "the third waited for a slot"
        # The client has the last byte a moment before the engine has its slot back.
        until(lambda: (engine.metric(RUNNING), engine.metric(WAITING)) == (0, 0))
        assert engine.metric("vllm:generation_tokens_total") == 180
        assert engine.metric("vllm:prompt_tokens_total") == 3
        assert engine.metric("vllm:e2e_request_latency_seconds_count") == 3
        assert engine.metric("vllm:e2e_request_latency_seconds_sum") > 9


def test_no_byte_of_an_answer_is_sent_before_the_prompt_was_read(program: Path) -> None:
    with running(program, AIM_ENGINE_PREFILL_SECONDS="0.3") as engine:
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
        begun = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps({**said("hello"), "stream": True}))
        answer = connection.getresponse()
        assert time.monotonic() - begun >= 0.3
        answer.read()
        connection.close()
        assert engine.metric("vllm:time_to_first_token_seconds_sum") >= 0.3


def test_a_client_that_goes_away_leaves_its_slot(program: Path) -> None:
    with running(program, AIM_ENGINE_SECONDS_PER_TOKEN="0.02", AIM_ENGINE_SLOTS="1") as engine:
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
        body = {**said("hello"), "stream": True, "max_tokens": 10_000}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        assert answer.read(10)
        answer.close()
        connection.close()
        until(lambda: engine.metric(RUNNING) == 0)
        assert engine.ask("POST", "/v1/chat/completions", {**said("next"), "max_tokens": 1})[0] == 200


def test_it_is_not_ready_while_it_loads_and_answers_what_runs_when_it_ends(program: Path) -> None:
    with running(program, AIM_ENGINE_START_SECONDS="0.5", AIM_ENGINE_SECONDS_PER_TOKEN="0.05") as engine:
        assert engine.ask("GET", "/health")[0] == 503
        assert engine.ask("POST", "/v1/chat/completions", said("early"))[0] == 503
        until(lambda: engine.ask("GET", "/health")[0] == 200)
        answers: list[tuple[int, str]] = []
        body = {**said("late"), "max_tokens": 20}
        thread = threading.Thread(target=lambda: answers.append(engine.ask("POST", "/v1/chat/completions", body)))
        thread.start()
        until(lambda: engine.metric(RUNNING) == 1)
        engine.process.send_signal(signal.SIGTERM)
        thread.join()
        assert answers[0][0] == 200
        assert engine.process.wait(20) == 0


@pytest.mark.parametrize("kept", [None, ".cache/part", "lost+found/x", "Qwen/Qwen3-32B/empty"])
def test_without_weights_it_ends_with_one_line(program: Path, tmp_path: Path, kept: str | None) -> None:
    if kept is not None:
        (tmp_path / "cache" / kept).parent.mkdir(parents=True)
        (tmp_path / "cache" / kept).write_text("" if kept.endswith("empty") else "x")
    done = outcome(program, AIM_CACHE_PATH=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR weights of Qwen/Qwen3-32B missing: no file below")
    assert done.stderr.count("\n") == 1


def test_with_weights_it_serves_the_model_that_it_is_asked_for(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache/Qwen/Qwen3-32B-FP8"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("x")
    env = {"AIM_CACHE_PATH": str(tmp_path / "cache"), "AIM_MODEL_ID": "Qwen/Qwen3-32B-FP8"}
    with running(program, **env) as engine:
        assert engine.process.stdout is not None
        assert "with 1 files of weights" in engine.process.stdout.readline()
        assert json.loads(engine.ask("GET", "/v1/models")[1])["data"][0]["id"] == "Qwen/Qwen3-32B-FP8"


def test_a_base_image_serves_the_model_that_it_is_asked_for(tmp_path: Path, program: Path) -> None:
    [base] = [one for one in DEMO_IMAGES if one.repository == "amdenterpriseai/aim-base"]
    (tmp_path / engine_program.CATALOGUE).write_text(json.dumps(catalogue(base)), encoding="utf-8")
    folder = tmp_path / "cache/our-team/tuned"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("x")
    env = {"AIM_CACHE_PATH": str(tmp_path / "cache"), "AIM_MODEL_ID": "our-team/tuned"}
    with running(program, **env) as engine:
        assert json.loads(engine.ask("GET", "/v1/models")[1])["data"][0]["id"] == "our-team/tuned"
    assert outcome(program, "dry-run").returncode == 1, "it has nothing for discovery"


def test_discovery_of_a_custom_profile_needs_the_file_of_its_config_map(program: Path, tmp_path: Path) -> None:
    env = {"AIM_ID": "team/model", "AIM_PROFILE_ID": "custom/team/model/vllm-mi325x-fp8-tp2-throughput"}
    place = {"AIM_PROFILES": str(tmp_path / "profiles")}
    done = outcome(program, "dry-run", "--format=json", **env, **place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "custom profile custom/team/model/vllm-mi325x-fp8-tp2-throughput missing" in done.stderr
    file = tmp_path / "profiles/custom/team/model/vllm-mi325x-fp8-tp2-throughput.yaml"
    file.parent.mkdir(parents=True)
    file.touch()
    done = outcome(program, "dry-run", "--format=json", **env, **place)
    [found] = json.loads(done.stdout)
    expected: Any = discovery_output(f"{QWEN}:0.8.5", env)
    assert {**found, "path": ""} == {**expected, "path": ""}


def test_what_an_image_of_the_bad_cases_prints_is_printed(tmp_path: Path, program: Path) -> None:
    [noisy] = [one for one in DEMO_IMAGES if one.repository == "badcases/noisy-output"]
    (tmp_path / engine_program.CATALOGUE).write_text(json.dumps(catalogue(noisy)), encoding="utf-8")
    assert outcome(program, "dry-run").stdout == noisy.log


@pytest.mark.spec("LA-031")
def test_adapters_are_loaded_and_unloaded_as_by_vllm(program: Path) -> None:
    env = {"AIM_ENGINE_ARGS": '{"enable-lora": true, "max-lora-rank": 16}', "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with running(program, **env) as engine:
        load = ("POST", "/v1/load_lora_adapter")
        for body, expected in (
            ({}, (400, "must be provided")),
            ({"lora_name": "sql"}, (400, "must be provided")),
            ({"lora_name": "sql", "lora_path": "/adapters/none"}, (404, "No adapter found for /adapters/none")),
            ({"lora_name": "sql", "lora_path": "/elsewhere"}, (404, "No adapter found")),
        ):
            status, text = engine.ask(*load, body)
            assert (status, expected[1] in text) == (expected[0], True), text
        assert engine.ask("POST", "/v1/unload_lora_adapter", {"lora_name": "sql"})[0] == 404
        [model] = json.loads(engine.ask("GET", "/v1/models")[1])["data"]
        assert model["parent"] is None
    with running(program) as engine:
        assert engine.ask(*load, {"lora_name": "sql", "lora_path": "/adapters/x"})[0] == 404


@pytest.mark.spec("LA-031")
def test_what_adapters_an_engine_takes(tmp_path: Path) -> None:
    for name, rank in (("small", 16), ("large", 64)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text(json.dumps({"r": rank}))
    adapters = engine_program.Adapters(16, tmp_path)
    small = {"lora_name": "sql", "lora_path": "/adapters/small"}
    assert "added successfully" in adapters.load(small)
    assert adapters.paths == {"sql": "/adapters/small"}
    with pytest.raises(engine_program.RefusedError, match="already been loaded"):
        adapters.load(small)
    with pytest.raises(engine_program.RefusedError, match="rank 64 is greater than max_lora_rank 16"):
        adapters.load({"lora_name": "large", "lora_path": "/adapters/large"})
    assert "removed successfully" in adapters.unload({"lora_name": "sql"})
    assert adapters.paths == {}
