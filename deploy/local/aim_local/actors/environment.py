"""The environment of a container, with references to Secrets and ConfigMaps resolved as the kubelet does."""

import base64

from controller_runtime import ApiError, JsonObject, KubeClient
from controller_runtime.kinds import CONFIG_MAP, SECRET


class UnresolvedReferenceError(Exception):
    """A referenced object or key is missing; the text is what the kubelet says."""


async def resolve_environment(client: KubeClient, namespace: str, container: JsonObject) -> dict[str, str]:
    """The variables of a container.

    Raises:
        UnresolvedReferenceError: a reference that is not optional leads nowhere.
    """
    variables: dict[str, str] = {}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        value = await _referenced(client, namespace, source) if source else entry.get("value", "")
        if value is not None:
            variables[entry["name"]] = value
    return variables


async def _referenced(client: KubeClient, namespace: str, source: JsonObject) -> str | None:
    for member, kind, noun in (("secretKeyRef", SECRET, "secret"), ("configMapKeyRef", CONFIG_MAP, "configmap")):
        reference = source.get(member)
        if reference is None:
            continue
        try:
            found = await client.get(kind, reference["name"], namespace)
        except ApiError as error:
            if not error.is_not_found:
                raise
            found = {}
            missing = f'{noun} "{reference["name"]}" not found'
        else:
            where = f"{noun.capitalize()} {namespace}/{reference['name']}"
            missing = f"couldn't find key {reference['key']} in {where}"
        text = (found.get("data") or {}).get(reference["key"])
        if text is None:
            if reference.get("optional"):
                return None
            raise UnresolvedReferenceError(missing)
        return base64.b64decode(text).decode() if kind is SECRET else str(text)
    return None
