"""Controllers over an event log: see the README beside this package.

This is the public face: what a service uses is imported from here, and is listed in `__init__.pyi`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
