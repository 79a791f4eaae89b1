"""Traces, metrics and logs.

What describes them is imported from here, and is listed in `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
