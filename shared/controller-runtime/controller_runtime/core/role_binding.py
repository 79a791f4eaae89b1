"""rbac.authorization.k8s.io/v1 RoleBinding: rights of the download pods (AR-273)."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel, Items
from controller_runtime.api.meta import Resource


class RoleRef(ApiModel):
    """The role that is granted."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(ApiModel):
    """Who gets the role."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Resource):
    """rbac.authorization.k8s.io/v1 RoleBinding."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "RoleBinding"
    role_ref: RoleRef = RoleRef()
    subjects: Items[Subject] = ()
