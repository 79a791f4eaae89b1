"""``python -m aim_artifacts.downloader.check_size <source URI>``: how large is the source? (AR-770…AR-772)"""

import os
import sys

from aim_artifacts.downloader.ending import end
from aim_artifacts.downloader.environment import Environment, termination_path
from aim_artifacts.downloader.failure import DownloadError, write_termination_message
from aim_artifacts.downloader.program import run
from aim_artifacts.downloader.simulation import simulated_size
from aim_artifacts.downloader_contract import ExitCode
from aim_artifacts.source import Source
from controller_runtime import dumps


async def check_size(source: Source, environment: Environment) -> None:
    """Print the size as the very last line, and leave it as termination message (AR-155, AR-156).

    Raises:
        DownloadError: the source cannot be read, or has no size.
    """
    uri = str(source)
    size = simulated_size(os.environ)
    if size is None:
        # Imported here: a simulated size needs no client.
        from aim_artifacts.downloader.sources import list_source  # noqa: PLC0415

        size = (await list_source(source, environment)).size
    if size <= 0:
        raise DownloadError(ExitCode.UNKNOWN, f"the selected files of {uri} have no size; set spec.size")
    result = dumps({"url": uri, "sizeBytes": size})
    write_termination_message(termination_path(os.environ), result)
    sys.stderr.flush()
    print(result.decode(), flush=True)


if __name__ == "__main__":
    end(run(check_size, sys.argv[1:]))
