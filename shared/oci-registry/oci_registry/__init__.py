"""Client of OCI registries: tags, manifests, configs, with every registry's way of authentication.

This is the public face; it is listed in `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
