"""The documentation site's own pages and its reference: examples run, and every operation has its place."""

from __future__ import annotations

import doctest
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import links  # noqa: E402
import long_pages  # noqa: E402
import reference  # noqa: E402
import reference_text  # noqa: E402
import website  # noqa: E402

PAGES = sorted((ROOT / "docs" / "site").glob("*.md"))


@pytest.mark.parametrize("page", [p for p in PAGES if ">>>" in p.read_text()], ids=lambda p: p.stem)
def test_examples_run(page):
    text = page.read_text().replace("```", "")  # the end of a block is no result
    examples = doctest.DocTestParser().get_doctest(text, {}, page.stem, str(page), 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples)
    assert tried > 1 and not failed


# --- the reference ------------------------------
@pytest.fixture(scope="module")
def entries():
    """What has an entry, by each of its names; members of classes are among them."""
    found = {}

    def enter(name):
        for place in name.places:
            assert place not in found, f"{place} has two entries"
            found[place] = name
        for member in name.members:
            enter(member)

    for leaf in reference.pages().values():
        for name in leaf.names:
            enter(name)
    return found


def published():
    """Every name that modules publish, with what stands there."""
    for module in reference.public_modules():
        here = importlib.import_module(module)
        short = module.removeprefix("flambeau").lstrip(".")
        for name in getattr(here, "__all__", ()) if short else vars(here):
            thing = getattr(here, name)
            if not name.startswith("_") and callable(thing) and not reference.is_annotation(thing):
                yield f"{short}.{name}".lstrip("."), thing


def test_every_public_callable_has_its_entry(entries):
    public = dict(published())
    things = {id(name.thing) for name in entries.values()}
    operations = {id(f) for e in REGISTRY.values() for f in (e.function, e.in_place)}
    missing = [p for p, t in public.items() if p not in entries and id(t) not in things | operations]
    assert len(public) > 3000 and not missing


def test_every_public_operation_has_its_place(entries):
    public = {
        p
        for e in REGISTRY.values()
        if callable(e.function)  # a generator is a thing, not a call
        for p in e.places
        if not any(part.startswith("_") for part in p.split("."))
    }
    assert len(public) > 1000 and not public - set(entries)


def test_every_method_and_property_has_its_entry(entries):
    """Of a class itself; of a base with entries of its own it is named, or its class is linked to."""
    tried = 0
    for place, name in list(entries.items()):
        if not inspect.isclass(name.thing) or name.thing.__module__.partition(".")[0] != "flambeau":
            continue
        others = {n for _, names in name.inherited for n in names}
        for attribute, thing in vars(name.thing).items():
            called = callable(thing) or isinstance(thing, (property, staticmethod, classmethod))
            if not attribute.startswith("_") and called and not inspect.isclass(thing):
                tried += 1
                assert f"{place}.{attribute}" in entries or attribute in others, f"{place}.{attribute}"
    assert tried > 1500


def test_all_that_a_tensor_has(entries):
    public = {f"Tensor.{n}" for n in dir(flambeau.Tensor) if not n.startswith("_")}
    assert len(public) > 500 and not public - set(entries)


@pytest.mark.parametrize(
    "name",
    """nn.Linear nn.Linear.forward nn.Module.register_forward_hook optim.Optimizer.add_param_group optim.lr_scheduler.LRScheduler.step
    utils.data.DataLoader distributions.Normal.rsample autograd.Function Generator.manual_seed UntypedStorage.resize_
    utils.trainer.Trainer.run as_torch load Tensor.backward Tensor.add_ nn.functional.relu_ Stream.wait_stream""".split(),
)
def test_names_that_people_look_for(entries, name):
    assert name in entries


@pytest.mark.parametrize(
    "name, page",
    [
        ("exp", "flambeau.elementary"),
        ("eq", "flambeau.comparison"),
        ("cat", "flambeau.indexing"),
        ("sum", "flambeau.reduction"),
        ("nn.functional.conv2d", "nn.functional.convolution"),
        ("nn.Conv2d", "nn.convolution"),
        ("nn.LSTM", "nn.recurrent"),
        ("linalg.svd", "linalg"),
        ("optim.AdamW", "optim"),
    ],
)
def test_groups(name, page):
    found = [k for k, leaf in reference.pages().items() for n in leaf.names if name in n.places]
    assert [k.partition("-")[0] for k in found] == [page]  # which may be cut by initials


def test_old_programs_come_last():
    order = list(reference.pages())
    first = next(i for i, page in enumerate(order) if page.startswith("legacy"))
    assert all(page.startswith("legacy") for page in order[first:])


def test_nothing_is_public_by_accident():
    """What a module imports for itself; `multiprocessing` hands on Python's own, and some other modules a name or two."""
    handed_on = ("multiprocessing", "types", "jit", "utils.benchmark")
    foreign = [
        place
        for place, thing in published()
        if getattr(thing, "__module__", None)
        and not str(thing.__module__).startswith("flambeau")
        and not place.startswith(handed_on)
    ]
    assert not foreign
    assert not [name for name in ("annotations", "Any", "math", "sys", "os") if name in vars(flambeau)]


def test_a_section_has_call_text_and_example():
    entry = REGISTRY["add"]
    name = reference_text.Name(("add", "Tensor.add"), entry.function, "function")
    text = reference_text.section(name)
    assert "{py:function} flambeau.add(input, other" in text and ":also: flambeau.Tensor.add(other" in text
    assert "```pycon\n>>> import flambeau" in text


def test_a_method_without_text_has_that_of_what_it_overrides(entries):
    assert reference_text.docstring(entries["distributions.Normal.log_prob"])
    assert "Inherited from {py:obj}`flambeau.nn.Module`" in reference_text.section(entries["nn.Linear"])


@pytest.mark.parametrize(
    "given, made",
    [
        ("a * b of `x * y` and [z]", "a \\* b of `x * y` and \\[z\\]"),
        ("Args:\n    x: a _thing_\n        more", "**Arguments**\n\n- x: a \\_thing\\_\n  more\n"),
        (">>> 1\n1\n\nend", "```pycon\n>>> 1\n1\n```\n\n\nend"),
    ],
)
def test_docstrings_become_markdown(given, made):
    assert reference_text.markdown(given) == made


_THING = object()


def test_signatures():
    def method(self, x, *, kind=int, also=_THING):
        """Of no class."""

    assert reference_text.signature(object()) == "(...)"
    assert reference_text.signature(method, first=False) == "(x, *, kind=int, also=...)"


# --- links and long pages ------------------------------
def test_no_link_of_the_repository_is_broken():
    assert links.in_markdown(brought=website.brought()) == []


def test_broken_links_are_noticed(tmp_path):
    (tmp_path / "one.md").write_text(
        "# One\n[a](two.md#two) [b](two.md#three) [c](none.md) `[d](code.md)` [e](https://x.org/y)\n"
    )
    (tmp_path / "two.md").write_text("## Two\n[here](#two) [not](#one)\n")
    assert links.in_markdown(tmp_path) == [
        "one.md: no heading two.md#three",
        "one.md: no file none.md",
        "two.md: no heading #one",
    ]
    (tmp_path / "one.html").write_text('<p id="here"><a href="two.html#there">a</a><a href="#here">b</a>')
    (tmp_path / "two.html").write_text('<a href="one.html">a</a><img src="none.png">')
    assert links.in_html(tmp_path) == ["one.html: no place two.html#there", "two.html: no file none.png"]


def test_long_pages_are_cut_at_sections_and_rows():
    row = "| `name` | text |\n"
    text = "# All\n\nSee [b](#b).\n\n" + "## a\n\n| x | y |\n|---|---|\n" + row * 1500 + "\n## b\n\nend\n"
    made = long_pages.cut("page", text)
    assert list(made) == ["page", *(f"page-{n}" for n in range(2, len(made) + 1))] and len(made) > 2
    assert sum(page.count(row) for page in made.values()) == 1500
    assert all(long_pages.weight(page) < 1.1 * long_pages._LIMIT for page in made.values())
    assert f"[b](page-{len(made)}.md#b)" in made["page"] and "| x | y |" in made["page-2"]
    assert long_pages.cut("page", "# Short\n") == {"page": "# Short\n"}
