"""The certificate of a server: from files, looked at again with each connection, or self-signed (FW-559)."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import structlog

from controller_runtime.manager.troubles import StartError

_log = structlog.get_logger(__name__)
_SELF: Final = "localhost"
_VALID: Final = timedelta(days=365)
_CLOCKS_DIFFER: Final = timedelta(hours=1)
_State = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where certificate and key are.

    Attributes:
        option: by which they were named.
    """

    certificate: Path
    key: Path
    option: str = "--metrics-cert-path"

    def state(self) -> _State:
        """Changes whenever one of them is written or put in the place of another, as the kubelet does."""
        found = (path.stat() for path in (self.certificate, self.key))
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def tls_from_files(files: CertificateFiles) -> ssl.SSLContext:
    """TLS with the certificate that the files hold when a connection begins.

    Files that cannot be used leave the certificate before them in force; that is logged once for each change.

    Raises:
        StartError: there is none yet that could be used.
    """
    try:
        state = files.state()
        current = _context(files)
    except (OSError, ValueError) as error:
        raise StartError(
            f"cannot use the certificate {files.certificate} with the key {files.key}: {error}; correct "
            f"{files.option}, or leave it empty for a self-signed certificate"
        ) from error
    outer = _empty()
    renewal = _Renewal(files, current, state)

    # Called at the beginning of each handshake, whether or not the client names a server.
    def choose(connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = renewal.now()

    outer.sni_callback = choose
    # A connection without a certificate of its own would be refused before the callback could choose.
    _load(outer, files)
    return outer


@dataclass(slots=True)
class _Renewal:
    files: CertificateFiles
    current: ssl.SSLContext
    state: _State
    _reported: str = field(default="")

    def now(self) -> ssl.SSLContext:
        try:
            state = self.files.state()
            if state != self.state:
                self.current, self.state, self._reported = _context(self.files), state, ""
                _log.info("the certificate was changed", certificate=str(self.files.certificate))
        except (OSError, ValueError) as error:
            if self._reported != str(error):
                self._reported = str(error)
                _log.error(
                    "cannot use the changed certificate, so the one before stays; correct the files",
                    certificate=str(self.files.certificate),
                    error=str(error),
                )
        return self.current


def self_signed_tls() -> ssl.SSLContext:
    """TLS with a certificate that only this process has."""
    # Imported here: it takes a tenth of a second, and most installations bring a certificate or have none.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _SELF)])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_SELF)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    encoded = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    # The ssl module reads files only. The folder is for this user alone, and gone in a moment.
    with TemporaryDirectory() as folder:
        files = CertificateFiles(Path(folder) / "tls.crt", Path(folder) / "tls.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(encoded)
        return _context(files)


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # No HTTP/2 (FW-347).
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context(files: CertificateFiles) -> ssl.SSLContext:
    context = _empty()
    _load(context, files)
    return context


def _load(context: ssl.SSLContext, files: CertificateFiles) -> None:
    def refuse() -> str:
        raise ValueError("the key is encrypted: no password can be given; store it without one")

    context.load_cert_chain(files.certificate, files.key, refuse)
