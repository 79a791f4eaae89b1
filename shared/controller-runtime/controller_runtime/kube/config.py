"""Where the API server is and how to prove who we are, from a kubeconfig or from the pod."""

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import yaml

from controller_runtime.kube.errors import KubeError

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration


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
        token_file: file with a bearer token that the platform or a tool rotates; goes before ``header``.
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
        _, used = _entry_named(documents, "contexts", "context", chosen)
        cluster_folder, cluster = _entry_named(documents, "clusters", "cluster", used["cluster"])
        user_folder, user = _entry_named(documents, "users", "user", used["user"]) if used.get("user") else (Path(), {})
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


def _entry_named(
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
        return str(_entry_named(documents, "contexts", "context", chosen)[1].get("namespace") or "default")
    except KeyError as error:
        raise ConfigError(f"kubeconfig {paths}: {error.args[0]} is missing; check its current context") from error
    except (OSError, AttributeError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"kubeconfig {paths}: {error}; it is not a valid kubeconfig") from error


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFETIME: Final = 60.0
"""Seconds after which a pod's token file is read again; the kubelet rotates it long before it expires."""
PLUGIN_SECONDS: Final = 30.0
"""How long a plugin may take to bring a credential."""


class Credentials(Protocol):
    """Source of the ``Authorization`` header."""

    async def authorization(self) -> str | None:
        """The current header value; ``None`` when the connection itself authenticates (certificate)."""

    async def refresh(self) -> None:
        """Obtain the credential again, because the server rejected it with 401."""


@final
@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to open connections to one API server.

    Attributes:
        server: base URL without a trailing slash.
        credentials: source of the authorization header.
        tls: TLS context for https servers.
        read_tls: reads its files again, because the server's certificate was not believed (FW-660).
        tls_server_name: name to verify instead of the URL's host.
        proxy: URL of an explicit proxy; the environment's proxy variables are honoured besides.
        certified: whether the TLS context has a client certificate, which the API server looks at first.
    """

    server: str
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    read_tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None
    tls_server_name: str | None = None
    proxy: str | None = None
    certified: bool = False

    def as_bearer(self, token: str) -> "Connection":
        """To the same API server, as the bearer of a token and of nothing else (FW-872).

        Raises:
            ConfigError: the API server would take the client certificate of this connection for the bearer's.
        """
        if self.certified:
            raise ConfigError("this connection authenticates by certificate; use a kubeconfig with a token")
        return replace(self, credentials=BearerToken(token))


@final
class NoCredentials:
    """Anonymous access, for local servers."""

    async def authorization(self) -> str | None:
        """No header."""
        return None

    async def refresh(self) -> None:
        """Nothing to renew."""


@final
@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that a request carried."""

    token: str

    async def authorization(self) -> str | None:
        """The header."""
        return f"Bearer {self.token}"

    async def refresh(self) -> None:
        """There is no other."""


@final
class TokenFile:
    """A bearer token in a file that is rotated from outside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: str | None = None
        self._read_at = 0.0

    async def authorization(self) -> str | None:
        """The token as of at most a minute ago."""
        if self._header is None or time.monotonic() - self._read_at > TOKEN_LIFETIME:
            await self.refresh()
        return self._header

    async def refresh(self) -> None:
        """Read the file.

        Raises:
            ConfigError: it is unreadable or empty.
        """
        try:
            token = (await asyncio.to_thread(self._path.read_text)).strip()
        except OSError as error:
            raise ConfigError(f"token {self._path}: {error}; check that the token is mounted") from error
        if not token:
            raise ConfigError(f"token {self._path} is empty; check that the token is mounted")
        self._header, self._read_at = f"Bearer {token}", time.monotonic()


@final
class KubeconfigCredentials:
    """What a kubeconfig brings: a token, name and password, or whatever its plugin (exec, OIDC) obtains."""

    def __init__(self, header: str | None, read: Callable[[], Awaitable[str | None]]) -> None:
        self._header = header
        self._read = read

    async def authorization(self) -> str | None:
        """The header as read last."""
        return self._header

    async def refresh(self) -> None:
        """Read the kubeconfig again, which runs its exec plugin or renews its OIDC token."""
        self._header = await self._read()


async def load_connection(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Find the API server.

    In this order: the given kubeconfig, ``KUBECONFIG``, the pod's service account, ``~/.kube/config``.

    Raises:
        ConfigError: none of them exists, or the one found is unusable.
    """
    explicit = kubeconfig or os.environ.get("KUBECONFIG")
    if explicit:
        return await from_kubeconfig(explicit, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return await in_cluster()
    default = Path.home() / ".kube" / "config"
    if default.exists():
        return await from_kubeconfig(str(default), context)
    raise ConfigError("no API server: set KUBECONFIG, create ~/.kube/config, or run in a pod")


async def in_cluster(service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The API server of the cluster this pod runs in.

    Raises:
        ConfigError: the environment or the mounted service account is incomplete.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set; check that the process runs in a pod"
        )
    credentials = TokenFile(service_account / "token")
    await credentials.refresh()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def read_tls() -> ssl.SSLContext:
        return await asyncio.to_thread(_tls_context, str(service_account / "ca.crt"))

    return Connection(f"https://{authority}", credentials, await read_tls(), read_tls)


async def from_kubeconfig(path: str, context: str | None = None) -> Connection:
    """The API server of a kubeconfig (or of several, joined as in ``KUBECONFIG``).

    Raises:
        ConfigError: the file, its context or its credentials are unusable.
    """
    written = await asyncio.to_thread(read_kubeconfig, path, context)
    if written.plugin:
        return await _from_plugin(path, context)
    tls = await asyncio.to_thread(_tls_of, written) if written.server.startswith("https") else None

    async def read() -> str | None:
        return (await asyncio.to_thread(read_kubeconfig, path, context)).header

    async def read_tls() -> ssl.SSLContext:
        return await asyncio.to_thread(lambda: _tls_of(read_kubeconfig(path, context)))

    credentials: Credentials
    if written.token_file is None:
        credentials = KubeconfigCredentials(written.header, read)
    else:
        credentials = TokenFile(written.token_file)
        await credentials.refresh()
    certified = written.certificate is not None
    return Connection(
        written.server, credentials, tls, read_tls, written.tls_server_name, written.proxy, certified=certified
    )


async def _from_plugin(path: str, context: str | None) -> Connection:
    loaded = await _load_kubeconfig(path, context)
    server = (loaded.host or "").rstrip("/")
    tls = None
    if server.startswith("https"):
        tls = await asyncio.to_thread(
            _tls_context, loaded.ssl_ca_cert, loaded.cert_file, loaded.key_file, verify=loaded.verify_ssl
        )

    async def read() -> str | None:
        return _authorization_of(await _load_kubeconfig(path, context))

    credentials = KubeconfigCredentials(_authorization_of(loaded), read)
    certified = bool(loaded.cert_file)
    return Connection(
        server, credentials, tls, tls_server_name=loaded.tls_server_name, proxy=loaded.proxy, certified=certified
    )


async def _load_kubeconfig(path: str, context: str | None) -> "Configuration":
    # Imported here for its weight; see the module's docstring.
    from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config.kube_config import load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            await load_kube_config(path, context, configuration, persist_config=False)
    except TimeoutError as error:
        raise ConfigError(
            f"kubeconfig {path}: its plugin returned no credentials within {PLUGIN_SECONDS:g} s"
        ) from error
    except Exception as error:
        # A malformed file makes the library fail with whatever it fails on: KeyError, TypeError, YAMLError.
        raise ConfigError(f"kubeconfig {path}: {error}; check its current context") from error
    return configuration


def _authorization_of(configuration: "Configuration") -> str | None:
    header = configuration.api_key.get("BearerToken")
    return str(header) if header else None


def _tls_of(written: Kubeconfig) -> ssl.SSLContext:
    # OpenSSL reads a certificate with its key from files only.
    with tempfile.TemporaryDirectory(prefix="credentials-") as name:
        folder = Path(name)
        ca = written.ca and written.ca.file(folder, "ca.crt")
        certificate = written.certificate and written.certificate.file(folder, "tls.crt")
        key = written.key and written.key.file(folder, "tls.key")
        return _tls_context(ca, certificate, key, verify=written.verify)


def _tls_context(
    ca: str | None, certificate: str | None = None, key: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, keyfile=key)
    except OSError as error:
        raise ConfigError(f"TLS files of the API server ({ca}, {certificate}): {error}; check them") from error
    # Cluster CAs made by older tools lack the key identifiers that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
