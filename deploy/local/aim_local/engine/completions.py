"""Answers in the shapes of the OpenAI API. Pure functions."""

from collections.abc import Iterator

from controller_runtime import JsonObject, dumps


class BadRequestError(Exception):
    """The request is not understood; the text says what is missing."""


def question_of(request: JsonObject) -> str:
    """The text of the last message of the user.

    Raises:
        BadRequestError: there is none.
    """
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages: a list with at least one message is required")
    asked = [one for one in messages if isinstance(one, dict) and one.get("role") == "user"]
    if not asked:
        raise BadRequestError("messages: at least one message of the role 'user' is required")
    content = asked[-1].get("content", "")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_to(question: str, model: str, pod: str) -> str:
    """What the echo says."""
    return f"This is {model}, simulated on pod {pod}. You said: {question}"


def completion(identity: str, created: int, model: str, question: str, answer: str) -> JsonObject:
    """A whole chat completion."""
    asked, said = len(question.split()), len(answer.split())
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop", "logprobs": None}
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def chunks(identity: str, created: int, model: str, answer: str) -> Iterator[bytes]:
    """The same answer as server-sent events, a word at a time."""
    yield _event(identity, created, model, {"role": "assistant", "content": ""}, None)
    words = answer.split(" ")
    for index, word in enumerate(words):
        yield _event(identity, created, model, {"content": word if index == 0 else f" {word}"}, None)
    yield _event(identity, created, model, {}, "stop")
    yield b"data: [DONE]\n\n"


def models(created: int, model: str) -> JsonObject:
    """The list of models: the one."""
    entry = {"id": model, "object": "model", "created": created, "owned_by": "aim-local"}
    return {"object": "list", "data": [entry]}


def failure(message: str, kind: str, code: int) -> JsonObject:
    """An error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _event(identity: str, created: int, model: str, delta: JsonObject, finish: str | None) -> bytes:
    chunk = {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + dumps(chunk) + b"\n\n"
