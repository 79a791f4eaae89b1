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
        bool, typer.Option("-v", "--verbose", help="Also tell since which decision, from the event log.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Go on, and tell what changes, until nothing is in its way.")
    ] = False,
) -> None:
    """Say why an object is not ready: the cause first, and what to do; then what waits for it.

    Follows conditions from the object to the pod, event, volume, quota or gateway that they come down to. Without a
    name: all objects of the kind that something is in the way of.

    Exits with 0 when nothing is in its way, with 1 when something is, with 3 when there is no such object, with 4 when
    the cluster cannot be asked.
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
    """Show everything that was made for an object and what it uses, with states; -o dot for Graphviz.

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
    """List the artifacts with their volumes, why each is kept, and what is used of the storage limits.

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
    """Tell what applying objects would do; nothing is written.

    The services' own code decides over the cluster's present objects: which template, why not the others, whether
    GPUs, volumes and limits suffice, which route, and what would be written, up to where the platform would wait for
    another component. --registries asks from this machine whether images exist, which the services would ask next.

    Exits with 1 when an object would be refused or would not come to run, with 2 when a file cannot be read, with 4
    when the cluster cannot be asked, or not about what it depends on.
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
    tail: Annotated[int, typer.Option("--tail", help="Lines from before.")] = 100,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on through all phases until interrupted.")] = False,
) -> None:
    """Print what the pods of a service say, of whatever phase it is in: the model, its download, or discovery.

    Also what ended pods said; of pods that are gone the last report that the status keeps. With -f pods that begin are
    joined while others go on, each line with its pod; Ctrl-C ends it with 0. Exits with 3 when there is
    no such service or no pod, with 4 when the cluster cannot be asked.
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
        list[str] | None, typer.Option("-m", "--message", help="Say this and end; repeatable. Else standard input.")
    ] = None,
    url: Annotated[
        str,
        typer.Option(
            "--url", envvar="AIM_GATEWAY_URL", help="Address of the gateway, where its own cannot be reached."
        ),
    ] = "",
    model: Annotated[str, typer.Option("--model", help="Name of the model; default is the first that it tells.")] = "",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    *,
    direct: Annotated[
        bool, typer.Option("--port-forward", help="Past gateway and route: kubectl port-forward to a ready pod.")
    ] = False,
) -> None:
    """Talk to the model of a service through its route; answers are printed as they come.

    Exits with 2 when the service has no route or no ready pod, with 3 when there is no such service, with 4 when
    no server answers.
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
