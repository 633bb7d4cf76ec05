"""Every operation by every dtype: it takes those that its declaration says, and refuses the others before it computes anything."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from dtype_calls import DTYPES, WITHOUT, Typed, calls, in_dtype, of_whole, public
from samples import REGISTRY

from flambeau.operations.declare.dtype_groups import COMPLEX, FLOATING, INTEGRAL

ENTRIES = [entry for entry in REGISTRY.values() if calls(entry)]
REFUSED = (RuntimeError, TypeError, ValueError)  # NotImplementedError is the first of them
# Results in NumPy that are of another dtype by its own rules: ints where PyTorch keeps the operands' dtype, or the other way round.
OWN_RULES = frozenset(
    """sign sum prod nansum cumsum cumprod trace float_power vdot diff cov corrcoef reciprocal heaviside square
    conj_physical""".split()
)


def name_of(entry) -> str:
    return entry.name


def test_every_public_operation_says_its_dtypes():
    public = [e for e in REGISTRY.values() if e.places]
    assert [e.name for e in public if e.dtypes is None] == []
    assert [e.name for e in public if not e.dtypes <= set(DTYPES)] == []


def test_every_public_operation_is_called():
    assert {e.name for e in REGISTRY.values() if public(e) and not calls(e)} == WITHOUT


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_it_takes_what_it_says_and_refuses_the_rest(entry):
    for dtype in DTYPES:
        found, errors = [], []
        for text in calls(entry):
            try:
                found.append(in_dtype(entry, text, dtype))
            except REFUSED as error:
                errors.append(error)
        if dtype in entry.dtypes:
            assert found, f"{dtype}: {errors}"
            continue
        assert not found, f"{dtype} is computed, and not said"
        for error in errors:
            assert says_why(str(error), dtype), f"{dtype}: {type(error).__name__}: {error}"


def says_why(text: str, dtype: str) -> bool:
    """Whether an error names the dtype, in this library's words or in PyTorch's, or the kind of dtypes that it is of."""
    theirs = {
        "bool": "Bool",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "float32": "Float",
        "float64": "Double",
    }
    kinds = {
        "integral": INTEGRAL,
        "integer": INTEGRAL,
        "complex": COMPLEX,
        "real": COMPLEX,
        "float": FLOATING | INTEGRAL,
    }
    return (
        dtype in text
        or theirs.get(dtype, dtype) in text
        or any(dtype in k and w in text for w, k in kinds.items())
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_dtypes_of_results_are_numpys(dtype):
    """Of what has a function in NumPy: the same kind of dtype; where NumPy widens integers to float64 it is the default dtype."""
    wrong, compared = [], 0
    for entry in ENTRIES:
        module, _, name = (entry.reference or "").rpartition(".")
        if (
            module != "numpy"
            or dtype not in entry.dtypes
            or entry.name in OWN_RULES
            or entry.kind not in ("pointwise", "composite")
        ):
            continue
        text = calls(entry)[0]
        operands = Typed(dtype, of_whole(entry.name, text))
        try:
            found = in_dtype(entry, text, dtype)[0].dtype.name
            with np.errstate(all="ignore"):
                arrays = [operands[n.strip()].numpy() for n in text.split(",")]
                expected = np.asarray(getattr(importlib.import_module(module), name)(*arrays)).dtype
        except (TypeError, ValueError, KeyError, NotImplementedError):
            continue  # of another form, or NumPy has no such
        if np.dtype(dtype).kind in "biu" and expected.kind == "f":
            expected = np.dtype("float32")
        compared += 1
        if found != expected.name:
            wrong.append((entry.name, found, expected.name))
    assert wrong == []
    assert compared > 20
