"""What the framework's own things are called in clusters, on the broker and in dashboards (FW-524).

A platform chooses in a module `controller_runtime_names` beside its packages, which has all four constants. They are
no settings, because programs without any (tools, tests) read what the services wrote.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

_CHOICE: Final = "controller_runtime_names"


def _constant(name: str, default: str) -> str:
    """Raises AttributeError where the platform's module lacks one: half a choice is a mistake."""
    return str(getattr(import_module(_CHOICE), name)) if find_spec(_CHOICE) is not None else default


PREFIX: Final = _constant("PREFIX", "controller")
"""Lower-case letters. Begins Leases, field managers, user agents, metrics, headers, and by default streams."""
DOMAIN: Final = _constant("DOMAIN", "controller-runtime")
"""Before the slash of annotations; in types of events. It is the API group of the platform's own kinds, too."""
DEFINE: Final = _constant("DEFINE", "apply the CRDs of this release")
"""Remedy where a definition of the platform is missing or too old."""
CREDENTIALS: Final = _constant("CREDENTIALS", "put in what `nsc` made")
"""Remedy where the file with the broker's credentials is of no use."""
REVERSED_DOMAIN: Final = ".".join(reversed(DOMAIN.split(".")))
"""As types of CloudEvents begin."""
