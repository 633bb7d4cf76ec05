"""What docstrings state of shapes, dtypes and errors, where it is made from declarations, is what calls do."""

from __future__ import annotations

import inspect

import pytest

import flambeau
from flambeau.operations.declare.documents import facts
from flambeau.operations.declare.registry import REGISTRY

PUBLIC = [e for e in REGISTRY.values() if any("._" not in f".{p}" for p in e.places)]
KNOWN = {e.name: f for e in PUBLIC if (f := facts(e)) is not None}
MADE = {e.name for e in PUBLIC if e.kind in ("pointwise", "reduction", "row", "fallback")}
ENTRIES = sorted(KNOWN)


def call(name, dtype, shape=(2, 3), shapes=None, **given):
    entry, known = REGISTRY[name], KNOWN[name]
    dtype = getattr(flambeau, dtype)
    raw = entry.details.get("raw", ())
    tensors = [
        flambeau.ones((shapes or {}).get(n, shape), dtype=flambeau.bool if n in raw else dtype)
        for n in known.operands
    ]
    if entry.kind == "row":
        given.setdefault("dim", 0)
    parameters = inspect.signature(entry.function).parameters.values()
    given |= {
        p.name: 0.5
        for p in parameters
        if p.default is p.empty and p.kind.name[:3] != "VAR" and p.name not in (*known.operands, *given)
    }
    return entry.function(*tensors, **given)


def first(found):
    return found[0] if isinstance(found, tuple) else found


def test_facts_are_known_of_all_that_declare_them():
    assert len(MADE - set(ENTRIES)) < len(MADE) / 10 and len(ENTRIES) > 100


@pytest.mark.parametrize("name", ENTRIES)
def test_results(name):
    """Shapes and dtypes of results; what takes an example dtype is told of it."""
    known, entry = KNOWN[name], REGISTRY[name]
    for dtype, result in known.results.items():
        found = first(call(name, dtype))
        assert found.dtype == getattr(flambeau, result), (dtype, found.dtype)
        if known.shape == "reduced":
            assert found.shape == ()
            assert first(call(name, dtype, dim=0)).shape == (3,)
            assert first(call(name, dtype, dim=0, keepdim=True)).shape == (1, 3)
        else:
            assert found.shape == (2, 3)
        if known.shape == "broadcast":
            wide = dict(zip(known.operands, [(4, 1), (1, 3)]))
            assert first(call(name, dtype, shapes=wide, shape=(1,))).shape == (4, 3)
    if not entry.differentiable:
        sample = next(d for d in known.results)
        assert not first(call(name, sample)).requires_grad


@pytest.mark.parametrize("name", ENTRIES)
def test_errors(name):
    """Every error that is stated is raised, by what is said to cause it; and dtypes that are not named are refused."""
    known, entry = KNOWN[name], REGISTRY[name]
    some = next(iter(known.results))
    if known.errors.get("kind", (None, ""))[1]:
        with pytest.raises(known.errors["kind"][0]):
            call_with_object(name)
    refused = [d for d in ("bool", "int32", "float32", "complex64") if d not in known.results]
    assert ("dtype" in known.errors) <= bool(refused)
    for dtype in refused:
        with pytest.raises(tuple(error for error, _ in known.errors.values())):
            call(name, dtype)
    if "broadcast" in known.errors:
        wrong = dict(zip(known.operands, [(2,), (3,)]))
        with pytest.raises(known.errors["broadcast"][0]):
            call(name, some, shapes=wrong, shape=(2,))
    if "alpha" in known.errors:
        with pytest.raises(known.errors["alpha"][0]):
            call(name, "int32", alpha=0.5)
    if "dim" in known.errors:
        with pytest.raises(known.errors["dim"][0]):
            call(name, some, dim=2)
    if "empty" in known.errors:
        with pytest.raises(known.errors["empty"][0]):
            call(name, some, shape=(0, 3), dim=0)
        with pytest.raises((RuntimeError, IndexError)):
            call(name, some, shape=(0, 3))
    if "out" in known.errors and known.results.get("float32") == "float32":
        with pytest.raises(known.errors["out"][0]):
            call(name, "float32", out=flambeau.empty((2, 3), dtype=flambeau.int64))
    if "alike" in known.errors:
        odd = min(entry.details.get("computed_by", entry.function).declaration.alike)
        mixed = [
            flambeau.ones(2, dtype=flambeau.float64 if n == odd else flambeau.float32) for n in known.operands
        ]
        with pytest.raises(known.errors["alike"][0]):
            entry.function(*mixed)


def call_with_object(name):
    entry, known = REGISTRY[name], KNOWN[name]
    given = {"dim": 0} if entry.kind == "row" else {}
    parameters = [
        p.name for p in inspect.signature(entry.function).parameters.values() if p.default is p.empty
    ]
    given |= {n: 0.5 for n in parameters if n not in (*known.operands, *given)}
    return entry.function(object(), *[flambeau.ones(2) for _ in known.operands[1:]], **given)


@pytest.mark.parametrize("name", ENTRIES)
def test_sections_are_in_the_docstring(name):
    entry = REGISTRY[name]
    text = inspect.getdoc(entry.function)
    assert text.count("Shape:") == text.count("Raises:") == 1
    own = vars(entry.function)["__doc__"]
    assert len(own) < len(text) and text.startswith(inspect.cleandoc(own).partition("\n")[0])
    before, _, _ = text.partition(">>>")
    assert "Raises:" in before


def test_forms_have_the_docstring_of_their_operation():
    assert flambeau.Tensor.add.__doc__ == flambeau.add.__doc__
    assert (
        "`input` broadcast" not in flambeau.Tensor.add_.__doc__
        and "which stays" in flambeau.Tensor.add_.__doc__
    )
    assert type(flambeau.add).__doc__.startswith("n operands")


def test_a_docstring_may_be_set():
    op = REGISTRY["add"].function
    before = vars(op)["__doc__"]
    try:
        op.__doc__ = "Another."
        assert op.__doc__.startswith("Another.")
    finally:
        op.__doc__ = before
