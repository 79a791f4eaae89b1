"""``aim cache``: the artifacts with their volumes, and the limits (FW-609). Pure but for what is asked."""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from aim_cli.answer import Answer, columns
from aim_cli.cluster.refs import Cluster, JsonObject, ref_of, remarks, require
from aim_cli.cluster.states import state_of
from aim_cli.cluster.targets import Where, nothing
from aim_cli.units import age, format_size
from aim_cli.why.holders import Holder, holders
from aim_domain import labels
from aim_domain.kind_names import AIM_ARTIFACT, AIM_CLUSTER_RUNTIME_CONFIG, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD
from controller_runtime import quantity

_HEADER = ("NAMESPACE", "NAME", "STATE", "PROGRESS", "VOLUME", "LAST USED", "KEPT BECAUSE")
_WIDE_HEADER = (*_HEADER, "CLAIM", "SOURCE")
_UNKNOWN: Final = "not known"
_LIMITS: Final = frozenset({AIM_CLUSTER_RUNTIME_CONFIG.plural, NAMESPACE.plural})
"""Where limits stand."""


def caches(cluster: Cluster, where: Where, now: datetime) -> Answer:
    """Every artifact, its volume, who uses it; then what the namespaces use of their limits.

    Raises:
        UnreachableError: artifacts may not be listed.
    """
    namespace = where.scope(AIM_ARTIFACT)
    artifacts = cluster.search(AIM_ARTIFACT, namespace, where.selector)
    require(cluster, AIM_ARTIFACT.plural, everywhere=not namespace)
    claims = cluster.search(PERSISTENT_VOLUME_CLAIM, namespace, labels.CACHE_NAME)
    held = holders(claims, artifacts, cluster.search(POD, namespace))
    by_artifact = {(one.namespace, one.artifact): one for one in held}
    quotas = quotas_of(cluster, held, namespace)
    unread = frozenset(cluster.unasked)
    rows = [
        _row(artifact, by_artifact.get((artifact["metadata"]["namespace"], artifact["metadata"]["name"])), now, unread)
        for artifact in artifacts
    ]
    data = {
        "artifacts": [_data(artifact, by_artifact, unread) for artifact in artifacts],
        "limits": [_limit_data(*one, unread) for one in quotas],
    }
    limits = columns(
        ("NAMESPACE", "USED", "LIMIT"), [(one[0], format_size(one[1]), _limit(one[2], unread)) for one in quotas]
    )
    rows.sort()
    lines = (*columns(_HEADER, [row[: len(_HEADER)] for row in rows]), *limits)
    wide = (*columns(_WIDE_HEADER, rows), *limits)
    names = tuple(sorted(ref_of(AIM_ARTIFACT, one).argument for one in artifacts))
    return Answer(data, lines or (nothing(AIM_ARTIFACT, where),), remarks=remarks(cluster), wide=wide, names=names)


def quotas_of(cluster: Cluster, held: Iterable[Holder], namespace: str) -> list[tuple[str, int, int | None]]:
    """What each namespace uses and may use, in bytes, and without a namespace what all of them may; ``None`` = all."""
    used = Counter[str]()
    for one in held:
        used[one.namespace] += one.size
    limits = limits_of(cluster.search(AIM_CLUSTER_RUNTIME_CONFIG), cluster.search(NAMESPACE))
    quotas = [(name, used[name], limits.get(name)) for name in sorted(used)]
    if (everything := limits.get("")) is not None and not namespace:
        quotas.append(("all namespaces", used.total(), everything))
    return quotas


def limits_of(configs: list[JsonObject], namespaces: list[JsonObject]) -> dict[str, int | None]:
    """Bytes that may be used, by namespace; that of all of them under the empty name; ``None`` = unlimited.

    What is no limit counts as the artifacts service counts it (AR-442, AR-444): as absent.
    """
    config = next((one for one in configs if one["metadata"]["name"] == "default"), {})
    quota = (config.get("spec") or {}).get("artifactStorageQuota") or {}
    default = _bytes(quota.get("defaultNamespaceLimit"))
    found: dict[str, int | None] = {}
    for one in namespaces:
        text = ((one["metadata"].get("annotations") or {}).get(labels.ANNOTATION_STORAGE_QUOTA) or "").strip()
        own = _bytes(text)
        found[one["metadata"]["name"]] = None if text.lower() == "unlimited" else default if own is None else own
    if (everything := _bytes(quota.get("clusterLimit"))) is not None:
        found[""] = everything
    return found


def _bytes(limit: object) -> int | None:
    parsed = quantity.parse_or_none(limit if isinstance(limit, int | str) else None)
    return parsed.ceiling if parsed is not None and parsed.value >= 0 else None


def _limit(limit: int | None, unread: Collection[str]) -> str:
    if _LIMITS & set(unread):
        return _UNKNOWN
    return "none" if limit is None else format_size(limit)


def _limit_data(namespace: str, used: int, limit: int | None, unread: Collection[str]) -> JsonObject:
    """Without a limit that may not be known: no limit is `null`."""
    return {"namespace": namespace, "used": used, **({} if _LIMITS & set(unread) else {"limit": limit})}


def _row(artifact: JsonObject, held: Holder | None, now: datetime, unread: Collection[str]) -> tuple[str, ...]:
    metadata, status = artifact["metadata"], artifact.get("status") or {}
    progress = (status.get("progress") or {}).get("displayPercentage") or ""
    no_volume = _UNKNOWN if PERSISTENT_VOLUME_CLAIM.plural in unread else ""
    volume = no_volume if held is None else format_size(held.size)
    last = age(status.get("lastUsed") or "", now)
    # Pods are what keeps a volume before anything else does.
    if held is None:
        kept = no_volume
    else:
        kept = _UNKNOWN if POD.plural in unread else held.kept or "nothing; it may be evicted"
    claim = no_volume if held is None else held.claim
    source = (artifact.get("spec") or {}).get("sourceUri") or ""
    state = state_of(AIM_ARTIFACT, artifact)
    return metadata["namespace"], metadata["name"], state, progress, volume, last, kept, claim, source


def _data(artifact: JsonObject, held: dict[tuple[str, str], Holder], unread: Collection[str]) -> JsonObject:
    metadata, status = artifact["metadata"], artifact.get("status") or {}
    volume = held.get((metadata["namespace"], metadata["name"]))
    reported = {} if volume is None else volume.data
    if POD.plural in unread:
        reported = {key: value for key, value in reported.items() if key not in ("users", "kept")}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "state": state_of(AIM_ARTIFACT, artifact),
        "source": (artifact.get("spec") or {}).get("sourceUri") or "",
        "progress": status.get("progress") or {},
        "lastUsed": status.get("lastUsed") or "",
        **({} if volume is None and PERSISTENT_VOLUME_CLAIM.plural in unread else {"volume": reported or None}),
    }
