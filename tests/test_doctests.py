"""The examples in docstrings and in the README run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

MODULES = sorted(m.name for m in pkgutil.walk_packages(flambeau.__path__, "flambeau."))
README = Path(__file__).parents[1] / "README.md"
FLAGS = doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    module = importlib.import_module(name)
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


def test_readme():
    result = doctest.testfile(str(README), module_relative=False, optionflags=FLAGS)
    assert result.attempted > 8 and result.failed == 0
