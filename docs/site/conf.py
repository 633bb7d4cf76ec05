"""How Sphinx builds the site; `make docs` gathers the pages first (tools/website.py)."""

from pathlib import Path

from docutils.parsers.rst import directives
from sphinx.domains.python import PyClasslike, PyFunction, PyObject

import flambeau


class _Indexed:
    """In the index by its last name, and where that stands."""

    def add_target_and_index(self, name_cls, sig, signode):
        PyObject.add_target_and_index(self, name_cls, sig, signode)

    def get_index_text(self, modname, name_cls):
        home, _, name = name_cls[0].rpartition(".")
        return (
            f"{name} ({self.objtype} in {home})"
            if home != "flambeau.Tensor"
            else f"{name} (method of {home})"
        )


class Function(_Indexed, PyFunction):
    """A function with other names besides its first: `:also: call ;; call`, each of which is found and linked to."""

    option_spec = {**PyFunction.option_spec, "also": directives.unchanged}

    def get_signatures(self):
        return [*super().get_signatures(), *filter(None, self.options.get("also", "").split(" ;; "))]

    def _toc_entry_name(self, sig_node):
        """On the side of the page by its first name alone."""
        return super()._toc_entry_name(sig_node) if sig_node is sig_node.parent[0] else ""


class Class(_Indexed, PyClasslike):
    """A class or an exception."""


def setup(app):
    for objtype, directive in (("function", Function), ("class", Class), ("exception", Class)):
        app.add_directive_to_domain("py", objtype, directive, override=True)


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
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_split_index = True  # `_templates` leaves out the page of all letters
templates_path = ["_templates"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
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
