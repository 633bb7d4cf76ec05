"""Arguments that operations do not take: the error is of PyTorch's class, and names the operation or an argument."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections import defaultdict

import pytest
from error_calls import CALLS

import flambeau
from flambeau.core.call.errors import ascribe

SCOPE = {
    "t": flambeau,
    "F": flambeau.nn.functional,
    "L": flambeau.linalg,
    "W": flambeau.signal.windows,
    "f": lambda *shape: flambeau.rand(shape),
    "l": lambda *shape: flambeau.zeros(shape, dtype=flambeau.int64),
    "c": lambda *shape: flambeau.complex(flambeau.rand(shape), flambeau.rand(shape)),
    "inf": float("inf"),
    "nan": float("nan"),
}
CLASSES = {c.__name__: c for c in (AttributeError, AssertionError, IndexError, NotImplementedError, RuntimeError,
                                   TypeError, ValueError, ZeroDivisionError)}  # fmt: skip
CLASSES["LinAlgError"] = flambeau.linalg.LinAlgError


def function_of(call: str) -> tuple[str, object] | None:
    """The name of the function that a call calls, and the function; None for operators."""
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute):
        return None
    return tree.func.attr, eval(compile(ast.Expression(tree.func), call, "eval"), SCOPE)


def grouped() -> dict[str, list[tuple[str, str]]]:
    """The calls of each function, with the classes of their errors."""
    found = defaultdict(list)
    for line in CALLS.strip().splitlines():
        error, _, calls = line.partition(": ")
        for call in calls.split(" | "):
            tree = ast.parse(call, mode="eval").body
            name = getattr(getattr(tree, "func", None), "attr", "operators")
            found[name].append((error, call))
    return found


GROUPS = grouped()


def fault_of(error: str, call: str) -> str | None:
    """What is wrong with the error of a call."""
    try:
        eval(call, SCOPE)
    except Exception as e:
        if not isinstance(e, CLASSES[error]):
            return f"{call}: {error} expected, got {type(e).__name__}: {e}"
        function = function_of(call)
        if function is None:
            return None
        name, target = function
        try:
            words = [name.strip("_"), *(p for p in inspect.signature(target).parameters if len(p) > 1)]
        except ValueError:
            words = [name.strip("_")]
        if any(re.search(rf"\b_*{re.escape(w)}s?_*\b", str(e), re.IGNORECASE) for w in words):
            return None
        return f"{call}: neither the operation nor an argument is named: {e}"
    return f"{call}: {error} expected, got none"


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_what_an_operation_does_not_take(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        faults = [fault for fault in (fault_of(*case) for case in GROUPS[name]) if fault]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "text, said",
    [
        ("gather(): index 3 is out of bounds", "loss(): index 3 is out of bounds"),
        ("linalg.inv: A must be square", "loss(): A must be square"),
        ("loss(): too long", "loss(): too long"),
        (
            "index 3 is out of bounds for dimension 0 with size 3",
            "loss(): index 3 is out of bounds for dimension 0 with size 3",
        ),
        ("what a user's function says: no", "what a user's function says: no"),
    ],
)
def test_errors_are_of_the_operation_that_was_called(text, said):
    error = ValueError(text)
    ascribe(error, "loss")
    assert str(error) == said


def test_errors_with_other_arguments_stay():
    error = OSError(2, "no such file")
    ascribe(error, "loss")
    assert error.args == (2, "no such file")
