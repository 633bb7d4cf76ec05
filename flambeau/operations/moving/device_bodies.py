"""What the core does itself on the CPU and other devices do in kernels: products, elements at places that indices name,
scans.

Nothing here is recorded: the core's functions call these in place of their own loops, and what they put on the tape
is the same.  A kernel meets an index out of bounds without touching memory there; the error follows when the host
next waits for the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ...codegen import functions as fn
from ...codegen.expr import Expr
from ...core.base.callbacks import set_callback
from ...core.base.tensor import TensorBase
from ...core.loops.launch import run_blocks
from ...core.make.create import arange, empty
from ...core.tape.contexts import unrecorded
from ...core.views.views import view_as_real
from ..declare.indexed import Indexed, indexed, scatter
from ..on_device import ordering

MATRIX, TRANSPOSED, ROW, COLUMN = range(4)  # core/lib/products/contraction.pxd; otherwise a single number


# --- products ------------------------------
@indexed(effort=64)
def matrix_product(at, a, b):
    """Rows of a times columns of b, of stacks of one shape."""
    if not fn.is_complex(a.dtype):
        return at.sum((a.size(a.rank - 1),), lambda k: a[(*at[:-1], k)] * b[(*at[:-2], k, at[-1])])

    def term(k):
        x, y = a[(*at[:-1], k)], b[(*at[:-2], k, at[-1])]
        (p, q), (r, s) = (fn.real(x), fn.imag(x)), (fn.real(y), fn.imag(y))
        return p * r - q * s, p * s + q * r

    zero = fn.const(0.0, fn.part(a.dtype))
    return fn.pair(
        *at.fold((a.size(a.rank - 1),), term, lambda u, v: (u[0] + v[0], u[1] + v[1]), (zero, zero))
    )


def _as_matrices(t: TensorBase, form: int) -> TensorBase:
    """A view whose last two dimensions are those of the matrix."""
    if form == MATRIX:
        return t
    if form == TRANSPOSED:
        return t.transpose(-2, -1)
    if form == ROW:
        return t.unsqueeze(-2)
    return t.unsqueeze(-1) if form == COLUMN else t.unsqueeze(-1).unsqueeze(-1)


def _product(
    out: TensorBase,
    a: TensorBase,
    b: TensorBase,
    alpha,
    addend: TensorBase | None = None,
    beta=0,
    after: Expr | None = None,
) -> bool:
    """out = after(alpha * a @ b + beta * addend) in one kernel, for stacks of one shape; whether there is a kernel for them."""
    *stack, m, n = out.shape
    tensors: tuple[TensorBase, ...] = (out, a, b) if addend is None or addend is out else (out, a, b, addend)
    steps = [one_step(stack, t.stride()) for t in tensors]
    if a.dtype.is_complex or a.dtype.name == "bool" or None in steps:
        return False
    from ...codegen import schedule_gpu_products as products

    adds = addend is not None and beta != 0
    apart = "" if len(tensors) == 3 or not adds else "row" if tensors[3].stride(-1) == 0 else "matrix"
    kernel = products.Product(
        a.dtype.name, a.stride(-1) != 1, b.stride(-1) != 1, adds, addend=apart, after=after
    )
    tensors = tensors[: len(kernel.tensors)]
    strides = (number for step, t in zip(steps, tensors) for number in (step, *t.stride()[-2:]))
    number = float if a.dtype.is_floating_point else int
    sizes = (math.prod(stack), m, n, a.shape[-1])
    run_blocks(kernel, tensors, (*sizes, *strides), (number(alpha), number(beta)))
    return True


def one_step(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """How far it is from a place to the next over some dimensions, in elements; None where that differs."""
    step, expected = None, None
    for size, stride in reversed(list(zip(sizes, strides))):
        if size == 1:
            continue
        if step is None:
            step = stride
        elif stride != expected:
            return None
        expected = stride * size
    return 0 if step is None else step


def multiply(
    out: TensorBase,
    form: int,
    a: TensorBase,
    a_form: int,
    b: TensorBase,
    b_form: int,
    alpha,
    addend: TensorBase | None,
    beta,
) -> None:
    """out = alpha * a @ b + beta * addend, stacks and the addend broadcast; `out` sums over those dimensions of the stack that it
    lacks, or has only one place of.
    """
    with unrecorded():
        old = None if addend is None or not beta else _as_matrices(addend.expand(out.shape), form)
        over = addend is out
        out, a, b = _as_matrices(out, form), _as_matrices(a, a_form), _as_matrices(b, b_form)
        rank = max(a.ndim, b.ndim, out.ndim)
        a, b, whole = (t[(None,) * (rank - t.ndim)] for t in (a, b, out))
        if old is not None:
            old = whole if over else old[(None,) * (rank - old.ndim)]
        stack = [max(sizes) if 0 not in sizes else 0 for sizes in zip(a.shape[:-2], b.shape[:-2])]
        a, b = a.expand(*stack, *a.shape[-2:]), b.expand(*stack, *b.shape[-2:])
        summed = [d for d in range(rank - 2) if whole.shape[d] == 1 and stack[d] != 1]
        if not summed and _product(whole, a, b, alpha, old, beta):
            return
        sizes = (*stack, a.shape[-2], b.shape[-1])
        result = a.new_empty(sizes)
        if not _product(result, a, b, 1):
            result = matrix_product(sizes, a, b)
        if summed:
            result = result.sum(summed, keepdim=True, dtype=result.dtype)
        if alpha != 1:
            result = result * alpha
        whole.copy_(result if old is None else result + old * beta)


def multiply_ended(
    out: TensorBase, a: TensorBase, b: TensorBase, alpha, addend: TensorBase | None, beta, after: Expr
) -> None:
    """out = after(alpha * a @ b + beta * addend), of real numbers; stacks and the addend are broadcast."""
    with unrecorded():
        stack = out.shape[:-2]
        a, b = a.expand(*stack, *a.shape[-2:]), b.expand(*stack, *b.shape[-2:])
        addend = None if addend is None else addend.expand(out.shape)
        if not _product(out, a, b, alpha, addend, beta, after):  # a stack with gaps
            addend = None if addend is None else addend.contiguous()
            _product(out, a.contiguous(), b.contiguous(), alpha, addend, beta, after)


# --- one index a line ------------------------------
@indexed(moves=("source",))
def _pick_last(at, source, index):
    return source[(*at[:-1], at.checked(index[at], source.size(source.rank - 1)))]


@scatter(moves=("source",))
def _set_last(at, out, index, source):
    return out.store((*at[:-1], at.checked(index[at], out.size(out.rank - 1))), source[at])


@scatter(static=("how",))
def _combine_last(at, out, index, source, *, how):
    return out.store((*at[:-1], at.checked(index[at], out.size(out.rank - 1))), source[at], how)


def _last(t: TensorBase, dim: int, shape: Sequence[int] | None = None) -> TensorBase:
    """The dimension moved to the end; cut to `shape` before."""
    t = t if t.ndim else t.reshape(1)
    for d, size in enumerate(shape or ()):
        t = t.narrow(d, 0, size) if t.shape[d] != size else t
    return t.movedim(dim, -1)


def gather(input: TensorBase, dim: int, index: TensorBase) -> TensorBase:
    """`flambeau.gather`."""
    with unrecorded():
        places = _last(index, dim)
        result = _pick_last(places.shape, _last(input, dim), places)
        return result.movedim(-1, dim).contiguous().reshape(index.shape)


def write_at(input: TensorBase, source: TensorBase, index: TensorBase, dim: int, how: str) -> None:
    """`scatter_`, where `how` is "set", and its relatives: one thread for each line along `dim`, in the order of the index."""
    with unrecorded():
        if input.is_complex() and how == "add":  # two real numbers side by side
            input, source, index = (
                view_as_real(input),
                view_as_real(source),
                index.unsqueeze(-1).expand(*index.shape, 2),
            )
        elif input.is_complex() and how != "set":
            raise NotImplementedError(f"scatter_reduce(): no {how!r} of complex numbers on {input.device}")
        shape = index.shape if index.ndim else (1,)
        places, values, out = _last(index, dim), _last(source, dim, shape), _last(input, dim)
        if how == "set":
            _set_last.into(out, places.shape, places, values, serial=1)
        else:
            _combine_last.into(out, places.shape, places, values, serial=1, how=how)


@scatter()
def _add(at, out, values):
    """Elements added where they stand; places of `out` may coincide."""
    return out.store(at, values[at], "add")


def add_strided(out: TensorBase, values: TensorBase, strides: Sequence[int], offset: int) -> None:
    """Add values to the places of `out`, contiguous, that those strides reach, in the order of the elements; places may be
    reached more than once.
    """
    with unrecorded():
        if values.is_complex():  # two real numbers side by side
            out, values = view_as_real(out), view_as_real(values)
            strides, offset = [*(2 * s for s in strides), 1], 2 * offset
        _add.into(out.as_strided(values.shape, strides, offset), values.shape, values, serial=values.ndim)


# --- several indices a place ------------------------------
def _with_indices(body, first: Sequence[str], count: int):
    """The body as a function of that many index operands, which it gets as a tuple."""

    def made(at, *operands, **static):
        return body(at, *operands[: len(first)], operands[len(first) :], **static)

    import inspect

    kinds = inspect.Parameter
    names = ("at", *first, *(f"index{k}" for k in range(count)))
    parameters = [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in names]
    made.__name__ = made.__qualname__ = "index"
    made.__doc__ = body.__doc__
    made.__signature__ = inspect.Signature([*parameters, kinds("negative", kinds.KEYWORD_ONLY)])  # type: ignore[attr-defined]
    return made


def _pick(at, source, indices, *, negative):
    """Elements of a source whose first dimensions are indexed; the indices' own dimensions come first."""
    rank = indices[0].rank
    place = [at.checked(i[at[:rank]], source.size(d), negative) for d, i in enumerate(indices)]
    return source[(*place, *at[rank:])]


def _put_set(at, out, values, indices, *, negative):
    """The same elements written; the indices' dimensions come last, and are walked in order."""
    rank = indices[0].rank
    place = [at.checked(i[at[-rank:]], out.size(d), negative) for d, i in enumerate(indices)]
    return out.store((*place, *at[:-rank]), values[at])


def _put_add(at, out, values, indices, *, negative):
    rank = indices[0].rank
    place = [at.checked(i[at[-rank:]], out.size(d), negative) for d, i in enumerate(indices)]
    return out.store((*place, *at[:-rank]), values[at], "add")


@functools.cache
def _picker(count: int) -> Indexed:
    return indexed(static=("negative",), moves=("source",))(_with_indices(_pick, ("source",), count))


@functools.cache
def _putter(count: int, accumulate: bool) -> Indexed:
    body, moves = (_put_add, ()) if accumulate else (_put_set, ("values",))
    return scatter(static=("negative",), moves=moves)(_with_indices(body, ("out", "values"), count))


class _Indexing:
    """What `tensor[indices]` means: `indices` holds an index tensor or None for each of the first dimensions."""

    def __init__(self, input: TensorBase, indices: Sequence[TensorBase | None]):
        used = [d for d, i in enumerate(indices) if i is not None]
        rest = [d for d in range(input.ndim) if d not in used]
        given = [i.to(input.device) for i in indices if i is not None]  # those on the CPU may be mixed in
        self.shape = functools.reduce(_broadcast, [tuple(i.shape) for i in given])
        # a number counts as a vector of one, which the result does not show
        self.index_shape = self.shape or (1,)
        self.indices = [
            i.expand(self.shape).reshape(self.index_shape) if not self.shape else i.expand(self.index_shape)
            for i in given
        ]
        self.source = input.permute(*used, *rest)
        self.rest = tuple(input.shape[d] for d in rest)
        # indices that stand side by side leave their dimensions there, others in front
        beside = used == list(range(used[0], used[0] + len(used)))
        self.before = len([d for d in rest if d < used[0]]) if beside else 0

    @property
    def full(self) -> tuple[int, ...]:
        """The shape of what the indices choose."""
        return (*self.rest[: self.before], *self.shape, *self.rest[self.before :])

    def result(self, found: TensorBase) -> TensorBase:
        """Elements in the order (indices, rest) as the operation's result."""
        found = found.reshape(*self.shape, *self.rest)
        n, k = len(self.shape), self.before
        order = [*range(n, n + k), *range(n), *range(n + k, found.ndim)]
        return found.permute(*order).contiguous() if order != list(range(found.ndim)) else found

    def values(self, values: TensorBase) -> TensorBase:
        """Values broadcast to the result's shape, in the order (rest, indices)."""
        values = values if values.ndim else values.to(self.source.device)
        full = self.full
        while values.ndim > len(full) and values.shape[0] == 1:
            values = values.squeeze(0)
        try:
            values = values.expand(full)
        except RuntimeError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
                f"shape {list(full)}"
            ) from None
        n, k = len(self.shape), self.before
        return values.permute(*range(k), *range(k + n, len(full)), *range(k, k + n)).reshape(
            *self.rest, *self.index_shape
        )


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(a), len(b))
    pairs = list(zip((1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b))
    if any(x != y and 1 not in (x, y) for x, y in pairs):
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {list(a)}, {list(b)}"
        )
    return tuple(y if x == 1 else x for x, y in pairs)


def get(input: TensorBase, indices: Sequence[TensorBase | None], negative: bool) -> TensorBase:
    """The elements that index tensors choose."""
    with unrecorded():
        how = _Indexing(input, indices)
        shape = (*how.index_shape, *how.rest)
        result = _picker(len(how.indices))(shape, how.source, *how.indices, negative=negative)
        return how.result(result)


def put(
    input: TensorBase,
    indices: Sequence[TensorBase | None],
    values: TensorBase,
    accumulate: bool,
    negative: bool,
) -> None:
    """Write values to (or add them at) the places that index tensors choose, in the order of the indices."""
    with unrecorded():
        if (
            accumulate and input.is_complex()
        ):  # two real numbers side by side; those of the values come last, too
            wide = values.expand(_Indexing(input, indices).full) if values.ndim else values
            input, values = view_as_real(input), view_as_real(wide.to(input.device).resolve_conj())
            values = values.expand(*_Indexing(input, indices).full)
        how = _Indexing(input, indices)
        written = how.values(values)
        putter = _putter(len(how.indices), accumulate)
        serial = len(how.index_shape)
        putter.into(how.source, written.shape, written, *how.indices, serial=serial, negative=negative)


# --- which elements are not zero ------------------------------
@indexed(static=("by_element",))
def _coordinates(at, flat, mask, *, by_element):
    """Coordinate d of the element that stands at a place of the mask, counted in row-major order."""
    k, d = at if by_element else at[::-1]
    rest, result = fn.cast(flat[(k,)], at.integer), None
    for axis in reversed(range(mask.rank)):
        size = mask.size(axis)
        outer = rest / size if axis else rest * 0
        here = rest - outer * size
        result = here if result is None else fn.where(d == axis, here, result)
        rest = outer
    return fn.cast(result, "int64")


def nonzero(mask: TensorBase, by_element: bool) -> TensorBase:
    """Where a mask is true, in row-major order: (elements, rank) if `by_element`, else (rank, elements).  Their number alone
    travels to the host.
    """
    with unrecorded():
        ends = mask.reshape(-1).cumsum(0)
        n = int(ends[-1]) if mask.numel() else 0
        shape = (n, mask.ndim) if by_element else (mask.ndim, n)
        if not (n and mask.ndim):
            return empty(shape, dtype=ends.dtype, device=mask.device)
        flat = ordering.search(ends, arange(1, n + 1, device=mask.device))
        return (
            flat.reshape(shape) if mask.ndim == 1 else _coordinates(shape, flat, mask, by_element=by_element)
        )


for _name, _function in (
    ("device.nonzero", nonzero),
    ("device.multiply", multiply),
    ("device.multiply_ended", multiply_ended),
    ("device.gather", gather),
    ("device.write_along", write_at),
    ("device.add_strided", add_strided),
    ("device.index", get),
    ("device.index_put", put),
):
    set_callback(_name, _function)
