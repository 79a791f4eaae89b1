"""Arguments and options that commands share, under the names that kubectl gives them (FW-600)."""

from difflib import get_close_matches
from typing import Annotated, Final

import typer
from typer.models import OptionInfo

from aim_cli import completion
from aim_cli.answer import JSONPATH, Form
from aim_cli.errors import TargetError

KindName = Annotated[
    str,
    typer.Argument(
        help="Kind, plural or short name, such as aimservice or aimsvc; or kind/name.", autocompletion=completion.kinds
    ),
]
MaybeName = Annotated[
    str | None,
    typer.Argument(
        help="Name or namespace/name; without it, all objects of the kind.", autocompletion=completion.names
    ),
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
_PLAIN: Final = (Form.TABLE, Form.JSON, Form.YAML)
_OF_OBJECTS: Final = (Form.TABLE, Form.WIDE, Form.NAME, Form.JSON, Form.YAML)
_OF_TREES: Final = (*_OF_OBJECTS, Form.DOT)


def _form_option(forms: tuple[Form, ...]) -> OptionInfo:
    """The option ``-o`` of a command that has these forms, and JSONPath."""
    words = (*(one.word for one in forms), f"{JSONPATH}=TEMPLATE")

    def parse(given: str | Form) -> Form:
        if isinstance(given, Form):
            # Typer converts a default as well.
            return given
        word, _, template = given.partition("=")
        if word == JSONPATH:
            return _checked(Form(JSONPATH, template))
        found = next((one for one in forms if one.word == given), None)
        if found is None:
            near = get_close_matches(word, words, n=1)
            raise typer.BadParameter(f"{given!r} is none of {', '.join(words)}{f'; try {near[0]}' if near else ''}")
        return found

    def complete(incomplete: str) -> list[str]:
        return [one.partition("=")[0] for one in words if one.startswith(incomplete)]

    option: OptionInfo = typer.Option(
        "-o",
        "--output",
        parser=parse,
        metavar="|".join(words),
        help="Form of the answer.",
        autocompletion=complete,
    )
    return option


def _checked(form: Form) -> Form:
    """A form whose template can be read, so that a mistake in it is found before a cluster is asked."""
    # Only a user of a template pays for it.
    from aim_cli.jsonpath import Template  # noqa: PLC0415

    try:
        Template.parse(form.template)
    except TargetError as error:
        raise typer.BadParameter(str(error)) from error
    return form


Output = Annotated[Form, _form_option(_PLAIN)]
ObjectsOutput = Annotated[Form, _form_option(_OF_OBJECTS)]
TreeOutput = Annotated[Form, _form_option(_OF_TREES)]
MaybeNatsUrl = Annotated[
    str, typer.Option("--nats-url", envvar="AIM_NATS_URL", help="Message broker with the event log; optional.")
]
