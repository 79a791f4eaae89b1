"""A page of a list, taken in step by step: none keeps the event loop for long, however large the objects are (FW-493).

A server limits a page by the number of its objects alone, and one object may have 1.5 MB. So a long page is never
decoded as a whole: the objects are found by their brackets, and decoded one by one.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Final

from controller_runtime.json import JsonObject, loads

AT_ONCE: Final = 1 << 20
"""Bytes of a page up to which it is decoded in one step: some milliseconds, of which a longer way would take ten."""
STEP: Final = 128 << 10
"""Bytes of objects, or one object, that are handed on in one step."""
_MOST: Final = 32
"""Objects that are, however small."""

_BLANK: Final = b" \t\r\n"
_OPENING: Final = frozenset((b"{", b"["))
_CLOSING: Final = frozenset((b"}", b"]"))
# Possessive, because what is text will not turn out to be anything else. A quote alone begins a text that breaks off.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]"]', re.DOTALL)


async def take_in(body: bytes, take: Callable[[JsonObject], None]) -> JsonObject:
    """Hand on the objects of a list, in order; returns the list without them.

    Raises:
        ValueError: it is no list of objects, which may show when some were handed on already.
    """
    listed, step, objects = ListBody(body), 0, 0
    for size, obj in listed.objects():
        if objects and (step + size > STEP or objects == _MOST):
            step = objects = 0
            await asyncio.sleep(0)
        step, objects = step + size, objects + 1
        take(obj)
    return listed.rest


class ListBody:
    """The JSON of a list.

    Attributes:
        rest: the list without its objects, when all of them were read.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.rest: JsonObject = {}

    def objects(self) -> Iterator[tuple[int, JsonObject]]:
        """The objects, each with its size in bytes; of a short page, whose objects are there at once, their mean.

        Raises:
            ValueError: it is no list of objects.
        """
        if len(self._body) > AT_ONCE:
            yield from self._one_by_one()
            return
        self.rest = loads(self._body)
        items = self.rest.pop("items", None) or []
        if not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
            raise ValueError("the items of a list are not objects")
        for item in items:
            yield len(self._body) // len(items), item

    def _one_by_one(self) -> Iterator[tuple[int, JsonObject]]:
        body, depth, begin, named = self._body, 0, 0, False
        first, last = len(body), len(body)
        for token in _TOKEN.finditer(body):
            text = token[0]
            if text == b'"':
                raise ValueError("the list ends inside a string")
            if text in _OPENING:
                depth += 1
                if named and depth == 2 and text == b"[":
                    first = last = token.end()
                elif first <= token.start() and depth == 3:
                    begin = token.start()
                    between = b"" if last == first else b","
                    if text != b"{" or body[last:begin].strip(_BLANK) != between:
                        raise ValueError("the items of a list are not objects")
                named = False
            elif text in _CLOSING:
                depth -= 1
                if first <= token.start() and depth == 2:
                    last = token.end()
                    yield last - begin, loads(body[begin:last])
                elif first <= token.start() and depth == 1:
                    break
            elif depth == 1:
                # What follows it is its value, or else this is a value itself.
                named = text == b'"items"'
        # Without its objects, what is left has to be a list as well.
        self.rest = loads(body[:first] + body[last:])
        if self.rest.pop("items", None):
            raise ValueError("the items of a list are not objects")
