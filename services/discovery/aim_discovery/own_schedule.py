"""Passes whose retry has a schedule of its own (FW-095).

An error that only an effect or a planned attempt can clear is not helped by running the pass again: the fact enqueues
the object. Such a pass looks again when the grace period ends, and otherwise when it planned to.
"""

from dataclasses import replace

from controller_runtime import RETRIED_CATEGORIES, ClassifiedError, Component, Plan, soonest


def on_own_schedule(
    plan: Plan, components: tuple[Component, ...], scheduled: frozenset[str], failure: ClassifiedError | None
) -> Plan:
    """The plan without the general retry, if no error but those of the scheduled components asks for one.

    Args:
        scheduled: names of the components whose errors have a schedule of their own.
        failure: the failed write of the previous plan.
    """
    others = (error for part in components if part.name not in scheduled for error in part.errors)
    soft = [error for error in (failure, *others) if error is not None and error.category in RETRIED_CATEGORIES]
    if plan.retry is None or soft:
        return plan
    return replace(plan, retry=None, retry_within=None, requeue_after=soonest((plan.requeue_after, plan.retry_within)))
