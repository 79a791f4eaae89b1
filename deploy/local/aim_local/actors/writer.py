"""How the actors write: status by server-side apply, creation that tolerates having happened before, Events."""

from typing import final

from aim_local.actors.objects import now_text, short_hash, uid_of
from aim_local.plain_kind import PlainKind
from controller_runtime import ApiError, JsonObject, Key, KubeClient
from controller_runtime.kinds import EVENT, POD
from controller_runtime.kube.kinds import ResourceKind, api_version


@final
class Writer:
    """Writes of one actor under its own field manager."""

    def __init__(self, client: KubeClient, manager: str) -> None:
        self.client = client
        self._manager = manager

    async def status(self, kind: ResourceKind, obj: JsonObject, status: JsonObject) -> JsonObject | None:
        """Make this the object's status; None if the object is gone or another one by now."""
        body = {"apiVersion": api_version(kind), "kind": kind.kind, "metadata": _identity(obj), "status": status}
        try:
            return await self.client.apply(kind, body, self._manager, subresource="status")
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return None
            raise

    async def get(self, kind: ResourceKind, name: str, namespace: str | None = None) -> JsonObject | None:
        """The object as it is now; None if it is gone."""
        try:
            return await self.client.get(kind, name, namespace)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def create(self, kind: ResourceKind, obj: JsonObject) -> JsonObject | None:
        """Create the object; None if its name is taken or its namespace is going away."""
        try:
            return await self.client.create(kind, obj, self._manager)
        except ApiError as error:
            if error.is_already_exists or error.is_namespace_terminating or error.is_not_found:
                return None
            raise

    async def apply(self, kind: ResourceKind, obj: JsonObject) -> JsonObject:
        """Create the object or bring its fields to these values."""
        return await self.client.apply(kind, obj, self._manager)

    async def patch(self, kind: ResourceKind, obj: JsonObject, change: JsonObject) -> JsonObject | None:
        """Change exactly this version of the object; None if it is gone or another one by now."""
        metadata = obj["metadata"]
        try:
            return await self.client.merge_patch(
                kind,
                metadata["name"],
                metadata.get("namespace"),
                change,
                resource_version=metadata["resourceVersion"],
                field_manager=self._manager,
            )
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return None
            raise

    async def delete(self, kind: ResourceKind, obj: JsonObject, *, grace_seconds: int | None = None) -> None:
        """Delete exactly this object, if it is still there."""
        metadata = obj["metadata"]
        try:
            await self.client.delete(
                kind, metadata["name"], metadata.get("namespace"), uid=uid_of(obj), grace_seconds=grace_seconds
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def remove_ended(self, pod: JsonObject) -> None:
        """Remove a pod that was given time to end and has ended, as its kubelet does."""
        await self.delete(POD, pod, grace_seconds=0)

    async def bind(self, pod: JsonObject, node: str) -> JsonObject:
        """Place the pod on the node, as a scheduler does; returns the pod as it is then."""
        key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        # To the client a subresource that can be created is a collection like any other.
        kind = PlainKind("", "v1", "Binding", f"{POD.plural}/{key.name}/binding", True)
        await self.client.create(kind, binding, self._manager)
        return {**pod, "spec": {**pod["spec"], "nodeName": node}}

    async def event(self, kind: ResourceKind, obj: JsonObject, reason: str, message: str, *, warning: bool) -> None:
        """Report something about an object; a repetition is not reported again."""
        metadata, now = obj["metadata"], now_text()
        key = Key(metadata.get("namespace") or "default", metadata["name"])
        about = {
            "apiVersion": api_version(kind),
            "kind": kind.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid_of(obj),
        }
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name}.{short_hash([about, reason, message], 16)}", "namespace": key.namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": self._manager},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self.create(EVENT, event)


def _identity(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    identity = {"name": metadata["name"], "uid": metadata["uid"]}
    if metadata.get("namespace"):
        identity["namespace"] = metadata["namespace"]
    return identity
