"""How `make docs` makes a site of the pages in this folder."""

from pathlib import Path

project = "AIM Engine"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "AIM Engine"
html_show_sphinx = False
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
# What commands print is shown below them with a language; only commands are for copying.
copybutton_selector = "div.highlight-default pre, div.highlight-sh pre, div.highlight-yaml pre"
myst_heading_anchors = 4
# Links to files of the repository that are no pages; `tests/unit/docs` follows them.
suppress_warnings = ["myst.xref_missing"]
