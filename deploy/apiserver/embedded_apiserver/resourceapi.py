"""The REST handlers of resource paths: one method per verb and subresource, found in a table."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import orjson
from starlette.responses import Response, StreamingResponse

from controller_runtime import JsonObject
from embedded_apiserver import status
from embedded_apiserver.deletion import DeleteOptions, Deleter
from embedded_apiserver.http import Request
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.patching import APPLY_PATCH, decode, media_type, patched
from embedded_apiserver.presentation import Presenter, presenter_for
from embedded_apiserver.reading import Reader
from embedded_apiserver.requestinfo import Target, is_dry_run, list_options, write_context
from embedded_apiserver.resources import Propagation, Registry, ResourceType
from embedded_apiserver.serving import JSON, json_response
from embedded_apiserver.store import Version
from embedded_apiserver.subresources import PodLogs, bound_pod, review, scale_of, with_replicas
from embedded_apiserver.writing import WriteContext, Writer

_Handler: TypeAlias = Callable[[ResourceType, Target, Request], Awaitable[Response]]

_RETURNS_DELETED: Final = frozenset(
    {"pods", "services", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes", "resourcequotas"}
)


class ResourceApi:
    """Answers requests for resources."""

    def __init__(
        self,
        *,
        registry: Registry,
        reader: Reader,
        writer: Writer,
        deleter: Deleter,
        logs: PodLogs,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._reader = reader
        self._writer = writer
        self._deleter = deleter
        self._logs = logs
        self._clock = clock
        self._handlers: dict[tuple[str, str], _Handler] = {
            ("get", ""): self._get,
            ("list", ""): self._list,
            ("watch", ""): self._watch,
            ("create", ""): self._create,
            ("update", ""): self._update,
            ("patch", ""): self._patch,
            ("delete", ""): self._delete,
            ("deletecollection", ""): self._delete_collection,
            ("get", "status"): self._get,
            ("update", "status"): self._update,
            ("patch", "status"): self._patch,
            ("get", "scale"): self._get_scale,
            ("update", "scale"): self._update_scale,
            ("patch", "scale"): self._patch_scale,
            ("get", "log"): self._get_log,
            ("create", "binding"): self._bind,
            ("update", "finalize"): self._finalize,
        }

    async def handle(self, verb: str, target: Target, request: Request) -> Response:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        resource = self._registry.find(target.group, target.version, target.plural)
        if resource is None or not _placed(resource, target):
            raise status.PathNotFoundError
        if not _serves(resource, target):
            raise status.not_found(resource, target.name) if resource.custom else status.no_such_subresource()
        handler = self._handlers.get((verb, target.subresource))
        if handler is None or (resource.virtual and verb != "create"):
            raise status.method_not_allowed()
        return await handler(resource, target, request)

    def _presenter(self, resource: ResourceType, request: Request) -> Presenter:
        include = request.query.get("includeObject", "Metadata")
        return presenter_for(resource, request.headers.get("accept", ""), include, self._clock)

    def _answer(
        self,
        resource: ResourceType,
        request: Request,
        version: Version,
        code: int = 200,
        context: WriteContext | None = None,
    ) -> Response:
        response = _response(self._presenter(resource, request).one(version), code)
        for text in context.warnings if context is not None else ():
            response.headers.append("warning", f"299 - {orjson.dumps(text).decode()}")
        return response

    async def _get(self, resource: ResourceType, target: Target, request: Request) -> Response:
        self._reader.require(request.query.get("resourceVersion", ""), request.as_of)
        return self._answer(resource, request, self._reader.get(resource, target.key, request.as_of))

    async def _list(self, resource: ResourceType, target: Target, request: Request) -> Response:
        options = list_options(request, resource, target)
        return _response(self._reader.list(resource, options, self._presenter(resource, request)))

    async def _watch(self, resource: ResourceType, target: Target, request: Request) -> Response:
        options = list_options(request, resource, target)
        stream: AsyncIterator[bytes] = self._reader.watch(resource, options, self._presenter(resource, request))
        return StreamingResponse(stream, media_type=JSON)

    async def _create(self, resource: ResourceType, target: Target, request: Request) -> Response:
        obj = await self._object(request)
        if target.name:
            raise status.method_not_allowed()
        if resource.virtual:
            return json_response(review(resource, obj, self._all), 201)
        namespace = target.namespace
        if resource.namespaced and not namespace:
            raise status.method_not_allowed()
        context = write_context(request, "CreateOptions")
        version = self._writer.create(resource, (namespace, ""), obj, context)
        return self._answer(resource, request, version, 201, context)

    def _all(self, group: str, plural: str) -> Iterable[JsonObject]:
        """The objects of a built-in kind."""
        resource = self._registry.find(group, "v1", plural)
        return () if resource is None else self._reader.objects(resource)

    async def _update(self, resource: ResourceType, target: Target, request: Request) -> Response:
        obj = await self._object(request)
        self._writer.require_revision(resource, target.key, obj)
        context = write_context(request, "UpdateOptions")
        version = self._writer.update(resource, target.key, obj, context, target.subresource)
        return self._answer(resource, request, version, 200, context)

    async def _patch(self, resource: ResourceType, target: Target, request: Request) -> Response:
        body, content_type = await request.body(), request.headers.get("content-type", "")
        context = write_context(request, "PatchOptions")
        if media_type(content_type) == APPLY_PATCH:
            return self._apply(resource, target, request, decode(body, content_type), context)
        live = self._writer.live(resource, target.key)
        changed = patched(resource, _presented(resource, live), body, content_type)
        uid = changed["metadata"].get("uid")
        if uid and uid != live.uid:
            error = FieldError("metadata.uid", FieldErrorKind.INVALID, "field is immutable", uid)
            # Checked twice on its way through the real server, and said twice.
            raise status.invalid(resource, target.name, [error, error])
        version = self._writer.update(resource, target.key, changed, context, target.subresource)
        return self._answer(resource, request, version, 200, context)

    def _apply(
        self, resource: ResourceType, target: Target, request: Request, config: JsonObject, context: WriteContext
    ) -> Response:
        if not request.query.get("fieldManager"):
            error = FieldError("fieldManager", FieldErrorKind.REQUIRED, "is required for apply patch")
            raise status.invalid_options("PatchOptions", error)
        version, created = self._writer.apply(resource, target.key, config, context, target.subresource)
        return self._answer(resource, request, version, 201 if created else 200, context)

    async def _delete(self, resource: ResourceType, target: Target, request: Request) -> Response:
        options = await self._delete_options(request)
        version, gone = self._deleter.delete(resource, target.key, options)
        if not gone or resource.qualified in _RETURNS_DELETED:
            return self._answer(resource, request, version)
        details: JsonObject = {"name": target.name, "kind": resource.plural, "uid": version.uid}
        if resource.group:
            details["group"] = resource.group
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json_response(success)

    async def _delete_collection(self, resource: ResourceType, target: Target, request: Request) -> Response:
        options = await self._delete_options(request)
        selection = list_options(request, resource, target)
        presenter = self._presenter(resource, request)
        listed = self._reader.list(resource, selection, presenter)
        for version in self._reader.select(resource, selection):
            self._deleter.delete(resource, version.key, options)
        return _response(listed)

    async def _delete_options(self, request: Request) -> DeleteOptions:
        body = await request.body()
        given = decode(body, request.headers.get("content-type", "")) if body.strip() else {}
        preconditions = given.get("preconditions") or {}
        policy = given.get("propagationPolicy") or request.query.get("propagationPolicy")
        if given.get("orphanDependents") is not None and not policy:
            policy = Propagation.ORPHAN if given["orphanDependents"] else Propagation.BACKGROUND
        if policy and policy not in set(Propagation):
            detail = 'supported values: "Foreground", "Background", "Orphan", "nil"'
            error = FieldError("propagationPolicy", FieldErrorKind.NOT_SUPPORTED, detail, policy)
            raise status.invalid_options("DeleteOptions", error)
        grace = given.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
        return DeleteOptions(
            propagation=Propagation(policy) if policy else None,
            grace_seconds=None if grace is None else int(grace),
            uid=preconditions.get("uid") or "",
            revision=preconditions.get("resourceVersion") or "",
            dry_run=is_dry_run("DeleteOptions", given.get("dryRun") or request.query.get("dryRun", "").split()),
        )

    async def _get_scale(self, resource: ResourceType, target: Target, _request: Request) -> Response:
        return json_response(scale_of(resource, self._reader.get(resource, target.key)))

    async def _update_scale(self, resource: ResourceType, target: Target, request: Request) -> Response:
        return self._set_scale(resource, target, request, await self._object(request))

    async def _patch_scale(self, resource: ResourceType, target: Target, request: Request) -> Response:
        body, content_type = await request.body(), request.headers.get("content-type", "")
        live = self._writer.live(resource, target.key)
        if media_type(content_type) == APPLY_PATCH:
            return self._set_scale(resource, target, request, decode(body, content_type))
        scale = scale_of(resource, live)
        return self._set_scale(resource, target, request, patched(resource, scale, body, content_type))

    def _set_scale(self, resource: ResourceType, target: Target, request: Request, scale: JsonObject) -> Response:
        changed = with_replicas(resource, _presented(resource, self._writer.live(resource, target.key)), scale)
        version = self._writer.update(resource, target.key, changed, write_context(request, "UpdateOptions"), "scale")
        return json_response(scale_of(resource, version))

    async def _get_log(self, resource: ResourceType, target: Target, request: Request) -> Response:
        pod = self._reader.get(resource, target.key)
        return await self._logs.fetch(resource, pod.obj, request.query)

    async def _bind(self, resource: ResourceType, target: Target, request: Request) -> Response:
        live = self._writer.live(resource, target.key)
        bound = bound_pod(resource, live, await self._object(request), self._clock())
        self._writer.bind(resource, live, bound, write_context(request, "CreateOptions"))
        return json_response(
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
        )

    async def _finalize(self, resource: ResourceType, target: Target, request: Request) -> Response:
        """Namespaces are finalized by the collector alone; the subresource answers with the present object."""
        await request.body()
        return self._answer(resource, request, self._reader.get(resource, target.key))

    async def _object(self, request: Request) -> JsonObject:
        return decode(await request.body(), request.headers.get("content-type", ""))


def _response(body: bytes, code: int = 200) -> Response:
    return Response(body, code, media_type=JSON)


def _placed(resource: ResourceType, target: Target) -> bool:
    """Whether a namespace is named where the type has one, and only there."""
    if target.namespace:
        return resource.namespaced
    return not (target.name and resource.namespaced)


def _serves(resource: ResourceType, target: Target) -> bool:
    subresource = target.subresource
    if not subresource or (subresource == "status" and resource.has_status):
        return True
    return (subresource == "scale" and resource.scale is not None) or subresource in resource.extra_subresources


def _presented(resource: ResourceType, version: Version) -> JsonObject:
    """A copy of an object, in the API version of the request."""
    obj = version.copy()
    return obj if resource.from_storage is None else resource.from_storage(obj)
