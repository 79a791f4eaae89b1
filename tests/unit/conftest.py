"""Every plan that a unit test makes is held against the schemas of the API."""

from support.planned_schemas import assert_accepted
from support.planned_writes import watch_plans

watch_plans(assert_accepted)
