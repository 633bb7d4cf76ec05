"""The documentation site's own pages and its reference: examples run, and every operation has its place."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

from flambeau.operations.declare.registry import REGISTRY

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import reference  # noqa: E402

PAGES = sorted((ROOT / "docs" / "site").glob("*.md"))


@pytest.mark.parametrize("page", [p for p in PAGES if ">>>" in p.read_text()], ids=lambda p: p.stem)
def test_examples_run(page):
    text = page.read_text().replace("```", "")  # the end of a block is no result
    examples = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert tried > 1 and not failed


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def test_every_public_operation_has_its_place(pages):
    told = {place for _, names in pages.values() for name in names for place in name.places}
    public = {
        p
        for e in REGISTRY.values()
        if callable(e.function)  # a generator is a thing, not a call
        for p in e.places
        if not any(part.startswith("_") for part in p.split("."))
    }
    assert len(public) > 1000 and not public - told


@pytest.mark.parametrize(
    "name",
    [
        "nn.Linear",
        "optim.AdamW",
        "utils.data.DataLoader",
        "autograd.Function",
        "distributions.Normal",
        "as_torch",
        "load",
    ],
)
def test_classes_and_functions_have_their_place(pages, name):
    assert [k for k, (_, names) in pages.items() for n in names if name in n.places] != []


def test_a_section_has_call_text_and_example():
    entry = REGISTRY["add"]
    text = reference.section(reference.Name(("add", "Tensor.add"), entry.function, "function"))
    assert text.startswith("`````{py:function} flambeau.add(input") and "flambeau.Tensor.add" in text
    assert "```pycon\n>>> import flambeau" in text


@pytest.mark.parametrize(
    "given, made",
    [
        ("a * b of `x * y` and [z]", "a \\* b of `x * y` and \\[z\\]"),
        ("Args:\n    x: a _thing_\n        more", "**Arguments**\n\n- x: a \\_thing\\_\n  more\n"),
        (">>> 1\n1\n\nend", "```pycon\n>>> 1\n1\n```\n\n\nend"),
    ],
)
def test_docstrings_become_markdown(given, made):
    assert reference.markdown(given) == made


def test_what_has_no_signature_is_shown_without():
    assert reference.signature(object()) == "(…)"
