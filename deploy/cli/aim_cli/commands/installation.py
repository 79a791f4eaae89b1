"""Commands about the installation as a whole."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from aim_cli.answer import Form, announce, complain
from aim_cli.arguments import LOCAL, Context, Kubeconfig, MaybeNatsUrl, Namespace, NatsUrl, ObjectsOutput, Output
from aim_cli.errors import Exit


class Objects(StrEnum):
    """Forms in which `migrate` prints objects."""

    YAML = "yaml"


def migrate(
    files: Annotated[
        list[str] | None, typer.Option("-f", "--filename", help="File, folder, or - for standard input; repeatable.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of objects in files that name none.")
    ] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[
        Objects | None, typer.Option("-o", "--output", help="Print the objects without writing or comparing them.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without writing them.")] = False,
    storage: Annotated[
        bool, typer.Option("--storage", help="Store the present objects in one version, as the CRDs do today.")
    ] = False,
) -> None:
    """Convert resources of aim.silogen.ai and config.kaiwo.silogen.ai to the present kinds.

    Reads them from the cluster, or from files with -f, and writes the new resources in the order of their references.
    Overwrites nothing: it adds missing fields to existing runtime configs, and leaves other existing resources and the
    old ones unchanged. You can repeat it at any time.

    --storage instead writes every object again whose CRD lists a second stored version, such as v1alpha2 of the Go
    operator, and removes that version from status.storedVersions. It changes no object.

    Exits with 0 when every field was migrated, with 1 when a field was not mapped, differs from an existing resource or
    was rejected (the rest is written), with 2 when a file cannot be read, with 4 when the cluster does not answer.
    """
    from aim_cli.migration.command import Wish
    from aim_cli.migration.command import run as moved
    from aim_cli.migration.storage import run as stored
    from aim_cli.output import ERRORS, OUT
    from aim_cli.running import run

    if storage and (files or output):
        raise typer.BadParameter("--storage takes no -f and no -o: it is about the objects of the cluster")
    wish = Wish(tuple(files or ()), namespace, kubeconfig, context, dry_run=dry_run, print_only=output is not None)
    code = run(stored(kubeconfig, context, dry_run=dry_run, out=OUT) if storage else moved(wish, OUT, ERRORS))
    if code:
        raise typer.Exit(code)


def status(
    namespace: Namespace = None,
    output: ObjectsOutput = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Summarize the installation: objects that need attention, then kinds, states, GPUs and leaders.

    Covers all namespaces by default. Exits with 1 when an object has failed or a service has no leader, with 4 when
    the cluster does not answer.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.asking import reading
    from aim_cli.installation.overview import glimpse

    def ask() -> Answer:
        with reading(kubeconfig, context) as cluster:
            return glimpse(cluster, namespace or "", datetime.now(UTC))

    raise typer.Exit(answered(ask, output))


def top(
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two readings.")] = 5,
    count: Annotated[int, typer.Option("--count", help="Number of readings; 0 = until interrupted.")] = 0,
) -> None:
    """Repeat `aim status`.

    Exits like `aim status`.
    """
    import time
    from datetime import UTC, datetime
    from itertools import count as numbers

    from aim_cli.answer import Answer, answered, plain
    from aim_cli.cluster.asking import reading
    from aim_cli.installation.overview import glimpse
    from aim_cli.output import OUT

    def ask() -> Answer:
        for number in numbers(1):
            with reading(kubeconfig, context) as cluster:
                reported = glimpse(cluster, namespace or "", datetime.now(UTC))
            OUT.clear()
            for line in (f"{datetime.now(UTC):%H:%M:%S} UTC", *reported.lines):
                print(plain(line), flush=True)
            if number == count:
                return Answer(reported.data, (), reported.code, reported.remarks)
            time.sleep(every)
        raise AssertionError("unreachable")

    raise typer.Exit(answered(ask, Form.TABLE))


def doctor(
    output: Output = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    nats_url: MaybeNatsUrl = "",
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for failed checks to pass.")] = 0,
    *,
    pre: Annotated[
        bool, typer.Option("--pre", help="Check the requirements of an installation before you install.")
    ] = False,
) -> None:
    """Check versions, CRDs, permissions, services, leaders, streams, freshness and clocks, and print remedies.

    Exits with 1 when a check fails, with 4 when the cluster does not answer.
    """
    from contextlib import suppress

    from aim_cli.answer import answered
    from aim_cli.cluster.asking import reading
    from aim_cli.cluster.targets import Where
    from aim_cli.errors import CliError

    # That there is no kubeconfig may become otherwise while it waits.
    with suppress(CliError), reading(kubeconfig, context) as cluster:
        announce(f"asking {cluster.server}", output)
    from aim_cli.installation.examining import Wish, diagnose

    wish = Wish(Where(kubeconfig, context), nats_url, pre, wait)
    raise typer.Exit(answered(lambda: diagnose(wish), output))


def bus(
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
    *,
    holes: Annotated[bool, typer.Option("--holes", help="Also read the whole history for gaps.")] = False,
) -> None:
    """Show the event log: parts with publishers and epochs, streams with limits and lag.

    Exits with 1 when a stream is missing or a publisher silent, with 4 when the broker does not answer.
    """
    from aim_cli.answer import answered
    from aim_cli.installation.bus_state import answer, bus_state
    from aim_cli.running import waited

    raise typer.Exit(answered(lambda: answer(waited(bus_state(nats_url, holes=holes))), output))


def queue(
    output: Output = Form.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    url: Annotated[
        list[str] | None,
        typer.Option("--url", help="[NAME=]URL of the probes of a service outside a cluster; repeatable."),
    ] = None,
) -> None:
    """Show the work queues of the services: waiting, in progress and paused objects.

    Asks their pods through the API server, which requires the permission to proxy to pods. Exits with 4 when no
    service answers.
    """
    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.asking import reading
    from aim_cli.installation.queues import answer, of_addresses, of_pods

    def ask() -> Answer:
        if url:
            return answer(of_addresses(url))
        with reading(kubeconfig, context) as cluster:
            return answer(of_pods(cluster))

    raise typer.Exit(answered(ask, output))


def console(
    nats_url: NatsUrl = LOCAL,
    port: Annotated[int, typer.Option(help="Port on the loopback; 0 = any free port.")] = 0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    listen: Annotated[
        str,
        typer.Option(help="host:port or :port to serve others over HTTPS; they log in with a token of the cluster."),
    ] = "",
    cert_path: Annotated[
        Path | None, typer.Option(help="With --listen: folder with tls.crt and tls.key; default is self-signed.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="With --listen: host name that viewers use; repeatable.")
    ] = None,
    trace_url: Annotated[
        str,
        typer.Option(
            "--trace-url",
            envvar="AIM_TRACE_URL",
            help="URL of a trace in your tracing system, with {trace} for its id.",
        ),
    ] = "",
) -> None:
    """Serve live pages about the platform on the loopback until interrupted, and print their address.

    Reads the event log. Asks the API server what a viewer may list, and reads Events and logs as the viewer. With
    --listen it serves several viewers, and checks each of them.

    Exits with 4 when the broker or the cluster does not answer.
    """
    from contextlib import suppress

    from aim_cli.cluster.targets import Where
    from aim_cli.running import run

    where = Where(kubeconfig, context)
    if find_spec("aim_console") is None:
        complain("aim: the console missing: its pages are the package aim-console; install that of this release")
        raise typer.Exit(Exit.WORDS)
    if not listen:
        from aim_console.serving import serve

        with suppress(KeyboardInterrupt):
            run(serve(where, nats_url, port, lambda address: print(address, flush=True), trace_url))
    else:
        from aim_console.hosting import Site, host_pages

        run(host_pages(where, nats_url, Site(listen, cert_path, tuple(host or ()), trace_url)))


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("status", short_help="Show what needs attention, and what there is.")(status)
    app.command("top", short_help="Repeat `aim status`.")(top)
    app.command("doctor", short_help="Check an installation and say what to correct.")(doctor)
    app.command("bus", short_help="Show the event log: parts, publishers, streams.")(bus)
    app.command("queue", short_help="Show what the services are working on.")(queue)
    app.command("console", short_help="Serve the platform as pages.")(console)
    app.command("migrate", short_help="Move objects of older API groups.")(migrate)
