"""The process around a service: settings, leadership, worker loop, effects, HTTP endpoints.

What other processes use of it (settings, HTTP servers, token reviews), and tools that examine one, is imported from
here, and is listed in `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
