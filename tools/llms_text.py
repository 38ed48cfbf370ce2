"""Extension of Sphinx: `llms.txt`, a list of all pages for language models, and pages as text.

A page in Markdown is offered as its source, an example as its script, others as plain text.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder
from sphinx.environment import BuildEnvironment

SUMMARY = """\
# amforest

> Online random forests for streams: each row is learned once, and predictions are available at
> any time. Python with a C++ core; estimators for scikit-learn and river, a command line, a server.

Start with `AdaptiveAMFClassifier` and `AdaptiveAMFRegressor`: they need no scaling and no tuning,
and follow drift. `AMFClassifier` and `AMFRegressor` are the paper's Aggregated Mondrian Forest.
"""


def pages_below(env: BuildEnvironment, name: str) -> list[str]:
    """Return a page and those below it, in the order of the tables of contents."""
    below = env.toctree_includes.get(name, [])
    return [name, *(page for child in below for page in pages_below(env, child))]


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of a page: of a public name, or of the page's first paragraph."""
    section = next(document.findall(nodes.section), document)
    part = next(document.findall(addnodes.desc_content), section)
    paragraph = next((child for child in part.children if isinstance(child, nodes.paragraph)), None)
    text = "" if paragraph is None else " ".join(paragraph.astext().split())
    return re.split(r"(?<=[.?]) ", text)[0].rstrip(":")


def write_text(app: Sphinx, error: Exception | None) -> None:
    """Write `llms.txt`, and beside each page its text."""
    if error is not None or app.builder.format != "html":
        return
    env, out = app.env, Path(app.outdir)
    texts = TextBuilder(app, env)
    texts.prepare_writing(set())
    entries = [SUMMARY]
    for part in env.toctree_includes["index"]:
        entries.append(f"\n## {env.titles[part].astext()}")
        for name in pages_below(env, part):
            document, source = env.get_doctree(name), Path(env.doc2path(name))
            script = source.with_suffix(".py")  # of an example
            source = script if script.exists() else source
            if source.suffix == ".rst":
                texts.write_doc(name, env.get_and_resolve_doctree(name, texts, tags=app.tags))
                target = f"{name}.txt"
            else:
                target = f"{name}{source.suffix}"
                shutil.copyfile(source, out / target)
            about = first_sentence(document)
            # Classes of several modules share a name.
            is_name = name.startswith("api/generated/")
            title = Path(name).name if is_name else env.titles[name].astext()
            entries.append(f"- [{title}]({target}){': ' + about if about else ''}")
    (out / "llms.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", write_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
