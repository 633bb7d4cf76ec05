"""How Sphinx builds the site; `make docs` gathers the pages first (tools/website.py)."""

import flambeau

project = "flambeau"
author = "the flambeau authors"
release = version = str(flambeau.__version__)
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
html_theme = "pydata_sphinx_theme"
html_title = "flambeau"
html_favicon = "_static/flame.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "first_steps", "from_pytorch", "how_it_works", "gallery")}
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
add_function_parentheses = False
python_maximum_signature_line_length = 110
suppress_warnings = [
    "myst.xref_missing",  # pages of the repository link to its files, which are not part of the site
    "misc.highlighting_failure",  # results in examples are not always Python
    "ref.python",  # a class and a function may share a name, as Size and size
]
