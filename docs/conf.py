"""The site: ``make docs`` builds it into ``build/docs/html``."""

from __future__ import annotations

import inspect
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.inspect import stringify_signature

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

project = "amforest"
author = "The amforest developers"
copyright = "2026, the amforest developers"  # noqa: A001  # Sphinx's name
release = metadata.version("amforest")
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "llms_text",
]
exclude_patterns = ["examples/*.py", "examples/*.ipynb", "examples/*.json"]
templates_path = ["_templates"]

# Pages: anchors as code hosts make them, and every reference must lead somewhere. In docstrings,
# single backquotes hold any name, of which those with a page become links.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
default_role = "py:obj"
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # a shell's strings of several lines
nitpick_ignore_regex = [("py:.*", ".*")]

autosummary_generate = [str(path) for path in Path(__file__).parent.glob("api/*.rst")]
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 99
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc's sections tell the types
numpydoc_show_class_members = False
numpydoc_use_plots = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/plots",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "min_reported_time": 3600,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "amforest"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = True
html_sidebars: dict[str, list[str]] = {"index": [], "coming_from": [], "get_started": []}
html_theme_options = {
    "header_links_before_dropdown": 7,
    "logo": {"text": "amforest"},
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "coming_from": [], "index": []},
}


def skip_inherited(_app: Any, _what: str, _name: str, member: Any, *skip: Any) -> bool:
    """Leave members that other libraries define to their documentation."""
    function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
    module = getattr(function, "__module__", "amforest") or ""
    return skip[0] or not module.startswith("amforest")


def class_signature(_app: Any, what: str, _name: str, value: Any, *_: Any) -> Any:
    """Show the parameters of `__init__`, where there is a `__new__` that takes any."""
    if what != "class":
        return None
    try:
        signature = inspect.signature(value)
    except ValueError:  # some exceptions have none
        return None
    return stringify_signature(signature, show_annotation=False), None


def describe_constant(
    _app: Any, what: str, name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """Show what is written below a constant, instead of what its type says of itself."""
    if what != "data":
        return
    package, _, constant = name.rpartition(".")
    for module in [key for key in sys.modules if key.startswith(f"{package}.")]:
        if getattr(sys.modules[module], constant, None) is value:
            written = ModuleAnalyzer.for_module(module).find_attr_docs()
            if ("", constant) in written:
                lines[:] = written["", constant]
                return
    raise ExtensionError(f"{name} has no description: write a string below its definition")


def strip_code(_app: Any, document: nodes.document) -> None:
    """Drop the blank line with which the pages end their tested examples."""
    for block in document.findall(nodes.literal_block):
        if block.rawsource == block.astext():
            block.rawsource = block.astext().rstrip()
            block.children = [nodes.Text(block.rawsource)]


def setup(app: Any) -> None:
    """Register what is ours."""
    app.connect("autodoc-process-signature", class_signature)
    app.connect("autodoc-process-docstring", describe_constant)
    app.connect("doctree-read", strip_code)
    app.connect("autodoc-skip-member", skip_inherited)
