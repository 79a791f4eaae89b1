"""Whom a free slot for discovery Jobs concerns: a line that no single decision sees (DI-317)."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from aim_discovery.scopes import Template
from aim_discovery.templates.slots import joined, next_in_line, occupies_slot
from aim_domain.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, NAMESPACES, TEMPLATES
from controller_runtime import Change, Key, Resource, View, Wake, WakeBy
from controller_runtime.core import Job, Namespace

R = TypeVar("R", bound=Resource)


def wakes_of_line(namespaced: bool, limit: int) -> tuple[Wake, ...]:
    """What lets somebody come up; each of these wakes both kinds of templates.

    Args:
        namespaced: the kind.
        limit: on active discovery Jobs.
    """

    def turn(view: View) -> Iterable[Key]:
        return [one.key for one in next_in_line(view, limit) if bool(one.namespace) is namespaced]

    def of_job(change: Change[Job], view: View) -> Iterable[Key]:
        before, after = change.before, change.after
        freed = before is not None and occupies_slot(before) and not (after is not None and occupies_slot(after))
        return turn(view) if freed else ()

    def of_template(change: Change[R], view: View) -> Iterable[Key]:
        left = _since(change.before)
        stands = _since(change.after)
        return turn(view) if left is not None and (stands is None or stands > left) else ()

    def of_namespace(change: Change[Namespace], view: View) -> Iterable[Key]:
        gone = change.after is None or change.after.deleting
        return turn(view) if gone and change.before is not None and not change.before.deleting else ()

    return (
        WakeBy(DISCOVERY_JOBS, of_job),
        WakeBy(TEMPLATES, of_template),
        WakeBy(CLUSTER_TEMPLATES, of_template),
        WakeBy(NAMESPACES, of_namespace),
    )


def _since(obj: Resource | None) -> datetime | None:
    template = obj if isinstance(obj, Template) else None
    return None if template is None else joined(template)
