"""Create, update, patch and apply: the way of an object from a request body into the store."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from controller_runtime import JsonObject, dumps
from embedded_apiserver import customtypes, lifecycle, status
from embedded_apiserver.lifecycle import check_builtin, check_builtin_update, check_metadata, metadata_warnings
from embedded_apiserver.objects import fieldmanager
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind, rules_unchecked
from embedded_apiserver.objects.patch import PatchError
from embedded_apiserver.resources import Key, Registry, ResourceType
from embedded_apiserver.store import Store, Version, with_revision
from embedded_apiserver.subresources import scale_errors
from embedded_apiserver.values import timestamp

MAX_WARNINGS: Final = 50
_QUOTED: Final = 30


class FieldValidation(StrEnum):
    """What happens to unknown fields."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@dataclass(slots=True)
class WriteContext:
    """The options of one write request; `warnings` collects the warnings of the answer."""

    manager: str
    validation: FieldValidation = FieldValidation.WARN
    dry_run: bool = False
    force: bool = False
    warnings: list[str] = field(default_factory=list)


class Writer:
    """Makes and changes objects."""

    def __init__(self, store: Store, registry: Registry, clock: Callable[[], float]) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    def create(self, resource: ResourceType, key: Key, obj: JsonObject, context: WriteContext) -> Version:
        """Store a new object; a "" name in `key` leaves the name to the body or to generateName.

        Raises:
            ApiError: the object is refused.
        """
        resource, obj = self._stored_form(resource, obj)
        if obj["metadata"].get("resourceVersion"):
            raise status.internal("resourceVersion should not be set on objects to be created")
        self._place(resource, key, obj)
        self._shape(resource, obj, context)
        return self._insert(resource, obj, context, applied=False)

    def update(
        self, resource: ResourceType, key: Key, obj: JsonObject, context: WriteContext, subresource: str = ""
    ) -> Version:
        """Replace an object, or its status.

        Raises:
            ApiError: the object does not exist, was changed meanwhile, or is refused.
        """
        live = self.live(resource, key)
        resource, obj = self._stored_form(resource, obj)
        self._place(resource, key, obj)
        self._check_preconditions(resource, live, obj)
        self._shape(resource, obj, context)
        return self._replace(resource, live, obj, context, subresource, applied=False)

    def apply(
        self, resource: ResourceType, key: Key, config: JsonObject, context: WriteContext, subresource: str = ""
    ) -> tuple[Version, bool]:
        """Server-side apply; the flag tells whether the object was made.

        Raises:
            ApiError: a conflict with another manager, or the merged object is refused.
        """
        resource, config = self._stored_form(resource, config)
        named = f"{config['metadata'].get('namespace', '')}/{config['metadata'].get('name', '')}"
        self._place(resource, key, config)
        live = self._store.get(resource.storage, key)
        if live is None and subresource:
            raise status.not_found(resource, key[1])
        if live is not None:
            self._check_preconditions(resource, live, config)
        elif config["metadata"].get("uid"):
            why = (
                f"uid mismatch: the provided object specified uid {config['metadata']['uid']}, "
                "and no existing object was found"
            )
            raise status.conflict(resource, key[1], why)
        try:
            merged = self._merge(resource, live, config, context, subresource)
        except fieldmanager.TypedPatchError as error:
            raise status.internal(error.status_message(named, resource.api_version, resource.kind)) from error
        if live is None:
            return self._insert(resource, merged, context, applied=True), True
        return self._replace(resource, live, merged, context, subresource, applied=True), False

    def bind(self, resource: ResourceType, live: Version, pod: JsonObject, context: WriteContext) -> Version:
        """Store a pod that got its node; spec and status change together here and nowhere else."""
        return self._commit(live, self._track(resource, live, pod, context, "binding"), context, resource.storage)

    def live(self, resource: ResourceType, key: Key) -> Version:
        """The present version of an object, or a 404."""
        version = self._store.get(resource.storage, key)
        if version is None:
            raise status.not_found(resource, key[1])
        return version

    def _merge(
        self, resource: ResourceType, live: Version | None, config: JsonObject, context: WriteContext, subresource: str
    ) -> JsonObject:
        schema = resource.schema
        assert schema is not None
        try:
            merged = fieldmanager.apply(
                live.obj if live else None,
                config,
                manager=context.manager,
                force=context.force,
                api_version=resource.api_version,
                subresource=subresource,
                schema=schema,
                now=timestamp(self._clock()),
                reset_paths=("status",) if resource.has_status and not subresource else (),
            )
        except fieldmanager.ApplyConflict as error:
            raise status.ApiError(409, status.Reason.CONFLICT, str(error), {"causes": error.causes()}) from error
        except PatchError as error:
            raise status.ApiError(error.code, status.Reason(error.reason), error.message) from error
        schema.default(merged)
        return merged

    def _insert(self, resource: ResourceType, obj: JsonObject, context: WriteContext, *, applied: bool) -> Version:
        if resource.namespaced:
            self._check_namespace(resource, obj)
        lifecycle.drop_empty(obj["metadata"])
        managed = obj["metadata"].get("managedFields")
        lifecycle.begin(resource, obj, self._clock())
        if not resource.custom and resource.schema is not None:
            # The status of built-in kinds has defaults, too.
            resource.schema.default(obj)
        errors = check_metadata(resource, obj)
        context.warnings.extend(metadata_warnings(resource, obj))
        errors += check_builtin(resource, obj)
        if resource.storage == customtypes.STORAGE:
            errors += self._complete_definition(obj, None)
        self._validate(resource, obj, None, errors)
        key = _key(resource, obj)
        if self._store.get(resource.storage, key) is not None:
            raise status.already_exists(resource, key[1])
        if applied:
            obj["metadata"]["managedFields"] = managed
        else:
            obj = self._track(resource, None, obj, context, "")
        if resource.custom and resource.schema is not None:
            # What is stored is read with the defaults of the status as well, which a create may not set.
            resource.schema.default(obj)
        if context.dry_run:
            return Version(key, obj, 0)
        return self._store.put(resource.storage, key, obj)

    def _replace(
        self,
        resource: ResourceType,
        live: Version,
        new: JsonObject,
        context: WriteContext,
        subresource: str,
        *,
        applied: bool,
    ) -> Version:
        lifecycle.drop_empty(new["metadata"])
        managed = new["metadata"].get("managedFields")
        if subresource == "status":
            new = lifecycle.with_status_only(resource, live.obj, new)
        else:
            lifecycle.carry_over(resource, live.obj, new)
        errors = lifecycle.check_update(resource, live.obj, new)
        if not subresource:
            errors += check_metadata(resource, new) + check_builtin(resource, new)
            errors += check_builtin_update(resource, live.obj, new)
            if resource.storage == customtypes.STORAGE:
                errors += self._complete_definition(new, live.obj)
        self._validate(resource, new, live.obj, errors)
        if applied:
            new["metadata"]["managedFields"] = managed
        else:
            new = self._track(resource, live, new, context, subresource)
        return self._commit(live, new, context, resource.storage)

    def _commit(self, live: Version, new: JsonObject, context: WriteContext, storage: str) -> Version:
        new["metadata"]["resourceVersion"] = live.obj["metadata"]["resourceVersion"]
        if new == live.obj:
            return live
        if context.dry_run:
            return Version(live.key, new, live.revision)
        if is_released(new):
            gone = self._store.remove(storage, live.key)
            return Version(live.key, with_revision(new, gone.revision), gone.revision)
        return self._store.put(storage, live.key, new)

    def _track(
        self, resource: ResourceType, live: Version | None, new: JsonObject, context: WriteContext, subresource: str
    ) -> JsonObject:
        schema = resource.schema
        assert schema is not None
        return fieldmanager.update(
            live.obj if live else None,
            new,
            manager=context.manager,
            api_version=resource.api_version,
            subresource=subresource,
            schema=schema,
            now=timestamp(self._clock()),
        )

    def _shape(self, resource: ResourceType, obj: JsonObject, context: WriteContext) -> None:
        schema = resource.schema
        assert schema is not None
        unknown = schema.prune(obj)
        if unknown and context.validation is FieldValidation.STRICT:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise status.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
        if context.validation is FieldValidation.WARN:
            context.warnings.extend(f'unknown field "{path}"' for path in unknown[:MAX_WARNINGS])
        schema.default(obj)

    def _validate(
        self, resource: ResourceType, new: JsonObject, old: JsonObject | None, errors: list[FieldError]
    ) -> None:
        if resource.schema is not None:
            errors += resource.schema.validate(new, old)
        if resource.rules is not None:
            skipped = rules_unchecked(errors)
            errors += [skipped] if skipped else resource.rules.validate(new, old)
        errors += scale_errors(resource, new)
        if errors:
            raise status.invalid(resource, new["metadata"].get("name", ""), errors)

    def _complete_definition(self, crd: JsonObject, old: JsonObject | None) -> list[FieldError]:
        errors = customtypes.check(crd)
        if not errors:
            customtypes.complete(crd)
            if old is not None:
                crd["status"] = old["status"]
            else:
                crd["metadata"]["finalizers"] = [customtypes.CLEANUP_FINALIZER]
            customtypes.establish(crd, self._clock())
        return errors

    def _stored_form(self, resource: ResourceType, given: JsonObject) -> tuple[ResourceType, JsonObject]:
        """The object in the form that is stored, and the type of that form."""
        obj = self._typed(resource, given)
        if resource.to_storage is None:
            return resource, obj
        stored = self._registry.storage_type(resource.storage)
        assert stored is not None
        return stored, resource.to_storage(obj)

    def _typed(self, resource: ResourceType, given: JsonObject) -> JsonObject:
        """The object with its type, first of all fields; refused if it is of another one."""
        if resource.custom:
            _require_kind(resource, given)
        identity = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
        obj = identity | given
        version, kind = obj["apiVersion"], obj["kind"]
        if version != resource.api_version:
            raise status.bad_request(
                f"the API version in the data ({version}) does not match "
                f"the expected API version ({resource.api_version})"
            )
        if kind != resource.kind:
            raise status.bad_request(
                f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"the kind in the data ({kind}) does not match the expected kind ({resource.kind})"
            )
        if not isinstance(obj["metadata"], dict):
            raise status.bad_request(f"metadata of the {resource.kind} is not an object: give it at least a name")
        return obj

    def _place(self, resource: ResourceType, key: Key, obj: JsonObject) -> None:
        metadata, (namespace, name) = obj["metadata"], key
        if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not resource.namespaced:
            metadata.pop("namespace", None)
        if not name:
            if not metadata.get("name") and metadata.get("generateName"):
                metadata["name"] = lifecycle.generated_name(metadata["generateName"])
        elif metadata.setdefault("name", name) != name:
            raise status.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )

    def _check_preconditions(self, resource: ResourceType, live: Version, obj: JsonObject) -> None:
        metadata, name = obj["metadata"], live.key[1]
        revision, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if uid and uid != live.uid:
            raise status.conflict(resource, name, _another_uid(resource, live, str(uid)))
        if revision and revision != str(live.revision):
            raise status.conflict(resource, name)

    def require_revision(self, resource: ResourceType, key: Key, obj: JsonObject) -> None:
        """Refuse a PUT without resourceVersion where the type demands one."""
        metadata = obj.get("metadata") or {}
        if resource.unconditional_update or metadata.get("resourceVersion"):
            return
        self._place(resource, key, obj)
        self.live(resource, key)
        error = FieldError("metadata.resourceVersion", FieldErrorKind.INVALID, "must be specified for an update", 0)
        raise status.invalid(resource, key[1], [error], named=resource.plural)

    def _check_namespace(self, resource: ResourceType, obj: JsonObject) -> None:
        namespace = obj["metadata"]["namespace"]
        found = self._store.get("namespaces", ("", namespace))
        if found is None:
            registered = self._registry.find("", "v1", "namespaces")
            assert registered is not None
            raise status.not_found(registered, namespace)
        if found.obj["metadata"].get("deletionTimestamp"):
            raise status.namespace_terminating(resource, obj["metadata"].get("name", ""), namespace)


def _another_uid(resource: ResourceType, live: Version, uid: str) -> str:
    """The words of the real server, which names the place in etcd."""
    place = [resource.group, resource.plural, *live.key] if resource.custom else [resource.plural, *live.key]
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{'/'.join(filter(None, place))}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {live.uid}"
    )


def is_released(obj: JsonObject) -> bool:
    """True for an object that is being deleted and that nothing holds any more."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds") and not (obj.get("spec") or {}).get("finalizers")


def _require_kind(resource: ResourceType, given: JsonObject) -> None:
    """Custom objects have to say what they are; built-in ones may leave it to the path."""
    if not given.get("kind"):
        text = dumps(given).decode()
        # The real decoder quotes the whole, then its beginning.
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object 'Kind' is missing in '{text}' ({text[:_QUOTED]}{' ...' if len(text) > _QUOTED else ''})"
        )
    if not given.get("apiVersion"):
        raise status.bad_request(
            f"the API version in the data () does not match the expected API version ({resource.api_version})"
        )
    if given["kind"] != resource.kind and given["apiVersion"] == resource.api_version:
        error = FieldError("kind", FieldErrorKind.INVALID, f"must be {resource.kind}", given["kind"])
        name = (given.get("metadata") or {}).get("name", "")
        raise status.invalid(replace(resource, kind=given["kind"]), name, [error])


def _key(resource: ResourceType, obj: JsonObject) -> Key:
    metadata = obj["metadata"]
    return (metadata["namespace"] if resource.namespaced else "", metadata["name"])
