"""Running ``aim why``: the cluster first, because it answers at once; then what the log adds."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aim_cli.answer import Answer, Form, answered, complain, tell
from aim_cli.asking import reading
from aim_cli.errors import CliError, Exit, UnreachableError
from aim_cli.targets import Where, targets
from aim_cli.why.command import Told, answer, why


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked; no address of a broker means that the log is not."""

    kind: str
    name: str | None
    where: Where
    nats_url: str


def ask(question: Question, form: Form) -> Exit:
    """Print the answer; the code to end with."""
    told: list[Told] = []

    def of_cluster() -> Answer:
        with reading(question.where.kubeconfig, question.where.context) as cluster:
            wanted = targets(question.kind, question.name, question.where, cluster)
            many = question.name is None and "/" not in question.kind
            told.extend(why(cluster, one) for one in wanted)
            for one in told if not many else ():
                if one.status is None and not cluster.knows(one.ref.kind):
                    raise UnreachableError(f"the cluster does not know {one.ref.kind.kind}: install what defines it")
            found = answer(told, cluster, datetime.now(UTC), many=many)
        if many or not told[0].ways:
            return found
        return found if form is Form.TABLE else replace(found, data=_with_log(question, told[0], found.data))

    code = answered(of_cluster, form)
    if form is Form.TABLE and len(told) == 1 and told[0].ways and question.name is not None:
        lines, remark = _from_log(question, told[0])
        tell(Answer([], lines, remarks=(remark,) if remark else ()), form)
    return code


def _with_log(question: Question, told: Told, data: object) -> dict[str, object]:
    assert isinstance(data, dict)
    if not question.nats_url:
        return {**data, "decided": None}
    # Only who asks the log waits for the import of what reads it.
    from aim_cli.running import waited  # noqa: PLC0415
    from aim_cli.why.decided import decided  # noqa: PLC0415

    try:
        return {**data, "decided": [one.data for one in waited(decided(told.links, question.nats_url))]}
    except CliError as error:
        complain(f"not known: {error}")
        return {**data, "decided": None}


def _from_log(question: Question, told: Told) -> tuple[tuple[str, ...], str]:
    without = (
        "not known without the event log: from what this was decided and what woke it; set --nats-url or AIM_NATS_URL "
        "(in a cluster: kubectl port-forward service/aim-nats 4222)"
    )
    if not question.nats_url:
        return (), without
    from aim_cli.running import waited  # noqa: PLC0415
    from aim_cli.why.decided import decided  # noqa: PLC0415

    try:
        found = waited(decided(told.links, question.nats_url))
    except CliError as error:
        return (), f"not known: from what this was decided: {error}"
    return tuple(f"decided {one.line}" for one in found), ""
