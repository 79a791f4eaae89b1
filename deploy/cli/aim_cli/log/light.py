"""What the event log brings along more than an answer needs, left out (FW-684). Imported before it."""

import sys
from importlib import import_module
from types import ModuleType


class _Later(ModuleType):
    """Stands in for a module until its first use. The loader of the library does not wait so long (3.11)."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


# The client of NATS imports it for brokers behind WebSockets.
sys.modules.setdefault("aiohttp", _Later("aiohttp"))

if "structlog" not in sys.modules:
    # It draws tracebacks with rich where there is one. No answer shows any.
    _rich = sys.modules.get("rich")
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
        if _rich is not None:
            sys.modules["rich"] = _rich
