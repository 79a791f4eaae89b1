"""Commands about objects in a cluster."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from enum import StrEnum
from typing import Annotated

import typer

from aim_cli.answer import Form
from aim_cli.arguments import (
    Context,
    Everywhere,
    KindName,
    Kubeconfig,
    MaybeName,
    MaybeNatsUrl,
    Namespace,
    Output,
    Selector,
)


def why(
    kind: KindName,
    name: MaybeName = None,
    namespace: Namespace = None,
    selector: Selector = "",
    output: Output = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    nats_url: MaybeNatsUrl = "",
    *,
    everywhere: Everywhere = False,
) -> None:
    """Say why an object is not ready: the cause first, and what to do; then what waits for it.

    Follows conditions from the object to the pod, event, volume, quota or gateway that they come down to. With the
    event log it also tells from what each was decided. Without a name: all objects of the kind that something is in
    the way of.

    Exits with 0 when nothing is in its way, with 1 when something is, with 3 when there is no such object, with 4 when
    the cluster cannot be asked.
    """
    from aim_cli.targets import Where
    from aim_cli.why.asked import Question, ask

    where = Where(kubeconfig, context, namespace, everywhere, selector)
    raise typer.Exit(ask(Question(kind, name, where, nats_url), output))


class TreeForm(StrEnum):
    """Forms in which a tree is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    DOT = "dot"


def tree(
    kind: KindName,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Annotated[TreeForm, typer.Option("-o", "--output", help="Form of the answer.")] = TreeForm.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show everything that was made for an object and what it uses, with states; -o dot for Graphviz.

    Exits with 3 when there is no such object, with 4 when the cluster cannot be asked.
    """
    from aim_cli.answer import Answer, answered
    from aim_cli.asking import reading
    from aim_cli.targets import Where, target
    from aim_cli.tree import answer, dot
    from aim_cli.tree import tree as grown

    def ask() -> Answer:
        wanted = target(kind, name, Where(kubeconfig, context, namespace))
        with reading(kubeconfig, context) as cluster:
            node = grown(cluster, wanted)
            if node is not None and output is TreeForm.DOT:
                return Answer({}, tuple(dot(node).splitlines()))
            return answer(node, wanted)

    raise typer.Exit(answered(ask, Form.TABLE if output is TreeForm.DOT else Form(output.value)))


def cache(
    namespace: Namespace = None,
    selector: Selector = "",
    output: Output = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    *,
    everywhere: Everywhere = False,
) -> None:
    """List the artifacts with their volumes, why each is kept, and what is used of the storage limits.

    Exits with 4 when the cluster cannot be asked.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.asking import reading
    from aim_cli.caches import caches
    from aim_cli.resources import AIM_ARTIFACT
    from aim_cli.targets import Where

    def ask() -> Answer:
        scope = Where(kubeconfig, context, namespace, everywhere).scope(AIM_ARTIFACT)
        with reading(kubeconfig, context) as cluster:
            return caches(cluster, scope, selector, datetime.now(UTC))

    raise typer.Exit(answered(ask, output))


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("why")(why)
    app.command("tree")(tree)
    app.command("cache")(cache)
