"""How `make docs` makes a site of the pages in this folder."""

project = "AIM Engine"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "AIM Engine"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4
# Links to files of the repository that are no pages; `tests/unit/docs` follows them.
suppress_warnings = ["myst.xref_missing"]
