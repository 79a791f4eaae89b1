"""What a kubeconfig says: server, certificates and credentials of one context.

Read without the client library, whose import costs more than the rest of the start (36 MB): only plugins need it.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import yaml

from controller_runtime.kube.errors import KubeError

_PLUGINS: Final = ("exec", "auth-provider")
"""Ways to prove who we are that are programs or protocols of their own."""


class ConfigError(KubeError):
    """No usable description of the API server was found."""


@final
@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key.

    Attributes:
        path: file that holds it; ``None`` when it stands in the kubeconfig itself.
        data: its content then.
    """

    path: Path | None = None
    data: bytes = b""

    def file(self, folder: Path, name: str) -> str:
        """A file with the content; what has none yet is written into the folder."""
        if self.path is not None:
            return str(self.path)
        target = folder / name
        target.write_bytes(self.data)
        return str(target)


@final
@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One context of a kubeconfig.

    Attributes:
        server: base URL without a trailing slash.
        ca: certificate authority of the server; ``None`` = those of the system.
        verify: whether the server's certificate is verified.
        header: value of ``Authorization``, when it is written down.
        token_file: file with a bearer token that somebody else rotates; goes before ``header``.
        plugin: whether credentials come from a plugin, which is none of our business.
    """

    server: str
    ca: Pem | None
    certificate: Pem | None
    key: Pem | None
    verify: bool
    tls_server_name: str | None
    proxy: str | None
    header: str | None
    token_file: Path | None
    plugin: bool


def read_kubeconfig(paths: str, context: str | None = None) -> Kubeconfig:
    """Read one kubeconfig, or several joined as in ``KUBECONFIG``: of entries with one name the first counts.

    Args:
        context: name of a context; default is the current one.

    Raises:
        ConfigError: a file cannot be read or understood, or something it refers to is missing.
    """
    files = [Path(part).expanduser() for part in paths.split(os.pathsep) if part]
    existing = [file for file in files if file.exists()]
    if not existing:
        raise ConfigError(f"kubeconfig {paths} does not exist; check KUBECONFIG")
    try:
        documents = [(file.parent, _document(file)) for file in existing]
        chosen = context or next(name for _, one in documents if (name := one.get("current-context")))
        _, used = _named(documents, "contexts", "context", chosen)
        cluster_folder, cluster = _named(documents, "clusters", "cluster", used["cluster"])
        user_folder, user = _named(documents, "users", "user", used["user"]) if used.get("user") else (Path(), {})
        return Kubeconfig(
            server=str(cluster["server"]).rstrip("/"),
            ca=_pem(cluster_folder, cluster, "certificate-authority"),
            certificate=_pem(user_folder, user, "client-certificate"),
            key=_pem(user_folder, user, "client-key"),
            verify=not cluster.get("insecure-skip-tls-verify"),
            tls_server_name=cluster.get("tls-server-name"),
            proxy=cluster.get("proxy-url"),
            header=_header(user),
            token_file=user_folder / user["tokenFile"] if user.get("tokenFile") else None,
            plugin=any(user.get(name) for name in _PLUGINS),
        )
    except StopIteration:
        raise ConfigError(f"kubeconfig {paths} names no current context; set one") from None
    except KeyError as error:
        raise ConfigError(f"kubeconfig {paths}: {error.args[0]} is missing; check its current context") from error
    except (OSError, AttributeError, TypeError, binascii.Error, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {paths}: {error}; it is not a valid kubeconfig") from error


def _document(file: Path) -> Mapping[str, Any]:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise TypeError(f"{file} is not a mapping")
    return document


def _named(
    documents: list[tuple[Path, Mapping[str, Any]]], many: str, one: str, name: str
) -> tuple[Path, Mapping[str, Any]]:
    for folder, document in documents:
        for entry in document.get(many) or ():
            if entry["name"] == name:
                return folder, entry.get(one) or {}
    raise KeyError(f"{one} {name!r}")


def _pem(folder: Path, entry: Mapping[str, Any], field: str) -> Pem | None:
    # As in kubectl, what stands in the file itself goes before a path.
    if inline := entry.get(f"{field}-data"):
        return Pem(data=base64.b64decode(inline))
    return Pem(folder / entry[field]) if entry.get(field) else None


def _header(user: Mapping[str, Any]) -> str | None:
    if token := user.get("token"):
        return f"Bearer {token}"
    if name := user.get("username"):
        pair = f"{name}:{user.get('password') or ''}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    return None


def default_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace of what a user names without one, as kubectl has it: that of the context, or ``default``.

    Raises:
        ConfigError: the kubeconfig that was named cannot be understood, or has no such context.
    """
    paths = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    files = [file for part in paths.split(os.pathsep) if part and (file := Path(part).expanduser()).exists()]
    try:
        documents = [(file.parent, _document(file)) for file in files]
        chosen = context or next((name for _, one in documents if (name := one.get("current-context"))), None)
        if chosen is None:
            return "default"
        return str(_named(documents, "contexts", "context", chosen)[1].get("namespace") or "default")
    except KeyError as error:
        raise ConfigError(f"kubeconfig {paths}: {error.args[0]} is missing; check its current context") from error
    except (OSError, AttributeError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {paths}: {error}; it is not a valid kubeconfig") from error
