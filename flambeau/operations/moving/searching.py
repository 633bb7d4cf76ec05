"""Different elements, counts, and where values belong in ascending rows.

What our own loops (`core/lib/ordering/histograms.pyx`) do not know, NumPy computes, which is imported then; on devices all of it is
`on_device/ordering.py`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.memory import require
from ...core.base.tensor import TensorBase
from ...core.call.operands import result_type
from ...core.lib.ordering import histograms
from ...core.lib.ordering.order import order
from ...core.make.bridge import from_numpy
from ...core.make.create import arange, full
from ...core.places.join import stack
from ..declare import checks
from ..declare.dtype_groups import ALL, FLOATING, INTEGRAL, NUMERIC
from ..declare.host import Result, array, computed, needs_data, without_data
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, into
from ..on_device import ordering
from ..pointwise.copying import to_dtype


def _host(x: TensorBase):
    """The elements as a NumPy array without gaps; half types in the next wider dtype."""
    return array(x.contiguous())


def _found(array, dtype: str | None = None) -> TensorBase:
    import numpy as np

    return from_numpy(np.array(array, dtype=dtype, order="C"))


# As what integers, and numbers that are searched, are looked at; uint64 has none.
_COUNTED = frozenset("bool uint8 uint16 uint32 int8 int16 int32 int64".split())
_SEARCHED = {
    **dict.fromkeys(("bool", "uint8", "uint16", "int8", "int16", "int32"), "int32"),
    **dict.fromkeys(("uint32", "int64"), "int64"),
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float32"),
    "float64": "float64",
}
# As what `order` puts in order all elements of a tensor.
_ORDERED = {
    **{name: name for name in ("uint64", *_COUNTED)},
    **{name: name for name in ("float32", "float64")},
    **dict.fromkeys(("float16", "bfloat16"), "float32"),
}
DENSE = 8  # counts for each element: a range of integers up to which it is counted instead of sorted
SMALL_RANGE = 1 << 16


def _whole(x: TensorBase) -> TensorBase:
    """Integers as a vector of int64 without gaps."""
    return to_dtype(x.detach(), by_name["int64"]).contiguous().reshape(-1)


def _with_others(before: str) -> tuple[str, ...]:
    """The signatures of `unique` and its like: how many results there are is said by two flags."""

    def with_flags(inverse: str, counts: str, result: str, star: str = "*, ") -> str:
        flags = f"return_inverse: {inverse}, return_counts: {counts}"
        return f"(input: Tensor, {before}{star}{flags}, dim: int | None = None) -> {result}"

    no, yes = "Literal[False] = False", "Literal[True]"
    return (
        with_flags(no, no, "Tensor", ""),
        with_flags(yes, no, "tuple[Tensor, Tensor]"),
        with_flags(no, yes, "tuple[Tensor, Tensor]"),
        with_flags(yes, yes, "tuple[Tensor, Tensor, Tensor]"),
        with_flags("bool = False", "bool = False", "Tensor | tuple[Tensor, ...]", ""),
    )


@leaf(
    "search",
    "unique",
    "Tensor.unique",
    results=(),
    label="Unique2Backward0",
    underived=True,
    differentiable=False,
    overloads=_with_others("sorted: bool = True, "),
    batching="shapeless",
)
def unique(
    input: TensorBase,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are.

    >>> import flambeau
    >>> flambeau.unique(flambeau.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is not None and not -input.ndim <= dim < max(input.ndim, 1):
        raise IndexError(
            f"unique(): Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {dim})"
        )
    needs_data("unique", "how many elements differ", input)
    if not input.is_cpu:
        return ordering.distinct(input, dim, True, return_inverse, return_counts)
    if dim is None and input.dtype.name in _COUNTED and input.numel():
        x = _whole(input)
        low, high = (int(e) for e in x.aminmax())
        if high - low < max(DENSE * x.numel(), SMALL_RANGE):
            return _unique_in_range(input, x, low, high - low + 1, return_inverse, return_counts)
        if high - low < 1 << 32 and x.numel() < 1 << 32:
            return _unique_in_order(
                input, to_dtype(x - low, by_name["uint32"]), low, return_inverse, return_counts
            )
    if dim is None and input.dtype.name in _ORDERED and input.numel() < 1 << 32:
        x = to_dtype(input.detach(), by_name[_ORDERED[input.dtype.name]]).contiguous().reshape(-1)
        return _unique_in_order(input, x, 0, return_inverse, return_counts)
    import numpy as np

    a = _host(input)
    if dim is None:
        return _wanted(input, *_unique_of_sorted(a, return_inverse, return_counts))
    result = np.unique(
        a, return_inverse=return_inverse, return_counts=return_counts, axis=dim, equal_nan=False
    )
    values, *rest = result if isinstance(result, tuple) else (result,)
    if return_inverse:
        rest[0] = rest[0].reshape(input.shape[dim])
    return _wanted(input, values, rest)


def _unique_in_order(
    input: TensorBase, x: TensorBase, low: int, return_inverse: bool, return_counts: bool
) -> Any:
    """`unique` where `order` knows the elements, x + low: those that differ from the one before them in order."""
    places, n = order(x), x.numel()
    values = x[places]
    new = x.new_full((n,), True, dtype=by_name["bool"])
    if n:
        new[1:] = values[1:] != values[:-1]
    starts = new.nonzero().reshape(-1)
    found = values[starts]
    result = [to_dtype(to_dtype(found, by_name["int64"]) + low if low else found, input.dtype)]
    if return_inverse:
        inverse = places.new_empty((n,))
        inverse[places] = new.cumsum(0) - 1
        result.append(inverse.reshape(input.shape))
    if return_counts:
        result.append(starts.diff(append=starts.new_full((1,), n)))
    return result[0] if len(result) == 1 else tuple(result)


def _unique_of_sorted(a, return_inverse: bool, return_counts: bool) -> tuple:
    """The different elements in order, and a list of what else is wanted: complex numbers, and more elements than `order` takes."""
    import numpy as np

    flat = a.reshape(-1)
    places = np.argsort(flat, kind="stable") if return_inverse else None
    flat = np.sort(flat) if places is None else flat[places]
    new = np.ones(len(flat), dtype=bool)
    new[1:] = flat[1:] != flat[:-1]
    others = []
    if places is not None:
        inverse = np.empty(len(flat), "int64")
        inverse[places] = np.cumsum(new) - 1
        others.append(inverse.reshape(a.shape))
    if return_counts:
        others.append(np.diff(np.append(np.flatnonzero(new), len(flat))))
    return flat[new], others


def _unique_in_range(
    input: TensorBase, x: TensorBase, low: int, size: int, return_inverse: bool, return_counts: bool
) -> Any:
    """`unique` of integers that lie near one another: by counts of all that there may be."""
    counts = histograms.count(x, low, size)
    places = counts.nonzero().reshape(-1)
    result = [to_dtype(places + low, input.dtype)]
    if return_inverse:
        numbers = (counts != 0).cumsum(0) - 1
        result.append(numbers[x - low].reshape(input.shape))
    if return_counts:
        result.append(counts[places])
    return result[0] if len(result) == 1 else tuple(result)


def _wanted(input: TensorBase, values, others: Sequence) -> Any:
    """The values in the input's dtype, alone or before the index tensors that were requested."""
    result = [to_dtype(_found(values), input.dtype), *(_found(o, "int64") for o in others)]
    return result[0] if len(result) == 1 else tuple(result)


@leaf(
    "search",
    "unique_consecutive",
    "Tensor.unique_consecutive",
    results=(),
    underived=True,
    differentiable=False,
    overloads=_with_others(""),
    batching="shapeless",
)
def unique_consecutive(
    input: TensorBase, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices along `dim`) without those that are equal to the one before.

    >>> import flambeau
    >>> flambeau.unique_consecutive(flambeau.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    import numpy as np

    if dim is not None and not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"unique_consecutive(): Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but "
            f"got {dim})"
        )
    needs_data("unique_consecutive", "how many elements differ from the one before", input)
    if not input.is_cpu:
        return ordering.distinct(input, dim, False, return_inverse, return_counts)
    a = _host(input)
    lines = a.reshape(-1, 1)
    if dim is not None:
        lines = np.moveaxis(a, dim, 0)
        lines = lines.reshape(len(lines), math.prod(lines.shape[1:]))
    new = np.ones(len(lines), dtype=bool)
    new[1:] = (lines[1:] != lines[:-1]).any(1)
    starts = np.flatnonzero(new)
    inverse = np.cumsum(new) - 1
    counts = np.diff(np.append(starts, len(lines)))
    values = a.reshape(-1)[starts] if dim is None else np.take(a, starts, axis=dim)
    inverse = inverse.reshape(a.shape) if dim is None else inverse
    others = [a for a, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
    return _wanted(input, values, others)


@leaf(
    "search",
    "bincount",
    "Tensor.bincount",
    label="NotImplemented",
    underived=True,
    differentiable=False,
    batching="shapeless",
    dtypes=INTEGRAL,
)
def bincount(input: TensorBase, weights: TensorBase | None = None, minlength: int = 0) -> TensorBase:
    """How often each non-negative integer occurs in a 1-dim tensor, or the sum of the weights where it does.

    >>> import flambeau
    >>> flambeau.bincount(flambeau.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """

    if input.dtype.name not in INTEGRAL:
        raise NotImplementedError(f'bincount(): "bincount_cpu" not implemented for {input.dtype}')
    needs_data("bincount", "how many counts there are", input)
    if input.ndim != 1:
        raise RuntimeError(
            f"bincount(): only supports 1-d non-negative integral inputs, got shape {list(input.shape)}"
        )
    if input.dtype.name == "uint64" and bool((input > (1 << 63) - 1).any()):
        raise RuntimeError(
            "bincount(): maximum value of input overflowed, it should be < 9223372036854775807"
        )
    x = _whole(input)
    if (
        x.is_cpu and minlength >= 0 and (weights is None or not x.numel())
    ):  # as PyTorch, which counts nothing in int64
        require(8 * minlength)
        result = histograms.small_bincount(x, minlength)
        if result is not None:
            return result
    low, high = (int(e) for e in x.aminmax()) if x.numel() else (0, -1)
    if low < 0:
        raise RuntimeError("bincount(): only supports 1-d non-negative integral inputs, got negative ones")
    if minlength < 0:
        raise RuntimeError(f"bincount(): minlength should be >= 0, got {minlength}")
    if high == (1 << 63) - 1:
        raise RuntimeError(
            f"bincount(): maximum value of input overflowed, it should be < {high} but got {high}"
        )
    size = max(high + 1, minlength)
    require(8 * size)
    if not x.is_cpu and (weights is None or not x.numel()):
        return ordering.counts(x, size)
    if weights is None:
        return histograms.count(x, 0, size)
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount(): weights should be 1-d and have the same length as input, got {list(weights.shape)}"
        )
    wide = to_dtype(weights, by_name["float64"]).contiguous()
    result = histograms.weighted_bincount(x, wide, size) if x.is_cpu else ordering.counts(x, size, wide)
    return to_dtype(result, weights.dtype) if weights.dtype.name == "float32" else result


@library("search", "histc", "Tensor.histc", differentiable=False, dtypes=FLOATING)
def histc(
    input: TensorBase, bins: int = 100, min: float = 0, max: float = 0, *, out: TensorBase | None = None
) -> TensorBase:
    """How many elements lie in each of `bins` equal parts of [min, max]; of [smallest, largest] where both are equal.

    Shape:
        input: any; result: (bins,)

    Raises:
        RuntimeError: `bins` is not above 0

    >>> import flambeau
    >>> flambeau.histc(flambeau.tensor([1.0, 2.0, 2.5, 9.0]), bins=2, min=0, max=4)
    tensor([1., 2.])
    """
    if not input.is_floating_point():
        raise NotImplementedError(f'histc(): "histogram_cpu" not implemented for {input.dtype}')
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    require(16 * bins)
    rule = Result((bins,), input.dtype)
    if without_data(input):
        result = computed(rule, array, input)
    else:
        wide = (
            input.detach() if input.dtype.name == "float64" else to_dtype(input.detach(), by_name["float32"])
        )
        low, high = _ends(wide, float(min), float(max))
        wide = wide.contiguous()
        counted = (
            histograms.parts(wide, low, high, bins)[:bins]
            if wide.is_cpu
            else ordering.parts(wide, low, high, bins)
        )
        result = to_dtype(counted, input.dtype)
    return into(out, result, "histc")


def _ends(x: TensorBase, low: float, high: float) -> tuple[float, float]:
    """The range whose parts are counted: that of the elements where both ends are equal."""
    if low == high and x.numel():
        low, high = (float(e) for e in x.aminmax())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"histc(): max must be larger than min, got {low} and {high}")
    return low, high


@library("search", "searchsorted", differentiable=False, dtypes=ALL)
def searchsorted(
    sorted_sequence: TensorBase,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: TensorBase | None = None,
    out: TensorBase | None = None,
) -> TensorBase:
    """Where values belong in ascending rows: before equal elements, or behind them where `right` (or side="right").

    The sequence is 1-dim, or has the values' dimensions but the last.  RuntimeError where they differ.

    >>> import flambeau
    >>> flambeau.searchsorted(flambeau.tensor([1, 3, 5]), flambeau.tensor([3, 6]))
    tensor([1, 3])
    """
    import numpy as np

    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    behind = right or side == "right"
    checks.rank_at_least("searchsorted", "sorted_sequence", sorted_sequence, 1)
    checks.dtypes("searchsorted", ("int64",), RuntimeError, sorter=sorter)
    checks.dtypes("searchsorted", checks.FLOATS | checks.INTEGERS | {"bool"}, sorted_sequence=sorted_sequence)
    if sorter is not None and sorter.shape != sorted_sequence.shape:
        raise RuntimeError(
            f"searchsorted(): boundary and sorter must have the same size, but got {list(sorted_sequence.shape)} and "
            f"{list(sorter.shape)}"
        )
    values = (
        input
        if isinstance(input, TensorBase)
        else sorted_sequence.new_tensor(input, dtype=result_type(sorted_sequence, input))
    )
    if sorted_sequence.ndim != 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
            f"value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and input value tensor "
            f"{list(values.shape)}"
        )

    rule = Result(values.shape, by_name["int32" if out_int32 else "int64"])
    kind = _SEARCHED.get(values.dtype.name) if values.dtype == sorted_sequence.dtype else None
    given = (sorted_sequence, values) if sorter is None else (sorted_sequence, values, sorter)
    if not (values.is_cpu or without_data(*given)):
        common = by_name[kind or result_type(sorted_sequence, values).name]
        bounds, sought = (to_dtype(x.detach(), common) for x in given[:2])
        bounds = bounds if sorter is None else bounds.gather(-1, sorter)
        result = ordering.search(bounds, sought, behind)
        return into(out, to_dtype(result, rule.dtype), "searchsorted")
    if kind is not None and not without_data(*given):
        bounds, sought = (to_dtype(x.detach(), by_name[kind]) for x in given[:2])
        if sorter is not None:
            bounds = bounds.gather(-1, sorter)
        result = histograms.search_sorted(bounds.contiguous(), sought.contiguous(), behind)
        return into(out, to_dtype(result, rule.dtype), "searchsorted")

    def search(bounds, values, sorter=None):
        if sorter is not None:
            bounds = np.take_along_axis(bounds, sorter, -1)
        if bounds.ndim == 1:
            return np.searchsorted(bounds, values, side="right" if behind else "left")
        return _search_rows(bounds, values, behind)

    return into(out, computed(rule, search, *given), "searchsorted")


def _search_rows(bounds, values, behind: bool):
    """Binary search in every row at once."""
    import numpy as np

    n = bounds.shape[-1]
    low, high = np.zeros(values.shape, dtype="int64"), np.full(values.shape, n, dtype="int64")
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        element = np.take_along_axis(bounds, np.minimum(middle, n - 1), -1)
        beyond = ~(element > values) if behind else ~(element >= values)
        open_ = low < high
        low, high = np.where(open_ & beyond, middle + 1, low), np.where(open_ & ~beyond, middle, high)
    return low


@library("search", "bucketize", "Tensor.bucketize", differentiable=False, dtypes=ALL)
def bucketize(
    input: Any,
    boundaries: TensorBase,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: TensorBase | None = None,
) -> TensorBase:
    """k with boundaries[k - 1] < input ≤ boundaries[k], or ≤ and < where `right`.
    It is `searchsorted` in a 1-dim tensor.

    Shape:
        input: any; boundaries: (n,); result: as input

    Raises:
        RuntimeError: `boundaries` has not one dimension

    >>> import flambeau
    >>> flambeau.bucketize(flambeau.tensor([1, 3, 9]), flambeau.tensor([1, 4, 6]))
    tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@library("search", "_convert_indices_from_coo_to_csr", differentiable=False)
def _convert_indices_from_coo_to_csr(
    input: TensorBase, size: int, *, out_int32: bool = False, out: TensorBase | None = None
) -> TensorBase:
    """Where each of `size` rows begins, and the last one ends, among ascending indices of rows.

    >>> import flambeau
    >>> flambeau._convert_indices_from_coo_to_csr(flambeau.tensor([0, 0, 2]), 4)
    tensor([0, 2, 2, 3, 3])
    """
    who = "_convert_indices_from_coo_to_csr"
    checks.dtypes(who, checks.INTEGERS, input=input)
    if input.ndim > 1:
        raise RuntimeError(
            f"{who}(): expected 'input' to be a vector, got {input.ndim} dimensions: {list(input.shape)}"
        )
    if size < 0:
        raise RuntimeError(f"{who}(): expected 'size' to be at least 0, got {size}")
    rows = to_dtype(input, by_name["int64"]).reshape(-1)
    bounds = searchsorted(rows, arange(size + 1, device=rows.device), out_int32=out_int32)
    return into(out, bounds, who, exact=True)


@library("search", "_convert_indices_from_csr_to_coo", differentiable=False)
def _convert_indices_from_csr_to_coo(
    crow_indices: TensorBase,
    col_indices: TensorBase,
    *,
    out_int32: bool = False,
    transpose: bool = False,
    out: TensorBase | None = None,
) -> TensorBase:
    """Indices of batches, rows and columns, a column for each element, from where rows begin and from the columns.

    With `transpose` columns stand before rows.

    >>> import flambeau
    >>> flambeau._convert_indices_from_csr_to_coo(flambeau.tensor([0, 2, 2, 3]), flambeau.tensor([1, 0, 2]))
    tensor([[0, 0, 2],
            [1, 0, 2]])
    """
    who = "_convert_indices_from_csr_to_coo"
    checks.dtypes(who, checks.INTEGERS, crow_indices=crow_indices, col_indices=col_indices)
    for name, x in (("crow_indices", crow_indices), ("col_indices", col_indices)):
        checks.rank_at_least(who, name, x, 1)
    before, elements = col_indices.shape[:-1], col_indices.shape[-1]
    if crow_indices.shape[:-1] != before or crow_indices.shape[-1] == 0:
        raise RuntimeError(
            f"{who}(): expected 'crow_indices' to have shape {[*before, 'rows + 1']} beside 'col_indices' of shape "
            f"{list(col_indices.shape)}, got {list(crow_indices.shape)}"
        )
    bounds = to_dtype(crow_indices, by_name["int64"])
    if not without_data(bounds) and (bounds.select(-1, -1) != elements).any():
        raise RuntimeError(
            f"{who}(): expected 'crow_indices' to end with the number of elements, {elements}, got "
            f"{bounds.select(-1, -1).tolist()}"
        )
    kind = by_name["int32" if out_int32 else "int64"]
    places = arange(elements, device=bounds.device).expand(col_indices.shape)
    rows = searchsorted(bounds, places.contiguous(), right=True) - 1
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    result = [arange(n, device=bounds.device) for n in before]
    for k, (n, index) in enumerate(zip(before, result)):
        sizes = [1] * len(col_indices.shape)
        sizes[k] = n
        result[k] = index.reshape(sizes).expand(col_indices.shape)
    return into(out, to_dtype(stack([x.reshape(-1) for x in (*result, *pair)]), kind), who, exact=True)


@library("search", "isin", differentiable=False, dtypes=NUMERIC)
@accepts_out
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> TensorBase:
    """Whether each element is among the test elements (bool).

    Shape:
        elements: any; test_elements: any; result: as elements

    >>> import flambeau
    >>> flambeau.isin(flambeau.tensor([1, 2, 3]), flambeau.tensor([2, 5]))
    tensor([False,  True, False])
    """
    import numpy as np

    if not isinstance(elements, TensorBase) and not isinstance(test_elements, TensorBase):
        raise TypeError(
            f"isin(): one of elements and test_elements must be a Tensor, got {type(elements).__name__} and "
            f"{type(test_elements).__name__}"
        )
    if not isinstance(elements, TensorBase):  # a number counts in the dtype that it has among tensors
        elements = test_elements.new_tensor(elements, dtype=result_type(test_elements, elements))
    elif not isinstance(test_elements, TensorBase):
        test_elements = elements.new_tensor(test_elements, dtype=result_type(elements, test_elements))
    for name, x in (("elements", elements), ("test_elements", test_elements)):
        if x.dtype.name == "bool" or x.is_complex():
            raise RuntimeError(
                f"isin(): unsupported dtype of argument '{name}': expected real numbers, got {x.dtype}"
            )
    common = result_type(elements, test_elements)
    given = [to_dtype(x, common) for x in (elements, test_elements)]
    if not (elements.is_cpu or without_data(*given)):
        return ordering.among(given[0], given[1], invert)
    return computed(
        Result(elements.shape, by_name["bool"]),
        lambda a, b: np.isin(a, b, assume_unique=assume_unique, invert=invert),
        *given,
    )


@library(
    "indexing", "nonzero_static", "Tensor.nonzero_static", differentiable=False, out=True, batching="looped"
)
def nonzero_static(input: TensorBase, *, size: int, fill_value: int = -1) -> TensorBase:
    """The first `size` rows of `nonzero`, and rows of `fill_value` where there are fewer: (size, input.ndim), int64.

    The shape does not depend on the elements. RuntimeError for a negative `size`.

    >>> import flambeau
    >>> flambeau.nonzero_static(flambeau.tensor([0, 7, 0, 8]), size=3)
    tensor([[ 1],
            [ 3],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static(): 'size' must be a non-negative integer, got {size}")
    result = full((size, input.ndim), fill_value, dtype=by_name["int64"], device=input.device)
    if input.is_meta:
        return result
    rows = input.nonzero().narrow(0, 0, min(size, int(input.count_nonzero())))
    result.narrow(0, 0, len(rows)).copy_(rows)
    return result
