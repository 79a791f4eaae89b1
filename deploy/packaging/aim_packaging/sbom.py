"""A bill of materials (SPDX 2.3) of each image, from its lock: the same wherever it is made."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aim_packaging.image_packages import IMAGES
from aim_packaging.tree import SHARED, subset
from controller_runtime import JsonObject

_ENTRY: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_ROOT: Final = "SPDXRef-Image"


def sbom(image: str, names: Iterable[str], lock: str, version: str) -> str:
    """The document of an image.

    Its time is that of SOURCE_DATE_EPOCH, as the makers of reproducible builds have it; 0 without one.
    """
    taken = subset(lock, sorted(names))
    packages = [*_own_packages(image, version), *_packages(taken)]
    created = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    # A namespace stands for one document: what it says is all that it is made of.
    digest = hashlib.sha256(json.dumps([image, version, packages]).encode()).hexdigest()
    root = _package(_ROOT, f"aim-engine-{image}", version)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"aim-engine-{image}-{version}",
        "documentNamespace": f"https://aim.eai.amd.com/spdx/aim-engine-{image}-{version}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: aim-packaging"]},
        "documentDescribes": [_ROOT],
        "packages": [root, *packages],
        "relationships": [
            {"spdxElementId": _ROOT, "relationshipType": "DEPENDS_ON", "relatedSpdxElement": one["SPDXID"]}
            for one in packages
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _own_packages(image: str, version: str) -> Iterator[JsonObject]:
    """The packages of this repository that the image holds."""
    for name in (*(Path(folder).name for folder in SHARED), *(one.replace("-", "_") for one in IMAGES[image])):
        yield _package(f"SPDXRef-Own-{name.replace('_', '-')}", name, version)


def _packages(lock: str) -> Iterator[JsonObject]:
    for entry in re.split(r"\n(?=\S)", lock):
        found = _ENTRY.match(entry)
        if found is None:
            continue
        name, version = found["name"], found["version"]
        one = _package(f"SPDXRef-Package-{name.replace('_', '-')}", name, version)
        purl = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl"}
        # Which of the files is installed is up to the platform; pip accepts no other than these.
        hashes = ", ".join(sorted(_HASH.findall(entry)))
        yield {
            **one,
            "externalRefs": [{**purl, "referenceLocator": f"pkg:pypi/{name.lower()}@{version}"}],
            "comment": f"one file of these hashes: {hashes}",
        }


def _package(spdx_id: str, name: str, version: str) -> JsonObject:
    return {
        "SPDXID": spdx_id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
