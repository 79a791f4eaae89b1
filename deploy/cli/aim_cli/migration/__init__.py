"""Moving from the groups ``aim.silogen.ai`` and ``config.kaiwo.silogen.ai`` to today's (RC-120…RC-148).

`reading` brings the old objects, `mapping` makes today's of them (`models`, `services`, `configs`, `caches` hold the
rules by kind), `settling` compares with what is there, `command` writes and reports. All but `reading` and `command`
are pure functions over plain data.
"""
