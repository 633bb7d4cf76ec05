"""The examples in docstrings, the README and pages of docs/ run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

MODULES = sorted(m.name for m in pkgutil.walk_packages(flambeau.__path__, "flambeau."))
ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 27,
    "docs/meta.md": 3,
    "docs/extending.md": 26,
    "docs/checkpoints.md": 16,
    "docs/distributed.md": 8,
    "docs/pipelines.md": 15,
    "docs/distributed_tensors.md": 18,
    "docs/graphs.md": 11,
    "docs/formats.md": 24,
    "docs/keeping.md": 22,
    "docs/quantisation.md": 36,
    "docs/export.md": 40,
    "docs/onnx.md": 30,
}  # and at least so many examples in each
FLAGS = doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Examples that write files write them here; a page reads one of the tests' own."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    module = importlib.import_module(name)
    for waiting in list(vars(module).values()):  # doctest asks each for this, which imports what waits
        hasattr(waiting, "__wrapped__")
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0


def test_operations():
    """Operations are objects, which doctest does not look into."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    tried = 0
    for entry in REGISTRY.values():
        text = entry.function.__doc__ or ""
        if ">>>" in text:
            tried += 1
            runner.run(parser.get_doctest(text, {}, entry.name, None, 0))
    assert tried > 5 and runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=FLAGS)
    assert result.attempted >= PAGES[page] and result.failed == 0
