"""Runs a download's container from its image: `python -m support.image_downloader TREES POD`, with the pod as JSON.

Whoever calls it sets the variables, and the folders that they name, which are the container's volumes here. On a real
API server the container has the token of the pod's service account, and no kubeconfig.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml
from support.image_programs import empty_folder, files_of
from support.images import given, image
from support.pod_root import Mount, become

from aim_cli.cluster.asking import reading
from controller_runtime import JsonObject
from controller_runtime.kube.config import SERVICE_ACCOUNT

# TARGET_DIR lies in MOUNT_PATH, and the container makes it where it is a folder of its own (LA-021).
_FOLDERS: Final = ("MOUNT_PATH", "TMPDIR")
_REPORT: Final = "AIM_TERMINATION_MESSAGE_PATH"
_OF_THE_IMAGE: Final = frozenset({"PATH", "HOME", "LANG", "PYTHONPATH"})
_SECONDS: Final = 3600


def main(trees: Path, pod: JsonObject) -> None:
    """Become the container."""
    own, [container] = image(trees, "downloader"), pod["spec"]["containers"]
    env = {name: value for name, value in os.environ.items() if name not in _OF_THE_IMAGE}
    report = Path(env[_REPORT])
    report.touch()
    written = {Path(env[name]) for name in _FOLDERS} | {report}
    mounts = [Mount(str(path), str(path), writable=True) for path in sorted(written)]
    account = report.parent / "account"
    kubeconfig = env["KUBECONFIG"]
    if not pod["spec"].get("automountServiceAccountToken", True):
        del env["KUBECONFIG"]
    else:
        env |= dict(_identity(pod, kubeconfig, account))
    if account.is_dir():
        del env["KUBECONFIG"]
        mounts.append(Mount(str(account), str(SERVICE_ACCOUNT)))
    for path in (*written, *([account] if account.is_dir() else [])):
        given(path, own.user)
    read = [one for one in files_of(env, own.user) if one.path not in map(str, written)]
    command, arguments = container.get("command") or (), container.get("args") or ()
    become(own.container(empty_folder(), env, (*read, *mounts), command=command, arguments=arguments))


def _identity(pod: JsonObject, kubeconfig: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Where the API server is; what the API server gives each pod comes into the folder. Nothing without TLS."""
    [cluster] = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))["clusters"]
    authority = cluster["cluster"].get("certificate-authority")
    if authority is None:
        return
    namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _SECONDS}}
    with reading(kubeconfig, None) as kube:
        token = kube.ask(path, wanted)["status"]["token"]
    folder.mkdir()
    for file, text in (("token", token), ("namespace", namespace), ("ca.crt", Path(authority).read_text("utf-8"))):
        (folder / file).write_text(text, encoding="utf-8")
    server = urlsplit(cluster["cluster"]["server"])
    yield "KUBERNETES_SERVICE_HOST", str(server.hostname)
    yield "KUBERNETES_SERVICE_PORT", str(server.port)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
