"""What `controller_runtime` calls its own things on this platform (FW-524).

They are in clusters, streams and dashboards: another prefix gives up Leases, ownership of fields and history.
"""

from typing import Final

PREFIX: Final = "aim"
DOMAIN: Final = "aim.eai.amd.com"
DEFINE: Final = "upgrade the release with crd.enabled, or kubectl apply --server-side -k deploy/crds"
CREDENTIALS: Final = "put in what `nsc` or `aim_packaging nats-keys` made"
