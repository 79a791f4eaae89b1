"""Running ``aim why``: the cluster first, because it answers at once; then what the log adds."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from aim_cli.answer import Answer, Form, answered, print_answer
from aim_cli.cluster.asking import reading
from aim_cli.cluster.broker import find_names
from aim_cli.cluster.refs import require
from aim_cli.cluster.targets import Where, kind_and_name, kind_called, nothing, targets
from aim_cli.errors import CliError, Exit, UnreachableError
from aim_cli.why.command import Explanation, answer, why

if TYPE_CHECKING:
    from aim_cli.why.decided import Decided

_WITHOUT: Final = (
    "not known without the event log: from what this was decided and what woke it; set --nats-url or AIM_NATS_URL"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked; no address of a broker means that the log is not.

    Attributes:
        verbose: people are shown since which decision as well; programs always are.
        watch: ask again, until nothing is in the way.
    """

    kind: str
    name: str | None
    where: Where
    nats_url: str
    verbose: bool = False
    watch: bool = False


def ask(question: Question, form: Form) -> Exit:
    """Print the answer; the code to end with."""
    kind, name = kind_and_name(question.kind, question.name)
    question, many = replace(question, kind=kind, name=name), name is None
    reported: list[Explanation] = []

    def of_cluster() -> Answer:
        reported.clear()
        with reading(question.where.kubeconfig, question.where.context) as cluster:
            wanted = targets(question.kind, question.name, question.where, cluster)
            if many:
                kind = kind_called(question.kind)
                everywhere = kind.namespaced and not question.where.scope(kind)
                require(cluster, kind.plural, everywhere=everywhere)
            reported.extend(why(cluster, one) for one in wanted)
            for one in reported if not many else ():
                if one.status is None:
                    require(cluster, str(one.ref))
                if one.status is None and not cluster.knows(one.ref.kind):
                    raise UnreachableError(f"the cluster does not know {one.ref.kind.kind}: install what defines it")
            found = answer(reported, cluster, datetime.now(UTC), many=many)
            if not reported:
                return replace(found, lines=(nothing(kind_called(question.kind), question.where),))
        if many or not reported[0].ways or not form.of_data:
            return found
        decided, remark = _from_log(question, reported[0])
        data = {"decided": None if remark else [one.data for one in decided]}
        remarks = (*found.remarks, *((remark,) if remark else ()))
        return replace(
            found, data={**found.data, **data} if isinstance(found.data, dict) else found.data, remarks=remarks
        )

    code = answered(of_cluster, form, watch=question.watch)
    if question.verbose and form.of_lines and not many and reported and reported[0].ways:
        # The cluster's answer stands already: the log is read while people read that.
        decided, remark = _from_log(question, reported[0])
        lines = tuple(f"decided {one.line}" for one in decided)
        print_answer(Answer([], lines, remarks=(remark,) if remark else ()), form)
    return code


def _from_log(question: Question, reported: Explanation) -> tuple[list["Decided"], str]:
    """What the log adds, or why it adds nothing."""
    if not question.nats_url:
        return [], f"{_WITHOUT} (in a cluster: {find_names(question.where).port_forward})"
    # Only who asks the log waits for the import of what reads it.
    from aim_cli.running import waited  # noqa: PLC0415
    from aim_cli.why.decided import decided  # noqa: PLC0415

    try:
        return waited(decided(reported.links, question.nats_url, question.where)), ""
    except CliError as error:
        return [], f"not known: from what this was decided: {error}"
