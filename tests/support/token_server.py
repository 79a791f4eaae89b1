"""A token server for registries: JSON web tokens signed with a key that is made at run time."""

import base64
import time
import uuid
from pathlib import Path
from typing import Final

import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from aim_local.registry.auth import basic_header
from controller_runtime import JsonObject, dumps

SERVICE: Final = "aim-test-registry"
ISSUER: Final = "aim-test-issuer"
_PUBLIC: Final = "public/"


class TokenServer:
    """Gives everybody tokens for `public/…`, and one account tokens for everything else.

    Args:
        lifetime: seconds that a token lives.
    """

    def __init__(self, user: str, password: str, *, lifetime: int = 300) -> None:
        self.scopes: list[str] = []
        """What was asked for, in order."""
        self._known = basic_header(user, password)
        self._lifetime = lifetime
        self._authority = trustme.CA()
        leaf = self._authority.issue_cert("token.example.com")
        key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        certificate = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
        self._chain = [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()]

    def write_authority(self, file: Path) -> None:
        """The certificate that a registry has to trust."""
        self._authority.cert_pem.write_to_path(str(file))

    def application(self) -> web.Application:
        """The server, which answers at `/token`."""
        application = web.Application()
        application.router.add_get("/token", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.Response:
        scope, header = request.query["scope"], request.headers.get("Authorization", "")
        self.scopes.append(scope)
        assert request.query["service"] == SERVICE
        if header and header != self._known:
            return web.json_response({"details": "incorrect username or password"}, status=401)
        is_public = scope.startswith(f"repository:{_PUBLIC}")
        token = self.signed(scope) if header or is_public else self.signed()
        return web.json_response({"token": token, "access_token": token, "expires_in": self._lifetime})

    def signed(self, *scopes: str) -> str:
        """A token with access to the scopes."""
        now = int(time.time())
        claims: JsonObject = {
            "iss": ISSUER,
            "sub": "",
            "aud": SERVICE,
            "nbf": now - 10,
            "iat": now,
            "exp": now + self._lifetime,
            "jti": uuid.uuid4().hex,
            "access": [_access(scope) for scope in scopes],
        }
        header: JsonObject = {"typ": "JWT", "alg": "ES256", "x5c": self._chain}
        signed = f"{_encoded(dumps(header))}.{_encoded(dumps(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _access(scope: str) -> JsonObject:
    type_, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return {"type": type_, "name": name, "actions": actions.split(",")}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
