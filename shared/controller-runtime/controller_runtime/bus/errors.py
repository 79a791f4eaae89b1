"""What goes wrong with the message broker."""


class BusError(Exception):
    """Base of failures of the message broker."""


class BusUnavailableError(BusError):
    """No answer: disconnected, timed out, or nobody serves the subject."""


class BusClosedError(BusError):
    """The connection is closed for good; the process has to start anew."""


class BusSetupError(BusError):
    """The process was given files that it cannot use; the message says which (FW-585)."""


class BusApiError(BusError):
    """The broker refused an API request.

    Attributes:
        code: the broker's error code, such as 10059 (stream not found).
    """

    def __init__(self, subject: str, code: int, text: str) -> None:
        super().__init__(f"{subject}: {text} ({code})")
        self.code = code
