"""Products by weights of few bits: integers of eight or four bits, or four-bit quantiles, with scales.

A weight stays in its codes.  For few rows a tile dequantises it in registers (`codegen/tiles/quantised.py`), which reads an eighth or a
quarter of what a float weight takes; for many rows blocks of columns are dequantised, as many as the cache holds, and multiplied as
floats.  Sums are made in float32.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ...codegen.tiles import kernels
from ...codegen.tiles import quantised as tiles
from ...codegen.tiles import quantised_integers as integers
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.lib.layers.bags import run
from ...core.lib.layers.coded import FewRows
from ...core.make.create import empty
from ...core.make.literal import tensor
from ...core.places.join import cat
from ..declare import machine
from ..declare.registry import leaf, library

GROUPS = (32, 64, 128, 256)  # terms of a group of four-bit codes, as PyTorch has them
CODED = {  # the dtypes of codes
    "int8": "int8",
    "float8": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int4": "uint8",
    "nf4": "uint8",
}
WHOLE = ("int8", "float8", "float8_e5m2")  # codes of eight bits, with a scale for each row
FEW = 16  # rows for which a weight is dequantised in registers
CACHED = 1 << 20  # bytes of a block of columns that are dequantised together
NANOSECONDS_A_BYTE = 0.06  # of codes
_FLOATS = ("float32", "bfloat16", "float16")


class Weight(NamedTuple):
    """A weight (n, k) in codes: `group` terms have a scale together."""

    codes: TensorBase
    scales: TensorBase
    kind: str
    group: int
    n: int
    k: int


@functools.cache
def _kernel(kind: type[tiles.Product] | type[tiles.Unpacked], dtype: str, codes: str) -> int:
    return machine.address(kind(dtype, codes, kernels.registers().bytes // 4))


@functools.cache
def _integers(dtype: str, group: int) -> tuple[int, int, int]:
    """Bytes of a vector of codes, and kernels that split rows and multiply them; zeros where products by floats are faster."""
    register = kernels.registers().bytes
    length = integers.vector_bytes(group, register)
    if length == 0:
        return 0, 0, 0
    split = machine.address(integers.Digits(dtype, length, register // 4))
    return length, split, machine.address(integers.Product(dtype, length, integers.has_vnni(length)))


@functools.cache
def few_rows(dtype: str, kind: str, group: int) -> tuple[FewRows, FewRows]:
    """What multiplies few rows of that dtype by codes of a kind, and, by floats, rows that it refuses; `group` is 0 for all terms."""
    stored = empty(0, dtype=by_name[CODED[kind]])
    packed, together = 1 if kind in WHOLE else 2, 2 if kind == "int4" else 1
    given = empty(0, dtype=by_name[dtype]), stored, packed, group, together
    multiply = _kernel(tiles.Product, dtype, kind)
    floats = FewRows(*given, 0, 0, 0, multiply, tiles.COLUMNS, NANOSECONDS_A_BYTE, FEW)
    length, split, multiply = _integers(dtype, group) if kind == "int4" else (0, 0, 0)
    if not length:
        return floats, floats
    return FewRows(
        *given, length, integers.DIGITS, split, multiply, integers.COLUMNS, NANOSECONDS_A_BYTE / 2, FEW
    ), floats


def _tiled(x: TensorBase, w: Weight) -> TensorBase:
    """x (m, k) by the transposed weight, for few rows."""
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    first, floats = few_rows(x.dtype.name, w.kind, 0 if w.kind in WHOLE else w.group)
    result = first(x, w.codes, w.scales)
    if result is None and x.shape[0] > 1:  # a row is not finite, or too near to zero
        return cat([_tiled(row, w) for row in x.split(1)])
    return floats(x, w.codes, w.scales) if result is None else result


def dequantised(w: Weight) -> TensorBase:
    """A weight as float32, (n, k)."""
    if w.codes.device.type != "cpu":
        return _by_operations(w)
    result = w.scales.new_empty((w.n, w.k), dtype=by_name["float32"])
    kernel = _kernel(tiles.Unpacked, w.scales.dtype.name, w.kind)
    run(kernel, (result, w.codes, w.scales), (w.n, w.k, w.group), w.n, w.k / 4)
    return result


def _by_operations(w: Weight) -> TensorBase:
    """The same, by operations that all devices have."""
    wide = by_name["float32"]
    if w.kind in WHOLE:
        return w.codes.to(wide) * w.scales.to(wide).unsqueeze(1)
    blocks = w.codes.reshape(w.n, w.k // tiles.BLOCK, 1, tiles.BLOCK // 2)
    codes = cat((blocks & 15, blocks >> 4), 2).reshape(w.n, w.k // w.group, w.group)
    if w.kind == "nf4":
        table = tensor(tiles.NF4, dtype=wide, device=w.codes.device)
        return (table[codes.long()] * w.scales.to(wide).t().unsqueeze(2)).reshape(w.n, w.k)
    scale, zero = (w.scales.to(wide).select(2, i).t().unsqueeze(2) for i in (0, 1))
    return ((codes.to(wide) - 8.0) * scale + zero).reshape(w.n, w.k)


def _columns(w: Weight, first: int, end: int) -> Weight:
    """Some of a weight's columns."""
    n = end - first
    scales = w.scales.narrow(0 if w.kind in WHOLE else 1, first, n).contiguous()
    return w._replace(codes=w.codes.narrow(0, first, n), scales=scales, n=n)


def product(x: TensorBase, w: Weight) -> TensorBase:
    """x (m, k) by the transposed weight: (m, n), in x's dtype."""
    if 0 in (x.shape[0], w.n, w.k):
        return x.new_zeros((x.shape[0], w.n))
    if x.shape[0] <= FEW and x.device.type == "cpu":
        return _tiled(x, w)
    block = max(tiles.COLUMNS, CACHED // (4 * w.k))
    wide = x.to(by_name["float32"])
    blocks = (_columns(w, j, min(j + block, w.n)) for j in range(0, w.n, block))
    return cat([wide @ dequantised(b).t() for b in blocks], 1).to(x.dtype)


def _check(who: str, x: TensorBase, **named: TensorBase) -> None:
    if x.ndim != 2:
        raise RuntimeError(f"{who}(): expected a matrix, got shape {list(x.shape)}")
    if x.dtype.name not in _FLOATS:
        raise RuntimeError(f"{who}(): expected a float32, bfloat16 or float16 matrix, got {x.dtype}")
    for name, t in named.items():
        if not t.is_contiguous():
            raise RuntimeError(f"{who}(): expected {name} to be contiguous, got strides {list(t.stride())}")


def _int8(who: str, input: TensorBase, mat2: TensorBase, scales: TensorBase) -> Weight:
    _check(who, input, mat2=mat2)
    if mat2.dtype.name != "int8" or mat2.ndim != 2:
        raise RuntimeError(
            f"{who}(): expected mat2 to be an int8 matrix, got {mat2.dtype} of shape {list(mat2.shape)}"
        )
    n, k = mat2.shape
    if input.shape[1] != k:
        raise RuntimeError(f"{who}(): expected mat2 of shape (n, {input.shape[1]}), got {list(mat2.shape)}")
    if scales.shape != (n,) or scales.dtype != input.dtype:
        raise RuntimeError(
            f"{who}(): expected scales of shape ({n},) in {input.dtype}, got {list(scales.shape)} in {scales.dtype}"
        )
    return Weight(mat2, scales.contiguous(), "int8", k, n, k)


@leaf("library", "_weight_int8pack_mm", inputs=("input",), aten="_weight_int8pack_mm")
def _weight_int8pack_mm(input: TensorBase, mat2: TensorBase, scales: TensorBase) -> TensorBase:
    """`input` (m, k) by the transposed int8 weight `mat2` (n, k) whose rows are scaled by `scales` (n,): (m, n), in `input`'s dtype.

    The dtype is float32, bfloat16 or float16, and that of `scales`; sums are made in float32.  The gradient is that of `input`.
    RuntimeError for other shapes and dtypes.

    >>> import flambeau
    >>> codes = flambeau.tensor([[1, 2], [3, 4]], dtype=flambeau.int8)
    >>> flambeau._weight_int8pack_mm(flambeau.ones(1, 2), codes, flambeau.tensor([1.0, 0.5]))
    tensor([[3.0000, 3.5000]])
    """
    return product(input, _int8("_weight_int8pack_mm", input, mat2, scales))


@_weight_int8pack_mm.derivative
def _(grad, input, mat2, scales):
    weight = _by_operations(_int8("_weight_int8pack_mm", input, mat2, scales))
    return (grad.to(weight.dtype) @ weight).to(grad.dtype)


@library("composite", "_convert_weight_to_int4pack_for_cpu", aten="_convert_weight_to_int4pack_for_cpu")
def _convert_weight_to_int4pack_for_cpu(input: TensorBase, innerKTiles: int) -> TensorBase:
    """Codes 0 to 15 (n, k) of int32, packed for `_weight_int4pack_mm_for_cpu`: (n, k / 2) of uint8.

    In each 32 codes of a row, byte j holds code j in its low half and code 16 + j in its high one.  `innerKTiles`, 2, 4 or 8, is for
    accelerators and changes nothing.  RuntimeError for other dtypes and shapes, and where k is no multiple of 32.

    >>> import flambeau
    >>> flambeau._convert_weight_to_int4pack_for_cpu(flambeau.full((2, 32), 3, dtype=flambeau.int32), 2).shape
    flambeau.Size([2, 16])
    """
    who = "_convert_weight_to_int4pack_for_cpu"
    if input.ndim != 2 or input.dtype.name != "int32":
        raise RuntimeError(
            f"{who}(): expected an int32 matrix, got {input.dtype} of shape {list(input.shape)}"
        )
    if input.shape[1] % tiles.BLOCK:
        raise RuntimeError(f"{who}(): expected a multiple of {tiles.BLOCK} columns, got {input.shape[1]}")
    if innerKTiles not in (2, 4, 8):
        raise RuntimeError(f"{who}(): innerKTiles need to be 2, 4, or 8, got {innerKTiles}")
    return packed(input)


def packed(codes: TensorBase) -> TensorBase:
    """Codes 0 to 15, (n, k), two a byte, (n, k / 2)."""
    n, k = codes.shape
    low, high = codes.reshape(n, k // tiles.BLOCK, 2, tiles.BLOCK // 2).to(by_name["uint8"]).unbind(2)
    return (low | high << 4).reshape(n, k // 2)


def _int4(who: str, input: TensorBase, mat2: TensorBase, group: int, scales: TensorBase) -> Weight:
    _check(who, input, mat2=mat2)
    if mat2.dtype.name != "uint8" or mat2.ndim != 2:
        raise RuntimeError(
            f"{who}(): expected mat2 to be a uint8 matrix, got {mat2.dtype} of shape {list(mat2.shape)}"
        )
    n, k = mat2.shape[0], mat2.shape[1] * 2
    if input.shape[1] != k:
        raise RuntimeError(
            f"{who}(): expected mat2 of shape (n, {input.shape[1] // 2}), got {list(mat2.shape)}"
        )
    if group not in GROUPS or k % group:
        raise RuntimeError(
            f"{who}(): expect qGroupSize to be 32, 64, 128 or 256 and to divide the {k} columns of the input, got {group}"
        )
    if scales.shape != (k // group, n, 2) or scales.dtype != input.dtype:
        raise RuntimeError(
            f"{who}(): expect qScaleAndZeros to be of shape ({k // group}, {n}, 2) in {input.dtype}, got {list(scales.shape)} in "
            f"{scales.dtype}"
        )
    return Weight(mat2, scales.contiguous(), "int4", group, n, k)


@leaf("library", "_weight_int4pack_mm_for_cpu", inputs=("input",), aten="_weight_int4pack_mm_for_cpu")
def _weight_int4pack_mm_for_cpu(
    input: TensorBase, mat2: TensorBase, qGroupSize: int, qScaleAndZeros: TensorBase
) -> TensorBase:
    """`input` (m, k) by the transposed weight of four bits `mat2` (n, k / 2), which `_convert_weight_to_int4pack_for_cpu` packs: (m, n).

    A code c of a group of `qGroupSize` (32, 64, 128 or 256) terms means (c - 8) · scale + zero; `qScaleAndZeros` is (k / qGroupSize, n, 2),
    of `input`'s dtype: float32, bfloat16 or float16.  Sums are made in float32.  The gradient is that of `input`.  RuntimeError for
    other shapes and dtypes.

    >>> import flambeau
    >>> codes = flambeau._convert_weight_to_int4pack_for_cpu(flambeau.full((2, 32), 9, dtype=flambeau.int32), 2)
    >>> scales = flambeau.tensor([[[1.0, 0.0], [0.5, 0.25]]])
    >>> flambeau._weight_int4pack_mm_for_cpu(flambeau.ones(1, 32), codes, 32, scales)
    tensor([[32., 24.]])
    """
    return product(input, _int4("_weight_int4pack_mm_for_cpu", input, mat2, qGroupSize, qScaleAndZeros))


@_weight_int4pack_mm_for_cpu.derivative
def _(grad, input, mat2, qGroupSize, qScaleAndZeros):
    weight = _by_operations(_int4("_weight_int4pack_mm_for_cpu", input, mat2, qGroupSize, qScaleAndZeros))
    return (grad.to(weight.dtype) @ weight).to(grad.dtype)


@leaf("library", inputs=("input",), label="WeightOnlyLinearBackward0")
def weight_only_linear(
    input: TensorBase, codes: TensorBase, scales: TensorBase, kind: str, group: int
) -> TensorBase:
    """`input` (…, k) by the transposed weight that `codes` and `scales` mean: (…, n).

    Codes are (n, k) of int8, float8_e5m2 or float8_e4m3fn without NaN, with scales (n,); packed ones (n, k / 2) of "int4" with pairs
    of scale and zero (k / group, n, 2), or of "nf4", which are places in `tiles.NF4`, with scales (k / group, n).  RuntimeError for
    other shapes and dtypes.
    """
    result = (
        few_rows(input.dtype.name, kind, 0 if kind in WHOLE else group)[0](input, codes, scales)
        if input.dtype.name in _FLOATS
        else None
    )
    return _many_rows(input, codes, scales, kind, group) if result is None else result


def _many_rows(input: TensorBase, codes: TensorBase, scales: TensorBase, kind: str, group: int) -> TensorBase:
    """The same for any number of rows, and what the fast way refuses."""
    who, k = "weight_only_linear", codes.shape[1] * (1 if kind in WHOLE else 2)
    if input.shape[-1:] != (k,) or input.dtype != scales.dtype:
        raise RuntimeError(
            f"{who}(): expected input of shape (…, {k}) in {scales.dtype}, got {list(input.shape)} in {input.dtype}"
        )
    rows = input.reshape(-1, k)
    _check(who, rows, codes=codes)
    weight = Weight(codes, scales.contiguous(), kind, k if kind in WHOLE else group, codes.shape[0], k)
    return product(rows, weight).reshape(*input.shape[:-1], codes.shape[0])


@weight_only_linear.derivative
def _(grad, input, codes, scales, kind, group):
    k = codes.shape[1] * (1 if kind in WHOLE else 2)
    weight = _by_operations(Weight(codes, scales, kind, group, codes.shape[0], k))
    return (grad.to(weight.dtype) @ weight).to(grad.dtype)
