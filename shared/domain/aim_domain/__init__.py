"""What the AIM services share beyond the framework: their API, parts, names, GPUs, runtime configs.

This is the public face, listed in `__init__.pyi`, beside the modules `component_names`, `kinds`, `labels`, `naming`
and `parts`.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
