"""Commands about objects in a cluster."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from typing import Annotated

import typer

from aim_cli.answer import Form
from aim_cli.arguments import (
    Context,
    Everywhere,
    KindName,
    Kubeconfig,
    MaybeName,
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
    nats_url: Annotated[
        str,
        typer.Option(envvar="AIM_NATS_URL", help="Message broker with the event log; without it the cluster alone."),
    ] = "",
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


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("why")(why)
