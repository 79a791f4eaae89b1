"""How the well-known registries differ: challenges, tokens, pages, catalogs and refusals.

Each class plays one of them with the addresses, forms and habits that its clients meet; the content is given.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from aiohttp import web
from support.named_hosts import Site

from aim_local.registry.auth import basic_header
from controller_runtime import JsonObject

Content = Mapping[str, Sequence[str]]
"""Repositories with their tags."""
CATALOG = "registry:catalog:*"


class PlayedRegistry:
    """What they have in common: bearer tokens per scope, and lists in pages.

    Args:
        content: repositories with their tags.
        private: repositories that need username and password.
        user, password: the one account.
        page: most entries that the registry puts on a page, whatever it is asked for.
    """

    host = "registry.example.com"
    realm = "https://registry.example.com/token"
    service = "registry.example.com"

    def __init__(
        self, content: Content, private: Iterable[str] = (), *, user: str = "me", password: str = "pass", page: int = 2
    ) -> None:
        self.content = content
        self.private = frozenset(private)
        self.page = page
        self._known = basic_header(user, password)
        self._granted: dict[str, str] = {}

    def sites(self) -> dict[str, Site]:
        """What answers for which host."""
        return {self.host: self.registry, self.realm.split("/")[2]: self.registry}

    async def registry(self, request: web.Request) -> web.Response:
        """Answer of the registry or, at its realm, of the token service."""
        if request.path == "/" + self.realm.split("/", 3)[3]:
            return self.token(request)
        if request.path == "/v2/_catalog":
            return self.catalog(request)
        return self.tags(request, request.path.removeprefix("/v2/").removesuffix("/tags/list"))

    def token(self, request: web.Request) -> web.Response:
        """A token for the scope, unless the account is unknown or the scope is none of its business."""
        scope = request.query["scope"]
        assert request.query["service"] == self.service
        header = request.headers.get("Authorization", "")
        if header and header != self._known:
            return error(401, "UNAUTHORIZED", "incorrect username or password")
        if not self.may(scope, is_known=bool(header)):
            return self.no_token()
        return web.json_response(self.token_document(self.grant(scope)))

    def grant(self, scope: str) -> str:
        """A new token for a scope."""
        token = secrets.token_hex(8)
        self._granted[f"Bearer {token}"] = scope
        return token

    def no_token(self) -> web.Response:
        """What a token request for too much is answered with."""
        return error(403, "DENIED", "requested access to the resource is denied")

    def token_document(self, token: str) -> JsonObject:
        """The token service's answer."""
        return {"token": token}

    def may(self, scope: str, *, is_known: bool) -> bool:
        """Whether an account (or nobody) may have a token for a scope."""
        repository = scope.split(":")[1]
        return is_known or (repository in self.content and repository not in self.private)

    def holds(self, request: web.Request, scope: str) -> bool:
        """Whether a request carries a token for a scope."""
        return self._granted.get(request.headers.get("Authorization", "")) == scope

    def challenge(self, _request: web.Request, scope: str) -> str:
        """`WWW-Authenticate` of a refusal."""
        return f'Bearer realm="{self.realm}",service="{self.service}",scope="{scope}"'

    def refusal(self, request: web.Request, scope: str) -> web.Response:
        """401 with its challenge."""
        answer = error(401, "UNAUTHORIZED", "authentication required")
        answer.headers["WWW-Authenticate"] = self.challenge(request, scope)
        return answer

    def tags(self, request: web.Request, repository: str) -> web.Response:
        """A page of tags."""
        scope = f"repository:{repository}:pull"
        if not self.holds(request, scope):
            return self.refusal(request, scope)
        if repository not in self.content:
            return error(404, "NAME_UNKNOWN", "repository name not known to registry")
        return self.listed(request, "tags", self.content[repository], {"name": repository})

    def catalog(self, request: web.Request) -> web.Response:
        """A page of repositories; most registries refuse."""
        return self.refusal(request, CATALOG)

    def listed(
        self, request: web.Request, member: str, names: Sequence[str], document: Mapping[str, object]
    ) -> web.Response:
        """One page, with the link to the next."""
        start = self.start(request, names)
        end = start + min(self.page, int(request.query["n"]))
        answer = web.json_response({**document, member: names[start:end]})
        if end < len(names):
            answer.headers["Link"] = self.link(request, names[end - 1], end)
        return answer

    def start(self, request: web.Request, names: Sequence[str]) -> int:
        """Where the asked page begins."""
        last = request.query.get("last")
        return 0 if last is None else list(names).index(last) + 1

    def link(self, request: web.Request, last: str, _position: int) -> str:
        """`Link` to the next page, here as the distribution registry writes it."""
        return f'<{request.path}?{urlencode({"last": last, "n": request.query["n"]})}>; rel="next"'


class DockerHub(PlayedRegistry):
    """Three hosts; a token without access is given to everybody; listing is another API, without accounts."""

    host = "index.docker.io"
    realm = "https://auth.docker.io/token"
    service = "registry.docker.io"

    def sites(self) -> dict[str, Site]:
        return {**super().sites(), "hub.docker.com": self.hub}

    def no_token(self) -> web.Response:
        return web.json_response(self.token_document(self.grant("nothing")))

    def token_document(self, token: str) -> JsonObject:
        return {"token": token, "access_token": token, "expires_in": 300, "issued_at": "2026-01-01T00:00:00Z"}

    def challenge(self, request: web.Request, scope: str) -> str:
        insufficient = ',error="insufficient_scope"' if "Authorization" in request.headers else ""
        return super().challenge(request, scope) + insufficient

    async def hub(self, request: web.Request) -> web.Response:
        """The listing API: public repositories of a namespace."""
        namespace = request.path.split("/")[3]
        names = [one.partition("/")[2] for one in self.content if one.startswith(namespace + "/")]
        names = [one for one in names if f"{namespace}/{one}" not in self.private]
        if not names:
            return web.json_response({"message": "object not found", "errinfo": {}}, status=404)
        assert request.query["page_size"] == "100"
        page = int(request.query.get("page", "1"))
        more = str(request.url.update_query(page=page + 1)) if page * self.page < len(names) else None
        shown = names[(page - 1) * self.page : page * self.page]
        results = [{"name": one, "namespace": namespace, "is_private": False} for one in shown]
        return web.json_response({"count": len(names), "next": more, "previous": None, "results": results})


class Ghcr(PlayedRegistry):
    """No catalog; packages are listed by GitHub, per organisation or user, for tokens only."""

    host = "ghcr.io"
    realm = "https://ghcr.io/token"
    service = "ghcr.io"
    users: Sequence[str] = ()
    """Owners that are no organisations."""

    def sites(self) -> dict[str, Site]:
        return {**super().sites(), "api.github.com": self.github}

    async def github(self, request: web.Request) -> web.Response:
        """The packages of an owner."""
        _, kind, owner, _ = request.path.split("/")
        if request.headers.get("Authorization") != "Bearer pass":
            return web.json_response({"message": "Requires authentication"}, status=401)
        if (kind == "users") != (owner in self.users):
            return web.json_response({"message": "Not Found"}, status=404)
        packages = [{"name": one.partition("/")[2]} for one in self.content if one.startswith(owner + "/")]
        tag = f'W/"{len(packages)}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.json_response(packages, headers={"ETag": tag})


class Gcr(PlayedRegistry):
    """Tags come with manifests and children, links are absolute, accounts are `_json_key`."""

    host = "gcr.io"
    realm = "https://gcr.io/v2/token"
    service = "gcr.io"

    def token_document(self, token: str) -> JsonObject:
        return {"expires_in": 43200, "issued_at": "2026-01-01T00:00:00Z", "token": token}

    def listed(
        self, request: web.Request, member: str, names: Sequence[str], document: Mapping[str, object]
    ) -> web.Response:
        extra = {"child": [], "manifest": {"sha256:" + "0" * 64: {"tag": [*names], "imageSizeBytes": "1"}}}
        return super().listed(request, member, names, {**extra, **document})

    def link(self, request: web.Request, last: str, position: int) -> str:
        return super().link(request, last, position).replace("</", f"<https://{self.host}/")


class Quay(PlayedRegistry):
    """Pages go by an opaque word; a robot sees its organisation in the catalog, nobody else sees anything."""

    host = "quay.io"
    realm = "https://quay.io/v2/auth"
    service = "quay.io"

    def start(self, request: web.Request, _names: Sequence[str]) -> int:
        word = request.query.get("next_page", "gAAAAA0==")
        return int(word.removeprefix("gAAAAA").removesuffix("=="))

    def link(self, request: web.Request, _last: str, position: int) -> str:
        query = urlencode({"n": request.query["n"], "next_page": f"gAAAAA{position}=="})
        return f'<{request.path}?{query}>; rel="next"'

    def catalog(self, request: web.Request) -> web.Response:
        if not self.holds(request, CATALOG):
            return self.refusal(request, CATALOG)
        return self.listed(request, "repositories", [*self.content], {})


class Harbor(PlayedRegistry):
    """A token service of its own; the catalog is for administrators, who must say so with Basic."""

    host = "harbor.example.com"
    realm = "https://harbor.example.com/service/token"
    service = "harbor-registry"

    def token_document(self, token: str) -> JsonObject:
        return {"token": token, "access_token": "", "expires_in": 1800, "issued_at": "2026-01-01T00:00:00Z"}

    def may(self, scope: str, *, is_known: bool) -> bool:
        return scope == CATALOG or super().may(scope, is_known=is_known)

    def challenge(self, request: web.Request, scope: str) -> str:
        return 'Basic realm="harbor"' if "Authorization" in request.headers else super().challenge(request, scope)

    def holds(self, request: web.Request, scope: str) -> bool:
        return request.headers.get("Authorization") == self._known or super().holds(request, scope)

    def catalog(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != self._known:
            return self.refusal(request, CATALOG)
        return self.listed(request, "repositories", [*self.content], {})


def error(status: int, code: str, message: str) -> web.Response:
    """An error as the distribution specification words it."""
    return web.json_response({"errors": [{"code": code, "message": message}]}, status=status)
