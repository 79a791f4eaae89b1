"""Asks the served model something, the way a user of the platform would."""

import asyncio
from typing import Final

import aiohttp

from controller_runtime import JsonObject, dumps, loads

QUESTION: Final = "Hello, who are you?"
_RETRY: Final = 0.1
_TRIES: Final = 30


class ChatError(Exception):
    """The gateway or the model gave no answer; the text says what came instead."""


async def ask(url: str, question: str = QUESTION) -> str:
    """Send a chat request to an OpenAI-compatible base URL; the text of the answer.

    The gateway learns of routes a moment after everybody else, so its refusals are not final at once.

    Raises:
        ChatError: no answer came within seconds.
    """
    body: JsonObject = {"messages": [{"role": "user", "content": question}]}
    refusal = ""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30), trust_env=False) as session:
        for _ in range(_TRIES):
            try:
                async with session.post(
                    f"{url}/v1/chat/completions", data=dumps(body), headers={"Content-Type": "application/json"}
                ) as answer:
                    text = await answer.read()
                    if answer.ok:
                        return str(loads(text)["choices"][0]["message"]["content"])
                    refusal = f"{answer.status} {text.decode(errors='replace')}"
            except (aiohttp.ClientError, TimeoutError) as error:
                refusal = str(error) or type(error).__name__
            await asyncio.sleep(_RETRY)
    raise ChatError(f"{url}/v1/chat/completions: {refusal}")
