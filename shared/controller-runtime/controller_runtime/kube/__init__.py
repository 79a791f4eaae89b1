"""The one Kubernetes client.

From the bottom up: `config` finds the API server, `transport` sends bytes within bounds, `client` knows the verbs,
`reflector` follows a selection of objects for ever, `lease` decides who may act.

What tools use of it is imported from here, and is listed in `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
