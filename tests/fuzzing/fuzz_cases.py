"""What to call: for each public operation a way to draw arguments and, where there is one, the function of NumPy or SciPy that
it must agree with.

A case draws `(args, kwargs)`; tensors among them are `Given`s.  The reference gets the same arguments as arrays of float64 (or
complex128, or the integers themselves).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from fuzz_draw import COMPLEX, FLOATS, INTEGERS, Draw, Given

from flambeau.operations.declare.registry import REGISTRY


class Case(NamedTuple):
    place: str  # as "exp", "Tensor.exp_", "nn.functional.relu"
    draw: Callable[[Draw], tuple[tuple, dict]]
    reference: Callable | None
    loose: float  # how many times the usual tolerance the values may be off
    but: str  # what does not hold, by design: "layout", "difference"; "endless": a number is how often a loop turns


CASES: list[Case] = []


def case(
    places: str,
    draw: Callable[[Draw], tuple],
    reference: Callable | None = None,
    loose: float = 1.0,
    but: str = "",
) -> None:
    """Enter a way to call those places; `draw` may leave out the keywords."""

    def whole(d: Draw) -> tuple[tuple, dict]:
        drawn = draw(d)
        return (drawn[:-1], drawn[-1]) if drawn and type(drawn[-1]) is dict else (drawn, {})

    CASES.extend(Case(place, whole, reference, loose, but) for place in places.split())


def like(d: Draw, x: Given, shape: tuple[int, ...]) -> Given:
    """A tensor of x's dtype."""
    return d.tensor(shape, str(x.tensor.dtype).partition(".")[2])


def both(name: str) -> str:
    return f"{name} Tensor.{name}"


# --- pointwise: from the registry ------------------------------
def _reference_of(entry: Any) -> Callable | None:
    if not entry.reference:
        return None
    module, _, name = entry.reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _draw_pointwise(entry: Any, in_place: bool) -> Callable[[Draw], tuple]:
    operands, dtypes = entry.details["operands"], sorted(entry.dtypes)
    signature = entry.function.__signature__
    needed = [n for n, p in signature.parameters.items() if p.default is p.empty and n not in operands]
    low, high = entry.domain

    def draw(d: Draw) -> tuple:
        shape, dtype = d.shape(), d.one_of(*dtypes)
        args = []
        for k, operand in enumerate(operands):
            where = shape if k == 0 and in_place else d.broadcastable(shape)
            kind = "bool" if operand in ("condition", "mask") else dtype
            args.append(d.tensor(where, kind, low, high, special=0.0 if entry.reference else 0.3))
        return (*args, {n: 0.5 for n in needed})

    return draw


for _entry in REGISTRY.values():
    if _entry.kind == "pointwise":
        for _place in _entry.places:
            if not _place.startswith("_") and "._" not in _place:
                case(_place, _draw_pointwise(_entry, False), _reference_of(_entry), 8)
                if _entry.in_place is not None and _place.startswith("Tensor."):
                    case(_place + "_", _draw_pointwise(_entry, True), _reference_of(_entry), 8)


# --- reductions, rows, scans ------------------------------
def over(fold: Callable) -> Callable:
    """A fold of NumPy's over `dim`."""

    def reference(x: np.ndarray, dim: Any = None, keepdim: bool = False, **rest: Any) -> np.ndarray:
        return fold(x, axis=dim, keepdims=keepdim, **rest)

    return reference


def draw_reduction(dims: bool = True, least: int = 0, dtypes: tuple = FLOATS) -> Callable[[Draw], tuple]:
    def draw(d: Draw) -> tuple:
        x = d.tensor(d.shape(0, 4, least), d.one_of(*dtypes))
        rank = x.tensor.dim()
        if rank == 0 or d.chance(0.25):
            return (x,)
        dim = d.dims(rank) if dims and d.chance(0.5) else d.dim(rank)
        return x, dim, {"keepdim": d.chance(0.5)}

    return draw


def along(function: Callable) -> Callable:
    """A function of NumPy's along one axis; 0-dim tensors count as one element."""

    def reference(x: np.ndarray, dim: int, *rest: Any, **more: Any) -> np.ndarray:
        return function(np.atleast_1d(x), dim, *rest, **more).reshape(x.shape)

    return reference


def draw_along(least: int = 0, dtypes: tuple = FLOATS) -> Callable[[Draw], tuple]:
    def draw(d: Draw) -> tuple:
        x = d.tensor(d.shape(0, 4, least), d.one_of(*dtypes))
        return x, d.dim(x.tensor.dim())

    return draw


NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
case(both("sum"), draw_reduction(dtypes=NUMBERS), over(np.sum), 40)
case(both("mean"), draw_reduction(dtypes=(*FLOATS, *COMPLEX)), over(np.mean), 4)
case(both("prod"), draw_reduction(dims=False), over(np.prod), 50)
case(both("amax"), draw_reduction(least=1, dtypes=(*FLOATS, *INTEGERS)), over(np.amax))
case(both("amin"), draw_reduction(least=1, dtypes=(*FLOATS, *INTEGERS)), over(np.amin))
case(both("argmax"), draw_reduction(dims=False, least=1), over(np.argmax))
case(both("argmin"), draw_reduction(dims=False, least=1), over(np.argmin))
case(both("any"), draw_reduction(dtypes=(*NUMBERS, "bool")), over(np.any))
case(both("all"), draw_reduction(dtypes=(*NUMBERS, "bool")), over(np.all))
case(both("nansum"), draw_reduction(), over(np.nansum), 40)
case(both("nanmean"), draw_reduction(least=1), over(np.nanmean))
case(
    both("var"),
    draw_reduction(least=2),
    lambda x, dim=None, keepdim=False: np.var(x, axis=dim, keepdims=keepdim, ddof=1),
    20,
)
case(
    both("std"),
    draw_reduction(least=2),
    lambda x, dim=None, keepdim=False: np.std(x, axis=dim, keepdims=keepdim, ddof=1),
    20,
)
case(
    both("logsumexp"),
    lambda d: (x := d.floats(1, 4, least=1), d.dim(x.tensor.dim())),
    lambda x, dim: scipy.special.logsumexp(x, axis=dim),
    4,
)
case(both("count_nonzero"), lambda d: (d.numbers(1, 4),), np.count_nonzero)
for _name in ("aminmax", "var_mean", "std_mean"):
    case(_name, lambda d: (d.floats(1, 4, least=2), {"dim": 0}))
for _name in ("max", "min", "median", "nanmedian", "mode"):
    # of equal elements one gets the gradient
    case(
        both(_name),
        lambda d: (x := d.floats(1, 4, least=1), d.dim(x.tensor.dim()), d.chance(0.5)),
        but="difference",
    )
    case(both(_name), lambda d: (d.floats(0, 3, least=1),), but="difference")
case(
    both("norm"),
    lambda d: (
        x := d.floats(1, 4),
        d.one_of(0, 0.5, 1, 2, 3, 6, float("inf"), -float("inf")),
        d.dim(x.tensor.dim()),
    ),
)
case(
    "linalg.vector_norm",
    lambda d: (
        x := d.floats(1, 4, least=1),
        d.one_of(0, 1, 2, 3.5, float("inf"), -float("inf")),
        d.dim(x.tensor.dim()),
    ),
    lambda x, o, dim: np.linalg.norm(x, o, dim),
    20,
)
case(
    both("softmax") + " nn.functional.softmax",
    draw_along(least=1),
    along(lambda x, dim: scipy.special.softmax(x, dim)),
    4,
)
case(
    both("log_softmax") + " nn.functional.log_softmax",
    draw_along(least=1),
    along(lambda x, dim: scipy.special.log_softmax(x, dim)),
    8,
)
case("nn.functional.softmin", draw_along(least=1), along(lambda x, dim: scipy.special.softmax(-x, dim)), 4)
case(both("cumsum"), draw_along(dtypes=NUMBERS), along(np.cumsum), 30)
case(both("cumprod"), draw_along(), along(np.cumprod), 100)
case(both("logcumsumexp"), draw_along(), along(np.logaddexp.accumulate), 16)
case(both("cummax"), draw_along())
case(both("cummin"), draw_along())
case(
    both("sort"),
    lambda d: (
        x := d.tensor(d.shape(0, 4), d.one_of(*NUMBERS[:11]), special=0.3),
        d.dim(x.tensor.dim()),
        d.chance(0.5),
    ),
)
case(both("argsort"), lambda d: (x := d.numbers(1, 3), {"dim": d.dim(x.tensor.dim()), "stable": True}))
case(both("msort"), lambda d: (d.floats(1, 3),), lambda x: np.sort(x, 0))
case(
    both("topk"),
    lambda d: (
        x := d.floats(1, 3, least=1),
        d.int(0, x.tensor.shape[k := d.dim(x.tensor.dim())]),
        k,
        d.chance(0.5),
        d.chance(0.5),
    ),
)
case(
    both("kthvalue"),
    lambda d: (x := d.floats(1, 3, least=1), d.int(1, x.tensor.shape[k := d.dim(x.tensor.dim())]), k),
    but="difference",
)
case(
    both("quantile"),
    lambda d: (
        x := d.tensor(d.shape(1, 3, 1), d.one_of("float32", "float64")),
        d.float(0, 1),
        d.dim(x.tensor.dim()),
    ),
    lambda x, q, dim: np.quantile(x, q, axis=dim),
    8,
)
case(
    both("diff"),
    lambda d: (x := d.numbers(1, 3), d.int(0, 2), d.dim(x.tensor.dim())),
    lambda x, n, dim: np.diff(x, n, dim),
    4,
)
case(
    "trapezoid",
    lambda d: (x := d.floats(1, 3, least=1), {"dim": d.dim(x.tensor.dim())}),
    lambda x, dim: np.trapezoid(x, axis=dim),
    8,
)
case("unique", lambda d: (d.tensor(d.shape(0, 3), d.one_of(*INTEGERS)),), np.unique)
case("unique_consecutive", lambda d: (d.tensor(d.shape(0, 2), d.one_of(*INTEGERS), 0, 2),))
case(
    both("bincount"),
    lambda d: (d.index(d.shape(1, 1), 9), {"minlength": d.int(0, 12)}),
    lambda x, minlength: np.bincount(x, minlength=minlength),
)
case(
    both("histc"), lambda d: (d.tensor(d.shape(0, 2), d.one_of("float32", "float64")), d.int(1, 9), -3.0, 3.5)
)
case(
    "searchsorted",
    lambda d: (
        d.tensor(d.shape(1, 1), "float64"),
        d.tensor(d.shape(0, 2), "float64"),
        {"right": d.chance(0.5)},
    ),
)
case("bucketize", lambda d: (d.tensor(d.shape(0, 2), "float64"), d.tensor(d.shape(1, 1), "float64")))
case("isin", lambda d: (d.tensor(d.shape(0, 3), "int64"), d.tensor(d.shape(0, 2), "int64")), np.isin)
case(
    both("nonzero") + " argwhere",
    lambda d: (d.tensor(d.shape(0, 3), d.one_of(*INTEGERS, "bool"), 0, 1),),
    lambda x: np.argwhere(x),
)


# --- products ------------------------------
def matrices(
    d: Draw, *shapes: tuple[int, ...], dtypes: tuple = (*FLOATS, *COMPLEX, "int64", "int32")
) -> tuple:
    dtype = d.one_of(*dtypes)
    return tuple(d.tensor(s, dtype) for s in shapes)


def _draw_matmul(d: Draw) -> tuple:
    n, k, m = d.size(), d.size(), d.size()
    batch = d.shape(0, 2)
    left = (k,) if d.chance(0.2) else (*d.broadcastable(batch), n, k)
    right = (k,) if d.chance(0.2) else (*d.broadcastable(batch), k, m)
    if np.prod((*batch, n, k), dtype=object) > 4000 or np.prod((*batch, k, m), dtype=object) > 4000:
        left, right = (n, k), (k, m)
    return matrices(d, left, right)


case(both("matmul") + " linalg.matmul", _draw_matmul, np.matmul, 40)
case(both("mm"), lambda d: matrices(d, (d.size(), k := d.size()), (k, d.size())), np.matmul, 40)
case(
    both("bmm"),
    lambda d: matrices(d, (b := d.int(0, 4), d.size(), k := d.size()), (b, k, d.size())),
    np.matmul,
    40,
)
case(both("mv"), lambda d: matrices(d, (d.size(), k := d.size()), (k,)), np.matmul, 40)
case(both("dot"), lambda d: matrices(d, (k := d.size(),), (k,)), np.dot, 40)
case(both("vdot"), lambda d: matrices(d, (k := d.size(),), (k,)), np.vdot, 40)
case(both("inner"), lambda d: matrices(d, (d.size(), k := d.size()), (d.size(), k)), np.inner, 40)
case(both("outer") + " ger", lambda d: matrices(d, (d.size(),), (d.size(),)), np.outer)
case(both("kron"), lambda d: matrices(d, d.shape(1, 2)[:2], (2, 3)), np.kron)
case(
    "tensordot",
    lambda d: (*matrices(d, (3, 2, k := d.size(), 4), (k, 4, 3)), {"dims": ([2, 3], [0, 1])}),
    lambda a, b, dims: np.tensordot(a, b, dims),
    40,
)
case(
    "addmm",
    lambda d: (
        *matrices(
            d, d.broadcastable((n := d.size(), m := d.size())), (n, k := d.size()), (k, m), dtypes=FLOATS
        ),
        {"beta": d.one_of(0, 0.5, 1), "alpha": 2},
    ),
    lambda c, a, b, beta, alpha: (beta * c if beta else 0) + alpha * (a @ b),
    80,
)
case(
    "baddbmm",
    lambda d: (
        *matrices(d, (2, n := d.size(), m := d.size()), (2, n, k := d.size()), (2, k, m), dtypes=FLOATS),
        {"beta": 0.5},
    ),
    lambda c, a, b, beta: beta * c + a @ b,
    80,
)
case(
    "addbmm",
    lambda d: (
        *matrices(d, (n := d.size(), m := d.size()), (2, n, k := d.size()), (2, k, m), dtypes=FLOATS),
    ),
    lambda c, a, b: c + (a @ b).sum(0),
    80,
)
case(
    "addmv",
    lambda d: (*matrices(d, (n := d.size(),), (n, k := d.size()), (k,), dtypes=FLOATS),),
    lambda c, a, b: c + a @ b,
    80,
)
case(
    "addr",
    lambda d: (*matrices(d, (n := d.size(), m := d.size()), (n,), (m,), dtypes=FLOATS),),
    lambda c, a, b: c + np.outer(a, b),
    8,
)
case(
    "nn.functional.linear",
    lambda d: matrices(d, (*d.shape(0, 2, 0)[:2], k := d.size()), (m := d.size(), k), (m,), dtypes=FLOATS),
    lambda x, w, b: x @ w.T + b,
    80,
)
_EINSUMS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij,ij->",
    "ii->i",
    "ij->ji",
    "i,j->ij",
    "bij->b",
    "bnd,bmd->bnm",
    "ij,jk,kl->il",
    "...ij,...jk->...ik",
)


def _draw_einsum(d: Draw) -> tuple:
    equation = d.one_of(*_EINSUMS)
    sizes: dict[str, int] = {}
    operands = []
    for part in equation.split("->")[0].split(","):
        shape = [sizes.setdefault(c, d.one_of(0, 1, 2, 3, 5)) for c in part.replace("...", "")]
        operands.append(([2] if "..." in part else []) + shape)
    return (
        equation,
        *matrices(d, *map(tuple, operands), dtypes=("float32", "float64", "complex64", "complex128")),
    )


case("einsum", _draw_einsum, np.einsum, 80)
case(
    "cdist",
    lambda d: (
        *matrices(d, (d.size(), k := d.size()), (d.size(), k), dtypes=("float32", "float64")),
        d.one_of(0.5, 1.0, 2.0, 3.0, float("inf")),
    ),
)
case(
    "nn.functional.cosine_similarity",
    lambda d: (*matrices(d, s := d.shape(2, 3, 1), s, dtypes=("float32", "float64")), d.int(0, 1)),
)
case(
    "cross",
    lambda d: (*matrices(d, (d.size(1), 3), (1, 3), dtypes=("float32", "float64")), {"dim": -1}),
    lambda a, b, dim: np.cross(a, b),
    16,
)


# --- linear algebra ------------------------------
def square(d: Draw, positive: bool = False) -> Any:
    n, batch = d.one_of(0, 1, 2, 3, 6), d.shape(0, 1)
    if n * n * int(np.prod(batch)) > 2000:
        batch = ()
    dtype = d.one_of("float32", "float64", "complex64", "complex128")
    a = d.array((*batch, n, n), dtype) + 4 * np.eye(n)
    return d.hold((a @ a.conj().swapaxes(-1, -2) if positive else a).astype(dtype), dtype)


case("linalg.inv inverse", lambda d: (square(d),), np.linalg.inv, 1e3)
case("linalg.det", lambda d: (square(d),), np.linalg.det, 1e3)
case(
    "linalg.slogdet logdet linalg.eigvals linalg.eig linalg.lu linalg.matrix_exp linalg.svdvals linalg.cond linalg.matrix_rank",
    lambda d: (square(d),),
)
case(
    "linalg.cholesky",
    lambda d: (square(d, True),),
    np.linalg.cholesky,
    1e3,
    "difference",
)  # its derivative is that for symmetric steps
case("linalg.eigvalsh", lambda d: (square(d, True),), np.linalg.eigvalsh, 1e3, "difference")
case(
    "linalg.eigh linalg.qr linalg.svd linalg.pinv cholesky_inverse",
    lambda d: (square(d, True),),
    but="difference",
)
case(
    "linalg.solve",
    lambda d: (a := square(d), like(d, a, (*a.tensor.shape[:-1], 2))),
    lambda a, b: np.linalg.solve(a, b),
    1e3,
)
case("linalg.matrix_power", lambda d: (square(d), d.int(-2, 4)), np.linalg.matrix_power, 1e5)
case("trace", lambda d: (d.numbers(2, 2),), np.trace, 8)

# --- spectra ------------------------------


def _draw_spectrum(real: bool) -> Callable[[Draw], tuple]:
    def draw(d: Draw) -> tuple:
        x = d.tensor(d.shape(1, 3, 2), d.one_of("float32", "float64") if real else d.one_of(*COMPLEX))
        return x, d.one_of(None, 1, 2, 5, 16), d.dim(x.tensor.dim())

    return draw


for _name in ("fft", "ifft", "hfft", "ihfft", "rfft", "irfft"):
    case(f"fft.{_name}", _draw_spectrum(_name in ("rfft", "ihfft")), getattr(np.fft, _name), 100)
for _name in ("fft2", "ifft2", "fftn", "ifftn"):
    case(
        f"fft.{_name}",
        lambda d: (d.tensor(d.shape(2, 3, 1), d.one_of("complex64", "complex128")),),
        getattr(np.fft, _name),
        100,
    )
case("fft.fftshift", lambda d: (d.numbers(1, 3),), np.fft.fftshift)
case("fft.ifftshift", lambda d: (d.numbers(1, 3),), np.fft.ifftshift)


# --- indexing ------------------------------
def _draw_gather(d: Draw) -> tuple:
    x = d.numbers(1, 3, least=1)
    dim = d.dim(x.tensor.dim())
    shape = [d.int(0, n) for n in x.tensor.shape]
    shape[dim] = d.size()
    return x, dim, d.index(tuple(shape), x.tensor.shape[dim])


def _gathered(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    part = x[tuple(slice(n) if k != dim % x.ndim else slice(None) for k, n in enumerate(index.shape))]
    return np.take_along_axis(part, index, dim)


def _draw_scatter(reduce: bool = False) -> Callable[[Draw], tuple]:
    def draw(d: Draw) -> tuple:
        x, dim, index = _draw_gather(d)
        return x, dim, index, like(d, x, index.array.shape)

    return draw


def _scatter_add(x: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    out = x.copy()
    places = list(np.indices(index.shape))
    places[dim] = index
    np.add.at(out, tuple(places), src)
    return out


case(both("gather"), _draw_gather, _gathered)
case(both("scatter_add") + " Tensor.scatter_add_", _draw_scatter(), _scatter_add, 60)
case(
    both("scatter") + " Tensor.scatter_", _draw_scatter(), but="difference"
)  # of places written twice, one stays
case(
    both("scatter_reduce"),
    lambda d: (
        *_draw_scatter()(d),
        d.one_of("sum", "prod", "mean", "amax", "amin"),
        {"include_self": d.chance(0.5)},
    ),
)
case(
    both("index_select"),
    lambda d: (
        x := d.numbers(1, 3, least=1),
        k := d.dim(x.tensor.dim()),
        d.index((d.size(),), x.tensor.shape[k]),
    ),
    lambda x, dim, i: np.take(x, i, dim),
)
case(
    both("index_add") + " Tensor.index_add_",
    lambda d: (
        x := d.floats(1, 3, least=1),
        k := d.dim(x.tensor.dim()),
        i := d.index((d.size(),), x.tensor.shape[k]),
        like(
            d, x, tuple(len(i.array) if a == k % x.tensor.dim() else n for a, n in enumerate(x.tensor.shape))
        ),
    ),
)
case(
    both("index_fill") + " Tensor.index_fill_",
    lambda d: (
        x := d.numbers(1, 3, least=1),
        k := d.dim(x.tensor.dim()),
        d.index((d.size(),), x.tensor.shape[k]),
        3,
    ),
)
case(
    both("take"),
    lambda d: (x := d.numbers(1, 3, least=1), d.index(d.shape(0, 2), x.tensor.numel(), True)),
    lambda x, i: np.take(x, i),
)
case(
    "take_along_dim",
    lambda d: (
        x := d.numbers(1, 3, least=1),
        d.index(tuple(x.tensor.shape), min(x.tensor.shape)),
        d.dim(x.tensor.dim()),
    ),
)
case(
    both("masked_select"),
    lambda d: (x := d.numbers(), d.hold(d.array(tuple(x.tensor.shape), "bool"), "bool")),
    lambda x, m: x[m],
)
case(
    both("masked_fill") + " Tensor.masked_fill_",
    lambda d: (x := d.numbers(), d.hold(d.array(d.broadcastable(tuple(x.tensor.shape)), "bool"), "bool"), 2),
    lambda x, m, v: np.where(m, np.asarray(v, x.dtype), x),
)
case(
    "where",
    lambda d: (
        d.tensor(s := d.shape(), "bool"),
        d.tensor(d.broadcastable(s), t := d.one_of(*NUMBERS)),
        d.tensor(d.broadcastable(s), t),
    ),
    np.where,
)
case(
    "Tensor.put_",
    lambda d: (
        x := d.numbers(1, 3, least=1),
        i := d.index(d.shape(0, 2), x.tensor.numel(), True),
        like(d, x, i.array.shape),
        {"accumulate": True},
    ),
)


def _draw_key(d: Draw, shape: tuple[int, ...]) -> tuple:
    """An index expression: slices, integers, None, an ellipsis, tensors of positions, masks."""
    key: list[Any] = []
    left = list(shape)
    while left and d.chance(0.8):
        n = left.pop(0)
        way = d.int(0, 5)
        if way == 0 and n:
            key.append(d.int(-n, n - 1))
        elif way == 1:
            key.append(
                slice(*(d.one_of(None, d.int(-n - 1, n + 1)) for _ in range(2)), d.one_of(None, 1, 2, 3))
            )
        elif way == 2 and n:
            key.append(d.index(d.one_of((), (3,), (2, 1), (0,)), n, True))
        elif way == 3:
            key.append(d.tensor((n,), "bool"))
        elif way == 4:
            left.insert(0, n)
            key.append(None)
        else:
            key.append(slice(None))
    if Ellipsis not in [k for k in key if type(k) is type(Ellipsis)] and d.chance(0.2):
        key.append(Ellipsis)
    return tuple(key)


def _draw_getitem(d: Draw) -> tuple:
    x = d.numbers(0, 4)
    return x, _draw_key(d, tuple(x.tensor.shape))


def _set(x: np.ndarray, key: tuple, value: Any) -> np.ndarray:
    out = x.copy()
    out[key] = value
    return out


def _taken(x: np.ndarray, key: tuple) -> np.ndarray:
    """NumPy's answer where positions without dimensions count as numbers, as they do in PyTorch."""
    return x[tuple(int(k) if isinstance(k, np.ndarray) and k.ndim == 0 else k for k in key)]


case("Tensor.__getitem__", _draw_getitem, _taken)
case(
    "Tensor.__setitem__", lambda d: (*_draw_getitem(d), d.int(-3, 3) if d.chance(0.5) else d.int(0, 2)), _set
)


# --- shapes ------------------------------
def _draw_cat(d: Draw) -> tuple:
    shape, dtype = list(d.shape(1, 3)), d.one_of(*NUMBERS)
    dim = d.dim(len(shape))
    parts = []
    for _ in range(d.int(1, 4)):
        shape[dim] = d.one_of(0, 1, 2, 5)
        parts.append(d.tensor(tuple(shape), dtype))
    return parts, dim


case("cat concat concatenate", _draw_cat, lambda parts, dim: np.concatenate(parts, dim))
case(
    "stack",
    lambda d: ([d.tensor(s := d.shape(0, 3), t := d.one_of(*NUMBERS)), d.tensor(s, t)], d.int(0, len(s))),
    lambda parts, dim: np.stack(parts, dim),
)
case("hstack", lambda d: ([d.tensor(s := d.shape(1, 3), "float32"), d.tensor(s, "float32")],), np.hstack)
case(
    "vstack row_stack",
    lambda d: ([d.tensor(s := d.shape(1, 3), "float32"), d.tensor(s, "float32")],),
    np.vstack,
)
case("dstack", lambda d: ([d.tensor(s := d.shape(1, 3), "float32"), d.tensor(s, "float32")],), np.dstack)
case(both("flip"), lambda d: (x := d.numbers(1, 4), d.dims(x.tensor.dim())), np.flip)
case(both("fliplr"), lambda d: (d.numbers(2, 4),), np.fliplr)
case(both("flipud"), lambda d: (d.numbers(1, 4),), np.flipud)
case(both("roll"), lambda d: (x := d.numbers(1, 4), d.int(-9, 9), d.dim(x.tensor.dim())), np.roll)
case(
    both("rot90"), lambda d: (d.numbers(2, 4), d.int(-4, 4), (0, 1)), lambda x, k, dims: np.rot90(x, k, dims)
)
case(both("tile"), lambda d: (d.numbers(0, 3), tuple(d.int(0, 3) for _ in range(d.int(1, 3)))), np.tile)
case(
    "Tensor.repeat",
    lambda d: (x := d.numbers(0, 2), tuple(d.int(0, 3) for _ in range(x.tensor.dim() + d.int(0, 2)))),
    np.tile,
)
case(
    both("repeat_interleave"), lambda d: (x := d.numbers(1, 3), d.int(0, 3), d.dim(x.tensor.dim())), np.repeat
)
case(both("tril") + " Tensor.tril_", lambda d: (d.numbers(2, 4), d.int(-5, 5)), np.tril)
case(both("triu") + " Tensor.triu_", lambda d: (d.numbers(2, 4), d.int(-5, 5)), np.triu)
case(both("diag"), lambda d: (d.numbers(1, 2), d.int(-3, 3)))
case(both("diagonal"), lambda d: (d.numbers(2, 4), d.int(-2, 2), 0, 1), np.diagonal)
case(both("diag_embed"), lambda d: (d.numbers(1, 3), d.int(-2, 2)))
case(
    "meshgrid",
    lambda d: (d.tensor((d.size(),), "int64"), d.tensor((d.size(),), "int64"), {"indexing": "ij"}),
    lambda a, b, indexing: tuple(np.meshgrid(a, b, indexing=indexing)),
)
case(
    both("movedim"),
    lambda d: (x := d.numbers(1, 4), d.dim(x.tensor.dim()), d.dim(x.tensor.dim())),
    np.moveaxis,
)
case(
    both("transpose") + " swapaxes swapdims",
    lambda d: (x := d.numbers(1, 4), d.dim(x.tensor.dim()), d.dim(x.tensor.dim())),
    np.swapaxes,
)
case(
    both("permute"),
    lambda d: (x := d.numbers(0, 4), tuple(d.random.sample(range(x.tensor.dim()), x.tensor.dim()))),
    np.transpose,
)
case(both("squeeze"), lambda d: (d.numbers(0, 4),), np.squeeze)
case(
    both("unsqueeze"),
    lambda d: (x := d.numbers(0, 4), d.int(-x.tensor.dim() - 1, x.tensor.dim())),
    np.expand_dims,
)
case(
    both("reshape"),
    lambda d: (x := d.numbers(0, 4), d.one_of((-1,), (x.tensor.numel(), 1), (1, x.tensor.numel()))),
    lambda x, s: x.reshape(s) if x.size or -1 not in s else x.reshape(0),
)
case(both("flatten") + " ravel", lambda d: (d.numbers(0, 4),), np.ravel)
case("Tensor.expand", lambda d: (x := d.numbers(0, 3), (2, *x.tensor.shape)), np.broadcast_to)
case(
    both("narrow"),
    lambda d: (
        x := d.numbers(1, 3),
        k := d.dim(x.tensor.dim()),
        a := d.int(0, x.tensor.shape[k]),
        d.int(0, x.tensor.shape[k] - a),
    ),
    lambda x, dim, a, n: np.take(x, range(a, a + n), dim),
)
case(
    both("select"),
    lambda d: (x := d.numbers(1, 3, least=1), k := d.dim(x.tensor.dim()), d.int(0, x.tensor.shape[k] - 1)),
    lambda x, dim, i: np.take(x, i, dim),
)
case(
    both("split") + " split_with_sizes",
    lambda d: (x := d.numbers(1, 3), [a := d.int(0, x.tensor.shape[0]), x.tensor.shape[0] - a], 0),
    lambda x, s, dim: tuple(np.split(x, [s[0]], dim)),
)
case(both("chunk"), lambda d: (x := d.numbers(1, 3), d.int(1, 4), d.dim(x.tensor.dim())))
case(
    both("tensor_split"),
    lambda d: (x := d.numbers(1, 3), d.int(1, 4), d.dim(x.tensor.dim())),
    lambda x, n, dim: tuple(np.array_split(x, n, dim)),
)
case(
    both("unbind"),
    lambda d: (x := d.numbers(1, 3), d.dim(x.tensor.dim())),
    lambda x, dim: tuple(np.moveaxis(x, dim, 0)),
)
case(
    "Tensor.unfold",
    lambda d: (
        x := d.numbers(1, 3, least=1),
        k := d.dim(x.tensor.dim()),
        d.int(1, x.tensor.shape[k]),
        d.int(1, 3),
    ),
)
case("Tensor.as_strided", lambda d: (d.numbers(1, 2, least=4), (2, 2), (1, 1), 0), but="layout")
case("atleast_1d atleast_2d atleast_3d", lambda d: (d.numbers(0, 3),))
case("combinations", lambda d: (d.tensor((d.int(0, 6),), "int64"), d.int(1, 3)))
case("cartesian_prod", lambda d: (d.tensor((d.size(),), "int64"), d.tensor((d.int(0, 5),), "int64")))
case("block_diag", lambda d: (d.tensor(d.shape(2, 2)[:2], "float32"), d.tensor((2, 3), "float32")))
case(
    "broadcast_tensors",
    lambda d: (d.tensor(s := d.shape(), "float32"), d.tensor(d.broadcastable(s), "float32")),
    lambda a, b: tuple(np.broadcast_arrays(a, b)),
)
case(
    "nn.functional.pad",
    lambda d: (
        d.floats(2, 4, least=3),
        tuple(d.int(0, 2) for _ in range(2)),
        d.one_of("constant", "constant", "reflect", "replicate", "circular"),
    ),
)
case(
    "nn.functional.one_hot",
    lambda d: (d.index(d.shape(0, 3), 5), d.one_of(5, 7)),
    lambda x, n: np.eye(n, dtype="int64")[x],
)
case("nn.functional.pixel_shuffle", lambda d: (d.tensor((2, 8, 3, d.size()), "float32"), 2))
case("nn.functional.pixel_unshuffle", lambda d: (d.tensor((2, 3, 4, 2 * d.size()), "float32"), 2))

# --- creation ------------------------------
case("arange", lambda d: (d.int(-5, 5), d.int(5, 30), d.int(1, 4)), np.arange)
case(
    "linspace",
    lambda d: (d.float(), d.float(), d.size(), {"dtype": "float64"}),
    lambda a, b, n, dtype: np.linspace(a, b, n),
    4,
)
case("eye", lambda d: (d.size(), d.size()), np.eye)
case("zeros ones empty", lambda d: (d.shape(),))
case("full", lambda d: (d.shape(), d.one_of(3, 0.5, True)), np.full)
for _name in ("zeros_like", "ones_like"):
    case(_name, lambda d: (d.numbers(),), getattr(np, _name))
case(
    "tril_indices",
    lambda d: (d.size(), d.size(), d.int(-3, 3)),
    lambda n, m, k: np.stack(np.tril_indices(n, k, m)),
)
case(
    "triu_indices",
    lambda d: (d.size(), d.size(), d.int(-3, 3)),
    lambda n, m, k: np.stack(np.triu_indices(n, k, m)),
)
case("vander", lambda d: (d.tensor((d.size(),), "float64"), d.int(0, 4)), lambda x, n: np.vander(x, n), 40)
for _name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
    case(f"{_name}_window", lambda d: (d.size(),))
