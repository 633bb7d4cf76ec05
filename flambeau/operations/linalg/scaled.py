"""Products of float8 matrices with scales, and products of many small matrices in one call.  Sums are made in float32."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.places.join import cat, stack
from ..declare.dtype_groups import FLOATING
from ..declare.host import needs_data
from ..declare.registry import library


class ScalingType(IntEnum):
    """How a matrix of `scaled_mm` is scaled: by one number, or by one a row; the blocks of the others are for accelerators.

    >>> import flambeau
    >>> flambeau.nn.functional.ScalingType.RowWise.name
    'RowWise'
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(IntEnum):
    """In which order the scales of blocks lie in memory.

    >>> import flambeau
    >>> list(flambeau.nn.functional.SwizzleType)[0].name
    'NO_SWIZZLE'
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _product(
    who: str,
    a: TensorBase,
    b: TensorBase,
    scale_a: TensorBase,
    scale_b: TensorBase,
    bias: TensorBase | None,
) -> TensorBase:
    """a @ b in float32, times the scales, plus the bias."""
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{who}(): {name} must be a matrix, got shape {list(x.shape)}")
    m, n = a.shape[0], b.shape[1]
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{who}(): mat_a and mat_b shapes cannot be multiplied ({m}x{a.shape[1]} and {b.shape[0]}x{n})"
        )
    singletons = scale_a.numel() == 1 and scale_b.numel() == 1
    rows = scale_a.shape == (m, 1) and scale_b.shape == (1, n)
    floats = scale_a.dtype == scale_b.dtype == by_name["float32"]
    if not (_is_float8(a) and _is_float8(b) and floats and (singletons or rows)):
        raise ValueError(
            f"{who}(): Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be float "
            "and singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be "
            f"({m}, 1) and scale_b should be (1, {n}).\nGot a.dtype={a.dtype}, scale_a.dtype={scale_a.dtype}, scale_a.shape="
            f"{list(scale_a.shape)}, b.dtype={b.dtype}, scale_b.dtype={scale_b.dtype}, scale_b.shape={list(scale_b.shape)}"
        )
    if bias is not None and bias.shape != (n,):
        raise RuntimeError(f"{who}(): bias must be of shape [{n}], got {list(bias.shape)}")
    if singletons:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    wide = by_name["float32"]
    product = (a.to(wide) @ b.to(wide)) * (scale_a * scale_b)
    return product if bias is None else product + bias.to(wide)


def _is_float8(x: TensorBase) -> bool:
    return x.dtype.name.startswith("float8")


@library("composite", "_scaled_mm")
def _scaled_mm(
    input: TensorBase,
    mat2: TensorBase,
    scale_a: TensorBase,
    scale_b: TensorBase,
    bias: TensorBase | None = None,
    scale_result: TensorBase | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> TensorBase:
    """float8 matrices' product times their scales (float32: one number each, or one a row of `input` and one a column of
    `mat2`), in `out_dtype`, by default the first matrix's.

    `scale_result` divides a float8 result.  ValueError for other scales and dtypes.
    """
    kind: dtype = out_dtype or input.dtype
    result = _product("_scaled_mm", input, mat2, scale_a, scale_b, bias)
    if scale_result is not None and kind.name.startswith("float8"):
        result = result / scale_result
    return result.to(kind)


def _single(who: str, what: str, given: Any) -> Any:
    """What may stand in a list of one; two levels of scales are for accelerators."""
    if not isinstance(given, (list, tuple)):
        return given
    if len(given) != 1:
        raise NotImplementedError(
            f"{who}(): expected one {what}, got {len(given)}: scales in levels are not implemented"
        )
    return given[0]


def _check_recipes(who: str, **recipes: Any) -> None:
    for name, recipe in recipes.items():
        recipe = ScalingType(int(_single(who, name, recipe)))
        if recipe not in (ScalingType.TensorWise, ScalingType.RowWise):
            raise NotImplementedError(
                f"{who}(): {name} {recipe.name} is not implemented: expected TensorWise or RowWise"
            )


def _check_swizzles(who: str, contraction_dim: Sequence[int], **swizzles: Any) -> None:
    for name, swizzle in swizzles.items():
        swizzle = _single(who, name, swizzle)
        if swizzle is not None and SwizzleType(int(swizzle)) != SwizzleType.NO_SWIZZLE:
            raise NotImplementedError(
                f"{who}(): {name} {SwizzleType(int(swizzle)).name} is not implemented: expected NO_SWIZZLE"
            )
    if len(contraction_dim) not in (0, 2):
        raise ValueError(
            f"{who}(): contraction_dim must be () or one dimension of each matrix, got {tuple(contraction_dim)}"
        )


@library("composite", "nn.functional.scaled_mm")
def scaled_mm(
    mat_a: TensorBase,
    mat_b: TensorBase,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: TensorBase | None = None,
    output_dtype: Any = by_name["bfloat16"],
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> TensorBase:
    """`mat_a @ mat_b` of float8 matrices times their scales, plus `bias`, in `output_dtype`; sums are made in float32.

    Args:
        scale_a, scale_b: float32, with one element each (TensorWise), or of shapes (m, 1) and (1, n) (RowWise).
        scale_recipe_a, scale_recipe_b: `ScalingType.TensorWise` or `RowWise`.
        swizzle_a, swizzle_b: None or `SwizzleType.NO_SWIZZLE`.
        contraction_dim: which dimensions are summed over; by default the last of `mat_a` and the first of `mat_b`.
        use_fast_accum: changes nothing here.

    Raises:
        NotImplementedError: another recipe or swizzle.
        ValueError: other scales or dtypes.

    >>> import flambeau
    >>> from flambeau.nn.functional import ScalingType, scaled_mm
    >>> a = flambeau.ones(2, 4).to(flambeau.float8_e4m3fn)
    >>> half = flambeau.tensor(0.5)
    >>> scaled_mm(a, a.t(), half, ScalingType.TensorWise, half, ScalingType.TensorWise)
    tensor([[1., 1.],
            [1., 1.]], dtype=flambeau.bfloat16)
    """
    who = "scaled_mm"
    _check_recipes(who, scale_recipe_a=scale_recipe_a, scale_recipe_b=scale_recipe_b)
    _check_swizzles(who, contraction_dim, swizzle_a=swizzle_a, swizzle_b=swizzle_b)
    if len(contraction_dim) == 2 and mat_a.ndim == mat_b.ndim == 2:
        mat_a = mat_a if contraction_dim[0] % 2 == 1 else mat_a.t()
        mat_b = mat_b if contraction_dim[1] % 2 == 0 else mat_b.t()
    first, second = _single(who, "scale_a", scale_a), _single(who, "scale_b", scale_b)
    result = _product(who, mat_a, mat_b, first, second, bias)
    return result.to(output_dtype or mat_a.dtype)


# --- many products in one call ------------------------------
def _groups(who: str, a: TensorBase, b: TensorBase, offs: TensorBase | None) -> list[tuple[int, int]] | None:
    """Where each group lies along the dimension that is cut; None where both operands hold the groups one by one."""
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.ndim not in (2, 3):
            raise RuntimeError(f"{who}(): {name} has to be 2 or 3d, got shape {list(x.shape)}")
    if (offs is None) != (a.ndim == b.ndim == 3):
        raise RuntimeError(
            f"{who}(): Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d; got matrices of "
            f"{a.ndim} and {b.ndim} dimensions and offs={'None' if offs is None else list(offs.shape)}"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"{who}(): contraction dimension of mat_a and mat_b must match, got shapes {list(a.shape)} and {list(b.shape)}"
        )
    if offs is None:
        if a.shape[0] != b.shape[0]:
            raise RuntimeError(f"{who}(): batched dimension has to match, got {a.shape[0]} and {b.shape[0]}")
        return None
    if offs.ndim != 1 or offs.dtype != by_name["int32"]:
        raise RuntimeError(
            f"{who}(): Offsets have to be int32 in one dimension, got {offs.dtype} of shape {list(offs.shape)}"
        )
    many = a.shape[0] if a.ndim == 3 else b.shape[0] if b.ndim == 3 else len(offs)
    if len(offs) != many:
        raise RuntimeError(f"{who}(): expected {many} offsets, one a group, got {len(offs)}")
    needs_data(who, "where the groups lie", offs)
    ends = offs.tolist()
    length = a.shape[1] if b.ndim == 2 and a.ndim == 2 else a.shape[0] if a.ndim == 2 else b.shape[1]
    bounds = list(zip([0, *ends], ends))
    if any(begin > end for begin, end in bounds) or (ends and not 0 <= ends[0] <= ends[-1] <= length):
        raise RuntimeError(f"{who}(): offsets must not decrease, and lie within 0 and {length}, got {ends}")
    return bounds


def _grouped(a: TensorBase, b: TensorBase, bounds: list[tuple[int, int]]) -> TensorBase:
    """The product of each group; what lies behind the last group is zero."""
    if a.ndim == 2 and b.ndim == 2:
        return stack([a[:, begin:end] @ b[begin:end] for begin, end in bounds])
    if a.ndim == 2:
        parts, dim = [a[begin:end] @ b[k] for k, (begin, end) in enumerate(bounds)], 0
        rest = a.shape[0] - bounds[-1][1]
        return cat([*parts, a.new_zeros((rest, b.shape[2]))], dim) if rest else cat(parts, dim)
    parts, dim = [a[k] @ b[:, begin:end] for k, (begin, end) in enumerate(bounds)], 1
    rest = b.shape[1] - bounds[-1][1]
    return cat([*parts, a.new_zeros((a.shape[1], rest))], dim) if rest else cat(parts, dim)


@library("composite", "nn.functional.grouped_mm", dtypes=FLOATING)
def grouped_mm(
    mat_a: TensorBase,
    mat_b: TensorBase,
    *,
    offs: TensorBase | None = None,
    bias: TensorBase | None = None,
    out_dtype: Any = None,
) -> TensorBase:
    """Products of groups of matrices: stacks of them, or parts of one matrix whose ends are in `offs` (int32).

    | mat_a | mat_b | groups are | result |
    |---|---|---|---|
    | (g, m, k) | (g, k, n) | the stacks' matrices | (g, m, n) |
    | (m, k) | (g, k, n) | rows of `mat_a` | (m, n) |
    | (g, m, k) | (k, n) | columns of `mat_b` | (m, n) |
    | (m, k) | (k, n) | columns of `mat_a`, rows of `mat_b` | (g, m, n) |

    What lies behind the last group is zero.  RuntimeError for shapes, offsets and dtypes that do not fit, and for a bias.

    >>> import flambeau
    >>> tokens, experts = flambeau.ones(3, 2), flambeau.stack([flambeau.eye(2), 2 * flambeau.eye(2)])
    >>> flambeau.nn.functional.grouped_mm(tokens, experts, offs=flambeau.tensor([1, 3], dtype=flambeau.int32))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    who = "grouped_mm"
    if bias is not None:
        raise RuntimeError(f"{who}(): Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError(
            f"{who}(): Grouped gemm output dtype must match mat_a's dtype, got {out_dtype} and {mat_a.dtype}"
        )
    if mat_a.dtype != mat_b.dtype or mat_a.dtype.name not in ("bfloat16", "float16", "float32", "float64"):
        raise RuntimeError(
            f"{who}(): expected matrices of one floating-point dtype, got {mat_a.dtype} and {mat_b.dtype}"
        )
    bounds = _groups(who, mat_a, mat_b, offs)
    return mat_a @ mat_b if bounds is None else _grouped(mat_a, mat_b, bounds)


@library("composite", "nn.functional.scaled_grouped_mm")
def scaled_grouped_mm(
    mat_a: TensorBase,
    mat_b: TensorBase,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: TensorBase | None = None,
    offs: TensorBase | None = None,
    output_dtype: Any = by_name["bfloat16"],
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> TensorBase:
    """`grouped_mm` of float8 matrices times one scale (float32) a row of `mat_a` and a column of `mat_b`; sums are made in float32.

    result[i, j] = scale_a[i] · scale_b[j] · Σₖ mat_a[i, k] · mat_b[k, j] in each group.

    `mat_b` is a stack (g, k, n) with scales (g, n); `mat_a` a stack (g, m, k) with scales (g, m), or rows (m, k) with scales (m,).
    NotImplementedError for other recipes and for a 2-D `mat_b`.

    >>> import flambeau
    >>> from flambeau.nn.functional import ScalingType, scaled_grouped_mm
    >>> a = flambeau.ones(2, 1, 4).to(flambeau.float8_e4m3fn)
    >>> scales = flambeau.tensor([[0.5], [2.0]])
    >>> rows = ScalingType.RowWise
    >>> scaled_grouped_mm(a, a.transpose(1, 2), scales, rows, scales, rows).flatten().tolist()
    [1.0, 16.0]
    """
    who = "scaled_grouped_mm"
    _check_recipes(who, scale_recipe_a=scale_recipe_a, scale_recipe_b=scale_recipe_b)
    _check_swizzles(who, contraction_dim, swizzle_a=swizzle_a, swizzle_b=swizzle_b)
    scale_a, scale_b = _single(who, "scale_a", scale_a), _single(who, "scale_b", scale_b)
    if mat_b.ndim != 3:
        raise NotImplementedError(
            f"{who}(): expected mat_b to be a stack of matrices, got shape {list(mat_b.shape)}"
        )
    bounds = _groups(who, mat_a, mat_b, offs)
    wanted = mat_a.shape[:-1], (mat_b.shape[0], mat_b.shape[2])
    if (
        scale_a.shape != wanted[0]
        or scale_b.shape != wanted[1]
        or not (_is_float8(mat_a) and _is_float8(mat_b))
    ):
        raise ValueError(
            f"{who}(): Invalid scaling configuration: expected float8 matrices and scales of shapes {list(wanted[0])} and "
            f"{list(wanted[1])}, got {mat_a.dtype}, {mat_b.dtype}, {list(scale_a.shape)} and {list(scale_b.shape)}"
        )
    if bias is not None:
        raise RuntimeError(f"{who}(): Bias not supported yet")
    wide = by_name["float32"]
    a, b = mat_a.to(wide) * scale_a.unsqueeze(-1), mat_b.to(wide) * scale_b.unsqueeze(1)
    result = a @ b if bounds is None else _grouped(a, b, bounds)
    return result.to(output_dtype or mat_a.dtype)
