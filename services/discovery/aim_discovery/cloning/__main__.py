"""``python -m aim_discovery.cloning MI300X MI308X | kubectl apply -f -``: clone templates for another GPU.

Manifests go to standard output, everything else to standard error.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import yaml

from aim_discovery.cloning.clones import clones_of, name_clashes, taken_names
from aim_domain.kinds import AIM_CLUSTER_SERVICE_TEMPLATE
from controller_runtime import JsonObject, KubeClient, KubeError, load_connection


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the clones; 1 when the templates cannot be read, or when clones would replace each other."""
    parser = argparse.ArgumentParser(prog="aim-clone-templates", description=__doc__)
    parser.add_argument("source", help="GPU model whose templates are cloned, for example MI300X")
    parser.add_argument("target", help="GPU model of the clones, for example MI308X")
    parser.add_argument("--kubeconfig", help="default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
    given = parser.parse_args(arguments)
    try:
        templates = asyncio.run(_templates(given.kubeconfig))
    except (KubeError, ValueError, OSError) as error:
        print(f"AIMClusterServiceTemplates cannot be listed: {error}", file=sys.stderr)
        return 1
    clones = list(clones_of(templates, given.source, given.target))
    if not clones:
        print(f"no AIMClusterServiceTemplate is for GPU {given.source}; nothing to clone", file=sys.stderr)
    if clashes := name_clashes(clones):
        advice = f"put {given.source} into the names of their templates"
        print(f"nothing is cloned: several clones would be named {', '.join(clashes)}; {advice}", file=sys.stderr)
        return 1
    taken = taken_names(clones, templates)
    if taken:
        print(f"skipped, because other templates have their names: {', '.join(taken)}", file=sys.stderr)
    for clone in (one for one in clones if one["metadata"]["name"] not in taken):
        print(f"cloning for {given.target}: {clone['metadata']['name']}", file=sys.stderr)
        print("---", yaml.safe_dump(clone, sort_keys=True), sep="\n", end="")
    return 0


async def _templates(kubeconfig: str | None) -> tuple[JsonObject, ...]:
    async with KubeClient(await load_connection(kubeconfig), service="clone-templates") as kube:
        return (await kube.list(AIM_CLUSTER_SERVICE_TEMPLATE)).items


if __name__ == "__main__":
    sys.exit(main())
