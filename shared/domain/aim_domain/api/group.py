"""Group and version of the AIM kinds."""

from typing import Final

GROUP: Final = "aim.eai.amd.com"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
