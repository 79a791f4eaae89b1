"""Arguments and options that commands share, under the names that kubectl gives them (FW-600)."""

from typing import Annotated

import typer

from aim_cli import completion
from aim_cli.answer import Form

KindName = Annotated[
    str,
    typer.Argument(
        help="Kind, plural or short name, such as aimservice or aimsvc; or kind/name.", autocompletion=completion.kinds
    ),
]
MaybeName = Annotated[
    str | None,
    typer.Argument(help="name or namespace/name; without it all of the kind.", autocompletion=completion.names),
]
ServiceName = Annotated[
    str, typer.Argument(help="AIMService: name or namespace/name.", autocompletion=completion.names)
]
NatsUrl = Annotated[
    str,
    typer.Option("--nats-url", envvar="AIM_NATS_URL", help="Broker with the event log, or a file of `aim export`."),
]
LOCAL = "nats://127.0.0.1:4222"
Kubeconfig = Annotated[str | None, typer.Option(help="Kubeconfig of the cluster; default as for kubectl.")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        help="Namespace; default is that of the kubeconfig's context.",
        autocompletion=completion.namespaces,
    ),
]
Everywhere = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Objects of all namespaces.")]
Selector = Annotated[str, typer.Option("-l", "--selector", help="Only objects with these labels, as for kubectl.")]
Output = Annotated[Form, typer.Option("-o", "--output", help="Form of the answer.")]
MaybeNatsUrl = Annotated[
    str, typer.Option("--nats-url", envvar="AIM_NATS_URL", help="Message broker with the event log; may be left out.")
]
