"""What is quoted from the log of a process that ended."""

from aim_local.supervision.logs import informative

INFO = '{"level": "info", "message": "at work"}'
WARNING = '{"level": "warning", "message": "odd"}'
ERROR = '{"level": "error", "message": "no way"}'
BROKER = "[7] 2026/01/01 00:00:00.000000 [INF] Server is ready"
BROKER_ERROR = "[7] 2026/01/01 00:00:00.000000 [ERR] disk is full"


def test_complaints_are_quoted_without_the_everyday_lines_between_them() -> None:
    assert informative([INFO, WARNING, INFO, ERROR, INFO]) == [WARNING, ERROR]
    assert informative([BROKER, BROKER_ERROR, BROKER]) == [BROKER_ERROR]


def test_what_is_no_log_record_is_quoted() -> None:
    traceback = ["Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: {}", "{half a rec"]
    assert informative([INFO, *traceback, ""]) == traceback


def test_without_complaints_the_last_three_lines_are_quoted() -> None:
    assert informative([f'{{"level": "info", "message": "{number}"}}' for number in range(9)]) == [
        '{"level": "info", "message": "6"}',
        '{"level": "info", "message": "7"}',
        '{"level": "info", "message": "8"}',
    ]
    assert informative([]) == []
