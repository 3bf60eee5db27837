"""Sphinx settings. The site works without network: mathematics, fonts and scripts are part of it."""

import sys
from pathlib import Path

import dpem

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dpem"
copyright = "the dpem developers"
author = "the dpem developers"
release = dpem.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "message_catalogue",
    "option_list",
    "sample_report",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # generated pages are .rst
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["tasklist", "dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

# The example gallery: each build executes the scripts in examples/gallery, and writes pages, pictures and
# downloads to docs/auto_examples. A script that fails, fails the build. Nothing is fetched from the network.
# _ext/gallery.py holds the order of the pages and the look of the pictures.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "gallery.Order",
    "reset_modules": ("matplotlib", "gallery.prepare"),
    "run_stale_examples": True,  # dpem may have changed where the script has not
    "capture_repr": (),  # what a page shows is printed
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "dpem"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["dpem.css"]
html_js_files = ["dpem.js"]
html_context = {"default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "development/changelog": []}
html_show_sourcelink = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Privacy"]
nitpicky = False
