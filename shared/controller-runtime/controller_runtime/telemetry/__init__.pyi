# What others may rely on. The names are loaded when they are first used.
from .catalogue import FRAMEWORK_METRICS as FRAMEWORK_METRICS
from .catalogue import Metric as Metric
from .catalogue import MetricKind as MetricKind
from .logs import LogFormat as LogFormat
from .logs import LogLevel as LogLevel
from .logs import configure_logs as configure_logs
from .tracing import exporting as exporting
from .tracing import root_span as root_span
