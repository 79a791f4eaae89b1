"""Commands about objects in a cluster."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from typing import Annotated

import typer

from aim_cli.answer import Form, announce
from aim_cli.arguments import (
    Context,
    Everywhere,
    KindName,
    Kubeconfig,
    MaybeName,
    MaybeNatsUrl,
    Namespace,
    ObjectsOutput,
    Output,
    Selector,
    ServiceName,
    TreeOutput,
)


def why(
    kind: KindName,
    name: MaybeName = None,
    namespace: Namespace = None,
    selector: Selector = "",
    output: ObjectsOutput = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    nats_url: MaybeNatsUrl = "",
    *,
    everywhere: Everywhere = False,
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Also print the decision that set each condition, from the event log."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Continue, and print changes until no problem is left.")
    ] = False,
) -> None:
    """Explain why an object is not ready: the cause and its remedy, then the objects that wait for it.

    Follows conditions from the object to the pod, Event, volume, quota or gateway that causes them. Without a name,
    explains all objects of the kind that have a problem.

    Exits with 0 when it finds no problem, with 1 when it finds one, with 3 when the object does not exist, with 4 when
    the cluster does not answer.
    """
    from contextlib import suppress

    from aim_cli.cluster.targets import Where
    from aim_cli.why.asked import Question, ask

    where = Where(kubeconfig, context, namespace, everywhere, selector)
    with suppress(*([KeyboardInterrupt] if watch else [])):
        raise typer.Exit(ask(Question(kind, name, where, nats_url, verbose, watch), output))


def tree(
    kind: KindName,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: TreeOutput = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the objects that were created for an object and those that it uses, with states; -o dot for Graphviz.

    Exits with 3 when there is no such object, with 4 when the cluster cannot be asked.
    """
    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.targets import Where, target
    from aim_cli.objects.tree import answer
    from aim_cli.objects.tree import tree as grown

    def ask() -> Answer:
        wanted = target(kind, name, Where(kubeconfig, context, namespace))
        with reading(kubeconfig, context) as cluster:
            return answer(cluster, grown(cluster, wanted), wanted)

    raise typer.Exit(answered(ask, output))


def cache(
    namespace: Namespace = None,
    selector: Selector = "",
    output: ObjectsOutput = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    *,
    everywhere: Everywhere = False,
) -> None:
    """List artifacts with their volumes, why each is kept, and the use of the storage limits.

    Exits with 4 when the cluster cannot be asked.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.targets import Where
    from aim_cli.objects.caches import caches

    def ask() -> Answer:
        where = Where(kubeconfig, context, namespace, everywhere, selector)
        with reading(kubeconfig, context) as cluster:
            return caches(cluster, where, datetime.now(UTC))

    raise typer.Exit(answered(ask, output))


def plan(
    files: Annotated[
        list[str], typer.Option("-f", "--filename", help="File, folder, or - for standard input; repeatable.")
    ],
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    nats_url: MaybeNatsUrl = "",
    *,
    registries: Annotated[
        bool,
        typer.Option(
            "--registries",
            help="Ask registries about images that were not inspected, with pull Secrets of the cluster.",
        ),
    ] = False,
) -> None:
    """Predict what applying objects would do; writes nothing.

    Runs the code of the services on the objects of the cluster: which template they select and why not the others,
    whether GPUs, volumes and limits suffice, which route they create, and what they write, up to the point where they
    wait for another component. --registries also checks from this machine whether images exist.

    Exits with 1 when the cluster would reject an object or it would not run, with 2 when a file cannot be read, with 4
    when the cluster does not answer what the plan depends on.
    """
    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.targets import Where
    from aim_cli.planning.files import documents

    def ask() -> Answer:
        reported = list(documents(files))
        with reading(kubeconfig, context) as cluster:
            announce(f"planning {', '.join(map(str, reported))} for {cluster.server}", output)
            # Who waits has read a line by now (FW-728).
            from aim_cli.planning.gathering import plan as planned

            return planned(cluster, reported, Where(kubeconfig, context, namespace), nats_url, registries=registries)

    raise typer.Exit(answered(ask, output))


def logs(
    name: ServiceName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    tail: Annotated[int, typer.Option("--tail", help="Number of earlier lines.")] = 100,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow all phases until interrupted.")] = False,
) -> None:
    """Print the logs of the pods of a service in its present phase: the model, its download, or discovery.

    Includes ended pods; for deleted pods, the last report in the status. -f also follows pods that start later, and
    prefixes each line with its pod; Ctrl-C ends it with 0. Exits with 3 when the service or its pods do not exist,
    with 4 when the cluster does not answer.
    """
    from contextlib import suppress

    from aim_cli.answer import Answer, answered, complain, plain
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.refs import require
    from aim_cli.cluster.targets import Where, target
    from aim_cli.errors import Exit
    from aim_cli.objects.pod_logs import follow as followed
    from aim_cli.objects.pod_logs import last_words, say, speakers
    from aim_domain.kind_names import POD

    def ask() -> Answer:
        wanted = target("aimservice", name, Where(kubeconfig, context, namespace))
        with reading(kubeconfig, context) as cluster:
            obj = cluster.find(wanted)
            if obj is None:
                require(cluster, str(wanted))
                return Answer([], (), Exit.ABSENT, (f"{wanted} does not exist",))
            if follow:
                with suppress(KeyboardInterrupt):
                    followed(cluster, wanted, tail, lambda line: print(plain(line), flush=True), complain)
                return Answer([], ())
            found = speakers(cluster, wanted, obj)
            if not found:
                require(cluster, POD.plural)
                remarks = (f"{wanted} has no pod", *last_words(cluster, wanted, obj))
                return Answer([], (), Exit.ABSENT, remarks)
            complain(f"logs of {found[0].phase}")
            unreported = say(cluster, found, tail, lambda line: print(plain(line), flush=True))
        code = Exit.UNREADABLE if len(unreported) == len(found) else Exit.WELL
        return Answer([], (), code, tuple(f"not known: {one}" for one in unreported.values()))

    raise typer.Exit(answered(ask, Form.TABLE))


def chat(
    name: ServiceName,
    message: Annotated[
        list[str] | None,
        typer.Option("-m", "--message", help="Message to send; repeatable. Without it, reads standard input."),
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            "--url", envvar="AIM_GATEWAY_URL", help="Address of the gateway, if the one in its status is not reachable."
        ),
    ] = "",
    model: Annotated[
        str, typer.Option("--model", help="Name of the model; default is the first that the server lists.")
    ] = "",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    *,
    direct: Annotated[
        bool,
        typer.Option(
            "--port-forward", help="Connect to a ready pod with kubectl port-forward, without gateway and route."
        ),
    ] = False,
) -> None:
    """Send messages to the model of a service through its route, and print the answers as they arrive.

    Exits with 2 when the service has no route or no ready pod, with 3 when it does not exist, with 4 when no server
    answers.
    """
    import os
    import sys
    from contextlib import ExitStack

    from aim_cli.answer import Answer, answered, plain
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.targets import Where, target
    from aim_cli.errors import TargetError
    from aim_cli.objects.chat import Talk, address_of, forwarded

    def ask() -> Answer:
        if direct and url and "AIM_GATEWAY_URL" not in os.environ:
            raise TargetError("--url names a gateway, --port-forward goes past it; give one of them")
        wanted = target("aimservice", name, Where(kubeconfig, context, namespace))
        with ExitStack() as way:
            cluster = way.enter_context(reading(kubeconfig, context))
            if direct:
                options = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
                options += [f"--context={context}"] if context else []
                address = way.enter_context(forwarded(cluster, wanted, options))
            else:
                address = address_of(cluster, wanted, url)
            talk = Talk.begin(address, model)
            for line in message or (line.rstrip("\n") for line in sys.stdin):
                for piece in talk.ask(line) if line.strip() else ():
                    print("\n".join(plain(part) for part in piece.split("\n")), end="", flush=True)
                print()
        return Answer([], ())

    raise typer.Exit(answered(ask, Form.TABLE))


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("why", short_help="Explain why an object is not ready, and what to do.")(why)
    app.command("tree", short_help="Show what was made for an object and what it uses.")(tree)
    app.command("cache", short_help="List downloaded weights, their volumes and limits.")(cache)
    app.command("plan", short_help="Show what applying a file would do; writes nothing.")(plan)
    app.command("logs", short_help="Print the logs of a service's pods.")(logs)
    app.command("chat", short_help="Talk to the model of a service.")(chat)
