"""The register tile against sums of products in float64: all epilogues, edges of columns, cuts of taps, both ways of storing."""

import ctypes
import itertools
import math

import numpy as np
import pytest

from flambeau.codegen import expr as ex
from flambeau.codegen import functions as fn
from flambeau.codegen.tiles import register
from flambeau.codegen.tiles.epilogues import MOST, Epilogue, linear, traced
from flambeau.codegen.tiles.register import Register

FILL = 7.0


def words(*values):
    """The struct of arguments: pointers and steps as integers, numbers as float64."""
    found = np.zeros(16 + 4 * MOST, np.int64)
    for k, value in enumerate(values):
        if isinstance(value, float):
            found[k : k + 1].view(np.float64)[0] = value
        else:
            found[k] = value
    return found


def run(tile, a, offsets, terms, b, columns, taps, operands=(), numbers=()):
    """What the tile leaves in a field of FILL, rows by columns, and the whole field.  An operand that is None is the field."""
    wide = register.lanes(tile.dtype) * tile.vectors
    field = np.full((wide, tile.rows + 3) if tile.turned else (tile.rows, wide + 3), FILL, tile.dtype)
    size, offsets = a.itemsize, np.array(offsets, np.int64) * a.itemsize
    result = field.T if tile.turned else field
    reads = [
        (o.ctypes.data, *o.strides[:1], *o.strides[-1:])
        for o in (result if o is None else o for o in operands)
    ]
    given = words(
        a.ctypes.data, a.shape[1] * size, size, offsets.ctypes.data, terms,
        b.ctypes.data, terms * wide * size, wide * size, register.width(),
        field.ctypes.data, field.strides[0], field.strides[0], columns,
        *taps, *[0] * (3 - len(taps)), *numbers, *[0] * (MOST - len(numbers)), *itertools.chain(*reads),
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(register.address(tile))(given.ctypes.data)
    return (field[:, : tile.rows].T if tile.turned else field[:, :wide]), field


LINEAR = list(itertools.product((False, True), repeat=3))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("choice", LINEAR)
def test_linear_epilogues(choice, turned):
    scaled, biased, added = choice
    rng = np.random.default_rng(len(str(choice)))
    tile = Register("float32", 3, 2, (), turned, linear("float32", *choice))
    wide = register.lanes("float32") * 2
    a, b = rng.standard_normal((3, 20), np.float32), rng.standard_normal((20, wide), np.float32)
    bias = rng.standard_normal(wide, np.float32)
    want = a.astype(np.float64) @ b * (2.0 if scaled else 1.0)
    want += (bias if biased else 0.0) + (FILL * (0.5 if scaled else 1.0) if added else 0.0)
    operands = [bias] * biased + [None] * added
    for columns in (wide, wide - 5, 1):
        found, field = run(tile, a, [0], 20, b, columns, [1], operands, (2.0, 0.5))
        np.testing.assert_allclose(found[:, :columns], want[:, :columns], rtol=1e-5, atol=1e-5)
        assert (found[:, columns:] == FILL).all()
        assert (field[:, tile.rows :] == FILL).all() if turned else (field[:, wide:] == FILL).all()


def gelu(x, rows, columns, both, factor):
    x = x * columns + rows
    return x * 0.5 * (1.0 + fn.erf(x * 0.5**0.5)) + both * factor


def clipped(x, rows, columns, both, factor):
    return fn.maximum(x * factor, columns) + rows - both


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("body", [gelu, clipped])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_expression(body, turned, dtype):
    """Short ones, written out, and long ones, in a loop over rows; operands read in every way."""
    rng = np.random.default_rng(3)
    epilogue = traced(body, dtype, ("rows", "columns", "both"), 1)
    assert epilogue.long() == (body is gelu)
    tile, wide = Register(dtype, 3, 2, (), turned, epilogue), register.lanes(dtype) * 2
    a, b = rng.standard_normal((3, 20)).astype(dtype), rng.standard_normal((20, wide)).astype(dtype)
    rows, columns = rng.standard_normal(3).astype(dtype), rng.standard_normal(wide).astype(dtype)
    both = np.asarray(rng.standard_normal((3, wide)), dtype, order="F" if turned else "C")
    sums = a.astype(np.float64) @ b
    if body is gelu:
        x = sums * columns + rows[:, None]
        want = x * 0.5 * (1 + np.vectorize(math.erf)(x * 0.5**0.5)) + both * 1.5
    else:
        want = np.maximum(sums * 1.5, columns) + rows[:, None] - both
    for count in (wide, wide - 1, 2):
        found, _ = run(tile, a, [0], 20, b, count, [1], (rows, columns, both), (1.5,))
        np.testing.assert_allclose(
            found[:, :count], want[:, :count], atol=2e-5 if dtype == "float32" else 1e-13
        )
        assert (found[:, count:] == FILL).all()


def test_epilogues_of_one_text_are_one():
    first, again = (traced(lambda x, y: x + y, "float32", ("rows",)) for _ in range(2))
    assert first == again and hash(first) == hash(again)
    assert register.address(Register("float32", 2, 1, epilogue=first)) == register.address(
        Register("float32", 2, 1, epilogue=again)
    )
    others = [
        traced(lambda x, y: x + y, "float32", ("columns",)),
        traced(lambda x, y: x - y, "float32", ("rows",)),
    ]
    assert first not in others
    assert repr(first) == "Epilogue(add(in0, in1), rows)"
    assert first.continued() == traced(lambda x, y, before: (x + before) + y, "float32", ("rows", "both"))


def test_what_is_no_epilogue():
    with pytest.raises(ValueError, match="columns, rows, both; got 'diagonal'"):
        traced(lambda x, y: x + y, "float32", ("diagonal",))
    with pytest.raises(ValueError, match="takes 8 operands and 8 numbers; got 9 and 0"):
        traced(lambda x, *y: x, "float32", ("both",) * 9)
    with pytest.raises(TypeError, match="of float32 gives bool"):
        traced(lambda x: x > 0.0, "float32")
    with pytest.raises(ValueError, match="of 1 operands and 0 numbers reads in3"):
        Epilogue(ex.input(0, "float32") + ex.input(3, "float32"), ("rows",))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, vectors", [(1, 1), (6, 4), (7, 3), (8, 3), (14, 2), (20, 1)])
@pytest.mark.parametrize("terms", [0, 1, 127, 128, 129, 700])
def test_sizes_and_groups(dtype, rows, vectors, terms):
    rng = np.random.default_rng(terms)
    wide = register.lanes(dtype) * vectors
    a = rng.standard_normal((rows, max(terms, 1))).astype(dtype)
    b = rng.standard_normal((max(terms, 1), wide)).astype(dtype)
    found, _ = run(Register(dtype, rows, vectors), a, [0], terms, b, wide, [1])
    want = a[:, :terms].astype(np.float64) @ b[:terms]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)


def test_cuts_leave_rows_out_of_some_taps():
    rng = np.random.default_rng(0)
    rows, terms, wide = 5, 50, register.lanes("float32") * 2
    tile = Register("float32", rows, 2, ((1, rows), (0, rows), (0, rows - 2)))
    a = rng.standard_normal((rows, 4 * terms), np.float32)
    b = rng.standard_normal((4, terms, wide), np.float32)
    offsets = [0, 2 * terms, terms, 3 * terms]
    found, _ = run(tile, a, offsets, terms, b, wide, [1, 2, 1])
    parts = [a[:, o : o + terms].astype(np.float64) @ b[t] for t, o in enumerate(offsets)]
    parts[0][0], parts[3][rows - 2 :] = 0, 0
    np.testing.assert_allclose(found, sum(parts), rtol=0, atol=5e-5)


def test_grouped_sums_are_nearer_than_one_after_another():
    rng = np.random.default_rng(1)
    a, b = rng.random((1, 1 << 14), np.float32), rng.random((1 << 14, register.lanes("float32")), np.float32)
    found, _ = run(Register("float32", 1, 1), a, [0], a.shape[1], b, b.shape[1], [1])
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
            test_linear_epilogues((True, True, True), turned)
            test_any_expression(gelu, turned, "float32")
        test_sizes_and_groups("float32", 4, 2, 300)
        test_sizes_and_groups("float64", 4, 2, 300)
        test_cuts_leave_rows_out_of_some_taps()
    finally:
        register.lanes.cache_clear()
        register.address.cache_clear()
