"""The register tile against sums of products in float64: all epilogues, edges of columns, cuts of taps, both ways of storing."""

import ctypes
import itertools

import numpy as np
import pytest

from flambeau.codegen.tiles import register
from flambeau.codegen.tiles.register import Epilogue, Register

FILL = 7.0


def words(*values):
    """The struct of arguments: pointers and steps as integers, alpha and beta as float64."""
    found = np.zeros(24, np.int64)
    for k, value in enumerate(values):
        if isinstance(value, float):
            found[k : k + 1].view(np.float64)[0] = value
        else:
            found[k] = value
    return found


def run(tile, a, offsets, terms, b, columns, bias, taps):
    """What the tile leaves in a field of FILL, rows by columns, and the whole field."""
    wide = register.lanes(tile.dtype) * tile.vectors
    field = np.full((wide, tile.rows + 3) if tile.turned else (tile.rows, wide + 3), FILL, tile.dtype)
    size, offsets = a.itemsize, np.array(offsets, np.int64) * a.itemsize
    given = words(
        a.ctypes.data, a.shape[1] * size, size, offsets.ctypes.data, terms,
        b.ctypes.data, terms * wide * size, wide * size, register.width(),
        field.ctypes.data, field.strides[0], field.strides[0], columns, 2.0, 0.5,
        bias.ctypes.data, field.ctypes.data, field.strides[0], field.strides[0], *taps,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(register.address(tile))(given.ctypes.data)
    return (field[:, : tile.rows].T if tile.turned else field[:, :wide]), field


def wanted(tile, sums, bias):
    e = tile.epilogue
    found = sums * (2.0 if e.scaled else 1.0)
    if e.bias:
        found = found + (bias[: sums.shape[1]] if e.bias == "columns" else bias[: sums.shape[0], None])
    if e.other:
        found = found + FILL * (0.5 if e.scaled else 1.0)
    return np.maximum(found, 0) if e.activation == "relu" else found


EPILOGUES = [
    Epilogue(*choice)
    for choice in itertools.product((False, True), ("", "columns", "rows"), (False, True), ("", "relu"))
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(epilogue, turned):
    rng = np.random.default_rng(len(str(epilogue)))
    tile = Register("float32", 3, 2, (), turned, epilogue)
    wide = register.lanes("float32") * 2
    a, b = rng.standard_normal((3, 20), np.float32), rng.standard_normal((20, wide), np.float32)
    bias = rng.standard_normal(wide, np.float32)
    for columns in (wide, wide - 5, 1):
        found, field = run(tile, a, [0], 20, b, columns, bias, [1])
        want = wanted(tile, a.astype(np.float64) @ b, bias)
        np.testing.assert_allclose(found[:, :columns], want[:, :columns], rtol=1e-5, atol=1e-5)
        assert (found[:, columns:] == FILL).all()
        assert (field[:, tile.rows :] == FILL).all() if turned else (field[:, wide:] == FILL).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, vectors", [(1, 1), (6, 4), (7, 3), (8, 3), (14, 2), (20, 1)])
@pytest.mark.parametrize("terms", [0, 1, 127, 128, 129, 700])
def test_sizes_and_groups(dtype, rows, vectors, terms):
    rng = np.random.default_rng(terms)
    wide = register.lanes(dtype) * vectors
    a = rng.standard_normal((rows, max(terms, 1))).astype(dtype)
    b = rng.standard_normal((max(terms, 1), wide)).astype(dtype)
    found, _ = run(Register(dtype, rows, vectors), a, [0], terms, b, wide, b, [1])
    want = a[:, :terms].astype(np.float64) @ b[:terms]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)


def test_cuts_leave_rows_out_of_some_taps():
    rng = np.random.default_rng(0)
    rows, terms, wide = 5, 50, register.lanes("float32") * 2
    tile = Register("float32", rows, 2, ((1, rows), (0, rows), (0, rows - 2)))
    a = rng.standard_normal((rows, 4 * terms), np.float32)
    b = rng.standard_normal((4, terms, wide), np.float32)
    offsets = [0, 2 * terms, terms, 3 * terms]
    found, _ = run(tile, a, offsets, terms, b, wide, b, [1, 2, 1])
    parts = [a[:, o : o + terms].astype(np.float64) @ b[t] for t, o in enumerate(offsets)]
    parts[0][0], parts[3][rows - 2 :] = 0, 0
    np.testing.assert_allclose(found, sum(parts), rtol=0, atol=5e-5)


def test_grouped_sums_are_nearer_than_one_after_another():
    rng = np.random.default_rng(1)
    a, b = rng.random((1, 1 << 14), np.float32), rng.random((1 << 14, register.lanes("float32")), np.float32)
    found, _ = run(Register("float32", 1, 1), a, [0], a.shape[1], b, b.shape[1], b, [1])
    exact = a.astype(np.float64) @ b
    plain = np.cumsum(a[0][:, None] * b, axis=0, dtype=np.float32)[-1]
    assert np.abs(found - exact).max() < np.abs(plain - exact).max() / 4


@pytest.mark.parametrize("bytes_wide", [16, 32])
def test_narrower_registers(bytes_wide, monkeypatch):
    """What a processor without AVX-512 computes, on this one."""
    register.lanes.cache_clear()
    monkeypatch.setattr(register, "width", lambda: bytes_wide)
    try:
        for turned in (False, True):
            test_epilogues(Epilogue(True, "columns", True, "relu"), turned)
        test_sizes_and_groups("float32", 4, 2, 300)
        test_sizes_and_groups("float64", 4, 2, 300)
        test_cuts_leave_rows_out_of_some_taps()
    finally:
        register.lanes.cache_clear()
        register.address.cache_clear()
