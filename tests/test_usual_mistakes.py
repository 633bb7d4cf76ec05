"""Errors of usual mistakes: their classes, what they state, and that tracebacks end near the program's line."""

from __future__ import annotations

import traceback
import warnings

import pytest
from usual_mistakes import PRELUDE, mistakes, states

import flambeau

OWN = "<program>"
FEW = 3
EVERY = mistakes()


@pytest.fixture(autouse=True)
def _as_users_have_it(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_TRACEBACK", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(
    ("subject", "error", "facts", "program"), EVERY, ids=[program for *_, program in EVERY]
)
def test_what_an_error_says(subject, error, facts, program):
    scope = {"t": flambeau}
    exec(compile(PRELUDE, OWN, "exec"), scope)
    with pytest.raises(Exception) as caught:
        exec(compile(program, OWN, "exec"), scope)
    assert error in [c.__name__ for c in type(caught.value).__mro__]
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert [fact for fact in facts if not states(text, fact)] == [], text
    behind = [
        x.filename
        for x in traceback.extract_tb(caught.value.__traceback__)
        if x.filename not in (OWN, __file__)
    ]
    assert len(behind) <= FEW, behind


def test_there_are_many_and_none_twice():
    programs = [program for *_, program in EVERY]
    assert len(programs) >= 120 and len(set(programs)) == len(programs)


def test_attributes_that_are_no_names_give_python_what_it_needs_to_suggest_one():
    """Python says "Did you mean" of errors that have a name and an object, where it prints them."""
    for room, name in (
        ("nn", "Liner"),
        ("optim", "Adm"),
        ("nn.functional", "rellu"),
        ("utils.data", "DataLoadr"),
    ):
        module = flambeau
        for part in room.split("."):
            module = getattr(module, part)
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert (caught.value.name, caught.value.obj) == (name, module)
    with pytest.raises(AttributeError) as caught:
        flambeau.ones(2).sofmax()
    assert (
        caught.value.name == "sofmax" and len(dir(caught.value.obj)) < 750
    )  # the most that Python looks through
