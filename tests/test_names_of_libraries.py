"""What the libraries of tools/libraries.txt look up in PyTorch: nothing that their import needs is missing, and what else is says why."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import flambeau
from flambeau._compat.absent_names import NAMES

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = pathlib.Path(flambeau.__file__).resolve().parent
ROWS = [
    line.split("\t")
    for line in (ROOT / "tests/data/names_of_libraries.tsv").read_text().splitlines()
    if not line.startswith("#")
]

PROGRAM = """
import importlib, json, sys, warnings
import flambeau
flambeau.as_torch()
warnings.simplefilter("ignore")
names, found = json.load(sys.stdin), []
for name in names:
    said, path, (_, *parts) = "", "torch", name.split(".")
    thing = sys.modules["torch"]
    for part in parts:
        path += "." + part
        try:
            thing = getattr(thing, part)
        except AttributeError as by_attribute:
            try:
                thing = importlib.import_module(path)
            except ImportError as by_import:
                said = f"{by_attribute} | {by_import}"
                break
    found.append(said)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers():
    """What a program under the drop-in is told of each name: nothing where it is here."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PACKAGE / "_compat" / "_shim"), str(PACKAGE.parent)]),
    }
    names = [name for name, *_ in ROWS]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(names, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_nothing_is_missing_that_imports_look_up_unguarded(answers):
    assert len(ROWS) > 2000
    missing = {name: answers[name] for name, at_import, _, _ in ROWS if int(at_import) and answers[name]}
    assert not missing


def test_what_modules_lack_is_said_with_its_reason(answers):
    """By attribute or by import.  Python alone speaks of the flat namespaces, in which calls look their functions up."""
    silent = {
        name: said
        for name, said in answers.items()
        if said.startswith("module ")
        and " is not here: " not in said
        and "(docs/" not in said
        and not said.startswith(("module 'torch' ", "module 'torch.nn.functional' "))
    }
    assert not silent


def test_functions_that_only_refuse_are_absent_to_who_asks_first():
    """A program that catches the ImportError has another way, and would call what only refuses."""
    guarded = {
        name.removeprefix("torch.") for name, at_import, under, _ in ROWS if int(under) and not int(at_import)
    }
    refusing = {
        f"{module}.{word}"
        for module, words in NAMES.items()
        for word in words.split()
        if re.fullmatch(r"\w+(\(.*\))?", word)
    }
    assert len(guarded) > 100 and len(refusing) > 30
    assert not guarded & refusing
