"""The program of a simulated AIM image: `dry-run` prints the profile that fits, anything else serves an engine.

It is the only file of such an image beside its profiles, and has nothing but Python's standard library. The engine
answers the OpenAI API with an echo, word by word where a stream is requested, takes as many requests at a time as it
has slots and lets others wait, and reports what it does under the names of vLLM's metrics. Settings, all optional:

    AIM_ENGINE_SECONDS_PER_TOKEN   how long a token takes; 0
    AIM_ENGINE_PREFILL_SECONDS     how long the prompt takes, before which no byte of the answer is sent; 0.05
    AIM_ENGINE_SLOTS               requests at a time; 256
    AIM_ENGINE_START_SECONDS       how long loading takes, until which /health answers 503; 0
"""

import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

Json = dict[str, Any]

FOLDER: Final = "/workspace/aim-runtime"
CATALOGUE: Final = "profiles.json"
PORT: Final = 8000
ADAPTERS: Final = "/adapters"
"""Where the disk of LoRA adapters is mounted."""
_CUSTOM: Final = "custom/"
_FILTERS: Final = ("AIM_PROFILE_ID", "AIM_GPU_MODEL", "AIM_GPU_COUNT", "AIM_METRIC", "AIM_PRECISION")
_MOST_TOKENS: Final = 100_000
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_STOP_SECONDS: Final = 25.0


class ProblemError(Exception):
    """Why the program ends, in one line."""


class RefusedError(Exception):
    """A request that gets an error in the form of the OpenAI API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def fitting(catalogue: Json, env: Mapping[str, str]) -> Json | None:
    """What discovery prints for this environment: of a mounted custom profile, or the first of the image that fits.

    What the environment leaves open fits every profile. None when no profile fits.
    """
    if env.get("AIM_PROFILE_ID", "").startswith(_CUSTOM):
        return _custom(catalogue, env)
    for profile in catalogue["profiles"]:
        wanted = profile["match"]
        if all(env.get(name, wanted[name]).rpartition("/")[2] == wanted[name] for name in _FILTERS):
            found: Json = profile["output"]
            return found
    return None


def _custom(catalogue: Json, env: Mapping[str, str]) -> Json | None:
    """The output for a custom profile, by its name: `custom/<aim id>/vllm-<gpu>-<precision>-tp<count>-<metric>`."""
    profile_id = env["AIM_PROFILE_ID"]
    folder, _, name = profile_id.rpartition("/")
    aim_id, parts = folder.removeprefix(_CUSTOM).lstrip("/"), name.split("-")
    if env.get("AIM_ID") and env.get("AIM_MODEL_ID"):
        raise ProblemError("AIM_ID and AIM_MODEL_ID are both set; unset one of them")
    if not aim_id or len(parts) != 5 or not parts[3].removeprefix("tp").isdigit():
        return None
    file = Path(env.get("AIM_PROFILES", f"{FOLDER}/profiles"), _CUSTOM, aim_id, f"{name}.yaml")
    if not file.is_file():
        raise ProblemError(f"custom profile {profile_id} missing: there is no file {file}; mount its ConfigMap there")
    _, gpu, precision, parallel, metric = parts
    count = int(parallel.removeprefix("tp"))
    shape: Json = json.loads(json.dumps(catalogue["custom"]))
    profile = shape["profile"]
    profile.update(aim_id=aim_id, model_id=aim_id, model=aim_id)
    profile["metadata"].update(gpu=gpu.upper(), gpu_count=count, metric=metric, precision=precision)
    profile["engine_args"]["tensor-parallel-size"] = count
    models = [{**one, "name": aim_id, "source": f"hf://{aim_id}"} for one in shape["models"]]
    return {**shape, "filename": file.name, "path": str(file), "profile": profile, "models": models}


def _base(catalogue: Json, env: Mapping[str, str]) -> Json | None:
    """What a base image serves: it has no profiles, and any model that the environment names."""
    model = env.get("AIM_MODEL_ID")
    if catalogue["profiles"] or not model:
        return None
    shape: Json = json.loads(json.dumps(catalogue["custom"]))
    shape["profile"].update(aim_id=model, model_id=model, model=model)
    shape["models"] = [{**one, "name": model} for one in shape["models"]]
    return {**shape, "filename": "none"}


def weights_of(output: Json, env: Mapping[str, str]) -> list[Path]:
    """The files of the model below the cache folder; nothing is looked for where there is no such folder to use.

    Raises:
        ProblemError: there are none.
    """
    place = env.get("AIM_CACHE_PATH", "")
    if not place:
        return []
    names = [env.get("AIM_MODEL_ID", ""), *(one["name"] for one in output["models"])]
    folders = [Path(place, name) for name in names if name and Path(place, name).is_dir()] or [Path(place)]
    found = [
        Path(above, name)
        for folder in folders
        for above, below, files in os.walk(folder)
        for name in files
        if not _is_hidden(Path(above, name).relative_to(folder)) and below is not None
    ]
    if not any(one.stat().st_size for one in found):
        raise ProblemError(f"weights of {names[-1]} missing: no file below {place}; mount the volume with the download")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts) or path.parts[0] == "lost+found"


@dataclass(slots=True)
class Histogram:
    """A Prometheus histogram of seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BUCKETS))
    total: float = 0.0
    number: int = 0

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self.total += seconds
        self.number += 1
        for place, bound in enumerate(_BUCKETS):
            if seconds <= bound:
                self.counts[place] += 1

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The samples."""
        for bound, count in zip(_BUCKETS, self.counts, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
        yield f'{name}_bucket{{{labels},le="+Inf"}} {self.number}'
        yield f"{name}_sum{{{labels}}} {self.total:.6f}"
        yield f"{name}_count{{{labels}}} {self.number}"


class Engine:
    """Slots for requests, and what they did so far."""

    def __init__(self, model: str, names: frozenset[str], env: Mapping[str, str]) -> None:
        self.model = model
        self.names = names
        self.adapters = Adapters(max_rank_of(env))
        self.started = int(time.time())
        self.ready = False
        self.pod = os.uname().nodename
        self._seconds_per_token = _number(env, "AIM_ENGINE_SECONDS_PER_TOKEN", 0.0)
        # Proxies in Go (Traefik among them) cut an answer that begins before they have seen the end of the request:
        # the server closes the request's body; the transport, which still reads it, closes the engine's connection.
        self._prefill_seconds = _number(env, "AIM_ENGINE_PREFILL_SECONDS", 0.05)
        self._slots = max(1, int(_number(env, "AIM_ENGINE_SLOTS", 256)))
        self._changed = threading.Condition()
        self._running = self._waiting = 0
        self._prompt_tokens = self._generated = 0
        self._ended = {"stop": 0, "length": 0, "abort": 0}
        self._latency, self._first_token, self._queued = Histogram(), Histogram(), Histogram()

    @contextmanager
    def slot(self, prompt_tokens: int) -> Iterator[float]:
        """Wait for a slot, and have it; gives when the waiting began."""
        begun = time.monotonic()
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._running < self._slots)
            self._waiting -= 1
            self._running += 1
            self._prompt_tokens += prompt_tokens
            self._queued.observe(time.monotonic() - begun)
        try:
            time.sleep(self._prefill_seconds)
            yield begun
        finally:
            with self._changed:
                self._running -= 1
                self._latency.observe(time.monotonic() - begun)
                self._changed.notify_all()

    def tokens(self, words: list[str], begun: float) -> Iterator[str]:
        """Words, each after the time that it takes; the first is measured from when the request came."""
        for place, word in enumerate(words):
            if self._seconds_per_token:
                time.sleep(self._seconds_per_token)
            with self._changed:
                self._generated += 1
                if place == 0:
                    self._first_token.observe(time.monotonic() - begun)
            yield word

    def count_end(self, reason: str) -> None:
        """Count a request that ended."""
        with self._changed:
            self._ended[reason] += 1

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until no request is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._running + self._waiting == 0, seconds)

    def metrics(self) -> str:
        """The page of metrics, in Prometheus' text format."""
        labels = f'engine="0",model_name="{self.model}"'
        with self._changed:
            gauges = {
                "vllm:num_requests_running": self._running,
                "vllm:num_requests_waiting": self._waiting,
                "vllm:kv_cache_usage_perc": round(self._running / self._slots, 6),
                "vllm:gpu_cache_usage_perc": round(self._running / self._slots, 6),
            }
            counters = {
                "vllm:prompt_tokens_total": self._prompt_tokens,
                "vllm:generation_tokens_total": self._generated,
            }
            found = [f"# TYPE {name} gauge\n{name}{{{labels}}} {value}" for name, value in gauges.items()]
            found += [f"# TYPE {name} counter\n{name}{{{labels}}} {value}" for name, value in counters.items()]
            found.append("# TYPE vllm:request_success_total counter")
            for reason, count in self._ended.items():
                found.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}')
            for name, histogram in (
                ("vllm:e2e_request_latency_seconds", self._latency),
                ("vllm:time_to_first_token_seconds", self._first_token),
                ("vllm:request_queue_time_seconds", self._queued),
            ):
                found += [f"# TYPE {name} histogram", *histogram.lines(name, labels)]
        return "\n".join(found) + "\n"


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ProblemError(f"{name}={text} invalid: it is not a number; set one, or leave it out") from None


class Adapters:
    """LoRA adapters of an engine, loaded and unloaded as vLLM does; threads of requests share them.

    Attributes:
        paths: of what is loaded, by name.
        max_rank: highest rank of an adapter; None where the engine takes none.
    """

    def __init__(self, max_rank: int | None, disk: Path = Path(ADAPTERS)) -> None:
        """`disk`: what is mounted at `ADAPTERS`."""
        self.paths: Mapping[str, str] = {}
        self.max_rank = max_rank
        self._disk = disk

    def load(self, body: Json) -> str:
        """Load one; the answer.

        Raises:
            RefusedError: vLLM would refuse it.
        """
        name, path = str(body.get("lora_name") or ""), str(body.get("lora_path") or "")
        if not name or not path:
            raise RefusedError(400, "Both 'lora_name' and 'lora_path' must be provided.")
        if name in self.paths:
            raise RefusedError(400, f"The lora adapter '{name}' has already been loaded.")
        self._check(path)
        # Replaced as a whole, so that a request that lists them sees one state.
        self.paths = {**self.paths, name: path}
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, body: Json) -> str:
        """Unload one; the answer.

        Raises:
            RefusedError: it is not loaded.
        """
        name = str(body.get("lora_name") or "")
        if name not in self.paths:
            raise RefusedError(404, f"The lora adapter '{name}' cannot be found.")
        self.paths = {other: path for other, path in self.paths.items() if other != name}
        return f"Success: LoRA adapter '{name}' removed successfully."

    def _check(self, path: str) -> None:
        below = path.removeprefix(f"{ADAPTERS}/")
        file = self._disk / below / "adapter_config.json"
        if below == path or not file.is_file():
            raise RefusedError(404, f"Loading lora failed: No adapter found for {path}")
        rank = json.loads(file.read_bytes()).get("r")
        if self.max_rank is not None and rank > self.max_rank:
            raise RefusedError(400, f"LoRA rank {rank} is greater than max_lora_rank {self.max_rank}.")


def max_rank_of(env: Mapping[str, str]) -> int | None:
    """The highest rank of an adapter; None where no adapter may be loaded while the engine runs."""
    try:
        arguments = json.loads(env.get("AIM_ENGINE_ARGS") or "{}")
    except ValueError:
        return None
    if not arguments.get("enable-lora") or env.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") != "True":
        return None
    return int(arguments.get("max-lora-rank", 16))


def models_of(created: int, model: str, adapters: Mapping[str, str]) -> Json:
    """The list of models: the one, and its adapters with their paths."""
    entry = {"id": model, "object": "model", "created": created, "owned_by": "aim-local", "root": model, "parent": None}
    others = [{**entry, "id": name, "root": path, "parent": model} for name, path in adapters.items()]
    return {"object": "list", "data": [entry, *others]}


@dataclass(frozen=True, slots=True)
class Request:
    """A request for text.

    Attributes:
        words: of the answer.
        reason: why it ends there.
    """

    is_chat: bool
    is_stream: bool
    prompt_tokens: int
    words: list[str]
    reason: str


def request_of(body: Json, engine: Engine, *, is_chat: bool) -> Request:
    """What a body asks for.

    Raises:
        RefusedError: it asks for nothing, or for a model that is not here.
    """
    if body.get("model") not in {None, "", *engine.names, *engine.adapters.paths}:
        raise RefusedError(404, f"The model `{body['model']}` does not exist; this engine serves `{engine.model}`.")
    text = _question(body) if is_chat else body.get("prompt")
    if not isinstance(text, str):
        raise RefusedError(400, "prompt: a text is required")
    served = body["model"] if body.get("model") in engine.adapters.paths else engine.model
    words = f"This is {served} on pod {engine.pod}. You said: {text}".split()
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    if wanted is not None and (not isinstance(wanted, int) or not 0 < wanted <= _MOST_TOKENS):
        raise RefusedError(400, f"max_tokens: a whole number from 1 to {_MOST_TOKENS} is required")
    if wanted is None:
        return Request(is_chat, bool(body.get("stream")), len(text.split()), words, "stop")
    # As many tokens as are asked for, so that max_tokens says how long a request takes.
    filled = [words[place % len(words)] for place in range(wanted)]
    return Request(is_chat, bool(body.get("stream")), len(text.split()), filled, "length")


def _question(body: Json) -> str:
    messages = body.get("messages")
    asked = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    if not asked:
        raise RefusedError(400, "messages: a list with at least one message is required")
    content = asked[-1].get("content", "")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _body(content: bytes) -> Json:
    """The object that a request brings.

    Raises:
        RefusedError: it is none.
    """
    try:
        body = json.loads(content)
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RefusedError(400, "the body is not a JSON object")
    return body


class Handler(BaseHTTPRequestHandler):
    """The HTTP API of an engine."""

    protocol_version = "HTTP/1.1"
    # Each token is a small write, which would wait 40 ms for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    engine: ClassVar[Engine]

    def do_GET(self) -> None:
        """Health, metrics and models."""
        path = self.path.partition("?")[0]
        engine = self.engine
        if path == "/metrics":
            self._answer(engine.metrics().encode(), kind="text/plain; version=0.0.4; charset=utf-8")
        elif path in {"/health", "/ping", "/-/ready"}:
            self._answer(b"" if engine.ready else b"loading\n", 200 if engine.ready else 503, kind="text/plain")
        elif path.endswith("/v1/models"):
            self._json(models_of(engine.started, engine.model, engine.adapters.paths))
        else:
            self._error(RefusedError(404, f"GET {path}: no such endpoint"))

    def do_POST(self) -> None:
        """Completions and adapters."""
        path = self.path.partition("?")[0]
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        adapters = self.engine.adapters
        try:
            change = {"/v1/load_lora_adapter": adapters.load, "/v1/unload_lora_adapter": adapters.unload}.get(path)
            if change is not None and adapters.max_rank is not None:
                self._answer(change(_body(content)).encode(), kind="text/plain")
                return
            if not path.endswith(("/v1/chat/completions", "/v1/completions")):
                raise RefusedError(404, f"POST {path}: no such endpoint")
            if not self.engine.ready:
                raise RefusedError(503, "the engine is loading")
            request = request_of(_body(content), self.engine, is_chat=path.endswith("/chat/completions"))
        except RefusedError as error:
            self._error(error)
            return
        with self.engine.slot(request.prompt_tokens) as begun:
            tokens = self.engine.tokens(request.words, begun)
            try:
                self._stream(request, tokens) if request.is_stream else self._whole(request, tokens)
            except OSError:
                # The client went away.
                self.engine.count_end("abort")
                self.close_connection = True
            else:
                self.engine.count_end(request.reason)

    def _whole(self, request: Request, tokens: Iterator[str]) -> None:
        text = " ".join(tokens)
        choice: Json = {"index": 0, "finish_reason": request.reason, "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if request.is_chat else {"text": text}
        asked, said = request.prompt_tokens, len(request.words)
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        kind = "chat.completion" if request.is_chat else "text_completion"
        self._json({**self._head(kind, request), "choices": [choice], "usage": usage})

    def _stream(self, request: Request, tokens: Iterator[str]) -> None:
        head = self._head("chat.completion.chunk" if request.is_chat else "text_completion", request)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if request.is_chat:
            self._event({**head, "choices": [_choice({"delta": {"role": "assistant", "content": ""}}, None)]})
        for place, word in enumerate(tokens):
            text = word if place == 0 else f" {word}"
            part: Json = {"delta": {"content": text}} if request.is_chat else {"text": text}
            self._event({**head, "choices": [_choice(part, None)]})
        end: Json = {"delta": {}} if request.is_chat else {"text": ""}
        self._event({**head, "choices": [_choice(end, request.reason)]})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _head(self, kind: str, request: Request) -> Json:
        identity = f"{'chatcmpl' if request.is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        return {"id": identity, "object": kind, "created": int(time.time()), "model": self.engine.model}

    def _event(self, event: Json) -> None:
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _error(self, error: RefusedError) -> None:
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(error.status, "ServiceUnavailableError")
        body = {"error": {"message": str(error), "type": kind, "param": None, "code": error.status}}
        self._json(body, error.status)

    def _json(self, body: Json, status: int = 200) -> None:
        self._answer(json.dumps(body).encode(), status)

    def _answer(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class gives it
        """Probes and scrapes would be all that the log has."""
        if self.command == "POST":
            super().log_message(format, *args)


def _choice(part: Json, reason: str | None) -> Json:
    return {"index": 0, **part, "finish_reason": reason}


class Server(ThreadingHTTPServer):
    """Takes as many connections as there are requests."""

    daemon_threads = True
    request_queue_size = 1024


def serve(catalogue: Json, env: Mapping[str, str], port: int = PORT) -> None:
    """Serve until SIGTERM; requests that are running then are answered.

    Raises:
        ProblemError: no profile fits, or the weights are missing.
    """
    output = fitting(catalogue, env) or _base(catalogue, env)
    if output is None:
        raise ProblemError(_no_profile(env))
    files = weights_of(output, env)
    profile = output["profile"]
    model = env.get("AIM_MODEL_ID") or profile["aim_id"]
    names = frozenset({model, profile["aim_id"], profile["model_id"], *(one["name"] for one in output["models"])})
    engine = Engine(model, names, env)
    handler = type("EngineHandler", (Handler,), {"engine": engine})
    server = Server(("", port), handler)

    def load() -> None:
        time.sleep(_number(env, "AIM_ENGINE_START_SECONDS", 0.0))
        engine.ready = True
        print(f"serving {model} by profile {output['filename']} with {len(files)} files of weights", flush=True)

    def end(*_: object) -> None:
        # Not from the handler itself: `shutdown` waits for the loop that the signal interrupted.
        threading.Thread(target=server.shutdown, daemon=True).start()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, end)
    threading.Thread(target=load, daemon=True).start()
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    engine.wait_until_idle(_STOP_SECONDS)


def dry_run(catalogue: Json, env: Mapping[str, str]) -> str:
    """What discovery reads.

    Raises:
        ProblemError: no profile fits.
    """
    if catalogue.get("log") is not None:
        return str(catalogue["log"])
    output = fitting(catalogue, env)
    if output is None:
        raise ProblemError(_no_profile(env))
    return json.dumps([output]) + "\n"


def _no_profile(env: Mapping[str, str]) -> str:
    wanted = ", ".join(f"{name}={env[name]}" for name in _FILTERS if name in env) or "nothing"
    return f"no profile of this image fits: the environment asks for {wanted}; choose another template"


def main(arguments: list[str], env: Mapping[str, str]) -> int:
    """Do what the arguments say; the exit code."""
    try:
        catalogue = json.loads(Path(__file__).with_name(CATALOGUE).read_text(encoding="utf-8"))
        if arguments[:1] == ["dry-run"]:
            sys.stdout.write(dry_run(catalogue, env))
        else:
            serve(catalogue, env, int(_number(env, "AIM_PORT", PORT)))
    except ProblemError as problem:
        print(f"ERROR {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
