"""Contractions composed of matrix products: einsum, tensordot, multi_dot, chain_matmul, bilinear."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

from ...core.base.dtypes import promote_types
from ...core.base.tensor import TensorBase
from ...core.lib.products.products import matmul
from ..declare import checks
from ..declare.dtype_groups import NUMBERS
from ..declare.registry import library
from ..declare.results import into
from ..pointwise.arithmetic import mul
from .paths import path_of

# A dimension's name: a letter, or (for those under an ellipsis) its number counted from the right.
Label = str | int
SUBLIST_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@library("composite", "einsum", autocast=("composite", "lower"))
def einsum(*args: Any) -> TensorBase:
    """Sum of products of tensors whose dimensions are named by letters.

    `einsum("ij,jk->ik", a, b)`: dimensions of one name run together, those that the output lacks are summed
    over; without `->` the output has the names that occur once, in alphabetical order. A name repeated within
    a tensor takes its diagonal. `...` stands for any further dimensions, which broadcast. Three tensors or more are
    contracted in the order that the package opt_einsum finds (`backends.opt_einsum`), from left to right where it is not
    installed. `einsum(a, [0, 1], b, [1, 2], [0, 2])` says the same by numbers from 0 to
    51 (and Ellipsis).

    RuntimeError for an equation that is malformed or does not fit the tensors, ValueError for missing ones.

    >>> import flambeau
    >>> a = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> flambeau.einsum("ij,j->i", a, flambeau.tensor([1., 10.]))
    tensor([21., 43.])
    >>> flambeau.einsum("ii", a)
    tensor(5.)
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand "
            "and its subscripts list"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _read_sublists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    for k, operand in enumerate(operands):
        if not isinstance(operand, TensorBase):
            raise TypeError(f"einsum(): expected Tensor as operand {k}, but got {type(operand).__name__}")
    shapes = tuple([operand.shape for operand in operands])
    labels, output = _plan(equation, shapes)
    parts = [_diagonals(operand, names) for operand, names in zip(operands, labels)]
    if len(operands) == 1:  # a sum as any other, which turns integers into int64
        result, names = parts[0]
        gone = [d for d, name in enumerate(names) if name not in output]
        result, names = (result.sum(gone) if gone else result), [n for n in names if n in output]
        return result.permute([names.index(n) for n in output])
    for first, second in path_of(equation, shapes):
        (left, left_names), (right, right_names) = parts[first], parts[second]
        parts = [part for k, part in enumerate(parts) if k not in (first, second)]
        wanted = {*output, *(name for _, names in parts for name in names)}
        finished = {name for name in (*left_names, *right_names) if name not in wanted}
        parts.append(_contract_pair(left, left_names, right, right_names, finished))
    result, names = parts[0]
    return result.permute([names.index(n) for n in output])


def _read_sublists(args: tuple) -> tuple[str, tuple[TensorBase, ...]]:
    """The equation that operands and lists of numbers in turn stand for."""

    def letters(sublist: Sequence) -> str:
        result = []
        for number in sublist:
            if number is not Ellipsis and not 0 <= number < len(SUBLIST_LETTERS):
                raise ValueError(
                    "einsum(): subscript in subscript list is not within the valid range [0, 52)"
                )
            result.append("..." if number is Ellipsis else SUBLIST_LETTERS[number])
        return "".join(result)

    equation = ",".join(letters(sublist) for sublist in args[1::2])
    if len(args) % 2:
        equation += "->" + letters(args[-1])
    return equation, args[: len(args) // 2 * 2 : 2]


def _scan(equation: str, start: int, end: int, where: str, twice: str, partial: str) -> list[str]:
    """The subscripts of one term: letters, and "..." at most once."""
    result: list[str] = []
    at = start
    while at < end:
        c = equation[at]
        if c == ".":
            if "..." in result:
                raise RuntimeError(f"einsum(): found '.' for {where} {twice}")
            if equation[at : min(at + 3, end)] != "...":
                raise RuntimeError(f"einsum(): found '.' for {where} {partial}")
            result.append("...")
            at += 2
        elif c in SUBLIST_LETTERS:
            result.append(c)
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {at} in the equation string, subscripts must "
                "be in [a-zA-Z]"
            )
        at += 1
    return result


@functools.lru_cache(maxsize=1024)
def _plan(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[list[Label]], list[Label]]:
    """The names of each operand's dimensions and of the output's."""
    labels, output = _parse(equation, shapes)
    _check_sizes(labels, shapes)
    return labels, output


def _parse(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[list[Label]], list[Label]]:
    """The names of each operand's dimensions, and of the output's."""
    arrow = equation.find("->")
    inputs_end = len(equation) if arrow < 0 else arrow
    terms, start = [], 0
    for k, text in enumerate(equation[:inputs_end].split(",")):
        terms.append(
            _scan(equation, start, start + len(text), f"operand {k}",
                  "for which an ellipsis was already found", "that is not part of any ellipsis")
        )  # fmt: skip
        start += len(text) + 1
    if len(terms) != len(shapes):
        few = "fewer" if len(shapes) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {few} operands were provided than specified in the equation")

    labels: list[list[Label]] = []
    widest = 0
    for k, (term, shape) in enumerate(zip(terms, shapes)):
        hidden = len(shape) - sum(s != "..." for s in term)
        if hidden < 0 or (hidden > 0 and "..." not in term):
            dots = "but" if "..." in term else "and no"
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(shape) - hidden}) does not "
                f"match the number of dimensions ({len(shape)}) for operand {k} {dots} ellipsis was given"
            )
        labels.append(_spell_out(term, hidden))
        widest = max(widest, hidden)

    if arrow < 0:
        seen = [n for names in labels for n in names]
        output = _spell_out(["..."], widest) + sorted(
            n for n in set(seen) if isinstance(n, str) and seen.count(n) == 1
        )
        return labels, output
    twice, partial = "but an ellipsis (...) was already found", "that is not part of any ellipsis (...)"
    term = _scan(equation, arrow + 2, len(equation), "output", twice, partial)
    output = _spell_out(term, widest)
    known = {n for names in labels for n in names}
    for name in output:
        if output.count(name) > 1:
            raise RuntimeError(f"einsum(): output subscript {name} appears more than once in the output")
        if name not in known:
            raise RuntimeError(
                f"einsum(): output subscript {name} does not appear in the equation for any input operand"
            )
    return labels, output


def _spell_out(term: list[str], hidden: int) -> list[Label]:
    """The term with its ellipsis replaced by that many numbers."""
    labels: list[Label] = []
    for subscript in term:
        labels.extend(range(hidden - 1, -1, -1) if subscript == "..." else [subscript])
    return labels


def _check_sizes(labels: list[list[Label]], shapes: Sequence[tuple[int, ...]]) -> None:
    sizes: dict[Label, int] = {}
    for k, (names, shape) in enumerate(zip(labels, shapes)):
        own: dict[Label, int] = {}
        for dim, (name, size) in enumerate(zip(names, shape)):
            if own.setdefault(name, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {name} is repeated for operand {k} but the sizes don't match, "
                    f"{size} != {own[name]}"
                )
            before = sizes.get(name, 1)
            if size != before and size != 1 and before != 1:
                if isinstance(name, int):
                    raise RuntimeError(
                        f"einsum(): dimension {dim} covered by ellipsis in operand {k} has size {size} "
                        f"which does not broadcast with previously seen ellipsis with size {before} for the "
                        "respective dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {size} for operand {k} which does not broadcast "
                    f"with previously seen size {before}"
                )
            sizes[name] = before if size == 1 else size


def _diagonals(operand: TensorBase, names: list[Label]) -> tuple[TensorBase, list[Label]]:
    """The operand with each name once."""
    if len(set(names)) == len(names):
        return operand, names
    names = list(names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            operand = operand.diagonal(0, first, second).movedim(-1, first)
            del names[second]
    return operand, names


def _sum_out(operand: TensorBase, names: list[Label], gone: set[Label]) -> tuple[TensorBase, list[Label]]:
    dims = [d for d, name in enumerate(names) if name in gone] if gone else None
    if not dims:
        return operand, names
    long = [d for d in dims if operand.shape[d] != 1]  # sums turn small integers into int64, as everywhere
    return (operand.sum(long, True) if long else operand).squeeze(dims), [
        name for name in names if name not in gone
    ]


def _contract_pair(
    left: TensorBase,
    left_names: list[Label],
    right: TensorBase,
    right_names: list[Label],
    finished: set[Label],
) -> tuple[TensorBase, list[Label]]:
    """The product of two tensors, summed over the finished names: one (stacked) matrix product.

    Names of both that go on count matrices; names of one alone are its rows or columns.
    """
    left_sizes = dict(zip(left_names, left.shape))
    right_sizes = dict(zip(right_names, right.shape))
    # Where one tensor lacks a dimension or has size 1 in it, the other can be summed at once.
    lone = {n for n in finished if left_sizes.get(n, 1) == 1 or right_sizes.get(n, 1) == 1}
    left, left_names = _sum_out(left, left_names, lone)
    right, right_names = _sum_out(right, right_names, lone)
    summed = [n for n in left_names if n in finished]
    stacked = [n for n in left_names if n in right_names and n not in finished]
    rows = [n for n in left_names if n not in right_names]
    columns = [n for n in right_names if n not in left_names]

    left = left.permute([left_names.index(n) for n in stacked + rows + summed])
    right = right.permute([right_names.index(n) for n in stacked + summed + columns])
    names = stacked + rows + columns
    if not summed:
        return mul(
            left.reshape([*left.shape, *[1] * len(columns)]), _after(right, len(stacked), len(rows))
        ), names
    if left.dtype != right.dtype:  # one was summed before, which turned small integers into int64
        kind = promote_types(left.dtype, right.dtype)
        left, right = left.to(kind), right.to(kind)
    row_sizes, column_sizes = [left_sizes[n] for n in rows], [right_sizes[n] for n in columns]
    depth = prod(left_sizes[n] for n in summed)
    product = matmul(
        left.reshape([*left.shape[: len(stacked)], prod(row_sizes), depth]),
        right.reshape([*right.shape[: len(stacked)], depth, prod(column_sizes)]),
    )
    return product.reshape([*product.shape[:-2], *row_sizes, *column_sizes]), names


def _after(operand: TensorBase, leading: int, new: int) -> TensorBase:
    """The operand with `new` dimensions of size 1 put in after the leading ones."""
    return operand.reshape([*operand.shape[:leading], *[1] * new, *operand.shape[leading:]])


def _tensordot_cast(on_host: bool, a: Any, b: Any, dims: Any = 2, **_: Any) -> str:
    """The rule of autocast: of a product of matrices, or of a sum over everything."""
    if not on_host:
        return "promote"
    both = dims if isinstance(dims, int) else len(dims[0]) if isinstance(dims[0], (list, tuple)) else 1
    return "fallthrough" if both == a.ndim == b.ndim else "composite"


@library("composite", "tensordot", autocast=_tensordot_cast, dtypes=NUMBERS)
def tensordot(a: TensorBase, b: TensorBase, dims: Any = 2, out: TensorBase | None = None) -> TensorBase:
    """Σ a[i, k] · b[k, j] over the last `dims` dimensions of a and the first of b, or over the two lists
    `dims`.

    The shape is a's other dimensions, then b's. A size of 1 broadcasts. RuntimeError where sizes, the lists' lengths or
    the dtypes do not fit, IndexError for a dimension out of range.

    >>> import flambeau
    >>> flambeau.tensordot(flambeau.ones(2, 3, 4), flambeau.ones(4, 3), dims=([1, 2], [1, 0]))
    tensor([12., 12.])
    """
    if isinstance(dims, TensorBase):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        a_dims, b_dims = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        a_dims, b_dims = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(a_dims) != len(b_dims):
        raise RuntimeError(
            f"tensordot(): both dimension lists should have same length, got {a_dims} and {b_dims}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"tensordot(): both inputs should have same dtype, got {a.dtype} and {b.dtype}")
    a_dims, b_dims = _wrapped(a_dims, a.ndim), _wrapped(b_dims, b.ndim)
    a_lone, b_lone = [], []
    for first, second in zip(a_dims, b_dims):
        if 1 in (a.shape[first], b.shape[second]):  # it broadcasts: the other is summed at once
            a_lone += [first] if a.shape[first] != 1 else []
            b_lone += [second] if b.shape[second] != 1 else []
        elif a.shape[first] != b.shape[second]:
            raise RuntimeError(
                f"tensordot(): contracted dimensions need to match, but first has size {a.shape[first]} in dim "
                f"{first} and second has size {b.shape[second]} in dim {second}"
            )
    a = a.sum(a_lone, True, dtype=a.dtype) if a_lone else a
    b = b.sum(b_lone, True, dtype=b.dtype) if b_lone else b
    rows = [d for d in range(a.ndim) if d not in a_dims]
    columns = [d for d in range(b.ndim) if d not in b_dims]
    row_sizes, column_sizes = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    depth = prod(a.shape[d] for d in a_dims)
    product = matmul(
        a.permute(rows + a_dims).reshape(prod(row_sizes), depth),
        b.permute(b_dims + columns).reshape(depth, prod(column_sizes)),
    )
    return into(out, product.reshape(row_sizes + column_sizes), "tensordot", exact=True)


def _wrapped(dims: list[int], rank: int) -> list[int]:
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(
                f"tensordot(): Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})"
            )
    dims = [d % rank for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"tensordot(): a dim appears multiple times in the list of dims {dims}")
    return dims


@library("composite", "linalg.multi_dot", autocast=("composite", "lower"), dtypes=NUMBERS)
def multi_dot(tensors: Sequence[TensorBase], *, out: TensorBase | None = None) -> TensorBase:
    """A₁ · A₂ · … · Aₙ in the order of least work; the first and the last may be vectors.

    RuntimeError for fewer than two tensors and where shapes or dtypes do not fit. The order is found by
    dynamic programming over all ways to bracket the product (Cormen et al., Introduction to Algorithms, "Matrix-chain
    multiplication").

    >>> import flambeau
    >>> flambeau.linalg.multi_dot([flambeau.ones(2, 3), flambeau.ones(3, 4), flambeau.ones(4)])
    tensor([12., 12.])
    """
    tensors = list(tensors)
    last = len(tensors) - 1
    if last < 1:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for k, t in enumerate(tensors):
        if t.ndim != 2 and not (t.ndim == 1 and k in (0, last)):
            which = {0: "the first tensor", last: "the last tensor"}.get(k, f"tensor {k}")
            wanted = "1D or 2D" if k in (0, last) else "2D"
            raise RuntimeError(f"multi_dot(): {which} must be {wanted} but got {t.ndim}D")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must be of the same dtype but tensor 0 is {tensors[0].dtype} and "
                f"tensor {k} {t.dtype}"
            )
    matrices = list(tensors)
    if tensors[0].ndim == 1:
        matrices[0] = tensors[0].unsqueeze(0)
    if tensors[last].ndim == 1:
        matrices[last] = tensors[last].unsqueeze(1)
    for k in range(last):
        if matrices[k].shape[1] != matrices[k + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(matrices[k].shape)} and "
                f"{list(matrices[k + 1].shape)} cannot be multiplied"
            )
    cuts = _best_cuts([m.shape[0] for m in matrices] + [matrices[last].shape[1]])

    def product(first: int, end: int) -> TensorBase:
        if first == end:
            return matrices[first]
        cut = cuts[first, end]
        return matmul(product(first, cut), product(cut + 1, end))

    shape = ([matrices[0].shape[0]] if tensors[0].ndim == 2 else []) + (
        [matrices[last].shape[1]] if tensors[last].ndim == 2 else []
    )
    return into(out, product(0, last).reshape(shape), "linalg.multi_dot", exact=True)


def _best_cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Behind which matrix to cut each run of them, of sizes[k] by sizes[k + 1], for the least work."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            end = first + length
            cost[first, end], cuts[first, end] = min(
                (cost[first, cut] + cost[cut + 1, end] + sizes[first] * sizes[cut + 1] * sizes[end + 1], cut)
                for cut in range(first, end)
            )
    return cuts


@library("composite", "chain_matmul", autocast=("composite", "lower"))
def chain_matmul(*matrices: TensorBase, out: TensorBase | None = None) -> TensorBase:
    """A₁ · A₂ · … · Aₙ in the order of least work, as `linalg.multi_dot`; of one matrix, itself.

    Shape:
        matrices: (n₀, n₁), (n₁, n₂), …; result: (n₀, nₖ)

    >>> import flambeau
    >>> flambeau.chain_matmul(flambeau.ones(1, 3), flambeau.ones(3, 4), flambeau.ones(4, 1))
    tensor([[12.]])
    """
    for k, m in enumerate(matrices):
        if m.ndim != 2:
            raise RuntimeError(
                f"chain_matmul(): Tensor dimension is {m.ndim}, expected 2 instead, for argument {k}"
            )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expecting at least one matrix")
    if len(matrices) == 1:
        return into(out, matrices[0].clone(), "chain_matmul", exact=True)
    return multi_dot(matrices, out=out)


@library(
    "composite", "nn.functional.bilinear", "bilinear", autocast=("fallthrough", "promote"), dtypes=NUMBERS
)
def bilinear(
    input1: TensorBase, input2: TensorBase, weight: TensorBase, bias: TensorBase | None = None
) -> TensorBase:
    """`y[..., n] = input1[..., :] @ weight[n] @ input2[..., :] + bias[n]`.

    Shapes: input1 (..., i), input2 (..., j), weight (n, i, j), bias (n); the result (..., n). RuntimeError
    where they do not fit.

    >>> import flambeau
    >>> from flambeau.nn.functional import bilinear
    >>> bilinear(flambeau.ones(2, 3), flambeau.ones(2, 4), flambeau.ones(1, 3, 4))
    tensor([[12.],
            [12.]])
    """
    checks.same_dtype("bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for d in range(input1.ndim - 1):
        if input1.shape[d] != input2.shape[d]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {input1.shape[d]} and "
                f"{input2.shape[d]}"
            )
    if weight.ndim != 3:
        raise RuntimeError(f"bilinear(): weight must have 3 dimensions, got {weight.ndim}")
    for number, (given, wanted) in enumerate(zip((input1.shape[-1], input2.shape[-1]), weight.shape[1:]), 1):
        if given != wanted:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {given} but expected "
                f"{wanted}"
            )
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != weight.shape[0]):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0] if bias.ndim else 1} but "
            f"expected {weight.shape[0]}"
        )
    outputs, rows, columns = weight.shape
    batch = prod(input1.shape[:-1])
    left, right = input1.reshape(batch, rows), input2.reshape(batch, columns, 1)
    # (batch, i) @ (i, n j) -> (batch, n, j), then each (n, j) matrix times a vector of j elements
    half = matmul(left, weight.transpose(0, 1).reshape(rows, outputs * columns))
    result = matmul(half.reshape(batch, outputs, columns), right).reshape([*input1.shape[:-1], outputs])
    return result if bias is None else result + bias
