"""Starts the container of a pod as a kubelet would: from its image, with the variables, files and user of its spec.

What it lacks is the pod's own address: all pods share the loopback, so who runs a container says where it listens.
"""

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from support.controlplane import RawApi
from support.image_programs import empty_folder
from support.images import given, image
from support.pod_root import Container, Mount

from controller_runtime import JsonObject

_IMAGE: Final = re.compile(r"/aim-engine-([a-z-]+)[:@]")
_SUBSTITUTED: Final = re.compile(r"\$\((\w+)\)")


@dataclass(frozen=True, slots=True)
class Kubelet:
    """Of one node.

    Attributes:
        api: of the cluster, as an administrator.
        server: where its API server is.
        trees: of the images (`support.images`).
        folder: for volumes.
        hosts: names that are resolved elsewhere in a cluster, such as those of Services.
    """

    api: RawApi
    server: str
    trees: Path
    folder: Path
    hosts: Mapping[str, str]

    async def container(self, pod: JsonObject, where_it_listens: Mapping[str, str]) -> Container:
        """The only container of a pod; some variables say where it listens, in place of those of the spec."""
        [spec] = pod["spec"]["containers"]
        own = image(self.trees, image_of(spec["image"]))
        user = int(pod["spec"]["securityContext"]["runAsUser"])
        assert spec["securityContext"]["readOnlyRootFilesystem"] is True, "no other can be run"
        assert user == own.user, f"the image's user is {own.user}, the pod's {user}"
        env = {**self._address(), **dict(variables(pod, spec)), **where_it_listens}
        return own.container(
            empty_folder(),
            env,
            await self._mounts(pod, spec, user),
            command=spec.get("command") or (),
            arguments=spec.get("args") or (),
            hosts=self.hosts,
        )

    def _address(self) -> dict[str, str]:
        """Of the API server, as every container is told."""
        server = urlsplit(self.server)
        return {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}

    async def _mounts(self, pod: JsonObject, spec: JsonObject, user: int) -> list[Mount]:
        folder = self.folder / pod["metadata"]["uid"]
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        found = []
        for mount in spec.get("volumeMounts") or ():
            place = folder / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            volume = volumes[mount["name"]]
            for name, content in (await self._files(pod, volume)).items():
                (place / name).write_bytes(content)
                (place / name).chmod(0o440)
            await asyncio.to_thread(given, place, user)
            writable = "emptyDir" in volume and not mount.get("readOnly")
            found.append(Mount(str(place), mount["mountPath"], writable=writable))
        return found

    async def _files(self, pod: JsonObject, volume: JsonObject) -> dict[str, bytes]:
        """What a volume holds; of those that a chart for services may name."""
        namespace = pod["metadata"]["namespace"]
        if "emptyDir" in volume:
            return {}
        if "projected" in volume:
            return {
                name: content
                for one in volume["projected"]["sources"]
                for name, content in (await self._projected(pod, one)).items()
            }
        if "secret" in volume:
            source = volume["secret"]
            secret = await self._object(namespace, "secrets", source["secretName"])
            content = {name: base64.b64decode(value) for name, value in secret["data"].items()}
        else:
            source = volume["configMap"]
            config = await self._object(namespace, "configmaps", source["name"])
            content = {name: value.encode() for name, value in config["data"].items()}
        wanted = source.get("items") or [{"key": name, "path": name} for name in content]
        return {one["path"]: content[one["key"]] for one in wanted}

    async def _projected(self, pod: JsonObject, source: JsonObject) -> dict[str, bytes]:
        """Of the volume that the API server adds to each pod: a token that is bound to it, and where it is."""
        metadata = pod["metadata"]
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            account = f"serviceaccounts/{pod['spec']['serviceAccountName']}/token"
            body = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": wanted["expirationSeconds"], "boundObjectRef": bound},
            }
            made = await self.api.created(f"/api/v1/namespaces/{metadata['namespace']}/{account}", body)
            return {wanted["path"]: made["status"]["token"].encode()}
        if "downwardAPI" in source:
            items = source["downwardAPI"]["items"]
            return {one["path"]: field(pod, one["fieldRef"]["fieldPath"]).encode() for one in items}
        return await self._files(pod, {"configMap": source["configMap"]})

    async def _object(self, namespace: str, plural: str, name: str) -> JsonObject:
        reply = await self.api.until(
            f"/api/v1/namespaces/{namespace}/{plural}/{name}", lambda reply: reply.status == 200
        )
        return reply.body


def image_of(reference: str) -> str:
    """Which of the images a pod names."""
    found = _IMAGE.search(reference)
    assert found is not None, f"{reference} is none of the platform's images"
    return found[1]


def variables(pod: JsonObject, spec: JsonObject) -> Iterator[tuple[str, str]]:
    """The variables of a container; each may name those before it."""
    known: dict[str, str] = {}
    for one in spec.get("env") or ():
        value = field(pod, one["valueFrom"]["fieldRef"]["fieldPath"]) if "valueFrom" in one else one.get("value", "")
        known[one["name"]] = _SUBSTITUTED.sub(lambda match: known.get(match[1], match[0]), value)
    yield from known.items()


def field(pod: JsonObject, path: str) -> str:
    """A field of the pod's metadata, as the downward API names it."""
    first, _, name = path.partition(".")
    assert first == "metadata", path
    return str(pod["metadata"][name])
