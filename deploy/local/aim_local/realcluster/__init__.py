"""A real control plane on one machine: etcd, kube-apiserver, its controllers, KServe; no containers and no nodes."""

from aim_local.realcluster.audit import AuditLog, RequestKey
from aim_local.realcluster.cluster import RealCluster
from aim_local.realcluster.settings import ClusterSettings
from aim_local.realcluster.users import User

__all__ = ["AuditLog", "ClusterSettings", "RealCluster", "RequestKey", "User"]
