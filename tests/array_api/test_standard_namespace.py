"""What the namespace has, which signatures, and its dtypes."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys

import numpy as np
import pytest
from standard_arrays import ALL, COMPLEXES, INTEGERS, NUMERIC, REALS, kind, xp

import flambeau

ELEMENTS = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
    greater_equal hypot imag isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round
    sign signbit sin sinh sqrt square subtract tan tanh trunc"""
SIGNATURES = {
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "meshgrid": "*arrays, indexing='xy'",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "can_cast": "from_, to, /",
    "finfo": "type, /",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "result_type": "*arrays_and_dtypes",
    "clip": "x, /, min=None, max=None",
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    "matmul": "x1, x2, /",
    "matrix_transpose": "x, /",
    "tensordot": "x1, x2, /, *, axes=2",
    "vecdot": "x1, x2, /, *, axis=-1",
    "broadcast_arrays": "*arrays",
    "broadcast_to": "x, /, shape",
    "concat": "arrays, /, *, axis=0",
    "expand_dims": "x, /, axis=0",
    "flip": "x, /, *, axis=None",
    "moveaxis": "x, source, destination, /",
    "permute_dims": "x, /, axes",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "roll": "x, /, shift, *, axis=None",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "tile": "x, repetitions, /",
    "unstack": "x, /, *, axis=0",
    "argmax": "x, /, *, axis=None, keepdims=False",
    "argmin": "x, /, *, axis=None, keepdims=False",
    "count_nonzero": "x, /, *, axis=None, keepdims=False",
    "nonzero": "x, /",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "where": "condition, x1, x2, /",
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), "x, /"),
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    **dict.fromkeys(("max", "min", "mean", "all", "any"), "x, /, *, axis=None, keepdims=False"),
    **dict.fromkeys(("prod", "sum"), "x, /, *, axis=None, dtype=None, keepdims=False"),
    **dict.fromkeys(("std", "var"), "x, /, *, axis=None, correction=0.0, keepdims=False"),
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "linalg.cholesky": "x, /, *, upper=False",
    "linalg.cross": "x1, x2, /, *, axis=-1",
    **dict.fromkeys(("linalg.det", "linalg.eigh", "linalg.eigvalsh", "linalg.inv", "linalg.slogdet"), "x, /"),
    "linalg.diagonal": "x, /, *, offset=0",
    "linalg.matmul": "x1, x2, /",
    "linalg.matrix_norm": "x, /, *, keepdims=False, ord='fro'",
    "linalg.matrix_power": "x, n, /",
    "linalg.matrix_rank": "x, /, *, rtol=None",
    "linalg.matrix_transpose": "x, /",
    "linalg.outer": "x1, x2, /",
    "linalg.pinv": "x, /, *, rtol=None",
    "linalg.qr": "x, /, *, mode='reduced'",
    "linalg.solve": "x1, x2, /",
    "linalg.svd": "x, /, *, full_matrices=True",
    "linalg.svdvals": "x, /",
    "linalg.tensordot": "x1, x2, /, *, axes=2",
    "linalg.trace": "x, /, *, offset=0, dtype=None",
    "linalg.vecdot": "x1, x2, /, *, axis=-1",
    "linalg.vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
    **{
        f"fft.{n}": "x, /, *, n=None, axis=-1, norm='backward'"
        for n in "fft ifft rfft irfft hfft ihfft".split()
    },
    **{f"fft.{n}": "x, /, *, s=None, axes=None, norm='backward'" for n in "fftn ifftn rfftn irfftn".split()},
    **{f"fft.{n}": "n, /, *, d=1.0, dtype=None, device=None" for n in ("fftfreq", "rfftfreq")},
    **{f"fft.{n}": "x, /, *, axes=None" for n in ("fftshift", "ifftshift")},
}
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
    greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal pow remainder subtract""".split()
for name in ELEMENTS.split():
    SIGNATURES.setdefault(name, "x1, x2, /" if name in TWO else "x, /")
CONSTANTS = {
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
    "fft",
    "linalg",
    "__array_api_version__",
    "__array_namespace_info__",
}


def at(name: str):
    found = xp
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    without = [p.replace(annotation=p.empty) for p in inspect.signature(at(name)).parameters.values()]
    assert str(inspect.Signature(without)) == f"({SIGNATURES[name]})"
    assert at(name).__name__ == name.rpartition(".")[2]
    assert at(name).__doc__


def test_all_names_and_no_others():
    assert {*xp.__all__} == {n for n in SIGNATURES if "." not in n} | CONSTANTS | {*ALL}
    for extension in ("linalg", "fft"):
        assert {*getattr(xp, extension).__all__} == {
            n.partition(".")[2] for n in SIGNATURES if n.startswith(extension + ".")
        }
    assert xp.newaxis is None and xp.inf == float("inf") and xp.nan != xp.nan
    assert (xp.pi, xp.e) == (np.pi, np.e)


def test_versions():
    x = flambeau.ones(2)
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is xp
    for wrong in ("2019.10", "2030.12", "", 2024.12):
        with pytest.raises(ValueError, match="version"):
            x.__array_namespace__(api_version=wrong)
    assert xp.__array_api_version__ == "2024.12"
    assert flambeau.nn.Parameter(x).__array_namespace__() is xp


def test_the_namespace_comes_with_the_first_question():
    program = """
import sys, flambeau
assert not [m for m in sys.modules if m.startswith("flambeau._array_api")]
assert flambeau.ones(1).__array_namespace__().__name__ == "flambeau._array_api"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_devices_of_arrays():
    x = flambeau.ones(2)
    assert x.device == flambeau.device("cpu")
    assert x.to_device("cpu") is x
    assert x.to_device(flambeau.device("meta")).device.type == "meta"
    with pytest.raises(RuntimeError):
        x.to_device("nowhere")
    with pytest.raises(TypeError):
        x.to_device(device="cpu")
    for made in (xp.zeros(2, device="meta"), xp.asarray(x, device="meta"), xp.arange(3, device="meta")):
        assert made.device.type == "meta"
    assert xp.asarray(xp.zeros(2, device="meta")).device.type == "meta"
    assert xp.astype(x, xp.int8, device="meta").device.type == "meta"


def test_info():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() == flambeau.device("cpu")
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert info.default_dtypes(device="cpu") == info.default_dtypes()
    assert info.dtypes() == {name: getattr(xp, name) for name in ALL}
    assert {*info.dtypes(kind="unsigned integer")} == {"uint8", "uint16", "uint32", "uint64"}
    assert {*info.dtypes(kind=("bool", "complex floating"), device="cpu")} == {"bool", *COMPLEXES}
    assert info.dtypes(kind=()) == {}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="floating")
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert info.default_dtypes()["complex floating"] == xp.complex128
        assert xp.result_type(xp.int8, 1.0) == xp.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)


KINDS = {
    "bool": {"bool"},
    "signed integer": {*INTEGERS[:4]},
    "unsigned integer": {*INTEGERS[4:]},
    "integral": {*INTEGERS},
    "real floating": {*REALS},
    "complex floating": {*COMPLEXES},
    "numeric": {*NUMERIC},
}


def test_kinds_of_dtypes():
    for dtype, (name, members) in itertools.product(ALL, KINDS.items()):
        assert xp.isdtype(getattr(xp, dtype), name) is (dtype in members)
        assert xp.isdtype(getattr(xp, dtype), (name, xp.bool)) is (dtype in members or dtype == "bool")
    assert xp.isdtype(xp.int8, xp.int8) and not xp.isdtype(xp.int8, xp.int16) and not xp.isdtype(xp.int8, ())
    assert not xp.isdtype(flambeau.float16, "real floating")  # the standard has two
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.int8, "integer")
    for wrong in ((xp.int8, 3), ("int8", "numeric"), (xp.int8, None), (xp.int8, ["bool"])):
        with pytest.raises(TypeError):
            xp.isdtype(*wrong)


@pytest.mark.parametrize("a", ALL)
def test_promotion(a):
    """Of dtypes and of arrays of any shape, as NumPy's where the standard has a rule."""
    for b in ALL:
        if kind(a) != kind(b):
            continue
        wanted = np.result_type(a, b).name
        if "float" in wanted and kind(a) == "integer":  # uint64 and a signed one
            with pytest.raises(TypeError, match="no common integer dtype"):
                xp.result_type(getattr(xp, a), getattr(xp, b))
            assert not xp.can_cast(getattr(xp, a), getattr(xp, b))
            continue
        for x, y in itertools.product(
            *(
                [getattr(xp, n), xp.ones((), dtype=getattr(xp, n)), xp.ones(2, dtype=getattr(xp, n))]
                for n in (a, b)
            )
        ):
            assert xp.result_type(x, y) == getattr(xp, wanted)
        assert xp.can_cast(getattr(xp, a), getattr(xp, b)) is (wanted == b)
        assert xp.can_cast(xp.ones(2, dtype=getattr(xp, a)), getattr(xp, b)) is (wanted == b)


def test_promotion_with_numbers():
    for a in ALL:
        x = xp.ones(2, dtype=getattr(xp, a))
        number = {"bool": True, "integer": 3, "floating": 3.0}[kind(a)]
        assert xp.result_type(x, number) == xp.result_type(number, x, number) == x.dtype
    assert xp.result_type(xp.float64, 1j) == xp.complex128 and xp.result_type(xp.float32, 1j) == xp.complex64
    assert xp.result_type(xp.float32, 1) == xp.float32
    assert xp.result_type(1, 2.0) == xp.float32
    assert xp.result_type(xp.int8, xp.uint8, xp.int32) == xp.int32
    for wrong in ("float32", None, [1.0]):
        with pytest.raises(TypeError, match="result_type"):
            xp.result_type(xp.int8, wrong)
    with pytest.raises(ValueError, match="at least one"):
        xp.result_type()


def test_limits():
    for dtype in REALS + COMPLEXES:
        wanted = np.finfo(dtype)
        for given in (getattr(xp, dtype), xp.ones(2, dtype=getattr(xp, dtype))):
            found = xp.finfo(given)
            for name in ("eps", "max", "min", "smallest_normal"):
                assert (
                    getattr(found, name) == float(getattr(wanted, name))
                    and type(getattr(found, name)) is float
                )
            assert found.bits == wanted.bits and found.dtype == getattr(xp, wanted.dtype.name)
    for dtype in INTEGERS:
        found, wanted = xp.iinfo(xp.ones(2, dtype=getattr(xp, dtype))), np.iinfo(dtype)
        assert (found.bits, found.min, found.max) == (wanted.bits, wanted.min, wanted.max)
        assert found.dtype == getattr(xp, dtype)
    with pytest.raises(TypeError):
        xp.finfo(xp.int8)
    with pytest.raises(TypeError):
        xp.iinfo(xp.float32)


def test_casts():
    for a, b in itertools.product(ALL, repeat=2):
        x = xp.asarray([0, 1, 2], dtype=getattr(xp, a))
        if a in COMPLEXES and b not in COMPLEXES:
            with pytest.raises(TypeError, match="complex"):
                xp.astype(x, getattr(xp, b))
            continue
        np.testing.assert_array_equal(xp.astype(x, getattr(xp, b)).numpy(), x.numpy().astype(b))
    x = xp.ones(2)
    assert xp.astype(x, xp.float32) is not x and xp.astype(x, xp.float32, copy=False) is x
    changed = xp.astype(x, xp.float32)
    changed += 1
    assert x.tolist() == [1, 1]
