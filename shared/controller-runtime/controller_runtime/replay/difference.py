"""Where two plans differ, in lines for people."""

from controller_runtime.json import JsonObject, canonical

_WIDTH = 80


def differences(then: JsonObject, now: JsonObject) -> tuple[str, ...]:
    """Members that differ, each with both values."""
    return tuple(_differences("", then, now))


def _differences(path: str, then: object, now: object) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return _in_objects(path, then, now)
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [line for index, (old, new) in pairs for line in _differences(f"{path}[{index}]", old, new)]
    return [] if then == now else [f"{path or 'plan'}: then {_short(then)}, now {_short(now)}"]


def _in_objects(path: str, then: JsonObject, now: JsonObject) -> list[str]:
    names = sorted({*then, *now})
    return [
        line for name in names for line in _differences(f"{path}.{name}".lstrip("."), then.get(name), now.get(name))
    ]


def _short(value: object) -> str:
    text = canonical(value).decode()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
