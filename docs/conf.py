"""Sphinx settings. Everything builds offline: no theme font, no inventory is fetched."""

import dpem

project = "dpem"
copyright = "the dpem developers"
author = "the dpem developers"
release = dpem.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["tasklist", "dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "dpem"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
nitpicky = False
