#!/usr/bin/env python
"""`/check-size.sh URI` (AR-700); the name is older than the language."""

import sys

from aim_artifacts.downloader.__main__ import main
from aim_artifacts.downloader.ending import end

end(main(["check-size", *sys.argv[1:]]))
