"""How `make docs` makes a site of the pages in this folder."""

import os
from pathlib import Path

from controller_runtime import __version__

project = "AIM Engine"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build", "_templates", "_static"]
html_theme = "furo"
html_title = f"AIM Engine {__version__}"
version = release = __version__
templates_path = ["_templates"]
html_static_path = ["_static"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html"),
        *("sidebar/versions.html", "sidebar/navigation.html", "sidebar/scroll-end.html"),
    ]
}
# A link from each page to its source: make docs REPOSITORY=https://github.com/owner/name.
_REPOSITORY = os.environ.get("AIM_DOCS_REPOSITORY")
if _REPOSITORY:
    html_theme_options = {
        "source_repository": _REPOSITORY,
        "source_branch": "main",
        "source_directory": "docs/",
    }
html_show_sphinx = False
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
# What commands print is shown below them with a language; only commands are for copying.
copybutton_selector = "div.highlight-default pre, div.highlight-sh pre, div.highlight-yaml pre"
myst_heading_anchors = 4
# Links to files of the repository that are no pages; `tests/unit/docs` follows them.
suppress_warnings = ["myst.xref_missing"]
